"""Gaussian observations whose means and standard deviations are not known, and are learned.

In each state (and after each action, if wanted) the pair of mean and variance has a normal-inverse-gamma
distribution, which is conjugate: with n readings whose states are known, it is one again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, frozen
from .._utils.frozen import Frozen
from ..errors import InvalidModelError
from .gaussian import GaussianSensor
from .parameters import by_state

LEAST_SD, MOST_SD = 1e-100, 1e100  # of drawn standard deviations


class NormalInverseGammaSensor(Frozen):
    """What is known of Gaussian observations.

    In each state the variance σ² has the distribution of degrees·sd² / χ²(degrees). Given σ, the mean has the
    distribution N(mean, σ² / strength).

    Parameters
    ----------
    means
        The expected mean in each state, shape [S]; or after each action in each state, shape [A, S].
    sds
        The standard deviations that are expected, of the same shape or of shape [S].
    strength
        How many readings in each state would say as much about the mean, a number or an array.
    degrees
        How many readings in each state would say as much about the standard deviation, likewise.

    Raises
    ------
    InvalidModelError
        If a parameter is not a finite number, or if one other than a mean is not positive.

    >>> NormalInverseGammaSensor(means=[1.0, 0.0], sds=[0.5, 0.5], strength=10.0, degrees=9.0)
    NormalInverseGammaSensor(2 states)
    """

    means: Array  # [S] or [A, S], like all others
    sds: Array
    strength: Array
    degrees: Array

    def __init__(
        self,
        means: npt.ArrayLike,
        sds: npt.ArrayLike,
        strength: npt.ArrayLike,
        degrees: npt.ArrayLike,
    ) -> None:
        center = by_state("means", means)
        found = {"means": center}
        for name, values in (("sds", sds), ("strength", strength), ("degrees", degrees)):
            given = np.asarray(values)
            if given.ndim == 0 and name != "sds":
                given = np.full(center.shape, given)
            one = by_state(name, given, positive=True, most=1e15 if name != "sds" else 1e75)
            if one.shape not in (center.shape, center.shape[-1:]):
                raise InvalidModelError(f"{name} has shape {one.shape}, and means has shape {center.shape}")
            found[name] = frozen(np.broadcast_to(one, center.shape).copy())
        self._set(**found)

    @classmethod
    def from_calibration(cls, readings: Sequence[npt.ArrayLike]) -> Self:
        """Return what readings in known states say, if nothing was known before them.

        Parameters
        ----------
        readings
            The readings in each state, a list for each; at least two that differ. For observations that
            depend on the action, such a list for each action.

        Raises
        ------
        InvalidModelError
            If a state has fewer than two readings, or only equal ones.

        >>> sensor = NormalInverseGammaSensor.from_calibration([[0.9, 1.1, 1.0], [0.0, 0.4]])
        >>> sensor.means.tolist(), sensor.degrees.tolist()
        ([1.0, 0.2], [2.0, 1.0])
        """
        groups = list(readings)
        nested = [np.ndim(group[0]) > 0 for group in groups if np.size(np.asarray(group, object))]  # type: ignore[index]
        if nested and all(nested):
            parts = [cls.from_calibration(group) for group in groups]  # type: ignore[arg-type]
            names = ("means", "sds", "strength", "degrees")
            return cls(**{name: np.stack([getattr(part, name) for part in parts]) for name in names})
        samples = []
        for s, group in enumerate(groups):
            sample = np.asarray(group, dtype=np.float64)
            if sample.ndim != 1 or len(sample) < 2 or not np.isfinite(sample).all() or not np.ptp(sample) > 0:
                raise InvalidModelError(
                    f"readings[{s}]: at least two different readings in this state are wanted"
                )
            samples.append(sample)
        if not samples:
            raise InvalidModelError("readings is empty: a list of readings for each state is wanted")
        counts = np.array([len(sample) for sample in samples], dtype=np.float64)
        return cls(
            [sample.mean() for sample in samples],
            [sample.std(ddof=1) for sample in samples],
            counts,
            counts - 1.0,
        )

    @property
    def n_states(self) -> int:
        """The number of states S."""
        return int(self.means.shape[-1])

    @property
    def depends_on_action(self) -> bool:
        """Whether the parameters differ between actions."""
        return self.means.ndim == 2

    @property
    def center(self) -> GaussianSensor:
        """The sensor with the expected means and standard deviations."""
        return GaussianSensor(self.means, self.sds)

    def sample(self, rng: np.random.Generator) -> GaussianSensor:
        """Draw a sensor."""
        means, sds = self.draw_given(rng, np.zeros((3, *self.means.shape, 1)))
        return GaussianSensor(means[..., 0], sds[..., 0])

    def draw_given(self, rng: np.random.Generator, sums: Array) -> tuple[Array, Array]:
        """Draw means and standard deviations given readings in known states, for N kernels.

        Parameters
        ----------
        rng
            The source of random numbers.
        sums
            The number of readings, the sum of u and the sum of u², shape [3, .., N]. Here u is the reading
            minus the expected mean, which keeps digits.

        Returns
        -------
        tuple of arrays
            Means and standard deviations, shape [.., N].
        """
        number, total, squares = sums
        strength, degrees = self.strength[..., None] + number, self.degrees[..., None] + number
        scale = (self.degrees * self.sds**2)[..., None] + np.maximum(squares - total**2 / strength, 0.0)
        # A χ² variable of few degrees may underflow.
        chi = np.maximum(rng.chisquare(degrees), 1e-300)
        sds = np.clip(np.sqrt(scale / chi), LEAST_SD, MOST_SD)
        shift = sds / np.sqrt(strength) * rng.standard_normal(sds.shape)
        return self.means[..., None] + total / strength + shift, sds

    def log_density(self, means: Array, sds: Array) -> Array:
        """Return the log density of (mean, log sd), shape [.., N], up to a constant for each place."""
        strength, degrees = self.strength[..., None], self.degrees[..., None]
        z = (means - self.means[..., None]) / sds
        ratio = self.sds[..., None] / sds
        return np.asarray(-0.5 * strength * z**2 - 0.5 * degrees * ratio**2 - (degrees + 1.0) * np.log(sds))

    def _contents(self) -> tuple[str, list[Array]]:
        return type(self).__name__, [self.means, self.sds, self.strength, self.degrees]

    def __repr__(self) -> str:
        after = f"{len(self.means)} actions, " if self.depends_on_action else ""
        return f"{type(self).__name__}({after}{self.n_states} states)"
