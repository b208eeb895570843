"""Faults that users met, each as the shortest way to it."""

import os
import subprocess
import sys

from tests.harness.mounts import Place

REPLACE = "import os, sys; open('new.tmp', 'w').write(sys.argv[1]); os.replace('new.tmp', 'note.md')"


def replace_note(place: Place, text: str) -> None:
    """An atomic save of note.md by a process that has not read it."""
    subprocess.run([sys.executable, "-c", REPLACE, text], cwd=place.path, check=True, timeout=30)


def test_a_reader_that_comes_late_to_a_replaced_file_makes_no_conflict(place: Place) -> None:
    """Its look-up came before the replacement and its open after: what the next save is based on is still the newest version."""
    (place / "note.md").write_text("one\n")
    looked_up = os.open(place / "note.md", os.O_PATH)
    try:
        replace_note(place, "two\n")
        with open(f"/proc/self/fd/{looked_up}") as late:
            assert late.read() == "one\n"
        replace_note(place, "three\n")
    finally:
        os.close(looked_up)
    assert place.memories() == {"note.md": "three\n"}
    assert place.operations("note.md") == ["created", "modified", "modified"]
