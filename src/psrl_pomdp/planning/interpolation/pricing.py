"""Prices of the points in the programs of `interpolation`, and which point is to enter a basis.

The price of a point g with value h is h − y·g, for the duals y of a basis: what a little of it is worth
beyond what the basis makes of the same. Points have states outer, so that pricing runs along them. A full
pass over them collects a short list, of the best in each bunch, and the next pivots come from the list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._numba.fma import by_arrays
from ..._numba.jit import bare, fma, kept
from ..._utils.arrays import Array, Index

LIST = 96  # columns that one full pricing collects
_PRICE = 1e-11  # what counts as more than nothing
_LISTED = -0.3  # the least price for the list, as a share of the best: what does not pay yet may do so soon
_EXHAUSTED = 0.01  # the best price left in a list, as a share of what it was, that calls for a new one
_MANY = 48  # points for which arrays are quicker than a loop in Python
_SLOPE = 1e-7  # the least by which a point has to make up for a weight below zero


class Room(NamedTuple):
    """What `interpolate` works with."""

    columns: Array  # [n, S]: the points again, the coordinates of each side by side
    reduced: Array  # [n]: prices of the points
    worth: Array  # [n]: h inside the face, and next to nothing outside
    table: Array  # [S, S]: the basis, factorised
    inverse: Array  # [S, S]: its inverse, transposed
    short: Index  # [LIST + 1]: numbers of points to try first; how many, in the last place
    listed: Array  # [S + 2, LIST]: their columns, h and prices
    slopes: Array  # [LIST]: how much each changes the weight that is to become zero
    zeros: Array  # [LIST]: h of columns that are priced without it
    lines: Array  # [5, S or 4]: weights, duals, two lines to work on, and the state of the pricing
    numbers: Index  # [4, S]: row exchanges, the face of τ, all states, the last good basis
    face: float  # coordinates of τ below this are left to the vertices


@kept(inner=True)
def scratch(points: Array, n: int, face: float) -> Room:
    """A fresh `Room` for the first n points and faces of that kind, with nothing on the short list."""
    n_states = len(points)
    return Room(
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
        face,
    )


def _prices_by_arrays(
    points: Array, worth: Array, n: int, rows: Index, m: int, dual: Array, out: Array
) -> None:
    """What `_prices` does, for Python."""
    out[:n] = worth[:n]
    for r in range(m):
        if n > _MANY:
            out[:n] = by_arrays(-float(dual[r]), points[rows[r], :n], out[:n])
        else:
            factor, row = -dual[r], points[rows[r]]
            for i in range(n):
                out[i] = fma(factor, row[i], out[i])


def _tops_by_arrays(prices: Array, n: int, size: int, tops: Array) -> float:
    """What `_tops` does, for Python."""
    some = np.maximum(np.maximum.reduceat(prices[:n], np.arange(0, n, size)), -1e300)
    tops[: len(some)] = some
    best: float = some.max()
    return best


@bare(inner=True, python=_prices_by_arrays)
def _prices(points: Array, worth: Array, n: int, rows: Index, m: int, dual: Array, out: Array) -> None:
    """Reduced costs of all points."""
    r = (m - 1) % 4 + 1  # so many rows at first, then four at a time: it is passes over `out` that cost
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


@bare(fastmath={"nnan", "nsz"}, inner=True, linked=True)  # else it is not vectorised
def _largest(values: Array, n: int) -> float:
    best = -1e300
    for i in range(n):
        if values[i] > best:
            best = values[i]
    return best


@bare(inner=True, python=_tops_by_arrays)
def _tops(prices: Array, n: int, size: int, tops: Array) -> float:
    """The largest price in each bunch of `size` points, and of all."""
    best = -1e300
    for bunch in range((n + size - 1) // size):
        some = prices[bunch * size : min((bunch + 1) * size, n)]
        tops[bunch] = _largest(some, len(some))
        best = max(best, tops[bunch])
    return best


@bare(inner=True)
def gather(columns: Array, h: Array, rows: Index, m: int, short: Index, length: int, listed: Array) -> None:
    """The columns of the short list side by side; their h in the last row but one."""
    n_states = len(listed) - 2
    for q in range(length):
        for r in range(m):
            listed[r, q] = columns[short[q], rows[r]]
        listed[n_states, q] = h[short[q]]


@bare(inner=True)
def entering(
    points: Array, worth: Array, n: int, rows: Index, m: int, dual: Array, state: Array, room: Room
) -> int:
    """The column to enter, or -1.

    `state` holds the short list's length, its best price, work done, and full passes that are left. The list
    has the best of each bunch of points, so that it is made of different ones.
    """
    short, listed, whole = room.short, room.listed, room.numbers[2]
    length = int(state[0])
    n_states = len(listed) - 2
    if length > 0:
        prices = listed[n_states + 1]
        _prices(listed, listed[n_states], length, whole, m, dual, prices)
        best = _largest(prices, length)
        state[2] += length * m
        if best > max(_PRICE, _EXHAUSTED * state[1]):
            for q in range(length):
                if prices[q] == best:
                    enter: int = short[q]
                    return enter
    if n == 0 or state[3] < 1.0:
        return -1
    state[3] -= 1.0
    best = priced(points, worth, n, rows, m, dual, state, room)
    if best <= _PRICE:
        state[0] = 0
        return -1
    return list_best(worth, n, rows, m, _LISTED * best, state, room)


@bare(inner=True)
def priced(
    points: Array, worth: Array, n: int, rows: Index, m: int, dual: Array, state: Array, room: Room
) -> float:
    """A full pass: prices of all points, the largest of each bunch, and of all."""
    _prices(points, worth, n, rows, m, dual, room.reduced)
    state[2] += n * m
    state[1] = _tops(room.reduced, n, (n + LIST - 1) // LIST, room.listed[len(room.listed) - 1])
    best: float = state[1]
    return best


@bare(inner=True)
def list_best(worth: Array, n: int, rows: Index, m: int, least: float, state: Array, room: Room) -> int:
    """List the best of each bunch of priced points, where its price is above `least`; the best of all."""
    reduced, short, listed = room.reduced, room.short, room.listed
    size, tops = (n + LIST - 1) // LIST, listed[len(listed) - 1]
    enter, length = -1, 0
    for bunch in range((n + size - 1) // size):
        if tops[bunch] > least:
            for i in range(bunch * size, min((bunch + 1) * size, n)):
                if reduced[i] == tops[bunch]:
                    short[length] = i
                    break
            if enter < 0 and tops[bunch] == state[1]:
                enter = short[length]
            length += 1
    state[0] = length
    gather(room.columns, worth, rows, m, short, length, listed)
    return enter


@bare(inner=True)
def cheapest(
    rows: Index, m: int, h: Array, dual: Array, row: Array, length: int, room: Room
) -> tuple[int, float]:
    """The column to enter in the dual simplex, from the list and the vertices, and its price; or -1.

    Of those that make up for what is negative, the one whose price is lost least. Prices above zero count as
    zero: they are dealt with when the basis has become feasible.
    """
    short, listed, whole = room.short, room.listed, room.numbers[2]
    prices, slopes = listed[len(listed) - 1], room.slopes
    _prices(listed, listed[len(listed) - 2], length, whole, m, dual, prices)
    _prices(listed, room.zeros, length, whole, m, row, slopes)  # the slopes' negatives
    enter, cost, price, slope = -1, 1e300, 0.0, 0.0
    for q in range(length):
        if slopes[q] > _SLOPE:
            quotient = max(0.0, -prices[q]) / slopes[q]
            if quotient < cost or (quotient == cost and slopes[q] > slope):
                enter, cost, price, slope = short[q], quotient, prices[q], slopes[q]
    for r in range(m):
        if row[r] < -_SLOPE:
            worth = h[rows[r]] - dual[r]
            quotient = max(0.0, -worth) / -row[r]
            if quotient < cost or (quotient == cost and -row[r] > slope):
                enter, cost, price, slope = rows[r], quotient, worth, -row[r]
    return enter, price
