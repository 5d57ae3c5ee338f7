"""Descriptions of policies as text, figures, and the report page of a study.

Figures and the page need `psrl-pomdp[report]`.
"""

from .plan_figures import plan_figure, save_figure
from .policy_text import describe
from .posterior_figures import posterior_figure

__all__ = ["describe", "plan_figure", "posterior_figure", "save_figure"]
