"""`verify(plan, model)`: both bounds recomputed from the certificate alone.

In plain numpy, and without a line of the code that made the plan: the inequalities of `upper` and `lower`
are checked one by one, with interpolation weights repaired here. Whatever the certificate holds, what is
returned are bounds that it proves; a tampered one proves less, or is refused where its numbers make no sense.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Array
from ..errors import PSRLError
from ..model import POMDP
from .dynamics import Dynamics
from .planner import Plan


class CertificateError(PSRLError, ValueError):
    """A certificate that proves nothing about this model, or less than the plan claims."""


def verify(plan: Plan, model: POMDP) -> tuple[float, float]:
    """The interval that the plan's certificates prove for `model`, in the user's numbers.

    Raises `CertificateError` where the plan is for another model, its numbers make no sense, or it claims
    more than they prove.
    """
    if plan.fingerprint != model.fingerprint:
        raise CertificateError("the plan was made for another model")
    dynamics = Dynamics.of(model)
    _check_words(plan, model, dynamics)
    check_certificate(plan, dynamics)
    lower = max(0.0, proved_lower(plan, dynamics))
    upper = min(1.0, proved_upper(plan, dynamics))
    if lower > upper:
        raise CertificateError(f"the certificates contradict each other: {lower!r} > {upper!r}")
    if plan.lower_cost > lower + 0.5 * dynamics.rounding(plan.grid.values):
        raise CertificateError(f"the plan claims {plan.lower_cost!r} from below and proves {lower!r}")
    if plan.upper_cost < upper - 0.5 * dynamics.rounding(plan.controller.vectors):
        raise CertificateError(f"the plan claims {plan.upper_cost!r} from above and proves {upper!r}")
    low, high = sorted(model.setting.units.from_scaled([lower, upper]).tolist())
    return low, high


def _check_words(plan: Plan, model: POMDP, dynamics: Dynamics) -> None:
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


def check_certificate(plan: Plan, dynamics: Dynamics) -> None:
    """Refuses arrays that make no certificate for these dynamics, whatever they may prove."""
    n, nodes = plan.grid.values.size, plan.controller.actions.size
    n_actions, n_readings, n_states = dynamics.n_actions, dynamics.n_observations, dynamics.n_states
    wanted: dict[str, tuple[npt.NDArray[Any], tuple[int, ...]]] = {
        "points": (plan.grid.points, (n, n_states)),
        "values": (plan.grid.values, (n,)),
        "basis": (plan.grid.basis, (n, n_actions, n_readings, n_states)),
        "weights": (plan.grid.weights, (n, n_actions, n_readings, n_states)),
        "vectors": (plan.controller.vectors, (nodes, n_states)),
        "successors": (plan.controller.successors, (nodes, n_readings)),
        "actions": (plan.controller.actions, (nodes,)),
        "parents": (plan.grid.parents, (n, 3)),
    }
    for name, (array, shape) in wanted.items():
        if array.shape != shape or array.dtype.kind not in "if":
            raise CertificateError(f"{name} is {array.dtype} of shape {array.shape}, not {shape}")
        if not np.isfinite(array).all():
            raise CertificateError(f"{name} holds a number that is not finite")
    for name, array, count in (
        ("actions", plan.controller.actions, n_actions),
        ("successors", plan.controller.successors, nodes),
        ("basis", plan.grid.basis, n),
    ):
        if array.dtype.kind != "i" or array.size == 0 or array.min() < 0 or array.max() >= count:
            raise CertificateError(f"{name} points outside of its {count}")
    if (plan.grid.parents < -1).any() or (plan.grid.parents >= [n, n_actions, n_readings]).any():
        raise CertificateError("parents point outside of the grid")
    points = plan.grid.points
    if n < n_states or (points[:n_states] != np.eye(n_states)).any():
        raise CertificateError("the grid does not begin with the vertices")
    if (points < 0).any() or np.abs(points.sum(axis=1) - 1.0).max() > 1e-12:
        raise CertificateError("a point of the grid is no belief")


def proved_upper(plan: Plan, dynamics: Dynamics) -> float:
    """max over nodes and states of C(s, a_n) + Σ M[a_n, o](s, s′) α_{σ(n, o)}(s′) − α_n(s)."""
    controller = plan.controller
    vectors = controller.vectors - controller.vectors[0, 0]  # a constant proves nothing and costs digits
    value = dynamics.cost[controller.actions]
    for o in range(dynamics.n_observations):
        onward = dynamics.joint[controller.actions, o]  # [N, S, S']
        value = value + np.einsum("nst,nt->ns", onward, vectors[controller.successors[:, o]])
    return float((value - vectors).max()) + dynamics.rounding(vectors)


def proved_lower(plan: Plan, dynamics: Dynamics) -> float:
    """min over points and actions of c(g, a) + Σ_o P(o | g, a) h̃(τ(g, a, o)) − h."""
    points, h = plan.grid.points, plan.grid.values - plan.grid.values[0]
    lowest = np.inf
    for a in range(dynamics.n_actions):
        value = points @ dynamics.cost[a]
        for o in range(dynamics.n_observations):
            after = points @ dynamics.joint[a, o]  # P(o | g, a) τ(g, a, o)
            chance = after.sum(axis=1)
            comes = chance > 1e-300
            tau = after[comes] / chance[comes, None]
            basis, weights = plan.grid.basis[comes, a, o], plan.grid.weights[comes, a, o]
            value[comes] += chance[comes] * _repaired(points, h, tau, basis, weights)
        if np.isnan(value).any():
            raise CertificateError("the certificate makes no numbers")
        lowest = min(lowest, float((value - h).min()))
    return lowest - dynamics.rounding(h)


def _repaired(points: Array, h: Array, tau: Array, basis: npt.NDArray[np.int32], weights: Array) -> Array:
    """Σ γ h for weights trimmed until Σ γ g ≤ τ in every coordinate, with the rest on the vertices."""
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
    rest = tau - made
    value = (kept * h[basis]).sum(axis=1) + np.maximum(rest, 0.0) @ h[:n_states]
    return np.where((rest < -1e-15).any(axis=1), -np.inf, value)
