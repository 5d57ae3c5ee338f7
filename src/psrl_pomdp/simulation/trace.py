"""What is left of a run: its episodes, its checkpoints, and the regret by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._utils.arrays import Array, Codes, Index
from .._utils.deprecation import warn_renamed
from ..agents import compiled_steps as steps
from ..agents.episode_records import EpisodeRecord
from ..errors import InvalidModelError
from ..models import POMDP
from ..planning import Plan


class Regret(NamedTuple):
    """An interval, because J is known to lie between two bounds; as a number, its middle."""

    lower: float
    upper: float

    def __float__(self) -> float:
        return 0.5 * (self.lower + self.upper)


@dataclass(frozen=True)
class Checkpoints:
    """Where a run stood after `times[K]` steps, on a scale of logarithms."""

    times: Index  # [K]
    sums: Array  # [K, 5]: see `episodes.COST` and the others, scaled
    episodes: Index  # [K]: k
    visits: Index  # [K, A, S]: n, true
    expected: Array  # [K, A, S]: ñ, of an agent that has it
    pseudo: Index  # [K, A, S]: m̃
    truth: Array  # [K]: f(θ*) for a finite set that holds θ*, else E‖θ − θ*‖₁ a row; NaN without a posterior


@dataclass(frozen=True)
class Trace:
    """One run of an agent in an environment.

    `actions[T]` and `observations[T]` are the whole run in a few bytes a step: `observations[i]` came after
    `actions[i]`, and `first_observation` before the first action. `states` are kept where every step was
    asked for.
    """

    model: POMDP
    horizon: int
    seed: int | Sequence[int]
    first_observation: int | None
    actions: Codes
    observations: Codes
    states: Codes | None  # [T + 1]
    checkpoints: Checkpoints
    episodes: tuple[EpisodeRecord, ...]  # the last one may not have ended
    episode_sums: Array  # [K_T, 5]: the sums at the start of each episode

    @property
    def times(self) -> Index:
        """[K]: the checkpoints."""
        return self.checkpoints.times

    @property
    def average_cost(self) -> float:
        """What was paid a step, in the user's numbers."""
        paid = float(self.checkpoints.sums[-1, steps.COST])
        return float(self.model.setting.units.from_scaled(paid / self.horizon))

    def regret(self, plan: Plan) -> Regret:
        """R_T at the horizon against a plan for the true model, by the control variate.

        In the user's scale, with worse positive; an interval, from the plan's bounds on J.
        """
        lower, upper = self.regret_curve(plan)
        return Regret(float(lower[-1]), float(upper[-1]))

    def regret_curve(self, plan: Plan) -> tuple[Array, Array]:
        """The same at every checkpoint: its lower and upper ends, `[K]` each.

        Σ_t (C(s_t, a_t) − J) hides a logarithm under noise of order √T. With b_t the belief under the true
        model and v any function of it,

            Σ_t [c(b_t, a_t) + E[v(b_{t+1}) | b_t, a_t] − J − v(b_t)] + v(b_1) − v(b_{T+1})

        has the same expectation for any learner (a martingale is taken off), and with v from a plan hardly
        any noise under a good policy.
        """
        total = self.control_variate_sums(plan)
        scale = self.model.setting.units.difference
        lower = scale(total - self.times * plan.upper_cost)
        upper = scale(total - self.times * plan.lower_cost)
        return lower, upper

    def control_variate_sums(self, plan: Plan) -> Array:
        """[K]: the sums of the control variate without −J, scaled, at every checkpoint."""
        if plan.fingerprint != self.model.fingerprint:
            raise InvalidModelError("the plan is for another model than the one that was run")
        own = self.model.setting
        vectors = np.zeros((len(plan.controller), own.n_states))
        vectors[:, list(plan.states)] = plan.controller.vectors
        out = np.empty(len(self.times))
        steps.control_variate_sums(
            self.model.transition,
            own.observation,
            own.cost,
            vectors,
            first_belief(self.model, self.first_observation),
            self.actions,
            self.observations,
            self.times,
            out,
        )
        return out

    @property
    def readings(self) -> Codes:
        """`observations`. Deprecated."""
        warn_renamed("Trace.readings", "Trace.observations")
        return self.observations

    @property
    def first_reading(self) -> int | None:
        """`first_observation`. Deprecated."""
        warn_renamed("Trace.first_reading", "Trace.first_observation")
        return self.first_observation

    def controlled(self, plan: Plan) -> Array:
        """`control_variate_sums`. Deprecated."""
        warn_renamed("Trace.controlled", "Trace.control_variate_sums")
        return self.control_variate_sums(plan)

    def __repr__(self) -> str:
        return (
            f"Trace({self.model.name or 'a model'}, T={self.horizon}, {len(self.episodes)} episodes, "
            f"average {self.model.setting.units.kind} {self.average_cost:.6g})"
        )


def first_belief(model: POMDP, reading: int | None) -> Array:
    """[S]: h_1(·; θ*)."""
    belief = model.setting.initial.copy()
    if reading is not None and model.setting.first_observation is not None:
        belief *= model.setting.first_observation[:, reading]
    return np.asarray(belief / belief.sum())
