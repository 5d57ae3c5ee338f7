"""Kernels of a finite family that readings may not tell apart, and whether that matters.

Assumption 2 asks that after every action, at every history, the next reading tells any two kernels apart.
Where the margin of a pair is 0 under some action, Theorem 1 does not apply. What is then asked here:

- *Can readings ever tell the two apart?* The probability of readings o_1 .. o_n along actions a_1 .. a_n is h
  M[a_1, o_1] ··· M[a_n, o_n] 1 with M[a, o](s, s′) = θ(s′ | s, a) η(o | s′). Two kernels give all of them the
  same probability if and only if they do so on a basis of the span of the vectors M ··· M 1, joint for both,
  of at most 2 |S| dimensions (Schützenberger 1961; Tzeng 1992): linear algebra, no search over histories.
- *Does it matter?* It does not where the two share an optimal policy: a learner that confuses them loses
  nothing. The controller of one kernel's plan is a machine driven by readings alone, so in the other kernel's
  world (node, state) is a Markov chain, whose average cost is computed, not simulated. Its excess over the
  certified lower bound there is what confusing them costs at most, a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array
from ..models import POMDP, Setting
from ..planning import Plan
from ..protocols import FiniteSupport
from .separation import Separation

_SAME = 1e-9
_DOUBLINGS = 50
_MOST_PAIRS = 1200  # of (node, state), for which the chain is solved


@dataclass(frozen=True)
class Confusion:
    """Two kernels with margin 0 under some actions, and what one's plan loses in the other's world."""

    kernels: tuple[int, int]
    actions: tuple[int, ...]  # under which no margin is proved
    refuted: bool  # the first reading after some action has the same law: Assumption 2 fails for sure
    never: bool  # whatever is played from the start, all readings have the same probabilities
    alone: tuple[
        int, ...
    ]  # actions that never tell them apart if they alone are played, from a common belief
    excess: tuple[float, float]  # scaled, a step: the first's plan in the second's world, and vice versa
    error: float  # of planning: an excess within it is none

    @property
    def harmless(self) -> bool:
        return bool(max(self.excess) <= self.error)

    def words(self, setting: Setting) -> str:
        """One line for people; actions by their names, what is lost in the user's scale."""
        pair = "kernels {} and {}".format(*self.kernels)
        if self.never:
            told = f"{pair} cannot be told apart, whatever is played"
        elif self.alone:
            told = f"{pair} cannot be told apart while {_names(self.alone, setting)} alone is played"
        else:
            told = f"{pair} have no margin at some beliefs under {_names(self.actions, setting)}"
        worst = float(np.max(self.excess))
        if np.isnan(worst):
            return f"{told} (what that costs was not computed: the controllers are too large)"
        if self.harmless:
            return f"{told} (harmless: each one's plan is optimal for the other, to {self.error:.0e})"
        return f"{told} (confusing them costs up to {float(setting.units.difference(worst)):.3g} a step)"


def _names(actions: Sequence[int], setting: Setting) -> str:
    return " or ".join(setting.names.action(a) for a in actions)


def confusions(prior: FiniteSupport, margins: Separation, plans: Sequence[Plan]) -> list[Confusion]:
    """Every pair of kernels with a margin of 0 under some action; `plans` are one for each kernel."""
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
                        (m, n), actions, _same_first_step(one, other), same_readings(one, other),
                        tuple(a for a in actions if same_readings(one, other, (a,))), excess, error,
                    )
                )  # fmt: skip
    return found


def same_readings(one: POMDP, other: POMDP, actions: Sequence[int] | None = None) -> bool:
    """Whether both give all readings the same probability: from their starts, under all actions, or, for some
    `actions` alone, from whatever belief they have in common."""
    own, n_states = one.setting, one.n_states
    if actions is None:
        tests = np.hstack([_starts_of(one), -_starts_of(other)])  # h·v = h·v′
    else:
        tests = np.hstack([np.eye(n_states), -np.eye(n_states)])  # v = v′
    moves = [
        (one.transition[a] * own.observation[a][:, o], other.transition[a] * own.observation[a][:, o])
        for a in (range(one.n_actions) if actions is None else actions)
        for o in range(one.n_observations)
    ]
    basis = np.zeros((0, 2 * n_states))
    waiting = [np.ones(2 * n_states)]
    while waiting:
        vector = waiting.pop()
        if np.abs(tests @ vector).max() > _SAME * max(1.0, np.abs(vector).max()):
            return False
        fresh = vector - basis.T @ (basis @ vector)
        if np.linalg.norm(fresh) > _SAME * max(1.0, float(np.linalg.norm(vector))):
            unit = fresh / np.linalg.norm(fresh)
            basis = np.vstack([basis, unit])
            waiting += [np.concatenate([f @ unit[:n_states], g @ unit[n_states:]]) for f, g in moves]
    return True


def _starts_of(model: POMDP) -> Array:
    """[first readings, S]: h(s) η(o_1 | s)."""
    first = model.setting.first_observation
    if first is None:
        return model.setting.initial[None]
    return np.asarray(model.setting.initial * first.T)


def _same_first_step(one: POMDP, other: POMDP) -> bool:
    """Whether, after some first reading and action, the next reading has the same law under both."""
    for mine, its in zip(_starts_of(one), _starts_of(other), strict=True):
        if mine.sum() > 0.0 and its.sum() > 0.0:
            laws = [
                np.einsum("s,ast,ato->ao", b / b.sum(), world.transition, world.setting.observation)
                for b, world in ((mine, one), (its, other))
            ]
            if (np.abs(laws[0] - laws[1]).max(axis=1) <= _SAME).any():
                return True
    return False


def _excess(prior: FiniteSupport, plans: Sequence[Plan], planned: int, true: int) -> float:
    """What kernel `planned`'s controller costs a step above the best, where kernel `true` is the truth."""
    return average_cost(plans[planned], prior.model(planned), prior.model(true)) - plans[true].lower_cost


def average_cost(plan: Plan, thought: POMDP, truth: POMDP) -> float:
    """The long-run average, scaled, of a plan's controller in another world; NaN where that is too large.

    The limit of averages of a chain is that of its lazy version's powers, which squaring reaches.
    """
    controller, own = plan.controller, truth.setting
    if len(controller) * truth.n_states > _MOST_PAIRS:
        return float("nan")
    onward = controller.successors[:, :, None] == np.arange(len(controller))  # [N, O, N']
    sensed = truth.transition[controller.actions][..., None] * own.observation[controller.actions][:, None]
    chain = np.einsum("nstr,nrm->nsmt", sensed, onward)  # [N, S, N', S']
    size = len(controller) * truth.n_states
    power = 0.5 * (np.eye(size) + chain.reshape(size, size))
    for _ in range(_DOUBLINGS):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return float(first_nodes(plan, thought, truth).ravel() @ power @ own.cost[controller.actions].ravel())


def first_nodes(plan: Plan, thought: POMDP, truth: POMDP) -> Array:
    """[N, S]: the node that the first reading leads to if `thought` is believed, and the true state."""
    start = np.zeros((len(plan.controller), truth.n_states))
    for belief, states in zip(_starts_of(thought), _starts_of(truth), strict=True):
        possible = belief.sum() > 0.0
        node = plan.follow(belief / belief.sum()).node if possible else plan.controller.start
        start[node] += states
    return start
