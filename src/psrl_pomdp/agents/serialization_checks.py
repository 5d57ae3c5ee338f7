"""Checks of a saved agent: its parts must be consistent with its prior and with each other.

The times must agree, beliefs and kernels must have positive probability under the prior, and every plan must
be for the kernel that it is stored for. Each function raises an error that names the inconsistent part.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from .._serialization.contents import LARGEST_TIME, Contents
from .._utils.arrays import Array
from ..errors import PSRLError
from ..inference.choosing import declared_support
from ..inference.possible_settings import part_unlike
from ..models import POMDP, Setting
from ..planning import Plan
from ..planning.discounted import require_average
from ..planning.verification import check_certificate, check_metadata, dynamics_of
from ..protocols import FiniteSupport, LearnsTables
from ..sensors.estimated import has_bounds
from . import compiled_steps as steps
from .episode_records import REASONS, EpisodeRecord
from .planning_budget import PlanningBudget

if TYPE_CHECKING:
    from .learner import Learner
    from .planning_budget import Tolerance
    from .psrl import PSRLAgent
    from .serialization import AgentMetadata

_TOLERANCE = 1e-6  # for the sums of distributions

# The parts of a sampled setting, and their names in files.
_PARTS_IN_FILES = {
    "observation": "used_observation",
    "first_observation": "used_first",
    "seen_cost": "used_seen",
    "cost": "used_cost",
}


def budget_in(contents: Contents, metadata: dict[str, Any], tolerance: Tolerance | None) -> PlanningBudget:
    """Return the planning budget in a file, after a check of every number."""
    given = PlanningBudget().to_dict() | metadata
    for name, value in metadata.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name not in PlanningBudget().to_dict() or (number and not 0.0 <= value <= 1e300):
            raise contents.refuse(f"budget: {name} is {value!r}, out of range")
    for name, least in (
        ("floor", 0.0),
        ("ceiling", 1e-300),
        ("max_points", 1),
        ("max_work", 0),
        ("time_limit", 0),
    ):
        value, optional = given.get(name), name in ("max_work", "time_limit")
        number = isinstance(value, int | float) and not isinstance(value, bool) and value >= least
        if name in given and not number and not (optional and value is None):
            raise contents.refuse(f"budget: {name} is {value!r}, not a number of at least {least:g}")
    return PlanningBudget.from_dict(metadata, tolerance)


def check_clock(agent: PSRLAgent, contents: Contents, metadata: AgentMetadata, own_schedule: bool) -> None:
    """Check t against the posterior's time, the last action, and the current episode."""
    t, last, count_rule, end_reason = contents.whole("clock", (4,), 0, 1 << 62).tolist()
    now, n_actions = metadata.present, agent.setting.n_actions
    posterior_time = getattr(agent.posterior, "time", t)
    if t != posterior_time or t > LARGEST_TIME:
        raise contents.refuse(f"clock says t = {t}, the posterior {posterior_time}")
    if (metadata.action is None) != (t == 0) or not 0 <= (metadata.action or 0) < n_actions:
        raise contents.refuse(f"action is {metadata.action!r} at t = {t}")
    expected_rule = agent.episode_clock.clock[steps.COUNT_RULE]
    if count_rule != expected_rule and not (own_schedule and count_rule <= steps.NONE):
        raise contents.refuse(f"clock has pseudo-count rule {count_rule}, which is not that of the schedule")
    if end_reason != steps.GOES_ON:
        raise contents.refuse("clock says that the current episode is over")
    if now.number == 0:
        before = (now.start, now.previous_length, now.index, now.tolerance, now.work)
        if before != (0, 1, None, 0.0, 0.0) or last != t or metadata.observation_processed:
            raise contents.refuse("the current episode has data but no number")
        if metadata.episodes:
            raise contents.refuse("there are past episodes but no current one")
        return
    if now.number != len(metadata.episodes) + 1:
        raise contents.refuse(f"the current episode has number {now.number} after {len(metadata.episodes)}")
    if not 1 <= now.start <= t <= last or not 1 <= now.previous_length <= t:
        raise contents.refuse(f"the current episode began at {now.start}, and t is {t} of at most {last}")
    if not own_schedule and last != agent.schedule.last(now.start, now.previous_length):
        raise contents.refuse(f"clock ends the episode at {last}, and the schedule does not")
    if not 0.0 < now.tolerance <= 1.0 or not 0.0 <= now.work <= 1e300:
        raise contents.refuse("the current episode's tolerance or work is out of range")


def episodes_in(agent: PSRLAgent, contents: Contents, metadata: AgentMetadata) -> list[EpisodeRecord]:
    """Return the records of the episodes that have ended, each of which ends where the next one starts."""
    try:
        rows = msgspec.convert(metadata.episodes, list[record_row()])  # type: ignore[misc]
    except msgspec.ValidationError as error:
        raise contents.refuse(f"episodes: {error}") from None
    found = [record_in(row) for row in rows]
    n_kernels = len(agent.prior) if isinstance(agent.prior, FiniteSupport) else 0
    for number, record in enumerate(found, start=1):
        _check_record(contents, record, number, n_kernels)
    starts = [record.start for record in found] + [metadata.present.start]
    for record, after in zip(found, starts[1:], strict=True):
        if record.start + record.length != after:
            raise contents.refuse(f"episodes: {record.number} does not end where the next one begins")
    if found and metadata.present.previous_length != found[-1].length:
        raise contents.refuse("the current episode says another length of the one before")
    return found


def _check_record(contents: Contents, record: EpisodeRecord, number: int, n_kernels: int) -> None:
    wrong = (
        record.number != number
        or not 1 <= record.start <= LARGEST_TIME
        or not 0 <= record.length <= LARGEST_TIME
        or record.ended not in REASONS
        or (record.kernel is not None and not 0 <= record.kernel < n_kernels)
    )
    if wrong:
        raise contents.refuse(f"episodes: number {number} is no record of an episode")


@cache
def record_row() -> Any:
    """Return the type of an `EpisodeRecord` in JSON, where null stands for NaN and infinity."""
    kinds: dict[str, Any] = {"int": int, "float": float | None, "str": str, "bool": bool}
    kinds |= {f"{name} | None": kind | None for name, kind in kinds.items()}
    columns = [
        (f.name, kinds[str(f.type)]) if f.default is MISSING else (f.name, kinds[str(f.type)], f.default)
        for f in fields(EpisodeRecord)
    ]
    return msgspec.defstruct("_Record", columns, array_like=True)


def record_in(row: Any) -> EpisodeRecord:
    """Return the record in a row; null stands for NaN."""
    values: dict[str, Any] = {f.name: getattr(row, f.name) for f in fields(EpisodeRecord)}
    lacking = {f.name: np.nan for f in fields(EpisodeRecord) if f.type == "float" and values[f.name] is None}
    return EpisodeRecord(**values | lacking)


def episode_arrays(
    agent: PSRLAgent, contents: Contents, metadata: AgentMetadata
) -> dict[str, npt.NDArray[np.int64]]:
    """Return the clock and the pseudo-counts m̃_t and m̃_{t_k}."""
    shape, now = agent.episode_clock.pseudo.shape, metadata.present
    clock = contents.whole("clock", (4,), 0, 1 << 62)
    t, start = int(clock[steps.T]), now.start
    counted = t if now.number else 0
    pseudo = contents.whole("pseudo", shape, 0, counted)
    begun = contents.whole("pseudo_start", shape, 0, start)
    if (begun > pseudo).any() or (clock[steps.COUNT_RULE] != steps.NONE and (pseudo > 2 * begun).any()):
        raise contents.refuse("pseudo is not what can follow pseudo_start in an episode")
    if clock[steps.COUNT_RULE] != steps.EXPECTED and ((pseudo != counted).any() or (begun != start).any()):
        raise contents.refuse("pseudo is not the time")
    return {"clock": clock, "pseudo": pseudo, "pseudo_start": begun}


def kernel_and_belief(agent: PSRLAgent, contents: Contents, metadata: AgentMetadata) -> tuple[Array, Array]:
    """Return θ_k and h_t(·; θ_k), after a check of the kernel against the prior."""
    prior, index = agent.prior, metadata.present.index
    n_actions, n_states = agent.setting.n_actions, agent.setting.n_states
    kernel = contents.distributions("kernel", (n_actions, n_states, n_states))
    used = contents.floats("used_kernel", (*kernel.shape, 1), 0.0)
    if not np.array_equal(kernel, used[..., 0]):
        raise contents.refuse("used_kernel is not the kernel of the current episode")
    if isinstance(prior, FiniteSupport):
        if index is not None and not 0 <= index < len(prior):
            raise contents.refuse(f"the current kernel has number {index} of {len(prior)}")
        if index is not None and not np.array_equal(kernel, prior.kernels[index]):
            raise contents.refuse(f"the current kernel is not number {index} of the prior")
    elif index is not None:
        raise contents.refuse("the current kernel has a number, and the prior has none")
    support = declared_support(prior)
    if support is not None and (kernel[~support] > 0.0).any():
        raise contents.refuse("kernel has a transition that the prior rules out")
    belief = contents.floats("used", (n_states, 1), 0.0, 1.0 + _TOLERANCE)[:, 0]
    if abs(belief.sum() - 1.0) > _TOLERANCE:
        raise contents.refuse("used, the belief, does not sum to 1")
    return kernel, belief


def check_sampled_setting(agent: Learner, contents: Contents, sampled: Setting, index: int | None) -> None:
    """Check a sampled observation model and sampled costs against the prior."""
    prior = agent.prior
    if isinstance(prior, LearnsTables):
        part = prior.impossible_part(sampled, index)
    else:
        part = part_unlike(sampled, agent.setting)
    if part is not None:
        raise contents.refuse(f"{_PARTS_IN_FILES[part]} is not possible under the prior")


def check_plans(agent: PSRLAgent, contents: Contents, metadata: AgentMetadata, plans: list[Plan]) -> None:
    """Check that every plan is for the kernel that it is stored for, and that its arrays fit."""
    listed, n_plans, prior = metadata.plans, len(plans), agent.prior
    numbers = [*listed.by_kernel.values(), listed.last, listed.present]
    if any(i is not None and not 0 <= i < n_plans for i in numbers):
        raise contents.refuse(f"plans: a number is not below {n_plans}")
    if len(set(listed.by_kernel.values())) < len(listed.by_kernel):
        raise contents.refuse("plans: the same one is stored for several kernels")
    family = prior if isinstance(prior, FiniteSupport) else None
    if family is None and listed.by_kernel:
        raise contents.refuse("plans: they are stored by kernel, but the prior has no numbered kernels")
    if metadata.present.number == 0 and any(i is not None for i in (listed.last, listed.present)):
        raise contents.refuse("plans: there is one before the first episode")
    certified = has_bounds(agent.setting.sensor, agent.setting.first_sensor)
    if metadata.present.number and listed.present is None and certified and not metadata.own_planner:
        raise contents.refuse("plans: the current episode has none")
    for key, i in listed.by_kernel.items():
        assert family is not None
        if not (key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(family)):
            raise contents.refuse(f"plans: kernel {key!r} of {len(family)}")
        check_fit(contents, plans[i], family.model(int(key)), metadata.own_planner)
    now = agent.current_episode
    if not now.number:
        return
    if family is not None and now.index is not None:
        model = family.model(now.index)
    else:
        model = POMDP(now.setting or agent.setting, now.kernel)
    if listed.present is not None:
        check_fit(contents, plans[listed.present], model, metadata.own_planner)
    if listed.last is not None:
        _check_last(contents, plans[listed.last], model, family is not None)


def check_fit(contents: Contents, found: Plan, model: POMDP, own_planner: bool = False) -> None:
    """Check a plan for this model; a user's own planner may plan for another one of the same shape."""
    if not own_planner and found.fingerprint != model.fingerprint:
        raise contents.refuse("plans: one is for another kernel than it is stored for")
    try:
        require_average(found, "an agent")
        dynamics = dynamics_of(found, model)[1]
        check_metadata(found, model, dynamics)
        check_certificate(found, dynamics)
    except PSRLError as error:
        raise contents.refuse(f"plans: {error}") from None


def _check_last(contents: Contents, found: Plan, model: POMDP, finite: bool) -> None:
    """Check the newest plan, from which the next one may start.

    It must have the same reachable states; for a finite set of kernels any states are allowed.
    """
    if not has_sizes(found, model.setting) or found.actions != model.setting.actions:
        raise contents.refuse("plans: the newest is for another setting")
    try:
        require_average(found, "an agent")
        states = dynamics_of(found, model)[1].states
    except PSRLError as error:
        raise contents.refuse(f"plans: {error}") from None
    if not finite and found.states != states:
        raise contents.refuse("plans: the newest is for a kernel that the prior rules out")


def has_sizes(found: Plan, setting: Setting) -> bool:
    """Return whether a plan is for models with the sizes and the units of a setting."""
    sizes = (found.n_states, len(found.actions))
    if setting.is_finite:
        n_complete = setting.joint_observation.shape[-1]
        if found.controller.successors.shape[1] != n_complete:
            return False
    return sizes == (setting.n_states, setting.n_actions) and found.units == setting.units


def node_in(contents: Contents, found: Plan) -> npt.NDArray[np.int64]:
    """Return the node of the controller; −1 if the policy is a function of the belief."""
    follows = found.controller.gains is not None
    return contents.whole("node", (1,), 0 if follows else -1, len(found.controller) - 1 if follows else -1)
