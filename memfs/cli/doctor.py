"""`memfs doctor`: what is missing for a mount, and how to get it."""

import os
from dataclasses import asdict
from pathlib import Path

import click

from memfs.cli.mountpoints import mounts
from memfs.cli.output import print_json, printable
from memfs.cli.registry import Registry, state_directory
from memfs.cli.requirements import Finding, allow_other, binding, fuse_device, fusermount
from memfs.cli.service import resolve_url, service_options
from memfs.cli.service_checks import check_service
from memfs.model.errors import MemfsError


@click.command()
@click.option("--write", is_flag=True, help="Also store a memory, read it back and delete it; three versions stay.")
@click.option("--store", metavar="NAME_OR_ID", help="Where --write does that (else in the newest store).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a finding and line.")
@service_options
def doctor(write: bool, store: str | None, as_json: bool, url: str | None, credentials_file: Path | None) -> int:
    """Check machine, service and credential, and say what to do.

    Looks at the FUSE device and its helper, the state directory, your mounts, the credential, the service's answer, its version
    and its clock. Fails when something that a mount needs is missing, or a mount of yours is dead.

    \b
    Examples:
      memfs doctor
      memfs doctor --url https://memory.example.com --write
    """
    machine = [fuse_device(), fusermount(), binding()]
    findings = [*machine, allow_other(), *_directories(), *_mounts()]
    findings += check_service(resolve_url(url), credentials_file, write=write, store=store)
    for finding in findings:
        if as_json:
            print_json(asdict(finding))
            continue
        mark = "ok" if finding.ok else "MISSING" if finding.required else "note"
        print(f"{mark:<8}{finding.subject}: {printable(finding.detail)}")
    failed = any(finding.failed for finding in findings)
    if not as_json:
        _print_what_to_do(findings, mountable=not any(finding.failed for finding in machine), failed=failed)
    return 1 if failed else 0


def _print_what_to_do(findings: list[Finding], *, mountable: bool, failed: bool) -> None:
    needed = [finding for finding in findings if finding.failed and finding.remedy]
    optional = [finding for finding in findings if not finding.failed and finding.remedy]
    if not failed:
        print("\nAll that a mount needs is there.")
    for title, part in (("To do:", needed), ("If you need it:", optional)):
        if part:
            print(f"\n{title}")
            for finding in part:
                print(f"  {finding.subject}: {finding.remedy}")
    if not mountable:
        print("\nWhere that is not allowed: `memfs shadow DIRECTORY` keeps a plain directory and your stores alike.")


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
            again, away = f"memfs {record.kind} {record.mountpoint}", f"memfs umount {record.mountpoint}"
            remedy = f"`{again}` goes on with it, `{away}` takes it away"
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
