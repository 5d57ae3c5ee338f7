"""A fast planner on a coarse grid of beliefs, without certificate, as in the public runs of SEEU.

Beliefs are rounded to the nearest point of a regular grid on the simplex, by default with step 0.04. The
planner runs relative value iteration on the grid,

    v(b) ← min_a C(b, a) + Σ_o P(o | b, a) v([τ(b, a, o)]) − g,      [·] the nearest point,

where b is a point. The rounding error can have either sign, so that g (`estimate`) is not a bound. The
interval that the planner reports is proved: its lower end is the optimal average cost of the fully observed
MDP, and its upper end is the largest cost. The status is never `closed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from ..._numba.jit import LEARNING, jit
from ..._utils.arrays import Array, Index
from ..._utils.stopwatch import PLANNING
from ...errors import InvalidModelError
from ...models import POMDP, Units
from ...planning import optimal_gain

MOST_POINTS = 30_000
_SLACK = 1e-6  # the linear program behind the lower end is solved to 1e-7
_DAMPING = 0.9  # makes the sweeps converge for periodic chains
_SWEEPS = 5000


@dataclass(frozen=True)
class CoarsePlan:
    """An action for every point of the grid, and the average cost on the grid."""

    divisions: int  # the number of steps on every edge of the simplex
    place: Index  # [(divisions + 1)^(S − 1)]: the number of a point, by its coordinates without the last
    actions: Index  # [N]
    estimate: float  # g, scaled
    lower_cost: float
    units: Units
    status: str = "unproved"

    @property
    def lower(self) -> float:
        """The lower bound on the optimal average cost, in the user's units."""
        return min(self._interval)

    @property
    def upper(self) -> float:
        """The upper bound on the optimal average cost, in the user's units."""
        return max(self._interval)

    @property
    def promised_cost(self) -> float:
        """The average cost g on the grid, which is no bound."""
        return self.estimate

    @property
    def _interval(self) -> list[float]:
        ends: list[float] = self.units.from_scaled([self.lower_cost, 1.0]).tolist()
        return ends

    def action(self, belief: npt.ArrayLike) -> int:
        """Return the action of the grid point that is nearest to a belief."""
        row = np.ascontiguousarray(belief, dtype=np.float64)[None]
        return int(self.actions[self.place[_code(nearest(row, self.divisions), self.divisions)[0]]])


@dataclass(frozen=True)
class CoarsePlanner:
    """A planner on the grid with this step.

    >>> from psrl_pomdp import problem
    >>> found = CoarsePlanner()(problem("tiger"))
    >>> found.status, found.action([0.5, 0.5]), found.lower <= 1.0837887 <= found.upper
    ('unproved', 0, True)
    """

    step: float = 0.04

    @property
    def divisions(self) -> int:
        """The number of steps on every edge of the simplex."""
        return round(1.0 / self.step)

    def grid(self, n_states: int) -> tuple[Index, Index]:
        """Return the points and their numbers. Raises `InvalidModelError` if there are too many."""
        return grid(n_states, self.divisions)

    @PLANNING.timed
    def __call__(self, model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> CoarsePlan:
        """Sweep until the average changes by less than `tolerance`; `time_limit` is ignored."""
        points, place = self.grid(model.n_states)
        divisions = self.divisions
        cost, obs_prob, after = _lookahead(model, points / divisions, place, divisions)
        values = np.zeros(len(points))
        for _ in range(_SWEEPS):
            totals = cost + (obs_prob * values[after]).sum(axis=2)
            change = totals.min(axis=1) - values
            low, high = float(change.min()), float(change.max())
            if high - low < tolerance:
                break
            values += _DAMPING * (change - low)
        return CoarsePlan(
            divisions,
            place,
            totals.argmin(axis=1),
            0.5 * (low + high),
            _fully_observed_cost(model),
            model.setting.units,
        )


def grid(n_states: int, divisions: int) -> tuple[Index, Index]:
    """Return points `[N, S]` of whole numbers that sum to `divisions`, and the number of each point."""
    LEARNING.want("others")
    count = comb(divisions + n_states - 1, n_states - 1)
    if count > MOST_POINTS:
        raise InvalidModelError(
            f"a belief grid with {divisions} divisions has {count} points for {n_states} states; "
            f"at most {MOST_POINTS} are allowed: take a larger step"
        )
    bars = np.array(list(combinations(range(divisions + n_states - 1), n_states - 1)), dtype=np.int64)
    bars = bars.reshape(count, n_states - 1)
    ends = np.full((count, 1), divisions + n_states - 1)
    points = np.diff(np.concatenate([np.full((count, 1), -1), bars, ends], axis=1), axis=1) - 1
    place = np.zeros((divisions + 1) ** (n_states - 1), dtype=np.int64)
    place[_code(points, divisions)] = np.arange(count)
    return points, place


@jit()
def nearest(beliefs: Array, divisions: int) -> Index:
    """Return whole numbers [n, S] that sum to `divisions`, nearest to `beliefs[n, S]` times `divisions`.

    All are rounded down, and the difference is added to the largest remainders.
    """
    n, n_states = beliefs.shape
    near = np.empty((n, n_states), np.int64)
    rest = np.empty(n_states)
    for i in range(n):
        missing = divisions
        for s in range(n_states):
            near[i, s] = int(beliefs[i, s] * divisions + 1e-9)
            rest[s] = beliefs[i, s] * divisions - near[i, s]
            missing -= near[i, s]
        for _ in range(missing):
            largest = rest.argmax()
            near[i, largest] += 1
            rest[largest] = -1.0
    return near


def _code(points: Index, divisions: int) -> Index:
    """Return the index of points in the array of their numbers."""
    bases = (divisions + 1) ** np.arange(points.shape[1] - 1)
    return np.asarray(points[:, :-1] @ bases, dtype=np.int64)


def _lookahead(model: POMDP, beliefs: Array, place: Index, divisions: int) -> tuple[Array, Array, Index]:
    """Return cost `[N, A]`, probability of the observations `[N, A, O]` and next points `[N, A, O]`."""
    own = model.setting
    joint = np.einsum("ns,ast->nat", beliefs, model.transition)[..., None] * own.observation  # [N, A, S′, O]
    obs_prob = joint.sum(axis=2)
    after = (joint / np.where(obs_prob > 0.0, obs_prob, 1.0)[:, :, None]).transpose(0, 1, 3, 2)
    after[obs_prob <= 0.0] = np.eye(model.n_states)[0]  # any point, because it has probability 0
    near = nearest(np.ascontiguousarray(after).reshape(-1, model.n_states), divisions)
    return beliefs @ own.cost.T, obs_prob, place[_code(near, divisions)].reshape(obs_prob.shape)


def _fully_observed_cost(model: POMDP) -> float:
    """Return a lower bound on the average cost from the initial distribution, as a cost in [0, 1]."""
    try:
        gains = optimal_gain(model.transition, model.setting.cost)
    except ArithmeticError:  # the probabilities are too small for the linear program
        return 0.0
    return max(0.0, float(model.setting.initial @ gains) - _SLACK)
