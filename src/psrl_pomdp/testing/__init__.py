"""Checks of models, priors, posteriors, planners and agents.

Each returns a list of `Issue`, which is empty if no requirement is violated. A test of your own prior is

    def test_my_prior():
        assert check_prior(MyPrior(setting)) == []
"""

from .._utils.issues import Issue
from ..analysis.run_checks import check_run
from .checks import check_agent, check_model, check_planner, check_posterior
from .prior_checks import check_prior

__all__ = [
    "Issue",
    "check_agent",
    "check_model",
    "check_planner",
    "check_posterior",
    "check_prior",
    "check_run",
]
