"""Priors by kind: the one that a problem brings along, and the questions that are asked of any prior.

Studies and commands name two kinds by a word: `"finite"`, a finite set of kernels, and `"dirichlet"`,
independent Dirichlet rows. Everything downstream works on prior objects and asks the optional protocols of
`psrl_pomdp.protocols`, so that a prior of one's own needs no kind.

Nothing large is imported before a function is called: the command line reads the kinds from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidModelError

if TYPE_CHECKING:
    import numpy as np

    from ..models.model import POMDP, Setting
    from ..protocols import Prior
    from . import DirichletPrior, FinitePrior

FINITE, DIRICHLET = "finite", "dirichlet"
PRIOR_KINDS = (FINITE, DIRICHLET)


# -- the priors of a problem ------------------------------------------------------------------------


def finite_prior_of(model: POMDP | None) -> FinitePrior | None:
    """Return the finite set of kernels that a problem brings along; None where there is none."""
    found: FinitePrior | None = getattr(model, "family", None)
    return found


def dirichlet_prior_of(model: POMDP) -> DirichletPrior:
    """Return the problem's own Dirichlet rows; for any other model Dirichlet(1) on what is possible in it."""
    own: DirichletPrior | None = getattr(model, "prior", None)
    return uniform_rows(model) if own is None else own


def uniform_rows(model: POMDP) -> DirichletPrior:
    """Return Dirichlet(1) rows over the transitions to which `model` gives a positive probability."""
    from . import DirichletPrior

    return DirichletPrior(model.setting, (model.transition > 0.0).astype(float))


def prior_for(model: POMDP, kind: str = "") -> Prior:
    """Return the prior of this kind for `model`.

    An empty `kind` stands for the finite set where the problem brings one along, and for Dirichlet rows
    otherwise. Raises `InvalidModelError` where a finite set is asked for and the problem has none.
    """
    if default_kind(model, kind) == DIRICHLET:
        return dirichlet_prior_of(model)
    finite = finite_prior_of(model)
    if finite is None:
        name = model.name or "this model"
        raise InvalidModelError(f'{name} has no finite family: prior = "{DIRICHLET}" is meant')
    return finite


def default_kind(model: POMDP | None, kind: str = "") -> str:
    """Return `kind`, or what an empty one stands for: the finite set where the problem brings one along."""
    return kind or (DIRICHLET if finite_prior_of(model) is None else FINITE)


# -- any prior --------------------------------------------------------------------------------------


def kind_of(prior: Prior) -> str:
    """Return the kind of a prior: `"finite"`, `"dirichlet"`, or the name of its class."""
    from ..protocols import FiniteSupport
    from . import DirichletPrior

    if isinstance(prior, FiniteSupport):
        return FINITE
    return DIRICHLET if type(prior) is DirichletPrior else type(prior).__name__


def sample_model(prior: Prior, rng: np.random.Generator, name: str = "") -> POMDP:
    """Draw θ* from `prior` and return it as a POMDP, with the initial distribution that belongs to it.

    `name` names the model where the prior gives it no name.
    """
    from ..models.model import POMDP
    from ..protocols import FiniteSupport, SamplesModels

    if isinstance(prior, SamplesModels):
        model = prior.sample_model(rng)
    elif isinstance(prior, FiniteSupport):
        model = prior.model(int(rng.choice(len(prior), p=prior.weights)))
    else:
        model = POMDP(prior.setting, prior.sample(rng))
    return model if model.name or not name else POMDP(model.setting, model.transition, name=name)


def with_setting(prior: Prior, setting: Setting) -> Prior:
    """Return the same prior over kernels in another setting of the same size.

    Raises `InvalidModelError` where the prior has no method `replace` that does this.
    """
    from ..protocols import ReplacesSetting

    if isinstance(prior, ReplacesSetting):
        moved: Prior = prior.replace(setting=setting)
        return moved
    raise InvalidModelError(f"{type(prior).__name__} has no method replace(setting=...): it cannot be moved")


def is_always_positive(prior: Prior) -> bool:
    """Return whether almost every kernel drawn from `prior` gives every transition a positive probability.

    The prior answers by an array `support` or `concentration`, [A, S, S], which is positive where a
    transition is possible. False where it has neither.
    """
    for name in ("support", "concentration"):
        possible = getattr(prior, name, None)
        if possible is not None:
            return bool((possible > 0).all())
    return False
