"""BA-POMCP: Bayes-adaptive planning by tree search.

At every step the agent simulates many futures. For each of them it draws a kernel from the posterior and a
state from the belief of this kernel. The simulations grow a tree of actions and observations
(`tree_search.py`), and the agent takes the action with the least mean cost. The observations in the tree also
carry information about the kernel, so that the value of an action includes the value of this information: the
agent explores without a schedule.

Guarantee: as `n_simulations` grows, the action converges to that of the optimal policy *with learning* over
the next `depth` discounted steps, under the posterior's ensemble of kernels. There is no guarantee for the
long-run average: benefits beyond the look-ahead are ignored, and a fixed number of simulations errs at a
fixed rate, so that in general regret grows linearly.

Source: S. Katt, F. A. Oliehoek and C. Amato 2017, Learning in POMDPs with Monte Carlo tree search (ICML), in
the form with root sampling of the model. Here the sensor is known, and kernels come from the posterior's
weighted kernels with their exact filters, instead of a particle filter by rejection, which degenerates. The
paper's other form increases Dirichlet counts along each simulated future. It needs particles with counts, and
so a hidden path through the whole history for each. It is left out, because the simulated futures have the
same distribution if a row is drawn once, or if it is predicted at each step from growing counts. Each step
grows a new tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..._serialization.archives import as_saved_agent, pack
from ..._serialization.contents import VERSION, opened
from ..._serialization.random_streams import StreamState, stream_in, stream_out
from ..._utils.arrays import Array
from ..._utils.stopwatch import PLANNING
from ...errors import InvalidModelError
from ...inference.choosing import learns_tables
from ...inference.encoding import check_protocol
from ...inference.prior_files import can_save, is_code, posterior_in, posterior_out, prior_in, prior_out
from ...models import Setting
from ...protocols import Compilable, Posterior, Prior, WeightedKernels
from ..serialization import SettingMetadata, setting_in, setting_out
from .options import check_numbered, number, whole_number
from .tree_search import WeightedModels, empty_tree, search

_OPTIONS = ("n_simulations", "depth", "discount", "exploration")
_MOST_STEPS = 20_000_000  # simulated steps per action, which need half a gigabyte of random numbers


class _Metadata(SettingMetadata, kw_only=True):
    """Everything about an agent that is not an array."""

    agent: Literal["BA-POMCP"]
    prior: str
    prior_fingerprint: str = ""
    time: int | None = None  # in files of version 0.1 that of the posterior
    options: dict[str, Any]
    streams: tuple[StreamState, StreamState]
    action: int | None


class BAPOMCPAgent:
    """An agent that simulates `n_simulations` futures of `depth` steps, discounted by `discount`.

    `exploration` is UCT's constant c for costs in [0, 1]. A larger one spreads simulations over all actions;
    a smaller one concentrates them on the actions that seem best.

    >>> from psrl_pomdp import problem
    >>> agent = BAPOMCPAgent(problem("random-readout").prior, seed=1)
    >>> agent.act(0) in (0, 1, 2), agent.values.shape
    (True, (3,))
    """

    information = "sensor, prior"

    def __init__(
        self,
        prior: Prior,
        seed: int | Sequence[int] = 0,
        *,
        n_simulations: int = 200,
        depth: int = 10,
        discount: float = 0.95,
        exploration: float = 1.0,
    ) -> None:
        check_protocol(prior)
        check_numbered(prior.setting, "BA-POMCP")
        if learns_tables(prior):
            raise InvalidModelError(
                "BA-POMCP cannot be used with an unknown observation model or unknown costs, as it searches "
                "with known ones; psrl, mean and map can be used with them"
            )
        least = prior.setting.n_actions
        self.prior = prior
        self.n_simulations = whole_number(
            "n_simulations", n_simulations, least
        )  # so that each action is tried
        self.depth = whole_number("depth", depth, 1)
        if self.n_simulations * (self.depth + 1) > _MOST_STEPS:
            raise InvalidModelError(
                f"n_simulations {self.n_simulations} of depth {self.depth}: {_MOST_STEPS} steps at most"
            )
        self.discount = number("discount", discount, 0.0, 1.0)
        self.exploration = number("exploration", exploration, 0.0)
        for_search, for_posterior = np.random.SeedSequence(seed, spawn_key=(0,)).spawn(2)
        self.rng = np.random.default_rng(for_search)
        self.posterior_rng = np.random.default_rng(for_posterior)
        self.posterior: Posterior = prior.posterior(self.posterior_rng)
        if not isinstance(self.posterior, WeightedKernels):
            raise InvalidModelError(
                f"prior: its {type(self.posterior).__name__} has no kernels, weights and beliefs, "
                "which the tree search draws from"
            )
        self.time = 0  # t, the number of observations so far, with the first one; 0 before it
        self.action: int | None = None  # a_t
        self._tree = empty_tree(
            self.n_simulations, self.depth, prior.setting.n_actions, prior.setting.n_observations
        )

    @property
    def setting(self) -> Setting:
        """What the agent knows: the POMDP without its transition kernel."""
        return self.prior.setting

    @property
    def values(self) -> Array:
        """The discounted cost of each action at the last search, for costs in [0, 1]; shape [A]."""
        return np.array(self._tree.value[0])

    @property
    def visits(self) -> npt.NDArray[np.int64]:
        """The number of simulations that started with each action, shape [A]."""
        return np.array(self._tree.visits[0])

    def act(self, observation: int | str | None) -> int:
        """Return a_t after o_t, which is None if it is missing, or if the first action comes before it."""
        if self.action is None:
            self.posterior.start(observation)
        else:
            self.posterior.update(self.action, observation)
        self.time += 1
        self.look_ahead()
        self.action = int(self._tree.value[0].argmin())
        return self.action

    @PLANNING.timed
    def look_ahead(self) -> None:
        """Search from the present posterior."""
        posterior = self.posterior
        assert isinstance(posterior, WeightedKernels)
        if isinstance(posterior, Compilable):
            filters = posterior.filter_bank()[0]
            kernels, beliefs = filters.transition, filters.belief
        else:
            kernels = np.ascontiguousarray(posterior.kernels.transpose(1, 2, 3, 0))
            beliefs = np.ascontiguousarray(posterior.beliefs.T)
        models = WeightedModels(
            kernels,
            beliefs,
            posterior.weights,
            self.setting.observation,
            self.setting.cost,
        )
        uniforms = self.rng.random((self.n_simulations, self.depth + 1, 3))
        search(models, self._tree, uniforms, self.discount, self.exploration)

    # -- files ----------------------------------------------------------------------------------

    @property
    def can_save(self) -> bool:
        """Whether the prior and its posterior have the methods that saving needs."""
        return can_save(self.prior, self.posterior)

    def to_bytes(self) -> bytes:
        """Return everything that determines the agent's next actions."""
        arrays, metadata = setting_out(self.setting)
        metadata |= {"version": VERSION, "agent": "BA-POMCP", "action": self.action, "time": self.time}
        prior_arrays, prior_metadata = prior_out(self.prior)
        metadata |= prior_metadata
        metadata["options"] = {name: getattr(self, name) for name in _OPTIONS}
        metadata["streams"] = [stream_out(rng) for rng in (self.rng, self.posterior_rng)]
        arrays |= prior_arrays | posterior_out(self.posterior)
        arrays["words"] = np.frombuffer(msgspec.json.encode(metadata), np.uint8)
        return pack(arrays)

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes, prior: Prior | None = None) -> BAPOMCPAgent:
        """Return an agent that continues as the saved one would have; pass a `prior` that is code again."""
        contents, metadata = opened(data, "agent", _Metadata, "a saved agent of this kind")
        setting = setting_in(contents, metadata)
        found: Any = prior_in(contents, metadata.prior, metadata.prior_fingerprint, setting, prior)
        rng, posterior_rng = (stream_in(stream) for stream in metadata.streams)
        posterior: Any = found.restore(posterior_in(contents), posterior_rng)
        n_actions = setting.n_actions
        time = getattr(posterior, "time", 0) if metadata.time is None else metadata.time
        if time != getattr(posterior, "time", time):
            raise contents.refuse(f"time is {time}, but that of the posterior is {posterior.time}")
        if (metadata.action is None) != (time == 0) or not 0 <= (metadata.action or 0) < n_actions:
            raise contents.refuse(f"action is {metadata.action!r} at time {time}")
        agent = cls(found, **metadata.options)
        agent.time = time
        agent.rng, agent.posterior_rng, agent.posterior = rng, posterior_rng, posterior
        agent.action = metadata.action
        return agent

    def restored(self, data: bytes) -> BAPOMCPAgent:
        """Return the agent that `to_bytes` wrote, with the prior of this agent if it is code."""
        return type(self).from_bytes(data, self.prior if is_code(self.prior) else None)
