"""The options of `memfs mount`, and their second spelling as mount(8) and fstab give them: ``-o OPT[,OPT...]``."""

import grp
import pwd
import re
from collections.abc import Sequence
from typing import Any

import click

IGNORED = frozenset(
    {
        *("rw", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev", "defaults", "exec"),
        *("suid", "nosuid", "dev", "nodev", "atime", "noatime", "relatime", "norelatime", "strictatime", "lazytime", "async"),
    }
)
"""What mount(8) takes for itself, or what holds for every FUSE mount anyway."""

IGNORED_PREFIXES = ("x-", "X-", "comment=", "user=", "uhelper=", "helper=")

SPELLINGS = {
    "ro": "read-only",
    "noxattr": "no-xattr",
    "noindex": "no-index",
}

FLAGS = frozenset({"read-only", "allow-other", "no-xattr", "no-index", "no-disk-cache", "nonempty", "log-json"})
VALUES = frozenset(
    {
        *("url", "credentials-file", "store", "session", "max-staleness", "timeout", "drain-timeout", "cache-size"),
        *("uid", "gid", "umask", "scratch", "log", "log-level"),
    }
)


def expand(option: str) -> list[str]:
    """The arguments that ``-o OPTION`` stands for: ``ro,timeout=3`` gives ``--read-only --timeout=3``.

    Patterns of `scratch` are separated by colons here. Raises `click.BadParameter` for an option that does not exist.
    """
    arguments = []
    for part in filter(None, (part.strip() for part in option.split(","))):
        if part in IGNORED or part.startswith(IGNORED_PREFIXES):
            continue
        name, separator, value = part.partition("=")
        name = name.replace("_", "-")
        name = SPELLINGS.get(name, name)
        if name in FLAGS and not separator:
            arguments.append(f"--{name}")
        elif name in VALUES and value:
            arguments.append(f"--{name}={value.replace(':', ',') if name == 'scratch' else value}")
        elif name in VALUES:
            raise click.BadParameter(f"{name} needs a value: {name}=...", param_hint="-o")
        else:
            known = ", ".join(sorted(FLAGS | VALUES))
            raise click.BadParameter(f"there is no option {part!r}: there are ro, {known}", param_hint="-o")
    return arguments


def expand_all(arguments: Sequence[str]) -> list[str]:
    """`arguments` with every ``-o OPT``, ``-oOPT`` and ``--option OPT`` in place of what it stands for."""
    expanded: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*expanded, argument, *rest]
        if argument in ("-o", "--option"):
            option = next(rest, None)
            if option is None:
                raise click.BadOptionUsage("-o", "Option '-o' requires an argument.")
            expanded += expand(option)
        elif argument.startswith("--option="):
            expanded += expand(argument.removeprefix("--option="))
        elif argument.startswith("-o") and not argument.startswith("--"):
            expanded += expand(argument[2:])
        else:
            expanded.append(argument)
    return expanded


class MountCommand(click.Command):
    """Takes ``-o`` apart before anything else looks at the arguments; keeps them, for the daemon, in `ctx.meta`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            expanded = expand_all(args)
        except click.UsageError as error:
            error.ctx = ctx
            raise
        ctx.meta["memfs.arguments"] = list(expanded)
        return super().parse_args(ctx, expanded)


class Size(click.ParamType[int]):
    """Bytes, with K, M or G for powers of 1,024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)([KMG]?)(i?B)?", str(value), re.IGNORECASE)
        if match is None:
            self.fail(f"{value!r} is no size: 64M, 1G or a number of bytes", param, ctx)
        return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


class Seconds(click.ParamType[float]):
    """A positive number of seconds, or zero where `zero` allows it; infinity is none."""

    name = "seconds"

    def __init__(self, *, zero: bool) -> None:
        self.zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(str(value).removesuffix("s"))
        except ValueError:
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        if not (0 < seconds < float("inf") or (seconds == 0 and self.zero)):
            self.fail(f"{value!r} is not {'zero or more' if self.zero else 'more than zero'} seconds", param, ctx)
        return seconds


class Octal(click.ParamType[int]):
    name = "octal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if not re.fullmatch(r"(0o)?[0-7]{1,4}", str(value)) or int(str(value), 8) > 0o777:
            self.fail(f"{value!r} is no mask of permissions: three octal digits, such as 022", param, ctx)
        return int(str(value), 8)


class Owner(click.ParamType[int]):
    """A number, or the name of a user or group of this machine."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if str(value).isdecimal():
            return int(value)
        try:
            return pwd.getpwnam(value).pw_uid if self.name == "user" else grp.getgrnam(value).gr_gid
        except KeyError:
            self.fail(f"there is no {self.name} {value!r}", param, ctx)


def scratch_patterns(values: Sequence[str]) -> tuple[str, ...]:
    """The patterns of every ``--scratch A,B``; see `MountOptions.scratch_patterns`."""
    return tuple(pattern for value in values for pattern in (part.strip() for part in value.split(",")) if pattern)
