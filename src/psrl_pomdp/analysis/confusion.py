"""Kernels of a finite prior that observations may not distinguish, and the cost of confusing them.

Assumption 2 requires that after every action and history, the next observation distinguishes any two kernels.
If the margin of a pair is 0 under some action, Theorem 1 does not apply. Two questions remain:

- *Can observations distinguish the two kernels at all?* The probability of observations o_1 .. o_n under
  actions a_1 .. a_n is h M[a_1, o_1] ··· M[a_n, o_n] 1 with M[a, o](s, s′) = θ(s′ | s, a) η(o | s′). Two
  kernels give all of them the same probability if and only if they agree on a basis of the span of the joint
  vectors M ··· M 1, which has at most 2 |S| dimensions (Schützenberger 1961; Tzeng 1992). This is linear
  algebra and needs no search over histories.
- *Does it matter?* It does not if the two kernels share an optimal policy. The controller of a plan for one
  kernel depends on the observations only, so under the other kernel the pair (node, state) is a Markov chain.
  Its average cost is computed, not simulated. The excess over the certified lower bound for the other kernel
  bounds the cost of confusing the two, per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array
from .._utils.deprecation import warn_renamed
from ..models import POMDP, Setting
from ..models.stand_in import finite_stand_in
from ..planning import Plan
from ..protocols import FiniteSupport
from .observation_laws import joint_matrices, next_observations
from .separation import Separation

_SAME = 1e-9
_DOUBLINGS = 50
_MAX_CHAIN = 1200  # pairs of node and state in a Markov chain whose average is computed


@dataclass(frozen=True)
class Confusion:
    """Two kernels whose margin is 0 under some actions, and the cost of confusing them.

    Attributes
    ----------
    kernels
        The indices of the two kernels.
    actions
        The actions for which no positive margin is proved.
    refuted
        True if the first observation after some action has the same distribution under both: Assumption 2
        certainly fails.
    indistinguishable
        True if all observations have the same probabilities under every policy.
    uninformative
        The actions that never distinguish the kernels if they are the only ones played, from the same belief.
    excess
        The excess cost per step, scaled, of the first kernel's plan under the second, and vice versa.
    error
        The planning error; an excess below it is not significant.
    """

    kernels: tuple[int, int]
    actions: tuple[int, ...]
    refuted: bool
    indistinguishable: bool
    uninformative: tuple[int, ...]
    excess: tuple[float, float]
    error: float

    @property
    def never(self) -> bool:
        """`indistinguishable`, under its name of version 0.1. Deprecated."""
        warn_renamed("Confusion.never", "Confusion.indistinguishable")
        return self.indistinguishable

    @property
    def alone(self) -> tuple[int, ...]:
        """`uninformative`, under its name of version 0.1. Deprecated."""
        warn_renamed("Confusion.alone", "Confusion.uninformative")
        return self.uninformative

    @property
    def harmless(self) -> bool:
        """True if each plan is optimal under the other kernel, up to the planning error."""
        return bool(max(self.excess) <= self.error)

    def words(self, setting: Setting) -> str:
        """Return `text(setting)`, under its name of version 0.1. Deprecated."""
        warn_renamed("Confusion.words", "Confusion.text")
        return self.text(setting)

    def text(self, setting: Setting) -> str:
        """Return a sentence with the names of actions, and costs in the user's units."""
        pair = "kernels {} and {}".format(*self.kernels)
        if self.indistinguishable:
            fact = f"no policy distinguishes {pair}"
        elif self.uninformative:
            fact = f"{_names(self.uninformative, setting)} alone cannot distinguish {pair}"
        else:
            fact = f"{pair} have no margin at some beliefs under {_names(self.actions, setting)}"
        worst = float(np.max(self.excess))
        if np.isnan(worst):
            return f"{fact} (the cost was not computed: the controllers are too large)"
        if self.harmless:
            return f"{fact} (harmless: the plan for each is optimal for the other, up to {self.error:.0e})"
        return f"{fact} (confusing them costs up to {float(setting.units.difference(worst)):.3g} a step)"


def _names(actions: Sequence[int], setting: Setting) -> str:
    return " or ".join(setting.names.action(a) for a in actions)


def confusions(prior: FiniteSupport, margins: Separation, plans: Sequence[Plan]) -> list[Confusion]:
    """Return every pair of kernels with a margin of 0 under some action; `plans` has one plan per kernel."""
    found = []
    for m in range(len(prior)):
        for n in range(m + 1, len(prior)):
            least = np.minimum(margins.margins[m, n], margins.margins[n, m])
            actions = tuple(np.flatnonzero(least <= 0.0).tolist())
            if actions:
                one, other = prior.model(m), prior.model(n)
                excess = _excess(prior, plans, m, n), _excess(prior, plans, n, m)
                error = plans[m].gap + plans[n].gap + _SAME
                found.append(
                    Confusion(
                        (m, n), actions, _same_first_step(one, other), same_observations(one, other),
                        tuple(a for a in actions if same_observations(one, other, (a,))), excess, error,
                    )
                )  # fmt: skip
    return found


def same_observations(one: POMDP, other: POMDP, actions: Sequence[int] | None = None) -> bool:
    """Return whether two models give every sequence of observations the same probability.

    Parameters
    ----------
    one, other
        Models with the same setting.
    actions
        By default, the models start from their initial distributions and all actions are allowed. With
        `actions`, only these are allowed, and both models start from the same belief, for every belief.
    """
    n_states = one.n_states
    if actions is None:
        tests = np.hstack([_starts_of(one), -_starts_of(other)])  # h·v = h·v′
    else:
        tests = np.hstack([np.eye(n_states), -np.eye(n_states)])  # v = v′
    matrices, others = joint_matrices(one), joint_matrices(other)
    moves = [
        (matrices[a, o], others[a, o])
        for a in (range(one.n_actions) if actions is None else actions)
        for o in range(matrices.shape[1])
    ]
    basis = np.zeros((0, 2 * n_states))
    stack = [np.ones(2 * n_states)]
    while stack:
        vector = stack.pop()
        if np.abs(tests @ vector).max() > _SAME * max(1.0, np.abs(vector).max()):
            return False
        residual = vector - basis.T @ (basis @ vector)
        if np.linalg.norm(residual) > _SAME * max(1.0, float(np.linalg.norm(vector))):
            unit = residual / np.linalg.norm(residual)
            basis = np.vstack([basis, unit])
            stack += [np.concatenate([f @ unit[:n_states], g @ unit[n_states:]]) for f, g in moves]
    return True


def _starts_of(model: POMDP) -> Array:
    """[first observations, S]: h(s) η(o_1 | s)."""
    first = finite_stand_in(model.setting).first_observation
    if first is None:
        return model.setting.initial[None]
    return np.asarray(model.setting.initial * first.T)


def _same_first_step(one: POMDP, other: POMDP) -> bool:
    """Return whether the next observation has the same distribution under both in some first step."""
    for own, others in zip(_starts_of(one), _starts_of(other), strict=True):
        if own.sum() > 0.0 and others.sum() > 0.0:
            distributions = [
                np.einsum("s,aso->ao", b / b.sum(), next_observations(world))
                for b, world in ((own, one), (others, other))
            ]
            if (np.abs(distributions[0] - distributions[1]).max(axis=1) <= _SAME).any():
                return True
    return False


def _excess(prior: FiniteSupport, plans: Sequence[Plan], planned: int, true: int) -> float:
    """Return the excess cost per step of the plan for kernel `planned` if kernel `true` is the true one."""
    return average_cost(plans[planned], prior.model(planned), prior.model(true)) - plans[true].lower_cost


def average_cost(plan: Plan, assumed: POMDP, truth: POMDP) -> float:
    """Return the long-run average cost, scaled, of a plan's controller under another model.

    The result is NaN if the Markov chain on pairs of node and state is too large. The powers of the lazy
    chain, computed by squaring, converge to the limit of the averages of the chain.
    """
    controller, own = plan.controller, truth.setting
    if len(controller) * truth.n_states > _MAX_CHAIN:
        return float("nan")
    next_nodes = controller.successors[:, :, None] == np.arange(len(controller))  # [N, O, N']
    joint = joint_matrices(truth, plan.quantized_setting)[controller.actions]  # [N, O, S, S']
    chain = np.einsum("nrst,nrm->nsmt", joint, next_nodes)  # [N, S, N', S']
    size = len(controller) * truth.n_states
    power = 0.5 * (np.eye(size) + chain.reshape(size, size))
    for _ in range(_DOUBLINGS):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return float(first_nodes(plan, assumed, truth).ravel() @ power @ own.cost[controller.actions].ravel())


def first_nodes(plan: Plan, assumed: POMDP, truth: POMDP) -> Array:
    """[N, S]: the joint distribution of state and first node, which depends on the belief under `assumed`."""
    start = np.zeros((len(plan.controller), truth.n_states))
    for belief, states in zip(_starts_of(assumed), _starts_of(truth), strict=True):
        possible = belief.sum() > 0.0
        node = plan.follow(belief / belief.sum()).node if possible else plan.controller.start
        start[node] += states
    return start
