"""Bases of the linear programs of `programs`: weights, duals, and the exchange of one point for another.

A basis is m points inside the face of a belief τ, whose states are `rows`: B x = τ has the weights x, and
y B = h the duals y. `inverse[r, k]` has states outer, as points do: it is the transpose of B⁻¹.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._numba.jit import fma, jit_noalloc
from ..._utils.arrays import Array, Bases, Index
from .lu import factorise, solve, solve_transposed

BAD, INFEASIBLE, GOOD = 0, 1, 2  # quality of a basis for a belief
TIE_TOLERANCE = 1e-13  # weights that differ by less are equal
_MIN_PIVOT = 1e-9


@jit_noalloc(inner=True, linked=True)
def copy_indices(source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], m: int) -> None:
    """Copy the first m entries of `source` to `target`."""
    for k in range(m):
        target[k] = source[k]


@jit_noalloc(inner=True, linked=True)
def _residual(
    columns: Array, basis: Bases, rows: Index, m: int, tau: Array, x: Array, residual: Array
) -> float:
    """Fill in `residual` = τ − B x, and return its largest absolute value."""
    for r in range(m):
        residual[r] = tau[rows[r]]
    for k in range(m):
        for r in range(m):
            residual[r] -= columns[basis[k], rows[r]] * x[k]
    worst = 0.0
    for r in range(m):
        worst = max(worst, abs(residual[r]))
    return worst


@jit_noalloc(inner=True)
def basis_weights(
    columns: Array,
    basis: Bases,
    rows: Index,
    m: int,
    tau: Array,
    table: Array,
    order: Index,
    x: Array,
    residual: Array,
    step: Array,
) -> int:
    """Fill in x = B⁻¹ τ, with one step of iterative refinement, and return the quality of the basis.

    `BAD` where it is singular or the weights are inexact, `INFEASIBLE` where a weight is negative, or `GOOD`.
    """
    if not factorise(columns, basis, rows, m, table, order, residual):
        return BAD
    for r in range(m):
        residual[r] = tau[rows[r]]
    solve(table, order, m, residual, x)
    if _residual(columns, basis, rows, m, tau, x, residual) > 1e-10:
        return BAD
    solve(table, order, m, residual, step)
    feasible = GOOD
    for k in range(m):
        x[k] += step[k]
        if x[k] < -1e-11:
            feasible = INFEASIBLE
    return feasible


@jit_noalloc(inner=True)
def vertex_basis(
    rows: Index, m: int, tau: Array, h: Array, basis: Bases, inverse: Array, x: Array, dual: Array
) -> None:
    """Fill in the basis of the vertices, with its weights, duals and inverse."""
    for k in range(m):
        basis[k] = rows[k]
        x[k] = tau[rows[k]]
        dual[k] = h[rows[k]]
        for r in range(m):
            inverse[r, k] = 0.0
        inverse[k, k] = 1.0


@jit_noalloc(inner=True, linked=True)
def ratio_test(x: Array, column: Array, m: int) -> tuple[int, float]:
    """Return the position that leaves the basis, or -1, and the step length.

    This is the ratio test of Harris (1973): of positions whose weight becomes zero within rounding, the one
    with the largest pivot leaves. Many weights of a basis are zero, and the smallest quotient alone would
    choose pivots that are rounding errors.
    """
    most, largest, leave = 1e300, 0.0, -1
    for k in range(m):
        if column[k] > _MIN_PIVOT:
            most = min(most, (max(x[k], 0.0) + TIE_TOLERANCE) / column[k])
    for k in range(m):
        if column[k] > max(_MIN_PIVOT, largest) and max(x[k], 0.0) <= most * column[k]:
            largest, leave = column[k], k
    return leave, max(x[leave], 0.0) / largest if leave >= 0 else 0.0


@jit_noalloc(inner=True, linked=True)
def multiply_inverse(inverse: Array, m: int, right: Array, out: Array) -> None:
    """Fill in `out` = B⁻¹ right."""
    for k in range(m):
        out[k] = 0.0
    for r in range(m):
        factor = right[r]
        if factor != 0.0:
            for k in range(m):
                out[k] = fma(factor, inverse[r, k], out[k])


@jit_noalloc(inner=True)
def pivot(
    columns: Array,
    h: Array,
    rows: Index,
    m: int,
    enter: int,
    inverse: Array,
    x: Array,
    basis: Bases,
    dual: Array,
    column: Array,
    entering: Array,
) -> bool:
    """Bring the point `enter` into the basis; return False if no point can leave it."""
    price = h[enter]
    for r in range(m):
        entering[r] = columns[enter, rows[r]]
        price -= dual[r] * entering[r]
    multiply_inverse(inverse, m, entering, column)
    leave, ratio = ratio_test(x, column, m)
    if leave < 0:
        return False
    exchange_column(m, enter, leave, ratio, price, inverse, x, basis, dual, column)
    return True


@jit_noalloc(inner=True, linked=True)
def exchange_column(
    m: int,
    enter: int,
    leave: int,
    ratio: float,
    price: float,
    inverse: Array,
    x: Array,
    basis: Bases,
    dual: Array,
    column: Array,
) -> None:
    """Put the point `enter` in place `leave` of the basis, where column = B⁻¹ g_enter."""
    scale = 1.0 / column[leave]
    for r in range(m):
        factor = inverse[r, leave] * scale
        if factor != 0.0:
            dual[r] += price * factor
            for k in range(m):
                inverse[r, k] = fma(-factor, column[k], inverse[r, k])
            inverse[r, leave] = factor
    for k in range(m):
        x[k] -= ratio * column[k]
    x[leave] = ratio
    basis[leave] = enter


@jit_noalloc(inner=True, linked=True)
def most_negative_weight(x: Array, m: int) -> int:
    """Return the position that leaves the basis in the dual simplex, or -1 if no weight is negative."""
    leave = -1
    for k in range(m):
        if x[k] < (x[leave] if leave >= 0 else -TIE_TOLERANCE):
            leave = k
    return leave


@jit_noalloc(inner=True)
def refine_weights(
    columns: Array, rows: Index, m: int, tau: Array, inverse: Array, x: Array, basis: Bases, residual: Array
) -> bool:
    """Refine x in two steps; return whether it is exact and feasible within rounding."""
    worst = 0.0
    for _ in range(2):
        worst = _residual(columns, basis, rows, m, tau, x, residual)
        if worst < 1e-16:
            break
        for r in range(m):
            for k in range(m):
                x[k] += inverse[r, k] * residual[r]
    least = 0.0
    for k in range(m):
        least = min(least, x[k])
    return worst <= 1e-11 and least >= -1e-11


@jit_noalloc(inner=True)
def basis_duals(
    h: Array, basis: Bases, m: int, table: Array, order: Index, dual: Array, line: Array, step: Array
) -> None:
    """Fill in the duals y of a factorized basis: y B = h."""
    for k in range(m):
        step[k] = h[basis[k]]
    solve_transposed(table, order, m, step, dual, line)
