"""How do I tell the agent what I know of a machine? With a prior over two rates, in thirty lines.

    python examples/own_prior.py
    python examples/own_prior.py --days 10000 --seeds 8

A pump wears at one rate while it is new and at another while it is worn. Nobody knows the rates, but from
other pumps it is known roughly where they are. A subclass of `ParametricPrior` says just that. `check_prior`
tells whether its parts fit each other. Then an agent with this prior, one that may also be wrong about it (a
mixture with rows of which nothing is known), and one that knows nothing at all look after the same pumps.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import numpy.typing as npt

from psrl_pomdp import (
    POMDP,
    CoarsePlanWarning,
    DirichletPrior,
    MixturePrior,
    ParametricPrior,
    PlanningBudget,
    PSRLAgent,
    Setting,
    plan,
    simulate,
)
from psrl_pomdp.testing import check_prior

Array = npt.NDArray[np.float64]


class WearPrior(ParametricPrior):
    """Two rates, from new to worn and from worn to failing, each with a Beta(1, 9) prior."""

    shape = 9.0

    def sample_parameters(self, rng: np.random.Generator, size: int) -> Array:
        return rng.beta(1.0, self.shape, (size, 2))

    def log_density(self, parameters: Array) -> Array:
        inside = ((parameters > 0) & (parameters < 1)).all(axis=1)
        safe = np.where(inside[:, None], parameters, 0.5)
        return np.where(inside, (self.shape - 1) * np.log(1 - safe).sum(axis=1), -np.inf)

    def kernels(self, parameters: Array) -> Array:
        kernels = np.zeros((len(parameters), 2, 3, 3))  # [N, action, state, next state]
        for state in (0, 1):
            kernels[:, 0, state, state] = 1 - parameters[:, state]
            kernels[:, 0, state, state + 1] = parameters[:, state]
        kernels[:, 0, 2, 2] = 1.0
        kernels[:, 1, :, 0] = 1.0
        return kernels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=3000, help="how long each pump is looked after")
    parser.add_argument("--seeds", type=int, default=4, help="how many pumps")
    options = parser.parse_args()
    setting = Setting(
        observation=[[0.8, 0.15, 0.05], [0.15, 0.7, 0.15], [0.05, 0.25, 0.7]],
        cost=[[0, 30, 200], [60, 60, 90]],
        initial=[1, 0, 0],
        units="euro a day",
        states=["new", "worn", "failing"],
        actions=["run", "replace"],
    )
    wear = WearPrior(setting)
    findings = check_prior(wear)
    print("check_prior:", findings or "nothing is wrong")
    truth = POMDP(setting, wear.kernels(np.array([[0.04, 0.10]]))[0])
    best = plan(truth, 1e-4)
    print(f"knowing the rates costs {best.upper:.2f} euro a day")
    rows = DirichletPrior(setting, np.ones((2, 3, 3)))
    priors = {
        "two rates": wear,
        "two rates, or anything": MixturePrior([(0.8, wear), (0.2, rows)]),
        "anything": rows,
    }
    warnings.simplefilter("ignore", CoarsePlanWarning)
    budget = PlanningBudget(max_tolerance=0.05, max_work=2e7)
    for name, prior in priors.items():
        agents = [PSRLAgent(prior, seed=seed, budget=budget) for seed in range(options.seeds)]
        traces = [simulate(truth, agent, options.days, seed) for seed, agent in enumerate(agents)]
        regrets = [float(trace.regret(best)) for trace in traces]
        learned = agents[0].posterior.mean_model().kernel[0]
        print(
            f"{name:>22}: not knowing costs {np.mean(regrets):6.0f} euro in {options.days} days; "
            f"rates learned with the first pump {learned[0, 1]:.3f} and {learned[1, 2]:.3f}"
        )


if __name__ == "__main__":
    main()
