"""Interpolation between beliefs: the best convex combination of grid points that makes up a belief.

Points g_1..g_n of the simplex, its vertices first, and numbers h_1..h_n. For a belief τ,

    h̃(τ) = max { Σ γ_i h_i : Σ γ_i g_i = τ, γ ≥ 0 }

is a linear program with a row for each state. Every feasible γ gives a valid lower bound for a concave
function that lies above h at the points, so the program need not be solved to the end, and rounding is
dealt with by `repaired_value`: weights are trimmed until Σ γ_i g_i ≤ τ holds in every coordinate, and what
is missing is put on the vertices. Only repaired values enter a certificate.

A primal simplex from the vertices, or from the basis of the last time, restricted to the states of τ and
to the points inside that face; one full pass over the points collects a short list, and the next pivots
come from the list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FACE = 1e-10  # coordinates of τ below this are left to the vertices
_PIVOT = 1e-9
_PRICE = 1e-11
_LIST = 96  # columns that one full pricing collects
_REFACTOR = 30  # pivots between fresh inverses
_MOST_PIVOTS = 400


@njit(cache=True, nogil=True)
def _factorise(points, basis, rows, m, tau, table, inverse, x):
    """The basis inverse by Gauss-Jordan, and x = B⁻¹ τ; False where singular, infeasible or inexact."""
    for k in range(m):
        for r in range(m):
            table[r, k] = points[rows[r], basis[k]]
            table[r, m + k] = 0.0
    for k in range(m):
        table[k, m + k] = 1.0
    for c in range(m):
        pivot = c
        for r in range(c + 1, m):
            if abs(table[r, c]) > abs(table[pivot, c]):
                pivot = r
        if abs(table[pivot, c]) < 1e-12:
            return False
        if pivot != c:
            for q in range(2 * m):
                swap = table[c, q]
                table[c, q] = table[pivot, q]
                table[pivot, q] = swap
        scale = 1.0 / table[c, c]
        for q in range(c, 2 * m):
            table[c, q] *= scale
        for r in range(m):
            factor = table[r, c]
            if r != c and factor != 0.0:
                for q in range(c, 2 * m):
                    table[r, q] -= factor * table[c, q]
    for k in range(m):
        total = 0.0
        for r in range(m):
            inverse[k, r] = table[k, m + r]
            total += table[k, m + r] * tau[rows[r]]
        x[k] = total
        if total < -1e-11:
            return False
    for r in range(m):
        residual = tau[rows[r]]
        for k in range(m):
            residual -= points[rows[r], basis[k]] * max(x[k], 0.0)
        if abs(residual) > 1e-10:
            return False
    return True


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _reduced_costs(points, h, n, rows, m, dual, out):
    for i in range(n):
        out[i] = h[i]
    for r in range(m):
        factor = dual[r]
        row = points[rows[r]]
        for i in range(n):
            out[i] -= factor * row[i]


@njit(cache=True, nogil=True)
def _from_vertices(rows, m, tau, basis, inverse, x):
    for k in range(m):
        basis[k] = rows[k]
        x[k] = tau[rows[k]]
        for r in range(m):
            inverse[k, r] = 0.0
        inverse[k, k] = 1.0


@njit(cache=True, nogil=True)
def _bar_other_faces(points, n, n_states, rows, m, barred):
    """A huge penalty for points with mass outside the states of τ."""
    for i in range(n):
        barred[i] = 0.0
    k = 0
    for s in range(n_states):
        if k < m and rows[k] == s:
            k += 1
        else:
            row = points[s]
            for i in range(n):
                barred[i] += row[i]
    for i in range(n):
        barred[i] = 1e300 if barred[i] > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _entering(points, h, n, rows, m, dual, full, barred, reduced, short, state):
    """The column to enter, or -1; `state` holds the short list's length, its best price, and work done."""
    enter = -1
    if state[0] > 0:
        best = max(_PRICE, 0.1 * state[1])
        for q in range(int(state[0])):
            i = short[q]
            price = h[i]
            for r in range(m):
                price -= dual[r] * points[rows[r], i]
            if price > best:
                best = price
                enter = i
        if enter >= 0:
            return enter
    _reduced_costs(points, h, n, rows, m, dual, reduced)
    state[2] += n * m
    if not full:
        for i in range(n):
            reduced[i] -= barred[i]
    best = _PRICE
    for i in range(n):
        if reduced[i] > best:
            best = reduced[i]
            enter = i
    state[0] = 0
    if enter >= 0:
        state[1] = best
        short[0] = enter
        length = 1
        for i in range(n):
            if length < _LIST and reduced[i] > 0.25 * best and i != enter:
                short[length] = i
                length += 1
        state[0] = length
    return enter


@njit(cache=True, nogil=True)
def _pivot(points, rows, m, enter, inverse, x, basis, column):
    """Bring `enter` into the basis; False where no row limits it."""
    for k in range(m):
        total = 0.0
        for r in range(m):
            total += inverse[k, r] * points[rows[r], enter]
        column[k] = total
    ratio = 1e300
    leave = -1
    for k in range(m):
        if column[k] > _PIVOT:
            q = max(x[k], 0.0) / column[k]
            if q < ratio - 1e-15 or (q <= ratio and leave >= 0 and column[k] > column[leave]):
                ratio = q
                leave = k
    if leave < 0:
        return False
    scale = 1.0 / column[leave]
    for r in range(m):
        inverse[leave, r] *= scale
    for k in range(m):
        factor = column[k]
        if k != leave and factor != 0.0:
            x[k] -= ratio * factor
            for r in range(m):
                inverse[k, r] -= factor * inverse[leave, r]
    x[leave] = ratio
    basis[leave] = enter
    return True


@njit(cache=True, nogil=True)
def _polish(points, rows, m, tau, inverse, x, basis, column):
    """Two steps of iterative refinement of x; whether it is exact and feasible enough."""
    worst = 0.0
    for _ in range(2):
        worst = 0.0
        for r in range(m):
            residual = tau[rows[r]]
            for k in range(m):
                residual -= points[rows[r], basis[k]] * x[k]
            column[r] = residual
            worst = max(worst, abs(residual))
        if worst < 1e-16:
            break
        for k in range(m):
            for r in range(m):
                x[k] += inverse[k, r] * column[r]
    least = 0.0
    for k in range(m):
        least = min(least, x[k])
    return worst <= 1e-11 and least >= -1e-11


@njit(cache=True, nogil=True)
def interpolate(points, h, n, tau, basis, weights, warm, reduced, table, inverse, barred):
    """h̃(τ), with its basis and weights in place; returns the value and the work that it took.

    `points[s, i]` has states outer, so that pricing runs along points. The last four are scratch.
    """
    n_states = len(tau)
    rows = np.empty(n_states, np.int64)
    m = 0
    for s in range(n_states):
        if tau[s] > _FACE:
            rows[m] = s
            m += 1
    if m == 1:
        for k in range(n_states):
            basis[k] = rows[0]
            weights[k] = 0.0
        weights[0] = 1.0
        return h[rows[0]], 1.0
    full = m == n_states
    if not full:
        _bar_other_faces(points, n, n_states, rows, m, barred)
    x = np.empty(m)
    column = np.empty(m)
    dual = np.empty(m)
    short = np.empty(_LIST, np.int64)
    state = np.zeros(3)
    good = warm
    if warm and not full:
        for k in range(m):
            if barred[basis[k]] > 0.0:
                good = False
    if not (good and _factorise(points, basis, rows, m, tau, table, inverse, x)):
        _from_vertices(rows, m, tau, basis, inverse, x)
    last = basis.copy()
    since, sound = 0, True
    for _ in range(_MOST_PIVOTS):
        for r in range(m):
            dual[r] = 0.0
        for k in range(m):
            for r in range(m):
                dual[r] += h[basis[k]] * inverse[k, r]
        enter = _entering(points, h, n, rows, m, dual, full, barred, reduced, short, state)
        if enter < 0 or not _pivot(points, rows, m, enter, inverse, x, basis, column):
            break
        state[2] += m * m
        since += 1
        if since >= _REFACTOR:
            sound = _factorise(points, basis, rows, m, tau, table, inverse, x)
            if not sound:
                break
            last[:] = basis
            since = 0
    if sound and not _polish(points, rows, m, tau, inverse, x, basis, column):
        sound = _factorise(points, basis, rows, m, tau, table, inverse, x)
    if not sound:
        basis[:] = last
        if not _factorise(points, basis, rows, m, tau, table, inverse, x):
            _from_vertices(rows, m, tau, basis, inverse, x)
    value = 0.0
    for k in range(m):
        weights[k] = max(x[k], 0.0)
        value += weights[k] * h[basis[k]]
    for k in range(m, n_states):
        basis[k] = rows[0]
        weights[k] = 0.0
    return value, state[2] + m * m


@njit(cache=True, nogil=True)
def repaired_value(points, h, tau, basis, weights, made, kept):
    """Σ γ_i h_i with γ trimmed so that Σ γ_i g_i ≤ τ, and the rest of τ on the vertices.

    Where a coordinate of Σ γ_i g_i is too large, weight is taken from the column that has most of it.
    `made` and `kept` are scratch.
    """
    n_states = len(tau)
    for s in range(n_states):
        made[s] = 0.0
    for k in range(n_states):
        kept[k] = weights[k]
        if kept[k] > 0.0:
            for s in range(n_states):
                made[s] += kept[k] * points[s, basis[k]]
    for s in range(n_states):
        for _ in range(n_states):
            excess = made[s] - tau[s]
            if excess <= 0.0:
                break
            most = -1
            for k in range(n_states):
                if kept[k] > 0.0 and (most < 0 or points[s, basis[k]] > points[s, basis[most]]):
                    most = k
            if most < 0 or points[s, basis[most]] <= 0.0:
                break
            share = points[s, basis[most]]
            cut = min(kept[most], excess / share * (1.0 + 1e-12) + 1e-300)
            kept[most] -= cut
            for t in range(n_states):
                made[t] -= cut * points[t, basis[most]]
    value = 0.0
    for k in range(n_states):
        if kept[k] > 0.0:
            value += kept[k] * h[basis[k]]
    for s in range(n_states):
        rest = tau[s] - made[s]
        if rest > 0.0:
            value += rest * h[s]
        elif rest < -1e-15:
            return -1e300  # not repaired: no bound can rest on this
    return value
