"""Relative values of a Markov chain: three ways to solve gain + h = c + T h for h, up to a constant.

Chains of controllers and of grids resemble random graphs, whose factors are nearly dense. Small ones are
solved densely, others by GMRES, and by sparse LU factors only where GMRES does not converge.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import bmat, csc_array, csr_array, identity
from scipy.sparse.linalg import LinearOperator, gmres, spilu, splu

from ..._utils.arrays import Array
from ..parameters import GmresParameters
from .chains import Chain


def solve_dense(chain: csr_array, step_cost: Array) -> Array:
    """Return h with h_1 = 0, by a dense solve.

    Raises `numpy.linalg.LinAlgError` where several recurrent classes make the equations singular.
    """
    n = len(step_cost)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = np.eye(n) - chain.toarray()
    system[:n, n] = 1.0
    system[n, 0] = 1.0
    return np.asarray(np.linalg.solve(system, np.append(step_cost, 0.0))[:n])


def solve_gmres(
    chain: Chain | csr_array,
    step_cost: Array,
    guess: Array,
    tolerance: float,
    expired: Callable[[], bool],
    factored: csr_array | None = None,
    give_up_above: float = np.inf,
    parameters: GmresParameters = GmresParameters(),
) -> tuple[Array | None, float]:
    """Return h, by GMRES from (1 − T + 1 e_1ᵀ) h = c, and the work.

    Parameters
    ----------
    chain
        T, [n, n].
    step_cost
        `[n]`: c.
    guess
        `[n]`: values from which to begin.
    tolerance
        Half of the span of c + T h − h at which h is good enough.
    expired
        Asked after every cycle whether time is up.
    factored
        T as a matrix, where incomplete factors of it shall be the preconditioner: chains that mix slowly
        need one.
    give_up_above
        An h that proves the gain to be at least this is returned, however rough.
    parameters
        Steps, cycles, and the preconditioner.

    Returns
    -------
    tuple
        h `[n]`, or None where GMRES does not converge; and the work.
    """
    n, work = len(step_cost), 0.0
    per_product = chain.work if isinstance(chain, Chain) else 2.0 * chain.nnz
    preconditioner, restart = None, parameters.restart
    if factored is not None:
        work += 500.0 * factored.nnz
        try:
            factors = spilu(
                csc_array((1 + parameters.shift) * identity(n) - factored),
                drop_tol=parameters.drop_tolerance,
                fill_factor=parameters.fill_factor,
            )
        except RuntimeError:  # a pivot that is zero
            return None, work
        preconditioner = LinearOperator((n, n), matvec=factors.solve, dtype=np.float64)
    system = LinearOperator((n, n), matvec=lambda x: x - chain @ x + x[0], dtype=np.float64)
    change = step_cost + chain @ guess - guess
    h = guess - guess[0] + 0.5 * (change.min() + change.max())
    for _ in range(parameters.cycles):
        h, _ = gmres(
            system, step_cost, x0=h, rtol=0.0, atol=tolerance, restart=restart, maxiter=1, M=preconditioner
        )
        work += restart * (per_product + 2.0 * restart * n)
        change = step_cost + chain @ h - h
        if not np.abs(h).max() * np.finfo(np.float64).eps <= tolerance:
            break  # h is infinite, or so large that its change is lost in rounding
        if np.ptp(change) <= 2 * tolerance or change.min() >= give_up_above:
            return np.asarray(h), work
        if expired():
            break
    return None, work


def solve_lu(chain: csr_array, step_cost: Array) -> tuple[Array, float]:
    """Return h with h_1 = 0, by sparse LU factors, and the work.

    Raises `RuntimeError` where several recurrent classes make the equations singular.
    """
    n = len(step_cost)
    corner, ones = csc_array(([1.0], ([0], [0])), shape=(1, n)), csc_array(np.ones((n, 1)))
    factors = splu(bmat([[identity(n) - chain, ones], [corner, None]], format="csc"))
    return np.asarray(factors.solve(np.append(step_cost, 0.0))[:n]), 200.0 * chain.nnz + factors.nnz**2 / n
