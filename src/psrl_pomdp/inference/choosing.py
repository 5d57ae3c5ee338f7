"""Find the prior of a problem by its kind, and query properties of any prior.

Studies and commands name two kinds by a string: `"finite"`, a finite set of kernels, and `"dirichlet"`,
independent Dirichlet rows. All other code uses prior objects and tests for the optional protocols of
`psrl_pomdp.protocols`, so a user's own prior needs no kind.

The functions import large modules when they are called, because the command line imports the kinds from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidModelError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..models import POMDP, Setting
    from ..protocols import Prior
    from . import DirichletPrior, FinitePrior

FINITE, DIRICHLET = "finite", "dirichlet"
PRIOR_KINDS = (FINITE, DIRICHLET)


# -- the priors of a problem ------------------------------------------------------------------------


def finite_prior_of(model: POMDP | None) -> FinitePrior | None:
    """Return the finite prior of a problem, or None if it has none."""
    found: FinitePrior | None = getattr(model, "family", None)
    return found


def dirichlet_prior_of(model: POMDP) -> DirichletPrior:
    """Return the Dirichlet prior of a problem; for any other model, that of `uniform_rows`."""
    own: DirichletPrior | None = getattr(model, "prior", None)
    return uniform_rows(model) if own is None else own


def uniform_rows(model: POMDP) -> DirichletPrior:
    """Return a prior with Dirichlet(1) rows on the transitions that have positive probability in `model`."""
    from . import DirichletPrior

    return DirichletPrior(model.setting, (model.transition > 0.0).astype(float))


def prior_for(model: POMDP, kind: str = "") -> Prior:
    """Return the prior of this kind for `model`.

    An empty `kind` selects the finite prior if the problem has one, and Dirichlet rows otherwise.

    Raises
    ------
    InvalidModelError
        If `kind` is `"finite"` and the problem has no finite prior.
    """
    if default_kind(model, kind) == DIRICHLET:
        return dirichlet_prior_of(model)
    finite = finite_prior_of(model)
    if finite is None:
        name = model.name or "this model"
        raise InvalidModelError(f'{name} has no finite prior: use prior = "{DIRICHLET}"')
    return finite


def default_kind(model: POMDP | None, kind: str = "") -> str:
    """Return `kind`, or if it is empty, the kind of the problem's own prior: a finite one if there is one."""
    return kind or (DIRICHLET if finite_prior_of(model) is None else FINITE)


# -- any prior --------------------------------------------------------------------------------------


def kind_of(prior: Prior) -> str:
    """Return the kind of a prior: `"finite"`, the kind that it declares, or the name of its class."""
    from ..protocols import FiniteSupport, HasKind

    if isinstance(prior, FiniteSupport):
        return FINITE
    return prior.kind if isinstance(prior, HasKind) else type(prior).__name__


def learns_sensor(prior: Prior) -> bool:
    """Return whether the observation model is unknown under a prior."""
    from ..protocols import LearnsTables

    return isinstance(prior, LearnsTables) and prior.learns_sensor


def learns_costs(prior: Prior) -> bool:
    """Return whether the costs are unknown under a prior."""
    from ..protocols import LearnsTables

    return isinstance(prior, LearnsTables) and prior.learns_costs


def learns_tables(prior: Prior) -> bool:
    """Return whether the observation model or the costs are unknown under a prior."""
    return learns_sensor(prior) or learns_costs(prior)


def sample_model(prior: Prior, rng: np.random.Generator, name: str = "") -> POMDP:
    """Draw θ* from `prior` and return it as a POMDP with the initial distribution that belongs to it.

    The POMDP is called `name` unless the prior names it.
    """
    from ..models import POMDP
    from ..protocols import FiniteSupport, SamplesModels

    if isinstance(prior, SamplesModels):
        model = prior.sample_model(rng)
    elif isinstance(prior, FiniteSupport):
        model = prior.model(int(rng.choice(len(prior), p=prior.weights)))
    else:
        model = POMDP(prior.setting, prior.sample(rng))
    return model if model.name or not name else POMDP(model.setting, model.transition, name=name)


def with_setting(prior: Prior, setting: Setting) -> Prior:
    """Return the same prior over kernels, combined with another setting of the same size.

    Raises
    ------
    InvalidModelError
        If the prior has no method `replace(setting=...)`.
    """
    from ..protocols import ReplacesSetting

    if isinstance(prior, ReplacesSetting):
        moved: Prior = prior.replace(setting=setting)
        return moved
    raise InvalidModelError(
        f"{type(prior).__name__} has no method replace(setting=...), so its setting cannot be replaced"
    )


def is_always_positive(prior: Prior) -> bool:
    """Return whether almost every kernel drawn from `prior` gives every transition a positive probability.

    The prior declares this by an array `support` or `concentration`, shape [A, S, S′], that is positive for
    the possible transitions. The result is False if the prior has neither. The support of a mixture contains
    the transitions that are possible under some component, so that here every component is asked.
    """
    import numpy as np

    from .mixture_prior import MixturePrior

    if isinstance(prior, MixturePrior):
        return all(is_always_positive(component) for component in prior.components)
    support = declared_support(prior)
    if support is not None:
        return bool(support.all())
    concentration = getattr(prior, "concentration", None)
    return concentration is not None and bool((np.asarray(concentration) > 0).all())


def declared_support(prior: Prior) -> npt.NDArray[np.bool_] | None:
    """Return the transitions that a prior declares as possible, shape [A, S, S′]; None if it declares none.

    The attribute `support` may be an array or nested lists, of Booleans or of the numbers 0 and 1.

    Raises
    ------
    InvalidModelError
        If it is something else, or has no next state for some action and state.
    """
    import numpy as np

    declared = getattr(prior, "support", None)
    if declared is None:
        return None
    own = prior.setting
    shape = (own.n_actions, own.n_states, own.n_states)
    try:
        given = np.asarray(declared)
    except ValueError:  # nested lists of different lengths
        given = np.empty(0, dtype=object)
    is_boolean = given.dtype.kind == "b" or (given.dtype.kind in "iuf" and np.isin(given, (0, 1)).all())
    if given.shape != shape or not is_boolean or not (given != 0).any(axis=-1).all():
        raise InvalidModelError(
            f"{type(prior).__name__}.support is {given.dtype} of shape {given.shape}: it must be "
            f"Booleans of shape {shape} with at least one next state for every action and state"
        )
    return np.asarray(given != 0)
