"""What the routes stand on: reading requests, checking tokens and limits, and answering with problems."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from .events import LiveError, RefusedError, UnavailableError, ordered_json
from .limits import RateLimit

if TYPE_CHECKING:
    from .ledger import Ledger
    from .metrics import Metrics
    from .stream import Broadcast
    from .tokens import Tokens

JSON, PROBLEM, NDJSON = "application/json", "application/problem+json", "application/x-ndjson"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SLOWEST_BODY = 20.0  # seconds for a body to arrive
_SLOWEST_ANSWER = 30.0  # seconds, after which something is wrong with the disk
_LONGEST_KEY = 255
Http = Request[Any, Any, Any]
Handler = Callable[[Http], Awaitable[Response[Any]]]


class Service:
    """The parts of a running service."""

    def __init__(
        self, ledger: Ledger, tokens: Tokens, metrics: Metrics, broadcast: Broadcast, any_host: bool = False
    ) -> None:
        self.ledger, self.tokens, self.metrics, self.broadcast = ledger, tokens, metrics, broadcast
        assert ledger.engine is not None
        self.rate = RateLimit(ledger.engine.plant.limits.rate)
        self.limits = ledger.engine.plant.limits
        self.deadline = ledger.engine.plant.deadline
        self.name = ledger.engine.plant.name
        self.any_host = any_host
        self.plant_cache: tuple[float, int, str] | None = None

    async def admit(self, request: Http, role: str) -> str | None:
        """Return who asks. Raises `RefusedError` for a wrong token, a foreign page, or too many requests."""
        if self.tokens.stale:
            try:
                await asyncio.to_thread(self.tokens.refresh)
            except Exception:  # the database is away: the tokens of a moment ago are good
                self.metrics.count("faults")
        client = request.client.host if request.client is not None else ""
        who: str | None = None
        if self.tokens.wanted:
            try:
                who = self.tokens.check(request.headers.get("authorization"), role)
            except RefusedError:
                self.rate.take(f"address {client}")  # guessing tokens is limited, too
                raise
        else:
            self._check_page(request)
        self.rate.take(f"address {client}" if who is None else f"token {who}")
        return who

    def _check_page(self, request: Http) -> None:
        """Refuse what a foreign web page in a browser on this machine sends, where no token is wanted."""
        if not self.any_host and host_of(request.headers.get("host", "")) not in _LOOPBACK:
            raise RefusedError(403, "foreign-host", "without tokens the service answers to localhost only")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host", ""):
            raise RefusedError(403, "foreign-page", "without tokens the service does not answer other pages")

    async def body(self, request: Http) -> bytes:
        """Return the body of a request. Raises `RefusedError` if it is too large or too slow."""
        most = self.limits.body
        too_large = RefusedError(
            413, "body-too-large", f"the body has more than {most} bytes (limits.body)", limit=most
        )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise too_large
        pieces, total = [], 0
        try:
            async with asyncio.timeout(_SLOWEST_BODY):
                async for piece in request.stream():
                    total += len(piece)
                    if total > most:
                        raise too_large
                    pieces.append(piece)
        except TimeoutError:
            text = f"the body took more than {_SLOWEST_BODY:g} seconds"
            raise RefusedError(408, "body-too-slow", text) from None
        return b"".join(pieces)

    async def wait(self, future: Future[Any]) -> Any:
        """Return the result of a command after its commit."""
        try:
            async with asyncio.timeout(_SLOWEST_ANSWER):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError:
            text = f"no commit within {_SLOWEST_ANSWER:g} seconds; send the same request again"
            raise UnavailableError(text, retry_after=5) from None

    def observe(self, begun: float) -> None:
        """Count an answer to a reading."""
        self.metrics.answered(time.perf_counter() - begun, self.deadline)


def host_of(header: str) -> str:
    """Return the name in a `Host` header.

    >>> host_of("localhost:8642"), host_of("[::1]:8642")
    ('localhost', '::1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


def key_of(request: Http) -> str | None:
    """Return the idempotency key of a request, with or without the quotes of the draft."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    key = given.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not key or len(key) > _LONGEST_KEY or not key.isprintable():
        text = f"Idempotency-Key: 1 to {_LONGEST_KEY} printable characters are wanted"
        raise RefusedError(400, "invalid-request", text)
    return key


def document(data: bytes, kind: Any) -> Any:
    """Return a body as the wanted kind. Raises `RefusedError`, which names the field."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        text, at, where = str(error).rpartition(" - at `$.")
        raise RefusedError(
            400, "invalid-request", f"{where.rstrip('`')}: {text}" if at else str(error)
        ) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RefusedError(400, "invalid-request", f"the body is no JSON: {error}") from None


def answer(text: str, status: int = 200, media: str = JSON) -> Response[bytes]:
    """Return a text as a response."""
    return Response(text.encode(), status_code=status, media_type=media)


def problem(refused: RefusedError) -> Response[bytes]:
    """Return a refusal as a problem document (RFC 9457)."""
    found = answer(ordered_json(refused.problem()), refused.status, PROBLEM)
    retry = refused.members.get("retry_after")
    if retry is not None:
        found.headers["Retry-After"] = str(retry)
    if refused.status == 401:
        found.headers["WWW-Authenticate"] = "Bearer"
    return found


def handle_refused(request: Http, error: RefusedError) -> Response[bytes]:
    """Answer a refusal."""
    request.app.state.service.metrics.count("refused")
    return problem(error)


def handle_http(request: Http, error: HTTPException) -> Response[bytes]:
    """Answer what the framework refuses: unknown paths and methods."""
    kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "invalid-request")
    found = problem(
        RefusedError(error.status_code, kind, f"{request.method} {request.url.path}: {error.detail}")
    )
    found.headers.update(error.headers or {})
    return found


def handle_fault(request: Http, error: Exception) -> Response[bytes]:
    """Answer an unexpected error."""
    import logging

    service: Service = request.app.state.service
    service.metrics.count("faults")
    logging.getLogger("psrl_pomdp.live").error("a request failed", exc_info=error)
    text = str(error) if isinstance(error, LiveError) else type(error).__name__
    return problem(RefusedError(500, "internal-error", text))
