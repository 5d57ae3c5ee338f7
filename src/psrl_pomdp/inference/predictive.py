"""The probability p_t of the next reading under the posterior: a mean over all kernels of a filter bank."""

from __future__ import annotations

from .._numba.jit import jit_noalloc
from .._utils.arrays import Array, States
from .lanes import mean_chance, mean_mass
from .predictive_test import EVERY, TESTED, PredictiveTest, forget_expected


@jit_noalloc(error_model="numpy", inner=True)
def predictive_probability(
    states: States,
    matrix_blocks: Array,
    belief_blocks: Array,
    likelihood: Array,
    stride: int,
    weight: Array,
    chance: Array,
    test: PredictiveTest,
    action: int,
    matrix: int,
    kind: int,
) -> float:
    """Return p_t(x_t) = Σ_θ f_t(θ) P(x_t | θ, past) for the kind x_t of the newest reading; 1 if it is missing.

    `matrix` is the number of the step's matrix; with matrices by code, those of an action begin at a multiple
    of `stride`. `likelihood[R, S′]` belongs to the action, `chance[B·L]` to the reading, `weight[B·L]` are
    f_t, and `belief_blocks` are h_t before the reading. Of one reading in sixteen, the probabilities of all
    kinds are added to `test.expected`.
    """
    if kind < 0:
        return 1.0
    records = int(test.clock[TESTED]) % EVERY == 0
    in_cells = len(test.cells) > 0
    if in_cells or (records and stride == 1):
        for t in range(len(states)):
            test.state[t] = mean_mass(
                states, matrix_blocks[matrix], belief_blocks, weight, t, test.lanes
            )
    if records:
        forget_expected(test, action)
        for x in range(test.expected.shape[1]):
            mass = 0.0
            for t in range(len(states)):
                if in_cells:
                    mass += test.cells[action, x, t] * test.state[t]
                elif stride == 1:
                    mass += likelihood[test.code_of[x], t] * test.state[t]
                else:
                    own = matrix_blocks[matrix - matrix % stride + test.code_of[x]]
                    mass += mean_mass(states, own, belief_blocks, weight, t, test.lanes)
            test.expected[action, x] += mass
    if not in_cells:
        return mean_chance(weight, chance, test.lanes)
    probability = 0.0
    for t in range(len(states)):
        probability += test.cells[action, kind, t] * test.state[t]
    return probability
