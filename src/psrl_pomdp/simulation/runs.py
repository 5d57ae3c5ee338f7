"""One run: (model, agent, horizon, seed) -> Trace.

Two drivers give the same run from the same seed. Any agent can be driven one observation at a time, by `act`.
For an agent that plays one policy a whole episode, `play` of `agents.compiled_steps` drives environment and
agent in one compiled loop, made of the same steps. The environment has a random stream of its own: two
uniform numbers a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from .._serialization.archives import as_saved_agent, pack
from .._serialization.contents import VERSION, opened
from .._serialization.random_streams import stream_in, stream_out
from .._utils.arrays import Array
from .._utils.integers import is_integer
from .._utils.log_spaced import log_spaced as log_spaced
from .._version import __version__
from ..agents import compiled_steps as steps
from ..errors import InvalidModelError, OutOfOrderError, ParseError
from ..inference.filter_bank import sample_categorical
from ..inference.sampled_filter import SampledFilter
from ..models import POMDP
from ..protocols import Agent as Agent
from ..protocols import CompiledAgent, EpisodicAgent, RestoresAgents, SavableAgent
from .run_files import MOVING, KeptRun, RunWords
from .trace import Checkpoints, Trace, first_belief

Driver = Literal["auto", "streaming", "compiled"]

_CHUNK = 1 << 14  # steps whose chance is drawn at once


def simulate(
    model: POMDP,
    agent: Agent,
    horizon: int,
    seed: int | Sequence[int] = 0,
    *,
    checkpoints: Sequence[int] | None = None,
    every_step: bool = False,
    driver: Driver = "auto",
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """Run `agent` in the world `model` for `horizon` steps.

    `checkpoints` default to ten a decade. `every_step` keeps the hidden states. `progress` is called with the
    number of steps done, now and then.

    >>> from psrl_pomdp import PSRLAgent, plan, problem
    >>> world = problem("separated")
    >>> trace = simulate(world, PSRLAgent(world.family, seed=1), horizon=1000, seed=1)
    >>> [episode.start for episode in trace.episodes]
    [1, 3, 7, 15, 31, 63, 127, 255, 511]
    >>> -5.0 < float(trace.regret(plan(world, 1e-6))) < 50.0
    True
    """
    run = Simulation(model, agent, seed, checkpoints=checkpoints, every_step=every_step, driver=driver)
    return run.until(horizon, progress)


class Simulation:
    """A run that can be taken further."""

    def __init__(
        self,
        model: POMDP,
        agent: Agent,
        seed: int | Sequence[int] = 0,
        *,
        checkpoints: Sequence[int] | None = None,
        every_step: bool = False,
        driver: Driver = "auto",
    ) -> None:
        if driver not in ("auto", "streaming", "compiled"):
            raise InvalidModelError(f"driver {driver!r} is none of auto, streaming, compiled")
        self.model, self.agent, self.seed = model, agent, seed
        self.learner = agent if isinstance(agent, EpisodicAgent) else None
        if self.learner is not None:
            _same_sizes(model, self.learner)
            if self.learner.time:
                raise InvalidModelError(
                    f"the agent has lived for {self.learner.time} steps: a run wants a fresh one"
                )
        self.driver = driver
        self.time = 0  # actions taken
        self.chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        self.checkpoint_times = None if checkpoints is None else np.unique(np.asarray(checkpoints, np.int64))
        if self.checkpoint_times is not None and (self.checkpoint_times < 1).any():
            raise InvalidModelError(f"checkpoint {self.checkpoint_times.min()}: they count from 1")
        self.world, self.first_reading = _world(model, self.chance)
        self.actions, self.readings = np.zeros(0, np.uint16), np.zeros(0, np.uint16)
        self.states = np.array([self.world.present[0]], np.uint16) if every_step else None
        self.taken: list[dict[str, Any]] = []  # checkpoints
        self.episode_sums: list[Array] = []
        self._no_filter = nan_filter(model)
        self._cut_short = False  # by an exception, after which world and agent may be out of step

    def until(self, horizon: int, progress: Callable[[int], None] | None = None) -> Trace:
        """Go on to `horizon` steps in all."""
        if not is_integer(horizon, max(1, self.time)):
            raise InvalidModelError(f"horizon is {horizon!r}: a whole number of at least {max(1, self.time)}")
        self._grow_buffers(int(horizon))
        stops = log_spaced(horizon) if self.checkpoint_times is None else self.checkpoint_times
        for stop in [*stops[(stops >= self.time) & (stops < horizon)].tolist(), int(horizon)]:
            while self.time < stop:
                self._steps(min(_CHUNK, stop - self.time))
                if progress is not None:
                    progress(self.time)
            self._checkpoint()
        return self._trace()

    # -- drivers --------------------------------------------------------------------------------

    def _steps(self, n: int) -> None:
        """`n` more actions."""
        if self._cut_short:
            raise OutOfOrderError("this run was cut short by an exception: begin it again")
        self._cut_short = True
        uniforms = self.chance.random((n, 2))
        if self.time == 0:
            self._first(uniforms[0])
            uniforms = uniforms[1:]
        while len(uniforms):
            done = self._compiled(uniforms) if self._can_compile() else self._streamed(uniforms)
            uniforms = uniforms[done:]
        self._cut_short = False

    def _first(self, uniform: Array) -> None:
        """The first action, which takes the first reading, or nothing."""
        action = self.agent.act(self.first_reading)
        self._step(action, uniform)

    def _streamed(self, uniforms: Array) -> int:
        for uniform in uniforms:
            self._step(self.agent.act(int(self.world.present[1])), uniform)
        return len(uniforms)

    def _step(self, action: int, uniform: Array) -> None:
        """The world's answer to an action of an agent."""
        if not is_integer(action, 0, self.model.n_actions - 1):
            raise InvalidModelError(f"the agent chose action {action!r} at step {self.time + 1}")
        self._count_episodes()
        steps.environment_step(self.world, int(action), self._used, uniform)
        self.actions[self.time], self.readings[self.time] = action, self.world.present[1]
        self.time += 1
        if self.states is not None:
            self.states[self.time] = self.world.present[0]

    @property
    def _used(self) -> SampledFilter:
        return self._no_filter if self.learner is None else self.learner.sampled_filter

    def _can_compile(self) -> bool:
        own = self.agent
        compiles = isinstance(own, CompiledAgent) and own.can_compile
        if self.driver == "streaming" or self.states is not None or not compiles:
            if self.driver == "compiled":
                raise InvalidModelError("this agent, or every_step, cannot be driven by the compiled loop")
            return False
        return True

    def _compiled(self, uniforms: Array) -> int:
        own = self.agent
        assert isinstance(own, CompiledAgent)
        done = own.play(self.world, uniforms, self.actions, self.readings, self.time)
        self.time += done
        self._count_episodes()
        return done

    def _count_episodes(self) -> None:
        """The sums at the start of every episode."""
        own = self.learner
        while own is not None and len(self.episode_sums) < own.episode_number:
            self.episode_sums.append(self.world.sums.copy())

    # -- what is kept ---------------------------------------------------------------------------

    def _grow_buffers(self, horizon: int) -> None:
        """Arrays long enough."""
        for name, length in (("actions", horizon), ("readings", horizon), ("states", horizon + 1)):
            old = getattr(self, name)
            if old is not None and len(old) < length:
                new = np.zeros(length, old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)

    def _checkpoint(self) -> None:
        if self.taken and self.taken[-1]["times"] == self.time:
            return
        shape = (self.model.n_actions, self.model.n_states)
        own = self.learner
        self.taken.append(
            {
                "times": self.time,
                "sums": self.world.sums.copy(),
                "episodes": 0 if own is None else own.episode_number,
                "visits": self.world.visits.copy(),
                "expected": np.full(shape, np.nan) if own is None else own.expected_counts,
                "pseudo": np.zeros(shape, np.int64) if own is None else own.pseudo_counts,
                "truth": np.nan if own is None else own.closeness(self.model.transition),
            }
        )

    def to_bytes(self) -> bytes:
        """Everything that decides how the run goes on, for `resume`."""
        words = {
            "version": VERSION,
            "package": __version__,
            "time": self.time,
            "model": self.model.fingerprint,
            "seed": repr(self.seed),
            "chance": stream_out(self.chance),
            "taken": [point["times"] for point in self.taken],
        }
        arrays: dict[str, Any] = {f"taken.{name}": column for name, column in self._columns().items()}
        arrays |= {f"world.{name}": getattr(self.world, name) for name in MOVING}
        arrays |= {
            "words": np.frombuffer(msgspec.json.encode(words), np.uint8),
            "actions": self.actions[: self.time],
            "readings": self.readings[: self.time],
            "states": None if self.states is None else self.states[: self.time + 1],
            "episode_sums": np.array(self.episode_sums).reshape(-1, steps.N_SUMS),
            "agent": np.frombuffer(self._agent_bytes(), np.uint8),
        }
        return pack(arrays)

    def _agent_bytes(self) -> bytes:
        if not hasattr(self.agent, "to_bytes"):
            raise InvalidModelError(f"a {type(self.agent).__name__} has no to_bytes: its run cannot be kept")
        return bytes(self.agent.to_bytes())

    def resume(self, data: bytes) -> None:
        """Go on where the run that made these bytes stood: a new simulation with the same arguments.

        Raises `ParseError` or another `InvalidModelError`, and changes nothing, where they hold no such run.
        """
        contents, words = opened(data, "run", RunWords, "a kept run")
        told = (words.package, words.model, words.seed)
        if told != (__version__, self.model.fingerprint, repr(self.seed)):
            raise ParseError("a run of another model, of another seed or of another version", path="run")
        with as_saved_agent("run"):
            kept = KeptRun.of(contents, words, self.model, self.states is not None)
            agent = _restored(self.agent, contents.packed("agent"))
            chance = stream_in(words.chance)
        learner = agent if isinstance(agent, EpisodicAgent) else None
        if learner is not None:
            _same_sizes(self.model, learner)
            if learner.steps_taken != words.time:
                raise ParseError(
                    f"its agent stands at {learner.steps_taken}, the run at {words.time}", path="run"
                )
        self.agent, self.learner = agent, learner
        self.time, self.chance, self._cut_short = words.time, chance, False
        for name in MOVING:
            getattr(self.world, name)[...] = kept.world[name]
        self.actions, self.readings, self.states = kept.actions, kept.readings, kept.states
        self.episode_sums, self.taken = list(kept.episode_sums), kept.taken

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        names = self.taken[0] if self.taken else ()
        return {name: np.array([point[name] for point in self.taken]) for name in names}

    def _trace(self) -> Trace:
        own = self.learner
        return Trace(
            self.model,
            self.time,
            self.seed,
            self.first_reading,
            self.actions[: self.time],
            self.readings[: self.time],
            None if self.states is None else self.states[: self.time + 1],
            Checkpoints(**self._columns()),
            () if own is None else own.episode_records(),
            np.array(self.episode_sums).reshape(-1, steps.N_SUMS),
        )


def _world(model: POMDP, chance: np.random.Generator) -> tuple[steps.EnvironmentState, int | None]:
    """The world at t = 1, and o_1."""
    own = model.setting
    uniforms = chance.random(2)
    state = int(sample_categorical(own.initial, uniforms[0]))
    reading = None
    if own.first_observation is not None:
        reading = int(sample_categorical(own.first_observation[state], uniforms[1]))
    world = steps.EnvironmentState(
        model.transition,
        own.observation,
        own.cost,
        np.array([state, -1 if reading is None else reading]),
        first_belief(model, reading),
        np.zeros((model.n_actions, model.n_states), np.int64),
        np.zeros(steps.N_SUMS),
        np.empty(model.n_states),
    )
    return world, reading


def _restored(agent: Agent, data: bytes) -> Agent:
    """An agent of the same class from what it had saved."""
    if isinstance(agent, RestoresAgents):
        return agent.restored(data)
    assert isinstance(agent, SavableAgent)
    return type(agent).from_bytes(data)


def nan_filter(model: POMDP) -> SampledFilter:
    """In place of θ_k, for agents that have none: what is compared with it is not a number."""
    n_actions, n_states = model.n_actions, model.n_states
    nothing = np.full((n_actions, n_states, n_states, 1), np.nan)
    return SampledFilter(nothing, np.full((n_states, 1), np.nan), np.zeros((n_states, 1)), np.zeros(1))


def _same_sizes(model: POMDP, agent: EpisodicAgent) -> None:
    own, told = model.setting, agent.setting
    for what in ("n_actions", "n_states", "n_observations"):
        if getattr(own, what) != getattr(told, what):
            raise InvalidModelError(
                f"the world has {what[2:]} {getattr(own, what)}, and the agent was told {getattr(told, what)}"
            )
    if (own.first_observation is None) != (told.first_observation is None):
        raise InvalidModelError("the world and the agent disagree on a reading before the first action")
