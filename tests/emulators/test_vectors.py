"""The emulators answer as the contract's vectors say (dialects, section 5): what is documented, and what is guessed."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.emulators.modelstudio import TOKEN as MODELSTUDIO_TOKEN
from tests.emulators.modelstudio import ModelStudio
from tests.emulators.qoder import TOKEN as QODER_TOKEN
from tests.emulators.qoder import Qoder
from tests.emulators.serving import Emulator, served
from tests.emulators.tablestore import INSTANCE, KEY, Tablestore

VECTORS: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "vectors.json").read_text("utf-8"))
ABSENT = "∅"


@dataclass(frozen=True)
class Service:
    make: Callable[[], Emulator]
    token: str


SERVICES = {
    "tablestore": Service(Tablestore, KEY),
    "qoder_entry": Service(lambda: Qoder("entry"), QODER_TOKEN),
    "qoder_memory": Service(lambda: Qoder("memory"), QODER_TOKEN),
    "modelstudio": Service(ModelStudio, MODELSTUDIO_TOKEN),
}


def filled(value: Any, captured: dict[str, Any]) -> Any:
    """`value` with ``${name}`` replaced by what was captured, and ``{"$repeat": [text, n]}`` by the text n times."""
    if isinstance(value, dict):
        if "$repeat" in value:
            text, times = value["$repeat"]
            return text * times
        return {key: filled(one, captured) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, captured) for one in value]
    if isinstance(value, str):
        for name, known in captured.items():
            value = value.replace(f"${{{name}}}", str(known))
    return value


def differences(expected: Any, found: Any, captured: dict[str, Any], place: str = "") -> list[str]:
    """Where `found` is not what `expected` says; ``$name`` captures."""
    if isinstance(expected, str) and expected.startswith("$") and not expected.startswith("${"):
        if not found:
            return [f"{place}: nothing to capture"]
        captured[expected[1:]] = found
        return []
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [f"{place}: {found!r} is no object"]
        wrong = []
        for key, value in expected.items():
            if value == ABSENT:
                wrong += [f"{place}.{key}: must be absent"] if key in found else []
            elif key not in found:
                wrong.append(f"{place}.{key}: is missing")
            else:
                wrong += differences(value, found[key], captured, f"{place}.{key}")
        return wrong
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) < len(expected):
            return [f"{place}: {found!r} has too few entries"]
        pairs = zip(expected, found, strict=False)
        return [one for number, (e, f) in enumerate(pairs) for one in differences(e, f, captured, f"{place}[{number}]")]
    return [] if filled(expected, captured) == found else [f"{place}: {found!r} and not {filled(expected, captured)!r}"]


def headers(name: str, token: str) -> dict[str, str]:
    if name == "tablestore":
        return {"x-ots-instancename": INSTANCE, "x-ots-apikey": token}
    return {"authorization": f"Bearer {token}"} if token else {}


@pytest.mark.parametrize("name", list(SERVICES))
def test_vectors(name: str) -> None:
    service = SERVICES[name]
    emulator = service.make()
    captured: dict[str, Any] = {}
    wrong: list[str] = []
    with served(emulator) as root, httpx.Client(base_url=f"{root}/{emulator.base}", trust_env=False) as client:
        for vector in VECTORS[name]:
            reply = client.request(
                vector["method"],
                filled(vector["path"], captured).lstrip("/"),
                json=filled(copy.deepcopy(vector["body"]), captured) if "body" in vector else None,
                headers=headers(name, vector.get("token", service.token)),
            )
            if reply.status_code not in vector["status"]:
                wrong.append(f"{vector['id']}: status {reply.status_code} and not {vector['status']}: {reply.text[:200]}")
            elif "expect" in vector:
                wrong += [f"{vector['id']}{one}" for one in differences(vector["expect"], reply.json(), captured)]
    assert wrong == []


def test_every_vector_is_there() -> None:
    assert {name: len(vectors) for name, vectors in VECTORS.items()} == {
        "tablestore": 37,
        "qoder_entry": 21,
        "qoder_memory": 21,
        "modelstudio": 23,
    }
    ids = [vector["id"] for vectors in VECTORS.values() for vector in vectors]
    assert len(ids) == len(set(ids))


def test_a_vector_that_does_not_hold_is_found() -> None:
    captured: dict[str, Any] = {"m": "mem_1"}
    assert differences({"a": 1}, {"a": 2}, captured) != []
    assert differences({"a": ABSENT}, {"a": None}, captured) != []
    assert differences({"a": ["${m}"]}, {"a": ["mem_2"]}, captured) != []
    assert differences({"a": "$new"}, {"a": ""}, captured) != []
    assert differences({"a": [{"b": "${m}"}], "c": "$new"}, {"a": [{"b": "mem_1"}], "c": "x"}, captured) == []
    assert captured["new"] == "x"
