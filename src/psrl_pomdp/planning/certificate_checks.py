"""Check that the arrays of a plan have the shapes and ranges of a certificate, whatever they may prove."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import PSRLError
from .lower.certificate import LowerCertificate
from .lower.informed import InformedCertificate
from .plan_record import PlanRecord

Expected = dict[str, tuple[npt.NDArray[Any], tuple[int, ...]]]  # arrays by name, with their shapes


class CertificateError(PSRLError, ValueError):
    """Raised for a certificate that proves nothing about a model, or less than the plan claims."""


def check_arrays(plan: PlanRecord, n_actions: int, n_observations: int, n_states: int) -> None:
    """Check that the arrays of a plan make a certificate for models of these sizes.

    `n_states` counts the states that the start can reach, and `n_observations` the observations of the
    controller; a plan for a density has others for its lower bound. Raises `CertificateError`.
    """
    nodes = plan.controller.actions.size
    expected: Expected = {
        "vectors": (plan.controller.vectors, (nodes, n_states)),
        "successors": (plan.controller.successors, (nodes, n_observations)),
        "actions": (plan.controller.actions, (nodes,)),
    }
    if plan.controller.gains is not None:
        expected["gains of nodes"] = plan.controller.gains, (nodes, n_states)
    _check_shapes(expected)
    _check_numbers("actions", plan.controller.actions, n_actions)
    _check_numbers("successors", plan.controller.successors, nodes)
    if plan.bracket is not None:
        n_observations = plan.bracket.dilated_setting.n_joint_observations
    check_lower_arrays(plan.grid, n_actions, n_observations, n_states)


def _check_shapes(expected: Expected) -> None:
    """Check that every array has its shape and holds finite numbers."""
    for name, (array, shape) in expected.items():
        if array.shape != shape or array.dtype.kind not in "if":
            raise CertificateError(f"{name} is {array.dtype} of shape {array.shape}, not {shape}")
        if not np.isfinite(array).all():
            raise CertificateError(f"{name} holds a number that is not finite")


def _check_numbers(name: str, array: npt.NDArray[Any], count: int) -> None:
    """Check that an array holds numbers from 0 to count - 1."""
    if array.dtype.kind != "i" or array.size == 0 or array.min() < 0 or array.max() >= count:
        raise CertificateError(f"{name} points outside of its {count}")


@singledispatch
def check_lower_arrays(certificate: object, n_actions: int, n_observations: int, n_states: int) -> None:
    """Check that arrays make a certificate of a lower bound for models of these sizes.

    Raises `CertificateError`.
    """
    raise CertificateError(f"a {type(certificate).__name__} proves no lower bound")


@check_lower_arrays.register
def _(grid: LowerCertificate, n_actions: int, n_observations: int, n_states: int) -> None:
    n = grid.values.size
    expected: Expected = {
        "points": (grid.points, (n, n_states)),
        "values": (grid.values, (n,)),
        "basis": (grid.basis, (n, n_actions, n_observations, n_states)),
        "weights": (grid.weights, (n, n_actions, n_observations, n_states)),
        "parents": (grid.parents, (n, 3)),
    }
    if grid.gains is not None:
        expected["gains"] = grid.gains, (n,)
    _check_shapes(expected)
    _check_numbers("basis", grid.basis, n)
    if (grid.parents < -1).any() or (grid.parents >= [n, n_actions, n_observations]).any():
        raise CertificateError("parents point outside of the grid")
    points = grid.points
    if n < n_states or (points[:n_states] != np.eye(n_states)).any():
        raise CertificateError("the grid does not begin with the vertices")
    if (points < 0).any() or np.abs(points.sum(axis=1) - 1.0).max() > 1e-12:
        raise CertificateError("a point of the grid is no belief")


@check_lower_arrays.register
def _(informed: InformedCertificate, n_actions: int, n_observations: int, n_states: int) -> None:
    points, uses = informed.points, informed.uses
    n = points.shape[0]
    expected: Expected = {
        "values": (informed.values, (n_states + n, n_actions)),
        "uses": (uses, (len(uses), 4)),
        "shares": (informed.shares, (len(uses),)),
        "coordinates": (points.data, (points.nnz,)),
    }
    if informed.gains is not None:
        expected["gains"] = informed.gains, (n_states,)
    _check_shapes(expected)
    if points.shape[1] != n_states:
        raise CertificateError(f"points are over {points.shape[1]} states, not {n_states}")
    if points.nnz:
        _check_numbers("states of points", points.indices, n_states)
    if len(uses) and (
        uses.dtype.kind != "i"
        or (uses < 0).any()
        or (uses >= [n_actions, n_states + n, n_observations, n]).any()
    ):
        raise CertificateError("uses point outside of the points")
    if (informed.shares < 0.0).any():
        raise CertificateError("a share is negative")
    if (points.data < 0.0).any() or np.abs(points.sum(axis=1) - 1.0).max(initial=0.0) > 1e-12:
        raise CertificateError("a point is no belief")
