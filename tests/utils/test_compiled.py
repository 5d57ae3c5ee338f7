"""Compiled code that is kept on disk, and thrown away when it is old."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import subprocess
import sys
import threading
from fractions import Fraction
from math import inf, isnan, nextafter
from pathlib import Path
from struct import pack, unpack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import njit

import psrl_pomdp as pp
from psrl_pomdp._numba import background
from psrl_pomdp._numba import fma as exact
from psrl_pomdp._numba import jit as compiled
from psrl_pomdp._numba.jit import AnyLoop, Group, Loop, invalidate_stale_cache, running
from psrl_pomdp._numba.machine_code import UniqueCacheFile
from psrl_pomdp.inference.refresh import hamiltonian
from psrl_pomdp.planning.interpolation import pricing
from psrl_pomdp.planning.interpolation.pricing import LIST
from psrl_pomdp.planning.lower.certificate import LowerCertificate
from psrl_pomdp.planning.upper import nodes
from psrl_pomdp.sensors.dirichlet import DirichletCosts, DirichletSensor
from psrl_pomdp.simulation import warmup
from psrl_pomdp.studies import experiment, jobs
from psrl_pomdp.studies.results import jobs_of
from psrl_pomdp.studies.study import study_from

PACKAGE = Path(pp.__file__).parent


def test_compiled_code_is_deleted_when_a_module_with_compiled_functions_has_changed(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    sources = [tmp_path / "one.py", tmp_path / "part" / "other.py"]
    kept = [
        tmp_path / "__pycache__" / "one.f-1.nbi",
        tmp_path / "part" / "__pycache__" / "other.g-1.nbc",
        tmp_path / "__pycache__" / "compiled-planning-0",
    ]
    for path in sources:
        path.write_text("from .jit import jit\n")

    def compile_and_start() -> list[bool]:
        for path in kept:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"")
        invalidate_stale_cache(tmp_path)
        return [path.exists() for path in kept]

    assert compile_and_start() == [False] * 3  # nothing tells which modules it was made from
    assert compile_and_start() == [True] * 3
    os.utime(sources[1], (1, 1))  # the same code
    assert compile_and_start() == [True] * 3
    sources[1].write_text("from .jit import jit  # and changed\n")
    assert compile_and_start() == [False] * 3
    assert compile_and_start() == [True] * 3
    (tmp_path / "plain.py").write_text("")
    assert compile_and_start() == [True] * 3
    (tmp_path / "new.py").write_text("from numba import njit\n")
    assert compile_and_start() == [False] * 3
    (tmp_path / ".#new.py").symlink_to("an editor's mark, which is no file")
    assert compile_and_start() == [True] * 3


def test_a_folder_that_cannot_be_written_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("")
    (tmp_path / "__pycache__").write_text("not a folder")
    invalidate_stale_cache(tmp_path)
    assert (tmp_path / "__pycache__").read_text() == "not a folder"


def test_two_processes_that_keep_code_at_one_time_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    """One writes what it has compiled after the other has written, and has noted its name before."""
    one, other = (UniqueCacheFile(str(tmp_path), "belief.predict-1", "stamp") for _ in range(2))
    index, late = one._load_index(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one, "_save_data", lambda name, code: late.append((name, code)))
        one.save("for two states", "code for two")
        patch.setattr(other, "_load_index", lambda: index)
        other.save("for three states", "code for three")
    one._save_data(*late[0])
    assert one.load("for three states") == "code for three"
    assert one.load("for two states") is None  # lost, and compiled again by whoever needs it
    one.save("for two states", "code for two")
    assert other.load("for two states") == "code for two"
    assert other.load("for three states") == "code for three"


def loops() -> list[AnyLoop]:
    """All functions of loops in modules that need nothing else installed."""
    for path in PACKAGE.rglob("*.py"):
        if "compiled import" in path.read_text():
            importlib.import_module(
                ".".join(("psrl_pomdp", *path.relative_to(PACKAGE).with_suffix("").parts))
            )
    return [loop for group in compiled.GROUPS for loop in group.loops]


def test_every_function_that_numba_compiles_is_marked() -> None:
    sources = [path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "machine_code.py"]
    assert [text for text in sources if re.search(r"^(?:from|import) numba", text, flags=re.MULTILINE)] == []
    assert len(loops()) > 100


def test_no_rounding_is_left_to_the_compiler() -> None:
    """It would depend on what else a process has compiled, and results on that."""
    free = [set(loop.targetoptions.get("fastmath", ())) - {"nnan", "nsz"} for loop in loops()]
    assert set().union(*free) == set()


# -- products that are rounded once ------------------------------------------------------------------


def exactly(a: float, b: float, c: float) -> float:
    """a b + c by fractions, for finite numbers whose result is no zero."""
    total = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return inf if total > 0 else -inf


def hard_triples() -> list[tuple[float, float, float]]:
    rng = np.random.default_rng(1)

    def some(exponent: int, count: int) -> list[float]:
        sizes = 2.0 ** rng.integers(-exponent, exponent, count).astype(float)
        return list((rng.choice([-1.0, 1.0], count) * rng.random(count) * sizes).tolist())

    ordinary = list(zip(some(30, 2000), some(30, 2000), some(30, 2000), strict=True))
    canceling = [(a, b, -a * b) for a, b, _ in ordinary[:500]]
    nearly = [(a, b, nextafter(-a * b, 0.0)) for a, b, _ in ordinary[:500]]
    extreme = list(zip(some(535, 2000), some(535, 2000), some(1020, 2000), strict=True))
    bits = [unpack("3d", rng.bytes(24)) for _ in range(2000)]
    halves = [1.0 + 2.0**-k for k in range(20, 53)]
    ties = [
        (half, 2.0**-53 * other, one) for half in halves for other in halves[::4] for one in (1.0, -1.0, half)
    ]
    tiny = [(2.0**-537 * a, 2.0**-537 * b, 5e-324 * round(100 * c)) for a, b, c in ordinary[:500]]
    return [*ordinary, *canceling, *nearly, *extreme, *bits, *ties, *tiny]


@pytest.mark.parametrize("fma", [exact.by_halves, exact.fma])
def test_a_product_and_a_sum_are_rounded_once(fma: Any) -> None:
    different = 0
    for a, b, c in hard_triples():
        if not all(map(np.isfinite, (a, b, c))):
            continue
        wanted = exactly(a, b, c)
        assert wanted == fma(a, b, c), (a, b, c)
        with np.errstate(all="ignore"):
            different += wanted != float(np.float64(a) * np.float64(b) + np.float64(c))
    assert different > 1000


def test_compiled_code_rounds_products_and_sums_as_python_does() -> None:
    fma = compiled.fma
    machine = njit(lambda a, b, c: fma(a, b, c))
    specials = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e308, inf, -inf, float("nan")]
    triples = [(a, b, c) for a in specials for b in specials for c in specials]
    for a, b, c in triples + hard_triples():
        ours, own = fma(a, b, c), machine(a, b, c)
        assert pack("d", ours) == pack("d", own) or (isnan(ours) and isnan(own)), (a, b, c)


# -- interpreted and compiled ------------------------------------------------------------------------


def drawn_model(seed: int, n_states: int, n_actions: int, n_readings: int) -> pp.POMDP:
    rng = np.random.default_rng(seed)
    setting = pp.Setting(
        rng.dirichlet(np.ones(n_readings), size=n_states),
        rng.random((n_actions, n_states)),
        np.full(n_states, 1.0 / n_states),
    )
    return pp.POMDP(setting, rng.dirichlet(np.ones(n_states), size=(n_actions, n_states)))


def drawn_prior(n_states: int) -> pp.DirichletPrior:
    model = drawn_model(0, n_states, 2, 2)
    return pp.DirichletPrior(model.setting, np.ones(model.transition.shape))


def learned_tables() -> pp.DirichletPrior:
    """A prior with an unknown observation model and unknown costs."""
    model = drawn_model(0, 3, 2, 2)
    sensor, costs = DirichletSensor(np.ones((3, 2))), DirichletCosts([0.0, 1.0], np.ones((2, 3, 2)))
    return pp.DirichletPrior(model.setting, np.ones((2, 3, 3)), sensor=sensor, costs=costs)


MODELS = {
    **{name: (name, 2e-2) for name in ("tiger", "railway", "random", "separated", "two-rooms", "river-swim")},
    "many points": ("railway", 3e-5),
    **{
        f"drawn-{n_states}": ((n_states, n_states, 2, 3), 5e-2)
        for n_states in (2, 3, 5, 7, 8, 9, 12)
    },
}  # fmt: skip


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_is_the_same_interpreted_and_compiled(name: str) -> None:
    what, tolerance = MODELS[name]
    model = pp.problem(what) if isinstance(what, str) else drawn_model(*what)
    found = []
    for way in (True, False):
        with running(way):
            plan = pp.plan(model, tolerance)
        grid, own = plan.grid, plan.controller
        assert isinstance(grid, LowerCertificate)
        found.append(
            (
                plan.status,
                [(r.lower, r.upper, r.points, r.nodes, r.work) for r in plan.rounds],
                digest(grid.points, grid.values, grid.basis, grid.weights, grid.parents),
                digest(own.actions, own.successors, own.vectors),
            )
        )
    assert found[0] == found[1]


AGENTS = (
    {"kind": "psrl", "name": "family", "prior": "finite"},
    {"kind": "psrl", "name": "rows", "prior": "dirichlet"},
    {"kind": "random"},
    {"kind": "ba-pomcp", "options": {"n_simulations": 20}},
)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.get("name", agent["kind"]))
def test_a_result_has_the_same_bytes_interpreted_and_compiled(agent: dict[str, Any]) -> None:
    study = study_from(
        {
            "title": "both",
            "problem": "railway",
            "horizon": 40,
            "seeds": 2,
            "tolerance": 1e-2,
            "agents": [agent],
        }
    )
    job = jobs_of(study)[0]
    found = []
    for way in (True, False):
        with running(way):
            experiment._last = None  # which holds the plan of the true model
            found.append(jobs.perform(study, job))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "prior",
    [pp.problem("tiger").prior, drawn_prior(9), learned_tables()],
    ids=["tiger", "nine states", "learned tables"],
)
def test_an_ensemble_does_the_same_interpreted_and_compiled(prior: pp.DirichletPrior) -> None:
    found = []
    for way in (True, False):
        with running(way):
            agent = pp.PSRLAgent(
                prior, seed=1, budget=pp.PlanningBudget(min_tolerance=0.2, max_tolerance=0.2)
            )
            reading = None if prior.setting.first_observation is None else 0
            costs = [None] * 8 if prior.costs is None else [0.0, 1.0, None, 1.0] * 2
            actions = [agent.act(reading), *(agent.act(k % 2, cost) for k, cost in enumerate(costs))]
            own: Any = agent.posterior
            own.refresh()
            moved = hamiltonian(own._rows, own._log_rows, own.histories, own._space, own.tuning, own._rng)
            found.append((actions, digest(own.weights, own.kernels, own.expected_counts, moved)))
    assert found[0] == found[1]


# -- when what runs ----------------------------------------------------------------------------------


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Group:
    """A group that runs interpreted at first, whatever the tests run, and whose code is in a folder."""
    monkeypatch.setattr(compiled, "_CODE", "")
    monkeypatch.setattr(compiled, "on_disk", lambda what: tmp_path / what)
    return Group("test")


def counted(group: Group, monkeypatch: pytest.MonkeyPatch) -> tuple[Loop[int, int], list[str]]:
    """A function of the group, and in which way its calls went."""
    ways: list[str] = []

    def function(more: int) -> int:
        ways.append("interpreted")
        return loop(more - 1) if more else 1

    def compiled_function(more: int) -> int:
        ways.append("compiled")
        return 1

    monkeypatch.setattr(compiled, "LEARNING", group)
    loop = Loop(function, {})
    loop._dispatcher = compiled_function
    return loop, ways


def test_code_on_disk_is_used_when_interpreting_has_taken_a_little(
    group: Group, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loop, ways = counted(group, monkeypatch)
    loop(0)
    group._spent = 10.0
    monkeypatch.setattr(group, "ask", lambda: ways.append("asks"))
    loop(0)
    group._patience = 0.0
    (tmp_path / "test").touch()
    loop(0)
    loop(0)
    assert ways == ["interpreted", "asks", "interpreted", "compiled", "compiled"]
    group.want("more")  # which is not there
    loop(0)
    assert ways[-1] == "interpreted"


def test_a_long_call_goes_over_to_compiled_code_in_its_midst(
    group: Group, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loop, ways = counted(group, monkeypatch)
    (tmp_path / "test").touch()
    clock = iter(np.arange(0.0, 10.0, 0.1).tolist())
    monkeypatch.setattr(compiled, "perf_counter", lambda: next(clock))
    assert loop(100) == 1
    assert ways == ["interpreted"] * 3 + ["compiled"]


@pytest.mark.parametrize("code", [0, 1])
def test_another_process_compiles_and_only_one_does(
    group: Group, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """With nothing to show for it in the folder, which may be one that nobody can write to."""
    begun = []

    def start(what: list[str]) -> subprocess.Popen[bytes]:
        begun.append(what)
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])

    monkeypatch.setattr(background, "start", start)
    group.ask()
    group.ask()
    assert begun == [["test"]]
    assert group._helper is not None
    group._helper.wait()
    assert group.ready() == (code == 0)
    group.ask()
    assert begun == [["test"]]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("wait", [True, False])
def test_long_work_waits_for_compiled_code_if_told_to(
    group: Group, monkeypatch: pytest.MonkeyPatch, code: int, wait: bool
) -> None:
    """Where the other process fails, it compiles by itself."""
    words = f"import time; time.sleep(0.2); raise SystemExit({code})"
    monkeypatch.setattr(background, "start", lambda _: subprocess.Popen([sys.executable, "-c", words]))
    loop, ways = counted(group, monkeypatch)
    group.hurry(wait)
    loop(0)
    assert ways == ["compiled" if wait else "interpreted"]
    if group._helper is not None:
        group._helper.wait()


def test_nobody_waits_for_a_process_that_cannot_be_started(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "start", lambda _: None)
    monkeypatch.setattr(compiled, "sleep", lambda _: pytest.fail("it waits"))
    loop, ways = counted(group, monkeypatch)
    group.hurry(wait=True)
    loop(0)
    assert ways == ["compiled"]


def test_an_interrupt_while_time_is_measured_does_no_harm(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call from outside is still one: its time counts once, and it returns Python's numbers."""
    clock = iter([0.0, np.nan, 1.0, 3.0])

    def perf_counter() -> float:
        now = next(clock)
        if np.isnan(now):
            raise KeyboardInterrupt
        return now

    loop, _ = counted(group, monkeypatch)
    monkeypatch.setattr(compiled, "perf_counter", perf_counter)
    with pytest.raises(KeyboardInterrupt):
        loop(0)
    loop(0)
    assert group._spent == 2.0


def test_threads_may_find_together_that_compiling_is_over(group: Group) -> None:
    class Ended:
        returncode = 0

        def poll(self) -> int:
            group._helper = None  # as another thread does at this moment
            return self.returncode

    group._helper = Ended()  # type: ignore[assignment]
    group._asked_for = {"test"}
    assert group.ready()


@pytest.mark.parametrize("code", ["compile", "1", " "])
def test_an_unknown_way_to_run_is_refused(code: str) -> None:
    """In place of one that is not what was meant."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "PSRL_POMDP_CODE": code}
    command = [sys.executable, "-c", "import psrl_pomdp._numba.jit"]
    found = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode == 1
    assert f"the environment variable PSRL_POMDP_CODE is {code!r}" in found.stderr


@pytest.mark.parametrize("system", ["nt", "posix"])
def test_a_process_that_compiles_leaves_with_its_parent_where_the_system_tells(
    monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """On Windows the parent may seem to be another one: the launcher of a virtual environment."""
    left: list[int] = []
    done: list[str] = []
    monkeypatch.setattr(warmup, "os", SimpleNamespace(name=system, getppid=lambda: 1, _exit=left.append))
    monkeypatch.setattr(warmup, "compile_once", done.append)
    monkeypatch.setattr(threading, "Thread", ThreadAtOnce)
    warmup.main(2, ["learning"])
    assert left == ([1] if system == "posix" else [])
    assert done == ["learning"]


class ThreadAtOnce:
    """A thread that is over when it was started."""

    def __init__(self, target: Any, args: tuple[int], daemon: bool) -> None:
        self.start = lambda: target(*args)


def test_what_is_compiled_once_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done: list[str] = []
    monkeypatch.setattr(compiled, "on_disk", lambda what: tmp_path / "new" / what)
    monkeypatch.setattr(warmup, "rehearse", done.append)
    for what in ("planning", "planning", "finite-3"):
        warmup.compile_once(what)
    assert done == ["planning", "finite-3"]


SWEEPS = """
import sys
import numpy as np
from numba.core import event
from psrl_pomdp import compiled, problem
from psrl_pomdp.planning.markov.chains import stationary
from psrl_pomdp.planning.dynamics import Dynamics

class Told(event.Listener):
    def on_start(self, _event): pass
    def on_end(self, happened):
        name = happened.data["dispatcher"].py_func
        if name.__module__.startswith("psrl"): print(name.__name__)

event.register("numba:compile", Told())
compiled.PLANNING.compile()
mass = np.full((1, 2), 0.5)
factors = Dynamics.of(problem("tiger")).factors
print(stationary(factors, np.zeros(1, int), np.zeros((1, 2), int), mass, 0.9, 1e-9, 5), mass.tolist())
"""


def test_what_a_function_calls_is_loaded_before_it(tmp_path: Path) -> None:
    """Two processes compile at one time; then one loads; then one finds that something is missing."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}

    def begin() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SWEEPS]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def words(process: subprocess.Popen[str]) -> list[str]:
        out, _ = process.communicate()
        assert process.returncode == 0
        return out.splitlines()

    first, second = map(words, [begin(), begin()])
    assert first[-1] == second[-1]
    functions = ["apply_entries_transposed", "propagate", "apply_transposed", "stationary"]
    assert sorted({*first[:-1], *second[:-1]}) == sorted(functions)
    for made in (first[:-1], second[:-1]):  # in this order, but for what the other one had kept by then
        assert made == [name for name in functions if name in made]
    assert words(begin()) == first[-1:]
    for path in tmp_path.rglob("chains.apply_transposed*"):
        path.unlink()
    assert words(begin()) == ["apply_transposed", first[-1]]
    assert words(begin()) == first[-1:]


def test_the_best_vector_is_the_same_by_arrays() -> None:
    """Ties and values that rounding alone tells apart included."""
    rng = np.random.default_rng(3)
    for n_states in (1, 2, 4, 9):
        for n_vectors in (1, 2, 7, 300):
            vectors = rng.standard_normal((n_vectors, n_states)).round(int(rng.integers(1, 17)))
            vectors = np.concatenate([vectors, vectors[::-1], np.nextafter(vectors, 1.0)])
            belief = rng.dirichlet(np.ones(n_states))
            assert nodes._best_by_arrays(vectors, belief) == nodes.best_vector.py_func(vectors, belief)


def test_arrays_round_products_and_sums_as_numbers_do() -> None:
    triples = [t for t in hard_triples() if all(map(np.isfinite, t))]
    with np.errstate(all="ignore"):
        for a in [*sorted({t[0] for t in triples})[::200], 0.0, 1e-300]:
            b, c = np.array([t[1] for t in triples]), np.array([t[2] for t in triples])
            wanted = np.array([exact.by_halves(a, *pair) for pair in zip(b, c, strict=True)])
            assert exact.by_arrays(a, b, c).tobytes() == wanted.tobytes()


def test_prices_in_python_are_those_of_the_loop() -> None:
    rng = np.random.default_rng(2)
    for n, m in ((1, 1), (7, 2), (60, 3), (200, 4), (97, 5), (300, 9)):
        points, rows = rng.random((m + 1, n)) * (rng.random((m + 1, n)) < 0.7), rng.permutation(m + 1)[:m]
        worth = np.where(rng.random(n) < 0.2, -1e300, rng.normal(size=n))
        dual, found = rng.normal(size=m), []
        for prices in (pricing._prices.py_func, pricing._prices_by_arrays):
            out, tops = np.empty(n), np.zeros(LIST)
            with np.errstate(all="ignore"):
                prices(points, worth, n, rows, m, dual, out)
            for best in (pricing._bunch_maxima.py_func, pricing._bunch_maxima_by_arrays):
                found.append((best(out, n, (n + LIST - 1) // LIST, tops), out.tobytes(), tops.tobytes()))
        assert len(set(found)) == 1


REHEARSED = """
import numpy as np
import psrl_pomdp as pp
from numba.core import event
from psrl_pomdp._numba import jit as compiled
from psrl_pomdp.simulation import warmup

class Told(event.Listener):
    def on_start(self, _event): pass
    def on_end(self, happened): print(happened.data["dispatcher"].py_func.__qualname__, happened.data["args"])

for what in ("planning", "learning", "finite-3", "dirichlet-3"):
    warmup.rehearse(what)
event.register("numba:compile", Told())
for name in ("tiger", "railway", "two-rooms", "machine-repair", "separated"):
    pp.plan(pp.problem(name), 1e-3)
world = pp.problem("railway")
for prior in (world.family, world.prior):
    for driver in ("compiled", "streaming"):
        agent = pp.PSRLAgent(prior, seed=1)
        trace = pp.simulate(world, agent, 300, seed=1, driver=driver)
        agent.act(None)
        agent.info
        agent = pp.PSRLAgent.from_bytes(agent.to_bytes())
        agent.act(1)
        trace.control_variate_sums(pp.plan(world, 1e-2))
print([group.compiled for group in compiled.GROUPS])
"""


def test_no_agent_compiles_anything_after_its_rehearsal() -> None:
    command, environment = [sys.executable, "-c", REHEARSED], os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[True, True]"], done.stdout + done.stderr
