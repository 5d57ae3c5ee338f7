"""Mixtures of sensors, such as a sensor with a small share of outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, distributions, frozen
from ..errors import InvalidModelError
from .base import Integers, ScalarSensor
from .counts import NegativeBinomialSensor
from .parameters import LARGEST_VALUE, checked_parts, real_array
from .student import StudentSensor
from .tails import EPSILON


class MixtureSensor(ScalarSensor):
    """Observations that come from one of several sensors, chosen at random in each step.

    Parameters
    ----------
    components
        The sensors, all for as many states. They give real numbers, or they all give counts.
    weights
        The probability of each component, shape [C]; or in each state, shape [S, C].

    Raises
    ------
    InvalidModelError
        If the components do not fit together, or the weights are not probabilities.

    >>> from psrl_pomdp.sensors import GaussianSensor
    >>> normal = GaussianSensor(means=[0.0, 1.0], sds=[0.2, 0.2])
    >>> wide = GaussianSensor(means=[0.5, 0.5], sds=[5.0, 5.0])
    >>> MixtureSensor([normal, wide], weights=[0.99, 0.01])
    MixtureSensor(2 states, a mixture of 2 kinds of observations)
    """

    family = "mixture"
    components: tuple[ScalarSensor, ...]
    weights: Array  # [S, C]

    def __init__(self, components: Sequence[ScalarSensor], weights: npt.ArrayLike) -> None:
        parts: tuple[ScalarSensor, ...] = checked_parts(
            "components", components, ScalarSensor, "sensors of single numbers, such as GaussianSensor"
        )
        n_states, first = parts[0].n_states, parts[0]
        by_action = {part.n_actions for part in parts if part.n_actions is not None}
        for i, part in enumerate(parts):
            if part.depends_on_previous:
                raise InvalidModelError(f"components[{i}] depends on the state before the action")
            if part.n_states != n_states:
                raise InvalidModelError(
                    f"components[{i}] has {part.n_states} states, and components[0] has {n_states}"
                )
            if part.is_discrete != first.is_discrete:
                raise InvalidModelError(
                    f"components[{i}] has {part.described()}, and components[0] has {first.described()}: "
                    "counts and real numbers cannot be mixed"
                )
        if len(by_action) > 1:
            raise InvalidModelError(f"components have different numbers of actions: {sorted(by_action)}")
        given = real_array("weights", weights)
        if given.shape not in ((len(parts),), (n_states, len(parts))):
            raise InvalidModelError(
                f"weights has shape {given.shape}, not ({len(parts)},) or ({n_states}, {len(parts)}): "
                f"there are {len(parts)} components and {n_states} states"
            )
        axes = "c" if given.ndim == 1 else "sc"
        shares = distributions("weights", given, axes, Names())
        self._set(
            components=parts,
            weights=frozen(np.broadcast_to(shares, (n_states, len(parts)))),
            n_states=n_states,
            n_actions=next(iter(by_action), None),
            is_discrete=first.is_discrete,
        )

    def _contents(self) -> tuple[str, list[Array]]:
        texts, arrays = [self.family], [self.weights]
        for part in self.components:
            text, more = part._contents()
            texts.append(f"{text}:{len(more)}")
            arrays += more
        return " ".join(texts), arrays

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"components": list(self.components), "weights": self.weights}

    def described(self) -> str:
        """Return a few words for messages and reports."""
        return f"a mixture of {len(self.components)} kinds of observations"

    def log_likelihood(self, action: int, observations: Array) -> Array:
        """Return the log density of observations [T] under every state, shape [T, S′]."""
        logs = [part.log_likelihood(at, observations) for part, at in self._parts(action)]
        return np.where(
            np.isnan(observations)[:, None], 0.0, self._mixed(np.stack(logs), self.weights.T[:, None])
        )

    def draw(
        self, rng: np.random.Generator, action: int, states: Integers, previous: Integers | None = None
    ) -> Array:
        """Draw one observation in each of `states[T]`."""
        bounds = np.cumsum(self.weights, axis=1)[states]
        uniform = rng.random(len(states)) * bounds[:, -1]
        chosen = (uniform[:, None] >= bounds[:, :-1]).sum(axis=1)
        found = np.zeros(len(states))
        for c, (part, at) in enumerate(self._parts(action)):
            here = chosen == c
            found[here] = part.draw(rng, at, states[here])
        return found

    def interval_masses(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return the probability of each interval under every state, and bounds on the errors."""
        masses, errors = np.zeros((self.n_states, len(edges) - 1)), np.zeros((self.n_states, len(edges) - 1))
        for share, (part, at) in zip(self.weights.T, self._parts(action), strict=True):
            mass, error = part.interval_masses(at, edges)
            masses += share[:, None] * mass
            errors += share[:, None] * error
        return masses, errors + len(self.components) * EPSILON * masses

    def log_density_bounds(self, action: int, edges: Array) -> tuple[Array, Array]:
        """Return bounds on the log density in each interval."""
        bounds = [part.log_density_bounds(at, edges) for part, at in self._parts(action)]
        shares = self.weights.T[:, :, None]
        low, high = (self._mixed(np.stack(side), shares) for side in zip(*bounds, strict=True))
        with np.errstate(invalid="ignore"):
            slack = [np.where(np.isinf(side), 0.0, 1e-13 * (1.0 + np.abs(side))) for side in (low, high)]
        return low - slack[0], high + slack[1]

    def _parts(self, action: int) -> list[tuple[ScalarSensor, int]]:
        """Return each component with the number by which it knows the action."""
        return [(part, 0 if part.n_actions is None else action) for part in self.components]

    @staticmethod
    def _mixed(logs: Array, shares: Array) -> Array:
        """Return the logarithm of the weighted sum over the components, the first axis."""
        with np.errstate(divide="ignore", invalid="ignore"):
            weighted = np.where(shares > 0.0, logs + np.log(shares), -np.inf)
            top = weighted.max(axis=0)
            found = top + np.log(np.exp(weighted - top).sum(axis=0))
        return np.asarray(np.where(np.isfinite(top), found, top))


def with_outliers(
    sensor: ScalarSensor, share: float = 1e-6, center: float | None = None, width: float | None = None
) -> MixtureSensor:
    """Return a sensor that makes an outlier with a small probability, the same in every state.

    Far from all means, a Gaussian observation decides for one state and one kernel with certainty, although
    it is more likely a mistake. An outlier says nothing about the state. Its distribution has heavy tails:
    for real numbers a Cauchy distribution, and for counts a negative binomial one.

    Parameters
    ----------
    sensor
        The sensor without outliers.
    share
        The probability of an outlier, between 0 and 1.
    center, width
        The center and the scale of the Cauchy distribution; for counts, only `width` is used, as the mean. By
        default they cover the 1 % and 99 % quantiles of the sensor under all actions.

    Returns
    -------
    MixtureSensor
        The sensor and the outliers.

    >>> from psrl_pomdp.sensors import GaussianSensor
    >>> sharp = GaussianSensor(means=[0.0, 1.0], sds=[0.1, 0.1])
    >>> import numpy as np
    >>> np.diff(sharp.log_likelihood(0, np.array([30.0]))).round().tolist()
    [[2950.0]]
    >>> np.diff(with_outliers(sharp).log_likelihood(0, np.array([30.0]))).round().tolist()
    [[0.0]]
    """
    if not isinstance(sensor, ScalarSensor):
        raise InvalidModelError(
            f"sensor is {sensor!r}, not a sensor of single numbers such as GaussianSensor"
        )
    if not 0.0 < _finite("share", share) < 1.0:
        raise InvalidModelError(f"share is {share!r}, not between 0 and 1")
    if width is not None and not _finite("width", width) > 0.0:
        raise InvalidModelError(f"width is {width!r}, not positive")
    ends = np.array([sensor.quantiles(a, np.array([0.01, 0.99])) for a in range(sensor.n_actions or 1)])
    low, high = float(ends.min()), float(ends.max())
    every = np.ones(sensor.n_states)
    outliers: ScalarSensor
    if sensor.is_discrete:
        mean = 10.0 * (1.0 + high) if width is None else width
        outliers = NegativeBinomialSensor(np.clip(mean, 1e-6, 1e6) * every, 0.5 * every)
    else:
        middle = 0.5 * low + 0.5 * high if center is None else _finite("center", center)
        spread = max(0.5 * high - 0.5 * low, 1e-3 * abs(middle), 1e-100) if width is None else width
        outliers = StudentSensor(middle * every, spread * every, 1.0)
    return MixtureSensor([sensor, outliers], [1.0 - share, share])


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidModelError(f"{name} is {value!r}, not a number")
    if not abs(value) <= LARGEST_VALUE:
        raise InvalidModelError(f"{name} is {value!r}, not finite")
    return float(value)
