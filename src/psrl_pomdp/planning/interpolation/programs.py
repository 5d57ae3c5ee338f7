"""Interpolation between beliefs: the best convex combination of grid points that is equal to a belief.

Points g_1..g_n of the simplex, its vertices first, and numbers h_1..h_n. For a belief τ,

    h̃(τ) = max { Σ γ_i h_i : Σ γ_i g_i = τ, γ ≥ 0 }

is a linear program with a row for each state. Every feasible γ gives a valid lower bound for a concave
function that is at least h at the points, so the program need not be solved to optimality. `repaired_value`
deals with rounding: weights are trimmed until Σ γ_i g_i ≤ τ holds in every coordinate, and the rest of τ is
put on the vertices. Only repaired values enter a certificate.

The algorithm is a primal simplex, from the vertices or from the last basis. It is restricted to the face of
τ: the states on which τ has mass above `face_tolerance`, and the points on these states alone. One full pass
over the points collects a short list, of the best in each bunch of them, and the next pivots come from the
list.

The last basis is mostly still optimal. It is factorized, which is enough to see that, and inverted only where
it is not. Most programs are solved again after the values h have changed, so that it rarely pays to solve one
to optimality at once. A basis that is optimal for a nearby belief has the right prices and some negative
weights. The dual simplex between the points of a short list makes it feasible in a few pivots.
"""

from __future__ import annotations

import numpy as np

from ..._numba.jit import jit_noalloc
from ..._utils.arrays import Array, Bases, Index
from .bases import (
    BAD,
    GOOD,
    INFEASIBLE,
    basis_duals,
    basis_weights,
    copy_indices,
    exchange_column,
    most_negative_weight,
    multiply_inverse,
    pivot,
    refine_weights,
    vertex_basis,
)
from .lu import invert
from .pricing import (
    BEST,
    LENGTH,
    LIST,
    PASSES,
    WORK,
    SimplexWorkspace,
    choose_entering,
    dual_ratio_test,
    fill_short_list,
    gather_columns,
    price_all_points,
)

FACE_TOLERANCE = 1e-10  # coordinates of τ below this are always interpolated by the vertices alone
UNLIMITED_EFFORT = np.inf  # solve the program to optimality
_EXCLUDED = -1e300  # value of points that are not on the face
_PIVOTS_BETWEEN_INVERSES, _PIVOTS_AFTER_FAILURE = 30, 3  # the second after rounding has ruined an inverse
_MAX_PIVOTS = 400
_MAX_DUAL_PIVOTS = 4  # times m
_MIN_DUAL_PIVOT, _MAX_DUAL_STEP = 1e-8, 1e3  # smaller pivots and larger weights would ruin a basis


@jit_noalloc(inner=True)
def _values_on_face(
    points: Array, h: Array, n: int, n_states: int, rows: Index, m: int, worth: Array
) -> None:
    """Fill in `worth`: h for the points on the face of τ, and `_EXCLUDED` for the others."""
    for i in range(n):
        worth[i] = 0.0
    k = 0
    for s in range(n_states):
        if k < m and rows[k] == s:
            k += 1
        else:
            row = points[s]
            for i in range(n):
                worth[i] += row[i]
    for i in range(n):
        worth[i] = h[i] if worth[i] == 0.0 else _EXCLUDED


@jit_noalloc(inner=True, linked=True)
def _lies_on_face(column: Array, rows: Index, m: int) -> bool:
    """Return whether a point has no mass outside the states of the face."""
    outside, k = 0.0, 0
    for s in range(len(column)):
        if k < m and rows[k] == s:
            k += 1
        else:
            outside += column[s]
    return outside == 0.0


@jit_noalloc(inner=True)
def _keep_listed_on_face(columns: Array, rows: Index, m: int, short_list: Index) -> int:
    """Remove the points that are not on the face from the short list, and return how many are left."""
    length = 0
    for q in range(short_list[LIST]):
        if _lies_on_face(columns[short_list[q]], rows, m):
            short_list[length] = short_list[q]
            length += 1
    return length


@jit_noalloc(inner=True)
def _move_face_points_first(columns: Array, rows: Index, m: int, basis: Bases) -> bool:
    """Move points on the face to the front of a basis, and return whether there are m of them."""
    count = 0
    for k in range(len(basis)):
        if count < m and _lies_on_face(columns[basis[k]], rows, m):
            basis[count], basis[k] = basis[k], basis[count]
            count += 1
    return count == m


@jit_noalloc(inner=True)
def _dual_simplex(
    h: Array, rows: Index, m: int, basis: Bases, state: Array, workspace: SimplexWorkspace
) -> int:
    """Run the dual simplex between the listed points and the vertices until the basis is feasible.

    Returns the number of pivots, or -1 where that fails.
    """
    columns, inverse, lines = workspace.columns, workspace.inverse, workspace.lines
    x, dual, column, line = lines[0], lines[1], lines[2], lines[3]
    length = int(state[LENGTH])
    for done in range(_MAX_DUAL_PIVOTS * m):
        leave = most_negative_weight(x, m)
        if leave < 0:
            return done
        for r in range(m):
            line[r] = inverse[r, leave]
        enter, price = dual_ratio_test(rows, m, h, dual, line, length, workspace)
        if enter < 0:
            break
        for r in range(m):
            line[r] = columns[enter, rows[r]]
        multiply_inverse(inverse, m, line, column)
        if column[leave] > -_MIN_DUAL_PIVOT or x[leave] < _MAX_DUAL_STEP * column[leave]:
            break
        exchange_column(m, enter, leave, x[leave] / column[leave], price, inverse, x, basis, dual, column)
        state[WORK] += m * (m + 2 * length)
    return -1


@jit_noalloc(inner=True)
def _primal_simplex(
    points: Array,
    h: Array,
    worth: Array,
    n: int,
    tau: Array,
    basis: Bases,
    rows: Index,
    m: int,
    quality: int,
    every: int,
    state: Array,
    workspace: SimplexWorkspace,
) -> bool:
    """Run the primal simplex, with a fresh inverse after every `every` pivots.

    It begins with the present basis where that is `GOOD`, or `INFEASIBLE` and made feasible, and else with
    the vertices. Returns False where rounding has ruined the basis; it is then the last good one.
    """
    columns, table, inverse = workspace.columns, workspace.table, workspace.inverse
    lines, numbers = workspace.lines, workspace.numbers
    x, dual, line, step = lines[0], lines[1], lines[2], lines[3]
    order, last = numbers[0], numbers[3]
    inverted, since = quality != GOOD, 0
    if quality != BAD:
        basis_duals(h, basis, m, table, order, dual, line, step)
    if quality == INFEASIBLE:
        if state[LENGTH] == 0.0 and n > 0:
            price_all_points(points, worth, n, rows, m, dual, state, workspace)
            fill_short_list(worth, n, rows, m, 0.5 * _EXCLUDED, state, workspace)
        invert(table, order, m, inverse, line)
        since = _dual_simplex(h, rows, m, basis, state, workspace)
    if quality == BAD or since < 0:
        since = 0
        vertex_basis(rows, m, tau, h, basis, inverse, x, dual)
    copy_indices(basis, last, m)
    for _ in range(_MAX_PIVOTS):
        enter = choose_entering(points, worth, n, rows, m, dual, state, workspace)
        if enter < 0:
            break
        if not inverted:
            invert(table, order, m, inverse, line)
            inverted = True
        if not pivot(columns, h, rows, m, enter, inverse, x, basis, dual, line, step):
            break
        state[WORK] += m * m
        since += 1
        if since % every == 0:
            if basis_weights(columns, basis, rows, m, tau, table, order, x, line, step) != GOOD:
                copy_indices(last, basis, m)
                return False
            copy_indices(basis, last, m)
            invert(table, order, m, inverse, line)
            basis_duals(h, basis, m, table, order, dual, line, step)
    if since == 0 or refine_weights(columns, rows, m, tau, inverse, x, basis, line):
        return True
    if basis_weights(columns, basis, rows, m, tau, table, order, x, line, step) == GOOD:
        return True
    copy_indices(last, basis, m)
    return False


@jit_noalloc(inner=True, linked=True)
def _face(tau: Array, rows: Index, whole: Index, face_tolerance: float) -> int:
    """Fill `rows` with the states on which τ has mass above the tolerance, and `whole` with all states.

    Returns the number of the former.
    """
    m = 0
    for s in range(len(tau)):
        whole[s] = s
        if tau[s] > face_tolerance:
            rows[m] = s
            m += 1
    return m


@jit_noalloc(inner=True)
def _vertex_weights(tau: Array, h: Array, rows: Index, m: int, basis: Bases, weights: Array) -> float:
    """Append the coordinates of τ outside the face as weights of vertices, and return their value.

    The largest come first: for a larger face these vertices complete the basis.
    """
    value, k, end = 0.0, 0, m
    for s in range(len(tau)):
        if k < m and rows[k] == s:
            k += 1
            continue
        weight = tau[s] if tau[s] > FACE_TOLERANCE else 0.0  # less is a rounding error, for the repair
        value += weight * h[s]
        place = end
        while place > m and weights[place - 1] < weight:
            basis[place], weights[place] = basis[place - 1], weights[place - 1]
            place -= 1
        basis[place], weights[place] = s, weight
        end += 1
    return value


@jit_noalloc()
def interpolate(
    points: Array,
    h: Array,
    n: int,
    tau: Array,
    basis: Bases,
    weights: Array,
    workspace: SimplexWorkspace,
    effort: float,
) -> tuple[float, float]:
    """Compute h̃(τ) for the first n points, and return it with the work.

    Fills in `basis` and `weights`. `points[s, i]` has states outer, and `workspace` is from `make_workspace`.
    The simplex begins with `basis`, or with the vertices where the first entry is -1. It tries the points of
    the workspace's short list first, and empties that list; with n = 0 it tries no others, and then `basis`
    has to begin with -1. From a basis, full pricing passes end when they have taken `effort` · m³ operations,
    but there is at least one.
    """
    # No argument of a call may be a literal: numba would compile this function again for each.
    n_states = len(tau)
    table, lines, numbers = workspace.table, workspace.lines, workspace.numbers
    x, line, step, order, rows = lines[0], lines[2], lines[3], numbers[0], numbers[1]
    columns, short_list = workspace.columns, workspace.short_list
    m = _face(tau, rows, numbers[2], workspace.face_tolerance)
    listed = short_list[LIST] > 0
    if m == 1:
        basis[0] = rows[0]
        weights[0] = tau[rows[0]]
        short_list[LIST] = 0
        return weights[0] * h[rows[0]] + _vertex_weights(tau, h, rows, m, basis, weights), 1.0
    full = m == n_states
    worth = h
    if not full:
        worth = workspace.worth
        _values_on_face(points, h, n, n_states, rows, m, worth)
    state = lines[4]
    state[LENGTH], state[BEST], state[WORK] = 0.0, 0.0, 0.0
    quality = BAD
    if basis[0] >= 0 and _move_face_points_first(columns, rows, m, basis):
        state[WORK] = m * m * m / 3
        quality = basis_weights(columns, basis, rows, m, tau, table, order, x, line, step)
    state[PASSES] = max(1.0, effort * m * m / max(1, n)) if quality == GOOD else UNLIMITED_EFFORT
    if listed and quality != GOOD:
        length = _keep_listed_on_face(columns, rows, m, short_list)
        gather_columns(columns, h, rows, m, short_list, length, workspace.listed)
        state[LENGTH] = length
    short_list[LIST] = 0
    sound, every = False, _PIVOTS_BETWEEN_INVERSES
    for _ in range(2):
        sound = _primal_simplex(points, h, worth, n, tau, basis, rows, m, quality, every, state, workspace)
        if sound:
            break
        # Once more: from the vertices, without the list, and to optimality.
        quality, every = BAD, _PIVOTS_AFTER_FAILURE
        state[LENGTH], state[PASSES] = 0.0, UNLIMITED_EFFORT
    if not sound and basis_weights(columns, basis, rows, m, tau, table, order, x, line, step) != GOOD:
        vertex_basis(rows, m, tau, h, basis, workspace.inverse, x, lines[1])
    value = 0.0
    for k in range(m):
        weights[k] = max(x[k], 0.0)
        value += weights[k] * h[basis[k]]
    value += _vertex_weights(tau, h, rows, m, basis, weights)
    return value, state[WORK] + m * m


@jit_noalloc(inner=True)
def _combination(points: Array, basis: Bases, weights: Array, combination: Array) -> None:
    """Fill in `combination` = Σ γ_i g_i."""
    for s in range(len(combination)):
        combination[s] = 0.0
    for k in range(len(combination)):
        if weights[k] > 0.0:
            for s in range(len(combination)):
                combination[s] += weights[k] * points[s, basis[k]]


@jit_noalloc()
def repaired_value(
    points: Array, h: Array, tau: Array, basis: Bases, weights: Array, combination: Array, trimmed: Array
) -> float:
    """Return Σ γ_i h_i with weights γ trimmed so that Σ γ_i g_i ≤ τ, and the rest of τ on the vertices.

    Where a coordinate of Σ γ_i g_i is too large, weight is taken from the point that has most of it. Fills in
    `combination` = Σ γ_i g_i and the weights `trimmed`. Returns -1e300 where the weights cannot be repaired.
    """
    n_states = len(tau)
    for k in range(n_states):
        trimmed[k] = weights[k]
    _combination(points, basis, trimmed, combination)
    changed = False
    for s in range(n_states):
        for _ in range(n_states):
            excess = combination[s] - tau[s]
            if excess <= 0.0:
                break
            most = -1
            for k in range(n_states):
                if trimmed[k] > 0.0 and (most < 0 or points[s, basis[k]] > points[s, basis[most]]):
                    most = k
            if most < 0 or points[s, basis[most]] <= 0.0:
                break
            share = points[s, basis[most]]
            cut = min(trimmed[most], excess / share * (1.0 + 1e-12) + 1e-300)
            trimmed[most] -= cut
            for t in range(n_states):
                combination[t] -= cut * points[t, basis[most]]
            changed = True
    if changed:  # again, because what is left after subtracting may be only a rounding error
        _combination(points, basis, trimmed, combination)
    value = 0.0
    for k in range(n_states):
        if trimmed[k] > 0.0:
            value += trimmed[k] * h[basis[k]]
    for s in range(n_states):
        rest = tau[s] - combination[s]
        if rest > 0.0:
            value += rest * h[s]
        elif not rest >= -1e-15:
            return -1e300  # not repaired, or no number: no bound can rest on this
    return value
