"""Compiled steps on the nodes of a controller: duplicates, reachable nodes, flows on edges, trajectories.

A node n has an action a_n and a successor σ(n, o) for each observation.
"""

from __future__ import annotations

import numpy as np

from ..._numba.jit import jit, jit_noalloc
from ..._utils.arrays import Array, Index, Mask
from ...inference.filter_bank import sample_categorical
from ..dynamics import Factors
from ..lower.grid_steps import next_beliefs
from ..markov.chains import propagate, propagate_entries


@jit()
def distinct_nodes(actions: Index, successors: Index) -> tuple[Index, Index]:
    """Return the first of the nodes that have the same action and successors, in their order.

    Returns also, for every node, the position of its kind among them.
    """
    n, n_observations = successors.shape
    size = 16
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1)
    first, kind = np.empty(n, np.int64), np.empty(n, np.int64)
    count = 0
    for node in range(n):
        code = np.uint64(actions[node] + 1)
        for o in range(n_observations):
            code = (code ^ np.uint64(successors[node, o] + 1)) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
        place = np.int64(code & np.uint64(size - 1))
        while True:
            if table[place] < 0:
                table[place] = count
                first[count] = node
                kind[node] = count
                count += 1
                break
            other = first[table[place]]
            same = actions[other] == actions[node]
            for o in range(n_observations):
                same = same and successors[other, o] == successors[node, o]
            if same:
                kind[node] = table[place]
                break
            place = (place + 1) % size
    return first[:count].copy(), kind


def merge_nodes(actions: Index, successors: Index, vectors: Array) -> tuple[Index, Index, Array]:
    """Merge nodes with the same action and the same successors, until no two are left."""
    while True:
        first, kind = distinct_nodes(actions, successors)
        if len(first) == len(actions):
            return actions, successors, vectors
        actions, successors, vectors = actions[first], kind[successors[first]], vectors[first]


@jit()
def reachable_nodes(possible: Mask, actions: Index, successors: Index, start: int) -> tuple[Index, Index]:
    """Return the nodes reachable from `start`, which comes first, and their renumbered successors."""
    n, n_observations = successors.shape
    number = np.full(n, -1)
    order = np.empty(n, np.int64)
    order[0], number[start] = start, 0
    count, done = 1, 0
    while done < count:
        node = order[done]
        done += 1
        for o in range(n_observations):
            next_node = successors[node, o]
            if possible[actions[node], o] and number[next_node] < 0:
                number[next_node] = count
                order[count] = next_node
                count += 1
    next_node = np.empty((count, n_observations), np.int64)
    for k in range(count):
        for o in range(n_observations):
            next_node[k, o] = max(number[successors[order[k], o]], 0)
    return order[:count].copy(), next_node


@jit()
def edge_flows(factors: Factors, actions: Index, mass: Array) -> tuple[Array, Array, Index]:
    """Return the edges (node, observation) that are used under the stationary distribution mass[n, s].

    For each edge: the average belief, the flow, and the node and observation.
    """
    n_states, n_observations = mass.shape[1], factors.observation.shape[1]
    capacity = len(actions) * n_observations
    beliefs, flows, edges = (
        np.empty((capacity, n_states)),
        np.empty(capacity),
        np.empty((capacity, 2), np.int64),
    )
    moved, count = np.empty(n_states), 0
    is_product = factors.observation.shape[2] > 0
    after = np.empty((0 if is_product else n_observations, n_states))
    for node in range(len(actions)):
        a = actions[node]
        if propagate(factors, a, mass[node], moved) <= 1e-12:
            continue
        if not is_product:
            propagate_entries(factors, a, mass[node], after)
        for o in range(n_observations):
            flow = 0.0
            for t in range(n_states):
                beliefs[count, t] = moved[t] * factors.observation[a, o, t] if is_product else after[o, t]
                flow += beliefs[count, t]
            if flow > 1e-12:
                for t in range(n_states):
                    beliefs[count, t] /= flow
                flows[count] = flow
                edges[count, 0], edges[count, 1] = node, o
                count += 1
    return beliefs[:count], flows[:count], edges[:count]


def _best_by_arrays(vectors: Array, belief: Array) -> np.intp:
    """Do the same as `best_vector`, by array operations that add up in the same order."""
    total: Array = vectors[:, 0] * belief[0] + 0.0
    for s in range(1, len(belief)):
        total += vectors[:, s] * belief[s]
    return total.argmin()


@jit_noalloc(linked=True, python=_best_by_arrays)
def best_vector(vectors: Array, belief: Array) -> int:
    """Return the n that attains min α_n·b, the first of equals."""
    best, least = 0, np.inf
    for n in range(len(vectors)):
        total = 0.0
        for s in range(len(belief)):
            total += vectors[n, s] * belief[s]
        if total < least:
            best, least = n, total
    return best


@jit()
def belief_trajectory(joint: Array, actions: Index, vectors: Array, belief: Array, uniforms: Array) -> Array:
    """Return beliefs on a trajectory of the policy that plays the action of the vector with the least α·b.

    `uniforms` in [0, 1) draw the observations.
    """
    n_observations, n_states = joint.shape[1:3]
    probabilities, beliefs = np.empty(n_observations), np.empty((n_observations, n_states))
    visited = np.empty((len(uniforms), n_states))
    for step in range(len(uniforms)):
        visited[step] = belief
        next_beliefs(joint, belief, actions[best_vector(vectors, belief)], probabilities, beliefs)
        belief = beliefs[sample_categorical(probabilities, uniforms[step])].copy()
    return visited
