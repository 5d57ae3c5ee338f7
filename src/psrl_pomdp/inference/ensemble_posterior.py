"""The posterior over a continuum of kernels: a weighted ensemble of kernels with exact filters.

The posterior is a mixture over all hidden paths, of which there are exponentially many. But the state space
is finite, so for a given kernel the filter and the likelihood are exact, and an ensemble needs no particles
for the states: the weight of a kernel is updated by the exact probability of each observation. When the
effective sample size of a group of kernels falls below half of their number, the group is resampled and moved
by Markov kernels that leave the posterior given the whole history invariant (iterated batch importance
sampling; Chopin, Biometrika 89, 2002).

There is one group, or one for each component if the prior is a mixture (`mixture_prior.py`). A refresh of a
group keeps the group's total weight. So the weight of group g is, up to a common factor,

    π_g Π_j Σ_n w_n P(observations of stretch j | θ_n),

the product over the stretches j between the refreshes of the group: the sequential Monte Carlo estimate of
the component's marginal likelihood, which is unbiased for fixed refresh times (Del Moral 2004, Feynman-Kac
formulae). For the kernels of a finite set it is exact.

Expected counts ñ_t follow the exact recursion of `filter_bank` for every kernel, averaged by weight. After a
refresh the recursion restarts from φ_t of the new kernels given the whole history (`expected_visits.py`, with
an error below 1e-12). Memory grows with the history: two bytes per step, and a checkpoint of the filter every
256 steps.

Each sampled kernel has the posterior distribution of its time, as Algorithm 1 requires. But kernels sampled
at different times are not independent given the history, because the ensemble is kept between refreshes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._numba import jit as compiled
from .._utils.arrays import Array
from ..errors import ImpossibleObservationError, InvalidModelError, OutOfOrderError
from ..models import Setting, kernel
from ..protocols import ModelSample
from . import filter_bank as filtering
from . import sampled_filter as ensemble
from . import snapshots
from .encoding import Many, State
from .ensemble_state import restore_state
from .filtered_kernels import FilteredKernels
from .history import Histories, History
from .joined_groups import JoinedGroups
from .kernel_groups import KernelGroup
from .mean_settings import mean_of_settings
from .predictive_test import PredictiveTest
from .refresh import beliefs_and_visits
from .step_codes import Reading, StepCodes, Steps


class EnsemblePosterior(FilteredKernels):
    """A posterior approximated by weighted kernels, with the belief under each kernel and expected counts.

    The method `posterior(rng)` of a prior constructs it.

    Parameters
    ----------
    prior
        The prior: an object with a `setting` and a `fingerprint`.
    groups
        The kernels, in groups that are resampled and moved together.
    rng
        The random numbers of refreshes.
    weights
        The prior probability of each group, shape [G]; a single group has probability 1.
    """

    rehearsal = "dirichlet"  # the compiled functions that this posterior needs (`_numba.background`)

    def __init__(
        self,
        prior: Any,
        groups: Sequence[KernelGroup],
        rng: np.random.Generator,
        weights: npt.ArrayLike = (1.0,),
    ) -> None:
        setting = prior.setting
        compiled.LEARNING.want(f"{self.rehearsal}-{setting.n_states}")
        self.prior = prior
        self.time = 0  # t: o_1..o_t are known; 0 before the start
        self._rng = rng
        joined = JoinedGroups(groups)
        self.size = joined.size
        shares = np.asarray(weights, dtype=np.float64)
        first = np.concatenate([share * group.weights for share, group in zip(shares, groups, strict=True)])
        self._codes = groups[0].space.step_codes
        self._set_filters(self._new_filters(joined, first), joined)
        self._rule = joined.refresh_rule()
        self._forget_history()

    def _forget_history(self) -> None:
        self._past = History(self._codes)
        self._used = ensemble.no_sampled_filter(self._codes)
        nowhere = np.zeros(self.setting.n_states, dtype=bool)
        self._possible = ensemble.PossibleStates(self._groups.support, nowhere, nowhere.copy())

    @property
    def _groups(self) -> JoinedGroups:
        assert self._shared.groups is not None
        return self._shared.groups

    @property
    def kernels(self) -> Array:
        """The kernels of the ensemble, shape [N, A, S, S′]."""
        return self._filters.transition.transpose(3, 0, 1, 2).copy()

    @property
    def group_weights(self) -> Array:
        """The posterior probability of each group of kernels, shape [G]."""
        return np.add.reduceat(self.weights, np.concatenate([[0], self._groups.ends[:-1]]))

    @property
    def histories(self) -> Histories:
        """The histories of all units with the same θ that have had an observation."""
        return [unit._past for unit in self.units if unit.time]

    # -- observations -----------------------------------------------------------------------------

    def start(self, first_observation: Any) -> None:
        """Condition on the first observation, or on nothing if it is None."""
        if self.time:
            raise OutOfOrderError("start: this posterior has already been started")
        self._start(self._codes.first_reading(first_observation))

    def _start(self, reading: Reading | None) -> None:
        past = self._past
        past.first = reading
        likelihood, initial = self._groups.first_likelihood(past), self._groups.initial
        if not filtering.start_filters(self._filters, initial, likelihood):
            past.first = None
            raise self._codes.impossible(reading, None, "the initial distribution")
        begin = self.setting.initial * self._codes.first_likelihood(reading)
        past.start = begin / begin.sum() if begin.any() else begin
        self._possible.now[:] = (initial * likelihood).max(axis=1) > 0
        self.time = 1

    def update_reading(self, action: int, reading: Reading) -> None:
        """Condition on action a_t and what came after it."""
        rows, values = np.zeros((0, self.setting.n_states)), np.zeros(0)
        if reading.row is not None:
            rows, values = reading.row[None], np.asarray(reading.value, dtype=np.float64)[None]
        self._update_steps(Steps(np.array([action]), np.array([reading.code]), rows, values))

    def update_many(self, actions: npt.ArrayLike, observations: Many, costs: Many | None = None) -> None:
        """Condition on many steps in compiled loops; −1 is a missing observation."""
        self._update_steps(self._codes.steps(actions, observations, costs))

    def _update_steps(self, steps: Steps) -> None:
        if not self.time:
            raise OutOfOrderError("update before start")
        past = self._past
        past.write_steps(steps)
        end = past.length + len(steps.actions)
        while past.length < end:
            past.length, why = ensemble.filter_steps(
                self._filters, self._used, self._possible, past.codes, past.rows, past.kinds, past.length,
                end, self._rule,
            )  # fmt: skip
            self.time = past.length + 1
            if why == ensemble.REFRESH:
                self._refresh_due()
            elif why != ensemble.DONE:
                raise self._impossible_step(why)

    def _impossible_step(self, why: int) -> ImpossibleObservationError:
        action, reading = self._past.reading(self._past.length)
        if why == ensemble.IMPOSSIBLE:
            return self._codes.impossible(reading, action, "every kernel that the prior allows")
        under = f"all {self.size} kernels of the ensemble, although it is possible under the prior"
        return self._codes.impossible(reading, action, under)

    def filter_bank(self) -> tuple[filtering.FilterBank, ensemble.PossibleStates, ensemble.RefreshRule]:
        """Return the filters, the possible states and the refresh rule, for compiled loops."""
        return self._filters, self._possible, self._rule

    def commit(self, steps: Steps, *, refresh: bool) -> None:
        """Record steps that a compiled loop has taken with the filters.

        `refresh` says whether the loop stopped because a refresh is due, which is done now.
        """
        past = self._past
        past.write_steps(steps)
        past.length += len(steps.actions)
        self.time = past.length + 1
        unknown = np.full_like(self._used.transition, np.nan)
        matrices = np.full_like(self._used.matrices, np.nan)
        self._used = self._used._replace(transition=unknown, matrices=matrices)  # its belief was not updated
        if refresh:
            self._refresh_due()

    # -- refreshes --------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Resample the kernels of every group by weight and move them, given the histories of all units."""
        self._refresh(self._groups.movable.tolist())

    def _refresh_due(self) -> None:
        """Refresh the groups for which a refresh is due, or leave it to the caller."""
        if not self._shared.waits:
            self._shared.refresh_due = True
            return
        movable = self._groups.movable
        size = self.effective_size if len(movable) > 1 else 0.0
        due = [
            int(g)
            for i, g in enumerate(movable)
            if len(movable) == 1 or ensemble.group_due(self._filters, self._rule, i, size)
        ]
        self._refresh(due)

    def _refresh(self, chosen: list[int]) -> None:
        with np.errstate(divide="ignore"):
            logs = self._filters.log_weight + np.log(self._filters.product)
        moved: dict[int, KernelGroup] = {}
        units = self.units
        beliefs = [unit._filters.belief.copy() for unit in units]
        counts = [filtering.counts(unit._filters) for unit in units]
        for g in chosen:
            part = self._groups.part(g)
            largest = logs[part].max()
            if largest == -np.inf:  # all kernels of the group have weight 0
                continue
            linear = np.exp(logs[part] - largest)
            moved[g] = self._groups[g].refreshed(linear / linear.sum(), self.histories, self._rng)
            logs[part] = largest + np.log(linear.sum() / moved[g].size)
            for unit, belief, counted in zip(units, beliefs, counts, strict=True):
                if unit.time:
                    belief[:, part], visits = unit._beliefs_and_visits(moved[g])
                    counted[..., part] = visits.transpose(2, 0, 1, 3)
        # New filters: the old ones stay unchanged, so that earlier snapshots need no copy.
        groups = self._groups.replaced(moved)
        fresh = self._new_filters(groups, np.ones(self.size), units[0]._filters.test)
        fresh.log_weight[...] = logs - logs.max()
        fresh.product[...] = logs > -np.inf
        fresh.scale[...] = np.exp(fresh.log_weight)
        banks = [fresh]
        for unit in units[1:]:
            banks.append(filtering.filters_of_another_unit(fresh, self._codes, unit._filters.test))
        for unit, bank, belief, counted in zip(units, banks, beliefs, counts, strict=True):
            filtering.set_beliefs(bank, belief)
            filtering.set_counts(bank, counted)
            bank.expected[...] = unit._filters.expected
        self._shared.groups, self._shared.banks, self._shared.refresh_due = groups, banks, False

    def adopt_kernels(self, moved: EnsemblePosterior) -> None:
        """Take over the kernels of a posterior that was moved given the same histories up to earlier times.

        The observations since then are filtered with these kernels first. Nothing is changed if they are
        impossible under all of them, which raises `ImpossibleObservationError`.

        Raises `InvalidModelError` if the histories are not those of these units.
        """
        moved.wait_for_refreshes(False)
        pairs = list(zip(self.units, moved.units, strict=False))
        if len(moved.units) > len(self.units) or not all(
            not other.time or (mine.time and mine._past.continues(other._past)) for mine, other in pairs
        ):
            raise InvalidModelError("the kernels were moved given other histories than those of these units")
        for _ in range(len(self.units) - len(moved.units)):  # units that have joined since
            moved.new_unit()
        for mine, other in zip(self.units, moved.units, strict=True):
            other._catch_up(mine._past, mine.time)
        theirs = moved._shared
        for mine, bank in zip(self.units, theirs.banks, strict=True):
            bank.expected[...] = mine._filters.expected
        tests = [unit._filters.test for unit in self.units]
        banks = [bank._replace(test=test) for bank, test in zip(theirs.banks, tests, strict=True)]
        self._shared.groups, self._shared.banks = theirs.groups, banks
        self._shared.refresh_due = theirs.refresh_due  # whether another refresh is due already

    def _catch_up(self, past: History, time: int) -> None:
        """Condition on the part of a longer history that this unit does not have."""
        if time and not self.time:
            self._start(past.first)
        done = self._past.length
        if past.length > done:
            self._update_steps(past.steps(done))

    def _new_filters(
        self, groups: JoinedGroups, weights: Array, test: PredictiveTest | None = None
    ) -> filtering.FilterBank:
        """Return filters for the kernels of all groups, before the first observation; `test` goes on."""
        kernels = groups.kernels.transpose(3, 0, 1, 2)
        return filtering.make_filter_bank(self._codes, kernels, weights, groups.factors, test)

    def _beliefs_and_visits(self, group: KernelGroup) -> tuple[Array, Array]:
        """Return h_t and φ_t of a group's kernels, from the whole history."""
        return beliefs_and_visits(
            group.kernels, self._past, group.space, group.factors, group.start(self._past)
        )

    # -- samples, beliefs and summaries -----------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw θ ~ f_t, shape [A, S, S′]. The belief of this kernel is updated until the next sample."""
        n = self.sample_index(rng)
        transition = self._filters.transition[..., n : n + 1].copy()
        self._used = self._used._replace(
            transition=transition,
            matrices=self._codes.matrices(transition, self._groups.factors_of(n)),
            belief=self._filters.belief[:, n : n + 1].copy(),
        )
        return self._filters.transition[..., n].copy()

    def member(self, number: int) -> ModelSample:
        """Return a kernel by number with the belief h_t(·; θ) of this unit.

        The setting of θ is returned too if the observation model or the costs are unknown.
        """
        return ModelSample(
            self._filters.transition[..., number].copy(),
            self._filters.belief[:, number].copy(),
            None,
            self._setting_of(number),
        )

    def belief_of(self, sample: ModelSample) -> Array:
        """Return the belief under any sampled model; zeros if the history is impossible under it."""
        if sample.setting is None:
            return self._belief_by_history(sample.kernel)
        codes = StepCodes(sample.setting)
        start = sample.setting.initial * codes.first_likelihood(self._past.first)
        return self._filtered(sample.kernel, codes.factors_of(sample.setting)[..., None], start)

    def _setting_of(self, n: int) -> Setting | None:
        return self._groups.setting_of(n)

    def belief(self, theta: npt.ArrayLike) -> Array:
        """Return h_t(·; θ) for any kernel.

        Except for the last sampled kernel, this filters the whole history.
        """
        self._need_start("belief")
        transition = kernel("kernel", theta, self.setting)
        if (transition == self._used.transition[..., 0]).all():
            found = self._used.belief[:, 0].copy()
        else:
            found = self._belief_by_history(transition)
        if not found.any():
            raise ImpossibleObservationError(
                "the observations have probability 0 under this kernel, so it has no belief"
            )
        return np.asarray(found)

    def _belief_by_history(self, transition: Array) -> Array:
        """Return the belief of any kernel, after the whole history."""
        where = self._groups.fixed_kernels_like(transition)
        if len(where):
            weights, beliefs = self.weights[where], self._filters.belief[:, where]
            alive = beliefs.any(axis=0)
            weights = weights if weights.any() else alive / max(1, alive.sum())
            return np.asarray(beliefs @ weights / max(weights.sum(), 1e-300))
        factors, start = None, self._past.start
        if self._groups.have_tables:
            mean = self.mean_setting()
            codes = StepCodes(mean)
            factors = codes.factors_of(mean)[..., None]
            start = mean.initial * codes.first_likelihood(self._past.first)
        return self._filtered(transition, factors, start)

    def _filtered(self, transition: Array, factors: Array | None, start: Array) -> Array:
        """Return the belief of one kernel [A, S, S′] after the whole history; zeros if it is impossible."""
        past, filters = self._past, self._filters
        start = start / start.sum() if start.any() else start
        matrices = np.ascontiguousarray(self._codes.matrices(transition[..., None], factors)[..., 0])
        return np.asarray(
            ensemble.filter_one(
                matrices, self._codes.stride, filters.likelihood, start, past.codes, past.rows, past.length
            )
        )

    def _sensor_tables(self) -> Array | None:
        return self._groups[0].tables()[0] if len(self._groups) == 1 else None  # mixtures know their tables

    def _cost_tables(self) -> Array | None:
        return self._groups[0].tables()[1] if len(self._groups) == 1 else None

    def mean_setting(self) -> Setting:
        """Return the setting with the posterior means of unknown observation models and costs."""
        settings = [self._setting_of(n) for n in range(self.size)]
        if all(setting is None for setting in settings):
            return self.setting
        return mean_of_settings([setting or self.setting for setting in settings], self.weights)

    def mean(self) -> Array:
        """Return the ensemble's estimate of E[θ | F_t], shape [A, S, S′]."""
        return np.asarray(self._filters.transition @ self.weights)

    def mean_model(self) -> ModelSample:
        """Return the posterior mean of θ and its belief given the whole history."""
        mean = self.mean()
        setting = self.mean_setting() if self._groups.have_tables else None
        return ModelSample(mean, self.belief(mean), None, setting)

    def mode_model(self, near: Array | None = None) -> ModelSample:
        """Return a mode of the most probable group.

        A search for it, if there is one, starts from the kernel `near`.
        """
        g = int(self.group_weights.argmax())
        weights = self.weights[self._groups.part(g)]
        found, setting = self._groups[g].mode(weights / weights.sum(), self.histories, near)
        if self._groups[g].factors is None:
            return ModelSample(found, self.belief(found))
        sample = ModelSample(found, np.zeros(0), None, setting)
        return sample._replace(belief=self.belief_of(sample))

    # -- snapshots and files ----------------------------------------------------------------------

    def snapshot(self) -> Any:
        """Return the data that `go_back` needs. The state of the random generator is not included."""
        past, used = self._past, self._used
        return (
            (self.time, past.length, past.start, past.first),
            snapshots.snapshot(self._shared, self._number),
            (used, used.belief.copy()),
            self._possible.now.copy(),
        )

    def go_back(self, before: Any) -> None:
        """Return to the state at the snapshot `before`. A snapshot can be restored several times."""
        plain, filters, (self._used, belief), possible = before
        self.time, self._past.length, self._past.start, self._past.first = plain
        snapshots.restore(self._shared, filters)
        self._used.belief[...] = belief
        self._possible.now[...] = possible
        for group in self._groups:
            group.clear()  # an interrupted pass may have left its scratch arrays dirty

    def state(self) -> State:
        """Return the data that the prior's `restore` needs, except the state of the random generator."""
        return {
            "prior": self.prior.fingerprint,
            **self._groups.state(),
            **filtering.filter_state(self._filters),
            **self._unit_state(),
            **self._other_states(),
        }

    def _unit_state(self) -> State:
        return {
            **super()._unit_state(),
            "history": self._past.past.copy(),
            "history_start": self._past.start.copy(),
            **self._past.state(),
            "possible": self._possible.now.astype(np.float64),
            "used_kernel": self._used.transition.copy(),
            "used_belief": self._used.belief.copy(),
            **({"used_matrices": self._used.matrices.copy()} if self._codes.unknown else {}),
        }

    def resume(self, state: Mapping[str, object]) -> None:
        """Restore a saved state, except for the groups, which are restored already.

        Raises `InvalidModelError` if this posterior cannot be in the state.
        """
        self._resume_unit(state)
        self._resume_others(state)

    def _resume_unit(self, state: Mapping[str, object]) -> None:
        self.time = restore_state(
            state,
            self.setting,
            self.prior.fingerprint,
            self._filters,
            self._past,
            self._possible,
            self._used,
            self._groups,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(t={self.time}, {self.size} kernels)"
