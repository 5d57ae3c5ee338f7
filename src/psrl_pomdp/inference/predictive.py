"""The probability p_t of the next reading under the posterior: a mean over all kernels of a filter bank."""

from __future__ import annotations

from .._numba.jit import jit_noalloc
from .._utils.arrays import Array, States
from .lanes import LANES, mean_chance, mean_mass
from .predictive_test import EVERY, KEEP_EXPECTED, N_ACTIONS, TESTED, PredictiveTest, code_of_kind


@jit_noalloc(error_model="numpy", inner=True, linked=True)
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
    """Return p_t(x_t) = Σ_θ f_t(θ) P(x_t | θ, past) for the kind x_t of the newest reading; 1 without one.

    `matrix` is the number of the step's matrix; with matrices by code, those of an action begin at a multiple
    of `stride`. `likelihood[R, S′]` belongs to the action, `chance[B·L]` to the reading, `weight[B·L]` are
    f_t, and `belief_blocks` are h_t before the reading. Of one reading in sixteen, the probabilities of all
    kinds are added to those that were expected.
    """
    if kind < 0:
        return 1.0
    records = int(test.numbers[TESTED]) % EVERY == 0
    in_cells = len(test.cells) > 0
    lanes = test.scratch[len(test.scratch) - LANES :]
    state = test.scratch[len(test.scratch) - LANES - len(states) :]
    if in_cells or (records and stride == 1):
        # The cell is tested without the cost of the step: with the matrix of a missing cost.
        whole = matrix if stride == 1 else matrix - matrix % stride + stride // 2 - 1
        for t in range(len(states)):
            state[t] = mean_mass(states, matrix_blocks[whole], belief_blocks, weight, t, lanes)
    if records:
        expected = test.counts[len(test.counts) - test.layout[N_ACTIONS] + action]
        n_kinds = len(expected) - 1
        expected[n_kinds] *= KEEP_EXPECTED
        for x in range(n_kinds):
            mass = 0.0
            for t in range(len(states)):
                if in_cells:
                    mass += test.cells[action, x, t] * state[t]
                elif stride == 1:
                    mass += likelihood[code_of_kind(test, x), t] * state[t]
                else:
                    own = matrix_blocks[matrix - matrix % stride + code_of_kind(test, x)]
                    mass += mean_mass(states, own, belief_blocks, weight, t, lanes)
            expected[x] = expected[x] * KEEP_EXPECTED + mass
            expected[n_kinds] += mass
    if not in_cells:
        return mean_chance(weight, chance, lanes)
    probability = 0.0
    for t in range(len(states)):
        probability += test.cells[action, kind, t] * state[t]
    return probability
