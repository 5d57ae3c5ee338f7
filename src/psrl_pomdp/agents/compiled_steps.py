"""The steps of a run, compiled: what the agent does with a reading, and what the world answers.

Both drivers are made of these. One reading at a time, `PSRLAgent.act` takes in the reading, asks whether the
episode is over, and chooses; a simulated run does the same in one loop, `play`, that only comes back where an
episode ends, the ensemble of kernels has to be renewed, or a checkpoint is due.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numba.jit import bare, kept
from .._utils.arrays import Array, Codes, Index
from ..inference.filter_bank import Filters, drawn, update
from ..inference.sampled_filter import Possible, Used, follow, reach, refresh_due
from ..planning.upper.nodes import best_vector

# Why `play` came back.
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


class Policy(NamedTuple):
    """What an episode plays: a look-ahead on v(b) = min α·b, or a controller that follows its readings."""

    vectors: Array  # [N, S]
    actions: Index  # [N]
    successors: Index  # [N, O]
    node: Index  # [1]: where the controller is; −1 where beliefs choose
    likelihood: Array  # [A, O + 1, S']: η(o | s′), and ones for a lost reading
    cost: Array  # [A, S]
    worth: Array  # [A]: c(b, a) + E[v(b′)], where beliefs have chosen
    moved: Array  # [2, S]: scratch


class Episode(NamedTuple):
    """When the present episode ends."""

    clock: Index  # [4]: t, the last t by SCHED, which pseudo-count, why the episode ended
    pseudo: Index  # [A, S]: m̃_t
    pseudo_start: Index  # [A, S]: m̃_{t_k}


class World(NamedTuple):
    """The true model, the state it is in, and what is added up."""

    transition: Array  # [A, S, S']
    sensor: Array  # [A, S', O]
    cost: Array  # [A, S]
    present: Index  # [2]: the state, and the reading that was not yet taken in
    belief: Array  # [S]: h_t(·; θ*)
    visits: Index  # [A, S]: n_t(s, a)
    sums: Array  # [5]: see COST and the others
    after: Array  # [S]: scratch


@bare(linked=True)
def choose(policy: Policy, used: Used) -> int:
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
    weigh(policy, used, own)
    for a in range(len(worth)):
        if a != own:
            weigh(policy, used, a)
            if worth[a] < worth[best] - (_ROUNDING if best == own else 0.0):
                best = a
    return best


@bare(inner=True, linked=True)
def value(vectors: Array, belief: Array) -> float:
    """min α_n·b."""
    n = best_vector(vectors, belief)
    total = 0.0
    for s in range(len(belief)):
        total += vectors[n, s] * belief[s]
    return total


@bare(inner=True, linked=True)
def weigh(policy: Policy, used: Used, action: int) -> None:
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
        total += value(policy.vectors, joint)
    policy.worth[action] = total


@bare(linked=True)
def take_in(
    policy: Policy,
    used: Used,
    episode: Episode,
    expected: Array,
    likelihood: Array,
    action: int,
    reading: int,
) -> None:
    """h_{t+1}(·; θ_k), m̃_{t+1}, and why the episode is over, if it is: in `episode.clock[3]`."""
    clock, pseudo = episode.clock, episode.pseudo
    follow(used, likelihood[action, reading], action)
    if policy.node[0] >= 0 and reading < policy.successors.shape[1]:
        policy.node[0] = policy.successors[policy.node[0], reading]
    clock[0] += 1
    t = clock[0]
    if clock[2] == EXPECTED:
        raise_counts(pseudo, expected, t)
    else:
        pseudo[:] = t
    over = GOES_ON
    if t > clock[1]:
        over = BY_SCHEDULE
    if clock[2] != NONE and doubled(pseudo, episode.pseudo_start):
        over = BY_BOTH if over == BY_SCHEDULE else BY_COUNTS
    if used.chance[0] == 0.0:
        over = RULED_OUT
    clock[3] = over


@bare(linked=True)
def raise_counts(pseudo: Index, expected: Array, t: int) -> None:
    """m̃_t = max(m̃_{t−1}, ⌈ñ_t⌉), with what rounding adds to a whole number taken off first."""
    for a in range(pseudo.shape[0]):
        for s in range(pseudo.shape[1]):
            number = expected[a, s]
            if number > pseudo[a, s]:  # seldom: it is the last step's maximum
                ceiling = int(np.ceil(number - 1e-11 * max(1.0, number)))
                pseudo[a, s] = max(pseudo[a, s], min(ceiling, t))


@bare(inner=True, linked=True)
def doubled(pseudo: Index, pseudo_start: Index) -> bool:
    """Whether m̃_t(s, a) > 2 m̃_{t_k}(s, a) for some (s, a)."""
    found = False
    for a in range(pseudo.shape[0]):
        for s in range(pseudo.shape[1]):
            found |= pseudo[a, s] > 2 * pseudo_start[a, s]
    return found


@bare(error_model="numpy", linked=True)
def answer(world: World, action: int, used: Used, uniforms: Array) -> None:
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
    state = drawn(transition[state], uniforms[0])
    reading = drawn(world.sensor[action, state], uniforms[1])
    world.present[0], world.present[1] = state, reading
    filtered(transition, world.sensor[action], belief, reading, world.after)
    total = 0.0
    for s in range(n_states):
        total += world.after[s]
    for s in range(n_states):
        belief[s] = world.after[s] / total


@bare(inner=True, linked=True)
def filtered(transition: Array, sensor: Array, belief: Array, reading: int, after: Array) -> None:
    """b M[a, o]: P(o | b, a) τ(b, a, o)."""
    for t in range(len(after)):
        mass = 0.0
        for s in range(len(belief)):
            mass += belief[s] * transition[s, t]
        after[t] = mass * sensor[t, reading]


@bare()
def expected_value(vectors: Array, transition: Array, sensor: Array, belief: Array, after: Array) -> float:
    """E[v(b′)] = Σ_o min_n α_n·(b M[a, o])."""
    total = 0.0
    for o in range(sensor.shape[1]):
        filtered(transition, sensor, belief, o, after)
        total += value(vectors, after)
    return total


@bare()
def play(
    world: World,
    uniforms: Array,
    filters: Filters,
    possible: Possible,
    least_size: float,
    used: Used,
    policy: Policy,
    episode: Episode,
    flags: Index,
    actions: Codes,
    readings: Codes,
    begin: int,
) -> tuple[int, int]:
    """Actions of the agent in the world from where both are, one for each row of `uniforms`.

    `uniforms[n, 2]` is the world's chance. `flags` holds the last action, whether the present reading was
    taken in already, and how many readings were; `actions` and `readings` are written from `begin` on.
    `least_size` is 0 for a posterior that needs no refresh. Returns how many actions were taken and why no
    more.
    """
    done = 0
    while done < len(uniforms):
        if not flags[1]:
            action, reading = flags[0], world.present[1]
            if least_size > 0.0 and not reach(possible, filters.likelihood[action, reading], action):
                return done, IMPOSSIBLE
            if not update(filters, action, reading):
                return done, TOO_UNLIKELY
            flags[1] = 1
            flags[2] += 1
            take_in(policy, used, episode, filters.expected, filters.likelihood, action, reading)
            if least_size > 0.0:
                for s in range(len(possible.now)):
                    possible.now[s] = possible.then[s]
                if refresh_due(filters, least_size):
                    return done, REFRESH
            if episode.clock[3] != GOES_ON:
                return done, EPISODE_OVER
        action = choose(policy, used)
        answer(world, action, used, uniforms[done])
        actions[begin + done] = action
        readings[begin + done] = world.present[1]
        flags[0] = action
        flags[1] = 0
        done += 1
    return done, STEPS_DONE


@kept()
def controlled(
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
    first, total, k = value(vectors, belief), 0.0, 0
    for i in range(len(actions)):
        action = actions[i]
        paid = 0.0
        for s in range(len(belief)):
            paid += cost[action, s] * belief[s]
        total += paid - value(vectors, belief)
        total += expected_value(vectors, transition[action], sensor[action], belief, after)
        filtered(transition[action], sensor[action], belief, readings[i], after)
        mass = 0.0
        for s in range(len(belief)):
            mass += after[s]
        for s in range(len(belief)):
            belief[s] = after[s] / mass
        while k < len(ends) and ends[k] == i + 1:
            out[k] = total + first - value(vectors, belief)
            k += 1
