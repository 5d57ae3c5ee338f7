"""Plants, databases and clients of the tests of the service."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from fake_fleet import make_fleet, make_new

from psrl_pomdp.live.config import PlantFile, plant_from
from psrl_pomdp.live.events import RefusedError, Row
from psrl_pomdp.live.ledger import Ledger, Request
from psrl_pomdp.live.metrics import Metrics
from psrl_pomdp.live.opening import open_log
from psrl_pomdp.live.routes import make_app
from psrl_pomdp.live.server import listen
from psrl_pomdp.live.service import Service
from psrl_pomdp.live.store import Store
from psrl_pomdp.live.stream import Broadcast
from psrl_pomdp.live.tokens import Tokens

PLANT = {"name": "machines", "model": "machine-repair", "fallback": "replace", "seed": 3}


def plant(**changes: Any) -> PlantFile:
    """A plant of machines, with some keys replaced."""
    return plant_from({**PLANT, **changes})


@contextmanager
def running(
    database: str, found: PlantFile | None = None, clock: Any = time.time, publish: Any = None
) -> Iterator[Ledger]:
    """A ledger on a database, without HTTP."""
    found = found or plant()
    store = Store(database, create=True)
    try:
        store.lock(found.name)
        open_log(store, found, make_new)
        ledger = Ledger(store, Metrics(), make_fleet, publish or (lambda rows: None), clock)
        ledger.start()
        try:
            yield ledger
        finally:
            ledger.close()
    finally:
        store.close()


class Http(httpx.Client):
    """A client of a service in this process."""

    service: Service


@contextmanager
def serving(database: str, found: PlantFile | None = None) -> Iterator[Http]:
    """A client of a service on a database: a real server on a port of the loopback interface."""
    import uvicorn

    found = found or plant()
    store = Store(database, create=True)
    try:
        store.lock(found.name)
        tokens = Tokens(store)
        open_log(store, found, make_new)
        metrics = Metrics()
        broadcast = Broadcast(store, metrics)
        ledger = Ledger(store, metrics, make_fleet, broadcast.publish)
        ledger.start()
        service = Service(ledger, tokens, metrics, broadcast)
        server = uvicorn.Server(uvicorn.Config(make_app(service), log_config=None, ws="none"))
        listener = listen("127.0.0.1", 0)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            port = listener.getsockname()[1]
            with Http(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30.0) as client:
                client.service = service
                yield client
        finally:
            broadcast.close()
            server.should_exit = True
            thread.join(timeout=30)
            listener.close()
            ledger.close()
    finally:
        store.close()


def send(ledger: Ledger, unit: str, step: int | None, reading: Any, **more: Any) -> str:
    """The text of the answer to a reading."""
    key = more.pop("key", None)
    body = {"reading": reading, **more} | ({} if step is None else {"step": step})
    found: str = ledger.take(Request("reading", unit, body, key)).result(timeout=30)
    return found


def refused(ledger: Ledger, unit: str, step: int | None, reading: Any, **more: Any) -> RefusedError:
    """The refusal of a reading."""
    try:
        answer = send(ledger, unit, step, reading, **more)
    except RefusedError as error:
        return error
    raise AssertionError(f"not refused: {answer}")


def play(ledger: Ledger, units: Sequence[str], steps: int, first: int = 1) -> list[str]:
    """Readings of several units that depend on the unit and the step, and nothing else; the answers."""
    return [
        send(ledger, unit, step, (step * 7 + i * 3) % 5 // 3)
        for step in range(first, first + steps)
        for i, unit in enumerate(units)
    ]


def rows_of(ledger: Ledger) -> list[Row]:
    return list(ledger.store.rows())


# -- PostgreSQL, where it is installed ------------------------------------------------------------------


def postgres_folder() -> Path | None:
    """The folder of `initdb` and `postgres`, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    name = shutil.which("initdb")
    return None if name is None or shutil.which("postgres") is None else Path(name).resolve().parent


def _as_user() -> list[str]:
    """The words that run a program as a user other than root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return []
    with suppress(KeyError):
        pwd.getpwnam("postgres")
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@contextmanager
def postgresql() -> Iterator[str]:
    """The folder of the socket of a new PostgreSQL."""
    programs = postgres_folder()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket has a short path
    prefix = _as_user()
    if prefix:
        user = "postgres" if "postgres" in prefix[1] else "nobody"
        shutil.chown(folder, user)
    data = str(folder / "data")
    environment = {**os.environ, "LC_ALL": "C", "HOME": str(folder)}
    subprocess.run(
        [*prefix, str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"],
        check=True,
        capture_output=True,
        env=environment,
        cwd=folder,
    )
    server = subprocess.Popen(
        [*prefix, str(programs / "postgres"), "-D", data, "-k", str(folder), "-c", "listen_addresses=", "-F"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=folder,
    )
    try:
        _wait_for(folder)
        yield str(folder)
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nothing of it is wanted any more
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(folder: Path) -> None:
    import psycopg

    for _ in range(200):
        try:
            psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("PostgreSQL does not answer")


def new_database(folder: str, name: str) -> str:
    """The URL of a new, empty database."""
    import psycopg

    with psycopg.connect(host=folder, user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return f"postgresql://postgres@/{name}?host={folder}"
