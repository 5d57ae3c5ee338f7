"""Names of hidden states: the move that renames them, and what can be said of them before a run."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from psrl_pomdp import (
    DirichletCosts,
    DirichletPosterior,
    DirichletPrior,
    DirichletSensor,
    FinitePrior,
    LabelWarning,
    PSRLAgent,
    Setting,
    problem,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.analysis import assess, label_symmetries
from psrl_pomdp.inference import permutations, refresh
from psrl_pomdp.inference.refresh import AdaptationState, gibbs, hamiltonian, rename_states
from psrl_pomdp.inference.rows import FreeRows, free_rows
from psrl_pomdp.testing.calibration import add_steps, functionals, replay, simulate_from_prior, z_scores


def blank(n_states: int = 2, cost: Any = None, initial: Any = None, **more: Any) -> Setting:
    paid = np.zeros((2, n_states)) if cost is None else cost
    start = np.full(n_states, 1 / n_states) if initial is None else initial
    return Setting(np.full((n_states, 2), 0.5), paid, start, **more)


def flat(own: Setting, sensor: Any = None, **more: Any) -> DirichletPrior:
    counts = np.ones((own.n_states, 2)) if sensor is None else sensor
    return DirichletPrior(
        own, np.ones((2, own.n_states, own.n_states)), sensor=DirichletSensor(counts), **more
    )


def test_both_names_of_two_states_stay_equally_probable() -> None:
    """With a flat prior and a uniform start, P(η(0 | 0) > η(0 | 1) | observations) is 1/2.

    32 kernels deviate from 1/2 by 0.088 (rms). Below 0.145 for 24 histories: false alarm 1e-5. Without the
    move that renames states it is 0.15 or more, and with the same renaming for all kernels, too.
    """
    prior, rng, found = flat(blank()), np.random.default_rng(3), []
    for _ in range(24):
        world = simulate_from_prior(prior, 120, rng)
        posterior: Any = replay(prior.posterior(rng), world.history)
        posterior.refresh()
        found.append(np.mean(_first_column(posterior._rows, posterior._log_rows) > 0))
    assert np.sqrt(np.mean((np.array(found) - 0.5) ** 2)) < 0.145


def _first_column(rows: FreeRows, log_rows: Array) -> Array:
    """η(0 | 0) − η(0 | 1) under each kernel."""
    eta = rows.observation(log_rows)
    return np.asarray(eta[0, 0, 0] - eta[0, 1, 0])


def test_one_renaming_mixes_the_names() -> None:
    """All of 400 kernels have one order of the names before the move, and half of them after it.

    The number is binomial, because no proposal is rejected; five standard deviations: false alarm 6e-7.
    """
    posterior = _lived(flat(blank()), 200, 400)
    rows, past, space = posterior._rows, posterior._past, posterior._space
    one_way = np.repeat(posterior._log_rows[..., :1], 400, axis=-1)
    after = rename_states(rows, one_way, [past], space, np.random.default_rng(1))
    before = _first_column(rows, one_way)
    share = np.mean(np.sign(_first_column(rows, after)) == np.sign(before))
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(400)


def _lived(prior: DirichletPrior, length: int, size: int) -> Any:
    rng = np.random.default_rng(4)
    posterior = DirichletPosterior(prior, rng, size=size)
    replay(posterior, simulate_from_prior(prior, length, rng).history)
    return posterior


def uneven() -> DirichletPrior:
    """Three slow states with a prior that says a little about their names, and a start that says more."""
    rng = np.random.default_rng(5)
    return DirichletPrior(
        blank(3, initial=[0.9, 0.1, 0.0]),
        rng.uniform(0.5, 2.0, (2, 3, 3)) + 20 * np.eye(3),
        sensor=DirichletSensor(rng.uniform(0.5, 2.0, (3, 2))),
        costs=DirichletCosts([0.0, 1.0], rng.uniform(0.5, 2.0, (2, 3, 2))),
    )


@pytest.mark.parametrize("move", ["gibbs", "hmc", "renaming"])
def test_moves_leave_the_joint_posterior_invariant(move: str) -> None:
    """An exact null: from a truth, given its history, moves lead to what is distributed as the truth.

    20 paired z-scores over 500 replicates, threshold 4.8: false alarm 20 × 1.6e-6 = 3e-5 for each move.
    """
    prior, rng, gaps = uneven(), np.random.default_rng(8), []
    for _ in range(500):
        world = simulate_from_prior(prior, 6, rng)
        posterior = DirichletPosterior(prior, rng, size=4)
        posterior.start(world.history.first)
        add_steps(posterior, world.history)
        rows, past, space = posterior._rows, posterior._past, posterior._space
        space.fit(past.length)
        assert world.setting is not None
        log_rows = np.repeat(_log_rows_of(rows, world.kernel, world.setting)[..., None], 4, axis=-1)
        for _ in range(2):
            if move == "gibbs":
                log_rows = gibbs(rows, log_rows, [past], space, rng)[0]
            elif move == "hmc":
                # A step so long that a good part of the proposals must be refused.
                log_rows = hamiltonian(rows, log_rows, [past], space, AdaptationState(step=1.2), rng)
            else:
                log_rows = rename_states(rows, log_rows, [past], space, rng)
        moved = type(posterior._group)(rows, log_rows, None, posterior._group.initial, space)  # type: ignore[arg-type]
        kernels = np.concatenate([world.kernel[None], moved.kernels.transpose(3, 0, 1, 2)])
        settings = [world.setting, *map(moved.setting_of, range(4))]
        found = functionals(settings, kernels, world.initial, world.history)
        gaps.append(found[1:].mean(axis=0) - found[0])
    assert np.abs(z_scores(np.array(gaps))).max() < 4.8


def _log_rows_of(rows: FreeRows, kernel: Array, own: Setting) -> Array:
    """The free rows of a model."""
    found = np.zeros(rows.concentration.shape)
    assert rows.sensor is not None
    assert rows.costs is not None
    assert own.seen_cost is not None
    for where, table in (
        (rows.kernel.where, kernel),
        (rows.sensor.where, own.observation[0]),
        (rows.costs.where, own.seen_cost.probabilities),
    ):
        for place in np.ndindex(where.shape):
            found[where[place], : table.shape[-1]] = table[place]
    with np.errstate(divide="ignore"):
        return np.log(found)


def test_renamings_are_those_that_map_free_rows_to_free_rows() -> None:
    three = blank(3)
    assert len(free_rows(flat(three)).permutations) == 5
    assert free_rows(DirichletPrior(three, np.ones((2, 3, 3)))).permutations == []  # the sensor is known
    known = flat(three, known={(1, 0): [1, 0, 0], (1, 1): [1, 0, 0], (1, 2): [1, 0, 0]})
    assert [pi.tolist() for pi in free_rows(known).permutations] == [[0, 2, 1]]
    sensor = DirichletSensor(np.ones((3, 2)), known={2: [0.5, 0.5]})
    told = DirichletPrior(three, np.ones((2, 3, 3)), sensor=sensor)
    assert [pi.tolist() for pi in free_rows(told).permutations] == [[1, 0, 2]]
    tied = flat(three, ties=[[(0, 0), (0, 1)]])
    assert [pi.tolist() for pi in free_rows(tied).permutations] == [[1, 0, 2]]
    concentration = np.ones((2, 3, 3))
    concentration[0, 0, 1] = 0.0
    ring = DirichletPrior(three, concentration, sensor=DirichletSensor(np.ones((3, 2))))
    assert free_rows(ring).permutations == []
    assert len(free_rows(flat(blank(6))).permutations) == 15  # exchanges of two states


def test_a_renaming_that_the_prior_excludes_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = _lived(flat(blank(), np.array([[90.0, 10.0], [10.0, 90.0]])), 20, 16)

    def evaluated(*_: Any) -> Array:
        raise AssertionError("the likelihood was computed")

    monkeypatch.setattr(refresh, "log_likelihood", evaluated)
    rows, past, space = posterior._rows, posterior._past, posterior._space
    after = rename_states(rows, posterior._log_rows, [past], space, np.random.default_rng(1))
    assert after is posterior._log_rows


def test_a_renamed_model_has_the_same_likelihood() -> None:
    """Of the observations after a uniform start; and every table is renamed alike."""
    posterior = _lived(flat(blank(3)), 40, 64)
    rows, past, space = posterior._rows, posterior._past, posterior._space
    proposed, hopeful = permutations.renamed(rows, posterior._log_rows, np.random.default_rng(2))
    before = refresh.log_likelihood(rows, posterior._log_rows, [past], space)
    assert refresh.log_likelihood(rows, proposed, [past], space) == pytest.approx(before, abs=1e-9)
    assert 30 < hopeful.sum() < 64  # five sixths, and never the identity
    for number, pi in enumerate(rows.permutations):
        mapped = permutations.row_map(rows, pi)
        assert mapped is not None
        source, columns = mapped
        renamed = posterior._log_rows[source[:, None], columns]
        kernels = rows.kernels(posterior._log_rows)
        assert rows.kernels(renamed) == pytest.approx(kernels[:, pi][:, :, pi]), number
        eta = rows.observation(posterior._log_rows)
        assert rows.observation(renamed) == pytest.approx(eta[:, pi]), number


# -- before a run ----------------------------------------------------------------------------------

UNEQUAL = [[0.0, 9.0], [1.0, 1.0]]


def test_what_makes_names_of_states_learnable() -> None:
    own = blank(cost=UNEQUAL, states=["good", "worn"])
    found = label_symmetries(flat(own))
    assert [each.states for each in found] == [(1, 0)]
    assert (found[0].evidence, found[0].harmful, found[0].start_agrees) == (0.0, True, True)
    assert "good → worn, worn → good: the names of good and worn cannot be learned" in found[0].text(own)
    calibrated = np.array([[9.0, 1.0], [1.0, 9.0]])
    assert label_symmetries(flat(own, calibrated)) == []
    assert label_symmetries(flat(own.replace(seen_cost="exact"))) == []
    assert label_symmetries(flat(own, known={(1, 0): [1, 0], (1, 1): [1, 0]})) == []
    one_way = np.ones((2, 2, 2))
    one_way[0, 1, 0] = 0.0
    assert label_symmetries(DirichletPrior(own, one_way, sensor=DirichletSensor(np.ones((2, 2))))) == []
    harmless = label_symmetries(flat(blank(cost=[[0.0, 0.0], [1.0, 1.0]])))
    assert [(each.harmful, each.costs_agree) for each in harmless] == [(False, True)]
    assert "no harm" in harmless[0].text(blank())
    unknown = flat(own, costs=DirichletCosts([0.0, 9.0], np.ones((2, 2, 2))))
    assert [each.harmful for each in label_symmetries(unknown)] == [False]  # the costs are learned alike
    started = label_symmetries(flat(own.replace(initial=[1.0, 0.0])))
    assert [(each.harmful, each.start_agrees) for each in started] == [(True, False)]
    assert "except for the start" in started[0].text(own)
    first = own.replace(first_observation=[[0.9, 0.1], [0.1, 0.9]])
    by_action = DirichletPrior(first, np.ones((2, 2, 2)), sensor=DirichletSensor(np.ones((2, 2, 2))))
    assert label_symmetries(by_action) == []  # the table of the first observation tells the states apart


def test_weak_evidence_is_the_divergence_of_the_renamed_prior() -> None:
    own = blank(cost=UNEQUAL)
    weak = flat(own, np.array([[2.0, 1.0], [1.0, 1.5]]))
    (found,) = label_symmetries(weak)
    total = 0.0
    for alpha, other in (([2.0, 1.0], [1.0, 1.5]), ([1.0, 1.5], [2.0, 1.0])):
        a, b = np.array(alpha), np.array(other)
        total += gammaln(a.sum()) - gammaln(b.sum()) + (gammaln(b) - gammaln(a)).sum()
        total += ((a - b) * (digamma(a) - digamma(a.sum()))).sum()
    assert found.evidence == pytest.approx(total, rel=1e-12)
    assert not found.harmful
    assert "nats of the prior" in found.text(own)
    assert label_symmetries(weak, most_evidence=0.1) == []


def test_names_in_a_finite_set() -> None:
    """The second model is the first one with renamed states."""
    own = blank(cost=UNEQUAL)
    kernel, table = np.array([[[0.9, 0.1], [0.3, 0.7]]] * 2), np.array([[0.8, 0.2], [0.4, 0.6]])
    twin, other = kernel[:, ::-1, ::-1], table[::-1]
    (found,) = label_symmetries(FinitePrior(own, [kernel, twin], [0.5, 0.5], sensors=[table, other]))
    assert found.harmful
    assert label_symmetries(FinitePrior(own, [kernel, twin], sensors=[table, table])) == []
    assert label_symmetries(FinitePrior(own, [kernel, twin], [0.99, 0.01], sensors=[table, other])) == []


def test_an_agent_warns_once_of_names_that_it_cannot_learn() -> None:
    own = blank(cost=UNEQUAL)
    with pytest.warns(LabelWarning, match="cannot be learned") as caught:
        PSRLAgent(flat(own))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PSRLAgent(flat(own, np.array([[9.0, 1.0], [1.0, 9.0]])))
        PSRLAgent(flat(own.replace(seen_cost="exact")))
        PSRLAgent(flat(blank(cost=[[0.0, 0.0], [1.0, 1.0]])))
        PSRLAgent(DirichletPrior(own, np.ones((2, 2, 2))))


def test_an_assessment_lists_the_names() -> None:
    world = problem("lookalikes")
    assert world.family is not None
    found = assess(world, world.family, horizon=50, seeds=2)
    assert [each.states for each in found.labels] == [(0, 2, 1)]
