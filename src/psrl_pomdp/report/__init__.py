"""Results for people: what a plan does in words, and figures (which need `psrl-pomdp[report]`)."""

from .plan_figures import plan_figure, save_figure
from .policy_text import describe

__all__ = ["describe", "plan_figure", "save_figure"]
