"""The contract in raw HTTP, without any client library of ours in between."""

from typing import Any

import httpx

MEMORY_BETA = "agent-memory-2026-07-22"
SESSIONS_BETA = "managed-agents-2026-04-01"


class Api:
    """One credential's view of a server. Bodies are JSON; answers are `httpx.Response`."""

    def __init__(self, url: str, secret: str | None = None, *, header: str = "x-api-key", timeout: float = 30) -> None:
        headers = {"anthropic-beta": MEMORY_BETA}
        if secret is not None:
            headers[header] = secret if header == "x-api-key" else f"Bearer {secret}"
        self.client = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)

    def close(self) -> None:
        self.client.close()

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.client.get("/v1/" + path, params=query)

    def post(self, path: str, body: Any = None, **query: Any) -> httpx.Response:
        return self.client.post("/v1/" + path, json=body, params=query)

    def delete(self, path: str, **query: Any) -> httpx.Response:
        return self.client.delete("/v1/" + path, params=query)

    def create_store(self, name: str = "Notes") -> str:
        """The id of a new store."""
        return str(self.ok(self.post("memory_stores", {"name": name}))["id"])

    def create_memory(self, store: str, path: str, content: str = "x") -> dict[str, Any]:
        return self.ok(self.post(f"memory_stores/{store}/memories", {"path": path, "content": content}))

    @staticmethod
    def ok(response: httpx.Response) -> dict[str, Any]:
        """The object of a 200."""
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    @staticmethod
    def refused(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
        """The error of a refusal that has this status and type, and the exact envelope."""
        assert response.status_code == status, response.text
        body = response.json()
        assert set(body) == {"type", "error", "request_id"}
        assert body["type"] == "error"
        assert body["request_id"].startswith("req_")
        assert response.headers["request-id"] == body["request_id"]
        assert body["error"]["type"] == kind
        assert body["error"]["message"]
        error: dict[str, Any] = body["error"]
        return error

    def bad(self, response: httpx.Response) -> dict[str, Any]:
        return self.refused(response, 400, "invalid_request_error")
