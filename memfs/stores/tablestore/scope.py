"""Scopes: whose memories, as four parts. Pure."""

from dataclasses import dataclass

from memfs.model.errors import InvalidRequest

PARTS = ("appId", "tenantId", "agentId", "runId")
DEFAULT_PART = "__default__"
MAX_PART_BYTES = 128


@dataclass(frozen=True)
class Scope:
    app: str
    tenant: str
    agent: str
    run: str

    @property
    def parts(self) -> tuple[str, str, str, str]:
        return self.app, self.tenant, self.agent, self.run

    @property
    def exact(self) -> bool:
        return "*" not in self.parts

    def wire(self) -> dict[str, str]:
        return dict(zip(PARTS, self.parts, strict=True))

    def __str__(self) -> str:
        return "/".join(self.parts)


def parse_exact(text: str) -> Scope:
    """The scope that ``app/tenant/agent/run`` says. Raises `InvalidRequest` unless it has all four parts and no ``*``."""
    scope = _checked(text.split("/"))
    if not scope.exact:
        raise InvalidRequest(f"scope {text!r} has a wildcard: a mount shows one exact scope, name all four parts")
    return scope


def parse_search(text: str) -> Scope:
    """As `parse_exact`, but parts at the end may be left to their defaults, and all but the first may be ``*``."""
    given = text.split("/")
    if len(given) > len(PARTS):
        raise InvalidRequest(f"scope {text!r} has more than four parts: app/tenant/agent/run")
    scope = _checked([*given, *[DEFAULT_PART] * (len(PARTS) - len(given))])
    if scope.app == "*":
        raise InvalidRequest(f"scope {text!r} must name the app")
    return scope


def _checked(parts: list[str]) -> Scope:
    shown = "/".join(parts)
    if len(parts) != len(PARTS):
        raise InvalidRequest(f"scope {shown!r} has {len(parts)} parts and not four: app/tenant/agent/run")
    for part in parts:
        if not part or "\0" in part or len(part.encode("utf-8", "surrogatepass")) > MAX_PART_BYTES:
            raise InvalidRequest(f"scope {shown!r}: each part has 1 to {MAX_PART_BYTES} bytes")
    return Scope(*parts)
