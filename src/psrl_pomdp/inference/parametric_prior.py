"""Priors on the parameters of a kernel, such as rates of wear or a drift."""

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
from ..errors import InvalidModelError, PSRLError, UnknownNameError, did_you_mean
from ..models import POMDP, Setting
from .choosing import declared_support

if TYPE_CHECKING:
    from .ensemble_posterior import EnsemblePosterior
    from .moves import Move
    from .parameter_group import ParameterGroup

Support = npt.NDArray[np.bool_]


class ParametricPrior:
    """Base class of priors on parameters φ that determine the kernel θ = `kernels(φ)`.

    A subclass defines three methods, each for N parameter vectors at once. The base class provides sampling,
    the posterior, files and mixtures.

    - `sample_parameters(rng, size) -> [N, d]` returns independent draws from the prior,
    - `log_density(parameters) -> [N]` is the log density of the prior, up to a constant; −inf outside its
    support,
    - `kernels(parameters) -> [N, A, S, S']` are the transition kernels.

    `psrl_pomdp.testing.check_prior` tests whether the three methods are consistent. A subclass may store
    further data, such as hyperparameters, as attributes: they enter the fingerprint by which files recognize
    the prior.

    Attributes
    ----------
    support
        The possible transitions, as Booleans or as numbers 0 and 1, an array or lists of shape [A, S, S'];
        None allows all of them. If it is given, an observation that it excludes is refused without
        consulting the ensemble.
    move
        The Markov kernel that moves parameters after a resampling step (`psrl_pomdp.inference.moves`); None
        is `RandomWalk` for up to ten parameters and `DifferentialEvolution` for more.
    ensemble_size
        The number of parameter vectors of the posterior; None is 64 for up to sixteen parameters and four
        times the number of parameters for more. At least 4.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel.

    Raises
    ------
    InvalidModelError
        If `setting` is not a `Setting`; and later, if a method of the subclass returns something else than
        described above. The message names the method.

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
        """Draw `size` independent parameter vectors from the prior, shape [N, d]."""
        raise NotImplementedError

    def log_density(self, parameters: Array) -> Array:
        """Return the log density of the prior, shape [N], up to a constant; −inf outside its support."""
        raise NotImplementedError

    def kernels(self, parameters: Array) -> Array:
        """Return the transition kernels [N, A, S, S′] of parameter vectors inside the support."""
        raise NotImplementedError

    # -- methods that the base class provides -------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel from the prior, shape [A, S, S′]."""
        return np.asarray(checked_kernels(self, checked_sample(self, rng, 1))[0])

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        """Draw a POMDP from the prior."""
        return POMDP(self.setting, self.sample(rng))

    def posterior(self, rng: np.random.Generator) -> EnsemblePosterior:
        """Return the posterior before the first observation; its refreshes draw from `rng`."""
        from .ensemble_posterior import EnsemblePosterior  # compiled code, which a prior does not need

        return EnsemblePosterior(self, [self.kernel_group(rng)], rng)

    def restore(self, state: Mapping[str, object], rng: np.random.Generator) -> EnsemblePosterior:
        """Return the posterior whose `state()` was saved; later results are equal to the last bit.

        Raises
        ------
        InvalidModelError
            If the state was saved under another prior, or is not a valid state of this posterior.
        """
        from .encoding import same_prior
        from .ensemble_posterior import EnsemblePosterior
        from .ensemble_state import check_sizes, size_in
        from .saved_states import total_time_in

        same_prior(state, self.fingerprint)
        size = size_in(state)
        check_sizes(state, self.setting, size)
        posterior = EnsemblePosterior(self, [self.restored_group(state, size, total_time_in(state))], rng)
        posterior.resume(state)
        return posterior

    def kernel_group(self, rng: np.random.Generator) -> ParameterGroup:
        """Draw the kernels of an ensemble, or of one group of a mixture prior's ensemble."""
        from .parameter_group import ParameterGroup

        return ParameterGroup.drawn(self, rng)

    def restored_group(self, state: Mapping[str, object], size: int, time: int) -> ParameterGroup:
        """Return a saved group of kernels."""
        from .parameter_group import ParameterGroup

        return ParameterGroup.restored(self, state, size)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other attributes, for example another `setting` of the same size.

        A subclass whose constructor computes attributes from other attributes must override this method.

        Raises
        ------
        UnknownNameError
            If the prior has no attribute of this name.
        InvalidModelError
            If the new setting is not a `Setting`, or has another number of states or actions.
        """
        found = copy(self)
        for name, value in changes.items():
            if not hasattr(self, name):
                known = [*vars(self), "support", "move", "ensemble_size"]
                raise UnknownNameError(f"the prior has no attribute {name!r}{did_you_mean(name, known)}")
            setattr(found, name, value)
        if _checked_setting(found.setting).cost.shape != self.setting.cost.shape:
            raise InvalidModelError(f"setting: {found.setting!r} and {self.setting!r} differ in size")
        return found

    @property
    def fingerprint(self) -> str:
        """A digest of the class's name and of all attributes, to the last bit.

        The attributes are those of the class and of the object. An attribute whose contents cannot be
        determined raises `InvalidModelError`.
        """
        digest = hashlib.sha256(type(self).__qualname__.encode())
        classes = type(self).__mro__[:-1]  # all but `object`
        names = {name for cls in classes for name, value in vars(cls).items() if _is_data(name, value)}
        attributes = {name: getattr(self, name) for name in names} | vars(self)
        for name in sorted(attributes):
            _digest(attributes[name], f"{type(self).__name__}.{name}", digest.update)
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
    """Return whether a class attribute is data and not a method or a property."""
    methods = (FunctionType, staticmethod, classmethod, property, cached_property)
    return not name.startswith("__") and not isinstance(value, methods)


def _digest(value: Any, name: str, add: Callable[[bytes], object]) -> None:
    """Add the contents of `value` to a digest."""
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
            f"{name} is a {type(value).__name__}, whose contents a fingerprint cannot include: "
            "define a property `fingerprint` of the prior, a string that differs between different priors"
        )
    add(b";")


# -- checks of the values that a subclass's methods return ----------------------------------------------


def returned(prior: ParametricPrior, method: str, *arguments: Any) -> Array:
    """Return the numbers that a method of a subclass returns, as a new array.

    The method gets copies of arrays, so that it may change them. If it raises, or returns no numbers, the
    error names the method.
    """
    call = f"{type(prior).__name__}.{method}"
    given = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    try:
        value = getattr(prior, method)(*given)
        found = np.asarray(value)
    except (PSRLError, MemoryError):
        raise
    except NotImplementedError as error:
        raise InvalidModelError(f"{call} is not implemented") from error
    except Exception as error:
        raise InvalidModelError(f"{call} raised {type(error).__name__}: {error}") from error
    if value is None:
        raise InvalidModelError(f"{call} returned None: does it end without a return statement?")
    if found.dtype.kind not in "biufO":  # strings, dates or complex numbers
        raise InvalidModelError(f"{call} is not an array of numbers: it contains {found.dtype.name}")
    try:
        return np.array(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidModelError(f"{call} is not an array of numbers: {error}") from None


def checked_sample(prior: ParametricPrior, rng: np.random.Generator, size: int) -> Array:
    """Return `prior.sample_parameters(rng, size)`, shape [N, d], after a check."""
    call = f"{type(prior).__name__}.sample_parameters(rng, {size})"
    found = returned(prior, "sample_parameters", rng, size)
    if found.ndim != 2 or len(found) != size or found.shape[1] < 1:
        raise InvalidModelError(f"{call} has shape {found.shape}, not [{size}, d]")
    if not np.isfinite(found).all():
        raise InvalidModelError(f"{call} contains a number that is not finite")
    return found


def checked_density(prior: ParametricPrior, parameters: Array) -> Array:
    """Return `prior.log_density(parameters)`, shape [N], after a check; −inf is outside the support."""
    call = f"{type(prior).__name__}.log_density(parameters)"
    found = returned(prior, "log_density", parameters)
    if found.shape != (len(parameters),):
        raise InvalidModelError(
            f"{call} has shape {found.shape} for parameters of shape {parameters.shape}: "
            f"it must be ({len(parameters)},)"
        )
    wrong = np.isnan(found) | np.isposinf(found)
    if wrong.any():
        n = int(wrong.argmax())
        raise InvalidModelError(f"{call} is {found[n]} at the parameters {parameters[n].tolist()}")
    return found


def checked_kernels(prior: ParametricPrior, parameters: Array) -> Array:
    """Return `prior.kernels(parameters)`, shape [N, A, S, S′], after a check of rows and support."""
    call = f"{type(prior).__name__}.kernels(parameters)"
    own = prior.setting
    wanted = (len(parameters), own.n_actions, own.n_states, own.n_states)
    given = returned(prior, "kernels", parameters)
    if given.shape != wanted:
        raise InvalidModelError(f"{call} has shape {given.shape}, not {wanted}")
    found = distributions(call, given, "mast", own.names)
    beyond = (found > 0.0) & ~support_of(prior)
    if beyond.any():
        where = tuple(int(i) for i in np.argwhere(beyond)[0])
        entry = own.names.entry(call, "mast", where)
        raise InvalidModelError(
            f"{entry} is {found[where]:g}, but the prior's support excludes this transition"
        )
    return found


def support_of(prior: ParametricPrior) -> Support:
    """Return the possible transitions, shape [A, S, S′]."""
    found = declared_support(prior)
    if found is not None:
        return found
    own = prior.setting
    return np.ones((own.n_actions, own.n_states, own.n_states), dtype=bool)
