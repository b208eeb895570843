"""The log of a process that stays: where it goes and what it looks like.

A daemon logs to its file in the state directory, one in the foreground to standard error; `--log` names another place. Only
memfs' own loggers are shown: those of libraries may show headers and bodies. Nothing of ours logs content or credentials, and
of an exception that nobody foresaw, whose text may hold anything, the log has the place and the type alone.
"""

import json
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import click

from memfs.model.errors import MemfsError

Command = TypeVar("Command", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")
SYSLOG = "syslog"
SYSLOG_SOCKET = "/dev/log"


@dataclass(frozen=True)
class LogSettings:
    destination: str | None
    """``syslog`` or a file; None: standard error, which a daemon's is its log file."""
    level: str
    as_json: bool

    @classmethod
    def take(cls, parameters: dict[str, Any]) -> "LogSettings":
        """Take the parameters of `log_options` out of those of a command."""
        return cls(parameters.pop("log"), parameters.pop("log_level"), parameters.pop("log_json"))


def log_options(command: Command) -> Command:
    """The options of every command whose process stays."""
    for option in (
        click.option("--log-json", is_flag=True, help="Log JSON objects, one a line."),
        click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What is logged."),
        click.option(
            "--log", metavar="FILE|syslog", help="Where to log (else to standard error with -f, else `memfs status`)."
        ),
    ):
        command = option(command)
    return command


def configure(settings: LogSettings) -> None:
    """Log from now on as `settings` say. Raises `click.ClickException` when that place cannot be logged to."""
    logger = logging.getLogger("memfs")
    logger.handlers[:] = [_handler(settings)]
    logger.setLevel(settings.level.upper())
    logger.propagate = False


def _handler(settings: LogSettings) -> logging.Handler:
    import logging.handlers

    handler: logging.Handler
    try:
        if settings.destination is None:
            handler = logging.StreamHandler(sys.stderr)
        elif settings.destination == SYSLOG:
            facility = logging.handlers.SysLogHandler.LOG_DAEMON
            handler = logging.handlers.SysLogHandler(SYSLOG_SOCKET, facility)
            handler.ident = "memfs: "
        else:
            # Told of a rotation by logrotate: it opens the file anew when another one has taken the name.
            handler = logging.handlers.WatchedFileHandler(Path(settings.destination).absolute(), encoding="utf-8")
    except OSError as error:
        place = SYSLOG_SOCKET if settings.destination == SYSLOG else settings.destination
        raise MemfsError(f"cannot log to {place} ({error.strerror}): name another with --log") from None
    handler.setFormatter(JsonFormatter() if settings.as_json else TextFormatter(timed=settings.destination != SYSLOG))
    return handler


class _Formatter(logging.Formatter):
    def formatException(
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        """Where and of which type an exception was; not what it says."""
        kind, error, _ = ei
        if kind is None or error is None:
            return ""
        frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        return f"{frames}\n{kind.__qualname__}"


class TextFormatter(_Formatter):
    """``2026-08-25T05:52:19.318562Z warning memfs.fuse.daemon: MESSAGE``; without the time where the reader adds one."""

    def __init__(self, *, timed: bool) -> None:
        super().__init__()
        self._timed = timed

    def format(self, record: logging.LogRecord) -> str:
        message = " ".join(record.getMessage().split())
        line = f"{record.levelname.lower()} {record.name}: {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return f"{_time(record)} {line}" if self._timed else line


class JsonFormatter(_Formatter):
    """``{"time", "level", "logger", "message"}``, and ``"exception"`` where there was one."""

    def format(self, record: logging.LogRecord) -> str:
        value = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            value["exception"] = self.formatException(record.exc_info)
        return json.dumps(value, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    return f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
