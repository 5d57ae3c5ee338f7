"""`verify(plan, model)`: both bounds recomputed from the certificate alone.

In plain numpy, and without a line of the code that made the plan: the inequalities of `upper` and `lower`
are checked one by one, with interpolation weights repaired here. Whatever the certificate holds, what is
returned are bounds that it proves; a tampered one proves less, or is refused where its numbers make no sense.
"""

from __future__ import annotations

import sys
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, eye_array, vstack

from .._utils.arrays import Array
from ..errors import PSRLError
from ..models.model import POMDP
from .dynamics import BeliefDynamics, Dynamics
from .lower.grid import LowerCertificate
from .lower.informed import InformedCertificate
from .solution import Plan
from .sparse.dynamics import SparseDynamics
from .upper.controllers import Controller

DUST = 1e-15  # weights below this are rounding
INEXACT = 1e-14  # how far a belief may be from what makes it up


class CertificateError(PSRLError, ValueError):
    """A certificate that proves nothing about this model, or less than the plan claims."""


def verify(plan: Plan, model: POMDP) -> tuple[float, float]:
    """The interval that the plan's certificates prove for `model`, in the user's numbers.

    Raises `CertificateError` where the plan is for another model, its numbers make no sense, or it claims
    more than they prove.
    """
    if plan.fingerprint != model.fingerprint:
        raise CertificateError("the plan was made for another model")
    dynamics = dynamics_for(plan.grid, model)
    check_words(plan, model, dynamics)
    check_certificate(plan, dynamics)
    if not 0.0 <= plan.lower_cost <= plan.upper_cost <= 1.0:
        claim = f"[{plan.lower_cost!r}, {plan.upper_cost!r}]"
        raise CertificateError(f"the plan claims {claim}, which is no interval of scaled costs")
    least, most = proved_lower(plan.grid, dynamics), proved_upper(plan, dynamics)
    lower, upper = max(0.0, least), min(1.0, most)
    if lower > upper:
        raise CertificateError(f"the certificates contradict each other: {lower!r} > {upper!r}")
    # Half of what is paid for rounding is enough for a proof. Added before the bounds are cut off at 0 and 1:
    # where values are so large that rounding costs everything, half of it must not excuse a claim.
    if not plan.lower_cost <= max(0.0, least + 0.5 * plan.grid.rounding(dynamics)):
        raise CertificateError(f"the plan claims {plan.lower_cost!r} from below and proves {lower!r}")
    if not plan.upper_cost >= min(1.0, most - 0.5 * dynamics.rounding(plan.controller.vectors)):
        raise CertificateError(f"the plan claims {plan.upper_cost!r} from above and proves {upper!r}")
    low, high = sorted(model.setting.units.from_scaled([lower, upper]).tolist())
    return low, high


@singledispatch
def dynamics_for(certificate: object, model: POMDP) -> BeliefDynamics:
    """The model as the certificate of the lower bound is about it: sparse where that is large."""
    raise CertificateError(f"a {type(certificate).__name__} proves no lower bound")


@dynamics_for.register
def _(certificate: LowerCertificate, model: POMDP) -> BeliefDynamics:
    return Dynamics.of(model)


@dynamics_for.register
def _(certificate: InformedCertificate, model: POMDP) -> BeliefDynamics:
    return SparseDynamics.of(model)


def check_words(plan: Plan, model: POMDP, dynamics: BeliefDynamics) -> None:
    """They prove nothing, but wrong ones would have the policy played wrongly."""
    wanted: dict[str, tuple[object, object]] = {
        "n_states": (plan.n_states, model.n_states),
        "states": (plan.states, dynamics.states),
        "actions": (plan.actions, model.setting.actions),
        "units": (plan.units, model.setting.units),
        "start": (plan.controller.start in range(len(plan.controller)), True),
    }
    for name, (found, right) in wanted.items():
        if found != right:
            raise CertificateError(f"the plan's {name} are not those of the model")


def check_certificate(plan: Plan, dynamics: BeliefDynamics) -> None:
    """Refuses arrays that make no certificate for these dynamics, whatever they may prove."""
    check_arrays(plan, dynamics.n_actions, dynamics.n_observations, dynamics.n_states)


def check_arrays(plan: Plan, n_actions: int, n_readings: int, n_states: int) -> None:
    """The same for any model of these sizes, of which `n_states` states can be reached."""
    nodes = plan.controller.actions.size
    wanted: Wanted = {
        "vectors": (plan.controller.vectors, (nodes, n_states)),
        "successors": (plan.controller.successors, (nodes, n_readings)),
        "actions": (plan.controller.actions, (nodes,)),
    }
    if plan.controller.gains is not None:
        wanted["gains of nodes"] = plan.controller.gains, (nodes, n_states)
    _check_shapes(wanted)
    _check_numbers("actions", plan.controller.actions, n_actions)
    _check_numbers("successors", plan.controller.successors, nodes)
    check_lower_arrays(plan.grid, n_actions, n_readings, n_states)


Wanted = dict[str, tuple[npt.NDArray[Any], tuple[int, ...]]]


def _check_shapes(wanted: Wanted) -> None:
    for name, (array, shape) in wanted.items():
        if array.shape != shape or array.dtype.kind not in "if":
            raise CertificateError(f"{name} is {array.dtype} of shape {array.shape}, not {shape}")
        if not np.isfinite(array).all():
            raise CertificateError(f"{name} holds a number that is not finite")


def _check_numbers(name: str, array: npt.NDArray[Any], count: int) -> None:
    if array.dtype.kind != "i" or array.size == 0 or array.min() < 0 or array.max() >= count:
        raise CertificateError(f"{name} points outside of its {count}")


@singledispatch
def check_lower_arrays(certificate: object, n_actions: int, n_readings: int, n_states: int) -> None:
    """Refuses arrays that are no certificate of a lower bound for a model of these sizes."""
    raise CertificateError(f"a {type(certificate).__name__} proves no lower bound")


@check_lower_arrays.register
def _(grid: LowerCertificate, n_actions: int, n_readings: int, n_states: int) -> None:
    n = grid.values.size
    wanted: Wanted = {
        "points": (grid.points, (n, n_states)),
        "values": (grid.values, (n,)),
        "basis": (grid.basis, (n, n_actions, n_readings, n_states)),
        "weights": (grid.weights, (n, n_actions, n_readings, n_states)),
        "parents": (grid.parents, (n, 3)),
    }
    if grid.gains is not None:
        wanted["gains"] = grid.gains, (n,)
    _check_shapes(wanted)
    _check_numbers("basis", grid.basis, n)
    if (grid.parents < -1).any() or (grid.parents >= [n, n_actions, n_readings]).any():
        raise CertificateError("parents point outside of the grid")
    points = grid.points
    if n < n_states or (points[:n_states] != np.eye(n_states)).any():
        raise CertificateError("the grid does not begin with the vertices")
    if (points < 0).any() or np.abs(points.sum(axis=1) - 1.0).max() > 1e-12:
        raise CertificateError("a point of the grid is no belief")


@check_lower_arrays.register
def _(informed: InformedCertificate, n_actions: int, n_readings: int, n_states: int) -> None:
    points, uses = informed.points, informed.uses
    n = points.shape[0]
    wanted: Wanted = {
        "values": (informed.values, (n_states + n, n_actions)),
        "uses": (uses, (len(uses), 4)),
        "shares": (informed.shares, (len(uses),)),
        "coordinates": (points.data, (points.nnz,)),
    }
    if informed.gains is not None:
        wanted["gains"] = informed.gains, (n_states,)
    _check_shapes(wanted)
    if points.shape[1] != n_states:
        raise CertificateError(f"points are over {points.shape[1]} states, not {n_states}")
    if points.nnz:
        _check_numbers("states of points", points.indices, n_states)
    if len(uses) and (
        uses.dtype.kind != "i" or (uses < 0).any() or (uses >= [n_actions, n_states + n, n_readings, n]).any()
    ):
        raise CertificateError("uses point outside of the points")
    if (informed.shares < 0.0).any():
        raise CertificateError("a share is negative")
    if (points.data < 0.0).any() or np.abs(points.sum(axis=1) - 1.0).max(initial=0.0) > 1e-12:
        raise CertificateError("a point is no belief")


def proved_upper(plan: Plan, dynamics: BeliefDynamics) -> float:
    """max over nodes and states of C(s, a_n) + Σ M[a_n, o](s, s′) α_{σ(n, o)}(s′) − α_n(s).

    With gains: what that is above g_n(s) at most, on top of Σ b(s) g_n(s) for the best node at the start.
    Raises `CertificateError` where the gains are not proved, as `Plan.bounds` reads them off.
    """
    controller = plan.controller
    vectors = controller.vectors - controller.vectors[0, 0]  # a constant proves nothing and costs digits
    excess = dynamics.cost[controller.actions] - vectors + _onward(controller, dynamics, vectors)
    if controller.gains is None:
        return float(excess.max()) + dynamics.rounding(vectors)
    _check_gains_fall(controller, dynamics)
    rounding = dynamics.rounding(vectors)
    above = max(0.0, float((excess - controller.gains).max()) + rounding)
    _check_gains_claim("nodes", above, rounding)
    at_start = (dynamics.starts @ controller.gains.T).min(axis=1)
    return float(dynamics.start_weights @ at_start) + above


def _onward(controller: Controller, dynamics: BeliefDynamics, values: Array) -> Array:
    """[N, S]: Σ M[a_n, o](s, s′) value_{σ(n, o)}(s′)."""
    total = np.zeros_like(values)
    for a in np.unique(controller.actions):
        here = np.flatnonzero(controller.actions == a)
        for o in range(dynamics.n_observations):
            total[here] += (dynamics.move(a, o) @ values[controller.successors[here, o]].T).T
    return total


def _check_gains_fall(controller: Controller, dynamics: BeliefDynamics) -> None:
    """g ≥ P g at every node and state: by comparison with all that can follow, or with a margin."""
    gains = controller.gains
    assert gains is not None
    highest = np.full(gains.shape, -np.inf)
    for a in np.unique(controller.actions):
        here = np.flatnonzero(controller.actions == a)
        for o in range(dynamics.n_observations):
            move = dynamics.move(a, o)
            after = gains[controller.successors[here, o]]
            rows = np.flatnonzero(np.diff(move.indptr))
            if len(rows):
                most = np.maximum.reduceat(after[:, move.indices], move.indptr[rows], axis=1)
                highest[np.ix_(here, rows)] = np.maximum(highest[np.ix_(here, rows)], most)
    above = gains - gains.min()
    falls = above - _onward(controller, dynamics, above) >= _margin(dynamics, gains)
    if not ((highest <= gains) | falls).all():
        node, state = np.argwhere((highest > gains) & ~falls)[0]
        raise CertificateError(f"the gain of node {node} and state {state} is below what follows it")


@singledispatch
def proved_lower(certificate: object, dynamics: BeliefDynamics) -> float:
    """The lower bound that the certificate proves."""
    raise CertificateError(f"a {type(certificate).__name__} proves no lower bound")


@proved_lower.register
def _(informed: InformedCertificate, dynamics: BeliefDynamics) -> float:
    """min over places and actions of c(g, a) + Σ_o min_a′ Q̃(g M[a, o], a′) − q(g, a).

    With gains: what that is below g·gains at most, taken from the gain of the start.
    """
    n_states, points = dynamics.n_states, informed.points
    places = csr_array(vstack([eye_array(n_states, format="csr"), points]))
    q = informed.values - informed.values[0, 0]
    vectors = q[:n_states]
    excess = q[n_states:] - points @ vectors
    gains = np.zeros(n_states) if informed.gains is None else informed.gains
    if informed.gains is not None:
        _check_state_gains_rise(gains, dynamics)
    row = informed.uses[:, 0] * dynamics.n_observations + informed.uses[:, 2]
    lowest = np.inf
    for a in range(dynamics.n_actions):
        right = places @ (dynamics.cost[a] - gains) - q[:, a]
        for o in range(dynamics.n_observations):
            mass = csr_array(places @ dynamics.move(a, o))
            inner = mass @ vectors
            used = row == a * dynamics.n_observations + o
            if used.any():
                where = informed.uses[used, 1], informed.uses[used, 3]
                shares = csr_array((informed.shares[used], where), shape=(len(q), len(excess)))
                # Where the points are more than the row, they prove nothing, and the states stand for it.
                over = (csr_array(shares @ points) - mass).max(axis=1).toarray().ravel() > 0.0
                inner += np.where(over[:, None], 0.0, shares @ excess)
            right += inner.min(axis=1)
        lowest = min(lowest, float(right.min()))
    rounding = informed.rounding(dynamics)
    lowest -= rounding
    if informed.gains is None:
        return lowest
    _check_gains_claim("states", -lowest, rounding)
    return float(dynamics.start @ gains) + min(0.0, lowest)


def _check_state_gains_rise(gains: Array, dynamics: BeliefDynamics) -> None:
    """g ≤ θ_a g at every state and action: by comparison with all that can follow, or with a margin."""
    for a in range(dynamics.n_actions):
        move = csr_array(sum(dynamics.move(a, o) for o in range(dynamics.n_observations)))
        least = np.minimum.reduceat(gains[move.indices], move.indptr[:-1])  # no row is empty
        above = gains - gains.min()
        rises = move @ above - above >= _margin(dynamics, gains)
        if not ((least >= gains) | rises).all():
            state = int(np.flatnonzero((least < gains) & ~rises)[0])
            raise CertificateError(f"the gain of state {state} is above what follows action {a}")


@proved_lower.register
def _(grid: LowerCertificate, dynamics: Dynamics) -> float:
    """min over points and actions of c(g, a) + Σ_o P(o | g, a) h̃(τ(g, a, o)) − h.

    With gains: what that is below g_i at most, taken from the gain of the start.
    """
    points, h = grid.points, grid.values - grid.values[0]
    gains = np.zeros(len(h)) if grid.gains is None else grid.gains
    above = gains - gains.min()
    lowest = np.inf
    for a in range(dynamics.n_actions):
        value, gain, least = points @ dynamics.cost[a], np.zeros(len(h)), np.full(len(h), np.inf)
        for o in range(dynamics.n_observations):
            after = points @ dynamics.joint[a, o]  # P(o | g, a) τ(g, a, o)
            chance = after.sum(axis=1)
            comes = chance > 1e-300
            tau = after[comes] / chance[comes, None]
            basis = grid.basis[comes, a, o]
            kept, rest = _repaired(points, tau, basis, grid.weights[comes, a, o])
            value[comes] += chance[comes] * _mean(kept, h[basis], rest, h)
            if grid.gains is not None:
                gain[comes] += chance[comes] * _mean(kept, above[basis], rest, above)
                swept, worst = _least(points, gains, tau, basis, kept, rest)
                least[comes] = np.minimum(least[comes], swept)
                if worst > INEXACT:
                    raise CertificateError(f"a belief is {worst:g} away from what makes it up")
        if np.isnan(value).any():
            raise CertificateError("the certificate makes no numbers")
        rises = gain - above >= _margin(dynamics, gains)
        if grid.gains is not None and not ((least >= gains) | rises).all():
            point = int(np.flatnonzero((least < gains) & ~rises)[0])
            raise CertificateError(f"the gain of point {point} is above what follows action {a}")
        lowest = min(lowest, float((value - h - gains).min()))
    rounding = grid.rounding(dynamics)
    lowest -= rounding
    if grid.gains is None:
        return lowest
    _check_gains_claim("points", -lowest, rounding)
    return _gain_of_start(points, gains, dynamics) + min(0.0, lowest)


def _check_gains_claim(whose: str, error: float, rounding: float) -> None:
    """Refuses gains that would have to be moved to be proved, by more than rounding explains."""
    if not error <= 0.5 * rounding:
        raise CertificateError(f"the plan claims gains of {whose} that are {error:g} better than proved")


def _margin(dynamics: BeliefDynamics, gains: Array) -> float:
    """What rounding may do to a mean of gains that are counted from the least of them.

    For a mean of the gains themselves it would be too little, where they differ by little.
    """
    terms = dynamics.n_states * dynamics.n_observations + dynamics.n_states + 10
    return float(np.ptp(gains)) * terms * sys.float_info.epsilon


def _mean(kept: Array, at_basis: Array, rest: Array, values: Array) -> Array:
    """Σ γ h over the basis and the vertices; -inf where there is no such γ."""
    total = (kept * at_basis).sum(axis=1) + np.maximum(rest, 0.0) @ values[: rest.shape[1]]
    return np.where((rest < -1e-15).any(axis=1), -np.inf, total)


def _least(
    points: Array, gains: Array, tau: Array, basis: npt.NDArray[np.int32], kept: Array, rest: Array
) -> tuple[Array, float]:
    """The least gain among the points that make up each belief, and how far these are from it at most.

    Weights that are rounding do not count: beliefs are known to within rounding only. But a state that is
    possible, however unlikely, is no rounding: where no point has it, its vertex counts.
    """
    on_points = np.where(kept > DUST, kept, 0.0)
    covered = ((on_points[:, :, None] > 0.0) & (points[basis] > 0.0)).any(axis=1)
    on_vertices = np.where((rest > DUST) | ((tau > 0.0) & ~covered), np.maximum(rest, 1e-300), 0.0)
    made = np.einsum("mk,mks->ms", on_points, points[basis]) + on_vertices
    least = np.minimum(
        np.where(on_points > 0.0, gains[basis], np.inf).min(axis=1),
        np.where(on_vertices > 0.0, gains[: tau.shape[1]], np.inf).min(axis=1),
    )
    return least, float(np.abs(made - tau).sum(axis=1).max(initial=0.0))


def _gain_of_start(points: Array, gains: Array, dynamics: Dynamics) -> float:
    """Σ over first readings of the gain of the point at the belief after it."""
    total = 0.0
    for weight, start in zip(dynamics.start_weights, dynamics.starts, strict=True):
        distance = np.abs(points - start).sum(axis=1)
        nearest = int(distance.argmin())
        if distance[nearest] > INEXACT:
            raise CertificateError("the start is not among the points of the grid")
        total += float(weight * gains[nearest])
    return total


def _repaired(points: Array, tau: Array, basis: npt.NDArray[np.int32], weights: Array) -> tuple[Array, Array]:
    """Weights trimmed until Σ γ g ≤ τ in every coordinate, and the rest of τ, for the vertices."""
    kept = np.where(weights > 0.0, weights, 0.0)
    columns = points[basis]  # [m, K, S]
    made = np.einsum("mk,mks->ms", kept, columns)
    rows = np.arange(len(tau))
    n_states = tau.shape[1]
    for s in range(n_states):
        for _ in range(n_states):
            excess = made[:, s] - tau[:, s]
            if (excess <= 0.0).all():
                break
            share = np.where(kept > 0.0, columns[:, :, s], 0.0)
            most = share.argmax(axis=1)
            largest = share[rows, most]
            wanted = np.where(excess > 0.0, excess / np.maximum(largest, 1e-300) * (1 + 1e-12) + 1e-300, 0.0)
            cut = np.where(largest > 0.0, np.minimum(wanted, kept[rows, most]), 0.0)
            kept[rows, most] -= cut
            made -= cut[:, None] * columns[rows, most]
    # Anew, and not from what was subtracted: of weights that were large, nothing but rounding would be left.
    return kept, tau - np.einsum("mk,mks->ms", kept, columns)
