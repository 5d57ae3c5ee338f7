"""Plans and refreshes that a fleet does not wait for: late adoption, replay, and bytes made to do harm."""

from __future__ import annotations

import pickle
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from fleets import COARSE, PRIORS, RAILWAY, SEPARATED, Plant, finish, play
from psrl_pomdp import Fleet, InvalidModelError, ParseError, PSRLError
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp.agents.deferred_work import PlanWork, RefreshWork
from psrl_pomdp.inference.encoding import model_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::psrl_pomdp.CoarsePlanWarning", "ignore::psrl_pomdp.LabelWarning"
)


def fleet_of(name: str, **more: Any) -> tuple[Fleet, Plant]:
    prior = PRIORS[name]
    known = {"finite": SEPARATED, "dirichlet": RAILWAY, "unknown sensor": RAILWAY}
    world: Any = known.get(name) or model_of(prior, np.random.default_rng(7))
    budget = COARSE if "density" in name else None
    return Fleet(prior, seed=3, budget=budget, wait=False, **more), Plant(world, 5)


def until(fleet: Fleet, plant: Plant, names: str, kind: str) -> Any:
    """The next work of a kind; work of the other kind is done at once."""
    for _ in range(400):
        work: Any = fleet.work
        if work is None:
            play(fleet, plant, names, 1)
        elif work.kind == kind:
            return work
        else:
            fleet.adopt(work.run())
    pytest.fail(f"no {kind} was due")


def test_before_the_first_plan_the_least_immediate_cost_is_taken() -> None:
    fleet, plant = fleet_of("dirichlet")
    assert fleet.work is None
    for i, name in enumerate("ab"):
        action = fleet.act(name, plant.reading(name))
        assert action == int(np.argmin(fleet.setting.cost @ fleet.unit(name).belief))
        assert fleet.late_steps == i + 1
    found: Any = fleet.work
    assert isinstance(found, PlanWork)
    assert fleet.episode_records() == ()
    finish(fleet)
    assert fleet.current_episode.number == 1
    assert fleet.current_episode.start == 1
    assert fleet.unit("a").sampled_belief == pytest.approx(fleet.setting.initial)
    play(fleet, plant, "ab", 1)
    assert fleet.late_steps == 2 + 2 * (fleet.work is not None)


@pytest.mark.parametrize("name", ["dirichlet", "unknown sensor", "density"])
def test_a_late_plan_begins_an_episode_with_the_beliefs_of_its_kernel(name: str) -> None:
    """The beliefs under θ_k were filtered on; a unit that joined in the meantime has its own."""
    fleet, plant = fleet_of(name)
    few = 2 if name == "density" else 6
    play(fleet, plant, "ab", few, every=1)
    work, late = until(fleet, plant, "ab", "plan"), fleet.late_steps
    old = fleet.current_episode
    assert fleet.following is not None
    sample = fleet.following.sample
    for _ in range(few):
        play(fleet, plant, "abc", 1)
    assert fleet.current_episode.kernel is old.kernel
    assert fleet.late_steps == late + 3 * few
    assert fleet.adopt(pickle.loads(pickle.dumps(work)).run())
    now = fleet.current_episode
    assert now.number == old.number + 1
    assert now.start == fleet.time
    assert np.array_equal(now.kernel, sample.kernel)
    assert fleet.episodes[-1].length == fleet.time - old.start
    for each in "abc":
        unit = fleet.unit(each)
        assert unit.sampled_belief == pytest.approx(unit.posterior.belief_of(sample), abs=1e-9)
    assert not fleet.adopt(work.run())  # it has begun


@pytest.mark.parametrize("name", ["dirichlet", "unknown sensor", "learned density", "parametric"])
def test_a_late_refresh_is_brought_up_to_the_present(name: str) -> None:
    """Weights are those of the readings since; beliefs are those of a filter from the start."""
    fleet, plant = fleet_of(name)
    work = until(fleet, plant, "ab", "refresh")
    assert isinstance(work, RefreshWork)
    data = work.run()
    moved = fleet.prior.restore(work.state, np.random.default_rng(0))  # type: ignore[attr-defined]
    assert np.array_equal(moved.kernels, fleet.posterior.kernels)
    play(fleet, plant, "abc", 3)
    counts, late = fleet.expected_counts.copy(), fleet.late_steps
    before = fleet.posterior.kernels
    assert fleet.adopt(data)
    root = fleet.posterior
    assert not np.array_equal(before, root.kernels)
    assert fleet.late_steps == late
    assert np.array_equal(fleet.expected_counts, counts)
    for each in "abc":
        posterior = fleet.unit(each).posterior
        for n in np.argsort(root.weights)[-5:].tolist():
            sample = posterior.member(n)
            assert sample.belief == pytest.approx(posterior.belief_of(sample), abs=1e-8)
    stale = fleet.to_bytes()
    assert not fleet.adopt(data)  # another refresh may be due, but not this one
    assert fleet.to_bytes() == stale


@pytest.mark.parametrize("name", ["dirichlet", "unknown sensor", "learned density"])
def test_steps_and_what_was_adopted_can_be_replayed(name: str) -> None:
    """A log of readings and adopted bytes, in order: the same actions, and the same bytes at the end."""
    fleet, plant = fleet_of(name)
    log: list[tuple[str, Any, Any]] = []
    few = 12 if "density" in name else 60
    begun: list[Any] = []
    for t in range(few):
        for unit in "abc":
            reading = plant.reading(unit)
            action = fleet.act(unit, reading)
            log.append((unit, reading, action))
            plant.move(unit, action)
        work = fleet.work
        if work is not None and len(begun) < 3:
            begun.append((t, work))
        if begun and t > begun[0][0] + 2:
            data = begun.pop(0)[1].run()
            log.append(("adopt", data, fleet.adopt(data)))
    assert {result for unit, _, result in log if unit == "adopt"} == {True, False}
    again = fleet_of(name)[0]
    for unit, given, result in log:
        if unit == "adopt":
            assert again.adopt(given) == result
        else:
            assert again.act(unit, given) == result
    assert again.to_bytes() == fleet.to_bytes()


def test_results_of_other_fleets_are_refused_or_not_used() -> None:
    fleet, plant = fleet_of("dirichlet")
    other = Fleet(RAILWAY.prior, seed=3, wait=False)
    theirs = Plant(RAILWAY, 99)
    mine = until(fleet, plant, "ab", "refresh")
    foreign = until(other, theirs, "ab", "refresh").run()
    before = fleet.to_bytes()
    # Their histories differ, but the random stream may be the same one.
    with suppress(InvalidModelError):
        assert not fleet.adopt(foreign)
    assert fleet.to_bytes() == before
    stream = unpack(mine.run(), "w")["words"]
    with pytest.raises(InvalidModelError, match="other histories"):
        fleet.adopt(pack(unpack(foreign, "w") | {"words": stream}))
    assert fleet.to_bytes() == before
    plan_of_others = until(other, theirs, "ab", "plan").run()
    until(fleet, plant, "ab", "plan")
    before = fleet.to_bytes()
    assert not fleet.adopt(plan_of_others)
    assert fleet.to_bytes() == before
    with pytest.raises(ParseError):
        fleet.adopt(before)


def test_a_refresh_that_a_log_makes_needless_is_not_used() -> None:
    from psrl_pomdp import Log

    fleet, plant = fleet_of("dirichlet")
    data = until(fleet, plant, "ab", "refresh").run()
    rng = np.random.default_rng(1)
    fleet.learn([Log([None, *rng.integers(6, size=200).tolist()], rng.integers(2, size=200).tolist())])
    before = fleet.to_bytes()
    assert not fleet.adopt(data)
    assert fleet.to_bytes() == before


# -- bytes made to do harm --------------------------------------------------------------------------


def hostile(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with a few of them changed, or an archive with one array changed and sealed again."""
    if rng.random() < 0.15:
        changed = bytearray(data)
        for place in rng.integers(len(data), size=3):
            changed[place] ^= 1 << int(rng.integers(8))
        return bytes(changed[: len(data) - int(rng.integers(2)) * int(rng.integers(len(data)))])
    arrays = unpack(data, "good")
    name = str(rng.choice([n for n in arrays if arrays[n].size]))
    array = arrays[name].copy()
    if name == "words" and rng.random() < 0.8:
        text = bytearray(array.tobytes())
        places = [i for i, c in enumerate(text) if chr(c).isdigit() or chr(c) in "ntf"]
        place = int(rng.choice(places))
        text[place : place + 1] = rng.choice([b"9", b"0", b"-1", b"7e9", b"null", b"true", b'"a"', b"[]"])
        array = np.frombuffer(bytes(text), np.uint8)
    elif array.dtype.kind == "f":
        flat = array.reshape(-1)
        flat[int(rng.integers(flat.size))] = rng.choice([np.nan, np.inf, -1.0, 0.0, 2.0, 1e300, 0.5])
    elif array.dtype.kind in "iu":
        flat = array.reshape(-1)
        flat[int(rng.integers(flat.size))] = rng.choice([0, 1, 7, 120])
    elif rng.random() < 0.5:
        array = array[..., None]
    if rng.random() < 0.1:
        array = array.reshape(-1)[: int(rng.integers(array.size)) + 1]
    arrays[name] = array
    if rng.random() < 0.05:
        del arrays[name]
    return pack(arrays)


def use(fleet: Fleet, plant: Plant) -> None:
    """Steps of a fleet that was loaded from changed bytes: they may raise the package's errors only."""
    try:
        for name in fleet.units:
            fleet.act(name, None)
        play(fleet, plant, "az", 3)
        work = fleet.work
        if work is not None:
            fleet.adopt(work.run())
        fleet.to_bytes()
    except PSRLError:
        pass


@pytest.mark.parametrize("name", ["finite", "dirichlet", "unknown sensor", "density"])
@pytest.mark.parametrize("wait", [True, False])
def test_changed_files_are_refused_or_harmless(name: str, wait: bool) -> None:
    fleet, plant = fleet_of(name)
    fleet = fleet if not wait else Fleet(PRIORS[name], seed=3, budget=fleet.budget)
    play(fleet, plant, "ab", 8 if "density" in name else 30, every=3)
    if not wait and name != "finite":
        until(fleet, plant, "ab", "plan")
    data, rng, refused = fleet.to_bytes(), np.random.default_rng((len(name), wait)), 0
    for _ in range(25):
        changed = hostile(data, rng)
        try:
            found = Fleet.from_bytes(changed)
        except (InvalidModelError, ParseError):
            refused += 1
        else:
            use(found, deepcopy(plant))
    assert refused > 5


@pytest.mark.parametrize("name", ["dirichlet", "unknown sensor", "learned density"])
@pytest.mark.parametrize("kind", ["plan", "refresh"])
def test_changed_results_are_refused_or_harmless(name: str, kind: str) -> None:
    """A refused result changes nothing."""
    fleet, plant = fleet_of(name)
    data = until(fleet, plant, "ab", kind).run()
    play(fleet, plant, "abc", 2)
    good, rng, refused = fleet.to_bytes(), np.random.default_rng(len(name + kind)), 0
    for _ in range(20):
        changed, twin = hostile(data, rng), Fleet.from_bytes(good)
        try:
            used = twin.adopt(changed)
        except (InvalidModelError, ParseError):
            refused += 1
            assert twin.to_bytes() == good
        else:
            assert used or twin.to_bytes() == good
            use(twin, deepcopy(plant))
    assert refused > 5
