"""Prices of points in the linear programs of `programs`, and the choice of the point that enters a basis.

The price (reduced cost) of a point g with value h is h − y·g, for the duals y of a basis: the gain of the
objective for each unit of the point's weight. Arrays of points have states outer, so that pricing runs along
points. A full pass over the points collects a short list, of the best in each bunch of them, and the next
pivots come from that list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._numba.fma import by_arrays
from ..._numba.jit import fma, jit, jit_noalloc
from ..._utils.arrays import Array, Index

LIST = 96  # points that one full pricing collects
LENGTH, BEST, WORK, PASSES = (
    0,
    1,
    2,
    3,
)  # entries of `state`: the list's length and best price; work; passes left
_MIN_PRICE = 1e-11  # smaller prices count as zero
_LISTED_SHARE = -0.3  # the least price for the list, as a share of the best: it may be positive soon
_EXHAUSTED_SHARE = 0.01  # a new list is made when its best price is below this share of what it was
_MIN_ARRAY = 48  # points from which array operations are quicker than a loop in Python
_MIN_SLOPE = 1e-7  # the least by which a unit of an entering point raises a negative weight


class SimplexWorkspace(NamedTuple):
    """Scratch arrays of `interpolate`."""

    columns: Array  # [n, S]: the points, with states inner
    reduced: Array  # [n]: prices of the points
    worth: Array  # [n]: h of points on the face, and a very low value for the others
    table: Array  # [S, S]: the factors of the basis
    inverse: Array  # [S, S]: its inverse, transposed
    short_list: Index  # [LIST + 1]: points to try first, and their number in the last place
    listed: Array  # [S + 2, LIST]: their columns, h and prices
    slopes: Array  # [LIST]: how much a unit of each changes the weight that leaves
    zeros: Array  # [LIST]: zeros in place of h, for pricing slopes
    lines: Array  # [5, max(S, 4)]: weights, duals, two scratch lines, and the state of the pricing
    numbers: Index  # [4, S]: row exchanges, the states of the face of τ, all states, the last good basis
    face_tolerance: float  # coordinates of τ below this are interpolated by the vertices alone


@jit(inner=True)
def make_workspace(points: Array, n: int, face_tolerance: float) -> SimplexWorkspace:
    """Return a workspace for the first n points, with an empty short list."""
    n_states = len(points)
    return SimplexWorkspace(
        np.ascontiguousarray(points[:, :n].T),
        np.empty(n),
        np.empty(n),
        np.empty((n_states, n_states)),
        np.empty((n_states, n_states)),
        np.zeros(LIST + 1, np.int64),
        np.empty((n_states + 2, LIST)),
        np.empty(LIST),
        np.zeros(LIST),
        np.empty((5, max(n_states, 4))),
        np.empty((4, n_states), np.int64),
        face_tolerance,
    )


def _prices_by_arrays(
    points: Array, worth: Array, n: int, rows: Index, m: int, dual: Array, out: Array
) -> None:
    """Do the same as `_prices`, by array operations."""
    out[:n] = worth[:n]
    for r in range(m):
        if n > _MIN_ARRAY:
            out[:n] = by_arrays(-float(dual[r]), points[rows[r], :n], out[:n])
        else:
            factor, row = -dual[r], points[rows[r]]
            for i in range(n):
                out[i] = fma(factor, row[i], out[i])


def _bunch_maxima_by_arrays(prices: Array, n: int, size: int, maxima: Array) -> float:
    """Do the same as `_bunch_maxima`, by array operations."""
    some = np.maximum(np.maximum.reduceat(prices[:n], np.arange(0, n, size)), -1e300)
    maxima[: len(some)] = some
    best: float = some.max()
    return best


@jit_noalloc(inner=True, python=_prices_by_arrays)
def _prices(points: Array, worth: Array, n: int, rows: Index, m: int, dual: Array, out: Array) -> None:
    """Fill in `out`, the prices of the first n points."""
    r = (m - 1) % 4 + 1  # so many rows at first, then four at a time: passes over `out` take the time
    f0, f1, f2, f3 = -dual[0], -dual[1 % m], -dual[2 % m], -dual[3 % m]
    p0, p1, p2, p3 = points[rows[0]], points[rows[1 % m]], points[rows[2 % m]], points[rows[3 % m]]
    if r == 1:
        for i in range(n):
            out[i] = fma(f0, p0[i], worth[i])
    elif r == 2:
        for i in range(n):
            out[i] = fma(f1, p1[i], fma(f0, p0[i], worth[i]))
    elif r == 3:
        for i in range(n):
            out[i] = fma(f2, p2[i], fma(f1, p1[i], fma(f0, p0[i], worth[i])))
    else:
        for i in range(n):
            out[i] = fma(f3, p3[i], fma(f2, p2[i], fma(f1, p1[i], fma(f0, p0[i], worth[i]))))
    while r < m:
        f0, f1, f2, f3 = -dual[r], -dual[r + 1], -dual[r + 2], -dual[r + 3]
        p0, p1, p2, p3 = points[rows[r]], points[rows[r + 1]], points[rows[r + 2]], points[rows[r + 3]]
        for i in range(n):
            out[i] = fma(f3, p3[i], fma(f2, p2[i], fma(f1, p1[i], fma(f0, p0[i], out[i]))))
        r += 4


@jit_noalloc(fastmath={"nnan", "nsz"}, inner=True, linked=True)  # else it is not vectorised
def _largest(values: Array, n: int) -> float:
    """Return the largest of the first n values."""
    best = -1e300
    for i in range(n):
        if values[i] > best:
            best = values[i]
    return best


@jit_noalloc(inner=True, python=_bunch_maxima_by_arrays)
def _bunch_maxima(prices: Array, n: int, size: int, maxima: Array) -> float:
    """Fill in `maxima`, the largest price in each bunch of `size` points, and return the largest of all."""
    best = -1e300
    for bunch in range((n + size - 1) // size):
        some = prices[bunch * size : min((bunch + 1) * size, n)]
        maxima[bunch] = _largest(some, len(some))
        best = max(best, maxima[bunch])
    return best


@jit_noalloc(inner=True)
def gather_columns(
    columns: Array, h: Array, rows: Index, m: int, short_list: Index, length: int, listed: Array
) -> None:
    """Copy the columns of the short list on the face to `listed`, and h to its last row but one."""
    n_states = len(listed) - 2
    for q in range(length):
        for r in range(m):
            listed[r, q] = columns[short_list[q], rows[r]]
        listed[n_states, q] = h[short_list[q]]


@jit_noalloc(inner=True)
def choose_entering(
    points: Array,
    worth: Array,
    n: int,
    rows: Index,
    m: int,
    dual: Array,
    state: Array,
    workspace: SimplexWorkspace,
) -> int:
    """Return the point that enters the basis, or -1 if no price is positive or no full pass is left.

    The short list has the best of each bunch of points, so that its points differ from one another.
    """
    short_list, listed, whole = workspace.short_list, workspace.listed, workspace.numbers[2]
    length = int(state[LENGTH])
    n_states = len(listed) - 2
    if length > 0:
        prices = listed[n_states + 1]
        _prices(listed, listed[n_states], length, whole, m, dual, prices)
        best = _largest(prices, length)
        state[WORK] += length * m
        if best > max(_MIN_PRICE, _EXHAUSTED_SHARE * state[BEST]):
            for q in range(length):
                if prices[q] == best:
                    enter: int = short_list[q]
                    return enter
    if n == 0 or state[PASSES] < 1.0:
        return -1
    state[PASSES] -= 1.0
    best = price_all_points(points, worth, n, rows, m, dual, state, workspace)
    if best <= _MIN_PRICE:
        state[LENGTH] = 0
        return -1
    return fill_short_list(worth, n, rows, m, _LISTED_SHARE * best, state, workspace)


@jit_noalloc(inner=True)
def price_all_points(
    points: Array,
    worth: Array,
    n: int,
    rows: Index,
    m: int,
    dual: Array,
    state: Array,
    workspace: SimplexWorkspace,
) -> float:
    """Price all points, find the largest price of each bunch, and return the largest of all."""
    _prices(points, worth, n, rows, m, dual, workspace.reduced)
    state[WORK] += n * m
    state[BEST] = _bunch_maxima(
        workspace.reduced, n, (n + LIST - 1) // LIST, workspace.listed[len(workspace.listed) - 1]
    )
    best: float = state[BEST]
    return best


@jit_noalloc(inner=True)
def fill_short_list(
    worth: Array, n: int, rows: Index, m: int, least: float, state: Array, workspace: SimplexWorkspace
) -> int:
    """List the best point of each bunch whose price is above `least`, and return the best point of all."""
    reduced, short_list, listed = workspace.reduced, workspace.short_list, workspace.listed
    size, maxima = (n + LIST - 1) // LIST, listed[len(listed) - 1]
    enter, length = -1, 0
    for bunch in range((n + size - 1) // size):
        if maxima[bunch] > least:
            for i in range(bunch * size, min((bunch + 1) * size, n)):
                if reduced[i] == maxima[bunch]:
                    short_list[length] = i
                    break
            if enter < 0 and maxima[bunch] == state[BEST]:
                enter = short_list[length]
            length += 1
    state[LENGTH] = length
    gather_columns(workspace.columns, worth, rows, m, short_list, length, listed)
    return enter


@jit_noalloc(inner=True)
def dual_ratio_test(
    rows: Index, m: int, h: Array, dual: Array, row: Array, length: int, workspace: SimplexWorkspace
) -> tuple[int, float]:
    """Return the point that enters the basis in the dual simplex and its price, or -1.

    The points of the short list and the vertices are tried. Of those that raise the negative weight, the one
    with the least loss of price for its slope enters. Positive prices count as zero: pivots of the primal
    simplex follow when the basis has become feasible.
    """
    short_list, listed, whole = workspace.short_list, workspace.listed, workspace.numbers[2]
    prices, slopes = listed[len(listed) - 1], workspace.slopes
    _prices(listed, listed[len(listed) - 2], length, whole, m, dual, prices)
    _prices(listed, workspace.zeros, length, whole, m, row, slopes)  # the slopes' negatives
    enter, cost, price, slope = -1, 1e300, 0.0, 0.0
    for q in range(length):
        if slopes[q] > _MIN_SLOPE:
            quotient = max(0.0, -prices[q]) / slopes[q]
            if quotient < cost or (quotient == cost and slopes[q] > slope):
                enter, cost, price, slope = short_list[q], quotient, prices[q], slopes[q]
    for r in range(m):
        if row[r] < -_MIN_SLOPE:
            worth = h[rows[r]] - dual[r]
            quotient = max(0.0, -worth) / -row[r]
            if quotient < cost or (quotient == cost and -row[r] > slope):
                enter, cost, price, slope = rows[r], quotient, worth, -row[r]
    return enter, price
