"""Priors and posteriors over transition kernels.

There are priors on finite sets of kernels, on Dirichlet rows and on parameters, and mixtures of these. The
posteriors are compiled code and are therefore imported at the first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dirichlet_posterior import DirichletPosterior
    from .dirichlet_prior import DirichletPrior
    from .ensemble_posterior import EnsemblePosterior
    from .finite_posterior import FinitePosterior
    from .finite_prior import FinitePrior
    from .mixture_prior import MixturePrior
    from .parametric_prior import ParametricPrior

__all__ = [
    "DirichletPosterior",
    "DirichletPrior",
    "EnsemblePosterior",
    "FinitePosterior",
    "FinitePrior",
    "MixturePrior",
    "ParametricPrior",
]

_HOME = {
    "DirichletPosterior": "dirichlet_posterior",
    "DirichletPrior": "dirichlet_prior",
    "EnsemblePosterior": "ensemble_posterior",
    "FinitePosterior": "finite_posterior",
    "FinitePrior": "finite_prior",
    "MixturePrior": "mixture_prior",
    "ParametricPrior": "parametric_prior",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
