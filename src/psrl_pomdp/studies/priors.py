"""The priors that the key `prior` of a study selects by name.

The factory of a prior takes the problem's model and the options of the study, and returns the prior. A class
takes the model's setting instead of the model, because that is what all priors of this package are made from.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import registry
from ..errors import InvalidModelError, PSRLError, did_you_mean
from ..inference import DirichletPrior, FinitePrior
from ..inference.choosing import DIRICHLET, default_kind, dirichlet_prior_of, finite_prior_of
from ..inference.dirichlet_prior import ties_of
from ..models import POMDP, Setting
from ..registry import Plugin
from .learned_tables import costs_from, is_calibrated, seeded, sensor_from


def finite_of(model: POMDP) -> FinitePrior:
    """Return the finite prior of a problem; raise `InvalidModelError` if it has none."""
    family = finite_prior_of(model)
    if family is None:
        raise InvalidModelError(
            f'{model.name or "this model"} has no finite prior: use prior = "{DIRICHLET}"'
        )
    return family


def dirichlet_of(model: POMDP, sensor: Any = None, costs: Any = None) -> DirichletPrior:
    """Return the Dirichlet prior of a problem; for other models, the uniform one on possible transitions.

    With `sensor` or `costs`, the observation model or the costs are learned too (`learned_tables`).
    """
    prior = dirichlet_prior_of(model)
    if sensor is None and costs is None:
        return prior
    ties = ties_of(prior.row)
    known = {(int(a), int(s)): prior.concentration[a, s] for a, s in np.argwhere(prior.known)}
    return DirichletPrior(
        prior.setting,
        prior.concentration,
        known,
        ties,
        sensor=prior.sensor if sensor is None else sensor_from(model.setting, sensor),
        costs=prior.costs if costs is None else costs_from(model.setting, costs),
    )


def is_random(wanted: str | Mapping[str, Any]) -> bool:
    """Return whether a prior depends on random numbers, such as those of a simulated calibration."""
    return isinstance(wanted, Mapping) and wanted.get("kind") == DIRICHLET and is_calibrated(wanted)


def prior_of(model: POMDP, wanted: str | Mapping[str, Any], seed: Sequence[int] = (0,)) -> Any:
    """Return the prior with a name or an importable path, or of a table with `kind` and options.

    `seed` is for priors that depend on random numbers.

    The empty name selects the finite prior if the problem has one, else the Dirichlet prior. Raises
    `PluginError` if the factory of a prior fails or does not return a prior.
    """
    options = {} if isinstance(wanted, str) else {key: wanted[key] for key in wanted if key != "kind"}
    kind = wanted if isinstance(wanted, str) else str(wanted["kind"])
    if kind == DIRICHLET:
        options = seeded(options, seed)
    plugin = registry.find("priors", default_kind(model, kind))
    return made(plugin, plugin.load(), model, options)


def made(plugin: Plugin, factory: Any, model: POMDP, options: Mapping[str, Any]) -> Any:
    """Return the prior that a plug-in's factory makes for a model."""
    if not callable(factory):
        raise plugin.error(f"an object of type {type(factory).__name__} cannot be called")
    first = model.setting if isinstance(factory, type) else model
    _check_options(plugin, factory, options)
    try:
        prior = factory(first, **options)
    except PSRLError:
        raise
    except Exception as error:
        raise plugin.error(f"raised {error!r} when a prior was made") from error
    lacks = [name for name in ("sample", "posterior") if not callable(getattr(prior, name, None))]
    lacks += [] if hasattr(prior, "setting") else ["setting"]
    if lacks:
        raise plugin.error(f"it returned a {type(prior).__name__}, which is no prior: it has no {lacks[0]}")
    sizes = [_sizes(each) for each in (prior.setting, model.setting)]
    if sizes[0] != sizes[1]:
        raise plugin.error(
            f"it returned a prior for {sizes[0]} actions, states and observations, the problem has {sizes[1]}"
        )
    return prior


def _sizes(setting: Setting) -> tuple[int, int, int | str]:
    """Return the numbers of actions, states and observations; of a density what it is."""
    observations = setting.n_observations if setting.is_finite else setting.sensor.described()
    return setting.n_actions, setting.n_states, observations


def _check_options(plugin: Plugin, factory: Any, options: Mapping[str, Any]) -> None:
    """Refuse an option that the factory does not have, by name."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())[1:]
    except (TypeError, ValueError):
        return
    known = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    for key in options:
        if key not in known:
            has = ", ".join(known) or "none"
            raise plugin.error(f"it has no option {key!r}{did_you_mean(key, known)}; it has {has}")
