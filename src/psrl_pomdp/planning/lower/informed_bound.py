"""Raising the informed lower bound (`informed`): values by sweeps, and points where they pay."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_array, vstack

from ..._utils.arrays import Array, Index
from ..limits import Limits
from ..multichain.gains import end_components, longest_ways, margin, optimal
from ..sparse.beliefs import Options, covering, distinct, numbers, top
from ..sparse.dynamics import ENTRY, MAKING, After, SparseDynamics
from .informed import InformedCertificate
from .relative_values import by_krylov

_DAMPING = 0.9
_SWEEPS = 60  # between looks at whether sweeps still pay
_RENEWED = 15  # sweeps between choices of the points that make up what follows
_MOST_SWEEPS = 3000
_STEEP = 1e3  # what a gain that an action gives away counts in relative values
_LARGEST_SOLVE = 4000  # states up to which chains with several classes are solved exactly
_CALL = 2e5
_DISCOUNT, _STEPS = 0.99, 300


@dataclass
class _Action:
    """What follows from all places under one action, and which point helps to make up each row of it."""

    after: After
    rows: Index = field(default_factory=lambda: np.empty(0, np.int64))  # [m]: rows that a point is used in
    points: Index = field(default_factory=lambda: np.empty(0, np.int64))  # [m]: which
    shares: Array = field(default_factory=lambda: np.empty(0))  # [m]: its weight, of the row's mass
    # Points that could be used: for one row after another, the point and its largest weight.
    options: Options = field(default_factory=lambda: Options.none())


class InformedBound:
    """The best lower bound so far, and ways to raise it."""

    def __init__(self, dynamics: SparseDynamics, limits: Limits) -> None:
        self.dynamics = dynamics
        self.limits = limits
        self.work = 0.0
        n_states, n_actions = dynamics.n_states, dynamics.n_actions
        self.values: Array = np.zeros((n_states, n_actions))
        self.points = csr_array((0, n_states))
        self.gains = np.zeros(n_states)
        self.apart = False  # whether the model has several parts that nobody can leave
        self._actions: list[_Action] = []
        self._paid = np.ascontiguousarray(dynamics.cost.T)
        self.best_certificate = self._certificate(self.values, float(dynamics.cost.min()) - 1e-12)

    @property
    def bound(self) -> float:
        return self.best_certificate.bound

    @property
    def n(self) -> int:
        """Places: the states and the points."""
        return len(self.values)

    def _certificate(self, values: Array, bound: float, gains: Array | None = None) -> InformedCertificate:
        uses, shares = [np.empty((0, 4), np.int64)], [np.empty(0)]
        for a, action in enumerate(self._actions):
            rows = action.rows
            whence = action.after.belief[rows], action.after.reading[rows]
            uses.append(np.column_stack([np.full(len(rows), a), *whence, action.points]))
            shares.append(action.shares)
        if gains is not None:
            values = values + _STEEP * self._of_places(self.gains)[:, None]
        return InformedCertificate(
            bound, values.copy(), self.points, np.concatenate(uses), np.concatenate(shares), gains
        )

    # -- in plain sight -------------------------------------------------------------------------

    def solve_in_plain_sight(self, tolerance: float) -> None:
        """Relative values of the MDP in plain sight, which prove its average; and its gains, where those
        differ from state to state."""
        d = self.dynamics
        stacked = csr_array(vstack(d.moves))
        self._find_gains(stacked)
        paid = self._paid.T.ravel()
        h = np.zeros(d.n_states)
        lowest, best = -np.inf, h.copy()
        for _ in range(_MOST_SWEEPS):
            self.limits.need()
            change = (paid + stacked @ h).reshape(d.n_actions, -1).min(axis=0) - h
            self.work += 2.0 * stacked.nnz + _CALL
            if change.min() > lowest:
                lowest, best = float(change.min()), h.copy()
            if np.ptp(change) < tolerance:
                break
            h += _DAMPING * (change - 0.5 * (change.min() + change.max()))
        self.values = np.repeat(best[:, None], d.n_actions, axis=1)
        self._claim(self.values, lowest)

    def _find_gains(self, moves: csr_array) -> None:
        """g with g ≤ θ_a g for all actions, from the best average in plain sight where that differs."""
        d = self.dynamics
        label, inside = end_components(moves, d.n_actions)
        kinds = np.unique(label[np.flatnonzero(inside) % d.n_states])
        leaves = np.unique(label[np.flatnonzero(~inside) % d.n_states])
        self.apart = len(np.setdiff1d(kinds, leaves)) > 1
        self.work += 20.0 * moves.nnz
        if len(kinds) < 2 or d.n_states > _LARGEST_SOLVE:
            return
        self.limits.need(10 * ENTRY * moves.nnz + 8.0 * d.n_states**2)
        greedy = self._paid.argmin(axis=1)
        try:
            gain, _, _ = optimal(moves, self._paid, greedy)
        except (RuntimeError, np.linalg.LinAlgError, ValueError):
            return
        if not np.isfinite(gain).all() or np.ptp(gain) < 1e-9:
            return
        self.limits.need()
        least = np.full(int(label.max()) + 1, np.inf)
        np.minimum.at(least, label, gain)
        gain = least[label]
        ways = longest_ways(moves, label, inside)
        if ways is None:
            return
        above = gain - gain.min()
        short = (np.tile(above, d.n_actions) - moves @ above)[~inside]
        error = 2 * margin(d, gain, 0.0)
        self.gains = gain - (max(0.0, float(short.max(initial=0.0))) + error) * ways
        onward = (moves @ self.gains).reshape(d.n_actions, -1).T
        self._paid = self._paid - self.gains[:, None] + _STEEP * (onward - self.gains[:, None])

    def _of_places(self, values: Array) -> Array:
        """A function of the state at all places."""
        return np.concatenate([values, self.points @ values])

    def _claim(self, values: Array, lowest: float) -> None:
        """Keep these values, whose least residual is `lowest`, as the certificate where they prove more."""
        d = self.dynamics
        by_gains = bool(self.gains.any())
        found = self._certificate(values, 0.0, self.gains if by_gains else None)
        lowest -= found.rounding(d)
        bound = lowest + float(d.start @ self.gains)
        if bound > self.bound:
            gains = self.gains + lowest if by_gains else None
            self.best_certificate = replace(found, bound=bound, gains=gains)

    # -- informed -------------------------------------------------------------------------------

    def inform(self, tolerance: float) -> None:
        """Values that know readings: sweeps until the bound is within `tolerance` of what they can prove."""
        if not self._actions:
            self._follow()
        self._iterate(tolerance)

    def _follow(self) -> None:
        """What follows from the states under every action."""
        d = self.dynamics
        kept = ENTRY * float(d.entries.sum()) + 16.0 * d.n_states * d.n_actions
        self.limits.need(kept + MAKING * float(d.entries.max()))
        states = csr_array(np.eye(1)) if d.n_states == 1 else _identity(d.n_states)
        for a in range(d.n_actions):
            self.limits.need()
            self._actions.append(_Action(d.after(states, a)))
            self.work += 50.0 * d.entries[a]
        self.limits.hold(kept)

    def backed_up(self) -> tuple[Array, list[Index]]:
        """The right side of the inequality at all places, [S + n, A], and the next action in every row."""
        n_states = self.dynamics.n_states
        vectors = self.values[:n_states]
        excess = self.values[n_states:] - self.points @ vectors
        paid = self._paid if not self.points.shape[0] else self._of_places(self._paid)
        total = np.empty_like(self.values)
        choices = []
        for a, action in enumerate(self._actions):
            inner = action.after.mass @ vectors
            if len(action.rows):
                # No row is there twice.
                inner[action.rows] += action.shares[:, None] * excess[action.points]
            choice = inner.argmin(axis=1)
            least = inner[np.arange(len(choice)), choice]
            total[:, a] = paid[:, a] + np.bincount(action.after.belief, least, minlength=self.n)
            choices.append(choice)
            self.work += 2.0 * action.after.mass.nnz * self.values.shape[1]
        self.work += _CALL
        return total, choices

    def _iterate(self, tolerance: float) -> None:
        """Damped sweeps; exact values of the present choices where sweeps alone are slow."""
        lowest, best = -np.inf, self.values.copy()
        last_spread = np.inf
        for sweep in range(_MOST_SWEEPS):
            self.limits.need()
            total, choices = self.backed_up()
            change = total - self.values
            low, high = float(change.min()), float(change.max())
            if low > lowest:
                lowest, best = low, self.values.copy()
            if high - low < tolerance:
                break
            if self.points.shape[0] and sweep % _RENEWED == _RENEWED - 1:
                self._claim(best, lowest)
                lowest = -np.inf
                self._use_best_points()
            if sweep % _SWEEPS == _SWEEPS - 1:
                self._claim(best, lowest)
                if high - low > 0.5 * last_spread:
                    solved = self._solved(choices, tolerance)
                    if solved is None:
                        break
                    self.values = solved
                    last_spread = np.inf
                    continue
                last_spread = high - low
            self.values = self.values + _DAMPING * (change - 0.5 * (low + high))
            self.values -= self.values[0, 0]
        self._claim(best, lowest)
        self.values = best

    def chain(self, choices: list[Index]) -> csr_array:
        """The chain over (place, action) that the next actions in every row make."""
        n_states, n_actions, n = self.dynamics.n_states, self.dynamics.n_actions, self.n
        source, target, chance = [], [], []
        for a, action in enumerate(self._actions):
            mass = action.after.mass
            if len(action.rows):
                shape = (mass.shape[0], self.points.shape[0])
                used = csr_array((action.shares, (action.rows, action.points)), shape=shape)
                mass = csr_array(mass - used @ self.points)
                source.append(action.after.belief[action.rows] * n_actions + a)
                target.append((n_states + action.points) * n_actions + choices[a][action.rows])
                chance.append(action.shares)
            row = np.repeat(np.arange(mass.shape[0]), np.diff(mass.indptr))
            source.append(action.after.belief[row] * n_actions + a)
            target.append(mass.indices * n_actions + choices[a][row])
            chance.append(np.maximum(mass.data, 0.0))
        where = np.concatenate(source), np.concatenate(target)
        size = n * n_actions
        return csr_array((np.concatenate(chance), where), shape=(size, size))

    # -- points ---------------------------------------------------------------------------------

    def refine(self, vectors: Array, count: int) -> int:
        """Points where the bound's own policy goes and the vectors of a controller are far above it; how
        many were found."""
        _, choices = self.backed_up()
        chain = self.chain(choices)
        self.limits.need(3 * MAKING * chain.nnz)
        flow = self._occupancy(chain, choices)
        n_actions = self.dynamics.n_actions
        found, weight = [], []
        for a, action in enumerate(self._actions):
            mass = action.after.mass
            chance = np.asarray(mass.sum(axis=1))
            made = np.zeros(len(chance))
            made[action.rows] = action.shares
            through = flow[action.after.belief * n_actions + a] * (chance - made)
            wide = np.diff(mass.indptr) > 1
            best = top(np.where(wide & (made < (1 - 1e-6) * chance), through, 0.0), 4 * count)
            inner = mass[best] @ self.values[: self.dynamics.n_states]
            upper = (mass[best] @ vectors.T).min(axis=1)
            self.work += 2.0 * mass[best].nnz * len(vectors)
            spread = (upper - inner.min(axis=1)) / chance[best]
            found.append(csr_array(mass[best] / chance[best][:, None]))
            weight.append(np.column_stack([through[best], spread]))
            self.limits.need()
        beliefs, weights = csr_array(vstack(found)), np.concatenate(weight)
        flows, spread = weights[:, 0], weights[:, 1]
        if not len(flows):
            return 0
        first, kind = distinct(beliefs)
        total = np.bincount(kind, flows * (spread - spread.min() + 1e-12))
        total[np.isin(numbers(beliefs[first]), numbers(self.points))] = 0.0
        chosen = first[top(total, count)]
        if not len(chosen):
            return 0
        return self.add(beliefs[np.sort(chosen)])

    def _occupancy(self, chain: csr_array, choices: list[Index]) -> Array:
        """How often each (place, action) is met, what is later counting less."""
        d = self.dynamics
        n_actions = d.n_actions
        mass = np.zeros(chain.shape[0])
        for weight, start in zip(d.start_weights, d.starts, strict=True):
            action = int((start @ self.values[: d.n_states]).argmin())
            mass[np.arange(d.n_states) * n_actions + action] += weight * start
        backward = csr_array(chain.T)
        met = mass.copy()
        for _ in range(_STEPS):
            self.limits.need()
            mass = _DISCOUNT * (backward @ mass)
            met += mass
        self.work += 2.0 * _STEPS * chain.nnz
        return met

    def add(self, beliefs: csr_array) -> int:
        """New points at these beliefs; how many. Raises `LimitReached` where memory does not suffice."""
        d, before = self.dynamics, self.points.shape[0]
        count = beliefs.shape[0]
        size = sum(d.entries_after(beliefs, a) for a in range(d.n_actions))
        self.limits.need(MAKING * size)
        fresh = [d.after(beliefs, a) for a in range(d.n_actions)]
        points = csr_array(vstack([self.points, beliefs]))
        actions = []
        for old, new in zip(self._actions, fresh, strict=True):
            self.limits.need(MAKING * new.mass.nnz)
            after = After(
                np.concatenate([old.after.belief, new.belief + self.n]),
                np.concatenate([old.after.reading, new.reading]),
                csr_array(vstack([old.after.mass, new.mass])),
            )
            options = old.options.joined(covering(old.after.mass, beliefs, self.limits).moved(0, before))
            here = covering(new.mass, points, self.limits).moved(old.after.mass.shape[0], 0)
            actions.append(_Action(after, old.rows, old.points, old.shares, options.joined(here)))
            self.work += 50.0 * (new.mass.nnz + len(here.rows)) + _CALL
        self.limits.hold(ENTRY * (sum(new.mass.nnz for new in fresh) + beliefs.nnz))
        self._actions, self.points = actions, points
        self.values = np.concatenate([self.values, beliefs @ self.values[: d.n_states]])
        total, _ = self.backed_up()
        shift = total[: d.n_states] - self.values[: d.n_states]
        self.values[-count:] = total[-count:] - 0.5 * (shift.min() + shift.max())
        self._use_best_points()
        return int(count)

    def _use_best_points(self) -> None:
        """In every row the point that raises what follows most, for the present values."""
        n_states = self.dynamics.n_states
        vectors = self.values[:n_states]
        excess = self.values[n_states:] - self.points @ vectors
        for action in self._actions:
            options = action.options
            if not len(options.rows):
                continue
            inner = action.after.mass @ vectors
            with_point = (inner[options.rows] + options.shares[:, None] * excess[options.points]).min(axis=1)
            gained = with_point - inner.min(axis=1)[options.rows]
            order = np.lexsort((gained, options.rows))
            last = np.append(np.flatnonzero(np.diff(options.rows[order])), len(order) - 1)
            best = order[last]
            best = best[gained[best] > 1e-13]
            action.rows, action.points = options.rows[best], options.points[best]
            action.shares = options.shares[best]
            self.work += 20.0 * len(order) + 2.0 * action.after.mass.nnz * self.values.shape[1]

    def _solved(self, choices: list[Index], tolerance: float) -> Array | None:
        """The exact values of the present choices, where they can be had."""
        entries = sum(action.after.mass.nnz for action in self._actions)
        if not self.limits.fits(2 * MAKING * entries + 50 * 8.0 * self.values.size):
            return None
        paid = self._of_places(self._paid).ravel()
        chain = self.chain(choices)
        found, spent = by_krylov(chain, paid, self.values.ravel(), 0.3 * tolerance, self.limits.expired)
        self.work += spent + 100.0 * chain.nnz
        if found is None or not np.isfinite(found).all():
            return None
        return found.reshape(self.values.shape)


def _identity(n: int) -> csr_array:
    return csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
