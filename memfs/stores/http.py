"""httpx, without the command line that it loads along: rich, pygments and click would be a fifth of a mount's start."""

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

import httpx  # noqa: E402  what it must not find has to be said before

__all__ = ["httpx"]
