"""Slugs (contract section 7) and identifiers (section 1.6)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.model import ids
from memfs.model.slugs import slug


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("User Preferences", "user-preferences"),
        ("Demo Memory", "demo-memory"),
        ("a", "a"),
        ("A--B__C", "a-b-c"),
        ("  trimmed!  ", "trimmed"),
        ("Café Ümlaut", "caf-mlaut"),
        ("2026/11", "2026-11"),
        ("K\u212a", "k"),
        ("\u0130stanbul", "stanbul"),
        ("٣ three", "three"),
        ("日本", "memstore_1"),
        ("---", "memstore_1"),
        ("", "memstore_1"),
    ],
)
def test_slugs(name: str, expected: str) -> None:
    assert slug(name, "memstore_1") == expected


@given(st.text(max_size=300))
def test_a_slug_is_a_plain_directory_name(name: str) -> None:
    found = slug(name, "memstore_1")
    assert found == "memstore_1" or re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", found)
    assert slug(found, "memstore_1") in (found, "memstore-1")


@pytest.mark.parametrize(
    ("make", "prefix"),
    [
        (ids.new_store_id, "memstore"),
        (ids.new_memory_id, "mem"),
        (ids.new_version_id, "memver"),
        (ids.new_session_id, "sesn"),
        (ids.new_api_key_id, "apikey"),
        (ids.new_request_id, "req"),
    ],
)
def test_identifiers_have_the_contracts_form(make: "type", prefix: str) -> None:
    made = {make() for _ in range(200)}
    assert len(made) == 200
    for one in made:
        assert re.fullmatch(prefix + "_01[1-9A-HJ-NP-Za-km-z]{22}", one)
    # Random to the first character: no two hundred in a row begin alike.
    assert len({one[len(prefix) + 3 + 2] for one in made}) > 10
