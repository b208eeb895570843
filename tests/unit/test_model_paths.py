"""Path rules of contract section 4.1."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.model.errors import InvalidPath, PathTooLong
from memfs.model.paths import ancestors, check_path, check_prefix, check_segment, parent_prefix

FORBIDDEN_CATEGORIES = {"Cc", "Cf", "Zl", "Zp", "Cs"}


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("", "begin with a slash"),
        ("a.md", "begin with a slash"),
        ("/", "at least one segment"),
        ("/a/", "empty segments"),
        ("//a", "empty segments"),
        ("/a//b", "empty segments"),
        ("/.", "'.' or '..'"),
        ("/..", "'.' or '..'"),
        ("/./a", "'.' or '..'"),
        ("/a/..", "'.' or '..'"),
        ("/a\0b", "control"),
        ("/a\nb", "control"),
        ("/a\x7fb", "control"),
        ("/é\x01", "control"),
        ("/a\x85b", "control"),
        ("/a\u200db", "format"),
        ("/a\u202eb", "format"),
        ("/\ufeffa", "format"),
        ("/a\u00adb", "format"),
        ("/a\u2028b", "separator"),
        ("/a\u2029b", "separator"),
        ("/a\ud800b", "surrogates"),
        ("/e\u0301", "NFC"),
        ("/\u212b", "NFC"),
        ("/a/e\u0301/b", "NFC"),
    ],
)
def test_a_path_that_breaks_a_rule_names_it(path: str, rule: str) -> None:
    with pytest.raises(InvalidPath, match=rule):
        check_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *("/a", "/a/b", "/.hidden", "/...", "/..a", "/a..", "/a b", "/ ", "/\\", "/%2F", "/_", "/*", "/:", "/A", "/~", "/-"),
        *("/é", "/日本", "/😀", "/\ue000", "/\u0378", "/\u00a0", "/\u0301"),
    ],
)
def test_unusual_characters_are_legal(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["/a" * 20, "/" + "a" * 1023, "/" + "é" * 511 + "a", "/" + "日" * 341, "/" + "😀" * 255 + "aaa", "/" + "x" * 300 + "/y"],
)
def test_the_longest_paths_are_legal(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize("path", ["/a" * 21, "/" + "a" * 1024, "/" + "é" * 512, "/" + "日" * 342, "/" + "😀" * 256])
def test_a_path_may_be_too_long(path: str) -> None:
    with pytest.raises(PathTooLong):
        check_path(path)


def test_every_character_is_judged_by_its_category() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if character in "/.":
            continue
        illegal = (
            unicodedata.category(character) in FORBIDDEN_CATEGORIES or unicodedata.normalize("NFC", character) != character
        )
        try:
            check_segment(character)
        except InvalidPath:
            assert illegal, f"U+{code:04X} was refused"
        else:
            assert not illegal, f"U+{code:04X} was accepted"


@given(st.text(max_size=40))
def test_a_path_is_accepted_if_the_rules_say_so(text: str) -> None:
    segments = text.split("/")[1:]
    legal = (
        text.startswith("/")
        and all(segment not in ("", ".", "..") for segment in segments)
        and not any(unicodedata.category(character) in FORBIDDEN_CATEGORIES for character in text)
        and unicodedata.normalize("NFC", text) == text
        and len(segments) <= 20
    )
    try:
        check_path(text)
    except InvalidPath:
        assert not legal
    else:
        assert legal


@pytest.mark.parametrize("prefix", ["/", "/a/", "/a/b/", "//"])
def test_a_prefix_begins_and_ends_with_a_slash(prefix: str) -> None:
    assert check_prefix(prefix) == prefix


@pytest.mark.parametrize("prefix", ["", "a", "a/", "/a", "/a/b"])
def test_other_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(InvalidPath):
        check_prefix(prefix)


def test_ancestors_and_parents() -> None:
    assert ancestors("/a") == []
    assert ancestors("/a/b/c") == ["/a", "/a/b"]
    assert parent_prefix("/a") == "/"
    assert parent_prefix("/a/b") == "/a/"


_segments = st.text(alphabet="ab.é ", min_size=1, max_size=3).filter(lambda segment: segment not in (".", ".."))


@given(st.lists(_segments, min_size=1, max_size=6))
def test_ancestors_are_the_paths_above(segments: list[str]) -> None:
    path = "/" + "/".join(segments)
    above = ancestors(path)
    assert len(above) == len(segments) - 1
    assert above == sorted(above, key=len)
    for ancestor in above:
        assert path.startswith(f"{ancestor}/")
        assert check_path(ancestor) == ancestor
    assert parent_prefix(path) == (f"{above[-1]}/" if above else "/")
