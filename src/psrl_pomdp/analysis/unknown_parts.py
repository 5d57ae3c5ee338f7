"""What the paper's theorems say if the observation model, or the costs, are unknown too: mostly nothing.

The paper assumes a known observation model and known costs. Then the belief of the learner differs from that
under the true kernel only because the kernels differ, and Lemma A.1 bounds the difference of what is
expected next by |θ*(· | s, a) − θ_k(· | s, a)|₁. With another observation model η_k, a term
|η*(· | s′) − η_k(· | s′)|₁ is missing in R_2, and Assumptions 3 and 4 say nothing about it.

For a finite set of pairs (kernel, observation model), the proof of Theorem 1 goes through with pairs in place
of kernels, because it uses only the margin ε of the laws of the observations.
"""

from __future__ import annotations

from ..inference.choosing import learns_costs, learns_sensor
from ..protocols import FiniteSupport, Prior


def unknown_parts(prior: Prior) -> tuple[str, ...]:
    """Return what a prior with infinitely many models leaves unknown beside the kernel, in words.

    >>> from psrl_pomdp import DirichletPrior, DirichletSensor, Setting
    >>> setting = Setting([[0.8, 0.2], [0.3, 0.7]], [[0.0, 1.0]], [0.5, 0.5])
    >>> sensor = DirichletSensor([[8.0, 2.0], [3.0, 7.0]])
    >>> unknown_parts(DirichletPrior(setting, [[[1.0, 1.0], [1.0, 1.0]]], sensor=sensor))
    ('observation model',)
    """
    if isinstance(prior, FiniteSupport):
        return ()
    parts = {"observation model": learns_sensor(prior), "costs": learns_costs(prior)}
    return tuple(part for part, unknown in parts.items() if unknown)


def conclusions_for_unknown(prior: Prior) -> tuple[str, ...]:
    """Return a sentence in place of a theorem; () if observation model and costs are known."""
    unknown = unknown_parts(prior)
    if not unknown:
        return ()
    message = (
        "the paper's theorems are for a known observation model and known costs; here the agent does not "
        f"know the {' and the '.join(unknown)}, and no theorem on the average cost is known to us"
    )
    return (message,)


def remarks_on_pairs(prior: Prior) -> tuple[str, ...]:
    """Return a remark if the prior is over finitely many pairs of a kernel and an observation model."""
    if not isinstance(prior, FiniteSupport) or not learns_sensor(prior):
        return ()
    message = (
        "the prior is over pairs of a kernel and an observation model: the proof of the O(log T) theorem "
        "goes through with pairs in place of kernels"
    )
    return (message,)
