"""LU factors of bases: small dense matrices, of which calls to a library would take longer than the work.

A basis is m of the columns (points), restricted to m of the states.
"""

from __future__ import annotations

from ..._numba.jit import jit_noalloc
from ..._utils.arrays import Array, Bases, Index


@jit_noalloc(inner=True)
def factorise(
    columns: Array, basis: Bases, rows: Index, m: int, table: Array, order: Index, line: Array
) -> bool:
    """Factorize the basis as P L U into `table`, with row exchanges in `order`; return False if singular.

    The row that is subtracted from the others is copied to `line`, because then the compiler vectorizes.
    """
    for k in range(m):
        order[k] = k
        for r in range(m):
            table[r, k] = columns[basis[k], rows[r]]
    for c in range(m):
        pivot = c
        for r in range(c + 1, m):
            if abs(table[r, c]) > abs(table[pivot, c]):
                pivot = r
        if abs(table[pivot, c]) < 1e-12:
            return False
        if pivot != c:
            for q in range(m):
                table[c, q], table[pivot, q] = table[pivot, q], table[c, q]
            order[c], order[pivot] = order[pivot], order[c]
        scale = 1.0 / table[c, c]
        for q in range(m):
            line[q] = table[c, q] if q > c else 0.0
        for r in range(c + 1, m):
            if table[r, c] != 0.0:
                factor = table[r, c] * scale
                for q in range(m):
                    table[r, q] -= factor * line[q]
                table[r, c] = factor
    return True


@jit_noalloc(inner=True)
def solve(table: Array, order: Index, m: int, right: Array, out: Array) -> None:
    """Fill in `out` = B⁻¹ right."""
    for r in range(m):
        total = right[order[r]]
        for k in range(r):
            total -= table[r, k] * out[k]
        out[r] = total
    for r in range(m - 1, -1, -1):
        total = out[r]
        for k in range(r + 1, m):
            total -= table[r, k] * out[k]
        out[r] = total / table[r, r]


@jit_noalloc(inner=True)
def solve_transposed(table: Array, order: Index, m: int, right: Array, out: Array, line: Array) -> None:
    """Fill in `out` = B⁻ᵀ right; `line` is scratch."""
    for k in range(m):
        line[k] = right[k]
    for k in range(m):
        line[k] /= table[k, k]
        for q in range(k + 1, m):
            line[q] -= line[k] * table[k, q]
    for k in range(m - 1, -1, -1):
        for q in range(k):
            line[q] -= line[k] * table[k, q]
    for k in range(m):
        out[order[k]] = line[k]


@jit_noalloc(inner=True)
def invert(table: Array, order: Index, m: int, inverse: Array, line: Array) -> None:
    """Fill in `inverse`, the transpose of B⁻¹; `line` is scratch."""
    for r in range(m):
        for q in range(m):
            inverse[r, q] = 0.0
        inverse[r, order[r]] = 1.0
    for c in range(m):
        for q in range(m):
            line[q] = inverse[c, q]
        for r in range(c + 1, m):
            factor = table[r, c]
            if factor != 0.0:
                for q in range(m):
                    inverse[r, q] -= factor * line[q]
    for c in range(m - 1, -1, -1):
        scale = 1.0 / table[c, c]
        for q in range(m):
            inverse[c, q] *= scale
            line[q] = inverse[c, q]
        for r in range(c):
            factor = table[r, c]
            if factor != 0.0:
                for q in range(m):
                    inverse[r, q] -= factor * line[q]
    for r in range(m):
        for q in range(r):
            inverse[r, q], inverse[q, r] = inverse[q, r], inverse[r, q]
