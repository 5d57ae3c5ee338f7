"""States whose names nothing tells apart keep both namings in the ensemble."""

from __future__ import annotations

import numpy as np
import pytest

from psrl_pomdp import POMDP, DirichletPrior, DirichletSensor, PSRLAgent, Setting, simulate


@pytest.mark.filterwarnings("ignore::psrl_pomdp.LabelWarning")
def test_two_states_have_each_name_with_probability_one_half() -> None:
    """Prior, start and likelihood stay the same when the states are renamed, and so does the posterior.

    The share of the weight of one naming deviates from 1/2 by .09 on average in ensembles of 32 kernels. If
    all kernels of an ensemble had the same naming, it would deviate by 1/2. Over four runs the mean deviation
    exceeds .25 with probability below 1e-3.
    """
    known = np.array([[0.9, 0.1], [0.2, 0.8]])
    unknown = Setting(np.full((2, 2), 0.5), [[0.0, 50.0], [20.0, 20.0]], [0.5, 0.5])
    world = POMDP(unknown.replace(observation=known), [[[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1], [0.9, 0.1]]])
    prior = DirichletPrior(unknown, np.ones((2, 2, 2)), sensor=DirichletSensor(np.ones((2, 2))))
    away = []
    for seed in range(4):
        agent = PSRLAgent(prior, seed=seed)
        simulate(world, agent, 500, seed=seed)
        first = [agent.posterior.sample_model(np.random.default_rng(i)).setting for i in range(200)]
        share = np.mean([setting.observation[0, 0, 0] > setting.observation[0, 1, 0] for setting in first])
        away.append(abs(share - 0.5))
    assert np.mean(away) < 0.25, away
