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
from ..inference.filter_bank import FilterBank, sample_categorical, update
from ..inference.sampled_filter import (
    PossibleStates,
    RefreshRule,
    SampledFilter,
    reachable_states,
    refresh_due,
    update_sampled_filter,
)
from ..planning.upper.nodes import best_vector

# Why `run_episode` came back.
STEPS_DONE, EPISODE_OVER, REFRESH, IMPOSSIBLE, TOO_UNLIKELY = 0, 1, 2, 3, 4
# Why an episode ended.
GOES_ON, BY_SCHEDULE, BY_COUNTS, BY_BOTH, RULED_OUT = 0, 1, 2, 3, 4
# Which pseudo-count.
TIME, EXPECTED, NONE = 0, 1, 2
# What is added up along a run: C(s_t, a_t); c(b_t, a_t) with b_t = h_t(·; θ*); |b_t − h_t(·; θ_k)|₁;
# |θ*(· | s_t, a_t) − θ_k(· | s_t, a_t)|₁; and c(b_t, a_t) − c(h_t(·; θ_k), a_t).
COST, EXPECTED_COST, BELIEF_GAP, KERNEL_GAP, COST_GAP = 0, 1, 2, 3, 4
N_SUMS = 5
_ROUNDING = 1e-12  # of a worth


class CompiledPolicy(NamedTuple):
    """What an episode plays: a look-ahead on v(b) = min α·b, or a controller that follows its readings."""

    vectors: Array  # [N, S]
    actions: Index  # [N]
    successors: Index  # [N, O]
    node: Index  # [1]: where the controller is; −1 where beliefs choose
    likelihood: Array  # [A, O + 1, S']: η(o | s′), and ones for a lost reading
    cost: Array  # [A, S]
    worth: Array  # [A]: c(b, a) + E[v(b′)], where beliefs have chosen
    moved: Array  # [2, S]: scratch


class EpisodeClock(NamedTuple):
    """When the present episode ends."""

    clock: Index  # [4]: t, the last t by SCHED, which pseudo-count, why the episode ended
    pseudo: Index  # [A, S]: m̃_t
    pseudo_start: Index  # [A, S]: m̃_{t_k}


class EnvironmentState(NamedTuple):
    """The true model, the state it is in, and what is added up."""

    transition: Array  # [A, S, S']
    sensor: Array  # [A, S', O]
    cost: Array  # [A, S]
    present: Index  # [2]: the state, and the reading that was not yet taken in
    belief: Array  # [S]: h_t(·; θ*)
    visits: Index  # [A, S]: n_t(s, a)
    sums: Array  # [5]: see COST and the others
    after: Array  # [S]: scratch


@jit_noalloc(linked=True)
def best_action(policy: CompiledPolicy, used: SampledFilter) -> int:
    """a_t = π_k(h_t(·; θ_k)): the action of the controller's node, or the one of the least `worth`.

    The plan proves min_a [c(b, a) + E v(b′)] ≤ v(b) + upper for v(b) = min α·b. Summed over time, this shows
    that the action that attains the minimum costs at most `upper` on average, as does the action of the
    vector that attains v(b), which is never worth more. That one is played where only rounding differs.
    """
    if policy.node[0] >= 0:
        action: int = policy.actions[policy.node[0]]
        return action
    belief, worth = used.belief, policy.worth
    own: int = policy.actions[best_vector(policy.vectors, belief[:, 0])]
    best = own
    lookahead_value(policy, used, own)
    for a in range(len(worth)):
        if a != own:
            lookahead_value(policy, used, a)
            if worth[a] < worth[best] - (_ROUNDING if best == own else 0.0):
                best = a
    return best


@jit_noalloc(inner=True, linked=True)
def value_at(vectors: Array, belief: Array) -> float:
    """min α_n·b."""
    n = best_vector(vectors, belief)
    total = 0.0
    for s in range(len(belief)):
        total += vectors[n, s] * belief[s]
    return total


@jit_noalloc(inner=True, linked=True)
def lookahead_value(policy: CompiledPolicy, used: SampledFilter, action: int) -> None:
    """`worth[a]` = c(b, a) + Σ_o min_n α_n·(b M[a, o]) at the belief in use."""
    belief, moved, joint = used.belief, policy.moved[0], policy.moved[1]
    n_states = len(moved)
    total = 0.0
    for s in range(n_states):
        total += policy.cost[action, s] * belief[s, 0]
    for t in range(n_states):
        mass = 0.0
        for s in range(n_states):
            mass += belief[s, 0] * used.transition[action, s, t, 0]
        moved[t] = mass
    for o in range(policy.likelihood.shape[1] - 1):
        for t in range(n_states):
            joint[t] = moved[t] * policy.likelihood[action, o, t]
        total += value_at(policy.vectors, joint)
    policy.worth[action] = total


@jit_noalloc(linked=True)
def process_observation(
    policy: CompiledPolicy,
    used: SampledFilter,
    episode: EpisodeClock,
    expected: Array,
    likelihood: Array,
    action: int,
    reading: int,
) -> None:
    """h_{t+1}(·; θ_k), m̃_{t+1}, and why the episode is over, if it is: in `episode.clock[3]`."""
    clock, pseudo = episode.clock, episode.pseudo
    update_sampled_filter(used, likelihood[action, reading], action)
    if policy.node[0] >= 0 and reading < policy.successors.shape[1]:
        policy.node[0] = policy.successors[policy.node[0], reading]
    clock[0] += 1
    t = clock[0]
    if clock[2] == EXPECTED:
        update_pseudo_counts(pseudo, expected, t)
    else:
        pseudo[:] = t
    over = GOES_ON
    if t > clock[1]:
        over = BY_SCHEDULE
    if clock[2] != NONE and counts_doubled(pseudo, episode.pseudo_start):
        over = BY_BOTH if over == BY_SCHEDULE else BY_COUNTS
    if used.chance[0] == 0.0:
        over = RULED_OUT
    clock[3] = over


@jit_noalloc(linked=True)
def update_pseudo_counts(pseudo: Index, expected: Array, t: int) -> None:
    """m̃_t = max(m̃_{t−1}, ⌈ñ_t⌉), with what rounding adds to a whole number taken off first."""
    for a in range(pseudo.shape[0]):
        for s in range(pseudo.shape[1]):
            number = expected[a, s]
            if number > pseudo[a, s]:  # seldom: it is the last step's maximum
                ceiling = int(np.ceil(number - 1e-11 * max(1.0, number)))
                pseudo[a, s] = max(pseudo[a, s], min(ceiling, t))


@jit_noalloc(inner=True, linked=True)
def counts_doubled(pseudo: Index, pseudo_start: Index) -> bool:
    """Whether m̃_t(s, a) > 2 m̃_{t_k}(s, a) for some (s, a)."""
    found = False
    for a in range(pseudo.shape[0]):
        for s in range(pseudo.shape[1]):
            found |= pseudo[a, s] > 2 * pseudo_start[a, s]
    return found


@jit_noalloc(error_model="numpy", linked=True)
def environment_step(world: EnvironmentState, action: int, used: SampledFilter, uniforms: Array) -> None:
    """What the world does after an action: the cost, the next state and reading, h(·; θ*), and the sums."""
    transition, belief, sums = world.transition[action], world.belief, world.sums
    state = world.present[0]
    n_states = len(belief)
    expected, gap_cost, gap_belief, gap_kernel = 0.0, 0.0, 0.0, 0.0
    for s in range(n_states):
        expected += belief[s] * world.cost[action, s]
        gap_cost += (belief[s] - used.belief[s, 0]) * world.cost[action, s]
        gap_belief += abs(belief[s] - used.belief[s, 0])
        gap_kernel += abs(transition[state, s] - used.transition[action, state, s, 0])
    sums[COST] += world.cost[action, state]
    sums[EXPECTED_COST] += expected
    sums[COST_GAP] += gap_cost
    sums[BELIEF_GAP] += gap_belief
    sums[KERNEL_GAP] += gap_kernel
    world.visits[action, state] += 1
    state = sample_categorical(transition[state], uniforms[0])
    reading = sample_categorical(world.sensor[action, state], uniforms[1])
    world.present[0], world.present[1] = state, reading
    filtered(transition, world.sensor[action], belief, reading, world.after)
    total = 0.0
    for s in range(n_states):
        total += world.after[s]
    for s in range(n_states):
        belief[s] = world.after[s] / total


@jit_noalloc(inner=True, linked=True)
def filtered(transition: Array, sensor: Array, belief: Array, reading: int, after: Array) -> None:
    """b M[a, o]: P(o | b, a) τ(b, a, o)."""
    for t in range(len(after)):
        mass = 0.0
        for s in range(len(belief)):
            mass += belief[s] * transition[s, t]
        after[t] = mass * sensor[t, reading]


@jit_noalloc()
def expected_value(vectors: Array, transition: Array, sensor: Array, belief: Array, after: Array) -> float:
    """E[v(b′)] = Σ_o min_n α_n·(b M[a, o])."""
    total = 0.0
    for o in range(sensor.shape[1]):
        filtered(transition, sensor, belief, o, after)
        total += value_at(vectors, after)
    return total


@jit_noalloc()
def run_episode(
    world: EnvironmentState,
    uniforms: Array,
    filters: FilterBank,
    possible: PossibleStates,
    rule: RefreshRule,
    used: SampledFilter,
    policy: CompiledPolicy,
    episode: EpisodeClock,
    flags: Index,
    actions: Codes,
    readings: Codes,
    begin: int,
) -> tuple[int, int]:
    """Actions of the agent in the world from where both are, one for each row of `uniforms`.

    `uniforms[n, 2]` is the world's chance. `flags` holds the last action, whether the present reading was
    taken in already, and how many readings were; `actions` and `readings` are written from `begin` on.
    `rule` says when the posterior needs a refresh. Returns how many actions were taken and why no more.
    """
    done = 0
    while done < len(uniforms):
        if not flags[1]:
            action, reading = flags[0], world.present[1]
            if len(possible.now) > 0 and not reachable_states(
                possible, filters.likelihood[action, reading], action
            ):
                return done, IMPOSSIBLE
            if not update(filters, action, reading):
                return done, TOO_UNLIKELY
            flags[1] = 1
            flags[2] += 1
            process_observation(policy, used, episode, filters.expected, filters.likelihood, action, reading)
            for s in range(len(possible.now)):
                possible.now[s] = possible.then[s]
            if len(rule.least) > 0 and refresh_due(filters, rule):
                return done, REFRESH
            if episode.clock[3] != GOES_ON:
                return done, EPISODE_OVER
        action = best_action(policy, used)
        environment_step(world, action, used, uniforms[done])
        actions[begin + done] = action
        readings[begin + done] = world.present[1]
        flags[0] = action
        flags[1] = 0
        done += 1
    return done, STEPS_DONE


@jit()
def control_variate_sums(
    transition: Array,
    sensor: Array,
    cost: Array,
    vectors: Array,
    belief: Array,
    actions: Codes,
    readings: Codes,
    ends: Index,
    out: Array,
) -> None:
    """Σ_t [c(b_t, a_t) + E v(b_{t+1}) − v(b_t)] + v(b_1) − v(b_{t+1}) up to each of `ends`; v(b) = min α·b.

    `belief[S]` is b_1, and moves along; `readings[i]` came after `actions[i]`.
    """
    after = np.empty_like(belief)
    first, total, k = value_at(vectors, belief), 0.0, 0
    for i in range(len(actions)):
        action = actions[i]
        paid = 0.0
        for s in range(len(belief)):
            paid += cost[action, s] * belief[s]
        total += paid - value_at(vectors, belief)
        total += expected_value(vectors, transition[action], sensor[action], belief, after)
        filtered(transition[action], sensor[action], belief, readings[i], after)
        mass = 0.0
        for s in range(len(belief)):
            mass += after[s]
        for s in range(len(belief)):
            belief[s] = after[s] / mass
        while k < len(ends) and ends[k] == i + 1:
            out[k] = total + first - value_at(vectors, belief)
            k += 1
