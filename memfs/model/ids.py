"""Identifiers in the contract's form (section 1.6): a prefix, ``01`` and 22 characters of base 58.

They are opaque: nothing may be read from one but its prefix.
"""

import secrets
from typing import NewType

StoreId = NewType("StoreId", str)
MemoryId = NewType("MemoryId", str)
VersionId = NewType("VersionId", str)
SessionId = NewType("SessionId", str)
ApiKeyId = NewType("ApiKeyId", str)

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_RANDOM_CHARACTERS = 22  # 128 bits


def _new(prefix: str) -> str:
    number = secrets.randbits(128)
    characters = []
    for _ in range(_RANDOM_CHARACTERS):
        number, digit = divmod(number, 58)
        characters.append(_BASE58[digit])
    return f"{prefix}_01{''.join(reversed(characters))}"


def new_store_id() -> StoreId:
    return StoreId(_new("memstore"))


def new_memory_id() -> MemoryId:
    return MemoryId(_new("mem"))


def new_version_id() -> VersionId:
    return VersionId(_new("memver"))


def new_session_id() -> SessionId:
    return SessionId(_new("sesn"))


def new_api_key_id() -> ApiKeyId:
    return ApiKeyId(_new("apikey"))


def new_request_id() -> str:
    return _new("req")
