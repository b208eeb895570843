"""What a mount leaves for the next one to know which contents of the disk cache are old."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memfs.model.content import sha256_of
from memfs.model.ids import new_memory_id
from memfs.replica.former import Former

TIME = datetime(2026, 8, 26, 12, 0, 0, 185_042, UTC)
OLD, NEW = sha256_of(b"old"), sha256_of(b"new")


def test_what_was_saved_is_read_and_carried_on(tmp_path: Path) -> None:
    first, second = new_memory_id(), new_memory_id()
    Former(tmp_path).save(TIME, {first: OLD, second: OLD})
    assert (tmp_path / "heads.json").stat().st_mode & 0o777 == 0o600
    former = Former(tmp_path)
    assert former.newest == TIME
    assert former.superseded(first, OLD) is None, "a rename changes no content"
    assert former.superseded(first, NEW) == OLD
    assert former.superseded(first, NEW) is None, "it is told once"
    former.save(TIME, {first: NEW})
    again = Former(tmp_path)
    assert again.heads == {first: NEW, second: OLD}
    assert again.superseded(second, None) == OLD, "it was deleted, or redacted since"
    assert again.superseded(new_memory_id(), NEW) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"newest": 1, "heads": {}}', '{"newest": "2026-08-26T12:00:00Z", "heads": {"mem_1": "../x"}}']
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "heads.json").write_text(text)
    former = Former(tmp_path)
    assert (former.newest, former.heads) == (None, {})


def test_a_disk_that_fails_is_passed_over(tmp_path: Path) -> None:
    Former(tmp_path / "missing").save(TIME, {})
    assert not (tmp_path / "missing").exists()
