"""Rock sampling and tag: what their descriptions say, against the games written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from problem_runs import averages_of
from psrl_pomdp import InvalidModelError, PlanningBudget, PSRLAgent, plan, problem, simulate, verify
from psrl_pomdp.analysis.assumptions import assess


@pytest.mark.parametrize(("restart", "size", "rocks"), [(True, 3, 2), (False, 4, 4), (True, 1, 0)])
def test_a_rover_moves_samples_and_checks(restart: bool, size: int, rocks: int) -> None:
    """Every state and action against the rules of the game."""
    model = problem("rock-sample", size=size, rocks=rocks, restart=restart, good=0.3, half_distance=2.0)
    setting, index = model.setting, {name: s for s, name in enumerate(model.setting.states)}
    if (size, rocks) == (4, 4):
        places = [(3, 1), (2, 1), (1, 3), (1, 0)]
    else:
        cells = np.random.default_rng(0).permutation(size * size)[:rocks].tolist()
        places = [(cell % size, cell // size) for cell in cells]

    def name(x: int, y: int, good: tuple[bool, ...]) -> int:
        word = "-" + "".join("g" if each else "b" for each in good) if good else ""
        return index[f"x{x}y{y}{word}"]

    fields = list(itertools.product((False, True), repeat=rocks))
    new = np.zeros(model.n_states)
    for good in fields:
        new[name(0, size // 2, good)] = math.prod(0.3 if each else 0.7 for each in good)
    assert setting.initial == pytest.approx(new)
    after = new if restart else np.eye(model.n_states)[index["outside"]]
    rewards = setting.own_cost
    for x, y, good in itertools.product(range(size), range(size), fields):
        s = name(x, y, good)
        ways = {"north": (x, y + 1), "south": (x, y - 1), "east": (x + 1, y), "west": (x - 1, y)}
        for a, action in enumerate(setting.actions):
            row, reward, seen = np.eye(model.n_states)[s], 0.0, [1.0, 0.0, 0.0]
            if action in ways:
                u, v = ways[action]
                if u == size:
                    row, reward = after, 10.0
                elif u >= 0 and 0 <= v < size:
                    row = np.eye(model.n_states)[name(u, v, good)]
            elif action == "sample" and (x, y) in places:
                rock = places.index((x, y))
                reward = 10.0 if good[rock] else -10.0
                row = np.eye(model.n_states)[name(x, y, (*good[:rock], False, *good[rock + 1 :]))]
            elif action.startswith("check"):
                rock = int(action.removeprefix("check-")) - 1
                right = (1 + 2 ** (-math.dist((x, y), places[rock]) / 2.0)) / 2
                seen = [0.0, right, 1 - right] if good[rock] else [0.0, 1 - right, right]
            assert np.abs(model.transition[a, s] - row).max() < 1e-12
            assert rewards[a, s] == pytest.approx(reward, abs=1e-9)
            assert setting.observation[a, s] == pytest.approx(seen)
    if not restart:
        assert (model.transition[:, -1, -1] == 1).all()
        assert rewards[:, -1] == pytest.approx(0.0, abs=1e-9)


def test_the_published_sizes_are_those_of_the_literature() -> None:
    """States, actions and observations as in the public files; 7 x 7 is too large for dense arrays."""
    model = problem("rock-sample", size=4, rocks=4, restart=False)
    assert (model.n_states, model.n_actions, model.n_observations) == (257, 9, 3)
    game = problem("tag", columns=10, tower=3, restart=False)
    assert (game.n_states, game.n_actions, game.n_observations) == (870, 5, 30)
    with pytest.raises(InvalidModelError, match=r"12544 states and 13 actions are too many: .* 16\.4 GB"):
        problem("rock-sample", size=7, rocks=8)


def test_the_prior_of_the_rover_learns_the_rocks_alone() -> None:
    model = problem("rock-sample", good=0.2)
    prior = model.prior
    free = ~prior.known
    assert free.sum() == 3 * 4  # east from the last column, three rows and four fields
    assert len(np.unique(prior.row[free])) == 1
    assert free[2].sum() == free.sum()
    drawn = prior.sample(np.random.default_rng(0))
    assert (drawn[prior.known] == model.transition[prior.known]).all()
    fields = drawn[free][0]
    assert (drawn[free] == fields).all()
    assert (fields > 0).tolist() == (model.setting.initial > 0).tolist()


def tag_rules(columns: int, rows: int, tower: int) -> list[tuple[int, int]]:
    cells = [(x, y) for y in range(rows) for x in range(columns)]
    return cells + [(columns // 2 + x, rows + y) for y in range(tower) for x in range(tower)]


@pytest.mark.parametrize("restart", [True, False])
def test_a_target_flees_and_is_seen_in_its_own_cell(restart: bool) -> None:
    """Every state and action of a small grid with a tower against the rules of the game."""
    model = problem("tag", columns=3, rows=1, tower=1, flee=0.6, restart=restart)
    cells, setting = tag_rules(3, 1, 1), model.setting
    assert len(cells) == 4
    n_targets = 4 if restart else 5
    ways = [(0, 1), (0, -1), (1, 0), (-1, 0), (0, 0)]
    for r, robot in enumerate(cells):
        for t, target in enumerate(cells):
            s = r * n_targets + t
            assert setting.observation[0, s].tolist() == np.eye(5)[4 if r == t else r].tolist()
            law: dict[tuple[int, int], float] = {target: 0.4}
            for axis in (0, 1):
                for sign in (-1, 1):
                    away = (target[axis] - robot[axis]) * sign
                    chance = 0.3 if away > 0 else 0.15 if away == 0 else 0.0
                    to = (target[0] + sign * (axis == 0), target[1] + sign * (axis == 1))
                    to = to if to in cells else target
                    law[to] = law.get(to, 0.0) + chance
            for a, way in enumerate(ways):
                row = np.zeros(model.n_states)
                if a == 4 and r == t:
                    if restart:
                        row[:] = 1 / 16
                    else:
                        row[r * n_targets + 4] = 1.0
                else:
                    moved = (robot[0] + way[0], robot[1] + way[1])
                    here = cells.index(moved if moved in cells else robot)
                    for to, chance in law.items():
                        row[here * n_targets + cells.index(to)] += chance
                assert model.transition[a, s] == pytest.approx(row)
                reward = -1.0 if a < 4 else 10.0 if r == t else -10.0
                assert setting.own_cost[a, s] == pytest.approx(reward)
    if not restart:
        over = [r * 5 + 4 for r in range(4)]
        assert (model.transition[:, over, over] == 1).all()
        assert setting.own_cost[:, over] == pytest.approx(0.0, abs=1e-9)
        assert setting.initial[over].sum() == 0
    assert setting.initial.max() == pytest.approx(1 / 16)


def test_the_prior_of_the_robot_knows_its_own_moves() -> None:
    model = problem("tag", columns=2, rows=2)
    prior, n = model.prior, 4
    drawn = prior.sample(np.random.default_rng(1))
    for r, t in itertools.product(range(n), range(n)):
        s = r * n + t
        for a in range(5):
            if a == 4 and r == t:
                assert prior.known[a, s]
                assert (drawn[a, s] == model.transition[a, s]).all()
                continue
            robots = {int(k) // n for k in np.flatnonzero(drawn[a, s])}
            targets = {int(k) % n for k in np.flatnonzero(drawn[a, s])}
            assert robots == {int(k) // n for k in np.flatnonzero(model.transition[a, s])}
            assert targets == {t, t ^ 1, t ^ 2}  # its cell and the two next to it
            # Pairs that lead to the same cell of the robot share what the target does.
            for b in range(a):
                shared = prior.row[a, s] == prior.row[b, s]
                same = robots == {int(k) // n for k in np.flatnonzero(drawn[b, s])}
                assert shared == same


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("rock-sample", {"size": 1, "rocks": 2}, "rocks is 2, more than the 1 cells of the field"),
        ("rock-sample", {"restart": 1}, "restart is 1, not true or false"),
        ("rock-sample", {"half_distance": 0.0}, "half_distance is 0"),
        ("tag", {"columns": 3, "tower": 3}, "tower is 3, wider than the 2 columns below it"),
        ("tag", {"restart": "no"}, "restart is 'no', not true or false"),
        ("tag", {"columns": 60, "rows": 60}, "12960000 states and 5 actions are too many"),
    ],
)
def test_refusals(name: str, parameters: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        problem(name, **parameters)


@pytest.mark.parametrize(("name", "parameters"), [("rock-sample", {"size": 2, "rocks": 1}), ("tag", {})])
def test_a_small_instance_is_planned_for_and_simulated_inside_of_its_interval(
    name: str, parameters: dict[str, int]
) -> None:
    model = problem(name, **parameters)
    best = plan(model, 1e-4)
    assert best.status == "closed"
    assert verify(best, model) == pytest.approx((best.lower, best.upper))
    rewards = averages_of(best, model, 16, 1000, seed=5)
    # The mean of 16 runs within seven standard errors: t with 15 degrees of freedom, false alarm under 1e-5.
    error = 7 * rewards.std(ddof=1) / 4 + 10 / 1000  # and the last game, which may be unfinished
    assert best.lower - error < rewards.mean() < best.upper + error
    assert error < 0.3 * best.upper


@pytest.mark.parametrize("name", ["rock-sample", "tag"])
def test_an_agent_learns_from_the_prior_of_the_story(name: str) -> None:
    model = problem(name, **({"size": 2, "rocks": 1} if name == "rock-sample" else {"columns": 2}))
    agent = PSRLAgent(model.prior, seed=3, budget=PlanningBudget(tolerance=lambda start: 0.05))
    trace = simulate(model, agent, 25, seed=4, driver="streaming")
    assert trace.horizon == 25
    kernel = agent.posterior.mean()
    assert (kernel[model.prior.concentration == 0] == 0).all()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("rock-sample", {"size": 2, "rocks": 1}),
        ("tag", {"columns": 2, "rows": 1}),
        ("bridge-ratings", {"ratings": 3}),
        ("fatigue-crack", {"levels": 3}),
    ],
)
def test_the_assumptions_are_checked(name: str, parameters: dict[str, int]) -> None:
    """`psrl-pomdp check`: what the description says holds is not found to fail."""
    model = problem(name, **parameters)
    found = assess(model, model.family or model.prior, horizon=12, seeds=1)
    assert found.bellman.verdict != "fails"
    if model.entry.assumptions.bellman.startswith("holds"):
        assert "hold" in found.bellman.verdict, found.bellman
