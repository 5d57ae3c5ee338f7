"""Readings a second through the service, beside a bare loop of the same durable inserts on the same disk.

    python benchmarks/live/throughput.py [--seconds 10] [--clients 8] [--batch 40]

The bare loop writes rows of the same size into a table with the same indexes, with sqlite3 alone, in the same
modes, one commit a row; and one commit for each batch. The service takes readings one by one from several
clients, whose commits it joins, and in batches of one reading for each of 40 units.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

from plants import MODEL, Server, World, server


def bare(folder: Path, seconds: float, batch: int, rows: list[tuple[object, ...]]) -> float:
    """Inserts a second."""
    connection = sqlite3.connect(folder / f"bare{batch}.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    columns = "kind, unit, step, key, who, at, body, answer, why, data, previous_hash, hash"
    connection.execute(f"CREATE TABLE events (seq INTEGER PRIMARY KEY, {columns})")
    connection.execute("CREATE INDEX events_key ON events (key)")
    connection.execute("CREATE INDEX events_unit ON events (unit, step)")
    marks = ",".join("?" * 13)
    n, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        many = [(n + i + 1, *rows[(n + i) % len(rows)][1:]) for i in range(batch)]
        connection.executemany(f"INSERT INTO events VALUES ({marks})", many)
        connection.commit()
        n += batch
    rate = n / (time.perf_counter() - begun)
    connection.close()
    return rate


def single(found: Server, seconds: float, clients: int, model: str) -> float:
    """Readings a second, one a request, from several clients."""
    counts = [0] * clients
    stop = time.perf_counter() + seconds

    def run(number: int) -> None:
        units = [f"s{number}-{i}" for i in range(5)]
        world = World(model, units, number)
        connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=60)
        while time.perf_counter() < stop:
            for unit in units:
                connection.request("POST", f"/v1/units/{unit}/readings", json.dumps(world.reading(unit)))
                answer = json.loads(connection.getresponse().read())
                world.actions[unit] = answer["action_number"]
                counts[number] += 1
        connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def batched(found: Server, seconds: float, batch: int, model: str) -> float:
    """Readings a second in batches, from two clients."""
    counts = [0, 0]
    stop = time.perf_counter() + seconds

    def run(number: int) -> None:
        units = [f"b{number}-{i}" for i in range(batch)]
        world = World(model, units, number)
        connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=60)
        while time.perf_counter() < stop:
            lines = "\n".join(json.dumps({"unit": unit, **world.reading(unit)}) for unit in units)
            connection.request("POST", "/v1/readings", lines)
            for line in connection.getresponse().read().splitlines():
                answer = json.loads(line)
                world.actions[answer["unit"]] = answer["action_number"]
            counts[number] += batch
        connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--model", default=MODEL)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server(folder, given.model) as found:
            single(found, 3.0, given.clients, given.model)  # until the first plans are there
            one = single(found, given.seconds, given.clients, given.model)
            with sqlite3.connect(folder / "plant.db") as connection:
                rows = connection.execute("SELECT * FROM events WHERE kind = 'reading' LIMIT 500").fetchall()
            connection.close()
            many = batched(found, given.seconds, given.batch, given.model)
        for what, rate, batch in (("one by one", one, 1), ("in batches", many, given.batch)):
            loop = bare(folder, given.seconds, batch, rows)
            print(f"{what}: {rate:.0f} readings a second; bare inserts {loop:.0f}; ratio {rate / loop:.2f}")


if __name__ == "__main__":
    main()
