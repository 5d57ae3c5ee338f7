"""Certified planning for a known model: `plan`, `plan_many`, `Plan`, `verify`, `save_proof`."""

from .certificate_checks import CertificateError
from .mdp import optimal_gain
from .parallel import plan_many
from .proofs.document import proof_document, save_proof
from .rounds import Round
from .solution import Plan
from .solve import plan
from .verification import verify

__all__ = [
    "CertificateError",
    "Plan",
    "Round",
    "optimal_gain",
    "plan",
    "plan_many",
    "proof_document",
    "save_proof",
    "verify",
]
