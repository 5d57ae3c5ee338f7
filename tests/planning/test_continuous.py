"""Plans for densities of observations: bounds against known answers, simulation, checks and files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    CertificateError,
    InvalidModelError,
    ParseError,
    Plan,
    Setting,
    StartDependentError,
    plan,
    problem,
    verify,
)
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.planning import optimal_gain
from psrl_pomdp.planning.continuous import Rung
from psrl_pomdp.planning.lower.informed import InformedCertificate
from psrl_pomdp.planning.upper.controllers import ControllerSearch
from psrl_pomdp.sensors import (
    DensitySensor,
    GammaSensor,
    GaussianSensor,
    MixtureSensor,
    NegativeBinomialSensor,
    PoissonSensor,
    ScalarSensor,
    SensorBase,
    StudentSensor,
    by_action,
    with_outliers,
)

COST = np.array([[0.0, 0.28, 0.8], [0.4, 0.47, 0.6]])
WEAR = np.array(
    [
        [[0.88, 0.10, 0.02], [0.0, 0.88, 0.12], [0.0, 0.0, 1.0]],
        [[1.0, 0.0, 0.0], [0.95, 0.05, 0.0], [0.95, 0.0, 0.05]],
    ]
)
START = np.array([1.0, 0.0, 0.0])


def wear(sensor: SensorBase, **changes: Any) -> POMDP:
    return POMDP(Setting(sensor, COST, START, **changes), WEAR)


def railway() -> POMDP:
    model = problem("railway")
    sensor = GaussianSensor([1.0, 0.0, -1.0], [1.0, 0.5, 0.2])
    return POMDP(
        model.setting.replace(observation=sensor, first_observation=sensor, observations=None),
        model.transition,
    )


FAMILIES: dict[str, ScalarSensor] = {
    "gaussian": GaussianSensor([0.0, 1.0, 2.0], [1.0, 0.7, 1.2]),
    "student": StudentSensor([0.0, 1.0, 2.0], np.ones(3), 2.0),
    "gamma": GammaSensor([0.5, 2.0, 3.0], [1.0, 1.0, 0.5]),
    "poisson": PoissonSensor([1.0, 2.0, 6.0]),
    "negative binomial": NegativeBinomialSensor([1.0, 4.0, 10.0], 2.0 * np.ones(3)),
    "mixture": MixtureSensor(
        [GaussianSensor([0.0, 1.0, 2.0], 0.5 * np.ones(3)), GaussianSensor(np.ones(3), 4 * np.ones(3))],
        [0.8, 0.2],
    ),
    "outliers": with_outliers(GaussianSensor([0.0, 1.0, 2.0], 0.4 * np.ones(3)), 0.01),
}


# -- bounds ---------------------------------------------------------------------------------------


def averages(model: POMDP, found: Plan, rng: np.random.Generator, runs: int, steps: int) -> Array:
    """The average scaled cost of each run of the policy at exact beliefs."""
    setting, sensor = model.setting, model.setting.sensor
    assert isinstance(sensor, ScalarSensor)
    states = rng.choice(3, runs, p=setting.initial)
    beliefs = np.tile(setting.initial, (runs, 1))
    if setting.first_sensor is not None:
        beliefs = updated(beliefs, sensor, 0, sensor.draw(rng, 0, states))
    vectors, actions = found.controller.vectors, found.controller.actions
    total = np.zeros(runs)
    cumulated = np.cumsum(model.transition, axis=2)
    for _ in range(steps):
        chosen = actions[(beliefs @ vectors.T).argmin(axis=1)]
        total += setting.cost[chosen, states]
        uniform = rng.random((runs, 1))
        states = np.minimum((cumulated[chosen, states] < uniform).sum(axis=1), 2)
        beliefs = np.einsum("ns,nst->nt", beliefs, model.transition[chosen])
        for a in range(setting.n_actions):
            here = chosen == a
            if here.any():
                beliefs[here] = updated(beliefs[here], sensor, a, sensor.draw(rng, a, states[here]))
    return total / steps


def updated(beliefs: Array, sensor: ScalarSensor, action: int, readings: Array) -> Array:
    log = sensor.log_likelihood(action, readings)
    after = beliefs * np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(after / after.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", FAMILIES)
def test_policies_at_exact_beliefs_cost_what_the_bounds_say(name: str) -> None:
    """400 runs of 600 steps; z-scores of 4.5 on either side: false alarms in 1e-5 of all runs of this test.

    The start takes 300 steps more or less, which the span of the vectors bounds.
    """
    model = wear(FAMILIES[name])
    found = plan(model, tolerance=2e-3)
    assert found.status == "closed"
    costs = averages(model, found, np.random.default_rng(7), 400, 600)
    error = 4.5 * costs.std() / 20.0 + 2.0 * np.ptp(found.controller.vectors) / 600
    assert found.lower_cost - error <= costs.mean() <= found.upper_cost + error
    assert error < 0.01
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-10)


def test_intervals_for_more_cells_are_inside_and_meet() -> None:
    model = railway()
    intervals = []
    for tolerance in (1e-2, 3e-3, 1e-3, 1e-4):
        found = plan(model, tolerance)
        assert found.status in ("closed", "coarse")
        assert found.gap <= tolerance
        intervals.append((found.lower_cost, found.upper_cost))
    lower, upper = np.array(intervals).T
    assert lower.max() <= upper.min()
    # The costs 10, 100 and 800 of the railway; the value is that of a plan with a gap of 3e-5.
    assert found.lower <= 68.974 <= found.upper


def test_the_bounds_are_between_those_of_the_finite_models() -> None:
    """The interval contains the value of no finite sensor below or above, but is between them."""
    model = railway()
    found = plan(model, 1e-4)
    for n_cells in (3, 6):
        below = plan(POMDP(model.setting.quantized(n_cells), model.transition), 1e-5)
        above = plan(POMDP(model.setting.dilated(n_cells), model.transition), 1e-5)
        assert above.lower_cost < found.lower_cost < found.upper_cost < below.upper_cost


def test_sharp_readings_are_as_good_as_the_states_and_equal_ones_worthless() -> None:
    full = float(optimal_gain(WEAR, COST).max())
    sharp = plan(wear(GaussianSensor([0.0, 1.0, 2.0], 0.02 * np.ones(3))), 1e-6)
    assert sharp.lower_cost <= full + 1e-9
    assert full <= sharp.upper_cost
    assert sharp.gap <= 1e-6
    blind = plan(POMDP(Setting(np.ones((3, 1)), COST, START), WEAR), 1e-7)
    equal = plan(wear(GaussianSensor(np.zeros(3), np.ones(3))), 1e-4)
    assert equal.lower_cost <= blind.upper_cost
    assert blind.lower_cost <= equal.upper_cost
    assert equal.gap <= 1e-4


def test_sensors_that_differ_by_action() -> None:
    sensor = GaussianSensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    model = wear(sensor)
    found = plan(model, 1e-3)
    assert found.gap <= 1e-3
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-10)
    # The second sensor says nothing, as if there were no reading after the second action.
    silent = plan(wear(by_action([GaussianSensor([0.0, 1.0, 2.0], np.ones(3)), None])), 1e-3)
    assert found.lower_cost <= silent.upper_cost
    assert silent.lower_cost <= found.upper_cost
    costs = averages(model, found, np.random.default_rng(3), 400, 600)
    error = 4.5 * costs.std() / 20.0 + 2.0 * np.ptp(found.controller.vectors) / 600
    assert found.lower_cost - error <= costs.mean() <= found.upper_cost + error


def test_rewards_and_units() -> None:
    sensor = FAMILIES["gaussian"]
    setting = Setting.from_rewards(sensor, 10.0 * (1.0 - COST), START, units="euro")
    found, same = plan(POMDP(setting, WEAR), 1e-3), plan(wear(sensor), 1e-3)
    assert found.upper - found.lower == pytest.approx(10.0 * 0.8 * found.gap)
    assert found.lower <= 10.0 * (1.0 - same.lower_cost) + 1e-9
    assert found.upper >= 10.0 * (1.0 - same.upper_cost) - 1e-9
    assert found.quantized_setting is not None
    assert found.quantized_setting.units.kind == "reward"


class Doubtful(GaussianSensor):
    """A Gaussian whose masses may be wrong by 1e-5 each."""

    family = "doubtful"

    def interval_masses(self, action: int, edges: Array) -> tuple[Array, Array]:
        masses, errors = super().interval_masses(action, edges)
        return masses, errors + 1e-5


def test_errors_of_masses_widen_the_interval() -> None:
    """Bounds are those of any masses within the errors: by the error times the span, at least."""
    sure, doubtful = (wear(kind([0.0, 1.0, 2.0], np.ones(3))) for kind in (GaussianSensor, Doubtful))
    right, found = plan(sure, 1e-3), plan(doubtful, 0.1)
    assert found.bracket is not None
    assert found.bracket.cells.error > 8e-5 / 2
    exact = Rung.of(sure, found.cells or 0)
    search = ControllerSearch(exact.upper)
    controller = found.controller
    bound = search.evaluate(controller.actions, controller.successors, controller.vectors).bound
    least = 0.5 * found.bracket.cells.error * np.ptp(controller.vectors)
    assert found.upper_cost > bound + 0.9 * least
    assert found.lower_cost <= right.upper_cost
    assert right.lower_cost <= found.upper_cost
    assert verify(found, doubtful) == pytest.approx((found.lower, found.upper), abs=1e-9)
    with pytest.raises(CertificateError):
        verify(replace(found, upper_cost=bound), doubtful)


# -- policies -------------------------------------------------------------------------------------


def test_cells_of_readings() -> None:
    model = wear(FAMILIES["gaussian"])
    found = plan(model, 1e-2)
    setting = found.quantized_setting
    assert setting is not None
    assert found.cells == setting.n_observations
    assert found.bracket is not None
    edges = found.bracket.cells.of(0).edges
    for k in range(found.cells):
        assert found.cell(0, edges[k + 1]) == k  # the upper edge belongs to the interval
        assert found.cell(None, np.nextafter(edges[k], np.inf)) == k
    assert [found.cell(1, y) for y in (-1e9, 1e9)] == [0, found.cells - 1]
    run = found.follow(START)
    before = run.node
    run.read(0.3)
    assert run.node == found.controller.successors[before, found.cell(0, 0.3)]
    finite = plan(problem("tiger"), 1e-2)
    assert finite.cells is None
    assert finite.quantized_setting is None
    with pytest.raises(InvalidModelError, match="no cells"):
        finite.cell(0, 0.0)


ROOMS = POMDP(
    Setting(GaussianSensor([0.0, 1.0], [1.0, 1.0]), [[0.0, 0.9], [0.7, 0.1]], [0.5, 0.5]),
    np.stack([np.eye(2), np.eye(2)]),
)


def test_two_closed_rooms_are_told_apart_by_the_controller() -> None:
    """The room never changes, so that the optimum is the mean of 0 and .1; beliefs alone are no policy."""
    found = plan(ROOMS, 1e-3)
    assert found.depends_on_start
    assert found.gap <= 1e-3
    assert found.lower <= 0.05 + 1e-9
    assert found.upper >= 0.05 - 1e-9
    assert verify(found, ROOMS) == pytest.approx((found.lower, found.upper), abs=1e-9)
    assert found.bounds([1.0, 0.0])[1] < 0.01
    with pytest.raises(StartDependentError):
        found.action([0.5, 0.5])
    rng = np.random.default_rng(0)
    costs = []
    for room in (0, 1) * 100:
        # 100 runs in each room; a run of 400 steps ends in the wrong action with a probability below .01.
        run = found.follow(first_belief(rng, room))
        late = 0.0
        for step in range(400):
            late += (step >= 200) * ROOMS.setting.cost[run.action, room] / 200
            run.read(float(rng.normal(room, 1.0)))
        costs.append(late)
    # A wrong action costs .7 or .8 more, so that the mean has a standard error of at most .006.
    assert abs(np.mean(costs) - 0.05) < 0.03
    again = Plan.from_bytes(found.to_bytes(), "rooms")
    assert again.follow([0.5, 0.5]).node == found.follow([0.5, 0.5]).node


def first_belief(rng: np.random.Generator, room: int) -> Array:
    sensor = ROOMS.setting.sensor
    assert isinstance(sensor, ScalarSensor)
    found: Array = updated(np.array([[0.5, 0.5]]), sensor, 0, rng.normal(room, 1.0, 1))[0]
    return found


def test_controllers_for_few_cells_are_controllers_for_their_parts() -> None:
    """The bound of a controller does not change when cells are divided, but for the error of its values."""
    model = railway()
    few, many = Rung.of(model, 8), Rung.of(model, 32)
    found = plan(POMDP(few.bracket.quantized_setting, model.transition), 1e-4).controller
    search = ControllerSearch(many.upper)
    carried = search.evaluate(found.actions, many.carried(found, few.bracket.cells), found.vectors)
    assert carried.bound == pytest.approx(found.bound, abs=1e-6)


# -- limits ---------------------------------------------------------------------------------------


def test_plans_repeat_and_obey_limits() -> None:
    model = railway()
    first, second = plan(model, 1e-3), plan(model, 1e-3)
    timeless = [
        replace(each, rounds=tuple(replace(r, seconds=0.0) for r in each.rounds)) for each in (first, second)
    ]
    assert timeless[0].to_bytes() == timeless[1].to_bytes()
    brief = plan(model, 1e-6, max_work=3e7)
    assert brief.status == "work limit"
    assert verify(brief, model)[0] <= first.upper
    late = plan(model, 1e-6, time_limit=0.2)
    assert late.status == "time limit"
    verify(late, model)
    assert late.lower_cost <= first.upper_cost
    assert first.lower_cost <= late.upper_cost
    seen: list[float] = []
    plan(model, 1e-3, progress=lambda r: seen.append(r.upper - r.lower))
    assert (np.diff(seen) < 1e-9).all()
    assert len(seen) == len(first.rounds)


def test_ctrl_c_returns_the_best_plan() -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    found = plan(railway(), 1e-6, progress=stop)
    assert found.status == "interrupted"
    verify(found, railway())


def test_warm_starts_save_work_and_stay_valid() -> None:
    model = railway()
    found = plan(model, 1e-4)
    again = plan(model, 1e-4, warm_start=found)
    assert again.gap <= 1e-4
    assert again.rounds[-1].work < 0.7 * sum_of_work(found)
    near = POMDP(model.setting, 0.98 * model.transition + 0.02 / 3)
    moved = plan(near, 1e-4, warm_start=found)
    cold = plan(near, 1e-4)
    assert verify(moved, near) == pytest.approx((moved.lower, moved.upper), abs=1e-7)
    assert moved.lower_cost <= cold.upper_cost
    assert cold.lower_cost <= moved.upper_cost
    far = POMDP(model.setting, model.transition[::-1].copy())
    verify(plan(far, 1e-3, warm_start=found), far)
    with pytest.raises(InvalidModelError, match="another shape"):
        plan(model, warm_start=plan(problem("railway"), 1e-2))
    cells = POMDP(model.setting.quantized(found.cells or 0), model.transition)
    with pytest.raises(InvalidModelError, match="another shape"):
        plan(cells, warm_start=found)


def sum_of_work(found: Plan) -> float:
    """The work of all attempts: each counts from zero."""
    work = [r.work for r in found.rounds]
    return sum(w for w, after in zip(work, [*work[1:], 0.0], strict=True) if after < w)


def test_densities_that_depend_on_the_state_before_the_action_are_refused() -> None:
    sensor = DensitySensor(
        lambda y, a: np.zeros((len(y), 3, 3)),
        lambda rng, s, a, before: rng.normal(size=len(s)),
        3,
        depends_on_previous=True,
        name="x",
    )
    with pytest.raises(InvalidModelError, match="depend on the state before the action"):
        plan(wear(sensor), 1e-2)


# -- files ----------------------------------------------------------------------------------------


def test_plans_for_densities_survive_files() -> None:
    for model in (railway(), wear(by_action([FAMILIES["gaussian"], None]))):
        found = plan(model, 1e-3)
        again = Plan.from_bytes(found.to_bytes(), "plan")
        assert again.to_bytes() == found.to_bytes()
        assert verify(again, model) == verify(found, model)
        assert again.quantized_setting == found.quantized_setting
        assert again.cell(0, 0.3) == found.cell(0, 0.3)
        assert again.action(START) == found.action(START)


def test_tampered_plans_are_refused() -> None:
    model = railway()
    found = plan(model, 5e-3)
    assert found.bracket is not None
    cells, hubs = found.bracket.cells, found.bracket.hubs
    finer = cells.by_action[0].table.copy()
    finer[0, 0] += 1e-3
    finer[0, 1] -= 1e-3
    edges = cells.by_action[0].edges.copy()
    edges[3] += 1e-3
    with pytest.raises(CertificateError):
        verify(replace(found, lower_cost=found.lower_cost + 1e-6), model)
    with pytest.raises(CertificateError):
        verify(replace(found, upper_cost=found.upper_cost - 1e-6), model)
    changes: list[dict[str, Any]] = [{"table": finer}, {"edges": edges}]
    for change in changes:
        bad = replace(cells, by_action=(replace(cells.by_action[0], **change),), first=None)
        with pytest.raises(CertificateError):
            verify(replace(found, bracket=replace(found.bracket, cells=bad)), model)
        same = replace(bad, first=bad.by_action[0])
        setting = model.setting.replace(observation=same.table, first_observation=same.first_table)
        bracket = replace(found.bracket, cells=same, quantized_setting=setting)
        with pytest.raises(CertificateError, match=r"claims|add up"):
            verify(replace(found, bracket=bracket), model)
    swapped = replace(found.bracket, dilated_setting=found.bracket.quantized_setting)
    with pytest.raises(CertificateError, match="hubs"):
        verify(replace(found, bracket=swapped), model)
    with pytest.raises(CertificateError):
        verify(replace(found, bracket=None), model)
    other = POMDP(
        model.setting.replace(observation=FAMILIES["gaussian"], first_observation=FAMILIES["gaussian"]),
        model.transition,
    )
    with pytest.raises(CertificateError, match="another model"):
        verify(found, other)
    with pytest.raises(CertificateError):  # cells and hubs of another density
        verify(replace(found, fingerprint=other.fingerprint), other)
    assert hubs.n_observations == len(hubs.by_action[0].hubs)


def test_hostile_files_are_refused() -> None:
    data = unpack(plan(railway(), 1e-2).to_bytes(), "plan")
    sensors = [name for name in data if name.startswith(("cells.", "hubs.", "setting."))]
    assert len(sensors) == 16
    for name in sensors:
        array = data[name]
        wrong: list[Any] = [None, array[:-1], array[..., None], array.astype(str)]
        if array.dtype.kind == "f":
            wrong += [np.full_like(array, value) for value in (np.nan, np.inf, -1e300)]
        else:
            wrong += [np.full(array.shape, 10**6, np.int64), np.full(array.shape, -1, np.int64)]
        for value in wrong:
            with pytest.raises(ParseError):
                Plan.from_bytes(pack({**data, name: value}), "plan")


def test_models_that_are_too_large_for_dense_arrays() -> None:
    """With little memory, bounds on sparse arrays are looser, and as valid."""
    model = railway()
    right = plan(model, 1e-3)
    found = plan(model, 1e-2, memory_limit=1e5, max_work=3e8)
    assert isinstance(found.grid, InformedCertificate)
    assert found.lower_cost <= right.upper_cost
    assert right.lower_cost <= found.upper_cost
    assert found.gap < 0.1
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-7)
    assert verify(Plan.from_bytes(found.to_bytes(), "plan"), model)[0] <= right.upper
    again = plan(model, 1e-2, memory_limit=1e5, max_work=3e8, warm_start=found)
    assert again.upper_cost <= found.upper_cost + 1e-9


@pytest.mark.parametrize("n_states", [6, 8, 12])
def test_many_states(n_states: int) -> None:
    transition = np.zeros((2, n_states, n_states))
    transition[0] = 0.7 * np.eye(n_states) + 0.3 * np.eye(n_states, k=1)
    transition[0, -1, -1] = 1.0
    transition[1, :, 0] = 1.0
    cost = np.stack([np.linspace(0.0, 1.0, n_states) ** 2, np.full(n_states, 0.5)])
    sensor = GaussianSensor(np.arange(n_states), 1.5 * np.ones(n_states))
    model = POMDP(Setting(sensor, cost, np.eye(n_states)[0]), transition)
    found = plan(model, 1e-2)
    assert found.gap <= 1e-2
    assert verify(found, model) == pytest.approx((found.lower, found.upper), abs=1e-9)
