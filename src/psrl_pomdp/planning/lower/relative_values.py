"""Relative values of a chain: h with gain + h = c + T h, but for a constant, in three ways.

Chains of controllers and of grids resemble random graphs, which fill in when they are factorised: small ones
are solved densely, others by GMRES, and by exact factors only what that does not get to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import bmat, csc_array, csr_array, identity
from scipy.sparse.linalg import LinearOperator, gmres, spilu, splu

from ..._utils.arrays import Array
from ..upper.chains import Chain

_KRYLOV, _CYCLES = 40, 8  # steps between restarts of GMRES, and restarts
# Incomplete factors of 1 + _SHIFT − T, without what is smaller than _DROPPED, _FILL times as large at most.
_SHIFT, _DROPPED, _FILL = 1e-4, 1e-2, 3.0


def densely(chain: csr_array, paid: Array) -> Array:
    """h with h_1 = 0; LinAlgError where several recurrent classes make it singular."""
    n = len(paid)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = np.eye(n) - chain.toarray()
    system[:n, n] = 1.0
    system[n, 0] = 1.0
    return np.asarray(np.linalg.solve(system, np.append(paid, 0.0))[:n])


def by_krylov(
    chain: Chain | csr_array,
    paid: Array,
    guess: Array,
    tolerance: float,
    expired: Callable[[], bool],
    factored: csr_array | None = None,
    hopeless: float = np.inf,
) -> tuple[Array | None, float]:
    """h to `tolerance`, or any h that proves the gain to be `hopeless`, and the work; None where it gets
    nowhere.

    By GMRES from (1 − T + 1 e_1ᵀ) h = c. Chains that mix slowly take the help of incomplete factors of T,
    where it is given as a matrix to be `factored`.
    """
    n, work, aid = len(paid), 0.0, None
    once = chain.work if isinstance(chain, Chain) else 2.0 * chain.nnz
    if factored is not None:
        work += 500.0 * factored.nnz
        try:
            factors = spilu(
                csc_array((1 + _SHIFT) * identity(n) - factored), drop_tol=_DROPPED, fill_factor=_FILL
            )
        except RuntimeError:  # a pivot that is zero
            return None, work
        aid = LinearOperator((n, n), matvec=factors.solve, dtype=np.float64)
    system = LinearOperator((n, n), matvec=lambda x: x - chain @ x + x[0], dtype=np.float64)
    change = paid + chain @ guess - guess
    h = guess - guess[0] + 0.5 * (change.min() + change.max())
    for _ in range(_CYCLES):
        h, _ = gmres(system, paid, x0=h, rtol=0.0, atol=tolerance, restart=_KRYLOV, maxiter=1, M=aid)
        work += _KRYLOV * (once + 2.0 * _KRYLOV * n)
        change = paid + chain @ h - h
        if not np.abs(h).max() * np.finfo(np.float64).eps <= tolerance:
            break  # h is infinite, or so large that its change is lost in rounding
        if np.ptp(change) <= 2 * tolerance or change.min() >= hopeless:
            return np.asarray(h), work
        if expired():
            break
    return None, work


def by_factors(chain: csr_array, paid: Array) -> tuple[Array, float]:
    """h with h_1 = 0, and the work; RuntimeError where several recurrent classes make it singular."""
    n = len(paid)
    corner, ones = csc_array(([1.0], ([0], [0])), shape=(1, n)), csc_array(np.ones((n, 1)))
    factors = splu(bmat([[identity(n) - chain, ones], [corner, None]], format="csc"))
    return np.asarray(factors.solve(np.append(paid, 0.0))[:n]), 200.0 * chain.nnz + factors.nnz**2 / n
