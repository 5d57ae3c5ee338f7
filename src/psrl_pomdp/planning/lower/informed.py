"""The informed lower bound, for models of any size: the cost if each state were revealed one step late.

For *any* numbers α_a(s), one vector for each action,

    lower = min_{s, a} [ C(s, a) + Σ_o min_a′ Σ_s′ M[a, o](s, s′) α_a′(s′) − α_a(s) ]  ≤  J.

Proof: let W(b) = min_a α_a·b, and suppose that the optimal cost of k steps has V_k ≥ W + k·lower. Then
V_{k+1}(b) = min_a { c(b, a) + Σ_o P(o | b, a) V_k(τ(b, a, o)) }, and each brace is at least

    Σ_s b(s) C(s, a) + Σ_o min_a′ Σ_s b(s) Σ_s′ M[a, o](s, s′) α_a′(s′) + k·lower
      ≥ Σ_s b(s) [ C(s, a) + Σ_o min_a′ Σ_s′ M[a, o](s, s′) α_a′(s′) ] + k·lower ≥ α_a·b + (k + 1)·lower,

because a least mean is at least the mean of the least. V_0 ≥ W − const, so that V_k ≥ W + k·lower − const;
divide by k. This is the fast informed bound (Hauskrecht 2000) for averages; with the same vector for all
actions it is the bound of the fully observed MDP.

*Points* make it tighter. The least cost Q_k(b, a) of k steps that begin with action a is concave in b. So let
q_i(a) be numbers at beliefs g_i too, the states being the first of them with q_s(a) = α_a(s). For a belief τ
write τ = Σ λ_j g_j + rest with λ ≥ 0 and rest ≥ 0, and read off Q̃(τ, a) = Σ λ_j q_j(a) + rest·α_a. Then

    lower = min_{i, a} [ c(g_i, a) + Σ_o P(o | g_i, a) min_a′ Q̃(τ(g_i, a, o), a′) − q_i(a) ]  ≤  J

by the same induction, with Q_k ≥ q + k·lower at the points, and concavity in between. Where a next belief is
a point itself nothing is lost: with all beliefs that follow from states as points, the state is revealed two
steps late.

*Gains* g(s) with g ≤ θ_a g for every action a carry it to models whose average depends on the start: where
g(s) + α_a(s) ≤ C(s, a) + (the same sum), the k-step cost is at least k·(g·b) + W(b) − const, by the same
induction once more, and the average from b is at least g·b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ..._utils.arrays import Array, Index
from ..dynamics import BeliefDynamics
from ..envelopes import max_of_lower_envelope


@dataclass(frozen=True)
class InformedCertificate:
    """Values at the states and at points, and how points make up next beliefs: what proves the lower bound.

    "Places" are the states and then the points. Let b be the belief of place `uses[k, 1]`, and let a and o be
    the action `uses[k, 0]` and the observation `uses[k, 2]`. In the unnormalized next belief b M[a, o], the
    point `uses[k, 3]`, counted from 0 after the states, has weight `shares[k]`.
    """

    bound: float
    values: Array  # [S + n, A]: q, at the states first
    points: csr_array  # [n, S]
    uses: Index  # [m, 4]
    shares: Array  # [m]
    gains: Array | None = None  # [S]: g, where the bound depends on the start

    def __len__(self) -> int:
        return len(self.values)

    def at(self, belief: Array) -> float:
        """Return the lower bound on the average cost of runs from a belief."""
        return self.bound if self.gains is None else float(self.gains @ belief)

    @property
    def span(self) -> float:
        """The span (largest less least value) of min_a α_a·b over beliefs."""
        return max_of_lower_envelope(self.vectors) - float(self.vectors.min())

    def rounding(self, dynamics: BeliefDynamics) -> float:
        """Return what is taken from the bound for rounding errors; more where points are used."""
        return dynamics.rounding(self.values) * (3.0 if self.points.shape[0] else 1.0)

    @property
    def vectors(self) -> Array:
        """[A, S]: α."""
        return np.ascontiguousarray(self.values[: self.points.shape[1]].T)
