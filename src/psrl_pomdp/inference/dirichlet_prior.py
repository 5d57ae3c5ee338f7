"""Priors with independent Dirichlet rows: θ(· | s, a) ~ Dirichlet(α(s, a, ·)) for each pair (s, a).

The observation model and the distribution of seen costs may be unknown too, with Dirichlet rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, distributions, finite, frozen, numbers, shaped
from .._utils.dirichlet import log_dirichlet as log_dirichlet
from ..errors import InvalidModelError
from ..models import POMDP, Frozen, Setting, Units
from ..sensors.costs import SeenCosts
from ..sensors.dirichlet import DirichletCosts, DirichletSensor
from ..sensors.gaussian import GaussianSensor
from ..sensors.normal_inverse_gamma import NormalInverseGammaSensor
from .step_codes import StepCodes

if TYPE_CHECKING:
    from .dirichlet_posterior import DirichletPosterior
    from .kernel_groups import RowGroup
    from .rows import FreeRows

_LEAST, _MOST = 1e-50, 1e15  # outside this range, samples and means lose all their digits

Pair = tuple[int, int]  # (a, s)


class DirichletPrior(Frozen):
    """Independent Dirichlet rows: θ(· | s, a) ~ Dirichlet(`concentration[a, s, :]`).

    Parameters
    ----------
    setting
        The POMDP without its transition kernel.
    concentration
        The concentration of each row, shape [A, S, S′]. An entry of 0 marks an impossible transition.
    known
        Rows that are known, as a mapping from pairs (a, s) to distributions of shape [S′].
    ties
        Groups of pairs (a, s) that share one row, so that observations of one pair inform all pairs of its
        group. The concentrations in a group must be equal.
    sensor
        What is known of the observation model, if it is not exactly known. The setting of the prior then has
        the mean of its rows as the observation model; a sensor of shape [S, O] is also that of the first
        observation, if the setting has one. For Gaussian observations it is a `NormalInverseGammaSensor`, and
        the setting has its expected means and standard deviations.
    costs
        What is known of the costs, if they are unknown and seen. The setting of the prior then has their
        means as costs. The agent is told costs with `act(observation, cost=...)`.

    Raises
    ------
    InvalidModelError
        If `concentration` has the wrong shape, an entry that is neither 0 nor in [1e-50, 1e15], or a row of
        zeros; if a known row is not a distribution; or if tied rows are known or have different
        concentrations.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0], [0.5, 0.5]], [1.0, 0.0])
    >>> prior = DirichletPrior(
    ...     setting,
    ...     [[[3.0, 1.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]],
    ...     known={(1, 1): [1.0, 0.0]},
    ... )
    >>> prior.mean.tolist()
    [[[0.75, 0.25], [0.0, 1.0]], [[0.5, 0.5], [1.0, 0.0]]]
    """

    kind: ClassVar[str] = "dirichlet"  # the name in studies
    setting: Setting
    concentration: Array  # [A, S, S]; the known rows contain their distributions
    known: npt.NDArray[np.bool_]  # [A, S]
    row: npt.NDArray[np.int64]  # [A, S]: pairs with the same number share their row
    sensor: DirichletSensor | None
    density: NormalInverseGammaSensor | None  # Gaussian observations that are not exactly known
    costs: DirichletCosts | None

    def __init_subclass__(cls, **options: Any) -> None:
        """Name a subclass, which is another prior, by its class unless it has a `kind` of its own."""
        super().__init_subclass__(**options)
        if "kind" not in vars(cls):
            cls.kind = cls.__name__

    def __init__(
        self,
        setting: Setting,
        concentration: npt.ArrayLike,
        known: Mapping[Pair, npt.ArrayLike] | None = None,
        ties: Iterable[Sequence[Pair]] = (),
        *,
        sensor: DirichletSensor | NormalInverseGammaSensor | None = None,
        costs: DirichletCosts | None = None,
    ) -> None:
        if not isinstance(setting, Setting):
            raise InvalidModelError(f"setting is a {type(setting).__name__}, not a Setting")
        density = sensor if isinstance(sensor, NormalInverseGammaSensor) else None
        table = None if isinstance(sensor, NormalInverseGammaSensor) else sensor
        if density is not None:
            setting = _with_center(setting, density, costs)
        setting = _with_means(setting, table, costs)
        sizes = (setting.n_actions, setting.n_states, setting.n_states)
        meaning = f"{sizes[0]} actions and {sizes[1]} states"
        given = shaped("concentration", numbers("concentration", concentration, "ast"), sizes, meaning).copy()
        is_known = np.zeros(sizes[:2], dtype=bool)
        for pair, row in (known or {}).items():
            a, s = _pair("known", pair, setting)
            given[a, s] = _known_row((a, s), row, setting)
            is_known[a, s] = True
        _check(given, is_known, setting)
        self._set(
            setting=setting,
            concentration=frozen(given),
            known=_locked(is_known),
            row=_locked(_shared_rows(ties, given, is_known, setting)),
            sensor=table,
            density=density,
            costs=costs,
        )

    def _contents(self) -> tuple[str, list[Array]]:
        tables = [table for table in (self.sensor, self.density, self.costs) if table is not None]
        return "".join([self.setting.fingerprint, *(table.fingerprint for table in tables)]), [
            self.concentration,
            self.known.astype(np.float64),
            self.row.astype(np.float64),
        ]

    @cached_property
    def step_codes(self) -> StepCodes:
        """How steps become numbers in compiled code."""
        return StepCodes(self.setting, unknown=self.sensor is not None or self.costs is not None)

    @property
    def mean(self) -> Array:
        """The mean kernel E[θ], shape [A, S, S′]."""
        return np.asarray(self.concentration / self.concentration.sum(axis=-1, keepdims=True))

    @property
    def support(self) -> npt.NDArray[np.bool_]:
        """The possible transitions, shape [A, S, S′]."""
        return np.asarray(self.concentration > 0.0)

    def replace(self, *, setting: Setting, sensor: DirichletSensor | None = None) -> DirichletPrior:
        """Return the same prior over kernels, including known and tied rows, in another setting.

        Parameters
        ----------
        setting
            The new setting.
        sensor
            An unknown observation model; None keeps that of this prior, which may be known.
        """
        known = {(int(a), int(s)): self.concentration[a, s] for a, s in np.argwhere(self.known)}
        unknown = sensor or self.sensor or self.density
        return DirichletPrior(
            setting,
            self.concentration,
            known,
            ties_of(self.row),
            sensor=unknown,
            costs=self.costs,
        )

    def with_unknown_sensor(self, setting: Setting, sensor: DirichletSensor) -> DirichletPrior:
        """Return the same prior over kernels in another setting, with an unknown observation model."""
        return self.replace(setting=setting, sensor=sensor)

    @property
    def learns_sensor(self) -> bool:
        """Whether the observation model is unknown: a table, or the parameters of a density."""
        return self.sensor is not None or self.density is not None

    @property
    def learns_costs(self) -> bool:
        """Whether the costs are unknown."""
        return self.costs is not None

    def impossible_part(self, setting: Setting, kernel_index: int | None = None) -> str | None:
        """Return the part of a sampled setting that has probability 0 under this prior, or None."""
        from .possible_settings import impossible_part_of_rows

        return impossible_part_of_rows(self, setting)

    def renaming_evidence(self, states: npt.NDArray[np.int64]) -> float:
        """Return the divergence of the renamed prior, in nats; the new state s is the old state `states[s]`.

        It is infinite if observations tell the renamed model from the model, or if the prior rules it out.
        """
        from .renaming_evidence import evidence_of_rows  # compiled code, as below

        return evidence_of_rows(self, self._free_rows, states)

    @cached_property
    def _free_rows(self) -> FreeRows:
        from .rows import free_rows

        return free_rows(self)

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        """Draw θ ~ f as a POMDP; an unknown observation model and unknown costs are drawn too."""
        kernel = self.sample(rng)
        changes: dict[str, Any] = {}
        if self.sensor is not None:
            table = self.sensor.sample(rng)
            changes["observation"] = table
            if table.ndim == 2 and self.setting.has_first_observation:
                changes["first_observation"] = table
            else:
                changes["first_observation"] = self.setting.first_observation
        if self.density is not None:
            return POMDP(learned_setting(self.setting, self.density.sample(rng)), kernel)
        if self.costs is not None:
            changes |= cost_changes(self.setting, self.costs, self.costs.sample(rng))
        return POMDP(self.setting.replace(**changes) if changes else self.setting, kernel)

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel θ ~ f, shape [A, S, S′]."""
        drawn = np.exp(log_dirichlet(rng, self.concentration))
        first = np.unique(self.row, return_index=True)[1]  # the first pair of those that share a row
        shared = drawn.reshape(-1, drawn.shape[-1])[first][self.row]
        return np.where(self.known[..., None], self.concentration, shared)

    def posterior(self, rng: np.random.Generator) -> DirichletPosterior:
        """Return the posterior before the first observation, a weighted ensemble of kernels.

        `rng` provides the random numbers of the ensemble and of its refreshes.
        """
        # These modules have compiled code, which a prior does not need.
        if self.density is not None:
            from .gaussian_posterior import GaussianPosterior

            return GaussianPosterior(self, rng)
        from .dirichlet_posterior import DirichletPosterior

        return DirichletPosterior(self, rng)

    def restore(self, state: Mapping[str, object], rng: np.random.Generator) -> DirichletPosterior:
        """Return the posterior whose `state()` was saved.

        If `rng` has the state that the generator of the saved posterior had, later results are equal to the
        last bit.

        Raises
        ------
        InvalidModelError
            If the state was saved under another prior, or is not a valid state of this posterior.
        """
        if self.density is not None:
            from .gaussian_posterior import GaussianPosterior

            return GaussianPosterior.resumed(self, state, rng)
        from .dirichlet_posterior import DirichletPosterior

        return DirichletPosterior.resumed(self, state, rng)

    def kernel_group(self, rng: np.random.Generator) -> RowGroup:
        """Draw a group of kernels for a mixture prior."""
        from .kernel_groups import RowGroup  # compiled code, as above

        if self.density is not None:
            raise InvalidModelError("a prior with unknown Gaussian observations cannot be part of a mixture")
        return RowGroup.drawn(self, rng)

    def restored_group(self, state: Mapping[str, object], size: int, time: int) -> RowGroup:
        """Return a saved group of kernels of a mixture prior."""
        from .kernel_groups import RowGroup

        if self.density is not None:
            raise InvalidModelError("a prior with unknown Gaussian observations cannot be part of a mixture")
        return RowGroup.restored(self, state, size, time)

    def __repr__(self) -> str:
        return f"DirichletPrior({self.setting!r})"


def learned_setting(setting: Setting, sensor: GaussianSensor) -> Setting:
    """Return the setting with other parameters of its Gaussian observations.

    They are also those of the observation before the first action, if the sensor does not depend on the
    action and the setting has such an observation.
    """
    first_too = setting.has_first_observation and sensor.n_actions is None
    return setting.replace(
        observation=sensor, first_observation=sensor if first_too else setting.first_sensor
    )


def _with_center(
    setting: Setting, density: NormalInverseGammaSensor, costs: DirichletCosts | None
) -> Setting:
    """Return the setting with the expected Gaussian observations, after checks."""
    if costs is not None:
        raise InvalidModelError("unknown costs cannot be combined with unknown Gaussian observations")
    if setting.seen_cost is not None:
        raise InvalidModelError("costs that are seen cannot be combined with unknown Gaussian observations")
    if not isinstance(setting.sensor, GaussianSensor):
        raise InvalidModelError(
            f"sensor is a NormalInverseGammaSensor, but the setting has {setting.sensor.described()}: its "
            "observation must be a GaussianSensor"
        )
    by_action = (setting.n_actions,) if density.depends_on_action else ()
    shaped("sensor.means", density.means, (*by_action, setting.n_states), "the sizes of the setting")
    return learned_setting(setting, density.center)


def _with_means(setting: Setting, sensor: DirichletSensor | None, costs: DirichletCosts | None) -> Setting:
    """Return the setting with the means of unknown tables as observation model and costs, after checks."""
    changes: dict[str, Any] = {}
    if sensor is not None:
        if not isinstance(sensor, DirichletSensor):
            raise InvalidModelError(f"sensor is a {type(sensor).__name__}, not a DirichletSensor")
        by_action = (setting.n_actions,) if sensor.depends_on_action else ()
        wanted = (*by_action, setting.n_states, setting.n_observations)
        shaped("sensor.counts", sensor.counts, wanted, "the sizes of the setting")
        changes["observation"] = sensor.mean
        first_too = setting.has_first_observation and not sensor.depends_on_action
        changes["first_observation"] = sensor.mean if first_too else setting.first_observation
    if costs is not None:
        if not isinstance(costs, DirichletCosts):
            raise InvalidModelError(f"costs is a {type(costs).__name__}, not a DirichletCosts")
        sizes = (setting.n_actions, setting.n_states)
        shaped("costs.counts", costs.counts, (*sizes, costs.n_values), "the sizes of the setting")
        changes |= cost_changes(setting, costs, costs.mean)
    return setting.replace(**changes) if changes else setting


def cost_changes(setting: Setting, costs: DirichletCosts, probabilities: Array) -> dict[str, Any]:
    """Return the parts of a setting that follow from the distribution of the seen costs, shape [A, S, C].

    The units span the values that a cost can have, so that they are the same for every distribution.
    """
    units = Units.spanning(costs.values, setting.units.kind, setting.units.name)
    return {
        "seen_cost": SeenCosts(costs.values, probabilities),
        "cost": np.clip(units.to_scaled(probabilities @ costs.values), 0.0, 1.0),
        "units": units,
    }


def ties_of(row: npt.NDArray[np.int64]) -> list[list[Pair]]:
    """Return the groups of pairs (a, s) that share a row; `row[a, s]` is the number of the row."""
    order = np.argsort(row, axis=None, kind="stable")
    ends = np.flatnonzero(np.diff(row.reshape(-1)[order])) + 1
    groups = [np.divmod(group, row.shape[1]) for group in np.split(order, ends) if len(group) > 1]
    return [list(zip(a.tolist(), s.tolist(), strict=True)) for a, s in groups]


def _locked(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    array.setflags(write=False)
    return array


def _check(given: Array, known: npt.NDArray[np.bool_], setting: Setting) -> None:
    finite("concentration", given, "ast", setting.names)
    wrong = (given < 0) | ((given > 0) & ((given < _LEAST) | (given > _MOST)) & ~known[..., None])
    if wrong.any():
        a, s, t = (int(i) for i in np.argwhere(wrong)[0])
        entry = setting.names.entry("concentration", "ast", (a, s, t))
        raise InvalidModelError(f"{entry} is {given[a, s, t]:g}: it must be 0 or in [{_LEAST:g}, {_MOST:g}]")
    empty = ~(given > 0).any(axis=-1)
    if empty.any():
        a, s = (int(i) for i in np.argwhere(empty)[0])
        entry = setting.names.entry("concentration", "as", (a, s))
        raise InvalidModelError(f"{entry} is zero everywhere, so no next state is possible")


def _pair(what: str, pair: Pair, setting: Setting) -> Pair:
    try:
        a, s = pair
        inside = 0 <= int(a) < setting.n_actions and 0 <= int(s) < setting.n_states
    except (TypeError, ValueError):
        inside = False
    if not inside:
        raise InvalidModelError(f"{what}: {pair!r} is not a pair (action, state) of numbers in this setting")
    return int(a), int(s)


def _known_row(pair: Pair, row: npt.ArrayLike, setting: Setting) -> Array:
    called = setting.names.entry("known", "as", pair)
    given = shaped(called, numbers(called, row, "s"), (setting.n_states,), f"{setting.n_states} states")
    return distributions(called, given, "s", setting.names)


def _shared_rows(
    ties: Iterable[Sequence[Pair]], given: Array, known: npt.NDArray[np.bool_], setting: Setting
) -> npt.NDArray[np.int64]:
    """Return the number of the row of each pair, shape [A, S]; rows are numbered by their first pairs."""
    label = np.arange(known.size).reshape(known.shape)
    members = {int(number): [pair] for pair, number in np.ndenumerate(label)}  # pairs (a, s) by row number
    for group in ties:
        pairs = [_pair("ties", pair, setting) for pair in group]
        for pair in pairs:
            entry = setting.names.entry("concentration", "as", pair)
            if known[pair]:
                raise InvalidModelError(f"ties: {entry} is a known row, so it cannot be tied to others")
            if (given[pair] != given[pairs[0]]).any():
                first = setting.names.entry("concentration", "as", pairs[0])
                raise InvalidModelError(f"ties: {entry} differs from {first}, which it is tied to")
            one, other = int(label[pairs[0]]), int(label[pair])
            if one != other:
                joined = members.pop(other)
                members[one] += joined
                for moved in joined:
                    label[moved] = one
    return np.unique(label, return_inverse=True)[1].reshape(known.shape).astype(np.int64)
