"""A coarse planner on a grid of beliefs, as public runs of SEEU use: quick, rough, and without proof.

Beliefs are rounded to the nearest point of a regular grid on the simplex, by default with step .04, and
relative value iteration is run on what is left,

    v(b) ← min_a C(b, a) + Σ_o P(o | b, a) v([τ(b, a, o)]) − g,      [·] the nearest point,

with b over the points. Rounding may err either way, so that its g (`estimate`) bounds nothing. What it
reports as its interval it can prove: from below what could be had with the state in plain sight, from above
the largest cost. Its status is never `closed`.
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
_DAMPING = 0.9  # keeps sweeps from going round where readings are periodic
_SWEEPS = 5000


@dataclass(frozen=True)
class CoarsePlan:
    """An action for every point of the grid, and what the grid thinks that they cost."""

    divisions: int  # of every edge of the simplex
    place: Index  # [(divisions + 1)^(S − 1)]: the number of a point by all of its coordinates but the last
    actions: Index  # [N]
    estimate: float  # g, scaled
    lower_cost: float
    units: Units
    status: str = "unproved"

    @property
    def lower(self) -> float:
        return min(self._own)

    @property
    def upper(self) -> float:
        return max(self._own)

    @property
    def _own(self) -> list[float]:
        own: list[float] = self.units.from_scaled([self.lower_cost, 1.0]).tolist()
        return own

    def action(self, belief: npt.ArrayLike) -> int:
        """What to do at the point of the grid nearest to a belief."""
        row = np.ascontiguousarray(belief, dtype=np.float64)[None]
        return int(self.actions[self.place[_code(nearest(row, self.divisions), self.divisions)[0]]])


@dataclass(frozen=True)
class CoarsePlanner:
    """Plans on the grid with this step.

    >>> from psrl_pomdp import problem
    >>> found = CoarsePlanner()(problem("tiger"))
    >>> found.status, found.action([0.5, 0.5]), found.lower <= 1.0837887 <= found.upper
    ('unproved', 0, True)
    """

    step: float = 0.04

    @property
    def divisions(self) -> int:
        """Of every edge of the simplex."""
        return round(1.0 / self.step)

    def grid(self, n_states: int) -> tuple[Index, Index]:
        """Its points, and where each is found again; refused where they are too many."""
        return grid(n_states, self.divisions)

    @PLANNING.timed
    def __call__(self, model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> CoarsePlan:
        """Sweeps until they change the average by less than `tolerance`; `time_limit` is not looked at."""
        points, place = self.grid(model.n_states)
        divisions = self.divisions
        cost, chance, after = _moves(model, points / divisions, place, divisions)
        values = np.zeros(len(points))
        for _ in range(_SWEEPS):
            totals = cost + (chance * values[after]).sum(axis=2)
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
            _in_plain_sight(model),
            model.setting.units,
        )


def grid(n_states: int, divisions: int) -> tuple[Index, Index]:
    """Points `[N, S]` of whole numbers that sum to `divisions`, and where each is found again."""
    LEARNING.want("others")
    count = comb(divisions + n_states - 1, n_states - 1)
    if count > MOST_POINTS:
        raise InvalidModelError(
            f"a belief grid with {divisions} divisions has {count} points for {n_states} states; "
            f"{MOST_POINTS} are the most: take a larger step"
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
    """[n, S]: whole numbers that sum to `divisions`, nearest to `beliefs[n, S]` times that many.

    All are rounded down, and what is missing goes to the largest remainders.
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
    bases = (divisions + 1) ** np.arange(points.shape[1] - 1)
    return np.asarray(points[:, :-1] @ bases, dtype=np.int64)


def _moves(model: POMDP, beliefs: Array, place: Index, divisions: int) -> tuple[Array, Array, Index]:
    """At each point and action: cost `[N, A]`, chance of each reading `[N, A, O]`, and the point after."""
    own = model.setting
    joint = np.einsum("ns,ast->nat", beliefs, model.transition)[..., None] * own.observation  # [N, A, S′, O]
    chance = joint.sum(axis=2)
    after = (joint / np.where(chance > 0.0, chance, 1.0)[:, :, None]).transpose(0, 1, 3, 2)
    after[chance <= 0.0] = np.eye(model.n_states)[0]  # never comes: any point will do
    near = nearest(np.ascontiguousarray(after).reshape(-1, model.n_states), divisions)
    return beliefs @ own.cost.T, chance, place[_code(near, divisions)].reshape(chance.shape)


def _in_plain_sight(model: POMDP) -> float:
    """A lower bound on the average cost from the model's start, scaled."""
    try:
        gains = optimal_gain(model.transition, model.setting.cost)
    except ArithmeticError:  # probabilities below what the linear program resolves
        return 0.0
    return max(0.0, float(model.setting.initial @ gains) - _SLACK)
