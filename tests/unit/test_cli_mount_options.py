"""The options of a mount in both spellings."""

import click
import pytest

from memfs.cli.mount_options import FLAGS, VALUES, expand, expand_all, scratch_patterns


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("ro", ["--read-only"]),
        ("ro,timeout=3", ["--read-only", "--timeout=3"]),
        ("max_staleness=0.5,cache-size=1G", ["--max-staleness=0.5", "--cache-size=1G"]),
        ("store=a,store=b:ro", ["--store=a", "--store=b:ro"]),
        ("noxattr,no_index,nonempty", ["--no-xattr", "--no-index", "--nonempty"]),
        ("scratch=*.log:*.part", ["--scratch=*.log,*.part"]),
        ("url=postgresql://h/db?a=b", ["--url=postgresql://h/db?a=b"]),
        ("rw,noauto,_netdev,x-systemd.automount,comment=hi,defaults", []),
        ("", []),
        (" ro , ,allow_other ", ["--read-only", "--allow-other"]),
    ],
)
def test_what_an_option_stands_for(option: str, arguments: list[str]) -> None:
    assert expand(option) == arguments


@pytest.mark.parametrize("option", ["nonsense", "ro=1", "timeout", "timeout=", "noexec", "ready-fd=3", "foreground", "=x"])
def test_other_options_are_refused_by_name(option: str) -> None:
    with pytest.raises(click.BadParameter) as refusal:
        expand(option)
    assert option.split("=")[0] in refusal.value.message


def test_every_spelling_of_the_option_is_taken_apart() -> None:
    arguments = ["-o", "ro", "-otimeout=1", "--option", "uid=0", "--option=gid=0", "/m", "--", "-o", "ro"]
    assert expand_all(arguments) == ["--read-only", "--timeout=1", "--uid=0", "--gid=0", "/m", "--", "-o", "ro"]


def test_an_option_without_its_value_is_refused() -> None:
    with pytest.raises(click.BadOptionUsage):
        expand_all(["/m", "-o"])


def test_every_option_that_fstab_may_give_is_one_of_the_command() -> None:
    from memfs.cli.mount import mount

    flags = {name[2:] for p in mount.params if isinstance(p, click.Option) and p.is_flag for name in p.opts}
    values = {name[2:] for p in mount.params if isinstance(p, click.Option) and not p.is_flag for name in p.opts}
    assert flags - {"foreground", ""} >= FLAGS
    assert values >= VALUES


def test_scratch_patterns_are_split_at_commas() -> None:
    assert scratch_patterns(["*.log, *.part", "!*~,"]) == ("*.log", "*.part", "!*~")
