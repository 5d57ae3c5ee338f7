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

from .._utils.arrays import Index
from ..errors import LabelWarning
from ..models import Setting
from ..protocols import HasRenamingEvidence, Prior
from .choosing import learns_costs, learns_tables
from .permutations import candidates
from .renaming_evidence import close

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
        A `DirichletPrior`, a `FinitePrior`, or any prior with `renaming_evidence`
        (`psrl_pomdp.protocols.HasRenamingEvidence`). Of other priors nothing is known, and the list is empty.
    most_evidence
        The largest evidence of the prior against a renaming, in nats. 3 nats are odds of 20 to 1.

    Returns
    -------
    list of LabelSymmetry
        The most harmful first: those for which costs differ, by evidence.

    >>> from psrl_pomdp import DirichletPrior, DirichletSensor, Setting
    >>> setting = Setting([[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], [0.5, 0.5], states=["good", "worn"])
    >>> flat = DirichletPrior(setting, [[[1, 1], [1, 1]]] * 2, sensor=DirichletSensor([[1, 1], [1, 1]]))
    >>> [found.states for found in label_symmetries(flat)]
    [(1, 0)]
    >>> calibrated = DirichletSensor([[19, 1], [1, 19]])
    >>> label_symmetries(DirichletPrior(setting, [[[1, 1], [1, 1]]] * 2, sensor=calibrated))
    []
    """
    if not isinstance(prior, HasRenamingEvidence):
        return []
    weak = []
    for pi in candidates(prior.setting.n_states):
        evidence = prior.renaming_evidence(pi)
        if evidence <= most_evidence and np.isfinite(evidence):
            weak.append(_symmetry(prior, pi, evidence))
    return sorted(weak, key=lambda each: (each.costs_agree, each.evidence))


def _symmetry(prior: Prior, pi: Index, evidence: float) -> LabelSymmetry:
    setting = prior.setting
    agree = learns_costs(prior) or close(setting.cost[:, pi], setting.cost)
    start = close(setting.initial[pi], setting.initial)
    return LabelSymmetry(tuple(int(s) for s in pi), evidence, agree, start)


def warn_of_labels(prior: Prior, stacklevel: int = 2) -> None:
    """Issue a `LabelWarning` if names of states that matter for the costs cannot be learned.

    Only priors with an unknown observation model or unknown costs are looked at.
    """
    if not learns_tables(prior):
        return
    for found in label_symmetries(prior, most_evidence=_SAME):
        if found.harmful:
            warnings.warn(found.text(prior.setting), LabelWarning, stacklevel=stacklevel + 1)
            return
