"""How texts and queries become words."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.replica.index_text import headings, indexed, parse, snippet


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Flat White", "flat white"),
        ("我喜欢咖啡", "我喜 喜欢 欢咖 咖啡 啡"),
        ("用Python写", "用 python 写"),
        ("ＡＢＣ１２", "abc12"),
        ("抹茶ラテ", "抹茶 茶ラ ラテ テ"),
        ("보리차", "보리 리차 차"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert indexed(text).split() == words.split()


@pytest.mark.parametrize(
    ("query", "expression"),
    [
        ("what does the user drink", '"user" OR "drink"'),
        ("what is it", '"what" OR "is" OR "it"'),
        ('"flat white" sugar', '("flat white") AND ("flat white" OR "sugar")'),
        ("pref*", '"pref"*'),
        ("用户喜欢什么饮品", '"用户" OR "户喜" OR "喜欢" OR "饮品"'),
        ('"美式咖啡"', '"美式 式咖 咖啡"'),
        ("猫", '"猫"*'),
        ("什么", '"什么"'),
        ("a AND b) OR NEAR(c", '"b" OR "near" OR "c"'),
        ("drink drink", '"drink"'),
    ],
)
def test_expressions(query: str, expression: str) -> None:
    found = parse(query)
    assert found is not None
    assert found.expression == expression


@pytest.mark.parametrize("query", ["", "  ", "!?*", '""', '"-"'])
def test_queries_without_a_word(query: str) -> None:
    assert parse(query) is None


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_every_query_is_understood(query: str) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (body, tokenize='porter unicode61')")
    database.execute("INSERT INTO words VALUES (?)", (indexed(query),))
    found = parse(query)
    if found is not None:
        database.execute("SELECT count(*) FROM words WHERE words MATCH ?", (found.expression,)).fetchone()
    database.close()


@given(st.text(alphabet="喜欢美式咖啡茶水", min_size=2, max_size=12), st.data())
def test_every_part_of_a_text_is_found_as_a_phrase(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (body, tokenize='porter unicode61')")
    database.execute("INSERT INTO words VALUES (?)", (indexed(text),))
    query = parse(f'"{text[start:end]}"')
    assert query is not None
    matched = "SELECT count(*) FROM words WHERE words MATCH ?"
    assert database.execute(matched, (query.expression,)).fetchone() == (1,)
    database.close()


def test_headings() -> None:
    text = "---\nname: drinks\ndescription: what to serve\n---\n# Coffee #\ntext # no heading\n\n### 饮品\n#no\n"
    assert headings(text) == "drinks\nwhat to serve\nCoffee\n饮品"


def test_snippets() -> None:
    text = "# Title\n\nnothing here\n" + "x " * 200 + "the hazelnut is here " + "y " * 200
    shown = snippet(text, ("hazelnuts",))
    assert "hazelnut" in shown
    assert len(shown) < 170
    assert snippet("\n\nfirst\nsecond\n", ("none",)) == "first"
    assert snippet("", ("none",)) == ""
