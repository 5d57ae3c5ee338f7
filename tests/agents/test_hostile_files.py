"""Files made to do harm are refused or harmless: a small, seeded run of the benchmark, and chosen cases."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    DirichletPrior,
    FinitePrior,
    ParseError,
    Plan,
    PSRLAgent,
    PSRLError,
    Simulation,
    plan,
    problem,
)
from psrl_pomdp._serialization import archives
from psrl_pomdp._serialization.archives import pack, unpack

FAMILY = FinitePrior(problem("separated").setting, problem("separated").family.kernels)  # type: ignore[union-attr]
AGENT = PSRLAgent(FAMILY, seed=1)
for _reading in [0, 1, 2, 3, 1, 0] * 5:
    AGENT.act(_reading)
AGENT_BYTES = AGENT.to_bytes()


@pytest.fixture(scope="module")
def hostile() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "hostile_files.py"
    spec = spec_from_file_location("hostile_files", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["hostile_files"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="children are measured by /proc")
def test_two_hundred_of_them(hostile: ModuleType, tmp_path: Path) -> None:
    for case in hostile.cases(tmp_path):
        for kind, tally in hostile.attack(case, 25, 11, tmp_path).items():
            assert tally.crashed == tally.foreign == 0, (case.name, kind, tally.examples)
            assert tally.megabytes < hostile.MEGABYTES
            assert tally.harmless or kind != hostile.UNCHANGED


def changed(data: bytes, **arrays: Any) -> bytes:
    """The archive with some of its arrays replaced, sealed."""
    return pack(unpack(data, "good") | arrays)


def member(data: bytes, name: str, change: Callable[[Any], None]) -> bytes:
    array = unpack(data, "good")[name]
    change(array)
    return changed(data, **{name: array})


def put(where: Any, value: float) -> Callable[[Any], None]:
    def change(array: Any) -> None:
        array[where] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("node", put(0, 10**6), "node contains a number outside"),
        ("clock", put(0, -7), "clock contains a number outside"),
        ("clock", put(0, 29), "clock says t = 29, the posterior 30"),
        ("clock", put(1, 10**6), "the schedule does not"),
        ("clock", put(3, 1), "the present episode is over"),
        ("pseudo", put((0, 0), 5), "pseudo is not what can follow"),
        ("used", put(0, np.nan), "used contains a number that is not finite"),
        ("used", put((0, 0), 0.9), "used, the belief, does not sum to 1"),
        ("kernel", put((0, 0, 0), 0.9), "kernel has a row that does not sum to 1"),
        (
            "kernel",
            lambda array: array.__setitem__(slice(None), array[::-1].copy()),
            "used_kernel is not the kernel",
        ),
        ("kernels", lambda array: array.sort(axis=0), "saved under another prior|does not sum|sums to"),
        ("posterior.time", put((), 31), "do not sum to the number of steps, 30"),
        ("posterior.belief", put((0, 0), 0.9), "belief has a column that sums neither to 1 nor to 0"),
        ("posterior.counts", put((0, 0, 0, 0), -1.0), "counts contains a number outside"),
        ("posterior.product", put(slice(None), 0.0), "product and scale give no kernel a positive weight"),
        ("posterior.scale", put(0, 0.77), "scale is not the exponential of log_weight"),
        ("posterior.expected", put((0, 0), 29.0), "expected do not sum to the number of steps"),
    ],
)
def test_what_an_agent_says_is_held_against_its_prior(
    name: str, change: Callable[[Any], None], message: str
) -> None:
    with pytest.raises(PSRLError, match=message):
        PSRLAgent.from_bytes(member(AGENT_BYTES, name, change))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("posterior.history", put(3, 65535), r"history contains a number outside \[0, "),
        (
            "posterior.history_start",
            lambda array: array.fill(0.2),
            "not the belief after any possible first observation",
        ),
        ("posterior.log_rows", put((0, 0, 0), 0.0), "log_rows"),
        ("posterior.possible", put(slice(None), 0.0), "possible excludes a state that has positive belief"),
        ("posterior.size", put((), 10**9), "size is 1000000000"),
        ("posterior.tuning_step", put((), np.inf), "tuning_step contains a number that is not finite"),
        ("posterior.tuning_refreshes", put((), -1), "tuning_refreshes is -1"),
        ("posterior.used_belief", put((0, 0), 0.77), "used_belief has a column that sums neither"),
        ("row", put((0, 0), 10**9), "row contains a number outside"),
    ],
)
def test_what_rows_of_a_dirichlet_prior_say_is_checked(
    name: str, change: Callable[[Any], None], message: str
) -> None:
    model = problem("railway")
    agent = PSRLAgent(DirichletPrior(model.setting, np.ones_like(model.transition)), seed=1)
    for reading in [0, 1, 2, 3, 1, 0] * 5:
        agent.act(reading)
    agent.posterior.sample(np.random.default_rng(0))
    data = agent.to_bytes()
    assert PSRLAgent.from_bytes(data).act(0) == agent.act(0)
    with pytest.raises(PSRLError, match=message):
        PSRLAgent.from_bytes(member(data, name, change))


def test_plans_in_agents_are_for_the_kernels_that_they_are_kept_for() -> None:
    members = unpack(AGENT_BYTES, "good")
    names = sorted(name for name in members if name.startswith("plan."))
    other = plan(problem("separated", focus=0.8), 1e-2)
    with pytest.raises(ParseError, match="for another kernel"):
        PSRLAgent.from_bytes(changed(AGENT_BYTES, **{names[0]: np.frombuffer(other.to_bytes(), np.uint8)}))
    wrong = member(members[names[0]].tobytes(), "node_successors", put((0, 0), 10**6))
    with pytest.raises(ParseError, match="node_successors contains a number outside"):
        PSRLAgent.from_bytes(changed(AGENT_BYTES, **{names[0]: np.frombuffer(wrong, np.uint8)}))


# -- archives -----------------------------------------------------------------------------------


def test_a_seal_that_is_wrong_or_missing_is_noticed() -> None:
    members = unpack(AGENT_BYTES, "good")
    parts = {name: archives.npy_bytes(array) for name, array in members.items()}
    without, _ = archives._zipped(parts, set())
    with pytest.raises(ParseError, match="its seal is missing"):
        PSRLAgent.from_bytes(without)
    parts["seal"] = archives.npy_bytes(np.zeros(32, np.uint8))
    wrong, _ = archives._zipped(parts, set())
    with pytest.raises(ParseError, match="its seal does not match its contents"):
        PSRLAgent.from_bytes(wrong)


@pytest.mark.parametrize(
    "arrays",
    [
        {"zeros": np.zeros((1000, 5000))},
        {f"zeros {i}": np.zeros((100, 1000)) for i in range(100)},
        {"text": np.full(20 << 20, ord("["), np.uint8)},
        {"ones": np.ones(3_000_000), "noise": np.random.default_rng(0).random(10_000)},
        {},
    ],
)
def test_what_we_pack_can_always_be_unpacked(arrays: dict[str, Any]) -> None:
    """However well it shrinks, and as an archive in an archive in an archive."""
    data = pack(arrays)
    for _ in range(2):
        data = pack({"inner": np.frombuffer(data, np.uint8)})
    room = archives.SizeLimit.for_file(data)
    room.left -= archives._ALWAYS
    for _ in range(2):
        data = unpack(data, "x", room)["inner"].tobytes()
    again = unpack(data, "x", room)
    assert again.keys() == arrays.keys()
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)


def _zipped(content: bytes, name: str = "x.npy", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def _npy(header: str, rest: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + rest


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_zipped(bytes(50 << 20)), "too large to unpack"),
        (_zipped(bytes(10), method=zipfile.ZIP_LZMA), "has an unsupported compression method"),
        (_zipped(bytes(10), "x.txt"), "is not an array"),
        (_zipped(b"no array"), "does not start with the header of an array"),
        (
            _zipped(_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}")),
            "0 bytes are no",
        ),
        (
            _zipped(_npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8))),
            "it contains object",
        ),
        (
            _zipped(_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", bytes(8))),
            "are not float64",
        ),
        (
            _zipped(_npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", bytes(8))),
            "unexpected entries",
        ),
        (_zipped(_npy("(" * 9000)), "not an archive of arrays"),
        (_zipped(_npy("-" * 9000 + "1")), "not an archive of arrays"),
    ],
)
def test_archives_that_are_none_of_ours(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        unpack(data, "x.npz")


def test_a_member_that_says_less_than_it_unpacks_to_is_cut_there() -> None:
    """The size in the directory is what was asked for room: no more is ever made."""
    data = bytearray(_zipped(bytes(40 << 20)))
    size = (40 << 20).to_bytes(4, "little")
    while (at := data.find(size)) >= 0:
        data[at : at + 4] = (100).to_bytes(4, "little")
    with pytest.raises(ParseError):
        unpack(bytes(data), "x.npz")


# -- plans, runs and folders -----------------------------------------------------------------------


def test_whatever_a_plan_file_may_hold_its_methods_fail_in_our_way() -> None:
    model = problem("two-rooms")
    found = plan(model, 1e-3)
    assert found.depends_on_start
    data = found.to_bytes()
    for name in ("gains", "node_gains", "node_vectors", "values"):
        odd = Plan.from_bytes(member(data, name, put(0, 1e99)), "odd")
        belief = np.full(model.n_states, 1.0 / model.n_states)
        assert len(odd.bounds(belief)) == 2
        assert odd.follow(belief).action >= 0
        assert "Plan(" in repr(odd)


def test_a_kept_run_that_was_rewritten_changes_nothing() -> None:
    world = problem("separated")
    whole = Simulation(world, PSRLAgent(FAMILY, seed=1), 3)
    trace = whole.until(200)
    run = Simulation(world, PSRLAgent(FAMILY, seed=1), 3)
    run.until(100)
    data, fresh = run.to_bytes(), Simulation(world, PSRLAgent(FAMILY, seed=1), 3)
    cases = [
        ("actions", put(5, 9), "actions contains a number outside"),
        ("readings", put(5, 60000), "readings contains a number outside"),
        ("world.present", put(0, 10**6), "world.present"),
        ("world.belief", put(0, np.nan), "world.belief contains a number that is not finite"),
        ("world.visits", put((0, 0), 99), "world.visits do not add up"),
        ("taken.times", put(0, 2), "taken.times are not the times"),
        ("agent", put(slice(50, 60), 0), "agent|archive"),
    ]
    for name, change, message in cases:
        with pytest.raises(PSRLError, match=message):
            fresh.resume(member(data, name, change))
        assert fresh.time == 0
    fresh.resume(data)
    assert (fresh.until(200).actions == trace.actions).all()


def test_folders_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.npz").mkdir()
    for load in (PSRLAgent.load, Plan.load):
        with pytest.raises(ParseError, match=r"x\.npz: a folder, not a file"):
            load(tmp_path / "x.npz")
        with pytest.raises(ParseError, match="no such file") as caught:
            load(tmp_path / "absent.npz")
        assert isinstance(caught.value, FileNotFoundError)
