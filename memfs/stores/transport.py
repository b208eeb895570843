"""Calls to one service over HTTP: the connection pool, the credential, and the one policy of time-outs and retries.

A call is repeated after 408, 429, 5xx and connection errors, never after another 4xx (a 409 least of all), until the one
time-out of the call has passed; `retry-after` and `x-should-retry: false` are obeyed. When an answer was lost the earlier
attempt may have been applied: `Answer.maybe_applied` says so, and a call that must not be applied twice is not repeated.
"""

import email.utils
import json
import os
import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import anyio

from memfs import __version__
from memfs.model.errors import (
    BadAnswer,
    ContentNotText,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServiceFault,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from memfs.stores.credentials import REMEDY, Credential, Credentials
from memfs.stores.http import httpx

DEFAULT_TIMEOUT = 8.0

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 2.0
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
"""What the TLS library, in its different versions, calls an answer in the clear."""
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Twenty full memories are at most 12 MB of JSON even when every character is escaped; what is larger is no answer to us."""
_CONNECTIONS = 32
_IDLE_SECONDS = 30.0
"""Below the idle limit of common servers, so that we rarely send on a connection that is being closed."""

_SHOWN = 300
"""Characters of a service's own message that we repeat."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

# Nothing was sent yet, so nothing was applied.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)

Method = Literal["GET", "POST", "PUT", "DELETE"]
Headers = Callable[[Credential], Mapping[str, str]]


@dataclass(frozen=True)
class Failure:
    """An answer with a status of 400 or more."""

    status: int
    type: str
    """What the service calls this kind of failure; empty when it does not say."""
    message: str
    fields: dict[str, Any]
    """The error object's other fields."""
    request_id: str | None

    @staticmethod
    def of(status: int, headers: Mapping[str, str], body: bytes) -> "Failure":
        """Reads any body, also that of a proxy in between.

        The error is an object below `error` or the whole body; its kind is called `type`, `code` or `error_code`.
        """
        request_id = next(
            (headers[name] for name in ("request-id", "x-request-id", "x-ots-requestid") if name in headers), None
        )
        try:
            answer = json.loads(body)
            error = answer["error"] if isinstance(answer.get("error"), dict) else answer
            names = ("type", "code", "error_code") if error is not answer else ("code", "error_code")
            kind = next(str(error[name]) for name in names if error.get(name))
            message = error["message"] if "message" in error else error["error_message"]
            told = answer.get("request_id") or answer.get("requestId")
            return Failure(
                status,
                kind,
                " ".join(str(message).split())[:_SHOWN],
                error,
                request_id or (str(told) if told else None),
            )
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError, StopIteration):
            return Failure(status, "", "no error in the contract's form (is a proxy in between?)", {}, request_id)

    def sentence(self) -> str:
        end = f" [{self.request_id}]" if self.request_id else ""
        return f"the service answered {self.status}: {self.message}{end}"


@dataclass(frozen=True)
class Answer:
    """What the service said in the end."""

    body: bytes
    failure: Failure | None
    """Set when the status is 400 or more."""
    maybe_applied: bool
    """An earlier attempt of this call may have been applied, its answer lost."""


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Calls one service. Safe for any number of tasks at once; `aclose` ends it."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        headers: Mapping[str, str] | None = None,
        authorize: Headers | None = None,
    ) -> None:
        """`timeout` bounds each call as a whole, in seconds; `headers` go with every request; `authorize` makes those that
        carry the credential, without which nothing is sent (None: its own, where there is one). Raises `InvalidRequest` for a
        URL that is none of a service.
        """
        self.url = checked_url(url)
        self.requests: Counter[str] = Counter()
        """Requests sent so far, repeated ones too, by endpoint."""
        self._credentials = credentials
        self._authorize = authorize or _own_header
        self._timeout = timeout
        # The first attempt may not use up the whole call, or a connection that died silently could never be replaced. But it
        # has most of it: given up too early, what a slow service did apply is sent again, and again told to be there already.
        self._first_attempt = httpx.Timeout(timeout * 2 / 3, pool=timeout)
        self._client = httpx.AsyncClient(
            http2=self.url.startswith("https:"),  # it is agreed upon under TLS only, and loading it takes a while
            # Loading the certificates takes a while, and only https needs them. $SSL_CERT_FILE counts for any host.
            verify=httpx.create_ssl_context() if self.url.startswith("https:") else False,
            follow_redirects=False,  # a redirect would carry the credential to a place nobody chose
            timeout=timeout,
            limits=httpx.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS
            ),
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,  # no proxy between this machine and itself
            headers={"user-agent": f"memfs/{__version__}", "accept": "application/json", **(headers or {})},
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    async def aclose(self) -> None:
        await self._client.aclose()

    def seen(self, status: int, headers: Mapping[str, str]) -> None:
        """Called with every answer (header names in lower case)."""

    def is_final(self, failure: Failure) -> bool:
        """Whether a failure that would be worth a repeat is the service's last word."""
        return False

    def was_refused_unread(self, failure: Failure) -> bool:
        """Whether the service says that it was too busy to do anything, whatever the status."""
        return failure.status == 429

    async def request(
        self,
        endpoint: str,
        method: Method,
        *segments: str,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> Answer:
        """The answer to one call of `endpoint` (a name for `requests`) at the URL and `segments`.

        `repeatable` false: applying the call twice would do harm, so it is not repeated once it may have been applied.
        Raises `Unavailable`, `RateLimited` or `BadAnswer` when there is no answer within the time-out, and `Unauthenticated`
        when there is no credential for a service that wants one.
        """
        if not {"", ".", ".."}.isdisjoint(segments) or not all(encodable(segment) for segment in segments):
            raise NotFound("no such id")  # it would address another endpoint, or none that a URL can name
        if not all(encodable(value) for value in (query or {}).values() if value is not None):
            raise InvalidRequest("a parameter must not contain lone surrogates")
        request: dict[str, Any] = {
            "method": method,
            "url": "/".join([self.url, *(quote(segment, safe="") for segment in segments)]),
            "params": {name: value for name, value in (query or {}).items() if value is not None},
            "content": None if body is None else _encoded(body),
            "headers": {**(headers or {}), **({"content-type": "application/json"} if method != "GET" else {})},
        }
        if repeatable:
            request["timeout"] = self._first_attempt
        trouble: Unavailable | None = None
        with anyio.move_on_after(self._timeout) as scope:
            maybe_applied = False
            delay = _FIRST_DELAY
            credential = self._credentials.current()
            if credential is None and self._authorize is not _own_header:
                raise Unauthenticated(f"there is no credential; {REMEDY}")
            while True:
                self.requests[endpoint] += 1
                wait: float | None = None
                try:
                    reply = await self._exchange(request, credential)
                except httpx.TransportError as error:
                    trouble = Unreachable(f"{self.url} did not answer: {_reason(error)}")
                    if not isinstance(error, _NOT_SENT):
                        if not repeatable:
                            raise trouble from None
                        maybe_applied = True
                except httpx.HTTPError as error:
                    raise BadAnswer(f"{self.url}: {type(error).__name__}; is this the URL of a memory service?") from None
                else:
                    if reply.status < 400:
                        return Answer(self._accept(reply), None, maybe_applied)
                    failure = Failure.of(reply.status, reply.headers, reply.body)
                    if reply.status == 401 and self._credentials.refresh(credential):
                        credential = self._credentials.current()
                        continue
                    if not self._may_repeat(failure, reply, repeatable):
                        return Answer(b"", failure, maybe_applied)
                    maybe_applied = maybe_applied or not self.was_refused_unread(failure)
                    trouble = (RateLimited if reply.status == 429 else ServiceFault if reply.status >= 500 else Unavailable)(
                        failure.sentence()
                    )
                    wait = _retry_after(reply.headers)
                    if wait is not None:
                        wait = max(wait, _FIRST_DELAY)  # "at once" from a service in trouble would be a storm
                request.pop("timeout", None)
                if wait is None:
                    wait = delay * random.uniform(0.75, 1.25)
                    delay = min(delay * 2, _LONGEST_DELAY)
                if anyio.current_time() + wait >= scope.deadline:
                    raise trouble
                await anyio.sleep(wait)
        raise trouble or Unreachable(f"{self.url} did not answer within {self._timeout:g} s")

    async def _exchange(self, request: Mapping[str, Any], credential: Credential | None) -> _Reply:
        headers = dict(request["headers"])
        if credential is not None:
            headers.update(self._authorize(credential))
        async with self._client.stream(**(dict(request) | {"headers": headers})) as response:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _MAX_ANSWER_BYTES:
                    raise BadAnswer(f"{self.url} sent more than any answer of a memory service can be")
            reply = _Reply(response.status_code, response.headers, bytes(body))
        self.seen(reply.status, reply.headers)
        return reply

    def _accept(self, reply: _Reply) -> bytes:
        if reply.status >= 300:
            raise BadAnswer(f"{self.url} redirects elsewhere ({reply.status}); give the URL of the service itself")
        if reply.status == 204 and not reply.body:
            return reply.body
        kind = reply.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            raise BadAnswer(f"{self.url} answered with {kind or 'something'} instead of JSON; is this a memory service?")
        return reply.body

    def _may_repeat(self, failure: Failure, reply: _Reply, repeatable: bool) -> bool:
        if reply.headers.get("x-should-retry") == "false" or self.is_final(failure):
            return False
        if self.was_refused_unread(failure):
            return True
        return repeatable and (failure.status == 408 or failure.status >= 500)


def _own_header(credential: Credential) -> Mapping[str, str]:
    name, value = credential.header()
    return {name: value}


def bearer(credential: Credential) -> Mapping[str, str]:
    """The secret as a Bearer token, whatever kind of credential it was given as: for services that know no other header."""
    return {"authorization": f"Bearer {credential.secret.get_secret_value()}"}


def load(body: bytes) -> Mapping[str, Any]:
    """Raises `BadAnswer` for anything but a JSON object."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise BadAnswer("the service's answer is no JSON object")
    return answer


def checked_url(url: str) -> str:
    """`url` without a slash at its end. Raises `InvalidRequest` when it is none of a service over HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest(f"{parts.scheme or 'this'}: the URL of a memory service begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise InvalidRequest("a URL must not hold a credential: use the environment or --credentials-file")
    if parts.query or parts.fragment:
        raise InvalidRequest("the URL of a memory service has no query")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def require_tls(url: str, *, even_here: bool = False) -> None:
    """Raise `InvalidRequest` when a credential sent to `url` could be read on the way; `even_here`: also to this machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and (even_here or parts.hostname not in _LOOPBACK):
        raise InvalidRequest("the credential of this service goes over TLS only: write https instead of http in the URL")


def _encoded(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False)
    if not encodable(text):
        raise ContentNotText("a text must not contain lone surrogates")
    return text.encode()


def encodable(text: str) -> bool:
    """Whether `text` has a UTF-8 form: it has none with lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "time-out"
    if not isinstance(error, httpx.ConnectError):
        return "the connection broke"
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not to be trusted ({cause.verify_message}); $SSL_CERT_FILE names other authorities"
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            return "nothing there speaks TLS (https)"
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror:
            return f"no connection ({_words(cause)})"
    return f"no connection ({error})" if str(error) else "no connection"


def _words(error: OSError) -> str:
    """The system's own, where a library that raised `error` in its place has kept only the number."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error.strerror)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, what it was raised from, and so on."""
    following: BaseException | None = error
    while following is not None:
        yield following
        if isinstance(following, BaseExceptionGroup):
            for part in following.exceptions:
                yield from _causes(part)
        following = following.__cause__ or following.__context__


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the service asks us to wait; None when it does not say."""
    value = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
