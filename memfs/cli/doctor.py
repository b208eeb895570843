"""`memfs doctor`: what is missing for a mount, and how to get it."""

import os
from dataclasses import asdict

import click

from memfs.cli.mountpoints import mounts
from memfs.cli.output import print_json
from memfs.cli.registry import Registry, state_directory
from memfs.cli.requirements import Finding, allow_other, binding, fuse_device, fusermount
from memfs.model.errors import MemfsError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a finding and line.")
def doctor(as_json: bool) -> int:
    """Check what a mount needs on this machine, and say how to get what is missing.

    Fails when something is missing, or a mount of yours is dead.

    \b
    Example: memfs doctor
    """
    findings = [fuse_device(), fusermount(), binding(), allow_other(), *_directories(), *_mounts()]
    for finding in findings:
        if as_json:
            print_json(asdict(finding))
            continue
        mark = "ok" if finding.ok else "MISSING" if finding.required else "note"
        print(f"{mark:<8}{finding.subject}: {finding.detail}")
        if finding.remedy:
            print(f"{'':<8}-> {finding.remedy}")
    return 1 if any(finding.failed for finding in findings) else 0


def _directories() -> list[Finding]:
    try:
        directory = state_directory()
    except MemfsError as error:
        return [Finding("state directory", False, error.message, "see above")]
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return [Finding("state directory", False, f"{directory} is not writable", f"chown or chmod {directory}")]
    free = os.statvfs(directory)
    return [
        Finding(
            "state directory",
            free.f_bavail > 0,
            f"{directory}, {free.f_bavail * free.f_frsize // 1024**2:,} MiB free",
            "" if free.f_bavail else "free some space: what is written is kept there until it is stored",
        )
    ]


def _mounts() -> list[Finding]:
    try:
        records = Registry.of_user().records()
    except MemfsError:
        return []  # the finding about the state directory says why
    found = []
    for record in records:
        state, subject = record.state, f"mount {record.mountpoint}"
        if state == "dead":
            remedy = f"memfs mount {record.mountpoint} mounts it again, memfs umount {record.mountpoint} takes it away"
            found.append(Finding(subject, False, f"is dead: process {record.process.pid} is gone", remedy))
        else:
            found.append(Finding(subject, True, f"{state}, process {record.process.pid}"))
    known = {record.mountpoint for record in records}
    for entry in mounts():
        if entry.is_memfs and entry.mountpoint not in known:
            detail = "is in none of your records: another user's, or started with another state directory"
            found.append(Finding(f"mount {entry.mountpoint}", False, detail, f"umount {entry.mountpoint}", required=False))
    return found


COMMANDS = (doctor,)
