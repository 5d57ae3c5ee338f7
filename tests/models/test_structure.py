"""Structure facts against the definitions, by enumeration of policies and walks."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from psrl_pomdp import POMDP, Setting, analyze_structure, problem
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.models.structure import smallest_singular_value


def world(transition: Array, sensor: Array | None = None, initial: Array | None = None) -> POMDP:
    n_actions, n = transition.shape[:2]
    start = np.full(n, 1 / n) if initial is None else initial
    return POMDP(
        Setting(np.eye(n) if sensor is None else sensor, np.zeros((n_actions, n)), start), transition
    )


def sparse_models(count: int) -> list[Array]:
    rng = np.random.default_rng(20)
    sizes = [(int(rng.integers(1, 4)), int(rng.integers(1, 5)), rng.uniform(0.05, 0.6)) for _ in range(count)]
    return [oracles.random_kernel(rng, a, s, density) for a, s, density in sizes]


def test_classes_agree_with_every_policy() -> None:
    kinds = {"communicating": 0, "weakly": 0, "multichain": 0}
    for transition in sparse_models(400):
        facts = analyze_structure(world(transition))
        recurrent = {s for c in facts.recurrent_classes for s in c.states}
        assert recurrent == oracles.recurrent_somewhere(transition)
        assert set(facts.transient_states) == set(range(transition.shape[1])) - recurrent
        assert facts.communicating == oracles.communicating(transition)
        assert facts.weakly_communicating == oracles.weakly_communicating(transition)
        kind = (
            "communicating"
            if facts.communicating
            else "weakly"
            if facts.weakly_communicating
            else "multichain"
        )
        kinds[kind] += 1
    assert min(kinds.values()) > 20  # the sample is worth something


def test_classes_are_closed_components_with_the_right_period() -> None:
    periods = set()
    cycles = [np.roll(np.eye(n), 1, axis=1)[None] for n in (2, 3, 4, 6)]
    for transition in [*sparse_models(400), *cycles]:
        n_actions = transition.shape[0]
        for c in analyze_structure(world(transition)).recurrent_classes:
            inside = set(c.states)
            stay = [
                (a, s)
                for a in range(n_actions)
                for s in inside
                if set(np.flatnonzero(transition[a, s])) <= inside
            ]
            edges = {(s, int(t)) for a, s in stay for t in np.flatnonzero(transition[a, s])}
            assert all(oracles.reach(edges, s) == inside for s in inside)
            assert c.closed == (len(stay) == n_actions * len(inside))
            assert c.period == oracles.period_of(edges, c.states[0], 40)
            periods.add(c.period)
    assert {1, 2, 3, 4, 6} <= periods


def test_reachable_states() -> None:
    rng = np.random.default_rng(5)
    for transition in sparse_models(200):
        n_actions, n = transition.shape[:2]
        start = int(rng.integers(n))
        edges = {(s, t) for a in range(n_actions) for s, t in oracles.policy_edges(transition, (a,) * n)}
        facts = analyze_structure(world(transition, initial=np.eye(n)[start]))
        assert set(facts.reachable_states) == {start} | oracles.reach(edges, start)
        assert facts.reachable_classes == tuple(
            c for c in facts.recurrent_classes if set(c.states) <= set(facts.reachable_states)
        )


def test_a_restricted_start_can_make_it_weakly_communicating() -> None:
    two_rooms = problem("two-rooms")
    assert not analyze_structure(two_rooms).weakly_communicating
    in_one = world(two_rooms.transition, initial=np.array([1.0, 0.0]))
    assert analyze_structure(in_one).weakly_communicating_from_start


def test_sensor_facts() -> None:
    kernel = oracles.random_kernel(np.random.default_rng(0), 2, 3)
    assert analyze_structure(world(kernel)).perfect_observation
    blurred = np.array([[0.8, 0.2], [0.8, 0.2], [0.1, 0.9]])
    facts = analyze_structure(world(kernel, blurred))
    assert not facts.perfect_observation
    assert facts.indistinguishable_states == ((0, 1),)
    assert facts.sensor_margin == 0.0  # two readings for three states
    by_action = np.stack([np.full((3, 3), 1 / 3), np.eye(3)])
    facts = analyze_structure(world(kernel, by_action))
    assert facts.blind_actions == (0,)
    assert list(facts.sensor_margins) == pytest.approx([0.0, 1.0])
    assert not facts.perfect_observation
    # Readings that name the state up to relabelling are perfect, also with several names for one.
    many = np.array([[0, 0.3, 0.7, 0, 0], [1.0, 0, 0, 0, 0], [0, 0, 0, 0.5, 0.5]])
    assert analyze_structure(world(kernel, many)).perfect_observation


def test_perfect_first_reading_counts() -> None:
    kernel = oracles.random_kernel(np.random.default_rng(0), 1, 2)
    setting = Setting(np.eye(2), [[0.0, 1.0]], [0.5, 0.5], first_observation=[[0.5, 0.5], [0.5, 0.5]])
    assert not analyze_structure(POMDP(setting, kernel)).perfect_observation


def test_smallest_singular_value_by_its_definition() -> None:
    rng = np.random.default_rng(8)
    for _ in range(50):
        sensor = rng.dirichlet(np.ones(4), size=3)
        directions = rng.standard_normal((3, 20_000))
        directions /= np.linalg.norm(directions, axis=0)
        least = np.linalg.norm(sensor.T @ directions, axis=0).min()
        assert smallest_singular_value(sensor) <= least <= smallest_singular_value(sensor) + 0.05


def test_one_state() -> None:
    facts = analyze_structure(POMDP(Setting([[1.0]], [[0.3]], [1.0]), [[[1.0]]]))
    assert facts.communicating
    assert facts.perfect_observation
    assert facts.recurrent_classes[0].period == 1


# -- observations that depend on the state before the action -----------------------------------------


def least_image(table: Array, possible: Array, x: Array) -> float:
    """The least |Σ q(s, s') η(· | s, s')| over q on possible pairs, with x as its sums over s."""
    pairs = [(s, t) for t in range(len(x)) for s in range(len(x)) if possible[s, t]]
    first: dict[int, int] = {}
    for s, t in pairs:
        first.setdefault(t, s)
    fixed = sum(x[t] * table[s, t] for t, s in first.items())
    free = np.array([table[s, t] - table[first[t], t] for s, t in pairs])
    best, *_ = np.linalg.lstsq(free.T, -fixed, rcond=None)
    return float(np.linalg.norm(fixed + best @ free))


@pytest.mark.parametrize("n_readings", [3, 5, 12])
def test_margins_of_tables_by_pairs_of_states(n_readings: int) -> None:
    rng = np.random.default_rng(n_readings)
    transition = oracles.random_kernel(rng, 2, 3, 0.6)
    transition[0, :, 2] = 0.0
    transition[0, :, 0] += 0.1
    transition /= transition.sum(axis=-1, keepdims=True)
    table = rng.dirichlet(np.ones(n_readings), size=(2, 3, 3))
    table[1] = table[1, :1]  # the second action's does not depend on it
    facts = analyze_structure(world(transition, table))
    directions = rng.normal(size=(4000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    images = np.zeros((2, len(directions)))
    for a in range(2):
        possible = (transition[a] > 0) | ~(transition[a] > 0).any(axis=0)
        images[a] = [least_image(table[a], possible, x) for x in directions]
    assert facts.sensor_margins[1] == pytest.approx(smallest_singular_value(table[1, 0]), abs=1e-14)
    for found, least in zip(
        (*facts.sensor_margins, facts.sensor_margin),
        (*images.min(axis=1), np.sqrt((images**2).mean(axis=0)).min()),
        strict=True,
    ):
        assert found <= least + 1e-12
        assert found == pytest.approx(least, rel=0.05, abs=0.02)
    if n_readings == 12:
        assert min(facts.sensor_margins) > 0.01


def test_whether_the_state_has_changed_does_not_tell_the_state() -> None:
    same = np.stack([np.eye(2), 1 - np.eye(2)], axis=-1)
    facts = analyze_structure(world(np.full((1, 2, 2), 0.5), same[None]))
    assert facts.sensor_margin == facts.sensor_margins[0] == 0.0
    assert not facts.perfect_observation
    assert facts.blind_actions == ()
    assert facts.indistinguishable_states == ()
    # But it does where no state comes from two others.
    facts = analyze_structure(world(np.array([[[0.0, 1.0], [0.5, 0.5]]]), same[None]))
    assert facts.sensor_margin == 0.0
    facts = analyze_structure(world(np.array([[[1.0, 0.0], [0.0, 1.0]]]), same[None]))
    assert facts.sensor_margin == 0.0
    assert not facts.perfect_observation
    facts = analyze_structure(world(np.array([[[0.5, 0.5], [0.5, 0.5]]]), np.eye(2)[None, None].repeat(2, 1)))
    assert facts.perfect_observation
    assert facts.sensor_margin == pytest.approx(1.0)


def test_states_that_observations_cannot_tell_apart_before_or_after() -> None:
    rng = np.random.default_rng(2)
    small = rng.dirichlet(np.ones(3), size=(2, 2, 2))
    kind = [0, 1, 1]
    table = small[:, kind][:, :, kind]
    transition = oracles.random_kernel(rng, 2, 3)
    assert analyze_structure(world(transition, table)).indistinguishable_states == ((1, 2),)
    before = table.copy()
    before[0, 2, 0] = [0.2, 0.3, 0.5]  # as the state before it, state 2 is another than state 1
    facts = analyze_structure(world(transition, before))
    assert facts.indistinguishable_states == ()
    after = table.copy()
    after[0, 0, 2] = [0.2, 0.3, 0.5]  # as the state after it
    assert analyze_structure(world(transition, after)).indistinguishable_states == ()
    before[1] = [0.2, 0.3, 0.5]
    assert analyze_structure(world(transition, before)).blind_actions == (1,)


def test_a_table_that_repeats_an_ordinary_one_has_its_structure() -> None:
    for name in ("tiger", "railway", "noisy-grid"):
        model = problem(name)
        own = model.setting
        table = np.repeat(own.observation[:, None], own.n_states, axis=1)
        one = analyze_structure(model)
        other = analyze_structure(POMDP(own.replace(observation=table), model.transition))
        assert other.sensor_margins == pytest.approx(one.sensor_margins, abs=1e-14)
        assert other.sensor_margin == pytest.approx(one.sensor_margin, abs=1e-14)
        assert other.indistinguishable_states == one.indistinguishable_states
        assert other.blind_actions == one.blind_actions
        assert other.perfect_observation == one.perfect_observation
