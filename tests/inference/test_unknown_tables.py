"""The joint posterior over dynamics, observation models and costs, against sums over all hidden paths."""

from __future__ import annotations

import numpy as np
import pytest

from joint_oracles import Step, every_joint_path
from psrl_pomdp import DirichletPosterior, DirichletPrior, FinitePrior
from psrl_pomdp.inference import filter_bank as filtering
from psrl_pomdp.inference import hmc
from psrl_pomdp.inference.refresh import beliefs_and_visits, gibbs, log_likelihood
from psrl_pomdp.inference.sampled_filter import NO_REFRESH
from psrl_pomdp.sensors.costs import SeenCosts
from unknown_table_priors import (
    KERNELS,
    NOISY,
    begun,
    by_row,
    costs_of,
    each_prior,
    history,
    setting,
    sums_of,
    table,
    tables_of,
)


@each_prior
@pytest.mark.parametrize("first_missing", [False, True])
def test_likelihoods_expected_counts_and_visits_are_sums_over_paths(
    prior: DirichletPrior, first_missing: bool
) -> None:
    first, steps = history(prior, 5, first_missing)
    posterior = begun(prior, first, steps)
    rows, past, space = posterior._rows, posterior._past, posterior._space
    exact = sums_of(posterior, first, steps)
    logs, expected = hmc.log_likelihood_and_expected_transitions(rows, posterior._log_rows, [past], space)
    # Known tables: the passes start from h_1, which is divided by the probability of the first observation.
    if first is not None and not rows.learns_from_first:
        begin = prior.setting.first_observation
        assert begin is not None
        logs = logs + np.log(prior.setting.initial @ begin[:, first])
    assert np.exp(logs) == pytest.approx([one.likelihood for one in exact], rel=1e-12)
    wanted = np.stack([by_row(posterior, one, first) for one in exact], axis=-1)
    assert expected == pytest.approx(wanted, abs=1e-12)
    assert log_likelihood(rows, posterior._log_rows, [past], space) == pytest.approx(
        hmc.log_likelihood_and_expected_transitions(rows, posterior._log_rows, [past], space)[0], abs=1e-12
    )
    group = posterior._group
    belief, visits = beliefs_and_visits(group.kernels, past, space, group.factors, group.start(past))
    assert belief == pytest.approx(np.stack([one.belief for one in exact], axis=1), abs=1e-12)
    assert visits == pytest.approx(np.stack([one.visits for one in exact], axis=-1), abs=1e-12)


@each_prior
def test_filters_are_sums_over_paths(prior: DirichletPrior) -> None:
    """Weights, beliefs, φ and ñ of the filters, step by step and all at once."""
    first, steps = history(prior, 5)
    posterior = begun(prior, first, steps)
    exact = sums_of(posterior, first, steps)
    likelihood = np.array([one.likelihood for one in exact])
    assert posterior.weights == pytest.approx(likelihood / likelihood.sum(), abs=1e-12)
    assert posterior.beliefs == pytest.approx(np.stack([one.belief for one in exact]), abs=1e-12)
    found = filtering.counts(posterior._filters)  # [X, A, S, N]
    wanted = np.stack([one.visits.transpose(2, 0, 1) for one in exact], axis=-1)
    assert found == pytest.approx(wanted, abs=1e-12)

    # ñ counts the last step by what was known before it.
    last = steps[-1]
    earlier = [every_joint_path(tables_of(prior, posterior.kernels[n], posterior._setting_of(n)), first,
                                [*steps[:-1], Step(last.action, None, None)])
               for n in range(posterior.size)]  # fmt: skip
    weights = np.array([one.likelihood for one in earlier])
    counts = np.stack([one.visits.sum(axis=2) for one in earlier])
    assert posterior.expected_counts == pytest.approx(
        np.tensordot(weights / weights.sum(), counts, axes=1), abs=1e-12
    )

    at_once = DirichletPosterior(prior, np.random.default_rng(1), size=KERNELS)
    at_once._rule = NO_REFRESH
    at_once.start(first)
    observations = [-1 if s.observation is None else s.observation for s in steps]
    at_once.update_many([s.action for s in steps], observations, costs_of(prior, steps))
    for name, value in posterior.state().items():
        assert np.array_equal(value, at_once.state()[name]), name
    for n in range(posterior.size):
        if posterior._setting_of(n) is None:
            assert posterior.belief(posterior.kernels[n]) == pytest.approx(exact[n].belief, abs=1e-12)
    sample = posterior.sample_model(np.random.default_rng(2))
    tables = tables_of(prior, sample.kernel, sample.setting)
    assert sample.belief == pytest.approx(every_joint_path(tables, first, steps).belief, abs=1e-12)


@each_prior
def test_the_gradient_is_that_of_the_log_density(prior: DirichletPrior) -> None:
    """Central differences of the log density at drawn points."""
    first, steps = history(prior, 5)
    posterior = begun(prior, first, steps, size=2)
    rows, past, space = posterior._rows, posterior._past, posterior._space
    possible = rows.concentration > 0
    drawn = np.random.default_rng(6).standard_normal(posterior._log_rows.shape)
    z = np.where(possible[..., None], drawn, -np.inf)
    density, gradient = hmc.log_density(rows, z, [past], space)
    assert not gradient[~possible].any()
    for r, k in np.argwhere(possible):
        up, down = z.copy(), z.copy()
        up[r, k] += 1e-5
        down[r, k] -= 1e-5
        rise = hmc.log_density(rows, up, [past], space)[0] - hmc.log_density(rows, down, [past], space)[0]
        assert gradient[r, k] == pytest.approx(rise / 2e-5, abs=1e-7), (r, k)
    # The density itself, up to a constant: the sum over paths at the same rows.
    group = posterior._group
    logs = hmc.normalized(z)
    at = type(group)(rows, logs, group.tuning, group.initial, space)
    alpha = np.where(possible, rows.concentration, 0.0)[..., None]
    terms = np.where(possible[..., None], alpha * np.where(possible[..., None], z, 0.0) - np.exp(z), 0.0)
    exact = [
        every_joint_path(tables_of(prior, at.kernels[..., n], at.setting_of(n)), first, steps).likelihood
        for n in range(2)
    ]
    wanted = np.log(exact) + terms.sum(axis=(0, 1))
    assert density[1] - density[0] == pytest.approx(wanted[1] - wanted[0], abs=1e-11)


@each_prior
def test_paths_are_drawn_as_often_as_expected(prior: DirichletPrior) -> None:
    """Mean counts of the free rows over 4,000 paths against their sums over all paths.

    At most 28 z-scores for each of 12 priors; threshold 5: false alarm 28 × 12 × 6e-7 = 2e-4 in all.
    """
    first, steps = history(prior, 4)
    posterior = begun(prior, first, steps, size=400)
    rows, past, space = posterior._rows, posterior._past, posterior._space
    same = np.repeat(posterior._log_rows[..., :1], 400, axis=-1)
    rng = np.random.default_rng(7)
    drawn = np.concatenate([gibbs(rows, same, [past], space, rng)[1] for _ in range(10)], axis=-1)
    exact = every_joint_path(tables_of(prior, posterior.kernels[0], posterior._setting_of(0)), first, steps)
    wanted = by_row(posterior, exact, first)
    error = np.maximum(drawn.std(axis=-1), 0.02) / np.sqrt(drawn.shape[-1])
    assert np.abs((drawn.mean(axis=-1) - wanted) / error).max() < 5.0


@each_prior
def test_a_free_row_stands_at_its_places_only(prior: DirichletPrior) -> None:
    """What the rows say of the tables, against the prior: known rows, ties, zeros."""
    posterior = begun(prior, None, [], size=3)
    for n in range(3):
        own = posterior._setting_of(n) or prior.setting
        kernel = posterior.kernels[n]
        assert kernel[prior.known] == pytest.approx(prior.concentration[prior.known])
        assert (kernel[prior.concentration == 0] == 0).all()
        for one, other in np.argwhere(prior.row.reshape(-1)[:, None] == prior.row.reshape(-1)):
            places = kernel.reshape(-1, kernel.shape[-1])
            assert (places[one] == places[other]).all()
        for unknown, found in (
            (prior.sensor, own.observation),
            (prior.costs, None if own.seen_cost is None else own.seen_cost.probabilities),
        ):
            if unknown is None:
                continue
            assert found is not None
            shown = found if unknown.counts.ndim == 3 else found[0]
            assert shown[unknown.known] == pytest.approx(unknown.counts[unknown.known], abs=1e-15)
            assert (shown[unknown.counts == 0] == 0).all()
            flat_rows, label = shown.reshape(-1, shown.shape[-1]), unknown.row.reshape(-1)
            for one, other in np.argwhere(label[:, None] == label):
                assert (flat_rows[one] == flat_rows[other]).all()
        if prior.costs is not None:
            assert own.seen_cost is not None
            mean = own.seen_cost.probabilities @ own.seen_cost.values
            assert own.own_cost == pytest.approx(mean, abs=1e-12)


SENSORS = {"by state": (4, 2, 2), "by action": (4, 2, 2, 2), "by the state before": (4, 2, 2, 2, 2)}


@pytest.mark.parametrize("costs", [None, NOISY], ids=["costs not seen", "costs seen"])
@pytest.mark.parametrize("shape", SENSORS.values(), ids=SENSORS)
def test_a_finite_set_with_sensors_of_its_own(shape: tuple[int, ...], costs: SeenCosts | None) -> None:
    """Weights, beliefs and expected counts of four models, of which two have the same kernel."""
    by_kernel = len(shape) == 3
    own = setting(first="sensor" if by_kernel else table(2, 2)).replace(seen_cost=costs)
    kernels = table(4, 2, 2, 2)
    kernels[3] = kernels[0]
    prior = FinitePrior(own, kernels, [0.1, 0.2, 0.3, 0.4], initial=table(4, 2), sensors=table(*shape))
    first = 1
    steps = [Step(0, 1, 2), Step(1, None, 0), Step(0, 0, None), Step(1, None, None), Step(1, 1, 1)]
    if costs is None:
        steps = [step._replace(cost=None) for step in steps]
    one, many = prior.posterior(), prior.posterior()
    one.start(first)
    many.start(first)
    paid = costs_of(prior, steps)
    for step, cost in zip(steps, paid or [None] * 5, strict=True):
        one.update(step.action, step.observation, cost)
    observations = [-1 if s.observation is None else s.observation for s in steps]
    many.update_many([s.action for s in steps], observations, paid)
    models = [prior.model(m) for m in range(4)]
    all_tables = [tables_of(prior, m.transition, m.setting) for m in models]
    exact = [every_joint_path(tables, first, steps) for tables in all_tables]
    weights = prior.weights * [sums.likelihood for sums in exact]
    before = [every_joint_path(t, first, [*steps[:-1], Step(1, None)]) for t in all_tables]
    earlier = prior.weights * [sums.likelihood for sums in before]
    visits = np.stack([sums.visits.sum(axis=2) for sums in before])
    for found in (one, many):
        assert found.weights == pytest.approx(weights / weights.sum(), abs=1e-12)
        assert found.beliefs == pytest.approx(np.stack([sums.belief for sums in exact]), abs=1e-12)
        assert found.expected_counts == pytest.approx(
            np.tensordot(earlier / earlier.sum(), visits, axes=1), abs=1e-12
        )
    sample = one.sample_model(np.random.default_rng(0))
    assert sample.kernel_index is not None
    assert sample.setting is not None
    wanted = prior.model(sample.kernel_index).setting.observation
    assert np.array_equal(sample.setting.observation, wanted)
