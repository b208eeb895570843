"""Over a network: memfs on `memfs serve`, sshfs, s3fs, rclone, and the official SDK's sync, each behind the same round trip."""

import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.bench import latency, running, stores, subjects
from scripts.bench.latency import Link
from scripts.bench.running import CLIENT_CPU, PEERS_PYTHON, Command, Failed, Mounted
from scripts.bench.stores import Served
from scripts.bench.tree import SMALL, Tree
from scripts.bench.workloads import CALLS, WALKS, Calls, Wrong, call, walk

MEMFS = "memfs"
PEERS = ("sshfs", "s3fs", "rclone")
QUICK_WALKS = ("ls -lR", "grep -r")
LAST_WALK = "grep -r"
"""After which the calls are made, on a mount where everything was read once."""
MEMFS_CALLS = 40
PEER_CALLS = 10
"""How many calls of each are made to a peer; some take a second."""
PARKED_SECONDS = 1.0
LONGEST_LOOK = 25.0
"""Seconds after which nobody looks any more whether another's save shows."""

Say = Callable[[str], None]


@dataclass
class Far:
    """What is at the other end of the wire."""

    served: Served
    shell: subjects.Shell
    directory: Path
    s3_port: int


@contextlib.contextmanager
def far_side(work: Path, tree: Tree) -> Iterator[Far]:
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(stores.serve(work / "served", tree))
        shell = stack.enter_context(subjects.sshd(work))
        directory = stack.enter_context(subjects.memory_directory())
        tree.write(directory)
        yield Far(served, shell, directory, stack.enter_context(subjects.s3(work, tree)))


@contextlib.contextmanager
def mounted(name: str, work: Path, far: Far, wires: dict[str, Link]) -> Iterator[Mounted]:
    """A fresh mount of one subject, nothing of it cached."""
    wire = wires[name]
    match name:
        case "memfs":
            subject = stores.mount(work, wire.url, far.served.store, key=far.served.key)
        case "sshfs":
            subject = subjects.sshfs(work, far.shell, wire.port, far.directory)
        case "s3fs":
            subject = subjects.s3fs(work, wire.port)
        case _:
            subject = subjects.rclone(work, wire.port)
    with subject as mount:
        yield mount


def compare(work: Path, round_trip: float, *, quick: bool, say: Say) -> dict[str, Any]:
    """Walks and calls of each subject behind `round_trip` seconds, and how soon one mount shows what another saved.

    `quick`: fewer passes, and nobody waits for the peers to show anything.
    """
    tree, passes = SMALL, 3 if quick else 7
    results: dict[str, Any] = {}
    with far_side(work, tree) as far, wires(far, round_trip) as wire:
        for name in (MEMFS, *PEERS):
            say(f"at {round_trip * 1000:g} ms: {name}")
            if name == MEMFS:
                results[name] = measure(name, work, far, wire, tree, passes, quick=quick)
            elif (figures := measure_peer(name, work, far, wire, tree, quick=quick, say=say)) is not None:
                results[name] = figures
        results[MEMFS] |= {"second_mount": second_mount(work, far, wire[MEMFS], tree)}
        say(f"at {round_trip * 1000:g} ms: from one mount to another")
        saves = {name: 2 * passes if name == MEMFS else 0 if quick else 2 for name in (MEMFS, *PEERS)}
        spread = {name: propagation(name, work, far, wire, saves[name]) for name in results if saves[name]}
    shape = {"notes": tree.notes, "directories": tree.directories}
    return {**shape, "round_trip_ms": latency.measured(round_trip) * 1000, "subjects": results, "propagation_s": spread}


@contextlib.contextmanager
def wires(far: Far, round_trip: float) -> Iterator[dict[str, Link]]:
    ports = {MEMFS: far.served.port, "sshfs": far.shell.port, "s3fs": far.s3_port, "rclone": far.s3_port}
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(latency.link(("127.0.0.1", port), round_trip)) for name, port in ports.items()}


def measure_peer(
    name: str, work: Path, far: Far, wires: dict[str, Link], tree: Tree, *, quick: bool, say: Say
) -> dict[str, Any] | None:
    """As `measure`, a second time where it fails; None, and a word on it, where it fails again: the others still count."""
    for _ in range(2):
        try:
            return measure(name, work, far, wires, tree, 1, quick=quick)
        except Failed as error:
            say(f"{name} failed: {error}")
    return None


def measure(name: str, work: Path, far: Far, wires: dict[str, Link], tree: Tree, passes: int, *, quick: bool) -> dict[str, Any]:
    """The walks on fresh mounts, each once cold and once warm, and the calls on the last of them.

    `quick`: the peers make two walks, and no warm ones.
    """
    short = quick and name != MEMFS
    walks: dict[str, dict[str, Any]] = {}
    calls: dict[str, dict[str, Any]] = {}
    ready: list[float] = []
    wire = wires[name]
    for walk_name in QUICK_WALKS if short else WALKS:
        figures: dict[str, list[Any]] = {"cold_ms": [], "warm_ms": [], "exchanges": [], "requests": []}
        for number in range(passes):
            with mounted(name, work, far, wires) as mount:
                ready.append(mount.ready_ms)
                try:
                    with exchanges(wire, figures["exchanges"]), counted(name, mount, figures["requests"]):
                        figures["cold_ms"].append(walk(walk_name, mount.directory, tree))
                    if not short:
                        figures["warm_ms"].append(walk(walk_name, mount.directory, tree))
                except (Wrong, OSError) as error:
                    raise Failed(f"{name}: {error}") from error
                if walk_name == LAST_WALK and number == passes - 1:
                    calls = measure_calls(name, mount, wire, tree, MEMFS_CALLS if name == MEMFS else PEER_CALLS)
        walks[walk_name] = figures
    return {"ready_ms": ready, "walks": walks, "calls": calls}


def measure_calls(name: str, mount: Mounted, wire: Link, tree: Tree, count: int) -> dict[str, Any]:
    """Each call on a mount where everything was read once."""
    calls: dict[str, Any] = {}
    on = Calls(mount.directory, tree, count)
    for call_name in CALLS:
        sent: list[int] = []
        made: list[dict[str, int]] = []
        with exchanges(wire, sent), counted(name, mount, made):
            try:
                times = sorted(call(call_name, on, count))
                if call_name == "unlink":
                    time.sleep(PARKED_SECONDS)  # what memfs sends a moment later counts too
            except (Wrong, OSError) as error:
                raise Failed(f"{name}: {call_name}: {error}") from error
        calls[call_name] = {
            "p50_ms": times[len(times) // 2] / 1000,
            "p99_ms": times[int(len(times) * 0.99)] / 1000,
            "exchanges": sent[0] / count,
            "requests": {endpoint: number / count for endpoint, number in (made[0] if made else {}).items()},
        }
    return calls


@contextlib.contextmanager
def exchanges(wire: Link, into: list[Any]) -> Iterator[None]:
    before = wire.exchanges
    yield
    into.append(wire.exchanges - before)


@contextlib.contextmanager
def counted(name: str, mount: Mounted, into: list[Any]) -> Iterator[None]:
    """What memfs asked, by endpoint; nothing for the peers, whose questions only the wire can count."""
    if name != MEMFS:
        yield
        return
    requests: dict[str, int] = {}
    with stores.counted(mount, requests):
        yield
    into.append(requests)


def second_mount(work: Path, far: Far, wire: Link, tree: Tree) -> dict[str, Any]:
    """What a second mount of an unchanged store asks for a `grep -r`, with the disk cache that the first one left."""
    home = work / "home-of-two"
    requests: dict[str, int] = {}
    with stores.mount(work, wire.url, far.served.store, key=far.served.key, home=home) as first:
        walk("grep -r", first.directory, tree)
    with (
        stores.mount(work, wire.url, far.served.store, key=far.served.key, home=home) as second,
        stores.counted(second, requests),
    ):
        milliseconds = walk("grep -r", second.directory, tree)
    return {"grep_ms": milliseconds, "requests": requests}


def propagation(name: str, work: Path, far: Far, wires: dict[str, Link], saves: int) -> list[float | None]:
    """Seconds from the end of a save on one mount until another mount, in use, shows it; None: not within `LONGEST_LOOK`."""
    seen: list[float | None] = []
    with mounted(name, work, far, wires) as one, mounted(name, work, far, wires) as other:
        place = far.served.tree.path(7)
        (other.directory / place).read_text()
        for turn in range(saves):
            content = f"# Note 7, turn {turn} of {name}\n"
            for _ in range(turn * 7 % 5):  # at no fixed moment between two polls
                _shows(name, other.directory / place, content)
                time.sleep(0.3)
            (one.directory / place).write_text(content)
            began = time.monotonic()
            seen.append(None)
            while time.monotonic() - began < LONGEST_LOOK:
                if _shows(name, other.directory / place, content):
                    seen[-1] = time.monotonic() - began
                    break
                time.sleep(0.01)
        (one.directory / place).write_text(far.served.tree.text(7))
    return seen


def _shows(name: str, path: Path, content: str) -> bool:
    """Whether a mount shows `content`. A peer may fail to read what is just being replaced: then it does not show it yet."""
    try:
        return path.read_text() == content
    except OSError:
        if name == MEMFS:
            raise
        return False


def economy(work: Path, tree: Tree, round_trip: float, say: Say) -> dict[str, Any]:
    """The agents' tree on memfs over a wire: time and requests of each cold walk, and of a second mount."""
    results: dict[str, Any] = {"notes": tree.notes, "round_trip_ms": round_trip * 1000, "walks": {}}
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(stores.serve(work / "agents", tree))
        wire = stack.enter_context(latency.link(("127.0.0.1", served.port), round_trip))
        for name in WALKS:
            say(f"at {round_trip * 1000:g} ms: {name} of {tree.notes:,}")
            for repeated in (False, True) if name == "grep -r" else (False,):
                home = work / f"home-of-{name.replace(' ', '')}"
                requests: dict[str, int] = {}
                with stores.mount(work, wire.url, served.store, key=served.key, home=home) as mount:
                    with stores.counted(mount, requests):
                        milliseconds = walk(name, mount.directory, tree)
                    warm = walk(name, mount.directory, tree)
                shown = f"{name}, second mount" if repeated else name
                results["walks"][shown] = {"cold_ms": milliseconds, "warm_ms": warm, "requests": requests}
    return results


def sdk(work: Path, tree: Tree, round_trip: float, saves: int, say: Say) -> dict[str, Any]:
    """The official SDK's sync of a store with `tree`: until its first file can be read, and until another's save shows."""
    say(f"at {round_trip * 1000:g} ms: the official SDK's sync of {tree.notes:,}")
    with stores.serve(work / f"sdk-{tree.notes}", tree) as served, latency.link(("127.0.0.1", served.port), round_trip) as wire:
        session = json.loads(stores.memfs("sessions", "create", "--json", "--url", served.database, "--store", served.store))
        folder = work / f"sdk-{tree.notes}-{round_trip:g}"
        folder.mkdir()
        command: Command = [
            PEERS_PYTHON,
            running.ROOT / "scripts" / "bench" / "sdk_sync.py",
            wire.url,
            session["id"],
            folder,
            str(saves),
        ]
        secrets = {"PEER_SECRET": session["token"], "PEER_KEY": served.key, "HOME": str(folder)}
        told: dict[str, Any] = json.loads(running.run(command, cpu=CLIENT_CPU, variables=secrets))
    if told["files"] != tree.notes:
        raise Failed(f"the SDK has {told['files']} of {tree.notes} files")
    return {"notes": tree.notes, **told}


def usable(work: Path, served: Served, round_trip: float, times: int) -> dict[str, Any]:
    """Milliseconds from `memfs mount` to the end of the first `ls` of a directory and the first read of a note."""
    figures: dict[str, list[float]] = {"command_ms": [], "first_ls_ms": [], "first_read_ms": []}
    first = served.tree.path(0)
    with latency.link(("127.0.0.1", served.port), round_trip) as wire:
        for number in range(times):
            home = work / f"home-usable-{served.tree.notes}-{number}"
            mountpoint = home / "mnt"
            mountpoint.mkdir(parents=True)
            variables = {**running.environment(home), "MEMFS_API_KEY": served.key}
            began = time.perf_counter()
            command: Command = [stores.MEMFS, "mount", mountpoint, "--url", wire.url, "--store", served.store]
            try:
                running.run(command, variables=variables)
                ready = time.perf_counter()
                names = os.listdir((mountpoint / stores.DIRECTORY / first).parent)
                listed = time.perf_counter()
                content = (mountpoint / stores.DIRECTORY / first).read_text()
                read = time.perf_counter()
                running.run([stores.MEMFS, "umount", mountpoint], variables=variables)
            finally:
                running.force_unmount(mountpoint)
            if not names or content != served.tree.text(0):
                raise Failed("the first look at the mount saw the wrong thing")
            figures["command_ms"].append((ready - began) * 1000)
            figures["first_ls_ms"].append((listed - ready) * 1000)
            figures["first_read_ms"].append((read - listed) * 1000)
    return {name: statistics.median(values) for name, values in figures.items()}
