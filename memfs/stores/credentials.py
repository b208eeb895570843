"""Where the credential for a service comes from, and how it stays out of sight.

In this order: a credentials file; a session token (`MEMFS_AUTH_TOKEN`, `ANTHROPIC_AUTH_TOKEN`); an API key (`MEMFS_API_KEY`,
`ANTHROPIC_API_KEY`); within a kind the MEMFS name first. A credential is never an argument, and no `repr`, message or log
line holds one.

A credentials file holds one credential: as bare text, as a ``NAME=value`` line under one of the names above, or as a JSON
object with one of `auth_token`, `sessions_token`, `api_key`. Wherever a token is expected, the `secret` of a work item may
stand instead (contract section 8): base64url of a JSON object with `sessions_token`.
"""

import base64
import binascii
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from memfs.model.errors import InvalidRequest

TOKEN_VARIABLES = ("MEMFS_AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN")
KEY_VARIABLES = ("MEMFS_API_KEY", "ANTHROPIC_API_KEY")

REMEDY = "set MEMFS_API_KEY or MEMFS_AUTH_TOKEN to a credential of this service, or name a file with --credentials-file"

_API_KEY_MARKS = ("sk-ant-api", "sk-memfs-api")
"""How a bare API key begins; any other bare credential is a token."""


@dataclass(frozen=True)
class Credential:
    """One secret and the header that carries it."""

    secret: SecretStr
    kind: Literal["api_key", "token"]

    def header(self) -> tuple[str, str]:
        """The request header; its value is the secret: send it, do not keep it."""
        value = self.secret.get_secret_value()
        return ("x-api-key", value) if self.kind == "api_key" else ("authorization", f"Bearer {value}")


@dataclass
class Credentials:
    """The current credential, and how to get the next one when the service refuses it."""

    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    _current: Credential | None = field(default=None, init=False)
    _loaded: bool = field(default=False, init=False)

    def current(self) -> Credential | None:
        """None when there is none. Raises `InvalidRequest` when the credentials file cannot be used."""
        if not self._loaded:
            self._current = self._load()
            self._loaded = True
        return self._current

    def refresh(self, refused: Credential | None) -> bool:
        """After a 401 for `refused`: read the file again; whether there is another credential to try now."""
        if self.file is not None and self._current == refused:
            self._current = self._load()
        return self._current != refused

    def _load(self) -> Credential | None:
        if self.file is not None:
            return _read_file(self.file)
        for names, kind in ((TOKEN_VARIABLES, "token"), (KEY_VARIABLES, "api_key")):
            for name in names:
                if value := self.environment.get(name, "").strip():
                    return _credential(value, "token" if kind == "token" else "api_key", name)
        return None


def _read_file(path: Path) -> Credential:
    try:
        text = path.read_text("utf-8").strip()
    except OSError as error:
        raise InvalidRequest(f"credentials file {path}: {error.strerror}; name another with --credentials-file") from None
    except UnicodeDecodeError:
        raise InvalidRequest(
            f"credentials file {path}: this is not text; write the key or token into it, in one line"
        ) from None
    if text.startswith("{"):
        return _from_json(text, str(path))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    named = dict(_assignment(line) for line in lines if _assignment(line)[0] in TOKEN_VARIABLES + KEY_VARIABLES)
    for name in (*TOKEN_VARIABLES, *KEY_VARIABLES):
        if value := named.get(name):
            return _credential(value, "token" if name in TOKEN_VARIABLES else "api_key", str(path))
    if len(lines) != 1:
        raise InvalidRequest(f"credentials file {path}: expected one credential, or a line such as MEMFS_API_KEY=...")
    return _credential(lines[0], "api_key" if lines[0].startswith(_API_KEY_MARKS) else "token", str(path))


def _assignment(line: str) -> tuple[str, str]:
    name, _, value = line.removeprefix("export ").partition("=")
    return name.strip(), value.strip().strip("'\"")


def _from_json(text: str, source: str) -> Credential:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest(
            f"credentials file {source}: this is not valid JSON; write the key or token into it, in one line"
        ) from None
    for key in ("auth_token", "sessions_token", "api_key"):
        if isinstance(value := values.get(key), str) and value.strip():
            return _credential(value.strip(), "api_key" if key == "api_key" else "token", source)
    raise InvalidRequest(f"credentials file {source}: expected auth_token, sessions_token or api_key")


def _credential(value: str, kind: Literal["api_key", "token"], source: str) -> Credential:
    if kind == "token":
        value = _work_item_token(value) or value
    if not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidRequest(
            f"{source}: the credential has characters that no header can carry; write the key or token alone, in one line"
        )
    return Credential(SecretStr(value), kind)


def _work_item_token(secret: str) -> str | None:
    """The `sessions_token` inside a work item's `secret`; None when `secret` is something else."""
    if "." in secret:
        return None
    try:
        decoded = base64.b64decode(secret.rstrip("=") + "=" * (-len(secret.rstrip("=")) % 4), altchars=b"-_", validate=True)
        values = json.loads(decoded)
    except (binascii.Error, ValueError, RecursionError):
        return None
    token = values.get("sessions_token") if isinstance(values, dict) else None
    return token if isinstance(token, str) and token else None
