"""The names in `.versions`; pure.

A version is a file ``TIME-OPERATION-VERSIONID.EXT`` whose name sorts by time; its extension is that of the path it is shown
below, so that editors and pagers treat it like the memory. Beside these files stand the directories of memories and prefixes,
under their own names but for two kinds, which get one more ``@`` in front:

* in the root of `.versions`, a name that begins with ``@``, because those are times and logs there: ``@home`` is ``@@home``;
* a name that reads like that of a version, as a copy of a version may have.

So a name means one thing, whatever memories there are, and the rule can be undone.
"""

import re
from datetime import UTC, datetime
from posixpath import splitext

from memfs.replica.tree import NAME_MAX, escape

_VERSION_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-(created|modified|deleted)-(.+)", re.ASCII | re.DOTALL)


def version_name(time: datetime, operation: str, version_id: str, directory: str) -> str:
    """The name of a version shown below a directory of that name; at most 255 bytes, with the extension where it fits."""
    name = f"{time.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{operation}-{version_id}"
    extension = splitext(directory)[1]
    if len(extension) < 2 or len(name) + len(extension.encode()) > NAME_MAX:
        return name
    return name + extension


def id_in_version_name(name: str, directory: str) -> str | None:
    """The version id in a name that `version_name` made below `directory`; None when `name` is none."""
    match = _VERSION_NAME.fullmatch(name)
    if match is None:
        return None
    version_id, extension = match[2], splitext(directory)[1]
    return version_id.removesuffix(extension) if len(extension) > 1 else version_id


def operation_in_version_name(name: str) -> str | None:
    """``created``, ``modified`` or ``deleted``; None when `name` is no version's."""
    match = _VERSION_NAME.fullmatch(name)
    return None if match is None else match[1]


def is_version_name(name: str) -> bool:
    return _VERSION_NAME.fullmatch(name) is not None


def shown_name(segment: str, *, in_root: bool) -> str:
    """The name of the directory that shows the history below `segment`; `in_root`: directly in `.versions`."""
    name = f"@{segment}" if _is_marked(segment, in_root) else segment
    return escape(name) if len(name) > NAME_MAX // 4 and len(name.encode()) > NAME_MAX else name


def segment_of(name: str, *, in_root: bool) -> str | None:
    """The segment that `shown_name` shows as `name`; None when `name` is no directory's name.

    A name cut to 255 bytes cannot be undone; that of such a segment is found among the names of its siblings.
    """
    if name.startswith("@") and _is_marked(name[1:], in_root):
        return name[1:]
    return None if _is_marked(name, in_root) else name


def _is_marked(segment: str, in_root: bool) -> bool:
    return (in_root and segment.startswith("@")) or is_version_name(segment.lstrip("@"))
