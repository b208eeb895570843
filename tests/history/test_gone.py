"""Versions that go away: pruned by the service, or redacted. What a reader is told, and where the bytes are afterwards."""

import os
from pathlib import Path

import pytest

from tests.harness.errnos import refuses
from tests.harness.waiting import eventually
from tests.history.sites import Site, site

BOUND_SECONDS = 2.0
"""The default of --max-staleness."""
SLACK_SECONDS = 1.0
"""What a busy machine may add."""


def versions(place: Site, name: str) -> list[Path]:
    return sorted((place.history / name).iterdir())


def told(place: Site, name: str) -> list[tuple[str, str]]:
    """What `.memfs/errors` says of a path: errno and message."""
    return [(line["error"], line["message"]) for line in place.errors() if line["path"].endswith(f"/{name}")]


def test_a_version_that_is_pruned_between_ls_and_cat(place: Site) -> None:
    place.sh("echo one > a.md && echo two > a.md && echo three > a.md")
    place.sh("sleep 1.1")
    names = versions(place, "a.md")
    gone = next(name for name in names if name.read_bytes() == b"two\n")
    place.prune(gone.name.split("-")[-1].removesuffix(".md"))
    eventually(
        lambda: place.run(f"cat '{gone}'").stderr, f"cat: {gone}: No such file or directory\n", BOUND_SECONDS + SLACK_SECONDS
    )
    error, message = told(place, f"a.md/{gone.name}")[-1]
    assert error == "ENOENT"
    assert "does not keep" in message
    eventually(lambda: versions(place, "a.md"), [name for name in names if name != gone], BOUND_SECONDS + SLACK_SECONDS)
    assert place.sh("cat a.md") == "three\n"


def test_a_version_that_is_redacted_between_ls_and_cat(place: Site) -> None:
    place.sh("echo secret > a.md && echo clean > a.md && ls -l ../.versions/$(basename $PWD)/a.md > /dev/null")
    _, old = place.versions("a.md")
    names = versions(place, "a.md")
    redacted = next(name for name in names if old["id"] in name.name)
    with redacted.open("rb") as opened:
        assert opened.read() == b"secret\n"
        place.memfs("redact", place.here / "a.md", old["id"], "--yes", **place.administrator)
        within = BOUND_SECONDS + SLACK_SECONDS
        eventually(lambda: place.run(f"cat '{redacted}'").stderr, f"cat: {redacted}: Permission denied\n", within)
        opened.seek(0)
        with refuses(13):
            opened.read()
    error, message = told(place, f"a.md/{redacted.name}")[-1]
    assert error == "EACCES"
    assert "removed the content" in message
    assert versions(place, "a.md") == names, "that it was made stays in the history"
    eventually(lambda: redacted.stat().st_size, 0, within)
    assert os.getxattr(redacted, "user.memory.redacted_at").decode().startswith("20")
    with pytest.raises(OSError):
        os.getxattr(redacted, "user.memory.path")
    assert place.sh(f"cat '{next(name for name in names if name != redacted)}' a.md") == "clean\nclean\n"


def test_a_redaction_shows_in_the_store_at_a_time(place: Site) -> None:
    place.sh("echo secret > a.md && sleep 1.1 && echo clean > a.md")
    head, old = place.versions("a.md")
    then = place.history.parent / f"@{old['created_at']}" / place.corner / "a.md"
    assert then.read_bytes() == b"secret\n"
    place.memfs("redact", place.here / "a.md", old["id"], "--yes", **place.administrator)
    eventually(lambda: "denied" in place.run(f"cat '{then}'").stderr, True, BOUND_SECONDS + SLACK_SECONDS)
    now = place.history.parent / f"@{head['created_at']}" / place.corner / "a.md"
    assert now.read_bytes() == b"clean\n"


SECRET = b"correct-horse-battery-staple-4711"


def holding_secret(root: Path) -> list[str]:
    """Every file below `root`, outside of the mount, that has the secret in any of its bytes."""
    found = []
    for above, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not os.path.ismount(os.path.join(above, name))]
        for name in names:
            try:
                content = Path(above, name).read_bytes()
            except FileNotFoundError:
                continue  # a log that was cut, or a temporary file
            if SECRET in content:
                found.append(os.path.join(above, name))
    return found


@pytest.mark.parametrize("kind", ["sql", "serve", "oma"])
def test_redacted_bytes_are_in_no_file(kind: str, tmp_path: Path) -> None:
    """Cache, journal, state and database, with logs and free pages; in each way that the bytes can get there."""
    with site(kind, tmp_path) as place:
        secret = SECRET.decode()
        many = "for i in $(seq 300); do echo padding $i; done"
        place.sh(f"(echo {secret}; {many}) > a.md && cat a.md > /dev/null")
        place.sh(f"echo before > b.md && (echo {secret} {secret}; {many}) > new.tmp && mv new.tmp b.md && cat b.md > /dev/null")
        place.sh(f"(echo {secret}; sleep 0.1; echo {secret} more) > c.md")
        for name in ("a.md", "b.md", "c.md"):
            place.sh(f"cat .versions/{name}/* > /dev/null")
        assert place.kind == "oma" or holding_secret(tmp_path), "the database has it, or the search finds nothing at all"
        place.sh("echo clean > a.md && echo clean > b.md && rm c.md")
        place.sh("cat .versions/@log > /dev/null")
        for name in ("a.md", "b.md", "c.md"):
            for version in place.versions(name):
                if version["operation"] != "deleted" and version["content_size_bytes"] not in (6, 7):
                    place.memfs("redact", place.here / name, version["id"], "--yes", **place.administrator)
        eventually(lambda: holding_secret(tmp_path), [], BOUND_SECONDS + SLACK_SECONDS)
        for name in ("a.md", "b.md", "c.md"):
            assert secret not in place.run(f"cat .versions/{name}/*; cat {name}").stdout
        assert place.sh("grep -rl . .") == "./a.md\n./b.md\n"


@pytest.mark.parametrize("kind", ["serve", "oma"])
def test_what_another_mount_reads_is_forgotten_too(kind: str, tmp_path: Path) -> None:
    """A secret that somebody else wrote was read here, then replaced and redacted there."""
    with site(kind, tmp_path) as place:
        place.sh(f"echo {SECRET.decode()} > a.md")
        other = place.another("other")
        assert SECRET in (other / "a.md").read_bytes()
        (place.here / "a.md").write_text("clean\n")
        _, old = place.versions("a.md")
        place.memfs("redact", place.here / "a.md", old["id"], "--yes", **place.administrator)
        eventually(lambda: (other / "a.md").read_bytes(), b"clean\n", BOUND_SECONDS + SLACK_SECONDS)
        eventually(lambda: holding_secret(tmp_path), [], BOUND_SECONDS + SLACK_SECONDS)


@pytest.mark.parametrize("kind", ["serve", "oma"])
def test_what_was_redacted_while_nothing_was_mounted(kind: str, tmp_path: Path) -> None:
    """The cache on disk outlives a mount; the next one forgets what is no memory's content any more."""
    with site(kind, tmp_path) as place:
        place.sh(f"echo {SECRET.decode()} > a.md && echo {SECRET.decode()} again > b.md && cat a.md b.md > /dev/null")
        place.program.ok("umount", place.mountpoint)
        elsewhere = place.another("elsewhere", XDG_CACHE_HOME=str(tmp_path / "m2"), XDG_STATE_HOME=str(tmp_path / "m3"))
        (elsewhere / "a.md").write_text("clean\n")
        (elsewhere / "b.md").unlink()
        place.program.ok("umount", elsewhere.parent, XDG_STATE_HOME=str(tmp_path / "m3"))
        place.mount()
        for name in ("a.md", "b.md"):
            version = place.versions(name)[-1]
            place.memfs("redact", place.here / name, version["id"], "--yes", **place.administrator)
        eventually(lambda: holding_secret(tmp_path), [], BOUND_SECONDS + SLACK_SECONDS)
