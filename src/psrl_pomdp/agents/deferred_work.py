"""Planning and refreshes of a fleet that does not wait for them: what is due, and how results are adopted.

When an episode is over, the next kernel θ_k is sampled at once, and every unit filters its belief under θ_k
along with its present one, so that the next episode can begin at any later step. Its t_k is the time at which
the plan is adopted. Steps until then follow the old policy; each adds at most the range of the costs to the
regret (`Fleet.late_steps`).

A refresh of the ensemble moves the kernels given the histories up to some time. The observations since then
are filtered with the new kernels before these are adopted, so that weights and beliefs are those of the
whole histories.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import numpy as np

from .._serialization.archives import SizeLimit, as_saved_agent, pack
from .._serialization.contents import VERSION, Contents, opened
from .._serialization.random_streams import StreamState, stream_in, stream_out
from ..errors import ImpossibleObservationError
from ..inference.prior_files import posterior_in, posterior_out
from ..models import POMDP
from ..planning.plan_files import plan_from_bytes
from ..protocols import ModelSample, ResumablePrior
from . import episode_planning
from .planning_budget import PlanningBudget
from .serialization_checks import check_fit, has_sizes

if TYPE_CHECKING:
    from ..planning import Plan
    from .fleet import Fleet


class PlannedNext(NamedTuple):
    """The model of the next episode, for which a plan is due."""

    sample: ModelSample  # θ_k
    tolerance: float  # ε_k


class _Metadata(msgspec.Struct, kw_only=True):
    """What is not an array in the result of a work."""

    version: int = VERSION
    kind: Literal["plan", "refresh"]
    tolerance: float = 0.0
    work: float = 0.0  # counted operations of planning
    before: StreamState | None = None  # the random stream of the refresh, before it and after it
    stream: StreamState | None = None


@dataclass(frozen=True)
class PlanWork:
    """A plan that is due. It can be pickled."""

    model: POMDP
    tolerance: float
    rtol: float
    budget: PlanningBudget
    near: Plan | None
    kind: Literal["plan"] = "plan"

    def run(self) -> bytes:
        """Return the plan, as the bytes that `Fleet.adopt` takes."""
        found = self.budget.solve(self.model, self.tolerance, self.near, self.rtol)
        work = found.rounds[-1].work if found.rounds else 0.0
        metadata = _Metadata(kind=self.kind, tolerance=self.tolerance, work=work)
        timeless = replace(found, rounds=tuple(replace(r, seconds=0.0) for r in found.rounds))
        arrays = {"kernel": self.model.transition, "plan": np.frombuffer(timeless.to_bytes(), np.uint8)}
        return _packed(metadata, arrays)


@dataclass(frozen=True)
class RefreshWork:
    """A refresh of the ensemble that is due. It can be pickled if the prior can."""

    prior: ResumablePrior
    state: dict[str, Any]
    stream: StreamState
    kind: Literal["refresh"] = "refresh"

    def run(self) -> bytes:
        """Return the posterior with moved kernels, as the bytes that `Fleet.adopt` takes."""
        rng = stream_in(self.stream)
        posterior: Any = self.prior.restore(self.state, rng)
        posterior.refresh()
        metadata = _Metadata(kind=self.kind, before=self.stream, stream=_stream(rng))
        return _packed(metadata, posterior_out(posterior))


Work = PlanWork | RefreshWork


def due(fleet: Fleet) -> Work | None:
    """Return the work that is due, a plan before a refresh; None if there is none."""
    following = fleet.following
    if following is not None:
        sample = following.sample
        model = POMDP(sample.setting or fleet.setting, sample.kernel)
        model, near, rtol = episode_planning.plan_inputs(fleet, model, sample.kernel_index)
        return PlanWork(model, following.tolerance, rtol, fleet.budget, near)
    if fleet.posterior.refresh_due:
        assert isinstance(fleet.prior, ResumablePrior)  # as the constructor has checked
        return RefreshWork(fleet.prior, fleet.posterior.state(), _stream(fleet.posterior_rng))
    return None


def _adopt_plan(fleet: Fleet, contents: Contents, metadata: _Metadata, size_limit: SizeLimit) -> bool:
    """Begin the next episode with a plan, if the plan is for its model."""
    following = fleet.following
    if following is None or metadata.tolerance != following.tolerance:
        return False
    sample = following.sample
    if not np.array_equal(contents.floats("kernel", sample.kernel.shape), sample.kernel):
        return False
    if not 0.0 <= metadata.work <= 1e300:
        raise contents.refuse(f"work is {metadata.work!r}, out of range")
    model, _, _ = episode_planning.plan_inputs(
        fleet, POMDP(sample.setting or fleet.setting, sample.kernel), sample.kernel_index
    )
    with as_saved_agent(contents.path):
        found = plan_from_bytes(contents.packed("plan"), "plan", size_limit)
        if not has_sizes(found, fleet.setting):
            raise contents.refuse("its plan is for another setting")
        check_fit(contents, found, model)
    fleet.begin_following(found, metadata.work)
    episode_planning.warn_of_coarse_plan(fleet, 6)
    return True


def _adopt_refresh(fleet: Fleet, contents: Contents, metadata: _Metadata) -> bool:
    """Take over the moved kernels; they are not used if an observation since is impossible under them.

    A refresh changes the random stream of the posterior, so that its result can be adopted once, and not
    after another refresh.
    """
    if not fleet.posterior.refresh_due or metadata.before != _stream(fleet.posterior_rng):
        return False
    if metadata.stream is None:
        raise contents.refuse("it has no random stream")
    stream = stream_in(metadata.stream)
    try:
        adopted = fleet.adopt_kernels(posterior_in(contents), contents.path)
    except ImpossibleObservationError:
        adopted = False
    fleet.posterior_rng.bit_generator.state = stream.bit_generator.state
    return adopted


def adopt(fleet: Fleet, data: bytes) -> bool:
    """Adopt the result of a work; see `Fleet.adopt`."""
    size_limit = SizeLimit.for_file(data)
    contents, metadata = opened(data, "work", _Metadata, "the result of a fleet's work", size_limit)
    if metadata.kind == "refresh":
        return _adopt_refresh(fleet, contents, metadata)
    return _adopt_plan(fleet, contents, metadata, size_limit)


def _stream(rng: np.random.Generator) -> StreamState:
    return StreamState(**stream_out(rng))


def _packed(metadata: _Metadata, arrays: dict[str, Any]) -> bytes:
    return pack({**arrays, "words": np.frombuffer(msgspec.json.encode(metadata), np.uint8)})
