"""A client of the service, with retries by the same key: the service records a reading exactly once.

    from psrl_pomdp.live import Client

    client = Client("http://localhost:8642")
    client.reading("p1", "low")["action"]

It needs no packages beside the standard library.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from ..errors import PSRLError

_AGAIN = (429, 502, 503, 504)  # the request may be sent again
_LONGEST_PAUSE = 5.0


class ServiceError(PSRLError):
    """Raised for a request that the service refuses; `problem` is its document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status}: {problem.get('detail', problem.get('title', 'no answer'))}")
        self.status = status
        self.problem = dict(problem)


class NoAnswerError(PSRLError, ConnectionError):
    """Raised if the service does not answer, after all attempts."""


class Client:
    """The service of a plant.

    Parameters
    ----------
    url
        Its address, such as "http://localhost:8642".
    token
        A bearer token, if the service wants one.
    timeout
        Seconds to wait for an answer.
    attempts
        How often a request is sent, with growing pauses: after a broken connection, and after 429, 502, 503
        and 504. Every attempt has the same key.
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout: float = 10.0, attempts: int = 8
    ) -> None:
        found = urlsplit(url if "://" in url else f"http://{url}")
        if found.scheme not in ("http", "https") or not found.hostname:
            raise PSRLError(f"{url!r} is no address such as http://localhost:8642")
        self._secure, self._host = found.scheme == "https", found.hostname
        self._port, self._path = found.port, found.path.rstrip("/")
        self._token, self._timeout, self._attempts = token, timeout, max(1, attempts)
        self._connection: http.client.HTTPConnection | None = None
        self._steps: dict[str, int] = {}  # the next step of every unit that this client has seen

    # -- readings -------------------------------------------------------------------------------

    def reading(
        self,
        unit: str,
        reading: Any,
        *,
        step: int | None = None,
        taken: str | int | None = None,
        cost: float | None = None,
        at: str | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Send a reading and return the decision; `None` is a lost reading.

        Without a `step` the client asks once for the unit's step, and counts from there.
        """
        if step is None:
            step = self._steps.get(unit)
        if step is None:
            step = self.step(unit) + 1
        body = {"step": step, "reading": reading, "taken": taken, "cost": cost, "at": at}
        kept = {name: value for name, value in body.items() if value is not None or name == "reading"}
        # Without a key the service takes the pair of unit and step as one.
        found: dict[str, Any] = self._json("POST", f"/v1/units/{quote(unit, safe='')}/readings", kept, key)
        self._steps[unit] = step + 1
        return found

    def readings(
        self, readings: Iterable[Mapping[str, Any]], *, key: str | None = None
    ) -> list[dict[str, Any]]:
        """Send many readings, which share one commit: documents with `unit`, `step`, `reading` and so on.

        Returns an answer for each: a decision, or the problem of a reading that was refused.
        """
        data = "".join(json.dumps(dict(each)) + "\n" for each in readings).encode()
        own = key or f"batch-{uuid.uuid4().hex}"
        raw = self._ask("POST", "/v1/readings", data, own, "application/x-ndjson")
        answers = [json.loads(line) for line in raw.splitlines() if line.strip()]
        for found in answers:
            if "decision" in found:
                self._steps[found["unit"]] = found["step"] + 1
        return answers

    # -- the plant ------------------------------------------------------------------------------

    def step(self, unit: str) -> int:
        """Return the step of the last reading of a unit; 0 if the plant does not know it."""
        try:
            return int(self.unit(unit)["step"])
        except ServiceError as error:
            if error.status == 404:
                return 0
            raise

    def unit(self, unit: str) -> dict[str, Any]:
        """Return a unit's step, belief and last decision."""
        return self._json("GET", f"/v1/units/{quote(unit, safe='')}")

    def units(self) -> list[dict[str, Any]]:
        """Return all units."""
        found: list[dict[str, Any]] = self._json("GET", "/v1/units")["units"]
        return found

    def describe(self, unit: str, **description: Any) -> dict[str, Any]:
        """Create or describe a unit."""
        return self._json("PUT", f"/v1/units/{quote(unit, safe='')}", description, _new_key())

    def leave(self, unit: str) -> dict[str, Any]:
        """Let a unit leave the plant."""
        return self._json("DELETE", f"/v1/units/{quote(unit, safe='')}", None, _new_key())

    def decision(self, decision: str) -> dict[str, Any]:
        """Return why a decision was made."""
        return self._json("GET", f"/v1/decisions/{quote(decision, safe='')}")

    def override(
        self, decision: str, action: str | int, by: str | None = None, why: str | None = None
    ) -> dict[str, Any]:
        """Tell that an operator did something else."""
        body = {"action": action, "by": by, "why": why}
        path = f"/v1/decisions/{quote(decision, safe='')}/override"
        return self._json("POST", path, body, _new_key())

    def plant(self) -> dict[str, Any]:
        """Return what was learned."""
        return self._json("GET", "/v1/plant")

    def history(self, unit: str, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a unit."""
        following: int | None = after
        while following is not None:
            page = self._json("GET", f"/v1/units/{quote(unit, safe='')}/history?after={following}")
            yield from page["events"]
            following = page["next"]

    def events(self, after: int | None = None) -> Generator[dict[str, Any], None, None]:
        """Yield the events of the plant as they come, from after a number on; the connection stays open."""
        connection = self._new_connection(timeout=60.0)
        query = "" if after is None else f"?after={after}"
        try:
            connection.request("GET", f"{self._path}/v1/events{query}", headers=self._headers(None, None))
            response = connection.getresponse()
            if response.status != 200:
                raise ServiceError(response.status, _document(response.read()))
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            connection.close()

    # -- requests -------------------------------------------------------------------------------

    def _json(self, method: str, path: str, body: Any = None, key: str | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        found: dict[str, Any] = json.loads(self._ask(method, path, data, key, "application/json"))
        return found

    def _headers(self, key: str | None, media: str | None) -> dict[str, str]:
        headers = {"Accept": "*/*"}
        if media is not None:
            headers["Content-Type"] = media
        if key is not None:
            headers["Idempotency-Key"] = key
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _new_connection(self, timeout: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=timeout)

    def _ask(self, method: str, path: str, data: bytes | None, key: str | None, media: str) -> bytes:
        """Send a request until there is an answer, and return its body. GET may always be sent again."""
        last: Exception | None = None
        for attempt in range(self._attempts):
            pause = min(0.05 * 2.0**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
            try:
                status, answer, retry_after = self._once(method, path, data, key, media)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                last = NoAnswerError(
                    f"{self._host}:{self._port or ''}{path}: {str(error) or type(error).__name__}"
                )
            else:
                if 200 <= status < 300:
                    return answer
                last = ServiceError(status, _document(answer))
                if status not in _AGAIN:
                    raise last
                pause = max(pause, min(retry_after, _LONGEST_PAUSE))
            if attempt + 1 < self._attempts:
                time.sleep(pause)
        assert last is not None
        raise last

    def _once(
        self, method: str, path: str, data: bytes | None, key: str | None, media: str
    ) -> tuple[int, bytes, float]:
        if self._connection is None:
            self._connection = self._new_connection(self._timeout)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.request(method, self._path + path, data, self._headers(key, media))
        response = self._connection.getresponse()
        wait = response.headers.get("Retry-After", "0")
        return response.status, response.read(), float(wait) if wait.isdecimal() else 0.0

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _new_key() -> str:
    return uuid.uuid4().hex


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {"detail": data[:200].decode("utf-8", "replace")}
    return found if isinstance(found, dict) else {}
