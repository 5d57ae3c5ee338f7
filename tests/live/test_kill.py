"""kill -9 at any moment: nothing is lost, nothing is doubled, and the log replays to the last bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fake_fleet import make_fleet
from plants import PLANT

from psrl_pomdp.live.audit import audit
from psrl_pomdp.live.client import Client, NoAnswerError, ServiceError
from psrl_pomdp.live.store import Store

KILLS, CLIENTS = 10, 3
SERVER = Path(__file__).with_name("serve_fake.py")


class Server:
    """A service in a process of its own, which another process forks."""

    def __init__(self, forks: subprocess.Popen[str], folder: Path) -> None:
        self.forks, self.folder, self.port = forks, folder, 0
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in PLANT.items())
        (folder / "plant.toml").write_text(text, "utf-8")
        self.start()

    def _tell(self, command: str) -> str:
        assert self.forks.stdin is not None
        assert self.forks.stdout is not None
        self.forks.stdin.write(f"{command}\n")
        self.forks.stdin.flush()
        return self.forks.stdout.readline().strip()

    def start(self) -> str:
        """Start a server, and return its address."""
        self.process = int(self._tell(f"start {self.port} {self.folder}"))
        assert self.forks.stdout is not None
        url = self.forks.stdout.readline().strip()
        if url != "failed":
            self.port = int(url.rpartition(":")[2])
        return url

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal, and return the exit code."""
        os.kill(self.process, number)
        return int(self._tell("wait"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    """The process that forks servers."""
    words = [sys.executable, str(SERVER)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as found:
        yield found


@pytest.fixture
def server(forks: subprocess.Popen[str], tmp_path: Path) -> Iterator[Server]:
    found = Server(forks, tmp_path)
    yield found
    with suppress(ProcessLookupError):
        found.end()


def test_ten_kills_lose_nothing_and_double_nothing(server: Server) -> None:
    """Three clients send readings without a pause; each remembers every answer that it got."""
    stop = threading.Event()
    answers: list[dict[int, str]] = [{} for _ in range(CLIENTS)]
    faults: list[str] = []

    def traffic(number: int) -> None:
        with Client(server.url, attempts=60) as client:
            step = 0
            while not stop.is_set():
                step += 1
                try:
                    found = client.reading(f"unit{number}", (step * 7 + number) % 5 // 3, step=step)
                except (ServiceError, NoAnswerError) as error:
                    faults.append(f"unit{number}, step {step}: {error}")
                    return
                answers[number][step] = json.dumps(found, sort_keys=True)

    threads = [threading.Thread(target=traffic, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    rng = random.Random(5)
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.02, 0.3))
        assert server.end() == -signal.SIGKILL
        assert server.start() == server.url
    time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join(timeout=60)
    assert faults == []
    server.end()
    server.start()
    with Client(server.url) as client:
        for number in range(CLIENTS):
            assert client.step(f"unit{number}") == len(answers[number])
    server.end()
    with Store(str(server.folder / "plant.db")) as store:
        report = audit(store, make_fleet)
        assert report.good, report.findings
        logged: dict[tuple[str, int], str] = {}
        for row in store.rows():
            if row.kind == "reading" and row.unit is not None and row.step is not None:
                assert (row.unit, row.step) not in logged
                logged[row.unit, row.step] = json.dumps(json.loads(row.answer or ""), sort_keys=True)
    wanted = {(f"unit{n}", step): text for n in range(CLIENTS) for step, text in answers[n].items()}
    assert logged == wanted


def test_the_worker_ends_with_a_server_that_is_killed(server: Server) -> None:
    with Client(server.url) as client:
        for step in range(1, 40):
            client.reading("p", "good", step=step)
        for _ in range(100):
            if client.plant()["episode"] > 1:
                break
            time.sleep(0.1)
    children = children_of(server.process)
    assert children
    server.end()
    for _ in range(100):
        if not any(is_alive(child) for child in children):
            break
        time.sleep(0.1)
    assert [child for child in children if is_alive(child)] == []


def children_of(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            found.append(int(path.parent.name))
    return found


def is_alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_that_is_told_to_stop_ends_its_streams_and_writes_a_snapshot(server: Server) -> None:
    seen: list[int] = []

    def watch() -> None:
        with Client(server.url) as client:
            seen.extend(event["seq"] for event in client.events(after=0))

    thread = threading.Thread(target=watch)
    with Client(server.url) as client:
        client.reading("p", "good")
        thread.start()
        for _ in range(100):
            if len(seen) >= 2:
                break
            time.sleep(0.05)
        client.reading("p", "defective")
    assert server.end(signal.SIGTERM) == 0
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert seen == [1, 2, 3, 4]
    with Store(str(server.folder / "plant.db")) as store:
        head = store.head()
        assert head is not None
        assert store.snapshots()[0] == (head.seq, head.hash)


def test_a_second_server_is_refused_in_one_line(server: Server) -> None:
    first = server.process
    assert server.start() == "failed"
    log = (server.folder / "log.jsonl").read_text("utf-8").splitlines()
    assert log[-1].startswith(
        f"psrl_pomdp.live.events.LiveError: plant.db is in use by the server 'machines', process {first} "
    )
    os.kill(first, signal.SIGKILL)
