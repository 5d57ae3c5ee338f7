"""BA-POMCP: Bayes-adaptive planning by tree search.

At every step the agent looks ahead from what it knows: many simulated futures, each in a world of its own
drawn from the posterior with a state drawn from that world's belief, grow a tree of actions and readings
(`tree_search.py`), and the action with the least mean cost is taken. Since the readings in the tree also tell
the worlds apart, an action that is worth learning from looks good by itself: no schedule makes it explore.

Guarantee: as `n_simulations` grows, the action becomes that of the best way to act *and learn* over the next
`depth` steps, discounted, under the posterior as its ensemble of kernels has it. None for the long-run
average: what takes longer than the look-ahead to pay back is not seen, and a fixed number of simulations errs
at a fixed rate, so that in general regret grows linearly.

Source: S. Katt, F. A. Oliehoek and C. Amato 2017, Learning in POMDPs with Monte Carlo tree search (ICML), in
the form with root sampling of the model. Here the sensor is known, and worlds come from the posterior's own
weighted kernels with their exact filters, in place of a particle filter by rejection, which runs dry. The
paper's other form raises Dirichlet counts along each simulated future. It needs particles that carry counts,
and so a hidden path through the whole history for each; it is left out, because both simulate futures with
the same law: a row drawn once and kept, or predicted anew from counts that grow. The tree is grown afresh at
each step.
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
from ...inference.encoding import check_protocol
from ...inference.prior_files import is_code, posterior_in, posterior_out, prior_in, prior_out
from ...models import Setting
from ...protocols import Compilable, Posterior, Prior, WeightedKernels
from ..serialization import SettingWords, setting_in, setting_out
from .options import number, whole_number
from .tree_search import Worlds, empty_tree, search

_OPTIONS = ("n_simulations", "depth", "discount", "exploration")
_MOST_STEPS = 20_000_000  # of all simulations for one action: half a gigabyte of random numbers


class _Words(SettingWords, kw_only=True):
    """Everything about an agent that is not an array."""

    agent: Literal["BA-POMCP"]
    prior: str
    prior_fingerprint: str = ""
    time: int | None = None  # in files of version 0.1 that of the posterior
    options: dict[str, Any]
    streams: tuple[StreamState, StreamState]
    action: int | None


class BAPOMCPAgent:
    """Looks ahead by `n_simulations` futures of `depth` steps, discounted by `discount`.

    `exploration` is UCT's constant c in the scale of costs in [0, 1]: more of it spreads simulations over all
    actions, less sends them deeper after the seemingly best.

    >>> from psrl_pomdp import problem
    >>> agent = BAPOMCPAgent(problem("random-readout").prior, seed=1)
    >>> agent.act(0) in (0, 1, 2), agent.values.shape
    (True, (3,))
    """

    told = "sensor, prior"

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
        least = prior.setting.n_actions
        self.prior = prior
        self.n_simulations = whole_number("n_simulations", n_simulations, least)  # each action is tried
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
        self.time = 0  # t, the number of readings taken in, the first one included; 0 before it
        self.action: int | None = None  # a_t
        self._tree = empty_tree(
            self.n_simulations, self.depth, prior.setting.n_actions, prior.setting.n_observations
        )

    @property
    def setting(self) -> Setting:
        return self.prior.setting

    @property
    def values(self) -> Array:
        """[A]: the discounted cost of each action at the last search, in the scale of costs in [0, 1]."""
        return np.array(self._tree.value[0])

    @property
    def visits(self) -> npt.NDArray[np.int64]:
        """[A]: how many simulations began with each action."""
        return np.array(self._tree.visits[0])

    def act(self, observation: int | str | None) -> int:
        """Take in o_t, or None for one that was lost or never made, look ahead, and choose a_t."""
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
        """Grow the tree from the present posterior."""
        posterior = self.posterior
        assert isinstance(posterior, WeightedKernels)
        if isinstance(posterior, Compilable):
            filters = posterior.filter_bank()[0]
            kernels, beliefs = filters.transition, filters.belief
        else:
            kernels = np.ascontiguousarray(posterior.kernels.transpose(1, 2, 3, 0))
            beliefs = np.ascontiguousarray(posterior.beliefs.T)
        worlds = Worlds(
            kernels,
            beliefs,
            posterior.weights,
            self.setting.observation,
            self.setting.cost,
        )
        uniforms = self.rng.random((self.n_simulations, self.depth + 1, 3))
        search(worlds, self._tree, uniforms, self.discount, self.exploration)

    # -- files ----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Everything that decides what the agent does next."""
        arrays, words = setting_out(self.setting)
        words |= {"version": VERSION, "agent": "BA-POMCP", "action": self.action, "time": self.time}
        prior_arrays, prior_words = prior_out(self.prior)
        words |= prior_words
        words["options"] = {name: getattr(self, name) for name in _OPTIONS}
        words["streams"] = [stream_out(rng) for rng in (self.rng, self.posterior_rng)]
        arrays |= prior_arrays | posterior_out(self.posterior)
        arrays["words"] = np.frombuffer(msgspec.json.encode(words), np.uint8)
        return pack(arrays)

    @classmethod
    @as_saved_agent("agent")
    def from_bytes(cls, data: bytes, prior: Prior | None = None) -> BAPOMCPAgent:
        """An agent that goes on as the saved one would have; pass a `prior` again that is code."""
        contents, words = opened(data, "agent", _Words, "a saved agent of this kind")
        setting = setting_in(contents, words)
        found: Any = prior_in(contents, words.prior, words.prior_fingerprint, setting, prior)
        rng, posterior_rng = (stream_in(stream) for stream in words.streams)
        posterior: Any = found.restore(posterior_in(contents), posterior_rng)
        n_actions = setting.n_actions
        time = getattr(posterior, "time", 0) if words.time is None else words.time
        if time != getattr(posterior, "time", time):
            raise contents.refuse(f"time is {time}, and {posterior.time} for the posterior")
        if (words.action is None) != (time == 0) or not 0 <= (words.action or 0) < n_actions:
            raise contents.refuse(f"action is {words.action!r} at time {time}")
        agent = cls(found, **words.options)
        agent.time = time
        agent.rng, agent.posterior_rng, agent.posterior = rng, posterior_rng, posterior
        agent.action = words.action
        return agent

    def restored(self, data: bytes) -> BAPOMCPAgent:
        """What `to_bytes` wrote, with the prior of this agent where it is code."""
        return type(self).from_bytes(data, self.prior if is_code(self.prior) else None)
