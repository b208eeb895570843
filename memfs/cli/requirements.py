"""What this machine needs for a FUSE mount, whether it is there, and how to get it."""

import importlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from memfs.model.errors import MemfsError

FUSE_DEVICE = Path("/dev/fuse")
FUSE_CONFIGURATION = Path("/etc/fuse.conf")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    ok: bool
    detail: str
    remedy: str = ""
    """What to do about it; empty when there is nothing to do."""
    required: bool = True
    """Whether a mount is impossible without it."""

    @property
    def failed(self) -> bool:
        return self.required and not self.ok


def fuse_device() -> Finding:
    subject = str(FUSE_DEVICE)
    if not FUSE_DEVICE.exists():
        return Finding(
            subject,
            False,
            "is missing",
            "as root: modprobe fuse; a container needs --device /dev/fuse --cap-add SYS_ADMIN",
        )
    if not stat.S_ISCHR(FUSE_DEVICE.stat().st_mode):
        return Finding(subject, False, "is no device", "make it again as root: mknod /dev/fuse c 10 229")
    try:
        os.close(os.open(FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return Finding(subject, False, f"cannot be opened ({error.strerror})", "as root: chmod 666 /dev/fuse")
    return Finding(subject, True, "can be opened")


def fusermount() -> Finding:
    found = shutil.which("fusermount3")
    if found is None:
        return Finding("fusermount3", False, "is missing", "install fuse3 (apt-get, dnf or apk: fuse3)")
    mode = os.stat(found)
    if os.geteuid() != 0 and not (mode.st_uid == 0 and mode.st_mode & stat.S_ISUID):
        return Finding("fusermount3", False, f"{found} is not set-uid root", f"as root: chown root {found}; chmod u+s {found}")
    return Finding("fusermount3", True, found)


def allow_other() -> Finding:
    """Needed only for `--allow-other` by somebody who is not root."""
    subject = "--allow-other"
    if os.geteuid() == 0:
        return Finding(subject, True, "possible, this is root", required=False)
    try:
        lines = FUSE_CONFIGURATION.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    if any(line.strip() == "user_allow_other" for line in lines):
        return Finding(subject, True, f"user_allow_other is in {FUSE_CONFIGURATION}", required=False)
    return Finding(
        subject,
        False,
        f"only root may use it: user_allow_other is not in {FUSE_CONFIGURATION}",
        f"to let others see your mounts, as root: echo user_allow_other >> {FUSE_CONFIGURATION}",
        required=False,
    )


def binding() -> Finding:
    try:
        module = importlib.import_module("pyfuse3")
    except ImportError as error:
        return Finding(
            "pyfuse3",
            False,
            f"cannot be imported ({error})",
            "install libfuse3-dev, pkg-config and gcc, then: pip install --force-reinstall --no-cache-dir pyfuse3",
        )
    return Finding("pyfuse3", True, f"{getattr(module, '__version__', 'present')}")


def check_mount_possible(*, wants_allow_other: bool) -> None:
    """Raise `MemfsError` with the first thing that is missing for a mount."""
    findings = [fuse_device(), fusermount()]
    if wants_allow_other:
        findings.append(allow_other())
    for finding in findings:
        if not finding.ok:
            raise MemfsError(f"{finding.subject} {finding.detail}: {finding.remedy}")
