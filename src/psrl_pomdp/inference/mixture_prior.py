"""Mixtures of priors: the kernel is of expert A's family, or of expert B's, or nobody knows it at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array, Names, distributions, frozen
from ..errors import InvalidModelError
from ..models.model import POMDP, Frozen, Setting
from ..protocols import GroupsKernels, HasSupport, ReplacesSetting
from .encoding import check_protocol, initial_of, model_of

if TYPE_CHECKING:
    from .ensemble_posterior import EnsemblePosterior


class MixturePrior(Frozen):
    """A prior that is one of several priors, each with its probability.

    The posterior weighs the components by their marginal likelihoods, and follows each as its own posterior
    would. The marginal likelihood of a `FinitePrior` is exact. That of any other component is estimated by
    sequential Monte Carlo, as `psrl_pomdp.inference.ensemble_posterior` describes.

    Parameters
    ----------
    components
        Pairs (probability, prior), with probabilities that sum to one. Priors are `FinitePrior`,
        `DirichletPrior`, subclasses of `ParametricPrior`, other mixtures, which are flattened, or any prior
        with `kernel_group` and `restored_group` (`psrl_pomdp.protocols.GroupsKernels`). All have the same
        setting.

    Raises
    ------
    InvalidModelError
        If the probabilities do not sum to one, a prior cannot be a component, or settings differ.

    >>> from psrl_pomdp import DirichletPrior, FinitePrior, problem
    >>> world = problem("separated")
    >>> prior = MixturePrior([(0.7, world.family), (0.3, world.prior)])
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
                raise InvalidModelError(f"components: {pair!r} is no pair (probability, prior)") from None
            flat += _flattened(share, prior)
        if not flat:
            raise InvalidModelError("components: a mixture of nothing")
        shares = distributions("components", [share for share, _ in flat], "m", Names())
        priors = tuple(prior for _, prior in flat)
        for prior in priors[1:]:
            if prior.setting != priors[0].setting:
                raise InvalidModelError(f"components: {prior!r} has another setting than {priors[0]!r}")
        self._set(setting=priors[0].setting, components=priors, weights_of_components=frozen(shares))

    def _contents(self) -> tuple[str, list[Array]]:
        prints = [str(prior.fingerprint) for prior in self.components]
        return hashlib.sha256("MixturePrior".join(prints).encode()).hexdigest(), [self.weights_of_components]

    def __len__(self) -> int:
        """The number of components."""
        return len(self.components)

    @property
    def support(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """[A, S, S']: the transitions that are possible under some component."""
        own = self.setting
        everything = np.ones((own.n_actions, own.n_states, own.n_states), dtype=bool)
        found = [
            np.asarray(prior.support)
            if isinstance(prior, HasSupport) and prior.support is not None
            else everything
            for prior in self.components
        ]
        return np.asarray(np.any(found, axis=0))

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel [A, S, S']."""
        return self._drawn(rng).sample(rng)  # type: ignore[no-any-return]

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        """Draw a POMDP, with the initial distribution that its component gives it."""
        return model_of(self._drawn(rng), rng)

    def _drawn(self, rng: np.random.Generator) -> Any:
        return self.components[int(rng.choice(len(self), p=self.weights_of_components))]

    def initial_of(self, kernel: Array) -> Array:
        """Return h(·; `kernel`): the setting's, or that of a finite set that holds the kernel."""
        for prior in self.components:
            found = initial_of(prior, kernel)
            if not np.array_equal(found, self.setting.initial):
                return found
        return self.setting.initial

    def replace(self, *, setting: Setting) -> MixturePrior:
        """Return the same mixture in another setting."""
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
        befores = [f"group_{g}_" if len(self) > 1 else "" for g in range(len(self))]
        sizes = [size_in(state, f"{before}size") for before in befores]
        check_sizes(state, self.setting, sum(sizes))
        groups = []
        for before, size, prior in zip(befores, sizes, self.components, strict=True):
            part = {name.removeprefix(before): state[name] for name in state if name.startswith(before)}
            groups.append(prior.restored_group(part, size, time_in(state)))
            if groups[-1].size != size:
                raise InvalidModelError(f"{before}size is {size}, and the group has {groups[-1].size}")
        found = EnsemblePosterior(self, groups, rng, self.weights_of_components)
        found.resume(state)
        return found

    def __repr__(self) -> str:
        parts = (f"{w:.3g} {p!r}" for w, p in zip(self.weights_of_components, self.components, strict=True))
        return f"MixturePrior({' + '.join(parts)})"


def _flattened(share: Any, prior: Any) -> list[tuple[float, Any]]:
    """The components of a component."""
    if (
        isinstance(share, bool)
        or not isinstance(share, int | float | np.integer | np.floating)
        or not share > 0
    ):
        raise InvalidModelError(f"components: the probability {share!r} is not a number above 0")
    check_protocol(prior)
    if isinstance(prior, MixturePrior):
        inner = zip(prior.weights_of_components.tolist(), prior.components, strict=True)
        return [(float(share) * w, p) for w, p in inner]
    if not isinstance(prior, GroupsKernels) or not hasattr(prior, "fingerprint"):
        raise InvalidModelError(
            f"components: a {type(prior).__name__} cannot be one: it has no kernel_group(rng), "
            "restored_group(state, size, time) and fingerprint"
        )
    return [(float(share), prior)]
