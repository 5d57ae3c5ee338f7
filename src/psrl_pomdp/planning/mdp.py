"""The optimal average cost of the underlying fully observed MDP (a lower bound for the POMDP).

The optimal gain g*(s) of a finite MDP, with any number of recurrent classes, is the largest g for which some
h makes

    g(s) ≤ Σ_s′ θ(s′ | s, a) g(s′)   and   g(s) + h(s) ≤ C(s, a) + Σ_s′ θ(s′ | s, a) h(s′)   for all s, a

(Puterman 1994, Theorem 9.1.2 and section 9.3): one linear program. A policy of the POMDP knows less than the
state, so from a start b the optimal average of the POMDP is at least Σ_s b(s) g*(s).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, identity, vstack

from .._utils.arrays import Array

_RESOLUTION = 1e-8  # the linear program drops coefficients of 1e-9


def optimal_gain(transition: Array, cost: Array) -> Array:
    """Return the optimal average cost g*(s) of the fully observed MDP from each state.

    Parameters
    ----------
    transition
        `[A, S, S']`, the transition kernel.
    cost
        `[A, S]`, the costs.

    Returns
    -------
    Array
        `[S]`, to the solver's accuracy of 1e-7.

    Raises
    ------
    ArithmeticError
        A positive probability is below what the solver resolves, or the linear program was not solved.
    """
    n_actions, n_states = cost.shape
    tiny = (transition > 0) & (transition < _RESOLUTION)
    if tiny.any():
        least = float(transition[tiny].min())
        raise ArithmeticError(f"a transition of probability {least:g} is below what the solver resolves")
    eye = identity(n_states, format="csr")
    nothing = csr_array((n_states, n_states))
    generators = [eye - csr_array(kernel) for kernel in transition]
    gains = vstack([hstack([generator, nothing]) for generator in generators])
    values = vstack([hstack([eye, generator]) for generator in generators])
    result = linprog(
        c=np.concatenate([-np.ones(n_states), np.zeros(n_states)]),
        A_ub=vstack([gains, values]),
        b_ub=np.concatenate([np.zeros(n_actions * n_states), cost.ravel()]),
        bounds=[(None, None)] * (2 * n_states),
        method="highs",
    )
    if result.status != 0:
        raise ArithmeticError(f"the linear program of the MDP was not solved: {result.message}")
    return np.asarray(result.x[:n_states])
