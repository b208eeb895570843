"""How texts become words for the full-text index, and queries its expressions. Pure.

Letters and digits make words; case, accents and English endings do not count (the index's own tokenizer sees to that). Chinese,
Japanese and Korean have no such words: every two neighbouring characters are one, and the last character of a run is one by
itself, so that a single character is found as the beginning of a word.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_CJK = "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(f"[{_CJK}]+")
_PIECE = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_QUOTED = re.compile(r'"([^"]*)"')
_HEADING = re.compile(r"^\s*(?:#{1,6}\s+(?P<heading>.+?)\s*#*|(?:title|name|description):\s*(?P<field>.+?))\s*$", re.MULTILINE)

_QUESTION_WORDS = frozenset(
    """
    a about an and any are as at be been by can could did do does for from had has have how i if in is it its me my of on or our
    should so tell than that the their them then there these they this to was we were what when where which who whom whose why
    will with would you your
    """.split()  # noqa: SIM905 - a list of eighty strings reads worse
)
"""Words that tell nothing about what is looked for."""
_CJK_QUESTION = re.compile(
    "什么时候|为什么|是什么|什么|怎么样|怎么|怎样|如何|哪里|哪些|哪个|哪儿|为何|是否|多少|请问|吗|呢|"
    "ですか|ますか|とは|どこ|いつ|だれ|誰|何|무엇|어디|언제|뭐|누구"
)
_SNIPPET = 160
"""Characters of a snippet."""


def fold(text: str) -> str:
    """`text` with compatible characters made equal (full width, ligatures) and without case."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def _words_of_run(run: str) -> list[str]:
    return [*map("".join, pairwise(run)), run[-1]]


def indexed(text: str) -> str:
    """`text` as the index gets it."""
    if text.isascii():
        return text.lower()
    return _RUN.sub(lambda match: f" {' '.join(_words_of_run(match[0]))} ", fold(text))


def headings(text: str) -> str:
    """What a Markdown text says it is about: its headings, and the title, name and description at its top, a line each."""
    return "\n".join(match["heading"] or match["field"] for match in _HEADING.finditer(text))


@dataclass(frozen=True)
class Query:
    """A query, ready to be asked."""

    expression: str
    """For the index's MATCH."""
    terms: tuple[str, ...]
    """What to look for in a text that was found, to show the right part of it."""


def parse(text: str) -> Query | None:
    """What `text` asks for; None when there is no word in it.

    ``"quoted words"`` must stand together, ``word*`` is the beginning of a word; of all others as many as possible are looked
    for, and rare ones count more.
    """
    folded = fold(text)
    phrases = [phrase for quoted in _QUOTED.findall(folded) if (phrase := _phrase(quoted)) is not None]
    pieces = list(_pieces(_QUOTED.sub(" ", folded)))
    telling = [piece for piece in pieces if piece.telling] or ([] if phrases else pieces)
    words = list(dict.fromkeys(piece.expression for piece in telling))
    terms = [match for quoted in _QUOTED.findall(folded) for match in _PIECE.findall(quoted)]
    terms += [piece.term for piece in telling]
    if not phrases and not words:
        return None
    required = " AND ".join(phrases)
    # A phrase that is required anyway, among the words, keeps those optional: they only raise the rank.
    optional = " OR ".join([phrases[0], *words] if phrases else words)
    expression = f"({required}) AND ({optional})" if phrases and words else required or optional
    return Query(expression, tuple(dict.fromkeys(terms)))


@dataclass(frozen=True)
class _Piece:
    expression: str
    term: str
    telling: bool


def _pieces(text: str) -> Iterator[_Piece]:
    """The words of a query; of CJK runs, those that questions are asked with do not tell anything."""
    for match in _PIECE.finditer(text):
        word, prefix = match[0], text[match.end() : match.end() + 1] == "*"
        if not _RUN.fullmatch(word):
            yield _Piece(f'"{word}"*' if prefix else f'"{word}"', word, prefix or word not in _QUESTION_WORDS)
            continue
        for part in filter(None, _CJK_QUESTION.split(word)):
            if len(part) == 1:
                yield _Piece(f'"{part}"*', part, True)
            for pair in _words_of_run(part)[:-1]:
                yield _Piece(f'"{pair}"', pair, True)
        if not _CJK_QUESTION.sub("", word):
            yield _Piece(f'"{" ".join(_words_of_run(word)[:-1]) or word}"', word, False)


def _phrase(text: str) -> str | None:
    """Words that stand together, as an expression."""
    words: list[str] = []
    last_single = False
    for word in _PIECE.findall(text):
        run = _RUN.fullmatch(word) is not None
        last_single = run and len(word) == 1
        words += _words_of_run(word)[:-1] if run and len(word) > 1 else [word]
    if not words:
        return None
    # A single character is a word of its own at the end of a run only; elsewhere it begins one.
    return f'"{" ".join(words)}"{"*" if last_single else ""}'


def snippet(text: str, terms: tuple[str, ...]) -> str:
    """The line of `text` that has most of `terms`, in one line and around the first of them."""
    best, most = "", 0
    stems = [_stem(term) for term in terms]
    for line in text.splitlines():
        folded = fold(line)
        found = sum(stem in folded for stem in stems)
        if found > most or (not best and line.strip()):
            best, most = line.strip(), found
    if len(best) <= _SNIPPET:
        return best
    folded = fold(best)
    places = [place for stem in stems if (place := folded.find(stem)) >= 0]
    start = max(0, min([len(best) - _SNIPPET, min(places, default=0) - _SNIPPET // 4]))
    end = start + _SNIPPET
    return f"{'…' if start else ''}{best[start:end].strip()}{'…' if end < len(best) else ''}"


def _stem(term: str) -> str:
    """The beginning that the forms of an English word share, roughly."""
    return term if len(term) < 5 or not term.isascii() else term[: max(4, len(term) - 3)]
