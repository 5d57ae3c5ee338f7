"""Planning for a known model."""

from .mdp import optimal_gain

__all__ = ["optimal_gain"]
