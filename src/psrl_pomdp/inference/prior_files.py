"""Priors and posteriors in the files of agents.

A `FinitePrior` and a `DirichletPrior` are data: a file holds them. Any other prior is code of the user's. Of
such a prior a file holds the name of its class, to say what is missing, and the fingerprint of its
parameters, to refuse another one. Nothing is ever imported by a name in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._serialization.archives import Arrays
from .._serialization.contents import Contents
from ..errors import InvalidModelError
from ..models.model import Setting
from ..protocols import Posterior, Prior, ResumablePrior
from . import DirichletPrior, FinitePrior
from .dirichlet_prior import ties_of


def name_of(prior: object) -> str:
    """Return the name under which a file knows the class of a prior: `module:Class` for code."""
    kind = type(prior)
    return (
        kind.__name__ if kind in (FinitePrior, DirichletPrior) else f"{kind.__module__}:{kind.__qualname__}"
    )


def is_code(prior: object) -> bool:
    """Return whether a file cannot hold the prior."""
    return name_of(prior) not in _READERS


def prior_out(prior: Prior) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a prior, and what says which one it is.

    Raises `InvalidModelError` for a prior whose posteriors cannot be saved.
    """
    if not isinstance(prior, ResumablePrior):
        raise InvalidModelError(
            f"a {type(prior).__name__} has no fingerprint and restore(state, rng): no file can "
            "hold its posterior"
        )
    write = _WRITERS.get(name_of(prior))
    words = {"prior": name_of(prior)}
    if write is None:
        return {}, {**words, "prior_fingerprint": prior.fingerprint}
    return write(prior), words


def prior_in(
    contents: Contents, kind: str, fingerprint: str, setting: Setting, own: Prior | None
) -> ResumablePrior:
    """Return the prior of a file; `own` is the one that the caller has passed again.

    Raises `InvalidModelError` where it is code that was not passed, or another one was.
    """
    if kind in _READERS:
        found = _READERS[kind](contents, setting)
        fingerprint = found.fingerprint
    elif own is None:
        raise InvalidModelError(
            f"this agent was saved with a prior that is code, {kind}: pass it again, as prior=..."
        )
    else:
        found = own
    if own is not None and (not isinstance(own, ResumablePrior) or own.fingerprint != fingerprint):
        raise InvalidModelError(f"prior= is not the prior that this agent was saved with, {kind}")
    if found.setting != setting:
        raise InvalidModelError("prior= has another setting than the agent that was saved")
    return found  # type: ignore[no-any-return]


def posterior_out(posterior: Posterior) -> Arrays:
    """Return the state of a posterior as the arrays of a file."""
    state = getattr(posterior, "state", None)
    if not callable(state):
        raise InvalidModelError(f"a {type(posterior).__name__} has no state(): no file can hold it")
    return {f"posterior.{name}": np.asarray(value) for name, value in state().items()}


def posterior_in(contents: Contents) -> Arrays:
    """Return what the posterior's `state()` said; the prior checks it when it restores the posterior."""
    names = [name for name in contents if name.startswith("posterior.")]
    return {name.removeprefix("posterior."): contents.raw(name) for name in names}


def _finite_out(prior: FinitePrior) -> Arrays:
    return {"kernels": prior.kernels, "weights": prior.weights, "initials": prior.initial}


def _finite_in(contents: Contents, setting: Setting) -> FinitePrior:
    n_actions, n_states = setting.n_actions, setting.n_states
    kernels = contents.floats("kernels", (None, n_actions, n_states, n_states), 0.0)
    weights = contents.floats("weights", (len(kernels),), 0.0)
    return FinitePrior(setting, kernels, weights, contents.floats("initials", (len(kernels), n_states)))


def _rows_out(prior: DirichletPrior) -> Arrays:
    return {"concentration": prior.concentration, "known": prior.known, "row": prior.row}


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
    )


_WRITERS: dict[str, Callable[[Any], Arrays]] = {"FinitePrior": _finite_out, "DirichletPrior": _rows_out}
_READERS: dict[str, Callable[[Contents, Setting], Any]] = {
    "FinitePrior": _finite_in,
    "DirichletPrior": _rows_in,
}
