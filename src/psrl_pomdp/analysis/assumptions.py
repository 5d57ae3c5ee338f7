"""An assessment of the paper's assumptions for a model and a prior.

1. *Bellman*: J does not depend on the initial belief, and a bounded v solves the optimality equation. This is
   proved if every transition has positive probability (Platzman 1980), or if states are observed and the MDP
   is weakly communicating. It is refuted if certified bounds for two initial beliefs are disjoint. Otherwise,
   a plan whose bounds hold for every initial belief limits the variation of J to its gap.
2. *Separation*: the margin ε of a finite prior, with a certified lower bound (`separation`).
3. *Belief* and 4. *kernel*: they follow from 2 for a finite prior if the episodes do not depend on the
   observations. Otherwise, they are estimated from short simulations (`estimate_concentration`), and labeled
   so.

`aspects` has the verdicts on 1, 3 and 4 for one model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InvalidModelError
from ..inference.choosing import is_always_positive
from ..inference.labels import LabelSymmetry, label_symmetries
from ..models import POMDP
from ..models.stand_in import finite_stand_in
from ..models.structure import analyze_structure
from ..planning import Plan, plan
from ..protocols import FiniteSupport, Prior, ReplacesSetting
from .aspects import Aspect, Verdict, bellman_of, concentration_aspects, sensor_aspect
from .bounds import FiniteBound, GeneralBound, finite_bound, general_bound, largest_span
from .concentration import estimate_concentration
from .confusion import Confusion, confusions
from .separation import separation
from .unknown_parts import conclusions_for_unknown, remarks_on_pairs


@dataclass(frozen=True)
class Assessment:
    """The result of `assess`: Assumptions 1 to 4, the sensor, and the bounds of the theorems that apply."""

    prior: Prior
    bellman: Aspect
    separation: Aspect
    belief: Aspect
    kernel: Aspect
    sensor: Aspect  # whether observations distinguish all states, which the paper does not assume
    confusions: tuple[Confusion, ...]  # the pairs of kernels without a margin
    finite: FiniteBound | None
    general: GeneralBound | None

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The four assumptions and the sensor."""
        return self.bellman, self.separation, self.belief, self.kernel, self.sensor

    @property
    def labels(self) -> tuple[LabelSymmetry, ...]:
        """The renamings of the states that observations cannot tell from the truth, and the prior hardly."""
        return tuple(label_symmetries(self.prior))

    @property
    def failing(self) -> tuple[Aspect, ...]:
        """The assumptions of the theorem for this prior that fail or seem to fail."""
        needed = case_of(self.prior).needed(self)
        return tuple(aspect for aspect in needed if "fail" in aspect.verdict)

    @property
    def conclusions(self) -> tuple[str, ...]:
        """Sentences on the theorem that applies, and on what holds if none applies."""
        if self.bellman.verdict == "fails":
            return "no theorem of the paper applies: J depends on the initial belief", _ALWAYS
        unknown = conclusions_for_unknown(self.prior)
        if unknown:
            return (*unknown, _ALWAYS)
        return (*remarks_on_pairs(self.prior), *case_of(self.prior).conclusions(self))


def assess(
    model: POMDP,
    prior: Prior,
    *,
    horizon: int = 1000,
    seeds: int = 8,
    tolerance: float = 1e-4,
    max_work: float = 1e9,
) -> Assessment:
    """Assess the paper's assumptions for a model and a prior.

    If observations are real numbers, counts or vectors, the assessment is that of about 32 classes of
    observations.

    Parameters
    ----------
    model
        The true model.
    prior
        The prior of a learner.
    horizon, seeds
        The number of steps and of runs of the simulations.
    tolerance, max_work
        The limits of the plans.

    >>> from psrl_pomdp import problem
    >>> world = problem("lookalikes")
    >>> found = assess(world, world.family, horizon=100, seeds=2)
    >>> found.bellman.verdict, found.separation.verdict
    ('seems to hold', 'fails')
    """
    model, prior = _finite(model, prior)
    facts, case = analyze_structure(model), case_of(prior)
    worlds = case.worlds(model)
    plans = [plan(world, tolerance, max_work=max_work) for world in worlds]
    first = case.bellman([bellman_of(world, own) for world, own in zip(worlds, plans, strict=True)])
    first = replace(first, numbers=first.numbers | _spans(plans))
    second, confused, bound = case.separation(plans)
    seen = estimate_concentration(prior, horizon, seeds)
    third, fourth = concentration_aspects(facts, case.concentrates(second), seen)
    general = None
    if not any(own.depends_on_start for own in plans):
        general = general_bound(model.setting, largest_span(plans), seen.k1, seen.k2)
    return Assessment(
        prior, first, second, third, fourth, sensor_aspect(model, facts), tuple(confused), bound, general
    )


def _finite(model: POMDP, prior: Prior) -> tuple[POMDP, Prior]:
    """Return the model and the prior with finitely many observations."""
    if model.setting.is_finite:
        return model, prior
    setting = finite_stand_in(model.setting)
    if not isinstance(prior, ReplacesSetting):
        raise InvalidModelError(
            f"{prior!r} has no replace(setting=...), which is needed to assess "
            f"{model.setting.sensor.described()} by classes of observations"
        )
    own: Prior = prior.replace(setting=setting)
    return POMDP(setting, model.transition, model.name, model.remarks), own


def _spans(plans: list[Plan]) -> dict[str, Any]:
    """Return bounds on H, which hold in practice and are not proved."""
    spans = [own.span for own in plans if not own.depends_on_start]
    return {"span": [min(low for low, _ in spans), max(high for _, high in spans)]} if spans else {}


# -- the two theorems ------------------------------------------------------------------------------

_WORST_FIRST: tuple[Verdict, ...] = ("fails", "open", "seems to hold", "holds")
_ALWAYS = (
    "in any case, the posterior is correct, the lemmas on episodes and pseudo-counts hold, and the regret of "
    "a run is certified"
)


def case_of(prior: Prior) -> FiniteCase | GeneralCase:
    """Return the theorem that applies to this kind of prior."""
    return FiniteCase(prior) if isinstance(prior, FiniteSupport) else GeneralCase(prior)


@dataclass(frozen=True)
class FiniteCase:
    """Theorem 1: the prior is over finitely many kernels, and assumptions 1 and 2 are needed."""

    prior: FiniteSupport

    def needed(self, found: Assessment) -> tuple[Aspect, ...]:
        """Return what the theorem assumes."""
        return found.bellman, found.separation

    def worlds(self, model: POMDP) -> list[POMDP]:
        """Return the models that need a plan: those of all kernels of the prior."""
        return [self.prior.model(m) for m in range(len(self.prior))]

    def bellman(self, found: list[Aspect]) -> Aspect:
        """Return Assumption 1 for the kernel with the worst verdict."""
        worst = min(range(len(found)), key=lambda m: _WORST_FIRST.index(found[m].verdict))
        if len({each.verdict for each in found}) == 1:
            return found[worst]
        return replace(found[worst], message=f"kernel {worst}: {found[worst].message}")

    def separation(self, plans: list[Plan]) -> tuple[Aspect, list[Confusion], FiniteBound | None]:
        """Return Assumption 2, the pairs of kernels without a margin, and the constants of the theorem."""
        prior, margins = self.prior, separation(self.prior)
        bound = None
        if not any(own.depends_on_start for own in plans):
            bound = finite_bound(prior, plans, margins=margins)
        m, n, a = margins.worst
        action = prior.setting.names.action(a)
        numbers: dict[str, Any] = {
            "epsilon": margins.epsilon,
            "worst": [m, n, a],
            "margins": margins.margins.tolist(),
        }
        if margins.epsilon > 0.0:
            message = f"ε ≥ {margins.epsilon:.4g} nats; smallest for kernels {m} and {n} under {action}"
            return Aspect("2 separation", "holds", message, numbers), [], bound
        found = confusions(prior, margins, plans)
        found.sort(key=lambda each: (not each.indistinguishable, not each.refuted))
        pairs = "1 pair of kernels" if len(found) == 1 else f"{len(found)} pairs of kernels"
        harm = sum(not each.harmless for each in found)
        message = f"ε = 0: {pairs} without a margin under some action; {harm or 'none'} of them matter"
        verdict: Verdict = "fails" if any(each.refuted for each in found) else "open"
        return Aspect("2 separation", verdict, message, numbers), found, bound

    def concentrates(self, second: Aspect) -> bool:
        """Return whether Assumptions 3 and 4 follow from Assumption 2."""
        return second.verdict == "holds"

    def conclusions(self, found: Assessment) -> tuple[str, ...]:
        """Return what follows for the regret."""
        if found.separation.verdict == "holds":
            return self._theorem_one(found.bellman, found.finite)
        lines = ["the O(log T) theorem does not apply: its margin ε is 0"]
        harm = [each for each in found.confusions if not each.harmless]
        permanent = [each for each in harm if each.indistinguishable]
        if permanent:
            pairs = ", ".join("{} and {}".format(*each.kernels) for each in permanent[:4])
            lines.append(
                f"regret is linear for at least one of kernels {pairs}: no observation distinguishes them"
            )
        elif harm:
            lines.append("regret is sublinear only if the actions distinguish the kernels that matter")
        else:
            lines.append("confusing the kernels in question costs nothing that planning can see")
        return (*lines, _ALWAYS)

    def _theorem_one(self, first: Aspect, bound: FiniteBound | None) -> tuple[str, ...]:
        given = "" if first.verdict == "holds" else ", as far as assumption 1 does"
        lines = [f"the O(log T) theorem applies{given}, with the doubling schedule"]
        starts = np.array([self.prior.model(m).setting.initial for m in range(len(self.prior))])
        if (starts != starts[0]).any():
            lines.append("its proof assumes one initial distribution; here it depends on the kernel")
        if bound is None:
            return tuple(lines)
        if bound.beta.value <= 0.0:
            lines.append(
                "but some observation can have probability 0: d is infinite, β = 0, and no bound is finite"
            )
            return tuple(lines)
        horizons = 10.0 ** np.arange(1, 13)
        useful = horizons[bound.corrected(horizons) < horizons]
        at = "above T up to 10^12"
        if len(useful):
            at = f"below T from about T = 10^{np.log10(useful[0]):.0f} on"
        lines.append(
            f"β = {bound.beta.value:.3g}, α = {bound.alpha.value:.3g}, d = {bound.spread.value:.3g} "
            f"(computed), H = {bound.span.value:.3g} (estimated): the bound of the proof is {at}"
        )
        return tuple(lines)


@dataclass(frozen=True)
class GeneralCase:
    """The O(T^2/3) theorem: it is about any prior, and needs Assumptions 1, 3 and 4."""

    prior: Prior

    def needed(self, found: Assessment) -> tuple[Aspect, ...]:
        """Return what the theorem assumes."""
        return found.bellman, found.belief, found.kernel

    def worlds(self, model: POMDP) -> list[POMDP]:
        """Return the models that need a plan: the given model represents all samples."""
        return [model]

    def bellman(self, found: list[Aspect]) -> Aspect:
        """Return Assumption 1 for the model and for samples from the prior."""
        [own] = found
        positive = is_always_positive(self.prior)
        if positive and "hold" in own.verdict:
            message = (
                "almost all samples from the prior have positive transition probabilities (Platzman 1980); "
                "no finite H bounds all spans, so the theorem is about samples with a span of at most H"
            )
            return replace(own, verdict="holds", message=message)
        samples = "it holds for almost all samples" if positive else "samples from the prior may differ"
        return replace(own, message=f"for this model: {own.message}; {samples}")

    def separation(self, plans: list[Plan]) -> tuple[Aspect, list[Confusion], FiniteBound | None]:
        """Return that Assumption 2 does not apply to this prior."""
        message = "about finite priors; this prior is on a continuum of kernels"
        return Aspect("2 separation", "open", message), [], None

    def concentrates(self, second: Aspect) -> bool:
        """Return False: Assumptions 3 and 4 do not follow from Assumption 2 for such a prior."""
        return False

    def conclusions(self, found: Assessment) -> tuple[str, ...]:
        """Return what follows for the regret."""
        verdicts = {each.name: each.verdict for each in (found.belief, found.kernel)}
        against = [name for name, verdict in verdicts.items() if "fail" in verdict]
        if against:
            message = f"the O(T^2/3) theorem may not apply: assumption {' and '.join(against)}"
        elif "open" in verdicts.values():
            message = "the O(T^2/3) theorem applies if assumptions 3 and 4 hold, which is open"
        else:
            message = "the O(T^2/3) theorem applies if assumptions 3 and 4 hold as they seem to"
        return message, _ALWAYS
