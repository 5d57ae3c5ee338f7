"""Regret with confidence intervals, and the paper's decomposition, bounds and assumptions."""

from ..inference.labels import LabelSymmetry, label_symmetries
from .assumptions import Assessment, assess
from .bounds import Constant, FiniteBound, GeneralBound, finite_bound, general_bound
from .concentration import Concentration, estimate_concentration
from .decomposition import Decomposition, decompose, decompose_sums
from .estimators import RegretCurve, curve_from_sums, regret_curve
from .growth import Growth, fit_growth
from .run_checks import check_pseudo_counts, check_run
from .runs import bayesian_runs

__all__ = [
    "Assessment",
    "Concentration",
    "Constant",
    "Decomposition",
    "FiniteBound",
    "GeneralBound",
    "Growth",
    "LabelSymmetry",
    "RegretCurve",
    "assess",
    "bayesian_runs",
    "check_pseudo_counts",
    "check_run",
    "curve_from_sums",
    "decompose",
    "decompose_sums",
    "estimate_concentration",
    "finite_bound",
    "fit_growth",
    "general_bound",
    "label_symmetries",
    "regret_curve",
]
