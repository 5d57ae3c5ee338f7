"""Priors and posteriors in the files of agents.

A file contains a `FinitePrior` or a `DirichletPrior` completely. Any other prior is the user's code. For such
a prior the file contains the name of its class, to report what is missing, and the fingerprint of its
attributes, to refuse another prior. A name in a file is never imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._serialization.archives import Arrays
from .._serialization.contents import Contents
from ..errors import InvalidModelError
from ..models import Setting
from ..protocols import Posterior, Prior, ResumablePrior
from ..sensors.dirichlet import DirichletCosts, DirichletSensor, DirichletTable
from ..sensors.normal_inverse_gamma import NormalInverseGammaSensor
from . import DirichletPrior, FinitePrior
from .dirichlet_prior import ties_of

_DENSITY = ("means", "sds", "strength", "degrees")


def name_of(prior: object) -> str:
    """Return the name of a prior's class in files; a user's own class is `module:Class`."""
    kind = type(prior)
    return (
        kind.__name__ if kind in (FinitePrior, DirichletPrior) else f"{kind.__module__}:{kind.__qualname__}"
    )


def is_code(prior: object) -> bool:
    """Return whether the prior is code, which a file cannot contain."""
    return name_of(prior) not in _READERS


def can_save(prior: Prior, posterior: Posterior) -> bool:
    """Return whether a file can contain the posterior; it cannot if there are only the protocol's methods."""
    return isinstance(prior, ResumablePrior) and callable(getattr(posterior, "state", None))


def prior_out(prior: Prior) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a prior, and metadata that identifies the prior.

    Raises `InvalidModelError` for a prior whose posteriors cannot be saved.
    """
    if not isinstance(prior, ResumablePrior):
        raise InvalidModelError(
            f"a {type(prior).__name__} has no fingerprint and restore(state, rng), so its posterior "
            "cannot be saved"
        )
    write = _WRITERS.get(name_of(prior))
    metadata = {"prior": name_of(prior)}
    if write is None:
        return {}, {**metadata, "prior_fingerprint": prior.fingerprint}
    return write(prior), metadata


def prior_in(
    contents: Contents, kind: str, fingerprint: str, setting: Setting, own: Prior | None
) -> ResumablePrior:
    """Return the prior of a file; `own` is the prior that the caller passes for a prior that is code.

    Raises `InvalidModelError` if the prior is code and was not passed, or if another prior was passed.
    """
    if kind in _READERS:
        found = _READERS[kind](contents, setting)
        fingerprint = found.fingerprint
    elif own is None:
        raise InvalidModelError(
            f"this agent was saved with a prior that is code, {kind}: pass this prior as prior=..."
        )
    else:
        found = own
    if own is not None and (not isinstance(own, ResumablePrior) or own.fingerprint != fingerprint):
        raise InvalidModelError(f"prior= is not the prior that this agent was saved with, {kind}")
    if found.setting != setting:
        raise InvalidModelError("prior= and the saved agent have different settings")
    return found  # type: ignore[no-any-return]


def posterior_out(posterior: Posterior) -> Arrays:
    """Return the state of a posterior as arrays for a file."""
    state = getattr(posterior, "state", None)
    if not callable(state):
        raise InvalidModelError(f"a {type(posterior).__name__} has no state(), so it cannot be saved")
    return {f"posterior.{name}": np.asarray(value) for name, value in state().items()}


def posterior_in(contents: Contents) -> Arrays:
    """Return the saved `state()` of a posterior; the prior checks it when it restores the posterior."""
    names = [name for name in contents if name.startswith("posterior.")]
    return {name.removeprefix("posterior."): contents.raw(name) for name in names}


def _finite_out(prior: FinitePrior) -> Arrays:
    found = {"kernels": prior.kernels, "weights": prior.weights, "initials": prior.initial}
    return found if prior.sensors is None else {**found, "sensors": prior.sensors}


def _finite_in(contents: Contents, setting: Setting) -> FinitePrior:
    n_actions, n_states = setting.n_actions, setting.n_states
    kernels = contents.floats("kernels", (None, n_actions, n_states, n_states), 0.0)
    weights = contents.floats("weights", (len(kernels),), 0.0)
    initial, sensors = contents.floats("initials", (len(kernels), n_states)), None
    if "sensors" in contents:
        sensors = contents.floats(
            "sensors", (len(kernels), *[None] * (contents.raw("sensors").ndim - 1)), 0.0
        )
    return FinitePrior(setting, kernels, weights, initial, sensors)


def _rows_out(prior: DirichletPrior) -> Arrays:
    found = {"concentration": prior.concentration, "known": prior.known, "row": prior.row}
    if prior.sensor is not None:
        found |= _table_out("sensor", prior.sensor)
    if prior.density is not None:
        found |= {f"density_{name}": getattr(prior.density, name) for name in _DENSITY}
    if prior.costs is not None:
        found |= _table_out("costs", prior.costs)
        found["costs_values"] = prior.costs.values
    return found


def _rows_in(contents: Contents, setting: Setting) -> DirichletPrior:
    n_actions, n_states = setting.n_actions, setting.n_states
    concentration = contents.floats("concentration", (n_actions, n_states, n_states), 0.0)
    row = contents.whole("row", (n_actions, n_states), 0, n_actions * n_states - 1)
    known = np.argwhere(contents.flags("known", (n_actions, n_states)))
    return DirichletPrior(
        setting,
        concentration,
        known={(int(a), int(s)): concentration[a, s] for a, s in known},
        ties=ties_of(row),
        sensor=_density_in(contents) if "density_means" in contents else _sensor_in(contents),
        costs=_costs_in(contents),
    )


def _table_out(name: str, table: DirichletTable) -> Arrays:
    """Return the arrays of an unknown table."""
    return {f"{name}_counts": table.counts, f"{name}_known": table.known, f"{name}_row": table.row}


def _table_in(contents: Contents, name: str) -> dict[str, Any]:
    """Return the arguments that construct an unknown table."""
    counts = contents.floats(f"{name}_counts", (None,) * contents.raw(f"{name}_counts").ndim, 0.0)
    known = contents.flags(f"{name}_known", counts.shape[:-1])
    row = contents.whole(f"{name}_row", counts.shape[:-1], 0, known.size - 1)

    def place(where: Any) -> Any:
        return int(where[0]) if len(where) == 1 else tuple(int(i) for i in where)

    groups = [[place(where) for where in np.argwhere(row == number)] for number in np.unique(row)]
    return {
        "counts": counts,
        "known": {place(where): counts[tuple(where)] for where in np.argwhere(known)},
        "ties": [group for group in groups if len(group) > 1],
    }


def _sensor_in(contents: Contents) -> DirichletSensor | None:
    return DirichletSensor(**_table_in(contents, "sensor")) if "sensor_counts" in contents else None


def _density_in(contents: Contents) -> NormalInverseGammaSensor:
    shape = (None,) * contents.raw("density_means").ndim
    return NormalInverseGammaSensor(**{name: contents.floats(f"density_{name}", shape) for name in _DENSITY})


def _costs_in(contents: Contents) -> DirichletCosts | None:
    if "costs_counts" not in contents:
        return None
    return DirichletCosts(contents.floats("costs_values", (None,)), **_table_in(contents, "costs"))


_WRITERS: dict[str, Callable[[Any], Arrays]] = {"FinitePrior": _finite_out, "DirichletPrior": _rows_out}
_READERS: dict[str, Callable[[Contents, Setting], Any]] = {
    "FinitePrior": _finite_in,
    "DirichletPrior": _rows_in,
}
