"""Content rules of contract section 4.2, at every edge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.model.content import (
    EMPTY_SHA256,
    MAX_CONTENT_BYTES,
    check_fragment,
    check_size,
    decode,
    encode,
    is_sha256,
    sha256_of,
)
from memfs.model.errors import ContentNotText, ContentTooLarge


def test_hashes_are_those_of_the_contract() -> None:
    assert EMPTY_SHA256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256_of(b"hello\n") == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert sha256_of("é".encode()) == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"


@pytest.mark.parametrize("text", ["", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 63 + "\n", "a" * 63 + "٠"])
def test_what_is_no_hash(text: str) -> None:
    assert not is_sha256(text)


def test_what_is_a_hash() -> None:
    assert is_sha256(EMPTY_SHA256)
    assert is_sha256("0" * 64)


def test_the_size_is_limited() -> None:
    assert MAX_CONTENT_BYTES == 102_400
    check_size(0)
    check_size(MAX_CONTENT_BYTES)
    with pytest.raises(ContentTooLarge, match="102,401"):
        check_size(MAX_CONTENT_BYTES + 1)


def test_the_size_counts_bytes() -> None:
    assert len(encode("x" * MAX_CONTENT_BYTES)) == MAX_CONTENT_BYTES
    assert len(encode("é" * 51_200)) == MAX_CONTENT_BYTES
    with pytest.raises(ContentTooLarge):
        encode("é" * 51_200 + "x")
    with pytest.raises(ContentTooLarge):
        decode(b"x" * (MAX_CONTENT_BYTES + 1))
    assert decode(b"x" * MAX_CONTENT_BYTES) == "x" * MAX_CONTENT_BYTES


@pytest.mark.parametrize("text", ["", "\0", "\r\n", "\ufeffa", "e\u0301", "\u2028", "\uffff", "\U0010ffff", "no newline"])
def test_text_is_never_normalised(text: str) -> None:
    assert decode(encode(text)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_all_text_comes_back(text: str) -> None:
    assert decode(encode(text)) == text


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_lone_surrogates_are_no_text(text: str) -> None:
    with pytest.raises(ContentNotText):
        encode(text)


NOT_UTF8 = [
    b"\x80",
    b"\xff",
    b"\xc3",
    b"a\xc3(",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xed\xa0\x80",
    b"\xf0\x80\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    "ä".encode("latin-1"),
    "a".encode("utf-16"),
]


@pytest.mark.parametrize("content", NOT_UTF8)
def test_bytes_that_are_no_text(content: bytes) -> None:
    with pytest.raises(ContentNotText):
        decode(content)


def test_the_place_of_the_first_bad_byte_is_named() -> None:
    with pytest.raises(ContentNotText, match="byte 3 "):
        decode(b"abc\xff")


# Fragments: what one write may hold.


@given(st.text(alphabet="aé日😀", min_size=1, max_size=8), st.data())
def test_every_piece_of_text_is_a_fragment(text: str, data: st.DataObject) -> None:
    content = text.encode()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    check_fragment(content[start:end])


@pytest.mark.parametrize(
    "fragment",
    [
        b"\xff",
        b"a\xffb",
        b"\xc0\x80",
        b"\x80\x80\x80\x80",
        b"a\x80",
        b"\xc3a",
        b"\xed\xa0",
        b"\xe0\x80",
        b"\xf4\x90",
        b"\xf5",
        b"\xf8",
        b"abc\xed\xa0\x80def",
        b"\x80a\x80",
        "a".encode("utf-16"),
    ],
)
def test_what_is_no_piece_of_text_is_no_fragment(fragment: bytes) -> None:
    with pytest.raises(ContentNotText):
        check_fragment(fragment)


def _completes(fragment: bytes) -> bool:
    """Whether some bytes before and after make `fragment` text: by trying all that can matter."""
    heads = [
        b"",
        *(character.encode()[:cut] for character in "é日\ud7ff\u0800\uffff😀\U00040000\U0010ffff" for cut in (1, 2, 3)),
    ]
    tails = [b""]
    tails += [
        bytes(tail) for first in (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF) for tail in ([first], [first, 0x80], [first, 0x80, 0x80])
    ]
    for head in heads:
        for tail in tails:
            try:
                (head + fragment + tail).decode()
            except UnicodeDecodeError:
                continue
            return True
    return False


@given(
    st.lists(st.sampled_from([0x61, 0x80, 0x8F, 0x90, 0xA0, 0xBF, 0xC2, 0xE0, 0xE1, 0xED, 0xF0, 0xF1, 0xF4, 0xF5]), max_size=5)
)
def test_no_piece_of_text_is_refused(values: list[int]) -> None:
    fragment = bytes(values)
    try:
        check_fragment(fragment)
    except ContentNotText:
        assert not _completes(fragment)
