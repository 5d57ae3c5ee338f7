"""Priors over a few parameters of a kernel: two rates of wear, a misclassification probability, a drift."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, distributions
from ..errors import InvalidModelError, UnknownNameError, did_you_mean
from ..models.model import POMDP, Setting

if TYPE_CHECKING:
    from .ensemble_posterior import EnsemblePosterior
    from .moves import Move
    from .parameter_group import ParameterGroup

Support = npt.NDArray[np.bool_]


class ParametricPrior:
    """Base of a prior over parameters φ, and over the kernels θ = `kernels(φ)` that they stand for.

    A subclass defines three methods, all for N parameter vectors at once. It then has everything else:
    samples, the posterior, files, mixtures.

    - `sample_parameters(rng, size) -> [N, d]` draws from the prior,
    - `log_density(parameters) -> [N]` is the logarithm of its density, up to a constant, −inf outside,
    - `kernels(parameters) -> [N, A, S, S']` are the transition kernels.

    `psrl_pomdp.testing.check_prior` tells whether they fit each other. What a subclass needs beside, such as
    the numbers of the prior, it keeps as attributes: they enter the fingerprint by which files recognize the
    prior.

    Attributes
    ----------
    support
        The transitions that are possible, as truth values [A, S, S']; None allows them all. Where it is
        given, an observation that it rules out is refused before the ensemble is asked.
    move
        How parameters are moved between resamplings (`psrl_pomdp.inference.moves`); None is `RandomWalk` for
        up to ten parameters and `DifferentialEvolution` beyond.
    ensemble_size
        How many parameter vectors the posterior keeps; None is 64 for up to sixteen parameters and four times
        their number beyond.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel.

    Raises
    ------
    InvalidModelError
        If `setting` is not a `Setting`, and, when the methods are called, if what they return is not as said
        above. The message names the method.

    >>> class Wear(ParametricPrior):
    ...     '''A machine wears with an unknown probability, uniform between 0 and 1/2; action 1 repairs it.'''
    ...
    ...     def sample_parameters(self, rng, size):
    ...         return 0.5 * rng.random((size, 1))
    ...
    ...     def log_density(self, parameters):
    ...         return np.where((parameters > 0) & (parameters < 0.5), 0.0, -np.inf)[:, 0]
    ...
    ...     def kernels(self, parameters):
    ...         wear = parameters[:, 0]
    ...         kernels = np.zeros((len(wear), 2, 2, 2))
    ...         kernels[:, 0, 0, 0], kernels[:, 0, 0, 1] = 1 - wear, wear
    ...         kernels[:, 0, 1, 1] = kernels[:, 1, :, 0] = 1.0
    ...         return kernels
    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 50.0], [20.0, 20.0]], [1.0, 0.0])
    >>> posterior = Wear(setting).posterior(np.random.default_rng(0))
    >>> posterior.start(0)
    >>> posterior.update_many([0] * 200, [0] * 200)
    >>> bool(posterior.mean()[0, 0, 1] < 0.02)
    True
    """

    setting: Setting
    support: npt.ArrayLike | None = None
    move: Move | None = None
    ensemble_size: int | None = None

    def __init__(self, setting: Setting) -> None:
        self.setting = _checked_setting(setting)

    def sample_parameters(self, rng: np.random.Generator, size: int) -> Array:
        """Draw `size` parameter vectors [N, d] from the prior."""
        raise NotImplementedError

    def log_density(self, parameters: Array) -> Array:
        """Return the logarithm [N] of the prior density, up to a constant; −inf outside of the support."""
        raise NotImplementedError

    def kernels(self, parameters: Array) -> Array:
        """Return the transition kernels [N, A, S, S'] of parameter vectors inside of the support."""
        raise NotImplementedError

    # -- what follows from these --------------------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel [A, S, S'] from the prior."""
        return np.asarray(checked_kernels(self, checked_sample(self, rng, 1))[0])

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        """Draw a POMDP from the prior."""
        return POMDP(self.setting, self.sample(rng))

    def posterior(self, rng: np.random.Generator) -> EnsemblePosterior:
        """Return the posterior before the first observation; its refreshes draw from `rng`."""
        from .ensemble_posterior import EnsemblePosterior  # compiled code, which a prior does not need

        return EnsemblePosterior(self, [self.kernel_group(rng)], rng)

    def restore(self, state: Mapping[str, object], rng: np.random.Generator) -> EnsemblePosterior:
        """Return the posterior whose `state()` this is; it goes on from there, to the last bit.

        Raises
        ------
        InvalidModelError
            If the state was saved under another prior, or is none that this posterior can be in.
        """
        from .encoding import same_prior
        from .ensemble_posterior import EnsemblePosterior
        from .ensemble_state import check_sizes, size_in
        from .saved_states import time_in

        same_prior(state, self.fingerprint)
        size = size_in(state)
        check_sizes(state, self.setting, size)
        found = EnsemblePosterior(self, [self.restored_group(state, size, time_in(state))], rng)
        found.resume(state)
        return found

    def kernel_group(self, rng: np.random.Generator) -> ParameterGroup:
        """Draw the kernels of an ensemble, or of a part of one in a mixture."""
        from .parameter_group import ParameterGroup

        return ParameterGroup.drawn(self, rng)

    def restored_group(self, state: Mapping[str, object], size: int, time: int) -> ParameterGroup:
        """Return kernels that were saved."""
        from .parameter_group import ParameterGroup

        return ParameterGroup.restored(self, state, size)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other attributes, such as another `setting` of the same size.

        A subclass that computes attributes from others in its constructor overrides this.

        Raises
        ------
        UnknownNameError
            If the prior has no such attribute.
        InvalidModelError
            If the setting is no `Setting`, or has other numbers of states or actions.
        """
        found = copy(self)
        for name, value in changes.items():
            if not hasattr(self, name):
                known = [*vars(self), "support", "move", "ensemble_size"]
                raise UnknownNameError(f"the prior has no attribute {name!r}{did_you_mean(name, known)}")
            setattr(found, name, value)
        if _checked_setting(found.setting).cost.shape != self.setting.cost.shape:
            raise InvalidModelError(f"setting: {found.setting!r} is not of the size of {self.setting!r}")
        return found

    @property
    def fingerprint(self) -> str:
        """A digest of the class's name and of every attribute of it and of the object, to the last bit.

        Raises `InvalidModelError` for an attribute whose contents are not known to be numbers, texts or the
        like.
        """
        digest = hashlib.sha256(type(self).__qualname__.encode())
        classes = type(self).__mro__[:-1]  # all but `object`
        names = {name for cls in classes for name, value in vars(cls).items() if _is_data(name, value)}
        own = {name: getattr(self, name) for name in names} | vars(self)
        for name in sorted(own):
            _digest(own[name], f"{type(self).__name__}.{name}", digest.update)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.fingerprint == getattr(other, "fingerprint", None)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.setting!r})"


def _checked_setting(setting: object) -> Setting:
    if not isinstance(setting, Setting):
        raise InvalidModelError(f"setting is a {type(setting).__name__}, not a Setting")
    return setting


def _is_data(name: str, value: object) -> bool:
    """Whether what a class has under this name is a number or the like, and no method."""
    methods = (FunctionType, staticmethod, classmethod, property, cached_property)
    return not name.startswith("__") and not isinstance(value, methods)


def _digest(value: Any, name: str, add: Callable[[bytes], object]) -> None:
    """Add what `value` consists of to a digest."""
    add(f"{name.rpartition('.')[2]}:{type(value).__name__}:".encode())
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        add(repr(value).encode())
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU":
        add(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            _digest(part, f"{name}[{i}]", add)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            _digest(value[key], f"{name}[{key!r}]", add)
    elif isinstance(getattr(value, "fingerprint", None), str):
        add(value.fingerprint.encode())
    elif callable(value) and hasattr(value, "__qualname__"):
        add(value.__qualname__.encode())
    elif hasattr(value, "__dict__"):
        _digest(vars(value), name, add)
    else:
        raise InvalidModelError(
            f"{name} is a {type(value).__name__}, which a fingerprint cannot look into: give "
            "the prior a property `fingerprint` of its own, a text that is another one for every other prior"
        )
    add(b";")


# -- what the methods of a subclass return, checked -----------------------------------------------------


def checked_sample(prior: ParametricPrior, rng: np.random.Generator, size: int) -> Array:
    """Return `prior.sample_parameters(rng, size)`, [N, d]."""
    call = f"{type(prior).__name__}.sample_parameters(rng, {size})"
    found = _numbers(call, prior.sample_parameters(rng, size))
    if found.ndim != 2 or len(found) != size or found.shape[1] < 1:
        raise InvalidModelError(f"{call} has shape {found.shape}: [{size}, d] is wanted")
    if not np.isfinite(found).all():
        raise InvalidModelError(f"{call} holds a number that is not finite")
    return found


def checked_density(prior: ParametricPrior, parameters: Array) -> Array:
    """Return `prior.log_density(parameters)`, [N]: finite, or −inf outside of the support."""
    call = f"{type(prior).__name__}.log_density(parameters)"
    found = _numbers(call, prior.log_density(parameters))
    if found.shape != (len(parameters),):
        raise InvalidModelError(
            f"{call} has shape {found.shape} for parameters of shape {parameters.shape}: "
            f"({len(parameters)},) is wanted"
        )
    wrong = np.isnan(found) | np.isposinf(found)
    if wrong.any():
        n = int(wrong.argmax())
        raise InvalidModelError(f"{call} is {found[n]} at the parameters {parameters[n].tolist()}")
    return found


def checked_kernels(prior: ParametricPrior, parameters: Array) -> Array:
    """Return `prior.kernels(parameters)`, [N, A, S, S']: rows are distributions over what is possible."""
    call = f"{type(prior).__name__}.kernels(parameters)"
    own = prior.setting
    wanted = (len(parameters), own.n_actions, own.n_states, own.n_states)
    given = _numbers(call, prior.kernels(parameters))
    if given.shape != wanted:
        raise InvalidModelError(f"{call} has shape {given.shape}: {wanted} is wanted")
    found = distributions(call, given, "mast", own.names)
    beyond = (found > 0.0) & ~support_of(prior)
    if beyond.any():
        where = tuple(int(i) for i in np.argwhere(beyond)[0])
        entry = own.names.entry(call, "mast", where)
        raise InvalidModelError(f"{entry} is {found[where]:g}, and the prior's support rules it out")
    return found


def support_of(prior: ParametricPrior) -> Support:
    """Return the transitions that are possible, [A, S, S']."""
    own = prior.setting
    shape = (own.n_actions, own.n_states, own.n_states)
    if prior.support is None:
        return np.ones(shape, dtype=bool)
    found = np.asarray(prior.support)
    if found.shape != shape or found.dtype.kind != "b" or not found.any(axis=-1).all():
        raise InvalidModelError(
            f"{type(prior).__name__}.support is {found.dtype} of shape {found.shape}: truth values "
            f"of shape {shape} are wanted, with a next state for every action and state"
        )
    return found


def _numbers(call: str, value: Any) -> Array:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidModelError(f"{call} is no array of numbers: {error}") from None
