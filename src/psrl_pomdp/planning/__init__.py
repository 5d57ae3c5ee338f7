"""Certified planning for a known model: `plan`, `plan_many`, `Plan`, `verify`."""

from .loop import Round
from .many import plan_many
from .mdp import optimal_gain
from .planner import plan
from .plans import Plan
from .verification import CertificateError, verify

__all__ = ["CertificateError", "Plan", "Round", "optimal_gain", "plan", "plan_many", "verify"]
