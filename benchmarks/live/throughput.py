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

import numpy as np
from plants import MODEL, Server, World, server


def bare(folder: Path, seconds: float, batch: int, rows: list[tuple[object, ...]]) -> float:
    """Inserts a second."""
    file = folder / "bare.db"
    file.unlink(missing_ok=True)
    connection = sqlite3.connect(file)
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


def single(found: Server, seconds: float, worlds: list[World]) -> float:
    """Readings a second, one a request, from several clients."""
    counts = [0] * len(worlds)
    stop = time.perf_counter() + seconds

    def run(number: int) -> None:
        world = worlds[number]
        connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=60)
        while time.perf_counter() < stop:
            for unit in world.steps:
                connection.request("POST", f"/v1/units/{unit}/readings", json.dumps(world.reading(unit)))
                answer = json.loads(connection.getresponse().read())
                world.actions[unit] = answer["action_number"]
                counts[number] += 1
        connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(worlds))]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def batched(found: Server, seconds: float, worlds: list[World]) -> float:
    """Readings a second in batches, from two clients."""
    counts = [0, 0]
    stop = time.perf_counter() + seconds

    def run(number: int) -> None:
        world = worlds[number]
        connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=60)
        while time.perf_counter() < stop:
            lines = "\n".join(json.dumps({"unit": unit, **world.reading(unit)}) for unit in world.steps)
            connection.request("POST", "/v1/readings", lines)
            for line in connection.getresponse().read().splitlines():
                answer = json.loads(line)
                world.actions[answer["unit"]] = answer["action_number"]
            counts[number] += len(world.steps)
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--model", default=MODEL)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ones = [World(given.model, [f"s{n}-{i}" for i in range(5)], n) for n in range(given.clients)]
        many = [World(given.model, [f"b{n}-{i}" for i in range(given.batch)], n) for n in range(2)]
        with server(folder, given.model) as found:
            single(found, 3.0, ones)  # until the first plans are there
            with sqlite3.connect(folder / "plant.db") as connection:
                rows = connection.execute("SELECT * FROM events WHERE kind = 'reading' LIMIT 500").fetchall()
            connection.close()
            seconds = given.seconds / given.rounds
            results: dict[int, list[tuple[float, float]]] = {1: [], given.batch: []}
            for _ in range(given.rounds):  # in turns, because other programs use the disk, too
                loop = bare(folder, seconds, 1, rows)
                results[1].append((single(found, seconds, ones), loop))
                loop = bare(folder, seconds, given.batch, rows)
                results[given.batch].append((batched(found, seconds, many), loop))
        for batch, pairs in results.items():
            ratio = float(np.median([rate / loop for rate, loop in pairs]))
            rate, loop = np.mean(pairs, axis=0)
            what = "one by one" if batch == 1 else f"in batches of {batch}"
            print(f"{what}: {rate:.0f} readings a second; bare inserts {loop:.0f}; median ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
