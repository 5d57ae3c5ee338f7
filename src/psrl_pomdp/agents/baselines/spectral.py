"""Sensor and kernel from triples of observations by tensor decomposition, if both are unknown.

Take the triples (o_{t−1}, o_t, o_{t+1}) with a_t = a. If a_t was drawn with a known probability p_t(a) given
o_t alone, and each triple has the weight 1 / p_t(a), which corrects for the dependence of a_t on the middle
view, then the three are independent given s_t. So their moment is a sum of S products, one for each state,

    E[x_1 ⊗ x_2 ⊗ x_3] = Σ_s d(s) u_s ⊗ η_s ⊗ w_s,      w_s = Σ_s′ θ(s′ | s, a) η_s′,

with η_s the sensor's row of s. Pairwise moments map the outer views to the space of the middle one,

    x̃_1 = E[x_2 x_3ᵀ] E[x_1 x_3ᵀ]⁺ x_1,      x̃_3 = E[x_2 x_1ᵀ] E[x_3 x_1ᵀ]⁺ x_3,

so that M_2 = E[x̃_1 x̃_3ᵀ] = Σ d η ηᵀ and M_3 = E[x̃_1 ⊗ x_2 ⊗ x̃_3] = Σ d η ⊗ η ⊗ η. A whitening W, Wᵀ
M_2 W = 1, makes M_3(W, W, W) a sum of orthogonal products, which the power method finds one at a
time and from several starts; with eigenpairs (λ, v), η = λ (Wᵀ)⁺ v. The third view follows, w = E[x_3 x_1ᵀ]
E[x_2 x_1ᵀ]⁺ η, and the kernel is θ_a = w H⁺ (Anandkumar, Ge, Hsu, Kakade and Telgarsky 2014, "Tensor
decompositions for learning latent variable models"; for POMDPs Azizzadenesheli, Lazaric and Anandkumar
2016).

Guarantee: error O(1/√N) if S ≤ O and if the sensor and the θ_a have full rank. The constants are so large
that about 10^4 triples per action are needed. An action whose θ_a does not have full rank, for example one
that leads from every state to the same one, gives no information about the sensor; the sensor of the other
actions is then used for it.

The order of the states is arbitrary for each action: the states are aligned by their sensor rows to those of
the action with the least error, and the sensor is the weighted mean. The states also have no names, but the
cost of each state is part of the setting and is never observed. Therefore the recovered rows are matched to
the rows of the true sensor, which is used for nothing else. Without this information no plan is possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ..._utils.arrays import Array
from ...models import POMDP, SENSOR, Setting
from .base import drawn_near, floored
from .moments import sensor_inverse

_RESTARTS = 12  # starts of the power method for each state
_ITERATIONS = 60


class Spectrum(NamedTuple):
    """The sensor that was estimated from one action's triples, in an arbitrary order of the states."""

    sensor: Array  # [S, O]: η
    conditioning: float  # the least of the S singular values of E[x_1 x_3ᵀ]; large if the error is small


class Triples:
    """Weighted counts of three consecutive observations, and the model that is estimated from them."""

    def __init__(self, setting: Setting) -> None:
        sensor_inverse(setting)  # raises an error if the algorithm is not applicable
        self.setting = setting
        n_actions, _, n_readings = setting.observation.shape
        self.weighted = np.zeros((n_actions, n_readings, n_readings, n_readings))  # [A, o, o′, o″]
        self.counts = np.zeros(n_actions)

    def add(self, action: int, before: int, middle: int, after: int, probability: float) -> None:
        """Count three consecutive observations.

        `action` was taken at `middle`, with this probability.
        """
        self.weighted[action, before, middle, after] += 1.0 / probability
        self.counts[action] += 1.0

    def arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the counts by their names in files."""
        return {"triples": self.weighted, "counts": self.counts}

    def radius(self, scale: float, time: int) -> Array:
        """Return `scale` √(log t / N_a), at most 2: an L1 radius around the rows of each action, shape [A].

        The rate is that of the theory. Its constants, powers of S, of O and of inverse singular values, are
        too large for any use, and the papers' own runs do not use them either.
        """
        wide = scale * np.sqrt(np.log(time + 1.0) / np.maximum(self.counts, 1.0))
        return np.asarray(np.minimum(2.0, wide))

    def model(self, least: float, rng: np.random.Generator) -> POMDP | None:
        """Return sensor and kernel in the order of the setting's states; None if the moments are degenerate.

        The entries are about `least` or more.
        """
        found = recovered(self.weighted, self.setting.n_states, rng)
        if found is None:
            return None
        order = matched(found[0], self.setting.observation[0])
        sensor, kernel = found[0][order], found[1][:, order][:, :, order]
        return estimated_model(self.setting, floored(sensor, least), floored(kernel, least))


def estimated_model(setting: Setting, sensor: Array, kernel: Array) -> POMDP:
    """Return a model with the setting's costs and initial distribution, this sensor and this kernel."""
    first = None if setting.first_observation is None else SENSOR
    return POMDP(Setting(sensor, setting.cost, setting.initial, first, units=setting.units), kernel)


def drawn_model(estimate: POMDP, radius: Array, rng: np.random.Generator) -> POMDP:
    """Draw a model with rows within `radius[A]` of the estimate's, and a sensor within the least radius."""
    n_actions, n_states = estimate.n_actions, estimate.n_states
    kernel = drawn_near(estimate.transition, np.broadcast_to(radius[:, None], (n_actions, n_states)), rng)
    sensor = drawn_near(estimate.setting.observation[0], np.full(n_states, radius.min()), rng)
    return estimated_model(estimate.setting, sensor, kernel)


def recovered(triples: Array, n_states: int, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """Return sensor `[S, O]` and kernel `[A, S, S]` from `triples[A, O, O, O]`, with the same state order."""
    totals = triples.sum(axis=(1, 2, 3))
    if not (totals > 0.0).all():
        return None
    moments = triples / totals[:, None, None, None]
    spectra = [spectrum for m in moments if (spectrum := decomposed(m, n_states, rng)) is not None]
    if not spectra:
        return None
    sensor = _aligned_mean(spectra)
    inverse = np.linalg.pinv(sensor)
    next_views = [sensor @ _last_from_middle(m, n_states).T for m in moments]
    return sensor, np.array(next_views) @ inverse


def _aligned_mean(spectra: list[Spectrum]) -> Array:
    """Return the weighted mean [S, O] of the sensors, in the order of the best-conditioned one."""
    best = max(spectra, key=lambda spectrum: spectrum.conditioning)
    weights = np.array([spectrum.conditioning for spectrum in spectra]) ** 2
    rows = [spectrum.sensor[matched(spectrum.sensor, best.sensor)] for spectrum in spectra]
    return np.asarray(np.tensordot(weights / weights.sum(), np.array(rows), axes=1))


def _last_from_middle(triples: Array, n_states: int) -> Array:
    """Return E[x_3 x_1ᵀ] E[x_2 x_1ᵀ]⁺ [O, O], which maps η_s to w_s for any rank of θ_a."""
    return np.asarray(triples.sum(axis=1).T @ _inverse(triples.sum(axis=2).T, n_states))


def decomposed(triples: Array, n_states: int, rng: np.random.Generator) -> Spectrum | None:
    """Return one action's sensor from its moment `[O, O, O]`, which sums to one; None if rank(M_2) < S."""
    first_middle, first_last, middle_last = (triples.sum(axis=axis) for axis in (2, 1, 0))
    from_first = middle_last @ _inverse(first_last, n_states)
    from_last = first_middle.T @ _inverse(first_last.T, n_states)
    second = from_first @ first_last @ from_last.T
    third = np.einsum("abc,xa,yc->xby", triples, from_first, from_last)
    values, vectors = np.linalg.eigh(0.5 * (second + second.T))
    values, vectors = values[-n_states:], vectors[:, -n_states:]
    conditioning = float(np.linalg.svd(first_last, compute_uv=False)[n_states - 1])
    if not (np.isfinite(third).all() and values[0] > 1e-12 and conditioning > 1e-12):
        return None
    whitened = np.einsum("abc,ai,bj,ck->ijk", third, *(vectors / np.sqrt(values),) * 3)
    eigenvalues, eigenvectors = power_method(_symmetric(whitened), rng)
    return Spectrum(eigenvalues[:, None] * (eigenvectors @ (vectors * np.sqrt(values)).T), conditioning)


def _inverse(matrix: Array, rank: int) -> Array:
    """Return the pseudo-inverse of the best approximation of this rank."""
    left, values, right = np.linalg.svd(matrix)
    largest = np.maximum(values[:rank], 1e-12)
    return np.asarray((right[:rank].T / largest) @ left[:, :rank].T)


def _symmetric(tensor: Array) -> Array:
    """Return the mean over all permutations of the axes."""
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    return np.asarray(sum(tensor.transpose(order) for order in orders) / 6.0)


def power_method(tensor: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return eigenvalues `[S]` and eigenvectors `[S, S]`, in rows, of a nearly orthogonal symmetric tensor.

    For each of them, v ← T(1, v, v) is iterated and normalized from several random starts. The v with the
    largest T(v, v, v) is iterated further, and its product is subtracted from T.
    """
    n = len(tensor)
    rest = tensor.copy()
    eigenvalues, eigenvectors = np.empty(n), np.empty((n, n))
    for i in range(n):
        starts = rng.standard_normal((_RESTARTS * n, n))
        vectors = _iterated(rest, starts)
        best = np.einsum("abc,ra,rb,rc->r", rest, vectors, vectors, vectors).argmax()
        vector = _iterated(rest, vectors[best : best + 1])[0]
        eigenvalues[i] = np.einsum("abc,a,b,c->", rest, vector, vector, vector)
        eigenvectors[i] = vector
        rest -= eigenvalues[i] * np.einsum("a,b,c->abc", vector, vector, vector)
    return eigenvalues, eigenvectors


def _iterated(tensor: Array, vectors: Array) -> Array:
    """Return the rows v after many steps v ← T(1, v, v), normalized."""
    n = len(tensor)
    flat = tensor.reshape(n, n * n)
    for _ in range(_ITERATIONS):
        squares = (vectors[:, :, None] * vectors[:, None, :]).reshape(-1, n * n)
        vectors = squares @ flat.T
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    return vectors


def matched(rows: Array, wanted: Array) -> npt.NDArray[np.int64]:
    """Return the index of the row matched to each row of `wanted`, with the least total L1 distance."""
    distances = np.abs(wanted[:, None] - rows[None]).sum(axis=2)
    return np.asarray(linear_sum_assignment(distances)[1], dtype=np.int64)
