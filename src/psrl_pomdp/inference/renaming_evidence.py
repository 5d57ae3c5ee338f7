"""What priors say against a renaming of the hidden states, in nats.

These functions implement `renaming_evidence` of the priors of the package. `psrl_pomdp.inference.labels`
explains what renamings are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._utils.arrays import Array, Index
from ..models import Setting
from ..sensors.base import ContinuousSensor, SensorBase
from .permutations import row_map
from .rows import FreeRows

if TYPE_CHECKING:
    from ..sensors.normal_inverse_gamma import NormalInverseGammaSensor
    from .dirichlet_prior import DirichletPrior
    from .finite_prior import FinitePrior

_SAME = 1e-9
_DRAWS = 8  # readings in each state at which densities are compared


def evidence_of_rows(prior: DirichletPrior, rows: FreeRows, pi: Index) -> float:
    """Return the divergence of the renamed Dirichlet rows; infinite if the known parts change."""
    setting, mapped = prior.setting, row_map(rows, pi)
    if mapped is None:
        return np.inf
    evidence = _divergence(rows, *mapped)
    if setting.is_finite:
        return evidence if _same_first(setting, rows, pi) else np.inf
    first = setting.first_sensor
    if prior.density is None:
        same = _same_density(setting.sensor, pi) and (first is None or _same_density(first, pi))
        return evidence if same else np.inf
    if first is not None and first != setting.sensor and not _same_density(first, pi):
        return np.inf  # a known density of the first observation
    return evidence + _density_divergence(prior.density, pi)


def _same_first(setting: Setting, rows: FreeRows, pi: Index) -> bool:
    """Return whether a known table of the first observation is the same after the renaming."""
    first = setting.first_observation
    return first is None or rows.learns_from_first or close(first[pi], first)


def _divergence(rows: FreeRows, source: Index, columns: Index) -> float:
    """Return the divergence of the renamed prior from the prior, Σ KL(Dirichlet(α) ‖ Dirichlet(α′))."""
    from scipy.special import digamma, gammaln  # imported here because the import is slow

    alpha, renamed = rows.concentration, np.zeros_like(rows.concentration)
    renamed[source[:, None], columns] = alpha
    if np.array_equal(alpha, renamed):
        return 0.0
    possible = alpha > 0
    one, other = np.where(possible, alpha, 1.0), np.where(possible, renamed, 1.0)
    a, b = alpha.sum(axis=1), renamed.sum(axis=1)
    terms = gammaln(other) - gammaln(one) + (one - other) * (digamma(one) - digamma(a)[:, None])
    return float((gammaln(a) - gammaln(b) + np.where(possible, terms, 0.0).sum(axis=1)).sum())


def _same_density(sensor: SensorBase, pi: Index) -> bool:
    """Return whether a known density is the same after the renaming, at a few readings of every state."""
    if not isinstance(sensor, ContinuousSensor) or sensor.depends_on_previous:
        return False
    rng, states = np.random.default_rng(0), np.repeat(np.arange(sensor.n_states), _DRAWS)
    for action in range(sensor.n_actions or 1):
        logs = sensor.log_likelihood(action, sensor.draw(rng, action, states))
        if not np.allclose(logs, logs[:, pi], rtol=_SAME, atol=_SAME):
            return False
    return True


def _density_divergence(sensor: NormalInverseGammaSensor, pi: Index) -> float:
    """Return the divergence of the renamed prior of means and variances, summed over the states.

    With ν degrees and standard deviation d, the precision has the distribution Gamma(ν/2, ν d²/2).
    """
    from scipy.special import digamma, gammaln  # imported here because the import is slow

    mean, strength = sensor.means, sensor.strength
    a, b = 0.5 * sensor.degrees, 0.5 * sensor.degrees * sensor.sds**2
    mean_, strength_, a_, b_ = (values[..., pi] for values in (mean, strength, a, b))
    ratio = strength_ / strength
    normal = 0.5 * (ratio - 1.0 - np.log(ratio) + strength_ * (mean - mean_) ** 2 * a / b)
    gamma = (a - a_) * digamma(a) - gammaln(a) + gammaln(a_) + a_ * np.log(b / b_) + a * (b_ - b) / b
    return float((normal + gamma).sum())


def evidence_of_set(prior: FinitePrior, pi: Index) -> float:
    """Return the log odds of a model of the set and another one that is the renamed first one.

    The result is the smallest of all such pairs, and infinite if there is none.
    """
    least = np.inf
    models = [prior.model(m) for m in range(len(prior))] if prior.setting.is_finite else []
    for i, one in enumerate(models):
        for j, other in enumerate(models):
            if i != j and _is_renamed(one.transition, one.setting, other.transition, other.setting, pi):
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = float(np.abs(np.log(prior.weights[i]) - np.log(prior.weights[j])))
                least = min(least, ratio)  # NaN is not smaller
    return least


def _is_renamed(kernel: Array, own: Setting, other_kernel: Array, other: Setting, pi: Index) -> bool:
    """Return whether the other model is the first one with renamed states, but for the start."""
    if not close(kernel[:, pi][:, :, pi], other_kernel):
        return False
    table = own.observation[:, pi]
    if not close(table[:, :, pi] if table.ndim == 4 else table, other.observation):
        return False
    first, later = own.first_observation, other.first_observation
    if first is not None and later is not None and not close(first[pi], later):
        return False
    seen, shown = own.seen_cost, other.seen_cost
    return seen is None or shown is None or close(seen.probabilities[:, pi], shown.probabilities)


def close(one: Array, other: Array) -> bool:
    """Return whether two arrays are equal up to rounding errors."""
    return bool(np.allclose(one, other, rtol=0.0, atol=_SAME))
