"""Certainty equivalence: play as if the best guess were the truth.

At the starts of Algorithm 1's episodes the policy is planned for one kernel, the posterior's mean or its
mode, in place of a sample. Nothing makes such a learner try what its guess says is bad, so it may never
find out that the guess is wrong: in general its regret grows linearly (Kumar and Varaiya 1986, Stochastic
Systems, chapter 12; Mandl 1974 gives conditions under which it does not). With `exploration` c > 0 the
action at step t is drawn uniformly with probability min(1, c t^(−1/3)), the rate that balances what is
lost and what is learned by it.

The mode is defined in `psrl_pomdp.inference.mode`, and sought from that of the episode before. The mean of
Dirichlet rows is that of the posterior's ensemble of a few dozen kernels: it has an error of its own, which
is some exploration, and which shrinks as the posterior does. Beliefs
are those of the guess given the whole history; for the mean of a finite set, which is no kernel of the
set, the mean of the set's beliefs.
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
    """Plans for `guess()` instead of a sample."""

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
        return {"exploration": self.exploration}

    @property
    def can_compile(self) -> bool:
        return self.exploration == 0.0 and super().can_compile

    def choose_kernel(self) -> ModelSample:
        raise NotImplementedError

    def choose_action(self) -> int:
        """π_k(h_t(·; θ_k)), or anything."""
        if self.exploration and self.rng.random() < self.exploration * self.time ** (-1 / 3):
            return int(self.rng.integers(self.setting.n_actions))
        return super().choose_action()


class MeanAgent(CertaintyAgent):
    """Plans for E[θ | F_t].

    >>> from psrl_pomdp import problem
    >>> agent = MeanAgent(problem("separated").prior)
    >>> agent.act(0) in (0, 1), bool((agent.info.kernel == agent.posterior.mean()).all())
    (True, True)
    """

    def choose_kernel(self) -> ModelSample:
        assert isinstance(self.posterior, Summarizable)
        return self.posterior.mean_model()


class MAPAgent(CertaintyAgent):
    """Plans for the likeliest kernel.

    >>> from psrl_pomdp import problem
    >>> agent = MAPAgent(problem("separated").prior)
    >>> agent.act(0) in (0, 1), agent.info.kernel[0, 0].round(2).tolist()
    (True, [0.25, 0.25, 0.25, 0.25])
    """

    def choose_kernel(self) -> ModelSample:
        assert isinstance(self.posterior, Summarizable)
        return self.posterior.mode_model(self.sampled_filter.transition[..., 0] if self.episodes else None)
