"""Mixtures of priors, such as expert A's finite set, expert B's finite set, or unknown Dirichlet rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array, Names, distributions, frozen
from ..errors import InvalidModelError
from ..models import POMDP, Frozen, Setting
from ..protocols import GroupsKernels, ReplacesSetting
from .choosing import declared_support, learns_tables
from .encoding import check_protocol, initial_of, model_of

if TYPE_CHECKING:
    from .ensemble_posterior import EnsemblePosterior


class MixturePrior(Frozen):
    """A mixture of priors with given probabilities.

    The posterior weights the components by their marginal likelihoods and updates each like its own
    posterior. The marginal likelihood of a `FinitePrior` is exact. Those of the other components are
    estimated by sequential Monte Carlo (see `psrl_pomdp.inference.ensemble_posterior`).

    Parameters
    ----------
    components
        Pairs (probability, prior), with probabilities that sum to one. A prior is a `FinitePrior`, a
        `DirichletPrior`, a subclass of `ParametricPrior`, another mixture (which is flattened), or any prior
        with `kernel_group` and `restored_group` (`psrl_pomdp.protocols.GroupsKernels`). All priors must have
        the same setting.

    Raises
    ------
    InvalidModelError
        If the probabilities do not sum to one, a prior cannot be a component, or settings differ.

    >>> from psrl_pomdp import DirichletPrior, FinitePrior, problem
    >>> model = problem("separated")
    >>> prior = MixturePrior([(0.7, model.family), (0.3, model.prior)])
    >>> posterior = prior.posterior(np.random.default_rng(0))
    >>> posterior.start(0)
    >>> posterior.group_weights.round(3).tolist()
    [0.7, 0.3]
    """

    setting: Setting
    components: tuple[Any, ...]
    weights_of_components: Array  # [G], sums to 1

    def __init__(self, components: Iterable[tuple[float, Any]]) -> None:
        flat: list[tuple[float, Any]] = []
        for pair in components:
            try:
                share, prior = pair
            except (TypeError, ValueError):
                raise InvalidModelError(f"components: {pair!r} is not a pair (probability, prior)") from None
            flat += _flattened(share, prior)
        if not flat:
            raise InvalidModelError("components is empty: a mixture needs at least one prior")
        shares = distributions("components", [share for share, _ in flat], "m", Names())
        priors = tuple(prior for _, prior in flat)
        for prior in priors[1:]:
            if prior.setting != priors[0].setting:
                raise InvalidModelError(f"components: {prior!r} and {priors[0]!r} have different settings")
        for prior in priors:
            if learns_tables(prior):
                raise InvalidModelError(
                    f"components: {prior!r} has an unknown observation model or unknown costs, which a "
                    "mixture cannot have"
                )
        self._set(setting=priors[0].setting, components=priors, weights_of_components=frozen(shares))

    def _contents(self) -> tuple[str, list[Array]]:
        prints = [str(prior.fingerprint) for prior in self.components]
        return hashlib.sha256("MixturePrior".join(prints).encode()).hexdigest(), [self.weights_of_components]

    def __len__(self) -> int:
        """Return the number of components."""
        return len(self.components)

    @property
    def support(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The transitions that are possible under at least one component, shape [A, S, S′]."""
        setting = self.setting
        everything = np.ones((setting.n_actions, setting.n_states, setting.n_states), dtype=bool)
        declared = [declared_support(prior) for prior in self.components]
        return np.asarray(
            np.any([everything if support is None else support for support in declared], axis=0)
        )

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel, shape [A, S, S′]."""
        return self._sample_component(rng).sample(rng)  # type: ignore[no-any-return]

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        """Draw a component and then a POMDP from it, with the initial distribution of this component."""
        return model_of(self._sample_component(rng), rng)

    def _sample_component(self, rng: np.random.Generator) -> Any:
        return self.components[int(rng.choice(len(self), p=self.weights_of_components))]

    def initial_of(self, kernel: Array) -> Array:
        """Return h(·; `kernel`).

        It is that of the first component that differs from the setting, or else the setting's.
        """
        for prior in self.components:
            found = initial_of(prior, kernel)
            if not np.array_equal(found, self.setting.initial):
                return found
        return self.setting.initial

    def replace(self, *, setting: Setting) -> MixturePrior:
        """Return the same mixture of priors, in another setting."""
        parts: list[tuple[float, Any]] = []
        for share, prior in zip(self.weights_of_components.tolist(), self.components, strict=True):
            if not isinstance(prior, ReplacesSetting):
                raise InvalidModelError(f"{prior!r} has no replace(setting=...)")
            parts.append((share, prior.replace(setting=setting)))
        return MixturePrior(parts)

    def posterior(self, rng: np.random.Generator) -> EnsemblePosterior:
        """Return the posterior before the first observation; its refreshes draw from `rng`."""
        from .ensemble_posterior import EnsemblePosterior  # compiled code, which a prior does not need

        groups = [prior.kernel_group(rng) for prior in self.components]
        return EnsemblePosterior(self, groups, rng, self.weights_of_components)

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
        prefixes = [f"group_{g}_" if len(self) > 1 else "" for g in range(len(self))]
        sizes = [size_in(state, f"{prefix}size") for prefix in prefixes]
        check_sizes(state, self.setting, sum(sizes))
        groups = []
        for prefix, size, prior in zip(prefixes, sizes, self.components, strict=True):
            part = {name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)}
            groups.append(prior.restored_group(part, size, total_time_in(state)))
            if groups[-1].size != size:
                raise InvalidModelError(
                    f"{prefix}size is {size}, but the group has {groups[-1].size} kernels"
                )
        posterior = EnsemblePosterior(self, groups, rng, self.weights_of_components)
        posterior.resume(state)
        return posterior

    def __repr__(self) -> str:
        parts = (f"{w:.3g} {p!r}" for w, p in zip(self.weights_of_components, self.components, strict=True))
        return f"MixturePrior({' + '.join(parts)})"


def _flattened(share: Any, prior: Any) -> list[tuple[float, Any]]:
    """Return the pairs (probability, prior) that a component consists of, after a check of both."""
    if (
        isinstance(share, bool)
        or not isinstance(share, int | float | np.integer | np.floating)
        or not share > 0
    ):
        raise InvalidModelError(f"components: the probability {share!r} is not a positive number")
    check_protocol(prior)
    if isinstance(prior, MixturePrior):
        inner = zip(prior.weights_of_components.tolist(), prior.components, strict=True)
        return [(float(share) * w, p) for w, p in inner]
    if not isinstance(prior, GroupsKernels) or not hasattr(prior, "fingerprint"):
        raise InvalidModelError(
            f"components: a {type(prior).__name__} cannot be a component: it lacks kernel_group(rng), "
            "restored_group(state, size, time) or fingerprint"
        )
    return [(float(share), prior)]
