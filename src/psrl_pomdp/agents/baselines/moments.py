"""The kernel from moments of consecutive observations, for a known sensor that does not depend on the action.

If a_t was drawn with probability p_t(a_t) given the history with o_t, the weight 1 / p_t of a pair of
consecutive observations corrects for the choice of the action: per step, and for any policy,

    Q_a(o, o′) = E[1{o_t = o, a_t = a, o_{t+1} = o′} / p_t(a)] = Σ_{s, s′} d(s) η(o | s) θ(s′ | s, a) η(o′ |
    s′),

or Q_a = Hᵀ D θ_a H with H = η, `[S, O]`, and D the diagonal matrix of the state frequencies. If rank(H) = S,

    D θ_a = (Hᵀ)⁺ Q_a H⁺,

and its rows, each divided by its sum, are those of θ_a. The error shrinks like 1/√N, with a constant that
grows like 1 / σ_min(H)² and with the weights. (Observation-aware spectral estimation: Russo, Metelli and
Restelli 2024, for observations after the action, which need no weights if the policy is fixed; the weights
are the correction for observations that the action depends on.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._utils.arrays import Array
from ...errors import InvalidModelError
from ...models import Setting
from .base import floored

SMALLEST_SINGULAR_VALUE = 1e-6  # the least one of a sensor that can be inverted
_FALSE_ALARM = 0.05  # δ of the radius


def sensor_inverse(setting: Setting) -> tuple[Array, float]:
    """Return H⁺ `[O, S]` and σ_min(H).

    Raises `InvalidModelError` if the sensor depends on the action or does not have rank S.
    """
    if setting.sensor_depends_on_action:
        raise InvalidModelError(
            "the observation model depends on the action; moments of consecutive observations require the "
            "same observation model for all actions"
        )
    sensor = setting.observation[0]
    values = np.linalg.svd(sensor, compute_uv=False)
    rank = int((values > SMALLEST_SINGULAR_VALUE).sum())
    if rank < setting.n_states:
        raise InvalidModelError(
            f"the observation model has rank {rank}, less than the number of states {setting.n_states}, and "
            "moments of consecutive observations do not identify the transition kernel"
        )
    return np.linalg.pinv(sensor), float(values[-1])


class Moments:
    """Weighted counts of consecutive observations, and the kernel that is estimated from them.

    >>> moments = Moments(Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0]))
    >>> moments.add(0, 1, 0, 0.5)
    >>> moments.weighted[0].tolist()
    [[0.0, 0.0], [2.0, 0.0]]
    """

    def __init__(self, setting: Setting) -> None:
        self.inverse, self.smallest = sensor_inverse(setting)
        n_actions, _, n_readings = setting.observation.shape
        self.weighted = np.zeros((n_actions, n_readings, n_readings))  # N Q_a(o, o′)
        self.squares = np.zeros(n_actions)  # Σ_t 1{a_t = a} / p_t², which measures their noise
        self.pairs = np.zeros(1)  # N, the number of pairs with any action

    def add(self, action: int, before: int, after: int, probability: float) -> None:
        """Count the observations before and after `action`, which had this probability."""
        weight = 1.0 / probability
        self.weighted[action, before, after] += weight
        self.squares[action] += weight * weight
        self.pairs[0] += 1.0

    def arrays(self, prefix: str = "") -> dict[str, npt.NDArray[np.float64]]:
        """Return the counts by their names in files."""
        return {
            f"{prefix}weighted": self.weighted,
            f"{prefix}squares": self.squares,
            f"{prefix}pairs": self.pairs,
        }

    def clear(self) -> None:
        """Set all counts to 0."""
        for array in self.arrays().values():
            array[...] = 0.0

    def absorb(self, other: Moments) -> None:
        """Add other moments, those of each action divided by its mean squared weight.

        D differs between the two but θ_a does not, so that any multiples may be added. These have least
        noise.
        """
        counted = other.squares > 0.0
        multiple = np.where(counted, other.pairs / np.where(counted, other.squares, 1.0), 0.0)
        self.weighted += multiple[:, None, None] * other.weighted
        self.squares += multiple**2 * other.squares
        self.pairs += other.pairs

    def joint(self) -> Array:
        """Return the estimate of N D θ_a, shape [A, S, S]."""
        return np.asarray(self.inverse.T @ self.weighted @ self.inverse)

    def kernel(self, least: float) -> Array:
        """Return the estimate of θ [A, S, S].

        Its entries are about `least` or more; rows without data are uniform.
        """
        return floored(self.joint(), least)

    def radius(self, scale: float) -> Array:
        """Return `scale` times an L1 radius around each row, at most 2; shape [A, S].

        For independent pairs ‖Q̂_a − Q_a‖_F ≤ √(Σ w²) (1 + √(2 log(A / δ))) / N with probability 1 − δ for
        all a (its mean square, and bounded differences). (Hᵀ)⁺ and H⁺ multiply that by at most
        1 / σ_min², the L1 norm of a row is at most √S times its L2 norm, and the division by the row's sum
        multiplies by 2 / d(s). The mixing time, which is in the constants of the papers, is not known here.
        """
        n_actions, n_states = len(self.squares), self.inverse.shape[1]
        if scale == 0.0:
            return np.zeros((n_actions, n_states))
        noise = np.sqrt(self.squares) * (1.0 + np.sqrt(2.0 * np.log(n_actions / _FALSE_ALARM)))
        mass = np.maximum(self.joint().sum(axis=2), 1e-300)  # N d(s), as each action sees it
        wide = 2.0 * np.sqrt(n_states) / self.smallest**2 * noise[:, None] / mass
        return np.asarray(np.where(self.squares[:, None] > 0.0, np.minimum(2.0, scale * wide), 2.0))
