"""`.versions` as a shell sees it: hidden, browsable, read-only, and good for bringing an old version back."""

import errno
import os

from memfs.model.objects import format_time
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, Place
from tests.harness.waiting import eventually


def versions(place: Place, name: str) -> list[str]:
    return place.sh(f"ls ../.versions/{place.path.name}/{name}").splitlines()


def test_every_version_is_a_file_with_its_content_and_time(place: Place) -> None:
    place.sh("echo one > a.md; echo two > a.md; mv a.md b.md; rm b.md")
    eventually(lambda: "b.md" in place.memories(), False, within=2)
    recorded = [version for _, version in place.named_versions()]
    assert [version.operation for version in recorded] == ["created", "modified", "modified", "deleted"]
    names = sorted({*versions(place, "a.md"), *versions(place, "b.md")})
    assert [name.split("-")[1] for name in names] == ["created", "modified", "modified", "deleted"]
    for name, version in zip(names, recorded, strict=True):
        assert version.id in name
        assert name.startswith(format_time(version.created_at).replace("-", "").replace(":", ""))
        file = place.mount.store / ".versions" / place.path.name / "b.md" / name
        assert os.getxattr(file, "user.memory.operation").decode() == version.operation
        assert os.getxattr(file, "user.memory.session_id").decode() == place.mount.session_id
    history = f"../.versions/{place.path.name}/b.md"
    assert place.sh(f"cat {history}/*") == "one\ntwo\ntwo\n"
    seconds = float(place.sh(f"stat -c %.Y {history}/{names[0]}"))
    assert abs(seconds - recorded[0].created_at.timestamp()) < 0.001


def test_an_old_version_is_brought_back_by_cp(place: Place) -> None:
    place.sh("echo good > a.md; echo bad > a.md")
    first = versions(place, "a.md")[0]
    place.sh(f"cp ../.versions/{place.path.name}/a.md/{first} a.md")
    assert place.memories() == {"a.md": "good\n"}
    assert place.operations("a.md") == ["created", "modified", "modified"]
    place.sh("rm a.md")
    eventually(lambda: place.memories(), {}, within=2)
    assert len(versions(place, "a.md")) == 4
    place.sh(f"cp ../.versions/{place.path.name}/a.md/{first} a.md && cat a.md")
    assert place.memories() == {"a.md": "good\n"}


def test_the_store_as_it_was(place: Place) -> None:
    place.sh("echo one > a.md; mkdir d; echo two > d/b.md")
    then = format_time(max(version.created_at for _, version in place.named_versions()))
    place.sh("echo changed > a.md; rm -r d; echo new > c.md")
    root = f"../.versions/@{then}/{place.path.name}"
    assert (
        place.sh(f"cd {root} && find . -type f | sort | xargs tail -n +1") == "==> ./a.md <==\none\n\n==> ./d/b.md <==\ntwo\n"
    )
    assert place.sh(f"ls ../.versions/@1h/{place.path.name} 2>&-; true") == ""
    assert place.sh(f"diff -r {root} . | sort; true").count("Only in") == 2


def test_the_log_names_every_change_newest_first(place: Place) -> None:
    place.sh("echo one > a.md; echo two > a.md")
    lines = [line for line in place.sh("cat ../.versions/@log").splitlines() if place.path.name in line]
    assert len(lines) == 2
    assert "modified" in lines[0]
    assert "created" in lines[1]
    assert all(place.mount.session_id in line for line in lines)
    objects = place.sh(f"grep {place.path.name} ../.versions/@log.jsonl | jq -r '[.operation, .type] | join(\" \")'")
    assert objects == "modified memory_version\ncreated memory_version\n"


def test_history_is_hidden_and_cannot_be_changed(fresh: Mount) -> None:
    fresh.sh("echo one > a.md && echo two > a.md && mkdir d && echo x > d/b.md")
    assert fresh.sh("ls -A; find . | sort; grep -rl one . || true") == "a.md\nd\n.\n./a.md\n./d\n./d/b.md\n"
    assert fresh.sh("cd .versions && ls -A") != ""
    history = fresh.store / ".versions"
    first = history / "a.md" / sorted(os.listdir(history / "a.md"))[0]
    for call in (
        lambda: os.open(first, os.O_WRONLY),
        lambda: os.unlink(first),
        lambda: os.rename(first, history / "other"),
        lambda: os.mkdir(history / "new"),
        lambda: os.rmdir(history / "a.md"),
        lambda: os.chmod(first, 0o777),
        lambda: os.utime(first, (0, 0)),
        lambda: os.truncate(first, 0),
        lambda: os.open(history / "new", os.O_CREAT | os.O_WRONLY),
        lambda: os.symlink("x", history / "l"),
    ):
        with refuses(errno.EROFS):
            call()
    with refuses(errno.EEXIST, errno.EROFS):
        os.mkdir(history)
    before = len(fresh.inspector.history())
    result = fresh.run("rm -rf d a.md && ls -A")
    assert (result.returncode, result.stdout) == (0, "")
    eventually(lambda: len(fresh.inspector.history()), before + 2, within=2)
    assert len(os.listdir(history / "a.md")) == 3
