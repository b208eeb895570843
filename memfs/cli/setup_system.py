"""`memfs setup-system`: what the machine needs to know of memfs: mount(8), systemd, man(1) and the shells."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import click

from memfs.cli.completion import script
from memfs.cli.man import pages
from memfs.cli.output import say
from memfs.model.errors import MemfsError

MARK = "MEMFS"


@dataclass(frozen=True)
class Piece:
    """One file of the machine. `path` is absolute; `link` is what it points to, where it is a symbolic link."""

    path: str
    text: str = ""
    link: str = ""


@click.command("setup-system")
@click.option("--remove", is_flag=True, help="Take away what an earlier run put there.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be written.")
@click.option(
    "--root", type=click.Path(file_okay=False, path_type=Path), default=Path("/"), help="Below this directory, for an image."
)
@click.pass_context
def setup_system(ctx: click.Context, remove: bool, dry_run: bool, root: Path) -> None:
    """Make this machine know memfs, as root.

    That is `mount -t memfs` and fstab, systemd units, manual pages and shell completion. Run it as root, once, and again after
    an update. It prints every file that it writes, and overwrites none of anybody else's.

    \b
    Examples:
      sudo memfs setup-system
      echo 'memfs /mnt/memory memfs noauto,allow_other 0 0' | sudo tee -a /etc/fstab && sudo mount /mnt/memory
      sudo systemctl enable --now memfs@$(systemd-escape --path /mnt/memory)
    """
    pieces = list(_pieces(ctx.find_root().command))
    for piece in pieces:
        place = root / piece.path.lstrip("/")
        if remove and not _is_ours(place):
            continue
        if not dry_run:
            _take_away(place) if remove else _put(place, piece)
        print(place)
    if not dry_run and not remove and root == Path("/") and Path("/run/systemd/system").is_dir():
        say("run `systemctl daemon-reload` before you use the units")


def _pieces(root: click.Command) -> Iterator[Piece]:
    program, helper = _program("memfs"), _program("mount.memfs")
    yield Piece("/sbin/mount.memfs", link=helper)
    for unit, place in (
        ("memfs@.service", "/etc/systemd/system"),
        ("memfs-serve.service", "/etc/systemd/system"),
        ("memfs-user@.service", "/etc/systemd/user"),
    ):
        yield Piece(f"{place}/{unit}", unit_text(unit, program))
    for name, text in pages(root):
        yield Piece(f"/usr/local/share/man/man1/{name}", text)
    yield Piece("/usr/local/share/bash-completion/completions/memfs", script("bash"))
    yield Piece("/usr/local/share/zsh/site-functions/_memfs", script("zsh"))
    yield Piece("/usr/local/share/fish/vendor_completions.d/memfs.fish", script("fish"))


def unit_text(name: str, program: str) -> str:
    """The text of a systemd unit that starts `program`, an absolute path."""
    template = resources.files("memfs.cli").joinpath("system", name).read_text("utf-8")
    return template.replace(f"@{MARK}@", program)


def _program(name: str) -> str:
    """The absolute path of one of our programs: beside the interpreter that runs this."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise MemfsError(f"{name} is not installed: install memfs with pip or pipx, then run this again")
    return found


def _put(place: Path, piece: Piece) -> None:
    try:
        if os.path.lexists(place) and not _is_ours(place):
            raise MemfsError(f"{place} is not of memfs: move it away, then run this again")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        if piece.link:
            place.symlink_to(piece.link)
        else:
            place.write_text(piece.text, "utf-8")
            place.chmod(0o644)
    except OSError as error:
        raise MemfsError(f"{place} cannot be written ({error.strerror}): run this as root (sudo memfs setup-system)") from None


def _take_away(place: Path) -> None:
    try:
        place.unlink()
    except OSError as error:
        raise MemfsError(f"{place} cannot be removed ({error.strerror}): run this as root") from None


def _is_ours(place: Path) -> bool:
    """Every file that we write names memfs; a link of ours leads to the helper."""
    if place.is_symlink():
        return os.readlink(place).endswith("mount.memfs")
    return place.is_file() and MARK in place.read_text("utf-8", errors="replace").upper()


COMMANDS = (setup_system,)
