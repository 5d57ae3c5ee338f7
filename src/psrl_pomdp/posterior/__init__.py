"""What is believed of the dynamics: a finite set of kernels, or Dirichlet rows."""

from .dirichlet import DirichletPrior
from .finite import FinitePrior

__all__ = ["DirichletPrior", "FinitePrior"]
