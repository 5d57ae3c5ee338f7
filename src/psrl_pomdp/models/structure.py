"""The structure of a model: its recurrent classes, and whether observations distinguish its states.

An *end component* is a set of states, with some actions for each state, that these actions never leave and in
which every state can be reached from every other state. Every recurrent class of every policy is contained in
a maximal end component, and a state outside of all of them is transient under every policy (de Alfaro 1997).
Therefore,

- the MDP is *communicating* if one maximal end component contains every state;
- it is *weakly communicating* if there is exactly one maximal end component. This component is then closed
  under every action, and all other states are transient under every policy. If states are observed, this is
  sufficient for the paper's first assumption (the optimality equation with a J that is the same for every
  initial belief). If states are hidden, it is not sufficient: the problem `blind-cycle` is communicating, and
  its optimal average cost depends on the initial belief.

The size of a probability is not used, only whether it is positive.

If the observation depends on the state before the action too, what it says about the state after the action
counts, whatever the state before was, over the transitions that are possible. Its margin is the square root
of the least squared length of Σ q(s, s′) η(· | a, s, s′) over all q whose sums over s are a vector of length
one. It is positive if the distribution of the observation determines the distribution of the state. It is the
smallest singular value of the rows η(· | a, s, s′) of one s without what lies in the span of the differences
between the rows of different s: the smallest singular value of η(· | a, ·) if there are no differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from .._utils.arrays import Array, Index, Mask
from .pomdp import POMDP
from .setting import Setting
from .stand_in import blind_actions, equal_states, finite_stand_in


@dataclass(frozen=True)
class RecurrentClass:
    """A maximal end component: a maximal set of states that some policy visits infinitely often."""

    states: tuple[int, ...]
    closed: bool  # True if no action leaves the set
    period: int  # of the graph of all transitions that stay inside; 1 means aperiodic


@dataclass(frozen=True)
class ModelStructure:
    """The structure of a model."""

    recurrent_classes: tuple[RecurrentClass, ...]
    transient_states: tuple[int, ...]  # the states that are transient under every policy
    reachable_states: tuple[int, ...]  # the states that some policy reaches from the initial distribution
    perfect_observation: bool  # True if every observation determines the state
    # Groups with equal observations, as states before the action and as states after it.
    indistinguishable_states: tuple[tuple[int, ...], ...]
    blind_actions: tuple[int, ...]  # the actions after which the observation is independent of the state
    sensor_margin: float  # smallest singular value of the observation models of all actions together
    sensor_margins: tuple[float, ...]  # the same for each action's observation model
    n_states: int

    @property
    def communicating(self) -> bool:
        """Whether some policy leads from every state to every other one."""
        return len(self.recurrent_classes[0].states) == self.n_states

    @property
    def weakly_communicating(self) -> bool:
        """Whether there is exactly one recurrent class."""
        return len(self.recurrent_classes) == 1

    @property
    def reachable_classes(self) -> tuple[RecurrentClass, ...]:
        """The recurrent classes that can be reached from the initial distribution."""
        reachable = set(self.reachable_states)
        return tuple(c for c in self.recurrent_classes if c.states[0] in reachable)

    @property
    def weakly_communicating_from_start(self) -> bool:
        """Whether the model without its unreachable states is weakly communicating."""
        return len(self.reachable_classes) == 1

    @property
    def aperiodic(self) -> bool:
        """Whether all recurrent classes have period 1."""
        return all(c.period == 1 for c in self.recurrent_classes)


def analyze_structure(model: POMDP) -> ModelStructure:
    """Return the structure of a model.

    The time is proportional to the number of transitions with positive probability. If observations are real
    numbers, counts or vectors, the margins are those of about 32 classes of observations.

    Parameters
    ----------
    model
        The model.

    Returns
    -------
    ModelStructure
        Classes of states, and what the observations distinguish.
    """
    possible = model.transition > 0
    classes = recurrent_classes(possible)
    recurrent = {s for c in classes for s in c.states}
    given, setting = model.setting, finite_stand_in(model.setting)
    sensors = _sensors(setting, possible)
    margins = tuple(smallest_singular_value(sensor) for sensor in sensors)
    return ModelStructure(
        recurrent_classes=classes,
        transient_states=tuple(s for s in range(model.n_states) if s not in recurrent),
        reachable_states=reachable(np.asarray(possible.any(axis=0)), setting.initial > 0),
        perfect_observation=_perfect(setting, possible),
        indistinguishable_states=_indistinguishable(setting) if given.is_finite else equal_states(given),
        blind_actions=_blind(setting) if given.is_finite else blind_actions(given),
        sensor_margin=_joint_margin(setting, sensors),
        sensor_margins=margins,
        n_states=model.n_states,
    )


def recurrent_classes(possible: Mask) -> tuple[RecurrentClass, ...]:
    """Return the maximal end components of `possible[a, s, s']`.

    The function splits the states into strongly connected components, removes the actions that may leave
    their component and the states without an action, and repeats this until nothing changes.
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
    """Return the greatest common divisor of all cycles: of depth(s) + 1 - depth(s') over all edges."""
    order, parent = breadth_first_order(csr_array(edges), 0, directed=True)
    depth = np.zeros(len(edges), dtype=np.int64)
    for s in order[1:]:
        depth[s] = depth[parent[s]] + 1
    source, target = np.nonzero(edges)
    return int(np.gcd.reduce(np.abs(depth[source] + 1 - depth[target])))


def reachable_states(model: POMDP) -> tuple[int, ...]:
    """Return the states that some policy reaches from the initial distribution."""
    return reachable(np.asarray((model.transition > 0).any(axis=0)), model.setting.initial > 0)


def reachable(edges: Mask, start: Mask) -> tuple[int, ...]:
    """Return the states that paths along `edges[s, s']` from the states `start` can visit."""
    seen, frontier = start.copy(), start
    while frontier.any():
        frontier = edges[frontier].any(axis=0) & ~seen
        seen |= frontier
    return tuple(np.flatnonzero(seen).tolist())


def _sensors(setting: Setting, possible: Mask) -> Array:
    """Return what determines the margin of each action, [A, S', O]: the observation model.

    If that depends on the state before the action, it is what does not change with this state.
    """
    table = setting.observation
    if not setting.sensor_depends_on_previous:
        return table
    n_states = setting.n_states
    found = np.empty((setting.n_actions, n_states, setting.n_observations))
    for a, counts in enumerate(_counted(possible)):
        first = counts.argmax(axis=0)  # [S']: a state before each state
        base = table[a, first, np.arange(n_states)]
        differences = (table[a] - base)[counts]
        _, sizes, directions = np.linalg.svd(differences, full_matrices=False)
        span = directions[sizes > max(differences.shape) * np.finfo(np.float64).eps]
        found[a] = base - (base @ span.T) @ span
    return found


def _counted(possible: Mask) -> Mask:
    """Return which pairs (s, s′) count, [A, S, S']: possible transitions, or all to a state that has none."""
    return np.asarray(possible | ~possible.any(axis=1, keepdims=True))


def _perfect(setting: Setting, possible: Mask) -> bool:
    """Return whether every observation, also the first one, is possible in one state only."""
    sensors = [*setting.observation]
    if setting.sensor_depends_on_previous:
        pairs = np.where(_counted(possible)[..., None], setting.observation, 0.0)
        sensors = [*pairs.max(axis=1)]
    if setting.first_observation is not None:
        sensors.append(setting.first_observation)
    return all(bool(((sensor > 0).sum(axis=0) <= 1).all()) for sensor in sensors)


def _indistinguishable(setting: Setting) -> tuple[tuple[int, ...], ...]:
    groups: dict[bytes, list[int]] = {}
    table = setting.observation
    for s in range(setting.n_states):
        key = table[:, s].tobytes()
        if setting.sensor_depends_on_previous:
            key += table[:, :, s].tobytes()
        groups.setdefault(key, []).append(s)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _blind(setting: Setting) -> tuple[int, ...]:
    sensors = setting.observation.reshape(setting.n_actions, -1, setting.n_observations)
    return tuple(a for a, sensor in enumerate(sensors) if bool((sensor == sensor[0]).all()))


def _joint_margin(setting: Setting, sensors: Array) -> float:
    """Of the sensors of all actions side by side, in root mean square: one sensor's own where all agree."""
    if not setting.sensor_depends_on_action and not setting.sensor_depends_on_previous:
        return smallest_singular_value(setting.observation[0])
    together = np.hstack(list(sensors))
    return smallest_singular_value(together) / float(np.sqrt(setting.n_actions))


def smallest_singular_value(sensor: Array) -> float:
    """Of `[S, O]`, over all S directions: 0 where there are fewer readings than states."""
    n_states, n_readings = sensor.shape
    if n_readings < n_states:
        return 0.0
    value = float(np.linalg.svd(sensor, compute_uv=False)[-1])
    return 0.0 if value < n_readings * np.finfo(np.float64).eps else value
