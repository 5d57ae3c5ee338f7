"""Certainty equivalence: plan for a point estimate as if it were the true model.

At the start of each episode of Algorithm 1 the agent plans for one kernel, the mean or the mode of the
posterior, instead of a sample. Such an agent has no reason to try actions that its estimate considers bad, so
that it may never find out that the estimate is wrong: in general its regret grows linearly (Kumar and Varaiya
1986, Stochastic Systems, chapter 12; Mandl 1974 gives conditions under which it does not). With `exploration`
c > 0 the action at step t is drawn uniformly with probability min(1, c t^(−1/3)), the rate that balances the
cost of exploration and the information from it.

The mode is defined in `psrl_pomdp.inference.mode`; its search starts from the mode of the previous episode.
The mean for a Dirichlet prior is that of the posterior's ensemble of a few dozen kernels. Its sampling error
causes some exploration, which decreases as the posterior concentrates. The belief is that of the estimate
after the whole history; for the mean of a finite set, which is no kernel of the set, it is the mean of the
set's beliefs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._utils.deprecation import renamed_keywords
from ...errors import InvalidModelError
from ...planning import plan
from ...protocols import ModelSample, Planner, Prior, Summarizable
from ..planning_budget import PlanningBudget
from ..psrl import PSRLAgent
from ..schedules import Schedule
from .options import number


class CertaintyAgent(PSRLAgent):
    """Base class of agents that plan for a point estimate instead of a sample."""

    @renamed_keywords(effort="budget")
    def __init__(
        self,
        prior: Prior,
        schedule: Schedule | None = None,
        seed: int | Sequence[int] = 0,
        *,
        budget: PlanningBudget | None = None,
        planner: Planner = plan,
        exploration: float = 0.0,
    ) -> None:
        super().__init__(prior, schedule, seed, budget=budget, planner=planner)
        if not isinstance(self.posterior, Summarizable):
            raise InvalidModelError(
                f"prior: its {type(self.posterior).__name__} has no mean_model() and "
                "mode_model(near) to plan for"
            )
        self.exploration = number("exploration", exploration, 0.0)

    @property
    def options(self) -> dict[str, float]:
        """The further arguments of the constructor, by name; files store them."""
        return {"exploration": self.exploration}

    @property
    def can_compile(self) -> bool:
        """Whether `play` can run this agent: never with exploration, which `play` does not draw."""
        return self.exploration == 0.0 and super().can_compile

    def choose_kernel(self) -> ModelSample:
        """Return the estimate of θ; every subclass defines it."""
        raise NotImplementedError

    def choose_action(self) -> int:
        """Return π_k(h_t(·; θ_k)), or a uniform action for exploration."""
        if self.exploration and self.rng.random() < self.exploration * self.time ** (-1 / 3):
            return int(self.rng.integers(self.setting.n_actions))
        return super().choose_action()


class MeanAgent(CertaintyAgent):
    """An agent that plans for the posterior mean E[θ | F_t].

    >>> from psrl_pomdp import problem
    >>> agent = MeanAgent(problem("separated").prior)
    >>> agent.act(0) in (0, 1), bool((agent.info.kernel == agent.posterior.mean()).all())
    (True, True)
    """

    def choose_kernel(self) -> ModelSample:
        """Return the posterior mean of θ and its belief."""
        assert isinstance(self.posterior, Summarizable)
        return self.posterior.mean_model()


class MAPAgent(CertaintyAgent):
    """An agent that plans for a mode of the posterior.

    >>> from psrl_pomdp import problem
    >>> agent = MAPAgent(problem("separated").prior)
    >>> agent.act(0) in (0, 1), agent.info.kernel[0, 0].round(2).tolist()
    (True, [0.25, 0.25, 0.25, 0.25])
    """

    def choose_kernel(self) -> ModelSample:
        """Return a mode of the posterior and its belief; the search starts from the last one."""
        assert isinstance(self.posterior, Summarizable)
        return self.posterior.mode_model(self.sampled_filter.transition[..., 0] if self.episodes else None)
