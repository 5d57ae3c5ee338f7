"""Which names of the hidden states observations cannot tell apart.

If the states of a model are renamed, in its dynamics, its observation model and the distribution of its seen
costs alike, the renamed model gives every observation the same probability. So observations never tell a
model from its renamed version. What tells them apart is the prior: calibration counts, known rows, ties and
structural zeros that a renaming would change. If a renaming leaves the prior unchanged, and the told costs of
the states are different, then the agent cannot learn which state is the expensive one, and its regret grows
in proportion to time.

The initial distribution may tell the names apart, too, but only once: what it says does not grow with time.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Array, Index
from ..errors import LabelWarning
from ..models import Setting
from ..protocols import Prior
from .dirichlet_prior import DirichletPrior
from .finite_prior import FinitePrior
from .permutations import candidates, row_map
from .rows import FreeRows, free_rows

_SAME = 1e-9


@dataclass(frozen=True)
class LabelSymmetry:
    """A renaming of the states that observations do not tell from the truth.

    Attributes
    ----------
    states
        The renaming: the new state s is the old state `states[s]`.
    evidence
        How much the prior says against the renaming, in nats: the divergence of the renamed prior from the
        prior. It is 0 if the renaming does not change the prior.
    costs_agree
        Whether the renamed states have the same told costs. If so, the renaming does no harm.
    start_agrees
        Whether the renaming leaves the initial distribution unchanged. If not, the start says something about
        the names, but only once.
    """

    states: tuple[int, ...]
    evidence: float
    costs_agree: bool
    start_agrees: bool

    @property
    def harmful(self) -> bool:
        """Whether an agent cannot learn the names, although the costs depend on them."""
        return self.evidence < _SAME and not self.costs_agree

    def text(self, setting: Setting) -> str:
        """Return the renaming, and what follows, in words."""
        names = setting.names
        moved = sorted((old, new) for new, old in enumerate(self.states) if old != new)
        listed = ", ".join(f"{names.state(old)} → {names.state(new)}" for old, new in moved)
        if self.evidence >= _SAME:
            known = f"{self.evidence:.3g} nats of the prior alone say that the states are not renamed"
            return f"{listed}: {known}" + (", and the costs agree" if self.costs_agree else "")
        if self.costs_agree:
            return (
                f"{listed}: observations cannot tell these names apart; the costs agree, so it does no harm"
            )
        which = " and ".join(names.state(old) for old, _ in moved[:2]) if len(moved) == 2 else "these states"
        once = "" if self.start_agrees else ", except for the start, which says little"
        return (
            f"{listed}: the names of {which} cannot be learned from observations{once}, and their costs "
            "differ. What helps: readings in known states (a calibration of the sensor), costs that are "
            "seen, or a known row or an impossible transition that tells the states apart"
        )


def label_symmetries(prior: Prior, *, most_evidence: float = 3.0) -> list[LabelSymmetry]:
    """Return the renamings of the states that only the prior tells from the truth, and that weakly.

    Observations cannot tell these renamings from the truth, however many there are. With five states or
    fewer, all renamings are tried; with more, all exchanges of two states.

    Parameters
    ----------
    prior
        A `DirichletPrior` or a `FinitePrior`. Of other priors nothing is known, and the list is empty.
    most_evidence
        The largest evidence of the prior against a renaming, in nats. 3 nats are odds of 20 to 1.

    Returns
    -------
    list of LabelSymmetry
        The most harmful first: those for which costs differ, by evidence.

    >>> from psrl_pomdp import DirichletSensor, Setting
    >>> setting = Setting([[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], [0.5, 0.5], states=["good", "worn"])
    >>> flat = DirichletPrior(setting, [[[1, 1], [1, 1]]] * 2, sensor=DirichletSensor([[1, 1], [1, 1]]))
    >>> [found.states for found in label_symmetries(flat)]
    [(1, 0)]
    >>> calibrated = DirichletSensor([[19, 1], [1, 19]])
    >>> label_symmetries(DirichletPrior(setting, [[[1, 1], [1, 1]]] * 2, sensor=calibrated))
    []
    """
    if isinstance(prior, DirichletPrior):
        found = _of_rows(prior)
    elif isinstance(prior, FinitePrior):
        found = _of_set(prior)
    else:
        return []
    weak = [symmetry for symmetry in found if symmetry.evidence <= most_evidence]
    return sorted(weak, key=lambda each: (each.costs_agree, each.evidence))


def _of_rows(prior: DirichletPrior) -> list[LabelSymmetry]:
    setting, rows = prior.setting, free_rows(prior)
    found = []
    for pi in candidates(setting.n_states):
        mapped = row_map(rows, pi)
        if mapped is None or not _same_first(setting, rows, pi):
            continue
        agree = prior.costs is not None or _close(setting.cost[:, pi], setting.cost)
        found.append(_symmetry(setting, pi, _divergence(rows, *mapped), agree))
    return found


def _same_first(setting: Setting, rows: FreeRows, pi: Index) -> bool:
    """Return whether a known table of the first observation is the same after the renaming."""
    first = setting.first_observation
    return first is None or rows.learns_from_first or _close(first[pi], first)


def _divergence(rows: FreeRows, source: Index, columns: Index) -> float:
    """Return the divergence of the renamed prior from the prior, Σ KL(Dirichlet(α) ‖ Dirichlet(α′))."""
    from scipy.special import digamma, gammaln  # imported here because the import is slow

    alpha, renamed = rows.concentration, np.zeros_like(rows.concentration)
    renamed[source[:, None], columns] = alpha
    if np.array_equal(alpha, renamed):
        return 0.0
    possible = alpha > 0
    one, other = np.where(possible, alpha, 1.0), np.where(possible, renamed, 1.0)
    a, b = alpha.sum(axis=1), renamed.sum(axis=1)
    terms = gammaln(other) - gammaln(one) + (one - other) * (digamma(one) - digamma(a)[:, None])
    return float((gammaln(a) - gammaln(b) + np.where(possible, terms, 0.0).sum(axis=1)).sum())


def _of_set(prior: FinitePrior) -> list[LabelSymmetry]:
    """Return the renamings that turn a model of the set into another one."""
    setting, found = prior.setting, []
    models = [prior.model(m) for m in range(len(prior))] if setting.is_finite else []
    for pi in candidates(setting.n_states):
        least = np.inf
        for i, one in enumerate(models):
            for j, other in enumerate(models):
                if i != j and _is_renamed(one.transition, one.setting, other.transition, other.setting, pi):
                    with np.errstate(divide="ignore", invalid="ignore"):
                        ratio = float(np.abs(np.log(prior.weights[i]) - np.log(prior.weights[j])))
                    least = min(least, ratio)  # NaN is not smaller
        if np.isfinite(least):
            found.append(_symmetry(setting, pi, least, _close(setting.cost[:, pi], setting.cost)))
    return found


def _is_renamed(kernel: Array, own: Setting, other_kernel: Array, other: Setting, pi: Index) -> bool:
    """Return whether the other model is the first one with renamed states, but for the start."""
    if not _close(kernel[:, pi][:, :, pi], other_kernel):
        return False
    table = own.observation[:, pi]
    if not _close(table[:, :, pi] if table.ndim == 4 else table, other.observation):
        return False
    first, later = own.first_observation, other.first_observation
    if first is not None and later is not None and not _close(first[pi], later):
        return False
    seen, shown = own.seen_cost, other.seen_cost
    return seen is None or shown is None or _close(seen.probabilities[:, pi], shown.probabilities)


def _symmetry(setting: Setting, pi: Index, evidence: float, costs_agree: bool) -> LabelSymmetry:
    start = _close(setting.initial[pi], setting.initial)
    return LabelSymmetry(tuple(int(s) for s in pi), evidence, costs_agree, start)


def _close(one: Array, other: Array) -> bool:
    return bool(np.allclose(one, other, rtol=0.0, atol=_SAME))


def warn_of_labels(prior: Prior, stacklevel: int = 2) -> None:
    """Issue a `LabelWarning` if names of states that matter for the costs cannot be learned.

    Only priors with an unknown observation model or unknown costs are looked at.
    """
    if isinstance(prior, DirichletPrior):
        unknown = prior.sensor is not None or prior.costs is not None
    else:
        unknown = isinstance(prior, FinitePrior) and prior.sensors is not None
    if not unknown:
        return
    for found in label_symmetries(prior, most_evidence=_SAME):
        if found.harmful:
            warnings.warn(found.text(prior.setting), LabelWarning, stacklevel=stacklevel + 1)
            return
