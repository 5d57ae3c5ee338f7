"""Checkers for users too: say in plain words what is wrong, or doubtful, before a long run finds out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike

import numpy as np

from .._utils.integers import is_integer
from .._utils.issues import Issue
from ..errors import ParseError, PSRLError
from ..models import POMDP, Setting
from ..models.structure import ModelStructure, analyze_structure
from ..protocols import Planner, Posterior, Prior, Solution

# Positive entries below this are more often rounding of a zero than a rate that somebody measured.
_SUSPICIOUSLY_SMALL = 1e-12


def check_model(model: POMDP | str | PathLike[str]) -> list[Issue]:
    """What is wrong or doubtful about a model, or about the file that should hold one.

    >>> from psrl_pomdp import problem
    >>> for finding in check_model(problem("two-rooms")):
    ...     print(f"{finding.severity}: {finding.text}")
    warning: the start can end up in 2 recurrent classes (good-room | bad-room): the best average may \
depend on which, and the paper's Assumption 1 then fails
    """
    if isinstance(model, str | PathLike):
        from ..io import load

        try:
            model = load(model)
        except (ParseError, OSError) as error:
            return [Issue("error", str(error))]
    if not isinstance(model, POMDP):
        return [Issue("error", f"a {type(model).__name__} is not a POMDP")]  # type: ignore[unreachable]
    try:
        _rebuilt(model)
    except PSRLError as error:  # somebody unlocked an array and wrote into it
        return [Issue("error", str(error))]
    facts = analyze_structure(model)
    found = [Issue("warning", text) for rule in _DOUBTS for text in rule(model, facts)]
    found += [Issue("info", text) for text in (*model.remarks, *_notes(model, facts))]
    return found


def _rebuilt(model: POMDP) -> POMDP:
    return POMDP(model.setting.replace(), model.transition)


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _named_states(model: POMDP, states: Sequence[int]) -> str:
    return _listed([model.setting.names.state(s) for s in states])


def _several_classes(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    classes = facts.reachable_classes
    if len(classes) > 1:
        shown = " | ".join(_named_states(model, c.states) for c in classes[:4])
        yield (
            f"the start can end up in {len(classes)} recurrent classes ({shown}): the best average may "
            "depend on which, and the paper's Assumption 1 then fails"
        )


def _periodic(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    for c in facts.reachable_classes:
        if c.period > 1 and facts.sensor_margin == 0.0:
            yield (
                f"the class of {_named_states(model, c.states)} has period {c.period} and its sensor does "
                "not tell all states apart: the phase may stay hidden, and Assumption 1 then fails"
            )


def _unreachable(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    lost = [s for s in range(model.n_states) if s not in set(facts.reachable_states)]
    if lost:
        yield f"no policy reaches {_named_states(model, lost)} from the start"


def _hidden_for_good(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    if len(facts.blind_actions) == model.n_actions and model.n_states > 1:
        yield "no reading after an action says anything about the state: its dynamics cannot be learned"
        return
    for group in facts.indistinguishable_states:
        yield (
            f"no reading tells {_named_states(model, group)} apart: how they move can be learned only "
            "through what follows, if at all"
        )


def _duplicate_actions(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    seen: dict[bytes, int] = {}
    setting = model.setting
    for a in range(model.n_actions):
        parts = (model.transition[a], setting.observation[a], setting.cost[a])
        first = seen.setdefault(b"".join(part.tobytes() for part in parts), a)
        if first != a:
            one, other = setting.names.action(first), setting.names.action(a)
            yield f"actions {one} and {other} are the same in every number"


def _readings_that_never_come(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    setting = model.setting
    comes = (setting.observation > 0).any(axis=(0, 1))
    if setting.first_observation is not None:
        comes |= (setting.first_observation > 0).any(axis=0)
    never = [setting.names.observation(int(o)) for o in np.flatnonzero(~comes)]
    if never:
        yield f"no state ever gives the reading {_listed(never)}"


def _nothing_to_choose(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    cost = model.setting.cost
    if (cost == cost.flat[0]).all():
        yield f"the {model.setting.units.kind} is the same everywhere: there is nothing to optimise"
    elif model.n_actions == 1:
        yield "there is only one action: there is nothing to decide"


def _tiny_probabilities(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    setting = model.setting
    for name, axes, array in (
        ("transition", "ast", model.transition),
        ("observation", "aso", setting.observation),
        ("initial", "s", setting.initial),
    ):
        tiny = (array > 0) & (array < _SUSPICIOUSLY_SMALL)
        if tiny.any():
            where = tuple(int(i) for i in np.argwhere(tiny)[0])
            entry = setting.names.entry(name, axes, where)
            others = int(tiny.sum()) - 1
            more = f", and {others} like it" if others else ""
            yield f"{entry} is {array[where]:.3g}{more}: was zero meant?"


_DOUBTS: tuple[Callable[[POMDP, ModelStructure], Iterator[str]], ...] = (
    _several_classes,
    _periodic,
    _unreachable,
    _hidden_for_good,
    _duplicate_actions,
    _readings_that_never_come,
    _nothing_to_choose,
    _tiny_probabilities,
)


def _notes(model: POMDP, facts: ModelStructure) -> Iterator[str]:
    if facts.transient_states:
        yield f"transient under every policy: {_named_states(model, facts.transient_states)}"
    blind = facts.blind_actions
    if model.n_states > 1 and 0 < len(blind) < model.n_actions:
        names = _listed([model.setting.names.action(a) for a in blind])
        yield f"nothing is read about the state after {names}"
    if facts.sensor_margin == 0.0 and not facts.indistinguishable_states:
        yield "the sensor has not full rank: single readings do not settle how often each state occurs"


def check_posterior(
    prior: Prior,
    posterior: Callable[[np.random.Generator], Posterior] | None = None,
    *,
    replicates: int = 300,
    length: int = 30,
    seed: int = 0,
) -> list[Issue]:
    """Whether a prior's posterior, or another `posterior(rng)` for the same prior, keeps its promises.

    Kernels, counts and beliefs must have the right shapes and sums; beliefs, and for a finite set weights
    and expected counts, must agree with the sum over every hidden path; the same seed must give the same
    sample; an impossible reading must be refused and change nothing. And over `replicates` lives of
    `length` steps in worlds drawn from the prior, samples must be distributed as the truth is, given the
    readings: eight z-scores, the exact log-likelihood among them, may not pass 5 (false alarm 5e-6).
    Where compiled loops can drive the posterior, an agent must choose the same actions by them as one
    observation at a time.

    >>> from psrl_pomdp import FinitePrior
    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0], first_observation=None)
    >>> stays, moves = [[[0.9, 0.1], [0.1, 0.9]]], [[[0.1, 0.9], [0.9, 0.1]]]
    >>> check_posterior(FinitePrior(setting, [stays, moves]), replicates=20, length=5)
    []
    """
    from .posterior_checks import broken_promises

    factory = prior.posterior if posterior is None else posterior
    found = []
    try:
        for text in broken_promises(prior, factory, replicates, length, seed):
            found.append(Issue("error", text))
    except Exception as error:
        found.append(Issue("error", f"raised {error!r}"))
    return found


def check_agent(make: Callable[[int], object], model: POMDP, *, steps: int = 60) -> list[Issue]:
    """Whether the agents that `make(seed)` gives keep to the protocol, tried on `model`.

    Actions must be actions; the same seed and readings must give the same ones; lost readings must be
    taken; and an agent that was saved and loaded must go on as if it had not been. An agent that cannot be
    saved is doubtful.

    >>> from psrl_pomdp import PSRLAgent, problem
    >>> world = problem("separated")
    >>> check_agent(lambda seed: PSRLAgent(world.family, seed=seed), world)
    []
    """
    from .agent_checks import NOT_SAVED, broken_promises

    found = []
    try:
        for text in broken_promises(make, model, steps):
            found.append(Issue("warning" if text == NOT_SAVED else "error", text))
    except Exception as error:
        found.append(Issue("error", f"raised {error!r}"))
    return found


def check_planner(planner: Planner, *, steps: int = 4000, seed: int = 0) -> list[Issue]:
    """Whether a planner keeps its promises, on small models whose optimal averages are known.

    Its interval must hold the optimum and be no wider than asked, its actions must be actions, the same call
    must give the same interval, and its policy, simulated for `steps` steps, may not cost more than its upper
    end by more than six standard errors (false alarm 1e-9 a model) and what a start can be worth.
    """
    findings = []
    for name, model, optimum in _known_models():
        try:
            found, again = planner(model, tolerance=1e-4), planner(model, tolerance=1e-4)
            rng = np.random.default_rng(seed)
            texts = list(_broken_promises(found, again, model, optimum, rng, steps))
        except Exception as error:
            texts = [f"raised {error!r}"]
        findings += [Issue("error", f"{name}: {text}") for text in texts]
    return findings


def _known_models() -> Iterator[tuple[str, POMDP, float]]:
    """Small models with their optimal averages: in closed form, or certified to seven digits."""
    from ..problems import problem

    seen = POMDP(
        Setting([[1.0, 0.0], [0.0, 1.0]], [[0.0, 10.0], [4.0, 4.0]], [1.0, 0.0]),
        [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]],
    )
    yield "a machine in plain sight", seen, 4.0 / 11.0  # ten days of running, one of replacing
    yield "tiger", problem("tiger"), 1.0837887
    yield "machine-repair", problem("machine-repair"), 0.4220286
    yield "no-sensor", problem("no-sensor"), 0.2670667


def _broken_promises(
    found: Solution, again: Solution, model: POMDP, optimum: float, rng: np.random.Generator, steps: int
) -> Iterator[str]:
    units = model.setting.units
    width = units.high - units.low
    if not found.lower <= found.upper:
        yield f"its interval [{found.lower}, {found.upper}] is upside down"
    if not found.lower - 1e-6 * width <= optimum <= found.upper + 1e-6 * width:
        yield f"its interval [{found.lower}, {found.upper}] does not hold the optimum {optimum}"
    if found.upper - found.lower > 1.01e-4 * width and "clos" in str(found.status):
        yield f"its interval is {found.upper - found.lower} wide, and its status says closed"
    if (found.lower, found.upper) != (again.lower, again.upper):
        yield "the same call gave another interval"
    for belief in (*np.eye(model.n_states), model.setting.initial):
        action = found.action(belief)
        if not is_integer(action, 0, model.n_actions - 1):
            yield f"its action {action!r} is not one of 0 to {model.n_actions - 1}"
            return
    mean, error = _simulated(found, model, rng, steps)
    worst = found.upper if units.kind == "cost" else found.lower
    excess = (mean - worst) / width if units.kind == "cost" else (worst - mean) / width
    if excess > 6 * error + 20.0 / steps:
        yield f"its policy averages {mean} over {steps} steps, and its bound says {worst}"


def _simulated(found: Solution, model: POMDP, rng: np.random.Generator, steps: int) -> tuple[float, float]:
    """The average of playing the policy, in the user's numbers, and its scaled error from 20 batches."""
    setting = model.setting
    state = int(rng.choice(model.n_states, p=setting.initial))
    belief = setting.initial.copy()
    if setting.first_observation is not None:
        reading = int(rng.choice(model.n_observations, p=setting.first_observation[state]))
        belief = belief * setting.first_observation[:, reading]
    paid = np.empty(steps)
    for t in range(steps):
        belief = belief / belief.sum()
        a = int(found.action(belief))
        paid[t] = setting.cost[a, state]
        state = int(rng.choice(model.n_states, p=model.transition[a, state]))
        reading = int(rng.choice(model.n_observations, p=setting.observation[a, state]))
        belief = (belief @ model.transition[a]) * setting.observation[a, :, reading]
    batches = paid[: steps // 20 * 20].reshape(20, -1).mean(axis=1)
    return float(setting.units.from_scaled(paid.mean())), float(batches.std(ddof=1) / np.sqrt(20))
