"""`.search`: reading a file that is named after a question answers it.

``cat '.search/what does the user drink'`` shows ranked paths with score and a part of the text, a line each and best first;
the same name with ``.json`` behind it shows one JSON object. The files are found by look-up and listed nowhere. Nothing is
asked until one is opened.

A store whose service searches by meaning is answered by it; every other one from the index of `memfs.replica.index`. Where a
service's own search leaves out the files that are written through it, the index answers for those.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import platformdirs

from memfs.model.errors import InvalidRequest
from memfs.replica.index import Found, SearchIndex
from memfs.replica.replica import Replica
from memfs.stores.base import SearchesMemories, SearchRequest
from memfs.views.structured import structured_name
from memfs.views.tree import BytesContent, Content, ViewDirectory, ViewFile

RESULTS = 20
"""How many memories an answer of the index shows."""
JSON_SUFFIX = ".json"

Defaults = Mapping[str, Any]


def defaults_path() -> Path:
    """Where this user's defaults for the file form are."""
    return platformdirs.user_config_path("memfs", appauthor=False) / "search.toml"


def read_defaults(path: Path) -> Defaults:
    """The fields of a `SearchRequest` that the file form takes from the configuration, a TOML file; none when there is none.

    Raises `InvalidRequest` that says what is wrong with the file.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{path} is no TOML: {error}") from None
    known = {field.name for field in fields(SearchRequest)} - {"query"}
    if unknown := values.keys() - known:
        raise InvalidRequest(f"{path} sets {sorted(unknown)[0]!r}: it may set {', '.join(sorted(known))}")
    return values


def request_of(query: str, values: Defaults) -> SearchRequest:
    """Raises `InvalidRequest` for values of the wrong type."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "scope": str,
        "filter": dict,
        "context_scope": str,
        "top_k": int,
        "min_similarity": (int, float),
        "min_score": (int, float),
        "metadata": dict,
        "rerank": bool,
        "evidence": bool,
    }
    for name, value in values.items():
        if not isinstance(value, kinds[name]):
            raise InvalidRequest(f"the search's {name} has the wrong type")
    return SearchRequest(query=query, **values)


class Searcher:
    """Answers the questions about one store."""

    def __init__(self, replica: Replica, index: SearchIndex, defaults: Path) -> None:
        self.replica = replica
        self.index = index
        self.defaults = defaults

    async def answer(self, query: str) -> dict[str, Any]:
        """One JSON object. Raises `InvalidRequest` and `Unavailable`."""
        attached = self.replica.attached
        service = attached.service
        told: dict[str, Any] = {}
        if isinstance(service, SearchesMemories) and service.capabilities.search:
            told = await service.search_memories(attached.store_id, request_of(query, read_defaults(self.defaults)))
            if not service.finds_memories(attached.store_id):
                told["memories"] = _rows(await self.index.search(query, limit=RESULTS))["memories"]
            return {"query": query, "store": attached.name, **told}
        return {"query": query, "store": attached.name, **_rows(await self.index.search(query, limit=RESULTS))}


def _rows(found: Found) -> dict[str, Any]:
    rows = [
        {
            "path": hit.path,
            "score": round(hit.score, 4),
            "snippet": hit.snippet,
            "id": hit.head.memory_id,
            "content_sha256": hit.head.sha256,
        }
        for hit in found.hits
    ]
    answer: dict[str, Any] = {"memories": rows, "searched": found.searched}
    if found.missing or found.reason:
        answer["incomplete"] = found.reason or f"{found.missing:,} memories are still being indexed: ask again"
    return answer


def lines(answer: Mapping[str, Any]) -> list[str]:
    """An answer for people and for `grep`: path, score and text, with tabs between; a remark begins with ``#``."""
    shown = [(row["score"], row["path"].lstrip("/"), row["snippet"]) for row in answer.get("memories", [])]
    shown += [
        (hit.get("score", 0.0), str(hit.get("path", "")).lstrip("/"), hit.get("summary", ""))
        for hit in answer.get("fileResults", [])
    ]
    for hit in answer.get("results", []):
        unit = hit.get("unit", {})
        score = hit.get("rankingScore", hit.get("score", 0.0))
        shown.append((score, f".memories/{structured_name(unit)}", unit.get("text", "")))
    made = [f"{path}\t{score:.4g}\t{_one_line(str(text))}" for score, path, text in shown]
    made += [f"# evidence\t\t{_one_line(json.dumps(one, ensure_ascii=False))}" for one in answer.get("evidence", [])]
    if answer.get("incomplete"):
        made.append(f"# incomplete: {answer['incomplete']}")
    return made or ["# nothing was found"]


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() or c.isspace() else "?" for c in text)).strip()


class AnswerFile(ViewFile):
    """The answer to one question, found anew by everyone who opens it."""

    def __init__(self, key: str, searcher: Searcher, name: str, *, mtime_ns: int) -> None:
        super().__init__(f"{key}:{name}", mtime_ns=mtime_ns)
        self._searcher = searcher
        self._as_json = name.endswith(JSON_SUFFIX)
        self._query = name.removesuffix(JSON_SUFFIX)

    @property
    def size(self) -> int:
        return 0

    @property
    def direct(self) -> bool:
        return True

    @property
    def timeout(self) -> float:
        return 0.0

    async def open(self) -> Content:
        answer = await self._searcher.answer(self._query)
        text = json.dumps(answer, ensure_ascii=False) if self._as_json else "\n".join(lines(answer))
        return BytesContent(f"{text}\n".encode("utf-8", "replace"))


class SearchDirectory(ViewDirectory):
    """`.search` in the root of a store."""

    def __init__(self, key: str, searcher: Searcher, *, mtime_ns: int) -> None:
        super().__init__(key, mtime_ns=mtime_ns)
        self._searcher = searcher

    async def lookup(self, name: str) -> ViewDirectory | ViewFile | None:
        if not name.removesuffix(JSON_SUFFIX).strip():
            return None
        return AnswerFile(self.key, self._searcher, name, mtime_ns=self.mtime_ns)

    async def entries(self) -> list[tuple[str, ViewDirectory | ViewFile]]:
        return []


def search_of(replica: Replica, defaults: Path) -> SearchDirectory:
    """`.search` in the root of a store; `defaults` is the file that `read_defaults` reads at every question."""
    index = SearchIndex(replica.attached, replica.listing, replica.feed)
    searcher = Searcher(replica, index, defaults)
    return SearchDirectory(f"search:{replica.attached.store_id}", searcher, mtime_ns=replica.created_ns)
