"""`psrl-pomdp serve`: opens the database, and answers until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from .config import PlantFile
from .engine import FleetMaker, fleet_from_bytes
from .events import LiveError
from .opening import NewFleet, new_fleet, open_log

_SWITCH = 0.0005  # seconds after which a thread lets another one run


class JsonLines(logging.Formatter):
    """A log line as a JSON document."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        words: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            words["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(words).decode()


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "plant.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises `LiveError` if the port is taken."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sends an answer at once (TCP_NODELAY) only where it reads the protocol from the socket.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        raise LiveError(f"--host {host} --port {port}: {error.strerror or error}") from None
    return listener


def serve(
    plant: PlantFile,
    database: str,
    host: str = "127.0.0.1",
    port: int = 8642,
    *,
    make_new: NewFleet = new_fleet,
    make_fleet: FleetMaker = fleet_from_bytes,
    started: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a plant until SIGTERM or Ctrl-C.

    Parameters
    ----------
    plant
        The contents of the plant file.
    database
        The URL of the database, or the path of a SQLite file. It is created if there is none.
    host, port
        Where to listen. Port 0 takes a free one.
    make_new, make_fleet
        The functions that make the fleet of a new plant, and that of its bytes.
    started
        Called with the address once the service accepts readings.

    Raises
    ------
    LiveError
        If the database is in use or belongs to another plant, or a host other than loopback has no tokens.
    """
    import uvicorn

    from .ledger import Ledger
    from .metrics import Metrics
    from .routes import make_app
    from .service import Service
    from .store import Store
    from .stream import Broadcast
    from .tokens import Tokens
    from .warming import load_compiled_code, rehearse

    store = Store(database, create=True)
    try:
        store.lock(plant.name)
        tokens = Tokens(store)
        if not tokens.wanted and not is_loopback(host):
            raise LiveError(
                f"--host {host}: without tokens the service answers on this machine only (127.0.0.1); "
                "psrl-pomdp token add NAME --role operate makes one"
            )
        listener = listen(host, port)
        with listener:
            open_log(store, plant, make_new)
            metrics = Metrics()
            broadcast = Broadcast(store, metrics)

            def make(data: bytes, plant: PlantFile) -> Any:
                fleet = make_fleet(data, plant)
                load_compiled_code()  # that of this fleet
                return fleet

            ledger = Ledger(store, metrics, make, broadcast.publish)
            ledger.start()
            try:
                if ledger.engine is not None:
                    rehearse(ledger.engine, make_fleet)
                app = make_app(Service(ledger, tokens, metrics, broadcast))
                config = uvicorn.Config(
                    app,
                    log_config=None,
                    access_log=False,
                    lifespan="on",
                    ws="none",
                    timeout_keep_alive=75,
                    timeout_graceful_shutdown=10,
                    limit_concurrency=2000,
                    backlog=1024,
                    server_header=False,
                )
                server = stopping_server(config, broadcast.close)
                sys.setswitchinterval(_SWITCH)
                gc.collect()
                gc.freeze()  # what was imported stays: the collector need not look at it again
                shown = f"[{host}]" if ":" in host else host
                started(f"http://{shown}:{listener.getsockname()[1]}")
                asyncio.run(server.serve([listener]))
            finally:
                ledger.close()
    finally:
        store.close()


def stopping_server(config: Any, stopping: Callable[[], None]) -> Any:
    """Return a server of uvicorn that is told to stop by a signal, and lets the program go on after that.

    uvicorn itself raises the signal again when it has stopped, which would end the program before its last
    snapshot.
    """
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            numbers = (signal.SIGINT, signal.SIGTERM)
            before = {number: signal.signal(number, self.handle_exit) for number in numbers}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        def handle_exit(self, sig: int, frame: Any) -> None:
            stopping()
            super().handle_exit(sig, frame)

    return Server(config)


def log_as_json() -> None:
    """Write log lines to stderr, one JSON document each."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
