"""Sensor and kernel from triples of readings, neither of them known: tensor decomposition.

Take the triples (o_{t−1}, o_t, o_{t+1}) with a_t = a. Given s_t the three are independent, where a_t was
drawn with a known probability p_t(a) given o_t alone, once each triple is weighted by 1 / p_t(a) (which
undoes what a_t has seen of the middle view). So their moment is a sum of S products, one a state,

    E[x_1 ⊗ x_2 ⊗ x_3] = Σ_s d(s) u_s ⊗ η_s ⊗ w_s,      w_s = Σ_s′ θ(s′ | s, a) η_s′,

with η_s the sensor's row of s. The outer views are carried into the space of the middle one by pairwise
moments,

    x̃_1 = E[x_2 x_3ᵀ] E[x_1 x_3ᵀ]⁺ x_1,      x̃_3 = E[x_2 x_1ᵀ] E[x_3 x_1ᵀ]⁺ x_3,

so that M_2 = E[x̃_1 x̃_3ᵀ] = Σ d η ηᵀ and M_3 = E[x̃_1 ⊗ x_2 ⊗ x̃_3] = Σ d η ⊗ η ⊗ η. A whitening W, Wᵀ
M_2 W = 1, makes M_3(W, W, W) a sum of orthogonal products, which the power method takes apart, one at a
time and from several starts; with eigenpairs (λ, v), η = λ (Wᵀ)⁺ v. The third view follows, w = E[x_3 x_1ᵀ]
E[x_2 x_1ᵀ]⁺ η, and the kernel is θ_a = w H⁺ (Anandkumar, Ge, Hsu, Kakade and Telgarsky 2014, "Tensor
decompositions for learning latent variable models"; for POMDPs Azizzadenesheli, Lazaric and Anandkumar
2016).

Guarantee: error O(1/√N) where S ≤ O, and where the sensor and the θ_a have full rank, with constants so
large that about 10^4 triples an action are needed to be of any use. An action whose θ_a has not full rank,
as where it brings every state to the same one, says nothing of the sensor; that of the others then serves
it too.

The states come out in another order for each action: they are aligned by their sensor rows, to those of the
surest action, and the sensor is their mean. And they come out without names, while what each state costs is
part of the setting and is never observed. So the recovered rows are matched to the true sensor's rows, to
name the states and for nothing else: this is told, and without it nothing could be planned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ..._utils.arrays import Array
from ...errors import InvalidModelError
from ...models import POMDP, SENSOR, Setting
from .base import drawn_near, floored
from .moments import sensor_inverse

_RESTARTS = 12  # of the power method, for each state
_ITERATIONS = 60


class Spectrum(NamedTuple):
    """What one action's triples say, in an order of its own."""

    sensor: Array  # [S, O]: η
    sureness: float  # the smallest of the S singular values of E[x_1 x_3ᵀ], which the error is divided by


class Triples:
    """Weighted counts of three readings in a row, and the model that they say."""

    def __init__(self, setting: Setting) -> None:
        try:
            sensor_inverse(setting)
        except InvalidModelError as refused:
            raise InvalidModelError(f"spectral learning of sensor and kernel: {refused}") from None
        self.setting = setting
        n_actions, _, n_readings = setting.observation.shape
        self.weighted = np.zeros((n_actions, n_readings, n_readings, n_readings))  # [A, o, o′, o″]
        self.counts = np.zeros(n_actions)

    def add(self, action: int, before: int, middle: int, after: int, probability: float) -> None:
        """`action` was taken at `middle` with this probability, between the two other readings."""
        self.weighted[action, before, middle, after] += 1.0 / probability
        self.counts[action] += 1.0

    def arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        return {"triples": self.weighted, "counts": self.counts}

    def radius(self, scale: float, time: int) -> Array:
        """[A]: `scale` √(log t / N_a), at most 2: an L1 radius around the rows of each action.

        The rate is that of theory. Its constants, powers of S, O and of inverse singular values, are far
        too large to be played with, in the papers' own runs too.
        """
        wide = scale * np.sqrt(np.log(time + 1.0) / np.maximum(self.counts, 1.0))
        return np.asarray(np.minimum(2.0, wide))

    def model(self, least: float, rng: np.random.Generator) -> POMDP | None:
        """Sensor and kernel, no entry far below `least`, with the states named; None if degenerate."""
        found = recovered(self.weighted, self.setting.n_states, rng)
        if found is None:
            return None
        order = matched(found[0], self.setting.observation[0])
        sensor, kernel = found[0][order], found[1][:, order][:, :, order]
        return estimated_model(self.setting, floored(sensor, least), floored(kernel, least))


def estimated_model(setting: Setting, sensor: Array, kernel: Array) -> POMDP:
    """A model with the setting's costs and start, and with this sensor and this kernel."""
    first = None if setting.first_observation is None else SENSOR
    return POMDP(Setting(sensor, setting.cost, setting.initial, first, units=setting.units), kernel)


def drawn_model(estimate: POMDP, radius: Array, rng: np.random.Generator) -> POMDP:
    """A model with every row within `radius[A]` of the estimate's, the sensor's within the least of them."""
    n_actions, n_states = estimate.n_actions, estimate.n_states
    kernel = drawn_near(estimate.transition, np.broadcast_to(radius[:, None], (n_actions, n_states)), rng)
    sensor = drawn_near(estimate.setting.observation[0], np.full(n_states, radius.min()), rng)
    return estimated_model(estimate.setting, sensor, kernel)


def recovered(triples: Array, n_states: int, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """Sensor `[S, O]` and kernel `[A, S, S]` from `triples[A, O, O, O]`, in one unnamed order of states."""
    totals = triples.sum(axis=(1, 2, 3))
    if not (totals > 0.0).all():
        return None
    moments = triples / totals[:, None, None, None]
    spectra = [spectrum for m in moments if (spectrum := decomposed(m, n_states, rng)) is not None]
    if not spectra:
        return None
    sensor = _aligned_mean(spectra)
    inverse = np.linalg.pinv(sensor)
    onward = [sensor @ _last_from_middle(m, n_states).T for m in moments]
    return sensor, np.array(onward) @ inverse


def _aligned_mean(spectra: list[Spectrum]) -> Array:
    """[S, O]: the sensor in the order of the surest action; each counts by the square of its sureness."""
    surest = max(spectra, key=lambda spectrum: spectrum.sureness)
    weights = np.array([spectrum.sureness for spectrum in spectra]) ** 2
    rows = [spectrum.sensor[matched(spectrum.sensor, surest.sensor)] for spectrum in spectra]
    return np.asarray(np.tensordot(weights / weights.sum(), np.array(rows), axes=1))


def _last_from_middle(triples: Array, n_states: int) -> Array:
    """[O, O]: E[x_3 x_1ᵀ] E[x_2 x_1ᵀ]⁺, which carries η_s to w_s whatever the rank of θ_a."""
    return np.asarray(triples.sum(axis=1).T @ _inverse(triples.sum(axis=2).T, n_states))


def decomposed(triples: Array, n_states: int, rng: np.random.Generator) -> Spectrum | None:
    """One action's sensor from its moment `[O, O, O]`, which sums to one; None where M_2 is not of rank S."""
    first_middle, first_last, middle_last = (triples.sum(axis=axis) for axis in (2, 1, 0))
    from_first = middle_last @ _inverse(first_last, n_states)
    from_last = first_middle.T @ _inverse(first_last.T, n_states)
    second = from_first @ first_last @ from_last.T
    third = np.einsum("abc,xa,yc->xby", triples, from_first, from_last)
    values, vectors = np.linalg.eigh(0.5 * (second + second.T))
    values, vectors = values[-n_states:], vectors[:, -n_states:]
    sureness = float(np.linalg.svd(first_last, compute_uv=False)[n_states - 1])
    if not (np.isfinite(third).all() and values[0] > 1e-12 and sureness > 1e-12):
        return None
    whitened = np.einsum("abc,ai,bj,ck->ijk", third, *(vectors / np.sqrt(values),) * 3)
    eigenvalues, eigenvectors = power_method(_symmetric(whitened), rng)
    return Spectrum(eigenvalues[:, None] * (eigenvectors @ (vectors * np.sqrt(values)).T), sureness)


def _inverse(matrix: Array, rank: int) -> Array:
    """The pseudo-inverse of the best approximation of this rank."""
    left, values, right = np.linalg.svd(matrix)
    kept = np.maximum(values[:rank], 1e-12)
    return np.asarray((right[:rank].T / kept) @ left[:, :rank].T)


def _symmetric(tensor: Array) -> Array:
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    return np.asarray(sum(tensor.transpose(order) for order in orders) / 6.0)


def power_method(tensor: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Eigenvalues `[S]` and eigenvectors `[S, S]`, by rows, of a symmetric tensor that is nearly orthogonal.

    For each in turn: from several random starts v ← T(1, v, v), normalised; the largest T(v, v, v) is
    taken, refined, and subtracted.
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
    n = len(tensor)
    flat = tensor.reshape(n, n * n)
    for _ in range(_ITERATIONS):
        squares = (vectors[:, :, None] * vectors[:, None, :]).reshape(-1, n * n)
        vectors = squares @ flat.T
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    return vectors


def matched(rows: Array, wanted: Array) -> npt.NDArray[np.int64]:
    """[S]: which of `rows` stands for each of `wanted`, at the least L1 distance in all."""
    distances = np.abs(wanted[:, None] - rows[None]).sum(axis=2)
    return np.asarray(linear_sum_assignment(distances)[1], dtype=np.int64)
