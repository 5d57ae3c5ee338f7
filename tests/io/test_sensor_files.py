"""Model files with observations that are real numbers, counts or vectors."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_fuzz import bounded_memory, fuzz, survives

from psrl_pomdp import POMDP, InvalidModelError, ParseError, Setting, load, save
from psrl_pomdp.io import MAX_ENTRIES
from psrl_pomdp.io.array_files import read_json, read_npz, write_json, write_npz
from psrl_pomdp.sensors import (
    DensitySensor,
    ExponentialSensor,
    GammaSensor,
    GaussianSensor,
    LogNormalSensor,
    MixtureSensor,
    MultivariateGaussianSensor,
    NegativeBinomialSensor,
    PoissonSensor,
    StudentSensor,
    by_action,
    with_outliers,
)
from psrl_pomdp.sensors.base import ContinuousSensor
from psrl_pomdp.sensors.records import FAMILIES, from_record, to_record

RNG = np.random.default_rng(0)
GAUSSIAN = GaussianSensor(RNG.normal(size=2), RNG.gamma(1.0, size=2))  # numbers of 17 digits
SENSORS: dict[str, ContinuousSensor] = {
    "gaussian": GAUSSIAN,
    "gaussian by action": GaussianSensor(RNG.normal(size=(2, 2)), RNG.gamma(1.0, size=2)),
    "student": StudentSensor([0.1, 0.2], [0.3, 1e-9], 2.7),
    "log-normal": LogNormalSensor([0.1, 1 / 3], [0.3, 0.7]),
    "gamma": GammaSensor([0.1, 1 / 3], [0.3, 1e30]),
    "exponential": ExponentialSensor([0.1, 1 / 3]),
    "poisson": PoissonSensor([0.0, 1 / 3]),
    "negative binomial": NegativeBinomialSensor([0.1, 1 / 3], [0.1, 9.0]),
    "mixture": MixtureSensor([GAUSSIAN, StudentSensor([0.1, 0.2], [0.3, 0.7])], RNG.dirichlet([1.0, 1.0], 2)),
    "outliers": with_outliers(GAUSSIAN),
    "vectors": MultivariateGaussianSensor(RNG.normal(size=(2, 3)), np.cov(RNG.normal(size=(3, 9)))),
    "silent": by_action([None, with_outliers(GAUSSIAN)]),
    "silent vectors": by_action([MultivariateGaussianSensor([[0.1], [0.2]], [[1 / 3]]), None]),
}
KERNEL = [[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]
COST = [[0.0, 3.0], [1.0, 1.0]]


def model(sensor: ContinuousSensor, **more: Any) -> POMDP:
    setting = Setting(sensor, COST, [1.0, 0.0], units="euro", states=["new", "worn"], **more)
    return POMDP(setting, KERNEL, name="wear", remarks=["made up"])


@pytest.mark.parametrize("name", SENSORS)
@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_files_are_exact(name: str, ending: str, tmp_path: Path) -> None:
    one = model(SENSORS[name])
    save(one, tmp_path / f"wear{ending}")
    again = load(tmp_path / f"wear{ending}")
    assert again == one
    assert again.setting.sensor == SENSORS[name]
    assert again.setting.first_sensor == one.setting.first_sensor
    assert (again.name, again.remarks, again.setting.names) == (one.name, one.remarks, one.setting.names)


@pytest.mark.parametrize(("writer", "reader"), [(write_json, read_json), (write_npz, read_npz)])
def test_the_first_sensor_is_kept(writer: Callable[..., bytes], reader: Callable[..., POMDP]) -> None:
    usual = model(GAUSSIAN)
    for first in (None, StudentSensor([0.0, 1.0], [1.0, 2.0]), GAUSSIAN):
        one = model(GAUSSIAN, first_observation=first)
        again = reader(writer(one), max_entries=MAX_ENTRIES)
        assert again.setting.first_sensor == first
        assert again == one
        assert (again == usual) == (
            first is GAUSSIAN
        )  # the default: the sensor does not depend on the action


def test_every_family_is_written() -> None:
    written = {record["family"] for record in map(to_record, SENSORS.values())}
    assert written == FAMILIES.keys() - {"exponential"}  # which is a gamma distribution


def test_a_file_may_be_written_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "hand.json"
    fields = {"transition": KERNEL, "reward": COST, "initial": [1, 0]}
    file.write_text(
        json.dumps(fields | {"sensor": {"family": "exponential", "means": [1, 2]}}), encoding="utf-8"
    )
    setting = load(file).setting
    assert setting.sensor == GammaSensor([1.0, 1.0], [1.0, 2.0])
    assert setting.first_sensor == setting.sensor
    assert setting.units.kind == "reward"
    mixture = {
        "family": "mixture", "weights": [0.5, 0.5],
        "components": [{"family": "student", "means": [0, 1], "scales": [1, 1]},
                       {"family": "gaussian", "means": [0, 1], "sds": [1, 1]}],
    }  # fmt: skip
    file.write_text(json.dumps(fields | {"sensor": mixture, "first_sensor": None}), encoding="utf-8")
    setting = load(file).setting
    assert setting.sensor.described() == "a mixture of 2 kinds of observations"
    assert setting.first_sensor is None


def functions(values: Any, action: int) -> Any:
    return np.zeros((len(values), 2))


def test_formats_that_cannot_represent_a_sensor_say_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match=r"Gaussian observations, which .pomdp files.*quantized\(K\)"):
        save(model(GAUSSIAN), tmp_path / "wear.pomdp")
    with pytest.raises(InvalidModelError, match=r"unknown ending '\.pomdpx'; known are"):
        save(model(GAUSSIAN), tmp_path / "wear.pomdpx")
    code = DensitySensor(functions, lambda *_: np.zeros(2), 2)
    for ending in (".json", ".npz"):
        with pytest.raises(InvalidModelError, match="DensitySensor contains code"):
            save(model(code), tmp_path / f"wear{ending}")
    assert list(tmp_path.iterdir()) == []


GOOD = {"family": "gaussian", "means": [0.0, 1.0], "sds": [1.0, 1.0]}


def nested(depth: int) -> dict[str, Any]:
    return GOOD if depth == 0 else {"family": "mixture", "components": [nested(depth - 1)], "weights": [1.0]}


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        ("gaussian", "Expected `object | null`, got `str`"),
        ({}, "sensor has the family None; known are gaussian, student"),
        ({"family": "gausian"}, r"sensor has the family 'gausian' \(did you mean 'gaussian'\?\)"),
        ({"family": ["gaussian"]}, r"sensor has the family \['gaussian'\]; known"),
        ({"family": "density"}, "sensor has the family 'density'"),
        ({**GOOD, "sd": 1}, r"of the family gaussian has no field 'sd' \(did you mean 'sds'\?\)"),
        ({**GOOD, "self": 1}, "has no field 'self'"),
        ({"family": "gaussian", "means": [0, 1]}, "lacks the field sds"),
        ({**GOOD, "means": "x"}, "sensor: means is not an array of numbers: 'x'"),
        ({**GOOD, "means": {"a": 1}}, "sensor: means is not an array of numbers"),
        ({**GOOD, "means": [[0, 1], [2]]}, "sensor: means is not an array of numbers"),
        ({**GOOD, "means": [0, None]}, "sensor: means is not an array of numbers"),
        ({**GOOD, "means": [0, 10**400]}, "sensor: means is not an array|not a model"),
        ({**GOOD, "sds": [1, -1]}, r"sensor: sds\[1\] is -1: it must be positive"),
        ({**GOOD, "means": [0, 1, 2], "sds": [1, 1, 1]}, "observation is a sensor for 3 states"),
        ({"family": "mixture", "components": GOOD, "weights": [1]}, "components is .*not a list of sensors"),
        ({"family": "mixture", "components": [None], "weights": [1]}, r"components\[0\] is None"),
        ({"family": "mixture", "components": [{"family": "x"}], "weights": [1]}, r"components\[0\] has the"),
        ({"family": "by-action", "parts": [3, None]}, r"sensor.parts\[0\] is 3, not an object"),
        ({"family": "by-action", "parts": [None] * 1000}, "parts has no sensor"),
        (nested(40), "nested too deeply"),
        ({"family": "poisson", "rates": [0.0] * 30_000}, "observation is a sensor for 30000 states"),
        ({**GOOD, "means": [0.0] * 60_000, "sds": [1.0] * 60_000}, "too large: the limit is 100000"),
        (
            {"family": "multivariate-gaussian", "means": [[0] * 300] * 2, "covariances": [[0] * 300] * 300},
            "too large: the limit is 100000",
        ),
    ],
)  # fmt: skip
def test_hostile_sensors_are_refused(sensor: Any, message: str) -> None:
    fields = {"transition": KERNEL, "cost": COST, "initial": [1, 0], "sensor": sensor}
    with pytest.raises(ParseError, match=message):
        read_json(json.dumps(fields).encode(), max_entries=100_000)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"observation": [[1.0], [1.0]]}, "give one of observation and sensor"),
        ({"sensor": None}, "give one of observation and sensor"),
        ({"first_observation": [[1.0], [1.0]]}, "first_observation goes with observation"),
        ({"observations": ["low", "high"]}, "a sensor has none"),
        ({"first_sensor": {"family": "poisson", "rates": [1, 2, 3]}}, "first_observation is PoissonSensor"),
        ({"first_sensor": {"family": "poisson", "rates": [[1, 2], [1, 2]]}}, "depends on an action"),
        ({"first_sensor": {"family": "poisson"}}, "first_sensor of the family poisson lacks the field rates"),
        (
            {"sensor": None, "observation": [[1.0], [1.0]], "first_sensor": None},
            "first_sensor goes with sensor",
        ),
        ({"cost": [[0.0] * 300] * 2, "initial": [1.0] * 300}, "too large: the limit is 100000"),
    ],
)
def test_fields_that_do_not_go_together(more: dict[str, Any], message: str) -> None:
    fields = {"transition": KERNEL, "cost": COST, "initial": [1, 0], "sensor": GOOD} | more
    with pytest.raises(ParseError, match=message):
        read_json(json.dumps(fields).encode(), max_entries=100_000)


def test_records_are_exact() -> None:
    for sensor in SENSORS.values():
        assert from_record(json.loads(json.dumps(to_record(sensor)))) == sensor


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from([0.5, 1, 2, *FAMILIES]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


def test_arbitrary_records_are_sensors_or_refused() -> None:
    """1,000 records of known families with their fields, of arbitrary JSON."""
    tried = {"sensors": 0, "refused": 0}
    short = st.lists(st.sampled_from([0.5, 1, 2.0, 0, -1, 1e999, None]), min_size=1, max_size=2)

    @fuzz(1_000)
    @given(st.data(), st.sampled_from(list(FAMILIES)))
    def run(data: st.DataObject, family: str) -> None:
        fields = inspect.signature(FAMILIES[family]).parameters
        record = {"family": family} | {name: data.draw(short | JSON) for name in fields}
        try:
            sensor = from_record(record)
        except InvalidModelError:
            tried["refused"] += 1
        else:
            tried["sensors"] += 1
            assert from_record(to_record(sensor)) == sensor

    run()
    assert tried["sensors"] > 50
    assert tried["refused"] > 300


@pytest.mark.parametrize(("reader", "writer"), [(read_json, write_json), (read_npz, write_npz)])
def test_damaged_files(reader: Callable[..., POMDP], writer: Callable[[POMDP], bytes]) -> None:
    """Bytes of files overwritten, cut out, and doubled."""
    good = [writer(model(SENSORS[name])) for name in ("outliers", "vectors", "silent")]

    @fuzz(500)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        changed = bytearray(data.draw(st.sampled_from(good)))
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(changed) - 1))
            stop = data.draw(st.integers(start, min(len(changed), start + 30)))
            changed[start:stop] = data.draw(st.binary(max_size=8) | st.just(bytes(changed[start:stop]) * 2))
            if not changed:
                break
        survives(reader, bytes(changed))

    with bounded_memory(3 * 2**30):
        run()
