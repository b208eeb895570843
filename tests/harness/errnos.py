"""Expects a system call to be refused."""

import contextlib
import errno
import os
from collections.abc import Iterator


@contextlib.contextmanager
def refuses(*expected: int) -> Iterator[None]:
    """The block must raise `OSError` with one of the `expected` error numbers; else `AssertionError` says what it did."""
    wanted = "/".join(errno.errorcode[number] for number in expected)
    try:
        yield
    except OSError as error:
        if error.errno not in expected:
            raise AssertionError(f"{wanted} expected, not {os.strerror(error.errno or 0)}") from error
    else:
        raise AssertionError(f"{wanted} expected, and it was allowed")
