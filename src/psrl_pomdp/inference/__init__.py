"""What is believed of the dynamics: a finite set of kernels, or Dirichlet rows, before and after readings.

The posteriors are compiled code: they are fetched when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .dirichlet_prior import DirichletPrior
from .finite_prior import FinitePrior

if TYPE_CHECKING:
    from .dirichlet_posterior import DirichletPosterior
    from .finite_posterior import FinitePosterior

__all__ = ["DirichletPosterior", "DirichletPrior", "FinitePosterior", "FinitePrior"]

_HOME = {"DirichletPosterior": "dirichlet_posterior", "FinitePosterior": "finite_posterior"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
