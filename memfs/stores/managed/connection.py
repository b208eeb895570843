"""The contract's headers and addresses (section 1), on the shared transport."""

from collections.abc import Mapping
from typing import Any

from memfs.stores.credentials import Credentials
from memfs.stores.managed.services import UNKNOWN, Service, recognise
from memfs.stores.transport import DEFAULT_TIMEOUT, Answer, Failure, Method, Transport

MEMORY_BETA = "agent-memory-2026-07-22"
SESSIONS_BETA = "managed-agents-2026-04-01"


class Connection(Transport):
    """Calls one service that speaks the contract, and finds out which one it is."""

    def __init__(self, url: str, credentials: Credentials, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """As `Transport`; a URL may end in ``/v1`` or not."""
        root = url.rstrip("/").removesuffix("/v1")
        super().__init__(root, credentials, timeout=timeout, headers={"anthropic-version": "2023-06-01"})
        self.service: Service = UNKNOWN

    def seen(self, status: int, headers: Mapping[str, str]) -> None:
        if status < 500 and (service := recognise(headers)) is not UNKNOWN:
            self.service = service

    def is_final(self, failure: Failure) -> bool:
        return failure.message in self.service.lost_race_messages

    async def call(
        self,
        endpoint: str,
        method: Method,
        *segments: str,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | None = None,
        beta: str = MEMORY_BETA,
        repeatable: bool = True,
    ) -> Answer:
        """As `request`, below ``/v1/`` and with what the beta wants."""
        return await self.request(
            endpoint,
            method,
            "v1",
            *segments,
            query={"beta": "true", **(query or {})},
            body=body,
            headers={"anthropic-beta": beta},
            repeatable=repeatable,
        )
