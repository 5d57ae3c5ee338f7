"""The posterior if Gaussian observations have unknown means and standard deviations (`gaussian_group`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..errors import OutOfOrderError
from ..models import Setting
from ..protocols import ModelSample
from ..sensors.gaussian import GaussianSensor
from . import filter_bank as filtering
from .dirichlet_posterior import DirichletPosterior
from .dirichlet_prior import DirichletPrior, learned_setting
from .encoding import State
from .gaussian_group import GaussianGroup
from .gaussian_steps import own_filter_steps
from .joined_groups import JoinedGroups
from .kernel_groups import KernelGroup
from .lanes import LANES
from .learned_tables import LEVEL, LearnedTable, interval
from .mode import MODE_CLOSE, MODE_PASSES
from .predictive_test import PredictiveTest
from .refresh import AdaptationState
from .sampled_filter import REFRESH, TOO_UNLIKELY, filter_one
from .step_codes import StepCodes, Steps, likelihood_rows

REHEARSAL = "gaussian"  # the compiled functions that this posterior needs (`_numba.background`)


class GaussianPosterior(DirichletPosterior):
    """The posterior of a `DirichletPrior` with a `NormalInverseGammaSensor`.

    Each kernel of the ensemble has its own means and standard deviations.

    Parameters
    ----------
    prior
        The prior.
    rng
        The random numbers of the initial ensemble and of its refreshes.
    size
        The number of kernels; by default 32, or 64 if 60 or more parameters are unknown.
    """

    rehearsal = REHEARSAL

    _group_kind = GaussianGroup

    def _prepare(self, prior: DirichletPrior, group: KernelGroup, rng: np.random.Generator) -> None:
        assert isinstance(group, GaussianGroup)
        super()._prepare(prior, group, rng)
        n_states = prior.setting.n_states
        self._row = np.zeros((n_states, self._filters.belief_blocks.shape[0] * LANES))
        self._ones, self._likelihood = np.ones(n_states), np.zeros(n_states)
        self._used_sensor = group.means[..., 0].copy(), group.sds[..., 0].copy()
        self._edges = self._codes.cells.edges_by_action(prior.setting.n_actions)

    @property
    def group(self) -> GaussianGroup:
        """The kernels of the ensemble with their observation models."""
        found = self._groups[0]
        assert isinstance(found, GaussianGroup)
        return found

    @property
    def tuning(self) -> AdaptationState:
        """The state of the adaptation of the moves."""
        return self.group.tuning

    @property
    def sensor_means(self) -> Array:
        """The means under each kernel of the ensemble, shape [N, S] or [N, A, S]."""
        return np.moveaxis(self.group.now.means, -1, 0).copy()

    @property
    def sensor_sds(self) -> Array:
        """The standard deviations under each kernel of the ensemble, shape [N, S] or [N, A, S]."""
        return np.moveaxis(self.group.now.sds, -1, 0).copy()

    def start(self, first_observation: Any) -> None:
        """Condition on the first observation, or on nothing if it is None."""
        super().start(first_observation)
        self._possible.now[:] = True  # a Gaussian reading excludes no state

    def _update_steps(self, steps: Steps) -> None:
        if not self.time:
            raise OutOfOrderError("update before start")
        past = self._past
        past.write_steps(steps)
        end = past.length + len(steps.actions)
        while past.length < end:
            group = self.group
            past.length, why = own_filter_steps(
                self._filters, self._used, *self._used_sensor, group.means, group.sds, past.codes,
                past.written_values, past.kinds, self._edges, past.length, end, self._rule, self._row,
                self._ones, self._likelihood,
            )  # fmt: skip
            self.time = past.length + 1
            if why == REFRESH:
                self._refresh_due()
            elif why == TOO_UNLIKELY:
                raise self._impossible_step(why)

    def _new_filters(
        self, groups: JoinedGroups, weights: Array, test: PredictiveTest | None = None
    ) -> filtering.FilterBank:
        """Return filters with one more matrix, which each reading fills with its own products."""
        filters = super()._new_filters(groups, weights, test)
        n_actions = len(filters.matrix_blocks)
        wider = filtering.aligned_zeros(n_actions + 1, *filters.matrix_blocks.shape[1:])
        wider[:n_actions] = filters.matrix_blocks
        return filters._replace(matrix_blocks=wider)

    def _beliefs_and_visits(self, group: KernelGroup) -> tuple[Array, Array]:
        assert isinstance(group, GaussianGroup)
        return group.beliefs_and_visits(self._past)

    # -- samples, beliefs and summaries -----------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw θ ~ f_t, shape [A, S, S′]. The belief of this kernel is updated until the next sample."""
        state = rng.bit_generator.state
        number = self.sample_index(rng)
        self._used_sensor = self.group.means[..., number].copy(), self.group.sds[..., number].copy()
        rng.bit_generator.state = state
        return super().sample(rng)

    def _setting_of(self, n: int) -> Setting:
        return self.group.setting_of(n)

    def learned_sensor(self, level: float = LEVEL) -> LearnedTable:
        """Return what is known of the means and of the standard deviations, shape [S, 2] or [A, S, 2]."""
        density, now, weights = self.group.density, self.group.now, self.weights
        told, values = (
            np.stack([density.means, density.sds], axis=-1),
            np.stack([now.means, now.sds], axis=-2),
        )
        return LearnedTable(told, values @ weights, *interval(values, weights, level), level)

    def mean_sensor(self) -> GaussianSensor:
        """Return the sensor with the posterior means of means and variances."""
        now, weights = self.group.now, self.weights
        return GaussianSensor(now.means @ weights, np.sqrt(now.sds**2 @ weights))

    def mean_setting(self) -> Setting:
        """Return the setting with the posterior mean of the observation model."""
        return learned_setting(self.setting, self.mean_sensor())

    def _belief_by_history(self, transition: Array) -> Array:
        """Return the belief of any kernel, with the posterior mean of the observation model."""
        return self._belief_under(transition, self.mean_setting())

    def _belief_under(self, transition: Array, setting: Setting) -> Array:
        past, codes, sensor = self._past, StepCodes(setting), setting.sensor
        assert isinstance(sensor, GaussianSensor)
        rows = np.ones((max(past.length, 1), setting.n_states))
        actions = past.past.astype(np.int64) // 2
        for a in range(setting.n_actions):
            mine = np.flatnonzero(actions == a)
            rows[mine] = likelihood_rows(sensor, 0 if sensor.n_actions is None else a, past.values[mine])
        first = past.first
        if first is not None and self.group.learns_from_first:
            first = codes.first_reading(first.value)
        start = setting.initial * codes.first_likelihood(first)
        start = start / start.sum() if start.any() else start
        matrices = np.ascontiguousarray(transition)
        return np.asarray(
            filter_one(matrices, 1, self._filters.likelihood, start, past.codes, rows, past.length)
        )

    def belief_of(self, sample: ModelSample) -> Array:
        """Return the belief under any sampled model; zeros if the history is impossible under it."""
        return self._belief_under(sample.kernel, sample.setting or self.mean_setting())

    def mean_model(self) -> ModelSample:
        """Return the posterior means of θ and of the observation model, and the belief under both."""
        mean, setting = self.mean(), self.mean_setting()
        return ModelSample(mean, self._belief_under(mean, setting), None, setting)

    def mode(
        self, near: Array | None = None, *, passes: int = MODE_PASSES, close: float = MODE_CLOSE
    ) -> Array:
        """Return the kernel of largest posterior density in the ensemble; nothing is iterated."""
        return self.mode_model(near).kernel

    def mode_model(self, near: Array | None = None) -> ModelSample:
        """Return the kernel of largest posterior density in the ensemble."""
        found, setting = self.group.mode(self.weights, self.histories, near)
        return ModelSample(found, self._belief_under(found, setting), None, setting)

    # -- snapshots and files ----------------------------------------------------------------------

    def snapshot(self) -> Any:
        """Return the data that `go_back` needs. The state of the random generator is not included."""
        return super().snapshot(), self._used_sensor

    def go_back(self, before: Any) -> None:
        """Return to the state at the snapshot `before`. A snapshot can be restored several times."""
        inner, self._used_sensor = before
        super().go_back(inner)

    def _unit_state(self) -> State:
        # The belief of the last sampled kernel is not kept: it is filtered again when it is asked for.
        unknown = {name: np.full_like(getattr(self._used, part), np.nan) for name, part in _USED.items()}
        return {**super()._unit_state(), **unknown}


_USED = {"used_kernel": "transition", "used_belief": "belief"}
