"""Names that one test has to itself on what it shares with others."""

import re

import pytest


def run_number(request: pytest.FixtureRequest) -> int:
    """1, and 2 when the running test is repeated."""
    return int(getattr(request.node, "execution_count", 1))  # as pytest-rerunfailures counts


def own_name(request: pytest.FixtureRequest) -> str:
    """The running test's name as a file name, below 120 bytes; another one each time that the test is repeated.

    A repeated test must not find what its first run left on a mount that outlives both.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")[:100].strip("-")
    run = run_number(request)
    return name if run == 1 else f"{name}-run{run}"
