"""Facts about a model that graphs and one small decomposition settle exactly.

An *end component* is a set of states, with some actions for each, that those actions never leave and
in which every state can be reached from every other. The recurrent classes of every policy lie inside
the maximal ones, and a state outside all of them is transient under every policy (de Alfaro 1997). So:

- the MDP is *communicating* where one maximal end component holds every state;
- it is *weakly communicating* where there is exactly one: it is then closed under every action, and
  all other states are transient under every policy. For states in plain sight that suffices for the paper's
  first assumption (the optimality equation with a J that does not depend on the start). For hidden ones it
  does not: the problem `blind-cycle` is communicating, and what it costs depends on the start.

Nothing here looks at the size of a probability: an entry is possible or it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from .._utils.arrays import Array, Index, Mask
from .pomdp import POMDP
from .setting import Setting


@dataclass(frozen=True)
class RecurrentClass:
    """A maximal end component: states that some policy visits for ever."""

    states: tuple[int, ...]
    closed: bool  # no action leaves it
    period: int  # of the walk that tries every action that stays inside; 1 is aperiodic


@dataclass(frozen=True)
class ModelStructure:
    """What the graph of a model and the rank of its sensor say."""

    recurrent_classes: tuple[RecurrentClass, ...]
    transient_states: tuple[int, ...]  # under every policy
    reachable_states: tuple[int, ...]  # from the start, under some policy
    perfect_observation: bool
    indistinguishable_states: tuple[tuple[int, ...], ...]  # groups that no action's sensor tells apart
    blind_actions: tuple[int, ...]  # whose reading says nothing about the state
    sensor_margin: float  # smallest singular value of the sensor: can the states be told apart?
    sensor_margins: tuple[float, ...]  # the same for each action's own sensor
    n_states: int

    @property
    def communicating(self) -> bool:
        return len(self.recurrent_classes[0].states) == self.n_states

    @property
    def weakly_communicating(self) -> bool:
        return len(self.recurrent_classes) == 1

    @property
    def reachable_classes(self) -> tuple[RecurrentClass, ...]:
        """The recurrent classes that the start can reach: what is reachable is closed, so whole ones."""
        reachable = set(self.reachable_states)
        return tuple(c for c in self.recurrent_classes if c.states[0] in reachable)

    @property
    def weakly_communicating_from_start(self) -> bool:
        """The same as `weakly_communicating` for the model without the states that never occur."""
        return len(self.reachable_classes) == 1

    @property
    def aperiodic(self) -> bool:
        return all(c.period == 1 for c in self.recurrent_classes)


def analyze_structure(model: POMDP) -> ModelStructure:
    """Every fact at once; the cost is a few passes over the non-zero transitions."""
    possible = model.transition > 0
    classes = recurrent_classes(possible)
    recurrent = {s for c in classes for s in c.states}
    setting = model.setting
    margins = tuple(smallest_singular_value(sensor) for sensor in setting.observation)
    return ModelStructure(
        recurrent_classes=classes,
        transient_states=tuple(s for s in range(model.n_states) if s not in recurrent),
        reachable_states=reachable(np.asarray(possible.any(axis=0)), setting.initial > 0),
        perfect_observation=_perfect(setting),
        indistinguishable_states=_indistinguishable(setting),
        blind_actions=_blind(setting),
        sensor_margin=_joint_margin(setting),
        sensor_margins=margins,
        n_states=model.n_states,
    )


def recurrent_classes(possible: Mask) -> tuple[RecurrentClass, ...]:
    """The maximal end components of `possible[a, s, s']`.

    Split the states into strongly connected parts, forbid the actions that may leave their part, drop
    the states that are left without an action, and repeat until nothing changes.
    """
    n_states = possible.shape[1]
    part = np.zeros(n_states, dtype=np.int64)  # -1: in no end component
    allowed = np.ones(possible.shape[:2], dtype=np.bool_)  # [A, S]
    while True:
        stays = ~(possible & (part[None, None, :] != part[None, :, None])).any(axis=2)
        kept = allowed & stays & (part >= 0)
        alive = kept.any(axis=0)
        edges = (possible & kept[:, :, None]).any(axis=0)
        components = _strong_components(edges)
        refined = np.where(alive, components, -1)
        if (kept == allowed).all() and _same_partition(refined, part):
            break
        allowed, part = kept, refined
    found = [np.flatnonzero(part == label) for label in np.unique(part[part >= 0])]
    return tuple(_describe(possible, edges, states) for states in sorted(found, key=lambda c: c[0]))


def _strong_components(edges: Mask) -> Index:
    _, labels = connected_components(csr_array(edges), directed=True, connection="strong")
    return np.asarray(labels, dtype=np.int64)


def _same_partition(one: Index, other: Index) -> bool:
    if ((one < 0) != (other < 0)).any():
        return False
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


def _describe(possible: Mask, edges: Mask, states: Index) -> RecurrentClass:
    outside = np.ones(possible.shape[1], dtype=np.bool_)
    outside[states] = False
    closed = not possible[:, states][:, :, outside].any()
    return RecurrentClass(tuple(states.tolist()), closed, _period(edges[np.ix_(states, states)]))


def _period(edges: Mask) -> int:
    """The greatest common divisor of all cycles: of depth(s) + 1 - depth(s') over all edges."""
    order, parent = breadth_first_order(csr_array(edges), 0, directed=True)
    depth = np.zeros(len(edges), dtype=np.int64)
    for s in order[1:]:
        depth[s] = depth[parent[s]] + 1
    source, target = np.nonzero(edges)
    return int(np.gcd.reduce(np.abs(depth[source] + 1 - depth[target])))


def reachable_states(model: POMDP) -> tuple[int, ...]:
    """The states that some policy reaches from the model's start."""
    return reachable(np.asarray((model.transition > 0).any(axis=0)), model.setting.initial > 0)


def reachable(edges: Mask, start: Mask) -> tuple[int, ...]:
    """The states that a walk along `edges[s, s']` from the `start` states can visit."""
    seen, frontier = start.copy(), start
    while frontier.any():
        frontier = edges[frontier].any(axis=0) & ~seen
        seen |= frontier
    return tuple(np.flatnonzero(seen).tolist())


def _perfect(setting: Setting) -> bool:
    """Every reading after every action, and the first one, leaves one state possible."""
    sensors = [*setting.observation]
    if setting.first_observation is not None:
        sensors.append(setting.first_observation)
    return all(bool(((sensor > 0).sum(axis=0) <= 1).all()) for sensor in sensors)


def _indistinguishable(setting: Setting) -> tuple[tuple[int, ...], ...]:
    groups: dict[bytes, list[int]] = {}
    for s in range(setting.n_states):
        groups.setdefault(setting.observation[:, s].tobytes(), []).append(s)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _blind(setting: Setting) -> tuple[int, ...]:
    sensors = setting.observation
    return tuple(a for a, sensor in enumerate(sensors) if bool((sensor == sensor[0]).all()))


def _joint_margin(setting: Setting) -> float:
    """Of the sensors of all actions side by side, in root mean square: one sensor's own where all agree."""
    if not setting.sensor_depends_on_action:
        return smallest_singular_value(setting.observation[0])
    together = np.hstack(list(setting.observation))
    return smallest_singular_value(together) / float(np.sqrt(setting.n_actions))


def smallest_singular_value(sensor: Array) -> float:
    """Of `[S, O]`, over all S directions: 0 where there are fewer readings than states."""
    n_states, n_readings = sensor.shape
    if n_readings < n_states:
        return 0.0
    value = float(np.linalg.svd(sensor, compute_uv=False)[-1])
    return 0.0 if value < n_readings * np.finfo(np.float64).eps else value
