"""An agent in front of a real process: readings come over a socket, actions go back, and the agent may die.

    python examples/streaming_socket.py
    python examples/streaming_socket.py --steps 1000 --kill-after 700 --every 100

Two programs talk over TCP on this machine. The *plant* sends a reading a line, waits for an action, and now
and then loses a reading ("?"). The *agent* answers, and saves itself every so often. In the middle of the run
the agent's process is killed, without a warning, and a new one is started from its last file. The plant then
sends again the readings that came after that file was written, as a message queue would, and checks that the
new agent answers as the dead one had: it goes on exactly, to the last bit. In the end the whole run is
compared with that of an agent that was never killed.

The protocol: the agent opens with the number of readings that it has taken in; then one line each way. With a
plant of your own keep both ends on the loopback interface, or behind something that knows who is speaking:
this protocol trusts whoever connects.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TextIO

import numpy as np

from psrl_pomdp import PSRLAgent, problem

SEED = 3


def agent_process(port: int, file: Path, every: int) -> None:
    """Answer readings until the plant hangs up; take up the file where there is one."""
    family = problem("separated").family
    assert family is not None
    agent = PSRLAgent.load(file) if file.exists() else PSRLAgent(family, seed=SEED)
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as lines:
        print(agent.time, file=lines, flush=True)
        for line in lines:
            word = line.strip()
            action = agent.act(None if word == "?" else int(word))
            if agent.time % every == 0:
                agent.save(file)  # whole or not at all: a kill in the middle leaves the old file
            print(action, file=lines, flush=True)


class Plant:
    """The world, a log of what was sent and answered, and a port that only this machine can reach."""

    def __init__(self, seed: int, lost: float) -> None:
        self.model = problem("separated")
        self.rng = np.random.default_rng(seed)
        self.lost = lost
        self.state = int(self.rng.choice(self.model.n_states, p=self.model.setting.initial))
        self.actions: list[int] = []
        self.readings = [self._read(0)]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(600)
        self.port = int(self.listener.getsockname()[1])

    def _read(self, action: int) -> str:
        sensor = self.model.setting.observation[action, self.state]
        reading = int(self.rng.choice(len(sensor), p=sensor))
        return "?" if self.actions and self.rng.random() < self.lost else str(reading)

    def _move(self, action: int) -> None:
        self.actions.append(action)
        row = self.model.transition[action, self.state]
        self.state = int(self.rng.choice(len(row), p=row))
        self.readings.append(self._read(action))

    def serve(self, until: int) -> tuple[int, int]:
        """Let an agent act until that many actions are taken; where it stood, and how many were repeated."""
        connection, _ = self.listener.accept()
        connection.settimeout(600)
        with connection, connection.makefile("rw") as lines:
            stood = int(lines.readline())
            for i in range(stood, len(self.actions)):  # sent before: the answer must be the same
                if self._ask(lines, i) != self.actions[i]:
                    raise SystemExit(f"action {i + 1} is not what it was before the restart")
            repeated = len(self.actions) - stood
            while len(self.actions) < until:
                self._move(self._ask(lines, len(self.actions)))
        return stood, repeated

    def _ask(self, lines: TextIO, i: int) -> int:
        print(self.readings[i], file=lines, flush=True)
        return int(lines.readline())


def start_agent(plant: Plant, file: Path, every: int) -> subprocess.Popen[bytes]:
    words = ["--agent", str(plant.port), "--file", str(file), "--every", str(every)]
    return subprocess.Popen([sys.executable, __file__, *words])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="actions in all (default 300)")
    parser.add_argument("--kill-after", type=int, default=170, help="when the agent is killed (default 170)")
    parser.add_argument("--every", type=int, default=50, help="the agent saves itself so often (default 50)")
    parser.add_argument("--lost", type=float, default=0.05, help="the share of readings that is lost (.05)")
    parser.add_argument("--file", type=Path, help="the agent's file (default: in a temporary folder)")
    parser.add_argument("--agent", type=int, metavar="PORT", help="be the agent, for a plant on this port")
    given = parser.parse_args()
    if given.agent is not None:
        agent_process(given.agent, given.file, given.every)
        return

    plant = Plant(seed=1, lost=given.lost)
    with tempfile.TemporaryDirectory() as folder, plant.listener:
        file = given.file or Path(folder) / "agent.npz"
        first = start_agent(plant, file, given.every)
        try:
            plant.serve(until=given.kill_after)
        finally:
            first.kill()  # no warning, no goodbye
            first.wait()
        print(f"killed after {given.kill_after} actions")
        second = start_agent(plant, file, given.every)
        try:
            stood, repeated = plant.serve(until=given.steps)
        finally:
            second.wait(timeout=60)
    print(f"taken up from reading {stood}; {repeated} answers given again, all the same")

    family = plant.model.family
    assert family is not None
    unbroken = PSRLAgent(family, seed=SEED)
    answers = [unbroken.act(None if word == "?" else int(word)) for word in plant.readings[: given.steps]]
    if answers != plant.actions:
        raise SystemExit("the run differs from that of an agent that was never killed")
    print(f"all {given.steps} actions are those of an agent that was never killed")
    print(f"{plant.readings.count('?')} readings were lost on the way")
    print(f"belief in the true wiring: {unbroken.posterior.weights[0]:.4f}")


if __name__ == "__main__":
    main()
