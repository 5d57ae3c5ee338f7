"""The paper's bounds in closed form, what must hold along runs, and kernels that cannot be told apart."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from math import e, exp, log, sqrt
from typing import Any

import numpy as np
import pytest

import oracles
from psrl_pomdp import (
    POMDP,
    FinitePrior,
    InvalidModelError,
    PSRLAgent,
    Setting,
    Trace,
    TSDESchedule,
    bayesian_runs,
    check_run,
    finite_bound,
    general_bound,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.agents import compiled_steps as steps
from psrl_pomdp.agents.schedules import FixedSchedule
from psrl_pomdp.analysis.bounds import (
    Constant,
    FiniteBound,
    doubling_episodes,
    likelihood_ranges,
    most_episodes,
    most_weighted_lengths,
    rate,
)
from psrl_pomdp.analysis.concentration import VANISHED, belief_gaps, estimate_concentration, trend
from psrl_pomdp.analysis.confusion import average_cost, confusions, first_nodes, same_observations
from psrl_pomdp.analysis.run_checks import check_pseudo_counts, pseudo_count_frequency
from psrl_pomdp.analysis.separation import separation
from random_agents import COARSE, Coin, dirichlet, family


def given(value: float) -> Constant:
    return Constant(value, "given", "")


def seen(rows: Any, cost: Any = ((0.0, 1.0), (1.0, 0.0))) -> FinitePrior:
    """Kernels `[M, A, S, S]` of two states in plain sight."""
    return FinitePrior(Setting(np.eye(2), cost, [0.5, 0.5]), rows)


# -- the finite case ----------------------------------------------------------------------------


def test_theorem_one_by_hand() -> None:
    """H = 2, α = 12, β = 1/2; two episodes by T = 3 to 6, of lengths 2 and 4 from 1 and 3."""
    bound = FiniteBound(given(2.0), given(1.0), given(1.0), given(12.0), given(0.5))
    wanted = 2 * 2 + 10 * 12 * (2 * exp(-0.5) + 4 * exp(-1.5))
    np.testing.assert_allclose(bound.proved([3, 6]), [wanted, wanted])
    assert float(bound.proved(1)) == pytest.approx(2 + 120 * 2 * exp(-0.5))
    assert float(bound.corrected(3)) == pytest.approx(4 + 120 * (2 + 4 * exp(-1.0)))
    assert float(bound.stated(8)) == pytest.approx(2 * 3 + 12 / (exp(-0.5) - 1) ** 2)


def test_bounds_that_promise_nothing_and_that_need_nothing() -> None:
    blind = FiniteBound(given(1.0), given(0.0), given(1.0), given(4.0), given(0.0))
    assert float(blind.stated(10)) == np.inf
    assert float(blind.proved(7)) == pytest.approx(3 + 6 * 4 * (2 + 4 + 8))  # more than T
    single = finite_bound(FinitePrior(separated().setting, separated().kernels[:1]), span=1.5)
    np.testing.assert_allclose(single.corrected([1, 1023]), [1.5, 15.0])  # H K_T


def test_alpha_and_beta_by_hand() -> None:
    own = separated()
    bound = finite_bound(FinitePrior(own.setting, own.kernels, [0.1, 0.3, 0.3, 0.3]), span=1.0)
    assert bound.alpha.value == pytest.approx(2 * 9)  # (1 − .1)/.1 = 9, above 2·3
    assert finite_bound(own, span=1.0).alpha.value == pytest.approx(2 * 2 * 3)
    assert rate(0.4, 1.0) == pytest.approx(0.02)
    assert rate(0.4, 0.2) == pytest.approx(0.2)  # where ε/2 is less
    epsilon, d = bound.epsilon.value, bound.spread.value
    assert bound.beta.value == pytest.approx(min(epsilon / 2, epsilon**2 / (8 * d * d)))
    assert {c.basis for c in (bound.epsilon, bound.spread, bound.alpha, bound.beta)} == {"computed"}
    assert finite_bound(own).span.basis == "estimated"
    with pytest.raises(InvalidModelError, match="prior weight 0"):
        finite_bound(FinitePrior(own.setting, own.kernels, [0.0, 0.4, 0.3, 0.3]), span=1.0)


def test_likelihood_ranges_by_hand() -> None:
    """After action 0 reading 0 has .7 or .6 under one kernel and .2 or .3 under the other."""
    one, other = [[0.7, 0.3], [0.6, 0.4]], [[0.2, 0.8], [0.3, 0.7]]
    ranges = likelihood_ranges(seen([[one, one], [other, one]]))
    assert ranges[0, 1, 0] == pytest.approx(log(0.7 / 0.2) - log(0.3 / 0.8))
    assert ranges[1, 0, 0] == pytest.approx(log(0.8 / 0.3) - log(0.2 / 0.7))
    assert ranges[0, 1, 1] == pytest.approx(2 * log(0.4 / 0.3))  # the same rows, other beliefs
    assert ranges[0, 0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([[0.7, 0.3], [0.7, 0.3]], [[1.0, 0.0], [0.5, 0.5]]),  # never by some beliefs of the other
        ([[1.0, 0.0], [0.5, 0.5]], [[0.7, 0.3], [0.7, 0.3]]),
        ([[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]),  # never at all
    ],
)
def test_likelihood_ranges_where_readings_are_excluded(one: Any, other: Any) -> None:
    assert likelihood_ranges(seen([[one, one], [other, other]]))[0, 1, 0] == np.inf


def test_readings_that_never_come_are_left_out() -> None:
    setting = Setting([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]], [[0.0, 1.0]], [0.5, 0.5])
    prior = FinitePrior(setting, [[[[0.9, 0.1], [0.8, 0.2]]], [[[0.3, 0.7], [0.2, 0.8]]]])
    assert np.isfinite(likelihood_ranges(prior)).all()


def test_ranges_hold_every_log_likelihood_ratio() -> None:
    prior, rng = family(50, sensors=2), np.random.default_rng(0)
    ranges = likelihood_ranges(prior)
    readings = prior.kernels @ prior.setting.observation
    for _ in range(200):
        b, c = rng.dirichlet(np.full(3, 0.3), 2)
        for m, n, a in product(range(len(prior)), range(len(prior)), range(2)):
            if m != n:
                ratios = np.log(b @ readings[m, a]) - np.log(c @ readings[n, a])
                assert np.ptp(ratios) <= ranges[m, n, a] + 1e-12


def test_regret_and_posterior_are_within_the_bounds_of_theorem_one() -> None:
    prior = separated()
    bound = finite_bound(prior)
    traces = [simulate(prior.model(0), PSRLAgent(prior, seed=i, budget=COARSE), 127, i) for i in range(10)]
    wrong = 1.0 - np.mean([trace.checkpoints.truth for trace in traces], axis=0)
    times = traces[0].times
    assert (wrong <= bound.alpha.value * np.exp(-bound.beta.value * (times - 1.0))).all()
    best = plan(prior.model(0), 1e-5)
    mean = np.mean([trace.regret_curve(best)[1] for trace in traces], axis=0)
    assert (mean <= bound.proved(times)).all()


# -- the general case and the lemmas on episodes ------------------------------------------------


def test_the_general_bound_by_hand() -> None:
    setting = Setting(np.eye(2), [[0.0, 1.0]], [0.5, 0.5])  # |S||A| = 2
    bound = general_bound(setting, given(1.0), given(3.0), given(0.5))
    macro = 1 + 2 * 2  # log₂(3 + 1) = 2
    terms = bound.terms(3)
    assert float(terms["episodes"]) == pytest.approx(2 * sqrt(6 * macro))
    assert float(terms["kernel"]) == pytest.approx(12 * 0.5 * 6 ** (2 / 3))
    assert float(terms["belief"]) == pytest.approx(7 * 2 * 3 * sqrt(6) * macro * log(sqrt(6)))
    assert float(bound.at(3)) == pytest.approx(sum(float(t) for t in terms.values()))
    assert float(terms["rest"]) == 3.0


def test_lemmas_by_hand() -> None:
    assert doubling_episodes([1, 2, 3, 7, 8, 2**40 - 2, 2**40 - 1]).tolist() == [1, 1, 2, 3, 3, 39, 40]
    assert float(most_episodes(7, 4)) == pytest.approx(sqrt(14 * 13))
    assert float(most_episodes(7, 4, ruled_out=2)) == pytest.approx(sqrt(14 * 15))
    assert float(most_weighted_lengths(e**2 / 2, 0)) == pytest.approx(7 * e)  # √(2T) = e


# -- along runs ---------------------------------------------------------------------------------


def separated() -> FinitePrior:
    found = problem("separated").family
    assert found is not None
    return found


@cache
def finite_run() -> Trace:
    return simulate(separated().model(0), PSRLAgent(separated(), budget=COARSE), 200)


@cache
def general_run() -> Trace:
    prior = dirichlet(family(51).setting)
    return simulate(family(51).model(0), PSRLAgent(prior, budget=COARSE), 200)


def test_good_runs_violate_nothing() -> None:
    assert check_run(finite_run()) == []
    assert check_run(general_run()) == []
    prior = family(52, sensors=2)
    for seed in range(5):
        agent = PSRLAgent(prior, TSDESchedule(), seed=seed, budget=COARSE)
        assert check_run(simulate(prior.model(1), agent, 500, seed)) == []
    assert check_run(simulate(prior.model(0), Coin(2), 50)) == []
    fixed = simulate(prior.model(0), PSRLAgent(prior, FixedSchedule(7), budget=COARSE), 60)
    assert check_run(fixed, FixedSchedule(7)) == []
    assert check_run(fixed) != []  # it is no doubling schedule


def test_kernels_that_are_ruled_out_may_end_episodes() -> None:
    one, other = [[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]
    prior = seen([[one, one], [other, other]])
    for schedule in (None, TSDESchedule()):
        traces = [simulate(prior.model(0), PSRLAgent(prior, schedule, i), 100, i) for i in range(8)]
        assert any(ep.ended == "kernel ruled out" for trace in traces for ep in trace.episodes)
        assert [check_run(trace) for trace in traces] == [[]] * 8


def bent(trace: Trace, **changes: Any) -> Trace:
    return replace(trace, checkpoints=replace(trace.checkpoints, **changes))


def test_every_violation_is_found() -> None:
    run, points = general_run(), general_run().checkpoints
    sums = points.sums.copy()
    sums[:, steps.COST_GAP] = sums[:, steps.BELIEF_GAP]
    much = points.sums.copy()
    much[:, steps.KERNEL_GAP] *= 300.0
    falling = points.pseudo.copy()
    falling[-2] += 1
    for broken, text in (
        (bent(run, pseudo=points.pseudo - 1), "is below ⌈ñ⌉"),
        (bent(run, pseudo=points.pseudo + 500), "is above t"),
        (bent(run, pseudo=falling), "has fallen"),
        (bent(run, expected=1.01 * points.expected, pseudo=points.pseudo), "not to t − 1"),
        (bent(run, visits=points.visits + 1), "visits were counted"),
        (bent(run, episodes=points.episodes + 1), "episodes started"),
        (bent(run, episodes=points.episodes + 900), "above the lemma's"),
        (bent(run, sums=sums), "R_3 adds up"),
        (bent(run, sums=much), "the distance of the kernels adds up"),
        (bent(run, sums=-points.sums), "C(s, a) adds up"),
        (replace(run, episodes=run.episodes[:-1]), "cover"),
        (replace(run, episodes=run.episodes[1:]), "not at 1"),
    ):
        assert any(text in finding.text for finding in check_run(broken)), text
    long = replace(run, episodes=(replace(run.episodes[0], length=200),))
    texts = [finding.text for finding in check_run(long)]
    assert any("above T_(k−1) + 1 = 2" in text for text in texts)
    assert any(text.startswith("max T_k") for text in texts)
    shifted = [replace(ep, start=ep.start + (ep.start > 1)) for ep in finite_run().episodes]
    texts = [finding.text for finding in check_run(replace(finite_run(), episodes=tuple(shifted)))]
    assert "episode 2 starts at 4, not at 2^2 − 1" in texts


def test_pseudo_counts_over_runs_from_the_prior() -> None:
    prior = family(53)
    traces, _ = bayesian_runs(
        prior,
        40,
        120,
        agent=lambda seed: PSRLAgent(prior, TSDESchedule(), seed, budget=COARSE),
        tolerance=0.1,
        checkpoints=[5, 40],
    )
    assert check_pseudo_counts(traces) == []
    low = [bent(trace, pseudo=trace.checkpoints.pseudo // 8) for trace in traces]
    found = check_pseudo_counts(low)
    assert found
    assert "of 120 runs" in found[0].text


def test_pseudo_count_frequency_by_hand() -> None:
    """n_t counts the steps before t: a visit at step t itself is taken off."""
    run = general_run()
    action = int(run.actions[9])
    visits = np.zeros((1, *run.checkpoints.visits.shape[1:]), np.int64)
    visits[0, action, 0], visits[0, 1 - action, 0] = 5, 5
    at = {"times": np.array([10]), "visits": visits, "sums": run.checkpoints.sums[:1]}
    found = pseudo_count_frequency([bent(run, pseudo=2 + 0 * visits, **at)], [0.5, 0.4])
    assert found[:, 0, action, 0].tolist() == [0.0, 0.0]  # 2 < 4/2 is false
    assert found[:, 0, 1 - action, 0].tolist() == [1.0, 0.0]  # 2 < 5/2, 2 = .4·5
    with pytest.raises(InvalidModelError, match="between 0 and 1"):
        pseudo_count_frequency([run], [1.5])


# -- concentration ------------------------------------------------------------------------------


def test_trends() -> None:
    times = np.array([1, 10, 100, 1000])
    assert trend(times, 2.0 * times**0.5) == pytest.approx(0.5)
    assert trend(times, np.ones(4)) == pytest.approx(0.0)
    assert trend(times, np.array([1.0, 1.0, 0.5, 0.0])) == VANISHED


def test_belief_gaps_by_hand() -> None:
    run = general_run()
    episodes = tuple(replace(run.episodes[0], start=start) for start in (1, 4))
    sums = np.zeros((2, 5))
    sums[:, steps.BELIEF_GAP] = [0.6, 3.0]
    points = replace(run.checkpoints, times=np.array([3, 9]), sums=sums)
    found = belief_gaps(replace(run, episodes=episodes, checkpoints=points))
    np.testing.assert_allclose(found, [0.2, 2.0 * 2.4 / 6])


def test_concentration_tells_learning_from_none() -> None:
    learned = estimate_concentration(separated(), 300, 4)
    assert learned.kernel_trend[0] == VANISHED
    assert learned.k1.basis == learned.k2.basis == "estimated"
    blind = estimate_concentration(problem("no-sensor").prior, 300, 4)
    assert blind.kernel_trend[1] > 0.3
    rows = np.abs(np.diff(problem("no-sensor").family.kernels, axis=0)).sum(axis=3).max()  # type: ignore[union-attr]
    found = estimate_concentration(problem("no-sensor").family, 100, 4)  # type: ignore[arg-type]
    assert found.k2.value == pytest.approx(rows * 10.0)  # √m̃ = √100, MAP wrong in some run


# -- confusion ----------------------------------------------------------------------------------


def probabilities(model: POMDP, actions: tuple[int, ...], readings: tuple[int, ...]) -> float:
    belief = model.setting.initial
    for a, o in zip(actions, readings, strict=True):
        belief = (belief @ model.transition[a]) * model.setting.observation[a][:, o]
    return float(belief.sum())


def test_same_observations_against_enumeration() -> None:
    """All histories of four steps; kernels that are alike by relabelling hidden states, or nearly."""
    rng = np.random.default_rng(5)
    for case in range(12):
        n_actions, n_states = 2, 3
        sensor = rng.dirichlet(np.ones(2), n_states)
        sensor[2] = sensor[1]  # states 1 and 2 read alike
        kernel = oracles.random_kernel(rng, n_actions, n_states, 1.0)
        swapped = kernel[:, [0, 2, 1]][:, :, [0, 2, 1]]
        if case % 3 == 1:
            swapped[0, 0] = rng.dirichlet(np.ones(3))
        setting = Setting(sensor, np.zeros((2, 3)), [1.0, 0.0, 0.0], first_observation=None)
        one, other = POMDP(setting, kernel), POMDP(setting, swapped)
        alike = all(
            abs(probabilities(one, a, o) - probabilities(other, a, o)) < 1e-12
            for a in product(range(2), repeat=4)
            for o in product(range(2), repeat=4)
        )
        assert alike == (case % 3 != 1)
        assert same_observations(one, other) == alike


def test_no_history_is_forgotten() -> None:
    """Only a reading right after action 0 tells these apart; what action 1 is part of says nothing."""
    sensor = np.array([[[1, 0], [0, 1], [1, 0], [1, 0]], [[1, 0], [0, 1], [1, 0], [1, 0]]], float)
    setting = Setting(sensor, np.zeros((2, 4)), [1.0, 0.0, 0.0, 0.0], first_observation=None)
    kernels = np.zeros((2, 2, 4, 4))
    kernels[:, 0] = np.eye(4)[[1, 1, 2, 1]]
    kernels[1, 0, 0] = [0.0, 0.0, 1.0, 0.0]
    kernels[:, 1, :, 1] = [1.0, 0.5, 0.5, 0.0]
    kernels[:, 1, :, 2] = [0.0, 0.5, 0.5, 1.0]
    one, other = (POMDP(setting, kernel) for kernel in kernels)
    assert probabilities(one, (0,), (1,)) == 1.0
    assert probabilities(other, (0,), (1,)) == 0.0
    assert not same_observations(one, other)
    assert same_observations(one, other, (1,))


def test_who_is_told_apart_and_by_what() -> None:
    storms, tiger = problem("lookalikes").family, problem("tiger").family
    assert storms is not None
    assert tiger is not None
    assert same_observations(storms.model(0), storms.model(1))
    assert not same_observations(tiger.model(0), tiger.model(1))
    assert same_observations(tiger.model(0), tiger.model(1), (0,))  # listening alone


def test_confusing_costs_what_it_costs() -> None:
    """In the wrong storm's world its plan pays 1 whenever there is a storm: .3 of the time."""
    storms = problem("lookalikes").family
    assert storms is not None
    plans = [plan(storms.model(m), 1e-6) for m in range(2)]
    (found,) = confusions(storms, separation(storms), plans)
    assert found.excess == pytest.approx((0.3, 0.3), abs=1e-6)
    assert found.indistinguishable
    assert found.refuted
    assert not found.harmless
    assert "no policy distinguishes kernels 0 and 1 (confusing them costs up to 0.3 a step)" in found.text(
        storms.setting
    )


def test_harmless_confusion() -> None:
    """Kernels that differ in how often hidden twins follow one another, at the same cost."""
    setting = Setting(
        [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0, 1.0], [0.5, 0.2, 0.2]], [1.0, 0.0, 0.0]
    )
    one = np.tile([0.5, 0.4, 0.1], (2, 3, 1))
    prior = FinitePrior(setting, [one, one[..., [0, 2, 1]]])
    plans = [plan(prior.model(m), 1e-6) for m in range(2)]
    (found,) = confusions(prior, separation(prior), plans)
    assert found.indistinguishable
    assert found.harmless
    assert "harmless" in found.text(setting)


def test_average_costs_of_controllers_in_their_own_world() -> None:
    for prior in (family(54), family(55, first=False, sensors=2)):
        best = plan(prior.model(0), 1e-4)
        own = average_cost(best, prior.model(0), prior.model(0))
        assert best.lower_cost - 1e-9 <= own <= best.upper_cost + 1e-9
        other = plan(prior.model(1), 1e-4)
        assert average_cost(best, prior.model(0), prior.model(1)) >= other.lower_cost - 1e-9


def test_controllers_start_in_the_node_of_the_first_reading() -> None:
    prior = family(59)
    thought, truth = prior.model(0), prior.model(1)
    best = plan(thought, 1e-4)
    first = truth.setting.first_observation
    assert first is not None
    found = first_nodes(best, thought, truth)
    assert (found.sum(axis=1) > 0.0).sum() == 3
    for o in range(truth.n_observations):
        belief = thought.setting.initial * first[:, o]
        node = best.follow(belief / belief.sum()).node
        np.testing.assert_allclose(found[node], truth.setting.initial * first[:, o])


def test_average_cost_of_a_wrong_plan_by_simulation() -> None:
    """20,000 steps of the controller; batches of 100 give the error, 5 of which are allowed: 6e-7."""
    prior = family(56)
    best, truth = plan(prior.model(0), 1e-3), prior.model(1)

    class Follower:
        run: Any = None

        def act(self, observation: int | None) -> int:
            if self.run is None:
                assert observation is not None
                belief = truth.setting.initial * truth.setting.first_observation[:, observation]  # type: ignore[index]
                self.run = best.follow(belief / belief.sum())
            elif observation is not None:
                self.run.read(observation)
            return int(self.run.action)

    trace = simulate(truth, Follower(), 20_000, every_step=True)
    assert trace.states is not None
    paid = truth.setting.cost[trace.actions, trace.states[:-1]].reshape(200, 100).mean(axis=1)
    error = paid.std(ddof=1) / sqrt(200)
    assert abs(paid.mean() - average_cost(best, prior.model(0), truth)) < 5 * error
