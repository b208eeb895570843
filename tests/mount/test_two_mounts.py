"""Two daemons on one database, both writing as fast as they can: no error, no lost write.

`TEST_SOAK_SECONDS` in the environment says for how long; a minute is a good soak.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from memfs.model.objects import SessionActor
from tests.harness.mounts import Mount, launch, new_database
from tests.harness.waiting import eventually

SECONDS = float(os.environ.get("TEST_SOAK_SECONDS", "20"))

WRITER = """
import json, os, random, sys, time
seed, seconds = sys.argv[1], float(sys.argv[2])
choose = random.Random(seed)
kept, count = {}, 0
os.makedirs(f'w{seed}', exist_ok=True)
end = time.monotonic() + seconds
while time.monotonic() < end:
    count += 1
    name = f'w{seed}/{choose.randrange(40)}.md'
    way = choose.randrange(5)
    text = f'{count} ' + 'x' * choose.randrange(3000)
    if way == 0 and name in kept:
        os.unlink(name)
        del kept[name]
    elif way == 1 and name in kept:
        other = f'w{seed}/r{choose.randrange(10)}.md'
        os.replace(name, other)
        kept[other] = kept.pop(name)
    elif way == 2:
        with open(name + '.tmp', 'w') as f: f.write(text)
        os.replace(name + '.tmp', name)
        kept[name] = text
    elif way == 3 and name in kept:
        with open(name, 'a') as f: f.write('+' + text[:20])
        kept[name] += '+' + text[:20]
    else:
        fd = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.write(fd, text.encode())
        os.close(fd)
        kept[name] = text
    if name in kept and open(name).read() != kept[name]:
        sys.exit(f'{name} reads differently from what was written')
json.dump([count, kept], sys.stdout)
"""


def shown(mount: Mount) -> dict[str, str]:
    """Every file of the mount and what it holds."""
    return {f"/{path.relative_to(mount.store)}": path.read_text() for path in mount.store.rglob("*.md") if path.is_file()}


def test_two_mounts_write_at_full_speed(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with (
        launch(tmp_path, store, database=database) as here,
        launch(tmp_path, store, database=database, name="n") as there,
    ):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, name, str(SECONDS)],
                cwd=mount.store,
                env=mount.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name, mount in (("1", here), ("2", there))
        ]
        kept: dict[str, str] = {}
        try:
            for writer in writers:
                output, errors = writer.communicate(timeout=SECONDS + 40)
                assert (writer.returncode, errors) == (0, "")
                count, written = json.loads(output)
                print(f"{count / SECONDS:.0f} changes a second")
                assert count > 10
                kept.update((f"/{name}", text) for name, text in written.items())
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        eventually(lambda: store.memories(), kept, within=5)
        for mount in (here, there):
            eventually(partial(shown, mount), kept, within=5)
        for mount in (here, there):
            assert (mount.path / ".memfs" / "errors").read_text() == ""
            assert (mount.path / ".memfs" / "conflicts").read_text() == ""
        for name, mount in (("1", here), ("2", there)):
            authors = {str(version.created_by) for version in store.history(f"/w{name}/")}
            assert authors == {str(SessionActor(session_id=mount.session_id))}
