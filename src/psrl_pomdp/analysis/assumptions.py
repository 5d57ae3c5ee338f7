"""Which of the paper's assumptions hold for a problem and a prior, with margins, before a long run.

1. *Bellman*: J does not depend on the start, and a bounded v solves the optimality equation. Proved where
   every transition has positive probability (Platzman 1980), or where states are seen and the MDP is weakly
   communicating; refuted where certified bounds from two starts are apart. Otherwise a plan whose bounds
   serve every start leaves J no more room than its gap.
2. *Separation*: the margin ε of a finite family, certified from below (`separation`).
3. *Belief* and 4. *kernel*: they follow from 2 for a finite family whose episodes no reading moves; otherwise
   there is only what short simulated runs look like (`estimate_concentration`), which is labelled so.

Verdicts: `holds` and `fails` are proved, `seems to hold` and `seems to fail` are not, `open` is neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..inference.choosing import is_always_positive
from ..models import POMDP, Setting
from ..models.structure import ModelStructure, analyze_structure
from ..planning import Plan, plan
from ..protocols import FiniteSupport, Prior
from .bounds import FiniteBound, GeneralBound, finite_bound, general_bound, largest_span
from .concentration import STEADY, VANISHED, Concentration, estimate_concentration
from .confusion import Confusion, confusions
from .separation import separation

Verdict = Literal["holds", "seems to hold", "open", "seems to fail", "fails"]

_MOST_STARTS, _LEAST_TOLERANCE, _WORK_A_START = 8, 1e-4, 3e8  # for plans from single states
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Aspect:
    """One assumption: what is known of it, by which right, and the numbers behind it."""

    name: str
    verdict: Verdict
    words: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Assessment:
    """What `assess` found."""

    prior: Prior
    bellman: Aspect
    separation: Aspect
    belief: Aspect
    kernel: Aspect
    sensor: Aspect  # no assumption of the paper's: whether states can be told apart
    confusions: tuple[Confusion, ...]
    finite: FiniteBound | None
    general: GeneralBound | None

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        return self.bellman, self.separation, self.belief, self.kernel, self.sensor

    @property
    def failing(self) -> tuple[Aspect, ...]:
        """Those of the theorem for this prior that fail, or seem to."""
        needed = case_of(self.prior).needed(self)
        return tuple(aspect for aspect in needed if "fail" in aspect.verdict)

    @property
    def conclusions(self) -> tuple[str, ...]:
        """Which theorem applies, and what holds where none does."""
        if self.bellman.verdict == "fails":
            return "no theorem of the paper applies: there is no one J to compare with", _ALWAYS
        return case_of(self.prior).conclusions(self)


def assess(
    model: POMDP,
    prior: Prior,
    *,
    horizon: int = 1000,
    seeds: int = 8,
    tolerance: float = 1e-4,
    max_work: float = 1e9,
) -> Assessment:
    """The paper's assumptions for a world and what a learner of it believes beforehand.

    >>> from psrl_pomdp import problem
    >>> world = problem("lookalikes")
    >>> found = assess(world, world.family, horizon=100, seeds=2)
    >>> found.bellman.verdict, found.separation.verdict
    ('seems to hold', 'fails')
    """
    facts, case = analyze_structure(model), case_of(prior)
    worlds = case.worlds(model)
    plans = [plan(world, tolerance, max_work=max_work) for world in worlds]
    first = case.bellman([bellman_of(world, own) for world, own in zip(worlds, plans, strict=True)])
    first = replace(first, numbers=first.numbers | _spans(plans))
    second, confused, bound = case.separation(plans)
    seen = estimate_concentration(prior, horizon, seeds)
    third, fourth = _concentration(facts, case.concentrates(second), seen)
    general = None
    if not any(own.depends_on_start for own in plans):
        general = general_bound(model.setting, largest_span(plans), seen.k1, seen.k2)
    return Assessment(
        prior, first, second, third, fourth, _sensor(model, facts), tuple(confused), bound, general
    )


# -- 1 -------------------------------------------------------------------------------------------


def bellman_of(model: POMDP, own: Plan) -> Aspect:
    """Assumption 1 for one world, with a plan for it."""
    facts = analyze_structure(model)
    numbers = {"weakly_communicating_from_start": facts.weakly_communicating_from_start, "gap": own.gap}
    if (model.transition > 0.0).all():
        return Aspect(
            "1 Bellman", "holds", "every transition has positive probability (Platzman 1980)", numbers
        )
    if facts.perfect_observation and facts.weakly_communicating_from_start:
        return Aspect("1 Bellman", "holds", "states are seen, and the MDP is weakly communicating", numbers)
    if own.status == "closed" and not own.depends_on_start:
        words = f"the same bounds are proved from every start, {own.gap:.1e} apart (scaled)"
        return Aspect("1 Bellman", "seems to hold", f"{words}; more is not proved", numbers)
    return _by_start(model, own, facts, numbers)


def _by_start(model: POMDP, own: Plan, facts: ModelStructure, numbers: dict[str, Any]) -> Aspect:
    """Certified bounds from single states and from the start: where two are apart, J is not one number."""
    starts = {"from the start": (own.lower, own.upper)}
    for s in own.states[:_MOST_STARTS]:
        anew = plan(_started(model, s), max(own.gap, _LEAST_TOLERANCE), max_work=_WORK_A_START)
        starts[f"from {model.setting.names.state(s)}"] = (anew.lower, anew.upper)
    best = min(starts, key=lambda name: starts[name][1])
    worst = max(starts, key=lambda name: starts[name][0])
    numbers = numbers | {"bounds": {name: list(pair) for name, pair in starts.items()}}
    if starts[worst][0] > starts[best][1] + _ROUNDING * own.units.difference(1.0):
        words = (
            f"the best average depends on the start: {_interval(starts[best])} {best}, "
            f"{_interval(starts[worst])} {worst}"
        )
        if facts.weakly_communicating_from_start:
            words += "; its MDP is weakly communicating, which is not enough where states are hidden"
        return Aspect("1 Bellman", "fails", words, numbers)
    words = f"bounds {own.gap:.1e} apart (scaled; {own.status}), "
    words += "for its own start alone" if own.depends_on_start else "the same from every start"
    return Aspect("1 Bellman", "open", f"{words}; plans from single states do not refute one J", numbers)


def _started(model: POMDP, state: int) -> POMDP:
    """The same world, begun in one state."""
    own = model.setting
    initial = np.eye(model.n_states)[state]
    setting = Setting(own.observation, own.cost, initial, own.first_observation, units=own.units)
    return POMDP(setting, model.transition)


def _interval(pair: tuple[float, float]) -> str:
    low, high = (f"{end:.4g}" for end in pair)
    return low if low == high else f"{low} to {high}"


def _spans(plans: list[Plan]) -> dict[str, Any]:
    """H: brackets in practice, not by proof."""
    spans = [own.span for own in plans if not own.depends_on_start]
    return {"span": [min(low for low, _ in spans), max(high for _, high in spans)]} if spans else {}


# -- 3 and 4 -------------------------------------------------------------------------------------

# Short runs cannot show this failing: they are still looking.
_UNSEEN = (
    "but some actions give no reading and costs are not seen, so that a policy of such actions may "
    "wrongly be held to be good for ever"
)


def _concentration(facts: ModelStructure, proved: bool, seen: Concentration) -> tuple[Aspect, Aspect]:
    """Assumptions 3 and 4; `proved` is whether they follow from assumption 2."""
    runs = f"{len(seen.belief)} runs of {seen.times[-1]} steps"
    lemma = "follows from 2 while no reading moves the episodes, as with m̃_t = t"
    found = []
    for name, label, constant, trend in (
        ("3 belief", "K_1", seen.k1, seen.belief_trend),
        ("4 kernel", "K_2", seen.k2, seen.kernel_trend),
    ):
        p, low, high = trend
        grows = "vanishes" if p <= VANISHED else f"goes like T^{p:.2f}, at most T^{high:.2f}"
        estimate = f"{label} about {constant.value:.3g}, and what it bounds {grows} (estimated, {runs})"
        numbers = {label: constant.value, "trend": list(trend), "basis": "estimated"}
        verdict: Verdict = "seems to fail" if low > STEADY else "seems to hold" if high <= STEADY else "open"
        if name == "3 belief" and facts.perfect_observation:
            verdict, estimate = "holds", "the belief is the state, whatever the kernel"
        elif proved:
            verdict, estimate = "holds", f"{lemma}; {estimate}"
        elif verdict == "seems to hold" and facts.blind_actions:
            verdict, estimate = "open", f"{estimate}; {_UNSEEN}"
        found.append(Aspect(name, verdict, estimate, numbers))
    return found[0], found[1]


def _sensor(model: POMDP, facts: ModelStructure) -> Aspect:
    names = model.setting.names
    groups = [[names.state(s) for s in group] for group in facts.indistinguishable_states]
    numbers = {
        "margin": facts.sensor_margin,
        "margins": list(facts.sensor_margins),
        "indistinguishable_states": groups,
        "blind_actions": [names.action(a) for a in facts.blind_actions],
    }
    if facts.sensor_margin > 0.0:
        words = f"readings tell all states apart, smallest singular value {facts.sensor_margin:.3g}"
        return Aspect("sensor", "holds", words, numbers)
    if len(facts.blind_actions) == model.n_actions:
        words = "readings say nothing about the state: nothing can be learned"
    elif groups:
        words = f"no reading tells apart: {' | '.join(', '.join(group) for group in groups[:3])}"
    else:
        words = "the sensor has not full rank: single readings do not settle how often each state occurs"
    return Aspect("sensor", "fails", words, numbers)


# -- what differs between the two theorems ---------------------------------------------------------

_DOUBTFUL_FIRST: tuple[Verdict, ...] = ("fails", "open", "seems to hold", "holds")
_ALWAYS = (
    "what holds all the same: the posterior, the lemmas on episodes and pseudo-counts, and the certified "
    "regret of any run"
)


def case_of(prior: Prior) -> FiniteCase | GeneralCase:
    """Return the theorem that is about this prior."""
    return FiniteCase(prior) if isinstance(prior, FiniteSupport) else GeneralCase(prior)


@dataclass(frozen=True)
class FiniteCase:
    """Theorem 1: the prior is over finitely many kernels, and assumptions 1 and 2 are needed."""

    prior: FiniteSupport

    def needed(self, found: Assessment) -> tuple[Aspect, ...]:
        """Return what the theorem assumes."""
        return found.bellman, found.separation

    def worlds(self, model: POMDP) -> list[POMDP]:
        """Return the models that are planned for: all that the prior holds possible."""
        return [self.prior.model(m) for m in range(len(self.prior))]

    def bellman(self, found: list[Aspect]) -> Aspect:
        """Return assumption 1 for the kernel for which it is most doubtful."""
        worst = min(range(len(found)), key=lambda m: _DOUBTFUL_FIRST.index(found[m].verdict))
        if len({each.verdict for each in found}) == 1:
            return found[worst]
        return replace(found[worst], words=f"kernel {worst}: {found[worst].words}")

    def separation(self, plans: list[Plan]) -> tuple[Aspect, list[Confusion], FiniteBound | None]:
        """Return assumption 2, the pairs of kernels without a margin, and the theorem's constants."""
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
            words = f"ε ≥ {margins.epsilon:.4g} nats; least between kernels {m} and {n} under {action}"
            return Aspect("2 separation", "holds", words, numbers), [], bound
        found = confusions(prior, margins, plans)
        found.sort(key=lambda each: (not each.never, not each.refuted))
        pairs = "1 pair of kernels" if len(found) == 1 else f"{len(found)} pairs of kernels"
        harm = sum(not each.harmless for each in found)
        words = f"ε = 0: {pairs} without a margin under some action, {harm or 'none'} of them with a cost"
        verdict: Verdict = "fails" if any(each.refuted for each in found) else "open"
        return Aspect("2 separation", verdict, words, numbers), found, bound

    def concentrates(self, second: Aspect) -> bool:
        """Return whether assumptions 3 and 4 follow from assumption 2."""
        return second.verdict == "holds"

    def conclusions(self, found: Assessment) -> tuple[str, ...]:
        """Return what follows for the regret."""
        if found.separation.verdict == "holds":
            return self._theorem_one(found.bellman, found.finite)
        lines = ["the O(log T) theorem does not apply: its margin ε is 0"]
        harm = [each for each in found.confusions if not each.harmless]
        for_good = [each for each in harm if each.never]
        if for_good:
            pairs = ", ".join("{} and {}".format(*each.kernels) for each in for_good[:4])
            lines.append(
                f"regret is linear for one of kernels {pairs} at least: no reading ever tells which it is"
            )
        elif harm:
            lines.append("regret is sublinear only if what is played tells apart the kernels that matter")
        else:
            lines.append("confusing the kernels in question costs nothing that planning can see")
        return (*lines, _ALWAYS)

    def _theorem_one(self, first: Aspect, bound: FiniteBound | None) -> tuple[str, ...]:
        given = "" if first.verdict == "holds" else ", as far as assumption 1 does"
        lines = [f"the O(log T) theorem applies{given}, with the doubling schedule"]
        starts = np.array([self.prior.model(m).setting.initial for m in range(len(self.prior))])
        if (starts != starts[0]).any():
            lines.append("its proof takes the first reading to have one law; here starts differ by kernel")
        if bound is None:
            return tuple(lines)
        if bound.beta.value <= 0.0:
            lines.append(
                "but some reading can have probability 0: d is infinite, β = 0, and the constants say nothing"
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
    """The O(T^2/3) theorem: it is about any prior, and assumptions 1, 3 and 4 are needed."""

    prior: Prior

    def needed(self, found: Assessment) -> tuple[Aspect, ...]:
        """Return what the theorem assumes."""
        return found.bellman, found.belief, found.kernel

    def worlds(self, model: POMDP) -> list[POMDP]:
        """Return the models that are planned for: the given one stands for all draws."""
        return [model]

    def bellman(self, found: list[Aspect]) -> Aspect:
        """Return assumption 1 for the model, and what is sure of draws from the prior."""
        [own] = found
        positive = is_always_positive(self.prior)
        if positive and "hold" in own.verdict:
            words = (
                "every transition of almost every draw has positive probability (Platzman 1980); no one H "
                "serves all draws, so the theorem is about those with a span up to some H"
            )
            return replace(own, verdict="holds", words=words)
        draws = "almost every draw from the prior is free of that" if positive else "draws may differ"
        return replace(own, words=f"for this model: {own.words}; {draws}")

    def separation(self, plans: list[Plan]) -> tuple[Aspect, list[Confusion], FiniteBound | None]:
        """Return that assumption 2 is not about this prior."""
        words = "about finite families; this prior is over a continuum of kernels"
        return Aspect("2 separation", "open", words), [], None

    def concentrates(self, second: Aspect) -> bool:
        """Return whether assumptions 3 and 4 follow from assumption 2: never, for such a prior."""
        return False

    def conclusions(self, found: Assessment) -> tuple[str, ...]:
        """Return what follows for the regret."""
        verdicts = {each.name: each.verdict for each in (found.belief, found.kernel)}
        against = [name for name, verdict in verdicts.items() if "fail" in verdict]
        if against:
            words = f"the O(T^2/3) theorem is not to be relied on: assumption {' and '.join(against)}"
        elif "open" in verdicts.values():
            words = "the O(T^2/3) theorem applies if assumptions 3 and 4 hold, which is open"
        else:
            words = "the O(T^2/3) theorem applies if assumptions 3 and 4 are as they seem"
        return words, _ALWAYS
