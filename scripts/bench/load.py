"""A steady load on a `memfs serve`: so many requests a second, whether or not the earlier ones were answered.

    python -m scripts.bench.load URL STORE --rate 200 --seconds 10      (the API key is in PEER_KEY)

Most are reads of memories that the store lists first; some list a directory, ask for the newest versions, or save. Prints JSON:
milliseconds from when a request was due to its answer.
"""

import argparse
import itertools
import json
import os
import random
import sys
from collections import defaultdict
from typing import Any

import httpx
import trio

MIX = (("read", 60), ("list", 20), ("save", 15), ("versions", 5))
KNOWN = 2000
"""So many memories are read and saved."""


class Load:
    def __init__(self, client: httpx.AsyncClient, store: str) -> None:
        self.client = client
        self.base = f"/v1/memory_stores/{store}"
        self.known: list[dict[str, Any]] = []
        self.latencies: dict[str, list[float]] = defaultdict(list)
        self.dice = random.Random(11)
        self.turns = itertools.count()

    async def learn(self) -> None:
        page: str | None = None
        while len(self.known) < KNOWN:
            answer = await self._get(f"{self.base}/memories", limit="100", **({"page": page} if page else {}))
            self.known += answer["data"]
            page = answer["next_page"]
            if page is None:
                return

    async def one(self, kind: str, due: float) -> None:
        memory = self.dice.choice(self.known)
        await getattr(self, kind)(memory)
        self.latencies[kind].append((trio.current_time() - due) * 1000)

    async def read(self, memory: dict[str, Any]) -> None:
        await self._get(f"{self.base}/memories/{memory['id']}")

    async def list(self, memory: dict[str, Any]) -> None:
        prefix = memory["path"].rpartition("/")[0] + "/"
        await self._get(f"{self.base}/memories", path_prefix=prefix, depth="1", limit="100")

    async def versions(self, memory: dict[str, Any]) -> None:
        await self._get(f"{self.base}/memory_versions", limit="1")

    async def save(self, memory: dict[str, Any]) -> None:
        body = {"content": f"turn {next(self.turns)}\n" + "x" * 2000}
        answer = await self.client.post(f"{self.base}/memories/{memory['id']}", json=body)
        answer.raise_for_status()

    async def _get(self, path: str, **query: str) -> dict[str, Any]:
        answer = await self.client.get(path, params=query)
        answer.raise_for_status()
        body: dict[str, Any] = answer.json()
        return body


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


async def run(url: str, store: str, rate: float, seconds: float) -> dict[str, Any]:
    headers = {"x-api-key": os.environ["PEER_KEY"], "anthropic-beta": "agent-memory-2026-07-22"}
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, trust_env=False, timeout=30) as client:
        load = Load(client, store)
        await load.learn()
        kinds, weights = [kind for kind, _ in MIX], [weight for _, weight in MIX]
        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            for number in range(int(rate * seconds)):
                due = began + number / rate
                await trio.sleep_until(due)
                nursery.start_soon(load.one, load.dice.choices(kinds, weights)[0], due)
        took = trio.current_time() - began
    every = [time for times in load.latencies.values() for time in times]
    by_kind = {kind: {"p50_ms": percentile(t, 0.5), "p99_ms": percentile(t, 0.99)} for kind, t in load.latencies.items()}
    return {
        "asked_per_s": rate,
        "answered_per_s": len(every) / took,
        "p50_ms": percentile(every, 0.5),
        "p99_ms": percentile(every, 0.99),
        "kinds": by_kind,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="A steady load on a memfs server.")
    parser.add_argument("url")
    parser.add_argument("store")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    json.dump(trio.run(run, arguments.url, arguments.store, arguments.rate, arguments.seconds), sys.stdout)


if __name__ == "__main__":
    main()
