"""`verify(plan, model)` recomputes both bounds from the plan's certificates alone.

It uses plain numpy and none of the code that made the plan: the inequalities of `upper.evaluation` and
`lower.certificate` are checked one by one, with interpolation weights repaired here. Whatever the
certificates hold, the bounds returned are proved by them; a tampered certificate proves less, or is refused
where its numbers make no sense.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from functools import singledispatch
from typing import Literal, overload

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, eye_array, vstack

from .._utils.arrays import Array
from ..models import POMDP
from .certificate_checks import CertificateError, check_arrays
from .discounted_checks import check_totals, lower_at_starts, upper_at_starts
from .dynamics import BeliefDynamics, Dynamics
from .lower.certificate import LowerCertificate
from .lower.informed import InformedCertificate
from .proofs.exact_check import exact_costs, in_units
from .proofs.making import proof_of
from .sensor_checks import checked_slack
from .solution import Plan
from .sparse.dynamics import SparseDynamics
from .upper.evaluation import Controller

ROUNDING_WEIGHT = 1e-15  # weights below this are rounding errors
INEXACT = 1e-14  # how far a belief may be from the points that make it up


@overload
def verify(plan: Plan, model: POMDP, exact: Literal[False] = False) -> tuple[float, float]: ...
@overload
def verify(plan: Plan, model: POMDP, exact: Literal[True]) -> tuple[Fraction, Fraction]: ...
def verify(plan: Plan, model: POMDP, exact: bool = False) -> tuple[float, float] | tuple[Fraction, Fraction]:
    """Recompute the bounds that a plan's certificates prove.

    Parameters
    ----------
    plan
        A plan, from `plan` or from a file.
    model
        The model of the plan.
    exact
        Whether to compute in fractions instead of doubles. The numbers of the model are then the shortest
        decimals that stand for its doubles, and nothing is taken for rounding.

    Returns
    -------
    tuple of float or of fractions.Fraction
        The proved lower and upper bound on the optimal average, or on the optimal discounted total, in the
        user's units.

    Raises
    ------
    CertificateError
        If the plan is for another model, its certificate is invalid, or its bounds are tighter than the
        certificate proves. With `exact`, also if the plan is for a density of observations, or depends on the
        start in a way that holds up to rounding only.
    """
    if plan.fingerprint != model.fingerprint:
        raise CertificateError("the plan was made for another model")
    above, dynamics = dynamics_of(plan, model)
    check_metadata(plan, model, dynamics)
    check_certificate(plan, dynamics)
    if not 0.0 <= plan.lower_cost <= plan.upper_cost <= 1.0:
        claim = f"[{plan.lower_cost!r}, {plan.upper_cost!r}]"
        raise CertificateError(f"the plan claims {claim}, which is no interval of scaled costs")
    if exact:
        return _exact(plan, model, above)
    least, most = proved_lower(plan.grid, above), proved_upper(plan, dynamics)
    lower, upper = max(0.0, least), min(1.0, most)
    if lower > upper:
        raise CertificateError(f"the certificates contradict each other: {lower!r} > {upper!r}")
    # Half of what is taken for rounding is enough for a proof. It is added before the bounds are cut off at 0
    # and 1: where values are so large that rounding could be any error, half of it must not excuse a claim.
    if not plan.lower_cost <= max(0.0, least + 0.5 * plan.grid.rounding(above)):
        raise CertificateError(f"the plan claims {plan.lower_cost!r} from below and proves {lower!r}")
    if not plan.upper_cost >= min(1.0, most - 0.5 * dynamics.rounding(plan.controller.vectors)):
        raise CertificateError(f"the plan claims {plan.upper_cost!r} from above and proves {upper!r}")
    low, high = sorted(plan.value_units.from_scaled([lower, upper]).tolist())
    return low, high


def _exact(plan: Plan, model: POMDP, dynamics: BeliefDynamics) -> tuple[Fraction, Fraction]:
    """Return the bounds that are proved in exact arithmetic.

    A claim may be beyond them by what doubles may be wrong. What is returned is proved.
    """
    proof = proof_of(plan, model)
    lower, upper = exact_costs(proof)
    step = Fraction(1) if proof.discount is None else 1 - proof.discount  # claims are averages over steps
    if plan.lower_cost > step * lower + Fraction(plan.grid.rounding(dynamics)):
        raise CertificateError(
            f"the plan claims {plan.lower_cost!r} from below and proves {float(step * lower)!r}"
        )
    if plan.upper_cost < step * upper - Fraction(dynamics.rounding(plan.controller.vectors)):
        raise CertificateError(
            f"the plan claims {plan.upper_cost!r} from above and proves {float(step * upper)!r}"
        )
    return in_units(proof, lower, upper)


def dynamics_of(plan: Plan, model: POMDP) -> tuple[BeliefDynamics, BeliefDynamics]:
    """Return the dynamics that the lower and the upper bound of a plan are about.

    They are the same for finite observations. For a density, the two finite sensors of the plan are checked
    first. Raises `CertificateError`.
    """
    if plan.estimate is not None:
        raise CertificateError("the bounds of this plan are estimates, which nothing certifies")
    if plan.bracket is None:
        if not model.setting.is_finite:
            raise CertificateError("the plan is for finite observations, and the model has none")
        dynamics = dynamics_for(plan.grid, model, plan.discount)
        return dynamics, dynamics
    if model.setting.is_finite:
        raise CertificateError("the plan is for a density, and the model has finite observations")
    slack = checked_slack(plan.bracket, model)
    above = POMDP(plan.bracket.dilated_setting, model.transition)
    below = POMDP(plan.bracket.quantized_setting, model.transition)
    if isinstance(plan.grid, InformedCertificate):
        exact = SparseDynamics.of(below, discount=plan.discount)
        return SparseDynamics.of(above, discount=plan.discount), exact.with_slack(slack)
    return Dynamics.of(above, discount=plan.discount), Dynamics.of(below, slack, plan.discount)


@singledispatch
def dynamics_for(certificate: object, model: POMDP, discount: float) -> BeliefDynamics:
    """Return the dynamics that a certificate of the lower bound is about: dense or sparse."""
    raise CertificateError(f"a {type(certificate).__name__} proves no lower bound")


@dynamics_for.register
def _(certificate: LowerCertificate, model: POMDP, discount: float) -> BeliefDynamics:
    return Dynamics.of(model, discount=discount)


@dynamics_for.register
def _(certificate: InformedCertificate, model: POMDP, discount: float) -> BeliefDynamics:
    return SparseDynamics.of(model, discount=discount)


def check_metadata(plan: Plan, model: POMDP, dynamics: BeliefDynamics) -> None:
    """Check the fields of a plan that prove nothing, but say how to play its policy.

    Raises `CertificateError` where one is not that of the model.
    """
    expected: dict[str, tuple[object, object]] = {
        "n_states": (plan.n_states, model.n_states),
        "states": (plan.states, dynamics.states),
        "actions": (plan.actions, model.setting.actions),
        "units": (plan.units, model.setting.units),
        "discount": (0.0 < plan.discount <= 1.0, True),
        "gains": (plan.is_discounted and plan.depends_on_start, False),
        "start": (plan.controller.start in range(len(plan.controller)), True),
    }
    for name, (found, right) in expected.items():
        if found != right:
            raise CertificateError(f"the plan's {name} are not those of the model")


def check_certificate(plan: Plan, dynamics: BeliefDynamics) -> None:
    """Check that the arrays of a plan make certificates for these dynamics, whatever they may prove.

    Raises `CertificateError`.
    """
    check_arrays(plan, dynamics.n_actions, dynamics.n_observations, dynamics.n_states)


def proved_upper(plan: Plan, dynamics: BeliefDynamics) -> float:
    """Return the upper bound that a controller proves.

    This is the maximum over nodes and states of C(s, a_n) + Σ M[a_n, o](s, s′) α_{σ(n, o)}(s′) − α_n(s). With
    gains, it is Σ b(s) g_n(s) for the best node at the start, and what that expression exceeds g_n(s) by.
    Raises `CertificateError` where the gains are not proved, because `Plan.bounds` returns them.
    """
    controller = plan.controller
    vectors = controller.vectors - controller.vectors[0, 0]  # adding a constant changes nothing but digits
    excess = dynamics.cost[controller.actions] - vectors + _expected_next(controller, dynamics, vectors)
    if dynamics.discount < 1.0:
        rounding, subtracted = dynamics.rounding(vectors), float(controller.vectors[0, 0])
        most = float(excess.max()) + rounding
        check_totals("nodes", most, -subtracted, rounding, dynamics.discount)
        return most + upper_at_starts(vectors, dynamics)
    if controller.gains is None:
        return float(excess.max()) + dynamics.rounding(vectors)
    _check_gains_fall(controller, dynamics)
    rounding = dynamics.rounding(vectors)
    above = max(0.0, float((excess - controller.gains).max()) + rounding)
    _check_gains_claim("nodes", above, rounding)
    at_start = (dynamics.starts @ controller.gains.T).min(axis=1)
    return float(dynamics.start_weights @ at_start) + above + dynamics.slack * float(np.ptp(controller.gains))


def _expected_next(controller: Controller, dynamics: BeliefDynamics, values: Array) -> Array:
    """Return Σ M[a_n, o](s, s′) value_{σ(n, o)}(s′), [N, S]."""
    total = np.zeros_like(values)
    for a in np.unique(controller.actions):
        here = np.flatnonzero(controller.actions == a)
        for o in range(dynamics.n_observations):
            total[here] += (dynamics.joint_matrix(a, o) @ values[controller.successors[here, o]].T).T
    return total


def _check_gains_fall(controller: Controller, dynamics: BeliefDynamics) -> None:
    """Check that g ≥ P g at every node and state: by comparison with all that follows, or with a margin."""
    gains = controller.gains
    assert gains is not None
    max_of_lower_envelope = np.full(gains.shape, -np.inf)
    for a in np.unique(controller.actions):
        here = np.flatnonzero(controller.actions == a)
        for o in range(dynamics.n_observations):
            joint_matrix = dynamics.joint_matrix(a, o)
            after = gains[controller.successors[here, o]]
            rows = np.flatnonzero(np.diff(joint_matrix.indptr))
            if len(rows):
                most = np.maximum.reduceat(after[:, joint_matrix.indices], joint_matrix.indptr[rows], axis=1)
                max_of_lower_envelope[np.ix_(here, rows)] = np.maximum(
                    max_of_lower_envelope[np.ix_(here, rows)], most
                )
    above = gains - gains.min()
    falls = above - _expected_next(controller, dynamics, above) >= _margin(dynamics, gains)
    if not ((max_of_lower_envelope <= gains) | falls).all():
        node, state = np.argwhere((max_of_lower_envelope > gains) & ~falls)[0]
        raise CertificateError(f"the gain of node {node} and state {state} is below what follows it")


@singledispatch
def proved_lower(certificate: object, dynamics: BeliefDynamics) -> float:
    """Return the lower bound that a certificate proves.

    Raises `CertificateError` where its gains are not proved.
    """
    raise CertificateError(f"a {type(certificate).__name__} proves no lower bound")


@proved_lower.register
def _(informed: InformedCertificate, dynamics: BeliefDynamics) -> float:
    """Return the minimum over places and actions of c(g, a) + Σ_o min_a′ Q̃(g M[a, o], a′) − q(g, a).

    With gains, it is the gain of the start, less what that expression falls below g·gains by.
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
            mass = csr_array(places @ dynamics.joint_matrix(a, o))
            inner = mass @ vectors
            used = row == a * dynamics.n_observations + o
            if used.any():
                where = informed.uses[used, 1], informed.uses[used, 3]
                shares = csr_array((informed.shares[used], where), shape=(len(q), len(excess)))
                # Points that exceed a row prove nothing, and the states alone make up that row.
                over = (csr_array(shares @ points) - mass).max(axis=1).toarray().ravel() > 0.0
                inner += np.where(over[:, None], 0.0, shares @ excess)
            right += inner.min(axis=1)
        lowest = min(lowest, float(right.min()))
    rounding = informed.rounding(dynamics)
    lowest -= rounding
    if dynamics.discount < 1.0:
        check_totals("places", -lowest, float(informed.values[0, 0]), rounding, dynamics.discount)
        return lowest + lower_at_starts(points, q, dynamics)
    if informed.gains is None:
        return lowest
    _check_gains_claim("states", -lowest, rounding)
    return float(dynamics.start @ gains) + min(0.0, lowest)


def _check_state_gains_rise(gains: Array, dynamics: BeliefDynamics) -> None:
    """Check that g ≤ θ_a g for every action: by comparison with all that follows, or with a margin."""
    for a in range(dynamics.n_actions):
        joint_matrix = csr_array(sum(dynamics.joint_matrix(a, o) for o in range(dynamics.n_observations)))
        least = np.minimum.reduceat(gains[joint_matrix.indices], joint_matrix.indptr[:-1])  # no row is empty
        above = gains - gains.min()
        rises = joint_matrix @ above - above >= _margin(dynamics, gains)
        if not ((least >= gains) | rises).all():
            state = int(np.flatnonzero((least < gains) & ~rises)[0])
            raise CertificateError(f"the gain of state {state} is above what follows action {a}")


@proved_lower.register
def _(grid: LowerCertificate, dynamics: Dynamics) -> float:
    """Return the minimum over points and actions of c(g, a) + Σ_o P(o | g, a) h̃(τ(g, a, o)) − h.

    With gains, it is the gain of the start, less what that expression falls below g_i by.
    """
    points, h = grid.points, grid.values - grid.values[0]
    gains = np.zeros(len(h)) if grid.gains is None else grid.gains
    above = gains - gains.min()
    lowest = np.inf
    for a in range(dynamics.n_actions):
        value, gain, least = points @ dynamics.cost[a], np.zeros(len(h)), np.full(len(h), np.inf)
        for o in range(dynamics.n_observations):
            after = points @ dynamics.joint[a, o]  # P(o | g, a) τ(g, a, o)
            probability = after.sum(axis=1)
            possible = probability > 1e-300
            tau = after[possible] / probability[possible, None]
            basis = grid.basis[possible, a, o]
            trimmed, rest = repaired_weights(points, tau, basis, grid.weights[possible, a, o])
            value[possible] += probability[possible] * interpolated_mean(trimmed, h[basis], rest, h)
            if grid.gains is not None:
                mean = interpolated_mean(trimmed, above[basis], rest, above)
                gain[possible] += probability[possible] * mean
                swept, worst = _least_gain(points, gains, tau, basis, trimmed, rest)
                least[possible] = np.minimum(least[possible], swept)
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
    if dynamics.discount < 1.0:
        check_totals("points", -lowest, float(grid.values[0]), rounding, dynamics.discount)
        inner = csr_array(points[dynamics.n_states :])
        return lowest + lower_at_starts(inner, h[:, None], dynamics)
    if grid.gains is None:
        return lowest
    _check_gains_claim("points", -lowest, rounding)
    return _gain_of_start(points, gains, dynamics) + min(0.0, lowest)


def _check_gains_claim(whose: str, error: float, rounding: float) -> None:
    """Raise `CertificateError` for gains that are wrong by more than rounding explains."""
    if not error <= 0.5 * rounding:
        raise CertificateError(f"the plan claims gains of {whose} that are {error:g} better than proved")


def _margin(dynamics: BeliefDynamics, gains: Array) -> float:
    """Return the largest rounding error of a mean of gains from which the least gain was subtracted.

    For a mean of the gains themselves it would be too small where they differ by little.
    """
    terms = dynamics.n_states * dynamics.n_observations + dynamics.n_states + 10
    return float(np.ptp(gains)) * (terms * sys.float_info.epsilon + dynamics.slack)


def interpolated_mean(trimmed: Array, at_basis: Array, rest: Array, values: Array) -> Array:
    """Return Σ γ h over the basis and the vertices, or -inf where a weight of a vertex is negative."""
    total = (trimmed * at_basis).sum(axis=1) + np.maximum(rest, 0.0) @ values[: rest.shape[1]]
    return np.where((rest < -1e-15).any(axis=1), -np.inf, total)


def _least_gain(
    points: Array, gains: Array, tau: Array, basis: npt.NDArray[np.int32], trimmed: Array, rest: Array
) -> tuple[Array, float]:
    """Return the least gain among the points that make up each belief, and the largest error of the beliefs.

    Weights that are rounding errors do not count, because beliefs have rounding errors themselves. But a
    state that is possible, however unlikely, counts: where no point has it, its vertex does.
    """
    on_points = np.where(trimmed > ROUNDING_WEIGHT, trimmed, 0.0)
    covered = ((on_points[:, :, None] > 0.0) & (points[basis] > 0.0)).any(axis=1)
    on_vertices = np.where((rest > ROUNDING_WEIGHT) | ((tau > 0.0) & ~covered), np.maximum(rest, 1e-300), 0.0)
    combination = np.einsum("mk,mks->ms", on_points, points[basis]) + on_vertices
    least = np.minimum(
        np.where(on_points > 0.0, gains[basis], np.inf).min(axis=1),
        np.where(on_vertices > 0.0, gains[: tau.shape[1]], np.inf).min(axis=1),
    )
    return least, float(np.abs(combination - tau).sum(axis=1).max(initial=0.0))


def _gain_of_start(points: Array, gains: Array, dynamics: Dynamics) -> float:
    """Return the expectation over first observations of the gain of the point at the belief after it."""
    total = 0.0
    for weight, start in zip(dynamics.start_weights, dynamics.starts, strict=True):
        distance = np.abs(points - start).sum(axis=1)
        nearest = int(distance.argmin())
        if distance[nearest] > INEXACT:
            raise CertificateError("the start is not among the points of the grid")
        total += float(weight * gains[nearest])
    return total


def repaired_weights(
    points: Array, tau: Array, basis: npt.NDArray[np.int32], weights: Array
) -> tuple[Array, Array]:
    """Return weights γ trimmed until Σ γ g ≤ τ in every coordinate, and the rest of τ, for the vertices."""
    trimmed = np.where(weights > 0.0, weights, 0.0)
    columns = points[basis]  # [m, K, S]
    combination = np.einsum("mk,mks->ms", trimmed, columns)
    rows = np.arange(len(tau))
    n_states = tau.shape[1]
    for s in range(n_states):
        for _ in range(n_states):
            excess = combination[:, s] - tau[:, s]
            if (excess <= 0.0).all():
                break
            share = np.where(trimmed > 0.0, columns[:, :, s], 0.0)
            most = share.argmax(axis=1)
            largest = share[rows, most]
            wanted = np.where(excess > 0.0, excess / np.maximum(largest, 1e-300) * (1 + 1e-12) + 1e-300, 0.0)
            cut = np.where(largest > 0.0, np.minimum(wanted, trimmed[rows, most]), 0.0)
            trimmed[rows, most] -= cut
            combination -= cut[:, None] * columns[rows, most]
    # Computed again: after subtracting from large weights, only rounding errors would be left.
    return trimmed, tau - np.einsum("mk,mks->ms", trimmed, columns)
