"""`memfs stores` on a real database."""

import json
import os
import pty
import stat
import subprocess
import sys

import pytest

from tests.cli.conftest import Program


def test_a_store_from_creation_to_deletion(program: Program) -> None:
    (created,) = program.objects("stores", "create", "User preferences", "--description", "Tastes", "--metadata", "team=x=y")
    assert created["type"] == "memory_store"
    assert created["name"] == "User preferences"
    assert created["description"] == "Tastes"
    assert created["metadata"] == {"team": "x=y"}
    assert created["archived_at"] is None

    assert program.objects("stores", "list") == [created]
    for key in (created["id"], "User preferences", "user-preferences"):
        assert program.objects("stores", "show", key) == [created]

    change = ("--name", "Preferences", "--metadata", "a=1", "--unset", "team", "--description", "")
    (changed,) = program.objects("stores", "update", "User preferences", *change)
    assert (changed["id"], changed["name"], changed["description"]) == (created["id"], "Preferences", "")
    assert changed["metadata"] == {"a": "1"}

    (archived,) = program.objects("stores", "archive", "Preferences")
    assert archived["archived_at"] is not None
    assert program.objects("stores", "archive", created["id"]) == [archived]
    assert program.objects("stores", "list") == []
    assert program.objects("stores", "list", "--all") == [archived]
    assert "archived" in program.refused("stores", "update", created["id"], "--name", "No")

    (deleted,) = program.objects("stores", "delete", created["id"], "--yes")
    assert deleted == {"id": created["id"], "type": "memory_store_deleted"}
    assert program.objects("stores", "list", "--all") == []
    program.refused("stores", "show", created["id"])


def test_create_prints_the_id(program: Program) -> None:
    printed = program.ok("stores", "create", "A")
    assert program.objects("stores", "list")[0]["id"] == printed.strip()


def test_list_is_newest_first_and_has_one_line_a_store(program: Program) -> None:
    names = [f"Store {number}" for number in range(25)]
    for name in names[:3]:
        program.ok("stores", "create", name)
    lines = program.ok("stores", "list").splitlines()
    assert [line.split("\t")[1] for line in lines] == names[2::-1]
    assert [store["name"] for store in program.objects("stores", "list")] == names[2::-1]


def test_the_database_is_private(program: Program) -> None:
    program.ok("stores", "create", "A")
    assert stat.S_IMODE(program.database.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(program.database.stat().st_mode) & 0o077 == 0


def test_the_url_comes_from_the_option_or_the_environment(program: Program) -> None:
    url = f"sqlite:///{program.root / 'other.db'}"
    program.ok("stores", "create", "There", "--url", url)
    assert "There" in program.ok("stores", "list", MEMFS_URL=url)
    assert program.ok("stores", "list") == ""
    program.ok("stores", "create", "Relative", "--url", "sqlite:///other.db")
    assert "Relative" in program.ok("stores", "list", "--url", url)


def test_one_name_for_two_stores_is_refused_with_both_ids(program: Program) -> None:
    ids = [program.ok("stores", "create", "Same").strip() for _ in range(2)]
    said = program.refused("stores", "show", "Same")
    assert all(store_id in said for store_id in ids)
    assert program.objects("stores", "show", ids[0])[0]["id"] == ids[0]


def test_an_unknown_store_is_told_with_those_that_exist(program: Program) -> None:
    assert "none at all" in program.refused("stores", "show", "X")
    program.ok("stores", "create", "Handbook")
    assert "'Handbook'" in program.refused("stores", "show", "X")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("stores", "create", ""), "name"),
        (("stores", "create", "x" * 256), "255"),
        (("stores", "create", "x", "--description", "y" * 1025), "1,024"),
    ],
)
def test_what_the_contract_refuses_is_one_line(program: Program, arguments: tuple[str, ...], word: str) -> None:
    said = program.refused(*arguments)
    assert word in said or word.replace(",", "") in said
    assert program.ok("stores", "list", "--all") == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("stores", "update", "A"),
        ("stores", "create", "A", "--metadata", "novalue"),
        ("stores", "create"),
        ("stores", "nonsense"),
        ("stores", "list", "--nonsense"),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(program: Program, arguments: tuple[str, ...]) -> None:
    assert "--help" in program.refused(*arguments, code=2)


def test_an_unknown_kind_of_url_is_told_without_its_password(program: Program) -> None:
    said = program.refused("stores", "list", "--url", "mysql://me:secret@localhost/db")
    assert "mysql" in said
    assert "secret" not in said


def answer(program: Program, text: bytes, *arguments: str) -> int:
    """Run the program at a terminal, type `text`, and return its exit code."""
    terminal, end = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "memfs", *arguments],
            env=program.environment,
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.write(terminal, text)
        _, said = process.communicate(timeout=30)
        assert b"whole history?" in said
        return process.returncode
    finally:
        os.close(terminal)
        os.close(end)


def test_delete_asks_first(program: Program) -> None:
    store_id = program.ok("stores", "create", "Kept").strip()
    assert "--yes" in program.refused("stores", "delete", "Kept")
    assert answer(program, b"n\n", "stores", "delete", "Kept") == 1
    assert [store["id"] for store in program.objects("stores", "list")] == [store_id]
    assert answer(program, b"y\n", "stores", "delete", "Kept") == 0
    assert program.ok("stores", "list") == ""


def test_debug_shows_the_traceback_of_an_error(program: Program) -> None:
    done = program.run("--debug", "stores", "show", "X")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "Traceback" not in program.run("stores", "show", "X").stderr


def test_names_cannot_steer_the_terminal(program: Program) -> None:
    program.ok("stores", "create", "A", "--description", "red \x1b[31m alert")
    for arguments in (("stores", "list"), ("stores", "show", "A"), ("stores", "list", "--json")):
        assert "\x1b" not in program.ok(*arguments)
    assert json.loads(program.ok("stores", "list", "--json"))["description"] == "red \x1b[31m alert"
