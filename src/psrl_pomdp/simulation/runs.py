"""One run: (model, agent, horizon, seed) -> Trace.

Two drivers give the same run from the same seed. The streaming driver calls `act` of any agent for one
observation at a time. The compiled driver is for agents with a fixed policy in each episode: `run_episode` of
`agents.compiled_steps` runs environment and agent in one compiled loop of the same steps. The environment has
its own random stream, with two uniform numbers per step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Literal

import numpy as np

from .._serialization.archives import as_saved_agent
from .._serialization.contents import opened
from .._serialization.random_streams import stream_in, stream_out
from .._utils.arrays import Array, Codes
from .._utils.integers import is_integer
from .._utils.log_spaced import log_spaced as log_spaced
from .._version import __version__
from ..agents import compiled_steps as steps
from ..agents.compiled_driver import NUMBERED, ObservationsAhead
from ..errors import InvalidModelError, OutOfOrderError, ParseError
from ..inference.model_fit import ModelFit
from ..inference.sampled_filter import SampledFilter
from ..inference.step_codes import StepCodes
from ..models import POMDP
from ..protocols import Agent as Agent
from ..protocols import CompiledAgent, EpisodicAgent
from ..sensors.base import ContinuousSensor
from .environments import BLOCK, check_sizes, draw_block, nan_filter, new_environment
from .run_files import (
    CHANGING_ARRAYS,
    RunMetadata,
    SavedRun,
    columns_of,
    count_of_codes,
    restored_agent,
)
from .trace import Checkpoints, Trace

Driver = Literal["auto", "streaming", "compiled"]

_MOST_CODES = 1 << 16  # numbers of two bytes
_CHUNK = 1 << 14  # the number of steps whose random numbers are drawn at once


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
    """Run `agent` in the environment `model` for `horizon` steps.

    Parameters
    ----------
    model
        The true model.
    agent
        A new agent, of any class with the protocol `psrl_pomdp.protocols.Agent`.
    horizon
        The number of actions.
    seed
        The seed of the environment's random numbers.
    checkpoints
        The times at which sums and counts are recorded; by default ten per decade.
    every_step
        Whether the trace contains the hidden states.
    driver
        `streaming`, `compiled`, or `auto` for the compiled driver if the agent has it.
    progress
        A function that is called with the number of steps done, at least every 16384 steps.

    Returns
    -------
    Trace
        The actions, the observations, the checkpoints and the episodes.

    Raises
    ------
    InvalidModelError
        If the agent was used before, or is for a setting of another size, or chooses an invalid action.

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
    """A run that can be continued to longer horizons.

    Parameters
    ----------
    model
        The true model.
    agent
        A new agent, of any class with the protocol `psrl_pomdp.protocols.Agent`.
    seed
        The seed of the environment's random numbers.
    checkpoints
        The times at which sums and counts are recorded; by default ten per decade.
    every_step
        Whether the trace contains the hidden states.
    driver
        `streaming`, `compiled`, or `auto` for the compiled driver if the agent has it.

    Raises
    ------
    InvalidModelError
        If the agent was used before or is for a setting of another size.
    """

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
        self.episodic_agent = agent if isinstance(agent, EpisodicAgent) else None
        if self.episodic_agent is not None:
            check_sizes(model, self.episodic_agent)
            if self.episodic_agent.time:
                raise InvalidModelError(
                    f"the agent was used for {self.episodic_agent.time} steps before: a run needs a new one"
                )
        self.driver = driver
        self.time = 0  # actions taken
        self.rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        self.checkpoint_times = None if checkpoints is None else np.unique(np.asarray(checkpoints, np.int64))
        if self.checkpoint_times is not None and (self.checkpoint_times < 1).any():
            raise InvalidModelError(f"checkpoint {self.checkpoint_times.min()}: they count from 1")
        self.step_codes = StepCodes(model.setting)
        n = count_of_codes(self.step_codes)
        if n > _MOST_CODES:
            raise InvalidModelError(
                f"{n} different observations, or pairs of observation and cost, are too many to record: at "
                f"most {_MOST_CODES}"
            )
        self._own_sensor = None if self.episodic_agent is None else self.episodic_agent.setting.sensor
        self.environment, self.first_observation = new_environment(model, self.step_codes, self.rng)
        # Of observations without numbers, the places among those drawn ahead are not kept, but their values
        # are.
        self.actions, self.observations = np.zeros(0, np.uint16), np.zeros(0, np.uint16)
        self.values = np.zeros((0, *self.step_codes.value_shape)) if self.step_codes.has_rows else None
        self._block: tuple[int, ObservationsAhead] | None = None
        self._present = np.asarray(np.nan if self.first_observation is None else self.first_observation)
        self._takes_cost = model.setting.seen_cost is not None and "cost" in signature(agent.act).parameters
        self.states = np.array([self.environment.present[steps.STATE]], np.uint16) if every_step else None
        self.checkpoint_rows: list[dict[str, Any]] = []
        self.episode_sums: list[Array] = []
        self._no_filter = nan_filter(model)
        self._interrupted = False  # by an exception, after which environment and agent may be inconsistent

    def until(self, horizon: int, progress: Callable[[int], None] | None = None) -> Trace:
        """Continue to `horizon` steps in total, and return the trace."""
        if not is_integer(horizon, max(1, self.time)):
            raise InvalidModelError(f"horizon is {horizon!r}: a whole number of at least {max(1, self.time)}")
        self._grow_buffers(int(horizon))
        stops = log_spaced(horizon) if self.checkpoint_times is None else self.checkpoint_times
        for stop in [*stops[(stops >= self.time) & (stops < horizon)].tolist(), int(horizon)]:
            while self.time < stop:
                self._take_steps(min(_CHUNK, stop - self.time))
                if progress is not None:
                    progress(self.time)
            self._checkpoint()
        return self._trace()

    def advance(self, time: int, horizon: int) -> None:
        """Continue to `time` steps in total without a checkpoint, on the way to `horizon` steps."""
        if self.time < time:
            self._grow_buffers(horizon)
            self._take_steps(time - self.time)

    # -- drivers --------------------------------------------------------------------------------

    def _take_steps(self, n: int) -> None:
        """Take `n` more steps."""
        if self._interrupted:
            raise OutOfOrderError("this run was cut short by an exception: start it again")
        self._interrupted = True
        uniforms = self.rng.random((n, 2))
        if self.time == 0:
            self._first_step(uniforms[0])
            uniforms = uniforms[1:]
        while len(uniforms):
            ahead = self._observations_ahead()
            these = uniforms if self.values is None else uniforms[: len(ahead.values)]
            compiles = self._can_compile()
            done = self._run_compiled(these, ahead) if compiles else self._run_streaming(these, ahead)
            uniforms = uniforms[done:]
        self._interrupted = False

    def _observations_ahead(self) -> ObservationsAhead:
        """Return observations without numbers for the next steps, in each state that could emit them.

        They are drawn in blocks. Each block has a random stream of its own, so that they do not depend on
        where runs stop.
        """
        sensor = self.model.setting.sensor
        if not isinstance(sensor, ContinuousSensor):
            return NUMBERED
        number, begin = divmod(self.time, BLOCK)
        if self._block is None or self._block[0] != number:
            block = draw_block(self.model, self._own_sensor, self.seed, number)
            self._block = number, block
        block = self._block[1]
        return block._replace(values=block.values[begin:], rows=block.rows[begin:], present=self._present)

    def _first_step(self, uniform: Array) -> None:
        """Take the first step, in which the agent gets the first observation or None."""
        action = self.agent.act(self.first_observation)
        self._step(action, uniform, self._observations_ahead(), 0)

    def _run_streaming(self, uniforms: Array, ahead: ObservationsAhead) -> int:
        """Take one step per row of `uniforms`; return their number."""
        for i, uniform in enumerate(uniforms):
            self._step(self._next_action(), uniform, ahead, i)
        return len(uniforms)

    def _next_action(self) -> int:
        """Return the agent's action after the present observation, and the last cost if it is seen."""
        code = int(self.environment.present[steps.OBSERVATION])
        seen = self.model.setting.seen_cost
        if seen is None:
            return self.agent.act(code if self.values is None else self._present[()])
        observation: Any
        observation, cost = divmod(code, self.step_codes.n_costs + 1)
        if self.values is not None:
            observation = self._present[()]
        if not self._takes_cost:
            return self.agent.act(observation)
        return self.agent.act(observation, cost=float(seen.values[cost]))  # type: ignore[call-arg]

    def _step(self, action: int, uniform: Array, ahead: ObservationsAhead, i: int) -> None:
        """Take one step of the environment after an action; i is its place among the steps drawn ahead."""
        if not is_integer(action, 0, self.model.n_actions - 1):
            raise InvalidModelError(
                f"the agent chose action {action!r} at step {self.time + 1}: a whole number from 0 to "
                f"{self.model.n_actions - 1} is wanted"
            )
        self._record_episode_starts()
        steps.environment_step(self.environment, int(action), self._sampled_filter, uniform, ahead.rows, i)
        self.actions[self.time] = action
        self.observations[self.time] = self.environment.present[steps.OBSERVATION]
        self._keep_values(ahead, self.time, 1, i)
        self.time += 1
        if self.states is not None:
            self.states[self.time] = self.environment.present[steps.STATE]

    def _keep_values(self, ahead: ObservationsAhead, begin: int, n: int, i: int = 0) -> None:
        """Store the values of `n` observations without numbers from step `begin` on."""
        if self.values is not None and n:
            places = self.observations[begin : begin + n].astype(np.int64) // (self.step_codes.n_costs + 1)
            self.values[begin : begin + n] = ahead.values[np.arange(i, i + n), places]
            self._present = np.asarray(self.values[begin + n - 1])

    @property
    def _sampled_filter(self) -> SampledFilter:
        """The filter of θ_k; NaN for agents that sample no model."""
        return self._no_filter if self.episodic_agent is None else self.episodic_agent.sampled_filter

    def _can_compile(self) -> bool:
        """Return whether the compiled driver runs the next steps."""
        own = self.agent
        compiles = isinstance(own, CompiledAgent) and own.can_compile
        if self.driver == "streaming" or self.states is not None or not compiles:
            if self.driver == "compiled":
                raise InvalidModelError("this agent, or every_step, cannot be driven by the compiled loop")
            return False
        return True

    def _run_compiled(self, uniforms: Array, ahead: ObservationsAhead) -> int:
        """Take steps up to the end of the episode, at most one per row of `uniforms`; return their number."""
        own = self.agent
        assert isinstance(own, CompiledAgent)
        more = [ahead] if self.values is not None else []
        done = own.play(self.environment, uniforms, self.actions, self.observations, self.time, *more)
        self._keep_values(ahead, self.time, done)
        self.time += done
        self._record_episode_starts()
        return done

    def _record_episode_starts(self) -> None:
        """Store the sums at the start of every new episode."""
        own = self.episodic_agent
        while own is not None and len(self.episode_sums) < own.episode_number:
            self.episode_sums.append(self.environment.sums.copy())

    # -- records --------------------------------------------------------------------------------

    def _grow_buffers(self, horizon: int) -> None:
        """Make the arrays long enough for `horizon` steps."""
        lengths = {"actions": horizon, "observations": horizon, "values": horizon, "states": horizon + 1}
        for name, length in lengths.items():
            old = getattr(self, name)
            if old is not None and len(old) < length:
                new = np.zeros((length, *old.shape[1:]), old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)

    def _checkpoint(self) -> None:
        """Record sums and counts."""
        if self.checkpoint_rows and self.checkpoint_rows[-1]["times"] == self.time:
            return
        shape = (self.model.n_actions, self.model.n_states)
        own, fit = self.episodic_agent, _fit_of(self.agent)
        self.checkpoint_rows.append(
            {
                "times": self.time,
                "sums": self.environment.sums.copy(),
                "episodes": 0 if own is None else own.episode_number,
                "visits": self.environment.visits.copy(),
                "expected": np.full(shape, np.nan) if own is None else own.expected_counts,
                "pseudo": np.zeros(shape, np.int64) if own is None else own.pseudo_counts,
                "truth": np.nan if own is None else own.closeness(self.model.transition),
                "log_e_value": np.nan if fit is None else fit.largest_log_e_value,
            }
        )

    def to_bytes(self) -> bytes:
        """Return everything that determines how the run continues, for `resume`."""
        run = SavedRun(
            {name: getattr(self.environment, name) for name in CHANGING_ARRAYS},
            self.actions[: self.time],
            self.observations[: self.time],
            None if self.states is None else self.states[: self.time + 1],
            None if self.values is None else self.values[: self.time],
            None if self.values is None else self._present,
            np.array(self.episode_sums).reshape(-1, steps.N_SUMS),
            self.checkpoint_rows,
        )
        state = stream_out(self.rng)
        return run.packed(self.time, self.model, repr(self.seed), state, self._agent_bytes())

    def _agent_bytes(self) -> bytes:
        """Return the saved agent."""
        if not hasattr(self.agent, "to_bytes"):
            raise InvalidModelError(f"a {type(self.agent).__name__} has no to_bytes: its run cannot be saved")
        return bytes(self.agent.to_bytes())

    def resume(self, data: bytes) -> None:
        """Continue the run that `to_bytes` saved. This simulation must have the same arguments.

        Raises `ParseError` or another `InvalidModelError`, and changes nothing, if the bytes are not such a
        run.
        """
        contents, metadata = opened(data, "run", RunMetadata, "a saved run")
        saved_by = (metadata.package, metadata.model, metadata.seed)
        if saved_by != (__version__, self.model.fingerprint, repr(self.seed)):
            raise ParseError("a run of another model, of another seed or of another version", path="run")
        with as_saved_agent("run"):
            saved = SavedRun.of(contents, metadata, self.model, self.states is not None)
            agent = restored_agent(self.agent, contents.packed("agent"))
            rng = stream_in(metadata.stream)
        episodic = agent if isinstance(agent, EpisodicAgent) else None
        if episodic is not None:
            check_sizes(self.model, episodic)
            if episodic.steps_taken != metadata.time:
                raise ParseError(
                    f"its agent has taken {episodic.steps_taken} steps, the run {metadata.time}", path="run"
                )
        self.agent, self.episodic_agent = agent, episodic
        self.time, self.rng, self._interrupted = metadata.time, rng, False
        for name in CHANGING_ARRAYS:
            getattr(self.environment, name)[...] = saved.environment[name]
        self.actions, self.observations, self.states = saved.actions, saved.observations, saved.states
        if saved.values is not None and saved.value is not None:
            self.values = saved.values
            self._present = saved.value.reshape(self.step_codes.value_shape)  # files have no numbers alone
        self.episode_sums, self.checkpoint_rows = list(saved.episode_sums), saved.checkpoints

    def _trace(self) -> Trace:
        """Return the trace of the run so far."""
        own = self.episodic_agent
        return Trace(
            self.model,
            self.time,
            self.seed,
            self.first_observation,
            self.actions[: self.time],
            self.observations[: self.time] if self.values is None else self.values[: self.time],
            None if self.states is None else self.states[: self.time + 1],
            Checkpoints(**columns_of(self.checkpoint_rows)),
            () if own is None else own.episode_records(),
            np.array(self.episode_sums).reshape(-1, steps.N_SUMS),
            _fit_of(self.agent),
            self._cost_numbers(),
        )

    def _cost_numbers(self) -> Codes | None:
        """Return the numbers of the seen costs; None if costs are not seen."""
        n_costs = self.step_codes.n_costs
        return self.observations[: self.time] % np.uint16(n_costs + 1) if n_costs else None


def _fit_of(agent: Agent) -> ModelFit | None:
    """Return whether the readings have come as the agent predicted them; None without a test."""
    found = getattr(agent, "fit", None)
    return found if isinstance(found, ModelFit) else None
