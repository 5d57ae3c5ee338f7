"""The steps of a run, compiled: what the agent does with an observation, and how the environment answers.

Both drivers are made of these functions. `PSRLAgent.act` processes one observation, asks whether the episode
is over, and chooses an action. A simulated run does the same in one loop, `run_episode`, which returns when
an episode ends, when the ensemble of kernels has to be resampled, or when a checkpoint is due.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numba.jit import jit, jit_noalloc
from .._utils.arrays import Array, Codes, Index
from ..inference.filter_bank import FilterBank, matrix_number, sample_categorical, update
from ..inference.predictive_test import kind_of_code
from ..inference.sampled_filter import (
    PossibleStates,
    RefreshRule,
    SampledFilter,
    reachable_states,
    refresh_due,
    update_sampled_filter,
)
from .lookahead import CompiledPolicy as CompiledPolicy
from .lookahead import best_action as best_action
from .lookahead import value_at

# Why `run_episode` returned.
STEPS_DONE, EPISODE_OVER, REFRESH, IMPOSSIBLE, TOO_UNLIKELY = 0, 1, 2, 3, 4

# Entries of `EpisodeClock.clock`: t; the last t of the episode by SCHED; the rule of the pseudo-counts, one
# of TIME, EXPECTED and NONE; and why the episode ended, one of GOES_ON and the others.
T, LAST_T, COUNT_RULE, END_REASON = 0, 1, 2, 3
TIME, EXPECTED, NONE = 0, 1, 2
GOES_ON, BY_SCHEDULE, BY_COUNTS, BY_BOTH, RULED_OUT = 0, 1, 2, 3, 4

# Entries of the `flags` of `run_episode`: the last action; whether the observation after it has already
# updated the posterior; how many observations have updated it during the call; and the cell of the present
# observation in the test of the model, if observations have no numbers.
LAST_ACTION, OBSERVATION_PROCESSED, N_PROCESSED, CELL = 0, 1, 2, 3

# Entries of `EnvironmentState.present`.
STATE, OBSERVATION = 0, 1

# Entries of `EnvironmentState.sums`: C(s_t, a_t); c(b_t, a_t) with b_t = h_t(·; θ*); |b_t − h_t(·; θ_k)|₁;
# |θ*(· | s_t, a_t) − θ_k(· | s_t, a_t)|₁; and c(b_t, a_t) − c(h_t(·; θ_k), a_t).
COST, EXPECTED_COST, BELIEF_GAP, KERNEL_GAP, COST_GAP = 0, 1, 2, 3, 4
N_SUMS = 5


class EpisodeClock(NamedTuple):
    """The time, and what decides when the present episode ends."""

    clock: Index  # [4]: see T, LAST_T, COUNT_RULE, END_REASON
    pseudo: Index  # [A, S]: m̃_t
    pseudo_start: Index  # [A, S]: m̃_{t_k}


class EnvironmentState(NamedTuple):
    """The true model, its present state, and the sums along the run.

    If observations have no numbers, those that each state would emit after each action are drawn ahead, E·S
    for each step (E is A, or 1 if they do not depend on the action), and the number of an observation is its
    place there.
    """

    transition: Array  # [A, S, S']
    matrices: Array  # [K, S, S']: those of the steps (`inference.step_codes`)
    likelihood: Array  # [A, R, S']
    # [A, S or 1, S', R]: the probability of each code. If observations have no numbers, [A, S, 1, C]: that of
    # each seen cost, of which there may be none.
    emission: Array
    cost: Array  # [A, S]
    present: Index  # [2]: the state, and the observation (its code) that the agent has not processed yet
    belief: Array  # [S]: h_t(·; θ*)
    visits: Index  # [A, S]: n_t(s, a)
    sums: Array  # [5]: see COST and the others
    after: Array  # [S]: scratch


@jit_noalloc(linked=True)
def process_observation(
    policy: CompiledPolicy,
    sampled: SampledFilter,
    episode: EpisodeClock,
    expected: Array,
    likelihood: Array,
    matrix: int,
    observation: int,
) -> None:
    """Update h_{t+1}(·; θ_k), t and m̃_{t+1}, and set `clock[END_REASON]` if the episode is over.

    The step is given by its likelihoods [S′] and the number of its matrix. `observation` is the number that
    the plan gives it, for a controller; −1 if it is missing.

    The episode ends if t > SCHED(t_k, T_{k−1}), if a pseudo-count has more than doubled, or if the
    observation has probability 0 under θ_k.
    """
    clock, pseudo = episode.clock, episode.pseudo
    update_sampled_filter(sampled, likelihood, matrix)
    if policy.node[0] >= 0 and observation >= 0:
        policy.node[0] = policy.successors[policy.node[0], observation]
    clock[T] += 1
    t = clock[T]
    if clock[COUNT_RULE] == EXPECTED:
        update_pseudo_counts(pseudo, expected, t)
    else:
        pseudo[:] = t
    reason = GOES_ON
    if t > clock[LAST_T]:
        reason = BY_SCHEDULE
    if clock[COUNT_RULE] != NONE and counts_doubled(pseudo, episode.pseudo_start):
        reason = BY_BOTH if reason == BY_SCHEDULE else BY_COUNTS
    if sampled.chance[0] == 0.0:
        reason = RULED_OUT
    clock[END_REASON] = reason


@jit_noalloc(linked=True)
def update_pseudo_counts(pseudo: Index, expected: Array, t: int) -> None:
    """Set m̃_t = max(m̃_{t−1}, ⌈ñ_t⌉), where rounding errors do not raise a whole number to the next one."""
    for a in range(pseudo.shape[0]):
        for s in range(pseudo.shape[1]):
            number = expected[a, s]
            if number > pseudo[a, s]:  # this is rare, because `pseudo` is a running maximum
                ceiling = int(np.ceil(number - 1e-11 * max(1.0, number)))
                pseudo[a, s] = max(pseudo[a, s], min(ceiling, t))


@jit_noalloc(inner=True, linked=True)
def counts_doubled(pseudo: Index, pseudo_start: Index) -> bool:
    """Return whether m̃_t(s, a) > 2 m̃_{t_k}(s, a) for some (s, a)."""
    found = False
    for a in range(pseudo.shape[0]):
        for s in range(pseudo.shape[1]):
            found |= pseudo[a, s] > 2 * pseudo_start[a, s]
    return found


@jit_noalloc(error_model="numpy", linked=True)
def environment_step(
    environment: EnvironmentState, action: int, sampled: SampledFilter, uniforms: Array, rows: Array, i: int
) -> None:
    """Draw the next state and observation after an action; update h(·; θ*), the visits and the sums.

    `rows[n, E·S, S′]` are the likelihoods of the observations that were drawn ahead, under the true sensor,
    and i is the step; `rows` is empty if observations are numbered.
    """
    transition, belief, sums = environment.transition[action], environment.belief, environment.sums
    state = environment.present[STATE]
    n_states = len(belief)
    expected, gap_cost, gap_belief, gap_kernel = 0.0, 0.0, 0.0, 0.0
    for s in range(n_states):
        expected += belief[s] * environment.cost[action, s]
        gap_cost += (belief[s] - sampled.belief[s, 0]) * environment.cost[action, s]
        gap_belief += abs(belief[s] - sampled.belief[s, 0])
        gap_kernel += abs(transition[state, s] - sampled.transition[action, state, s, 0])
    sums[COST] += environment.cost[action, state]
    sums[EXPECTED_COST] += expected
    sums[COST_GAP] += gap_cost
    sums[BELIEF_GAP] += gap_belief
    sums[KERNEL_GAP] += gap_kernel
    environment.visits[action, state] += 1
    previous = state
    state = sample_categorical(transition[state], uniforms[0])
    stride = len(environment.matrices) // len(environment.transition)
    if len(rows) > 0:
        observation = state + (action * n_states if rows.shape[1] > n_states else 0)
        matrix, place, n_costs = action, observation, environment.emission.shape[3]
        if n_costs > 0:
            paid = sample_categorical(environment.emission[action, previous, 0], uniforms[1])
            matrix, observation = action * stride + paid, place * (n_costs + 1) + paid
        filtered(environment.matrices[matrix], rows[i, place], belief, environment.after)
    else:
        emission = environment.emission[action, previous if environment.emission.shape[1] > 1 else 0]
        observation = sample_categorical(emission[state], uniforms[1])
        matrix = action if stride == 1 else action * stride + observation
        filtered(
            environment.matrices[matrix],
            environment.likelihood[action, observation],
            belief,
            environment.after,
        )
    environment.present[STATE], environment.present[OBSERVATION] = state, observation
    total = 0.0
    for s in range(n_states):
        total += environment.after[s]
    for s in range(n_states):
        belief[s] = environment.after[s] / total


@jit_noalloc(inner=True, linked=True)
def filtered(matrix: Array, likelihood: Array, belief: Array, after: Array) -> None:
    """Compute b M = P(o | b, a) τ(b, a, o) in `after`, for the matrix and the likelihoods of a step."""
    for t in range(len(after)):
        mass = 0.0
        for s in range(len(belief)):
            mass += belief[s] * matrix[s, t]
        after[t] = mass * likelihood[t]


@jit_noalloc()
def expected_value(
    vectors: Array,
    matrices: Array,
    stride: int,
    likelihood: Array,
    codes: Index,
    belief: Array,
    action: int,
    after: Array,
) -> float:
    """Return E[v(b′)] = Σ_o min_n α_n·(b M[a, o]) over the observations with these `codes[O]`."""
    total = 0.0
    for o in range(len(codes)):
        code = codes[o]
        matrix = action if stride == 1 else action * stride + code
        filtered(matrices[matrix], likelihood[action, code], belief, after)
        total += value_at(vectors, after)
    return total


@jit_noalloc()
def run_episode(
    environment: EnvironmentState,
    uniforms: Array,
    rows: Array,
    agent_rows: Array,
    cells: Index,
    pending: Array,
    filters: FilterBank,
    possible: PossibleStates,
    rule: RefreshRule,
    sampled: SampledFilter,
    policy: CompiledPolicy,
    episode: EpisodeClock,
    flags: Index,
    actions: Codes,
    observations: Codes,
    begin: int,
) -> tuple[int, int]:
    """Run agent and environment from their present states, one action for each row of `uniforms`.

    `uniforms[n, 2]` are the random numbers of the environment. If observations have no numbers, `rows[n, E·S,
    S′]` are the likelihoods of those that are drawn ahead under the true sensor, `agent_rows` the same under
    the agent's sensor, `cells[n, E·S]` their cells, and `pending[S′]` the likelihoods of the present
    observation; otherwise the first three are empty. `flags` has the entries LAST_ACTION,
    OBSERVATION_PROCESSED, N_PROCESSED and CELL. `actions` and `observations` are written from `begin` on.
    `rule` says when the posterior needs a refresh. Returns how many actions were taken, and why the loop
    stopped.
    """
    done = 0
    likelihood = pending
    while done < len(uniforms):
        if not flags[OBSERVATION_PROCESSED]:
            action, observation = flags[LAST_ACTION], environment.present[OBSERVATION]
            if len(agent_rows) == 0:
                likelihood = filters.likelihood[action, observation]
                flags[CELL] = kind_of_code(filters.test, observation)
            else:
                observation = 0
            matrix = matrix_number(filters, action, observation)
            if len(possible.now) > 0 and not reachable_states(possible, likelihood, matrix):
                return done, IMPOSSIBLE
            if not update(filters, action, matrix, flags[CELL], likelihood):
                return done, TOO_UNLIKELY
            flags[OBSERVATION_PROCESSED] = 1
            flags[N_PROCESSED] += 1
            if len(policy.observation_of) > 0:
                observation = policy.observation_of[observation]
            process_observation(policy, sampled, episode, filters.expected, likelihood, matrix, observation)
            for s in range(len(possible.now)):
                possible.now[s] = possible.then[s]
            if len(rule.least) > 0 and refresh_due(filters, rule):
                return done, REFRESH
            if episode.clock[END_REASON] != GOES_ON:
                return done, EPISODE_OVER
        action = best_action(policy, sampled)
        environment_step(environment, action, sampled, uniforms[done], rows, done)
        actions[begin + done] = action
        observations[begin + done] = environment.present[OBSERVATION]
        if len(agent_rows) > 0:
            likelihood = agent_rows[done, environment.present[OBSERVATION]]
            flags[CELL] = cells[done, environment.present[OBSERVATION]]
        flags[LAST_ACTION] = action
        flags[OBSERVATION_PROCESSED] = 0
        done += 1
    return done, STEPS_DONE


@jit()
def control_variate_sums(
    matrices: Array,
    stride: int,
    likelihood: Array,
    codes: Index,
    rows: Array,
    cost: Array,
    vectors: Array,
    belief: Array,
    actions: Codes,
    observations: Codes,
    ends: Index,
    out: Array,
) -> None:
    """Write Σ_t [c(b_t, a_t) + E v(b_{t+1}) − v(b_t)] + v(b_1) − v(b_{t+1}) up to each of `ends` to `out`.

    v(b) = min α·b. `belief[S]` is b_1 and is updated in place. `observations[i]` is the code of the
    observation after `actions[i]`; the expectation is over all observations with `codes[O]`.

    If observations have no numbers, `rows[T, S′]` are their likelihoods, `likelihood[A, O, S′]` belongs to
    the cells of a finite observation model, and `observations[i]` is the cell of the observation. The
    expectation is then over the cells, and v(b_{t+1}) minus the value after observing only the cell is added.
    The mean of the sum remains the same.
    """
    after = np.empty_like(belief)
    first, total, k = value_at(vectors, belief), 0.0, 0
    for i in range(len(actions)):
        action, code = actions[i], observations[i]
        cost_now = 0.0
        for s in range(len(belief)):
            cost_now += cost[action, s] * belief[s]
        total += cost_now - value_at(vectors, belief)
        total += expected_value(vectors, matrices, stride, likelihood, codes, belief, action, after)
        matrix = action if stride == 1 else action * stride + code
        filtered(matrices[matrix], likelihood[action, code], belief, after)
        if len(rows) > 0:
            mass = 0.0
            for s in range(len(belief)):
                mass += after[s]
            if mass > 0.0:
                total -= value_at(vectors, after) / mass
            filtered(matrices[matrix], rows[i], belief, after)
            mass = 0.0
            for s in range(len(belief)):
                mass += after[s]
            total += value_at(vectors, after) / mass
        mass = 0.0
        for s in range(len(belief)):
            mass += after[s]
        for s in range(len(belief)):
            belief[s] = after[s] / mass
        while k < len(ends) and ends[k] == i + 1:
            out[k] = total + first - value_at(vectors, belief)
            k += 1
