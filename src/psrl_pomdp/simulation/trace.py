"""The result of a run: actions, observations, episodes and checkpoints, and the regret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Codes, Index
from .._utils.deprecation import warn_renamed
from ..agents import compiled_steps as steps
from ..agents.episode_records import EpisodeRecord
from ..errors import InvalidModelError
from ..inference.model_fit import ModelFit
from ..inference.step_codes import StepCodes
from ..models import POMDP
from ..planning import Plan
from ..planning.discounted import require_average


class Regret(NamedTuple):
    """An interval that contains the regret, from the bounds on J; `float(regret)` is its midpoint."""

    lower: float
    upper: float

    def __float__(self) -> float:
        return 0.5 * (self.lower + self.upper)


@dataclass(frozen=True)
class Checkpoints:
    """Sums and counts of a run after `times[K]` steps, by default on a logarithmic scale."""

    times: Index  # [K]
    sums: Array  # [K, 5]: see `compiled_steps.COST` and the others, for costs in [0, 1]
    episodes: Index  # [K]: k
    visits: Index  # [K, A, S]: n, the true visits
    expected: Array  # [K, A, S]: ñ; NaN if the agent has none
    pseudo: Index  # [K, A, S]: m̃
    truth: Array  # [K]: f(θ*) if this is positive, else E‖θ − θ*‖₁ per row; NaN without a posterior
    # [K]: the largest log e-value so far in the test of the model (`inference.predictive_test`); NaN if the
    # agent has no test.
    log_e_value: Array


@dataclass(frozen=True)
class Trace:
    """One run of an agent in an environment.

    `actions[T]` and `observations[T]` are the whole run in a few bytes per step: `observations[i]` came after
    `actions[i]`, and `first_observation` before the first action. Observations without numbers are real
    numbers, shape [T], or vectors, shape [T, d]. If costs are seen, `observations` contains the codes of
    pairs of observation and cost (`inference.step_codes`), and `seen_costs` the costs. `states` are the
    hidden states if the run was started with `every_step`, else None.
    """

    model: POMDP
    horizon: int
    seed: int | Sequence[int]
    first_observation: Any
    actions: Codes
    observations: npt.NDArray[Any]
    states: Codes | None  # [T + 1]
    checkpoints: Checkpoints
    episodes: tuple[EpisodeRecord, ...]  # the last one may not have ended
    episode_sums: Array  # [K_T, 5]: the sums at the start of each episode
    fit: ModelFit | None = None  # whether readings have come as the agent predicted them, if it tests this
    cost_numbers: Codes | None = None  # [T]: the numbers of the costs that the agent saw, if it sees costs

    @property
    def times(self) -> Index:
        """The times of the checkpoints, shape [K]."""
        return self.checkpoints.times

    @property
    def average_cost(self) -> float:
        """The average cost per step, in the user's units."""
        total = float(self.checkpoints.sums[-1, steps.COST])
        return float(self.model.setting.units.from_scaled(total / self.horizon))

    def regret(self, plan: Plan) -> Regret:
        """Return the regret R_T at the horizon, estimated with a control variate from a plan.

        It is in the user's units, and positive if the agent is worse than the optimal policy. It is an
        interval, because the plan has bounds on J.
        """
        lower, upper = self.regret_curve(plan)
        return Regret(float(lower[-1]), float(upper[-1]))

    def regret_curve(self, plan: Plan) -> tuple[Array, Array]:
        """Return the lower and upper ends of the regret at every checkpoint, shape [K] each.

        The noise of Σ_t (C(s_t, a_t) − J) is of order √T. With the belief b_t under the true model and any
        function v of it,

            Σ_t [c(b_t, a_t) + E[v(b_{t+1}) | b_t, a_t] − J − v(b_t)] + v(b_1) − v(b_{T+1})

        has the same expectation for any agent, because the difference is a martingale. With v from a plan it
        has little noise under a good policy.
        """
        total = self.control_variate_sums(plan)
        scale = self.model.setting.units.difference
        lower = scale(total - self.times * plan.upper_cost)
        upper = scale(total - self.times * plan.lower_cost)
        return lower, upper

    def control_variate_sums(self, plan: Plan) -> Array:
        """Return the sums without −J at every checkpoint, for costs in [0, 1]; shape [K]."""
        require_average(plan, "regret")
        if plan.fingerprint != self.model.fingerprint:
            raise InvalidModelError("the plan is for another model than the one that was run")
        own = self.model.setting
        codes = StepCodes(own)
        vectors = np.zeros((len(plan.controller), own.n_states))
        vectors[:, list(plan.states)] = plan.controller.vectors
        out = np.empty(len(self.times))
        likelihood, full = codes.likelihood, codes.full_codes
        observations, rows = self.observations, np.zeros((0, own.n_states))
        matrices = np.ascontiguousarray(codes.matrices(self.model.transition[..., None])[..., 0])
        stride = codes.stride
        if codes.has_rows:
            assert plan.quantized_setting is not None
            cells = StepCodes(plan.quantized_setting.replace(seen_cost=None))
            likelihood, full = cells.likelihood, cells.full_codes
            rows = codes.steps(self.actions, self.observations).rows
            observations = np.zeros(len(self.actions), np.uint16)
            for a in np.unique(self.actions).tolist():
                mine = self.actions == a
                observations[mine] = plan.cells_of(a, self.observations[mine])
        if codes.has_rows and self.cost_numbers is not None:
            # The pair of cell x and cost c gets the number x C + c.
            n_cells, n_costs = len(full), codes.n_costs
            stride, full = n_cells * n_costs, np.arange(n_cells * n_costs)
            numbers = np.arange(codes.n_actions)[:, None] * codes.n_codes + full % n_costs
            matrices = np.ascontiguousarray(matrices[numbers.reshape(-1)])
            likelihood = np.ascontiguousarray(np.repeat(likelihood[:, :n_cells], n_costs, axis=1))
            observations = observations.astype(np.int64) * n_costs + self.cost_numbers
            observations = observations.astype(np.uint16 if stride < 2**16 else np.uint32)
        steps.control_variate_sums(
            matrices,
            stride,
            likelihood,
            full,
            rows,
            own.cost,
            vectors,
            first_belief(self.model, self.first_observation),
            self.actions,
            observations,
            self.times,
            out,
        )
        return out

    @property
    def seen_costs(self) -> Array | None:
        """The costs that the agent saw, in the user's units, shape [T]; None if costs are not seen."""
        seen = self.model.setting.seen_cost
        return None if seen is None else np.asarray(seen.values[self.cost_numbers])

    @property
    def readings(self) -> Codes:
        """`observations`. Deprecated."""
        warn_renamed("Trace.readings", "Trace.observations")
        return self.observations

    @property
    def first_reading(self) -> int | None:
        """`first_observation`. Deprecated."""
        warn_renamed("Trace.first_reading", "Trace.first_observation")
        first: int | None = self.first_observation
        return first

    def controlled(self, plan: Plan) -> Array:
        """`control_variate_sums`. Deprecated."""
        warn_renamed("Trace.controlled", "Trace.control_variate_sums")
        return self.control_variate_sums(plan)

    def __repr__(self) -> str:
        return (
            f"Trace({self.model.name or 'a model'}, T={self.horizon}, {len(self.episodes)} episodes, "
            f"average {self.model.setting.units.kind} {self.average_cost:.6g})"
        )


def first_belief(model: POMDP, observation: Any) -> Array:
    """Return h_1(·; θ*), shape [S]."""
    codes = StepCodes(model.setting)
    reading = codes.first_reading(observation) if model.setting.has_first_observation else None
    belief = model.setting.initial * codes.first_likelihood(reading)
    return np.asarray(belief / belief.sum())
