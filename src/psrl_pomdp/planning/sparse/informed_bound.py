"""`InformedBound` computes the informed lower bound (`informed`) and adds points where they raise it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_array, vstack

from ..._utils.arrays import Array, Index
from ..limits import Limits
from ..lower.informed import InformedCertificate
from ..markov.gains import (
    end_components,
    max_transient_steps,
    multichain_policy_iteration,
    rounding_margin,
)
from ..markov.relative_values import solve_gmres
from ..parameters import WORK, CoveringParameters, InformedParameters
from ..single_points import interpolated_by_one_point, largest_weights
from .beliefs import PointOptions, covering_points, distinct_rows, row_hashes, top_indices
from .dynamics import BYTES_PER_ENTRY, BYTES_PER_ENTRY_IN_ASSEMBLY, NextBeliefs, SparseDynamics


@dataclass
class _ActionRows:
    """The next beliefs of all places under one action, and the point that is a part of each of these rows."""

    next_beliefs: NextBeliefs
    rows: Index = field(default_factory=lambda: np.empty(0, np.int64))  # [m]: rows that use a point
    points: Index = field(default_factory=lambda: np.empty(0, np.int64))  # [m]: the point that each uses
    shares: Array = field(default_factory=lambda: np.empty(0))  # [m]: its weight, as a part of the row's mass
    # Points that could be used.
    options: PointOptions = field(default_factory=lambda: PointOptions.none())


class InformedBound:
    """The values at states and points, and the best lower bound that they have proved."""

    def __init__(
        self,
        dynamics: SparseDynamics,
        limits: Limits,
        parameters: InformedParameters = InformedParameters(),
        covering: CoveringParameters = CoveringParameters(),
    ) -> None:
        self.dynamics = dynamics
        self.limits = limits
        self.parameters = parameters
        self.covering = covering
        self.work = 0.0
        n_states, n_actions = dynamics.n_states, dynamics.n_actions
        self.values: Array = np.zeros((n_states, n_actions))
        self.points = csr_array((0, n_states))
        self.gains = np.zeros(n_states)
        self.has_several_classes = False  # whether the model has several closed classes
        self._actions: list[_ActionRows] = []
        self._step_cost = np.ascontiguousarray(dynamics.cost.T)
        self._start_weights: Array | None = None  # [K, n]: the largest weight of each point in each start
        self.best_certificate = self._certificate(self.values, float(dynamics.cost.min()) - 1e-12)

    @property
    def bound(self) -> float:
        """The best lower bound so far."""
        return self.best_certificate.bound

    @property
    def n(self) -> int:
        """The number of places: states and points."""
        return len(self.values)

    def _certificate(self, values: Array, bound: float, gains: Array | None = None) -> InformedCertificate:
        """Return the certificate of these values."""
        uses, shares = [np.empty((0, 4), np.int64)], [np.empty(0)]
        for a, action in enumerate(self._actions):
            rows = action.rows
            parents = action.next_beliefs.belief[rows], action.next_beliefs.observation[rows]
            uses.append(np.column_stack([np.full(len(rows), a), *parents, action.points]))
            shares.append(action.shares)
        if gains is not None:
            values = values + self.parameters.gain_penalty * self._at_places(self.gains)[:, None]
        return InformedCertificate(
            bound, values.copy(), self.points, np.concatenate(uses), np.concatenate(shares), gains
        )

    # -- the fully observed MDP -----------------------------------------------------------------

    def solve_mdp(self, tolerance: float) -> None:
        """Solve the fully observed MDP for relative values, and for gains where these differ by state."""
        d = self.dynamics
        stacked = csr_array(vstack(d.transitions))
        self._find_gains(stacked)
        step_cost = self._step_cost.T.ravel()
        h = np.zeros(d.n_states)
        lowest, best = -np.inf, h.copy()
        for _ in range(self.parameters.max_sweeps):
            self.limits.require()
            change = (step_cost + stacked @ h).reshape(d.n_actions, -1).min(axis=0) - h
            self.work += 2.0 * stacked.nnz + WORK.python_call
            low = float(change.min()) + d.restart_value(d.starts @ h)
            if low > lowest:
                lowest, best = low, h.copy()
            if np.ptp(change) < tolerance:
                break
            h += self.parameters.damping * (change - 0.5 * (change.min() + change.max()))
        self.values = np.repeat(best[:, None], d.n_actions, axis=1)
        self._keep_if_better(self.values, lowest)

    def _find_gains(self, transitions: csr_array) -> None:
        """Find gains with g ≤ θ_a g for all actions: those of the fully observed MDP, where they differ."""
        d = self.dynamics
        if d.restart:  # one gain for all states
            return
        label, inside = end_components(transitions, d.n_actions)
        components = np.unique(label[np.flatnonzero(inside) % d.n_states])
        with_exit = np.unique(label[np.flatnonzero(~inside) % d.n_states])
        self.has_several_classes = len(np.setdiff1d(components, with_exit)) > 1
        self.work += 20.0 * transitions.nnz
        if len(components) < 2 or d.n_states > self.parameters.max_exact_states:
            return
        self.limits.require(10 * BYTES_PER_ENTRY * transitions.nnz + 8.0 * d.n_states**2)
        greedy = self._step_cost.argmin(axis=1)
        try:
            gain, _, _ = multichain_policy_iteration(transitions, self._step_cost, greedy)
        except (RuntimeError, np.linalg.LinAlgError, ValueError):
            return
        if not np.isfinite(gain).all() or np.ptp(gain) < 1e-9:
            return
        self.limits.require()
        least = np.full(int(label.max()) + 1, np.inf)
        np.minimum.at(least, label, gain)
        gain = least[label]
        steps = max_transient_steps(transitions, label, inside)
        if steps is None:
            return
        above = gain - gain.min()
        violation = (np.tile(above, d.n_actions) - transitions @ above)[~inside]
        error = 2 * rounding_margin(d, gain, 0.0)
        self.gains = gain - (max(0.0, float(violation.max(initial=0.0))) + error) * steps
        increase = (transitions @ self.gains).reshape(d.n_actions, -1).T - self.gains[:, None]
        self._step_cost = self._step_cost - self.gains[:, None] + self.parameters.gain_penalty * increase

    def _at_places(self, values: Array) -> Array:
        """Return the expectations of a function of the state at all places."""
        return np.concatenate([values, self.points @ values])

    def _keep_if_better(self, values: Array, lowest: float) -> None:
        """Make values with the least residual `lowest` the best certificate where they prove more."""
        d = self.dynamics
        by_gains = bool(self.gains.any())
        found = self._certificate(values, 0.0, self.gains if by_gains else None)
        lowest -= found.rounding(d)
        bound = lowest + float(d.start @ self.gains)
        if bound > self.bound:
            gains = self.gains + lowest if by_gains else None
            self.best_certificate = replace(found, bound=bound, gains=gains)

    # -- informed -------------------------------------------------------------------------------

    def solve_informed(self, tolerance: float) -> None:
        """Iterate until the bound is within `tolerance` of what the present states and points can prove."""
        if not self._actions:
            self._add_rows_of_states()
            self._add_starts()
        self._value_iteration(tolerance)

    def _add_rows_of_states(self) -> None:
        """Make the next beliefs of the states under every action."""
        d = self.dynamics
        kept = BYTES_PER_ENTRY * float(d.entries.sum()) + 16.0 * d.n_states * d.n_actions
        self.limits.require(kept + BYTES_PER_ENTRY_IN_ASSEMBLY * float(d.entries.max()))
        states = csr_array(np.eye(1)) if d.n_states == 1 else _identity(d.n_states)
        for a in range(d.n_actions):
            self.limits.require()
            self._actions.append(_ActionRows(d.next_beliefs(states, a)))
            self.work += 50.0 * d.entries[a]
        self.limits.reserve(kept)

    def _add_starts(self) -> None:
        """Add the starts as points where they are drawn afresh."""
        d = self.dynamics
        if d.restart:
            starts = csr_array(d.starts[(d.starts > 0.0).sum(axis=1) > 1])
            if starts.shape[0]:
                self.add(csr_array(starts[np.sort(distinct_rows(starts)[0])]))

    def restart_value(self, values: Array) -> float:
        """Return (1 − γ) times the mean over the starts of the least value of an action: 0 without discount.

        Each start is made up from one point and the states.
        """
        d = self.dynamics
        if not d.restart:
            return 0.0
        n_states, known = d.n_states, self._start_weights
        if known is None or known.shape[1] != self.points.shape[0]:
            known = self._start_weights = largest_weights(self.points, d.starts)
        at_starts = interpolated_by_one_point(
            known, self.points, values[:n_states], values[n_states:], d.starts
        )
        return d.restart_value(at_starts.min(axis=1))

    def bellman_backup(self) -> tuple[Array, list[Index]]:
        """Return the right side of the inequality at all places.

        Returns
        -------
        tuple
            The values `[S + n, A]`, and for each action the next action at every row of its next beliefs.
        """
        n_states = self.dynamics.n_states
        vectors = self.values[:n_states]
        excess = self.values[n_states:] - self.points @ vectors
        step_cost = self._step_cost if not self.points.shape[0] else self._at_places(self._step_cost)
        total = np.empty_like(self.values)
        choices = []
        for a, action in enumerate(self._actions):
            inner = action.next_beliefs.mass @ vectors
            if len(action.rows):
                # No row occurs twice.
                inner[action.rows] += action.shares[:, None] * excess[action.points]
            choice = inner.argmin(axis=1)
            least = inner[np.arange(len(choice)), choice]
            total[:, a] = step_cost[:, a] + np.bincount(action.next_beliefs.belief, least, minlength=self.n)
            choices.append(choice)
            self.work += 2.0 * action.next_beliefs.mass.nnz * self.values.shape[1]
        self.work += WORK.python_call
        return total, choices

    def _value_iteration(self, tolerance: float) -> None:
        """Run value iteration; where it is slow, with exact values of the present policy in between."""
        p = self.parameters
        lowest, best = -np.inf, self.values.copy()
        last_spread = np.inf
        for sweep in range(p.max_sweeps):
            self.limits.require()
            total, choices = self.bellman_backup()
            change = total - self.values
            again = self.restart_value(self.values)
            low, high = float(change.min()) + again, float(change.max()) + again
            if low > lowest:
                lowest, best = low, self.values.copy()
            if high - low < tolerance:
                break
            if self.points.shape[0] and sweep % p.sweeps_between_choices == p.sweeps_between_choices - 1:
                self._keep_if_better(best, lowest)
                lowest = -np.inf
                self._use_best_points()
            if sweep % p.sweeps_between_checks == p.sweeps_between_checks - 1:
                self._keep_if_better(best, lowest)
                if high - low > 0.5 * last_spread:
                    solved = self._policy_values(choices, tolerance)
                    if solved is None:
                        break
                    self.values = solved
                    last_spread = np.inf
                    continue
                last_spread = high - low
            self.values = self.values + p.damping * (change - 0.5 * (low + high))
            self.values -= self.values[0, 0]
        self._keep_if_better(best, lowest)
        self.values = best

    def chain(self, choices: list[Index]) -> csr_array:
        """Return the transition matrix over pairs (place, action) of a choice of next actions."""
        n_states, n_actions, n = self.dynamics.n_states, self.dynamics.n_actions, self.n
        source, target, probability = [], [], []
        for a, action in enumerate(self._actions):
            mass = action.next_beliefs.mass
            if len(action.rows):
                shape = (mass.shape[0], self.points.shape[0])
                used = csr_array((action.shares, (action.rows, action.points)), shape=shape)
                mass = csr_array(mass - used @ self.points)
                source.append(action.next_beliefs.belief[action.rows] * n_actions + a)
                target.append((n_states + action.points) * n_actions + choices[a][action.rows])
                probability.append(action.shares)
            row = np.repeat(np.arange(mass.shape[0]), np.diff(mass.indptr))
            source.append(action.next_beliefs.belief[row] * n_actions + a)
            target.append(mass.indices * n_actions + choices[a][row])
            probability.append(np.maximum(mass.data, 0.0))
        where = np.concatenate(source), np.concatenate(target)
        size = n * n_actions
        return csr_array((np.concatenate(probability), where), shape=(size, size))

    # -- points ---------------------------------------------------------------------------------

    def refine(self, vectors: Array, count: int) -> int:
        """Add points where the bound's own policy goes, and return how many.

        Parameters
        ----------
        vectors
            `[N, S]`, the vectors of a controller. Points where min α·b is far above the bound come first.
        count
            Number of points, at most.
        """
        _, choices = self.bellman_backup()
        chain = self.chain(choices)
        self.limits.require(3 * BYTES_PER_ENTRY_IN_ASSEMBLY * chain.nnz)
        flow = self._occupancy(chain, choices)
        n_actions = self.dynamics.n_actions
        found, weight = [], []
        for a, action in enumerate(self._actions):
            mass = action.next_beliefs.mass
            probability = np.asarray(mass.sum(axis=1))
            made = np.zeros(len(probability))
            made[action.rows] = action.shares
            through = flow[action.next_beliefs.belief * n_actions + a] * (probability - made)
            wide = np.diff(mass.indptr) > 1
            best = top_indices(np.where(wide & (made < (1 - 1e-6) * probability), through, 0.0), 4 * count)
            inner = mass[best] @ self.values[: self.dynamics.n_states]
            upper = (mass[best] @ vectors.T).min(axis=1)
            self.work += 2.0 * mass[best].nnz * len(vectors)
            spread = (upper - inner.min(axis=1)) / probability[best]
            found.append(csr_array(mass[best] / probability[best][:, None]))
            weight.append(np.column_stack([through[best], spread]))
            self.limits.require()
        beliefs, weights = csr_array(vstack(found)), np.concatenate(weight)
        flows, spread = weights[:, 0], weights[:, 1]
        if not len(flows):
            return 0
        first, kind = distinct_rows(beliefs)
        total = np.bincount(kind, flows * (spread - spread.min() + 1e-12))
        total[np.isin(row_hashes(beliefs[first]), row_hashes(self.points))] = 0.0
        chosen = first[top_indices(total, count)]
        if not len(chosen):
            return 0
        return self.add(beliefs[np.sort(chosen)])

    def _occupancy(self, chain: csr_array, choices: list[Index]) -> Array:
        """Return the discounted number of visits to each pair (place, action)."""
        p = self.parameters
        d = self.dynamics
        n_actions = d.n_actions
        mass = np.zeros(chain.shape[0])
        for weight, start in zip(d.start_weights, d.starts, strict=True):
            action = int((start @ self.values[: d.n_states]).argmin())
            mass[np.arange(d.n_states) * n_actions + action] += weight * start
        backward = csr_array(chain.T)
        visits = mass.copy()
        for _ in range(p.occupancy_steps):
            self.limits.require()
            mass = (1.0 if d.restart else p.discount) * (backward @ mass)
            visits += mass
        self.work += 2.0 * p.occupancy_steps * chain.nnz
        return visits

    def add(self, beliefs: csr_array) -> int:
        """Add points at these beliefs, and return how many.

        Raises `LimitReached`, and adds nothing, where time or memory does not suffice.
        """
        d, before = self.dynamics, self.points.shape[0]
        count = beliefs.shape[0]
        size = sum(d.entries_of_next_beliefs(beliefs, a) for a in range(d.n_actions))
        self.limits.require(BYTES_PER_ENTRY_IN_ASSEMBLY * size)
        fresh = [d.next_beliefs(beliefs, a) for a in range(d.n_actions)]
        points = csr_array(vstack([self.points, beliefs]))
        actions = []
        for old, new in zip(self._actions, fresh, strict=True):
            self.limits.require(BYTES_PER_ENTRY_IN_ASSEMBLY * new.mass.nnz)
            after = NextBeliefs(
                np.concatenate([old.next_beliefs.belief, new.belief + self.n]),
                np.concatenate([old.next_beliefs.observation, new.observation]),
                csr_array(vstack([old.next_beliefs.mass, new.mass])),
            )
            most, old_mass = self.covering.points_per_row, old.next_beliefs.mass
            in_old = covering_points(old_mass, beliefs, self.limits, self.covering).shifted(0, before)
            in_new = covering_points(new.mass, points, self.limits, self.covering)
            in_new = in_new.shifted(old_mass.shape[0], 0)
            options = old.options.merged(in_old, most).merged(in_new, most)
            actions.append(_ActionRows(after, old.rows, old.points, old.shares, options))
            self.work += 50.0 * (new.mass.nnz + len(in_new.rows)) + WORK.python_call
        self.limits.reserve(BYTES_PER_ENTRY * (sum(new.mass.nnz for new in fresh) + beliefs.nnz))
        self._actions, self.points = actions, points
        self.values = np.concatenate([self.values, beliefs @ self.values[: d.n_states]])
        total, _ = self.bellman_backup()
        shift = total[: d.n_states] - self.values[: d.n_states]
        self.values[-count:] = total[-count:] - 0.5 * (shift.min() + shift.max())
        self._use_best_points()
        return int(count)

    def _use_best_points(self) -> None:
        """In every row use the point that raises its value most, for the present values."""
        n_states = self.dynamics.n_states
        vectors = self.values[:n_states]
        excess = self.values[n_states:] - self.points @ vectors
        for action in self._actions:
            options = action.options
            if not len(options.rows):
                continue
            inner = action.next_beliefs.mass @ vectors
            with_point = (inner[options.rows] + options.shares[:, None] * excess[options.points]).min(axis=1)
            gained = with_point - inner.min(axis=1)[options.rows]
            order = np.lexsort((gained, options.rows))
            last = np.append(np.flatnonzero(np.diff(options.rows[order])), len(order) - 1)
            best = order[last]
            best = best[gained[best] > 1e-13]
            action.rows, action.points = options.rows[best], options.points[best]
            action.shares = options.shares[best]
            self.work += 20.0 * len(order) + 2.0 * action.next_beliefs.mass.nnz * self.values.shape[1]

    def _policy_values(self, choices: list[Index], tolerance: float) -> Array | None:
        """Return the exact values of the present policy, or None where they cannot be computed."""
        entries = sum(action.next_beliefs.mass.nnz for action in self._actions)
        if not self.limits.fits(2 * BYTES_PER_ENTRY_IN_ASSEMBLY * entries + 50 * 8.0 * self.values.size):
            return None
        step_cost = self._at_places(self._step_cost).ravel()
        chain = self.chain(choices)
        found, spent = solve_gmres(
            chain, step_cost, self.values.ravel(), 0.3 * tolerance, self.limits.expired
        )
        self.work += spent + 100.0 * chain.nnz
        if found is None or not np.isfinite(found).all():
            return None
        return found.reshape(self.values.shape)


def _identity(n: int) -> csr_array:
    """Return the identity matrix [n, n]."""
    return csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
