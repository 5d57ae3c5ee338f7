"""Plants for the benchmarks of the live service: a server in a process of its own, and what it is asked."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

MODEL = "railway"
TOML = """\
name = "tracks"
model = "{model}"
prior = "dirichlet"
fallback = "0"
deadline = 0.2
seed = 1

[limits]
rate = 0
"""


class Server:
    """`psrl-pomdp serve` in a folder."""

    def __init__(
        self, folder: Path, model: str = MODEL, database: str = "plant.db", toml: str | None = None
    ) -> None:
        self.folder, self.port, self.database = folder, 0, database
        (folder / "plant.toml").write_text(toml or TOML.format(model=model), encoding="utf-8")
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Start, and return the seconds until the service accepts readings."""
        begun = time.perf_counter()
        words = [sys.executable, "-c", "from psrl_pomdp.cli import main; main()", "serve", "plant.toml"]
        words += ["--db", self.database, "--port", str(self.port)]
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                words, cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise SystemExit((self.folder / "log.jsonl").read_text(encoding="utf-8")[-3000:])
        self.port = int(line.strip().rpartition(":")[2])
        while True:
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return time.perf_counter() - begun
            except OSError:
                time.sleep(0.01)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        text = self.ask("GET", "/metrics")[1].decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=120)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def server(folder: Path, model: str = MODEL) -> Iterator[Server]:
    """A server that is running, and that is stopped in the end."""
    found = Server(folder, model)
    found.start()
    try:
        yield found
    finally:
        found.stop()


class World:
    """Units of the true model, which answer actions with readings."""

    def __init__(self, model: str, units: Sequence[str], seed: int = 1) -> None:
        from psrl_pomdp import problem

        self.model = problem(model)
        self.rng = np.random.default_rng(seed)
        setting = self.model.setting
        self.states = {unit: int(self.rng.choice(setting.n_states, p=setting.initial)) for unit in units}
        self.steps = dict.fromkeys(units, 0)
        self.actions: dict[str, int | None] = dict.fromkeys(units)

    def reading(self, unit: str) -> dict[str, Any]:
        """The next reading of a unit, after the action that it was told."""
        setting, action = self.model.setting, self.actions[unit]
        self.steps[unit] += 1
        value: int | None = None
        if action is None:
            first = setting.first_sensor
            if first is not None:
                value = int(
                    self.rng.choice(setting.n_observations, p=setting.observation[0, self.states[unit]])
                )
        else:
            row = self.model.transition[action, self.states[unit]]
            self.states[unit] = state = int(self.rng.choice(len(row), p=row))
            value = int(self.rng.choice(setting.n_observations, p=setting.observation[action, state]))
        return {"step": self.steps[unit], "reading": value}
