"""Tools that save by a temporary file while the service is away."""

import errno
import os
import time

from tests.faults.worlds import World, drained
from tests.harness.errnos import refuses
from tests.harness.mounts import settle


def test_the_temporary_file_of_a_failed_save_never_reaches_the_store(bad: World) -> None:
    with bad.mount("m", "--timeout", "3") as mount:
        (mount.store / "note.md").write_text("one\n")
        assert mount.sh("cat note.md") == "one\n"
        bad.proxy.down = True
        failed = mount.run("sed -i s/one/two/ note.md")
        assert "cannot rename" in failed.stderr, failed
        left = mount.sh("cat sed*").splitlines() if os.listdir(mount.store) != ["note.md"] else []
        assert left in ([], ["two"])
        settle()
        bad.proxy.down = False
        drained(mount, within=15)
        mount.sh("sed -i s/one/three/ note.md; rm -f sed*")
        assert mount.sh("ls; cat note.md") == "note.md\nthree\n"
    assert {version.path for version in bad.store.history()} == {"/note.md"}


def test_a_sync_asks_a_service_that_is_away_once_not_for_each_file(bad: World) -> None:
    with bad.mount("m", "--timeout", "2") as mount:
        mount.sh("ls")
        bad.proxy.down = True
        for number in range(4):
            with refuses(errno.EIO):
                (mount.store / f"{number}.md").write_text(f"{number}\n")
        descriptor = os.open(mount.store, os.O_RDONLY | os.O_DIRECTORY)
        began = time.monotonic()
        with refuses(errno.EIO):
            os.fsync(descriptor)
        took = time.monotonic() - began
        os.close(descriptor)
        assert took < 6.0, f"fsync of the directory took {took:.1f} s"
        bad.proxy.down = False
        drained(mount, within=15)
    assert bad.store.memories() == {f"/{number}.md": f"{number}\n" for number in range(4)}
