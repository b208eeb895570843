"""`memfs search`: ask the stores of a mount a question."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memfs.cli.output import print_json, printable, say
from memfs.cli.registry import AttachedStore, MountRecord, Registry
from memfs.cli.service import call, opener, operator, service_of_mount
from memfs.cli.targets import the_mount
from memfs.model.errors import InvalidRequest, MemfsError, NotFound

if TYPE_CHECKING:
    from memfs.stores.base import MemoryStore

LONGEST_NAME = 255 - len(".json")
"""Bytes of a question that a mount answers by itself: there it is the name of a file."""


@click.command()
@click.argument("query")
@click.argument("store", required=False)
@click.option("--mountpoint", metavar="DIR", help="Which mount; else the one you are in, /mnt/memory, or the only one.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Show so many answers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each store.")
@click.option("--scope", metavar="APP/TENANT/AGENT/RUN", help="Search here; later parts may be left out or '*' (Tablestore).")
@click.option("--filter", "scope_filter", metavar="JSON", help="Narrow the scope further (Tablestore).")
@click.option("--context-scope", metavar="APP/TENANT/AGENT/RUN", help="Prefer this conversation among equals (Tablestore).")
@click.option("--top-k", type=int, metavar="N", help="So many results of each kind, at most 50 (Tablestore).")
@click.option("--min-similarity", type=float, metavar="X", help="Least similarity, 0 to 1 (Tablestore).")
@click.option("--min-score", type=float, metavar="X", help="Least score, 0 to 1 (Tablestore).")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Only with this metadata, repeatable (Tablestore).")
@click.option("--no-rerank", is_flag=True, help="Do not rank the results a second time (Tablestore).")
@click.option("--evidence", is_flag=True, help="Show the messages that the results come from (Tablestore).")
@click.option(
    "--credentials-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the token or API key of the service (else from the environment, such as $MEMFS_API_KEY).",
)
def search(
    query: str,
    store: str | None,
    mountpoint: str | None,
    limit: int,
    as_json: bool,
    scope: str | None,
    scope_filter: str | None,
    context_scope: str | None,
    top_k: int | None,
    min_similarity: float | None,
    min_score: float | None,
    metadata: tuple[str, ...],
    no_rerank: bool,
    evidence: bool,
    credentials_file: Path | None,
) -> None:
    """Find memories by what they say, best first.

    It looks in all stores of a mount, or in STORE. "Quoted words" must stand together, word* is the beginning of a word, and of
    all others as many as possible are looked for. The options for Tablestore need a store of that service.

    \b
    Examples:
      memfs search 'what does the user drink'
      memfs search '"flat white" sug*' user-preferences --json
    """
    record = the_mount(Registry.of_user(), mountpoint)
    stores = _stores(record, store)
    settings: dict[str, Any] = {
        "scope": scope,
        "filter": _json(scope_filter),
        "context_scope": context_scope,
        "top_k": top_k,
        "min_similarity": min_similarity,
        "min_score": min_score,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    settings |= {"metadata": _pairs(metadata)} if metadata else {}
    settings |= {"rerank": False} if no_rerank else {}
    settings |= {"evidence": True} if evidence else {}
    if settings:
        answers = _ask_service(record, stores, query, settings, credentials_file)
    else:
        answers = [_ask_mount(record, one, query) for one in stores]
    for answer in answers:
        if as_json:
            print_json(answer)
    if not as_json:
        _show(answers, limit)


def _stores(record: MountRecord, wanted: str | None) -> list[AttachedStore]:
    found = [one for one in record.stores if wanted in (None, one.name, one.id, one.title)]
    if not found:
        raise NotFound(f"{wanted!r} is no store of {record.mountpoint}: it has {', '.join(one.name for one in record.stores)}")
    return found


def _ask_mount(record: MountRecord, store: AttachedStore, query: str) -> dict[str, Any]:
    """The mount's own answer."""
    name = query.replace("/", " ").replace("\0", " ").strip()
    if not name or len(os.fsencode(name)) > LONGEST_NAME:
        raise InvalidRequest(f"a question to a mount has 1 to {LONGEST_NAME} bytes: ask with some words")
    if record.kind == "shadow":
        raise InvalidRequest(f"{record.mountpoint} is no mount and answers no questions: grep -r finds words in its files")
    file = Path(record.mountpoint, store.name, ".search", f"{name}.json")
    try:
        answer: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise MemfsError(
            f"{store.name} did not answer ({error.strerror}): {record.mountpoint}/.memfs/errors says why"
        ) from None
    return answer


def _ask_service(
    record: MountRecord, stores: list[AttachedStore], query: str, settings: dict[str, Any], credentials_file: Path | None
) -> list[dict[str, Any]]:
    from memfs.model.ids import StoreId
    from memfs.stores.base import SearchesMemories, SearchRequest

    request = SearchRequest(query=query, **settings)

    async def work(service: "MemoryStore") -> list[dict[str, Any]]:
        if not isinstance(service, SearchesMemories) or not service.capabilities.search:
            raise InvalidRequest("these options are for a service with a search of its own, such as Tablestore: leave them out")
        return [
            {"query": query, "store": store.name, **await service.search_memories(StoreId(store.id), request)}
            for store in stores
        ]

    opened = opener(service_of_mount(record.url), actor=operator(), credentials_file=credentials_file)
    return call(opened, work)


def _show(answers: list[dict[str, Any]], limit: int) -> None:
    """A line for each answer: path below the mount, score, text."""
    from memfs.views.search import lines

    shown: list[tuple[float, str]] = []
    for answer in answers:
        for line in lines(answer):
            if line.startswith("#"):
                if "nothing" not in line:
                    say(f"{answer['store']}: {line[2:]}")
                continue
            path, score, text = line.split("\t", 2)
            shown.append((float(score), f"{answer['store']}/{path}\t{score}\t{text}"))
    if not shown:
        say("nothing was found")
    for _, line in sorted(shown, key=lambda one: -one[0])[:limit]:
        print("\t".join(printable(cell) for cell in line.split("\t")))


def _json(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise click.BadParameter("this is no JSON object", param_hint="--filter")
    return value


def _pairs(metadata: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in metadata:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--metadata")
        pairs[key] = value
    return pairs


COMMANDS = (search,)
