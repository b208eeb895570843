"""`memfs status --watch` on a terminal and for a program."""

import contextlib
import json
import subprocess
import sys
import threading
import time

from memfs.cli.watch import Watch, unsaved
from tests.cli.conftest import Program
from tests.harness.terminal import type_into
from tests.harness.waiting import eventually


def test_for_a_program_an_object_a_second(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    process = subprocess.Popen(
        [sys.executable, "-m", "memfs", "status", "--watch", "--json"],
        env=program.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        objects = [json.loads(process.stdout.readline()) for _ in range(2)]
    finally:
        process.kill()
        process.communicate()
    assert {item["mountpoint"] for item in objects} == {str(program.mountpoint)}
    looking, records = Watch(), program.registry.records()
    (first,) = looking.rows(records, 0.0)
    (second,) = looking.rows(records, 2.0)
    assert first[:2] == (f"{program.mountpoint}/memory", "live")
    assert (first[-1], second[-1]) == ("", "0.0")
    (program.mountpoint / "memory/a.md").write_text("x")
    with contextlib.suppress(OSError):
        (program.mountpoint / "memory/binary").write_bytes(b"\xff")
    eventually(lambda: [line.split()[0] for line in unsaved(program.registry.records())], ["refused"], within=4)
    (program.mountpoint / "memory/binary").unlink()
    assert "--json" in program.refused("status", "--watch", code=2)


def test_on_a_terminal_until_interrupted(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    began = time.monotonic()
    writer = threading.Timer(0.5, (program.mountpoint / "memory/a.md").write_text, ["x"])
    writer.start()
    status = type_into(
        [sys.executable, "-m", "memfs", "status", "--watch"],
        [b"\x03"],
        cwd=program.root,
        environment={**program.environment, "TERM": "xterm"},
    )
    writer.join()
    assert status == 130
    assert time.monotonic() - began < 20
