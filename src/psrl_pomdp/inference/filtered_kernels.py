"""What posteriors with a bank of filters share: weighted kernels, with a belief and expected counts."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils.arrays import Array
from ..errors import OutOfOrderError
from ..models import Setting
from ..protocols import ModelSample
from . import filter_bank as filtering
from .encoding import State, action_number
from .joined_groups import JoinedGroups
from .learned_tables import TablePosterior
from .model_fit import (
    Departure,
    ModelFit,
    compared_readings,
    model_fit,
    present_and_largest,
    saved_test,
)
from .saved_states import stacked, unstacked
from .step_codes import Reading, StepCodes

if TYPE_CHECKING:
    from .posterior_summary import PosteriorSummary


@dataclass
class SharedKernels:
    """What the posteriors of units with the same θ share.

    The banks have the kernels and the weights in common, and a new list of banks replaces the old one when
    the kernels are moved, so that a snapshot needs no copy.
    """

    units: list[Any] = field(default_factory=list)  # the posteriors of all units
    banks: list[filtering.FilterBank] = field(default_factory=list)  # one for each unit
    groups: JoinedGroups | None = None  # the kernels of an ensemble
    waits: bool = True  # whether kernels are moved when they should be, or only when the caller says so
    refresh_due: bool = False  # whether kernels should be moved, but the caller has not said so


class FilteredKernels(TablePosterior):
    """Base class of posteriors that are N weighted kernels with a filter bank.

    A subclass sets the attributes below, and defines `kernels`, `update_reading`, `state` and `resume`. Its
    constructor calls `_set_filters`.
    """

    prior: Any
    time: int  # t: o_1..o_t are known; 0 before the start
    _codes: StepCodes
    _shared: SharedKernels
    _number: int  # of this unit

    def _set_filters(self, filters: filtering.FilterBank, groups: JoinedGroups | None = None) -> None:
        """Set the filters of the first unit."""
        self._shared, self._number = SharedKernels([self], [filters], groups), 0

    @property
    def _filters(self) -> filtering.FilterBank:
        return self._shared.banks[self._number]

    # -- units with the same θ ----------------------------------------------------------------------

    def new_unit(self) -> Self:
        """Return the posterior of another unit, which has the same θ and no observations yet.

        An observation of any unit updates the weights of the kernels, which all units share. Each unit has
        its own history, beliefs and expected counts.
        """
        other = copy(self)
        other._number, other.time = len(self._shared.banks), 0
        self._shared.banks.append(filtering.filters_of_another_unit(self._filters, self._codes))
        self._shared.units.append(other)
        other._forget_history()
        return other

    @property
    def units(self) -> tuple[Self, ...]:
        """The posteriors of all units with the same θ, this one among them."""
        return tuple(self._shared.units)

    def wait_for_refreshes(self, wait: bool) -> None:
        """Say whether kernels are moved when they should be; if not, `refresh_due` says that they should."""
        self._shared.waits = wait

    @property
    def refresh_due(self) -> bool:
        """Whether the kernels should be moved, but wait for the caller."""
        return self._shared.refresh_due

    def set_refresh_due(self, due: bool) -> None:
        """Restore `refresh_due` of a saved posterior."""
        self._shared.refresh_due = due

    def member(self, number: int) -> ModelSample:
        """Return a kernel by number with the belief h_t(·; θ) of this unit.

        The setting of θ is returned too if the observation model or the costs are unknown.
        """
        raise NotImplementedError

    def sample_model(self, rng: np.random.Generator) -> ModelSample:
        """Draw θ ~ f_t and return it with h_t(·; θ)."""
        return self.member(self.sample_index(rng))

    def _forget_history(self) -> None:
        """Set what depends on the history of this unit to its state before the first observation."""

    def _unit_state(self) -> State:
        """Return the data of this unit that a file stores."""
        found = filtering.filter_state(self._filters)
        own = {name: found[name] for name in ("counts", "belief", "expected")}
        return {"time": self.time, **own, **saved_test(self._filters.test)}

    def _other_states(self) -> State:
        """Return the data of all other units, if there are any."""
        others = [unit for unit in self._shared.units if unit is not self]
        if not others:
            return {}
        return {"units": len(others) + 1, **stacked([unit._unit_state() for unit in others])}

    def _resume_others(self, state: Mapping[str, object]) -> None:
        """Restore the other units of a saved state."""
        shared = {n: value for n, value in state.items() if not n.startswith(("others_", "history"))}
        for given in unstacked(state):
            self.new_unit()._resume_unit({**shared, **given})

    def _resume_unit(self, state: Mapping[str, object]) -> None:
        """Restore the data of one unit."""
        raise NotImplementedError

    # -- weights and beliefs ------------------------------------------------------------------------

    @property
    def setting(self) -> Setting:
        """The POMDP without its transition kernel."""
        return self.prior.setting  # type: ignore[no-any-return]

    @property
    def kernels(self) -> Array:
        """The kernels, shape [N, A, S, S′]."""
        raise NotImplementedError

    @property
    def beliefs(self) -> Array:
        """The belief h_t(·; θ) under each kernel, shape [N, S].

        It is zero for a kernel that is excluded by the observations.
        """
        return self._filters.belief.T.copy()

    @property
    def weights(self) -> Array:
        """The posterior probabilities f_t(θ) of the kernels, shape [N]."""
        return filtering.weights(self._filters)

    @property
    def effective_size(self) -> float:
        """The effective number of kernels, 1 / Σ f_t²."""
        return float(1.0 / np.square(self.weights).sum())

    @property
    def expected_counts(self) -> Array:
        """The expected counts ñ_t(s, a), shape [A, S].

        They count steps 1..t−1, given the observations up to o_{t−1}.
        """
        return self._filters.expected.copy()

    @property
    def fit(self) -> ModelFit | None:
        """Whether readings have come as they were predicted; None if they cannot be tested."""
        return model_fit(self._filters.test, self._codes)

    @property
    def unit_number(self) -> int:
        """The number of this unit in `units`."""
        return self._number

    @property
    def n_units(self) -> int:
        """The number of units with the same θ."""
        return len(self._shared.units)

    @property
    def log_e_values(self) -> tuple[float, float]:
        """The logarithms of the present and of the largest e-value of `fit`, which takes longer."""
        return present_and_largest(self._filters.test)

    def predictive_check(self) -> tuple[Departure, ...]:
        """Return how often each reading came lately after each action, and how often it was expected.

        These are about the last 200 readings of this unit after each action; actions with fewer than ten of
        them are left out. Tell from `fit` whether the differences are too large for chance.
        """
        return compared_readings(self._filters.test, self._codes)

    def summary(self, level: float = 0.9) -> PosteriorSummary:
        """Return mean and interval of every unknown number, with those of the prior beside them.

        The numbers are the entries of the dynamics, and those of the observation model and of the costs if
        these are unknown. The ends of intervals are quantiles of the kernels by weight. They are rough if the
        posterior is an ensemble of a few dozen kernels. Those of the prior come from up to 1,000 draws.

        Parameters
        ----------
        level
            The probability of the intervals.

        Raises
        ------
        InvalidModelError
            If `level` is not between 0 and 1.

        >>> from psrl_pomdp import problem
        >>> posterior = problem("separated").family.posterior()
        >>> posterior.start(0)
        >>> len(posterior.summary().rows) > 0
        True
        """
        from .posterior_summary import summary_of

        return summary_of(self, level)

    def to_arviz(self, draws: int = 1000) -> Any:
        """Return posterior and prior for ArviZ, which plots and compares them.

        The kernels are resampled by weight, so that all draws have the same weight. They are one chain, and
        draws of an ensemble repeat its few dozen kernels: diagnostics of convergence mean nothing here.

        Parameters
        ----------
        draws
            The number of draws.

        Returns
        -------
        arviz.InferenceData
            A `DataTree` from version 1 of ArviZ on. The variables are `transition`, and `observation` (or
            `means` and `sds`) and `cost` if they are unknown.

        Raises
        ------
        ImportError
            If ArviZ is not installed (`pip install "psrl-pomdp[arviz]"`).
        """
        from .posterior_summary import to_arviz

        return to_arviz(self, draws)

    def update(self, action: int | str, observation: Any, cost: float | None = None) -> None:
        """Condition on action a_t, observation o_{t+1} and the seen cost of a_t; None is missing."""
        a = action_number(self.setting, action)
        self.update_reading(a, self._codes.reading(a, observation, cost))

    def update_reading(self, action: int, reading: Reading) -> None:
        """Condition on action a_t and what came after it."""
        raise NotImplementedError

    def sample_index(self, rng: np.random.Generator) -> int:
        """Draw the number of a kernel from f_t."""
        cumulative = np.cumsum(self.weights)
        return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))

    def distance(self, kernel: Array) -> float:
        """Return E‖θ − `kernel`‖₁, averaged over all rows."""
        distance = np.abs(self.kernels - kernel).sum(axis=3).mean(axis=(1, 2))
        return float(self.weights @ distance)

    def _need_start(self, call: str) -> None:
        if not self.time:
            raise OutOfOrderError(f"{call} before start")
