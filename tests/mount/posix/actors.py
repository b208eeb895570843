"""Makes system calls as another user, from a process of its own."""

import errno
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

ALICE = 4001
BOB = 4002
TEAM = 4100
CLUB = 4200


def as_user(uid: int, work: Callable[[], Any], *, gid: int | None = None, groups: Sequence[int] = ()) -> Any:
    """Run `work` in a child as `uid` (its group `gid`, else the same number) and return what it returned.

    An `OSError` that it raises is raised here too, with its error number; anything else is an `AssertionError`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setgroups(list(groups))
            own = uid if gid is None else gid
            os.setresgid(own, own, own)
            os.setresuid(uid, uid, uid)
            outcome: tuple[str, Any]
            try:
                outcome = ("value", work())
            except OSError as error:
                outcome = ("errno", error.errno)
            except BaseException as error:  # noqa: BLE001 - the parent raises it
                outcome = ("failure", repr(error))
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(outcome, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    kind, value = pickle.loads(answer)
    if kind == "errno":
        raise OSError(value, os.strerror(value))
    assert kind == "value", value
    return value


def verdict(work: Callable[[], Any]) -> str:
    """ "ok", or the name of the errno that `work` raises."""
    try:
        work()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"
