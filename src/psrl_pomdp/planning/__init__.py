"""Certified planning for a known model: `plan`, `Plan`, `verify`."""

from .loop import Round
from .mdp import optimal_gain
from .plan import Plan, plan
from .verification import CertificateError, verify

__all__ = ["CertificateError", "Plan", "Round", "optimal_gain", "plan", "verify"]
