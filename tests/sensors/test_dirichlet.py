"""Unknown tables with Dirichlet rows."""

from __future__ import annotations

import numpy as np
import pytest

from psrl_pomdp.errors import InvalidModelError
from psrl_pomdp.sensors.dirichlet import DirichletCosts, DirichletSensor


def test_mean_support_and_known_rows() -> None:
    sensor = DirichletSensor([[3.0, 1.0, 0.0], [1.0, 1.0, 2.0]], known={1: [0.5, 0.25, 0.25]})
    assert sensor.mean.tolist() == [[0.75, 0.25, 0.0], [0.5, 0.25, 0.25]]
    assert sensor.support.tolist() == [[True, True, False], [True, True, True]]
    assert (sensor.n_states, sensor.n_observations, sensor.depends_on_action) == (2, 3, False)
    drawn = sensor.sample(np.random.default_rng(0))
    assert drawn[1].tolist() == [0.5, 0.25, 0.25]
    assert drawn[0, 2] == 0.0
    assert drawn.sum(axis=1) == pytest.approx([1.0, 1.0])


def test_samples_have_the_moments_of_a_dirichlet_distribution() -> None:
    """Means and second moments of 2,000 tables; 18 z-scores, threshold 5.5, false alarm 18 × 4e-8 = 7e-7."""
    counts = np.array([[[2.0, 1.0, 3.0], [0.5, 0.5, 1.0], [4.0, 4.0, 4.0]]])
    sensor, rng = DirichletSensor(counts), np.random.default_rng(1)
    drawn = np.stack([sensor.sample(rng) for _ in range(2000)])
    total = counts.sum(axis=2, keepdims=True)
    mean = counts / total
    square = mean * (counts + 1) / (total + 1)
    for found, wanted in ((drawn, mean), (drawn**2, square)):
        z = (found.mean(axis=0) - wanted) / (found.std(axis=0) / np.sqrt(2000))
        assert np.abs(z).max() < 5.5


def test_tied_rows_are_equal_in_samples() -> None:
    counts = np.ones((2, 3, 4))
    sensor = DirichletSensor(counts, ties=[[(0, 0), (1, 0)], [(0, 1), (1, 2)], [(1, 2), (0, 2)]])
    drawn = sensor.sample(np.random.default_rng(2))
    assert (drawn[0, 0] == drawn[1, 0]).all()
    assert (drawn[0, 1] == drawn[1, 2]).all()
    assert (drawn[0, 1] == drawn[0, 2]).all()
    assert (drawn[0, 0] != drawn[0, 1]).any()
    assert (drawn[1, 1] != drawn[0, 1]).any()


def test_opinions_and_calibrations() -> None:
    around = DirichletSensor.around([[0.9, 0.1], [0.0, 1.0]], worth=20)
    assert around.counts.tolist() == [[18.0, 2.0], [0.0, 20.0]]
    seen = DirichletSensor.from_calibration([[9, 1], [0, 10]])
    assert seen.counts.tolist() == [[9.5, 1.5], [0.5, 10.5]]
    structured = DirichletSensor.from_calibration([[9, 1], [0, 10]], prior=[[0.5, 0.5], [0.0, 1.0]])
    assert structured.counts.tolist() == [[9.5, 1.5], [0.0, 11.0]]


def test_costs_have_values() -> None:
    costs = DirichletCosts([1.0, 3.0], [[[1.0, 1.0], [0.0, 2.0]]])
    assert costs.mean_cost.tolist() == [[2.0, 3.0]]
    assert costs != DirichletCosts([1.0, 4.0], [[[1.0, 1.0], [0.0, 2.0]]])


def test_equal_contents_are_equal() -> None:
    assert DirichletSensor([[1.0, 2.0]]) == DirichletSensor([[1, 2]])
    assert DirichletSensor([[0.5, 0.5]]) != DirichletSensor([[1.0, 1.0]], known={0: [0.5, 0.5]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DirichletSensor([1.0, 2.0]), "counts has shape"),
        (lambda: DirichletSensor([[1.0, -2.0]]), r"counts\[s=0, o=1\] is -2"),
        (lambda: DirichletSensor([[1.0, np.nan]]), r"counts\[s=0, o=1\] is nan"),
        (lambda: DirichletSensor([[0.0, 0.0]]), r"counts\[s=0\] is zero everywhere"),
        (lambda: DirichletSensor([[1.0, 1.0]], known={1: [0.5, 0.5]}), "known: 1 is not the number"),
        (lambda: DirichletSensor([[1.0, 1.0]], known={0: [0.5, 0.6]}), r"known\[s=0\] sums to 1.1"),
        (lambda: DirichletSensor([[[1.0, 1.0]]], known={0: [0.5, 0.5]}), "a pair"),
        (lambda: DirichletSensor([[1.0, 1.0], [2.0, 1.0]], ties=[[0, 1]]), r"counts\[s=1\] differs"),
        (lambda: DirichletSensor.around([[0.5, 0.4]]), r"estimate\[s=0\] sums"),
        (lambda: DirichletSensor.around([[0.5, 0.5]], worth=0), "worth"),
        (lambda: DirichletSensor.from_calibration([[-1, 2]]), "negative"),
        (lambda: DirichletSensor.from_calibration([[1, 2]], prior=[1.0, 1.0, 1.0]), "prior"),
        (lambda: DirichletCosts([1.0, 1.0], [[[1.0, 1.0]]]), "increasing"),
        (lambda: DirichletCosts([1.0, 2.0, 3.0], [[[1.0, 1.0]]]), "3 columns"),
    ],
)
def test_errors_name_the_entry(make: object, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        make()  # type: ignore[operator]
