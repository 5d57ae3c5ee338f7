"""What is believed of the dynamics: a finite set of kernels, or Dirichlet rows, before and after readings.

The posteriors are compiled code: they are fetched when they are first asked for.
"""

from typing import TYPE_CHECKING

from .dirichlet import DirichletPrior
from .finite import FinitePrior

if TYPE_CHECKING:
    from .finite_posterior import FinitePosterior

__all__ = ["DirichletPrior", "FinitePosterior", "FinitePrior"]


def __getattr__(name: str) -> object:
    if name == "FinitePosterior":
        from .finite_posterior import FinitePosterior

        return FinitePosterior
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
