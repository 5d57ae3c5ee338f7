"""Certified planning for a known model: `plan`, `plan_many`, `Plan`, `verify`."""

from .bound_pair import Round
from .mdp import optimal_gain
from .parallel import plan_many
from .solution import Plan
from .solve import plan
from .verification import CertificateError, verify

__all__ = ["CertificateError", "Plan", "Round", "optimal_gain", "plan", "plan_many", "verify"]
