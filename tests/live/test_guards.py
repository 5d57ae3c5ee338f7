"""Rules of a plant, and the file that has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from plants import PLANT

from psrl_pomdp import InvalidModelError, ParseError, problem
from psrl_pomdp.live.config import PlantFile, plant_from, read_plant
from psrl_pomdp.live.events import LiveError
from psrl_pomdp.live.guards import Moment, permitted, read_guard

SETTING = problem("machine-repair").setting  # manufacture, examine, inspect, replace
DAY = 86400.0


def moment(
    belief: tuple[float, ...] = (0.5, 0.3, 0.2),
    reading: int | None = 0,
    step: int = 10,
    time: float = 10 * DAY,
    done: list[tuple[int, float, int]] | None = None,
) -> Moment:
    return Moment(belief, reading, step, time, done or [], done or [])


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("never manufacture when P(two-bad) > .1", {0}),
        ("never manufacture when P(two-bad) > .2", set()),
        ("never manufacture when P(two-bad) >= 0.2", {0}),
        ("never manufacture when P(two-bad) < 1 and P(none-bad) > .6", set()),
        ("never manufacture when P(two-bad) > .5 or P(none-bad) <= .5", {0}),
        ("always inspect when reading is good", {0, 1, 3}),
        ("always inspect when reading is not good.", set()),
        ("never replace when reading is lost", set()),
        ("at most one inspect a day", {2}),
        ("at most 2 inspect a day", set()),
        ("at most one inspect in 3 steps", {2}),
        ("at most one inspect in 2 steps", set()),
        ("at most two inspects a week", {2}),
        ("at most one inspect per hour", set()),
    ],
)
def test_a_sentence_forbids_what_it_says(text: str, forbidden: set[int]) -> None:
    """Inspections were at steps 8 and 2, half a day and six days ago."""
    done = [(2, 4.0 * DAY, 2), (8, 9.5 * DAY, 2), (9, 9.9 * DAY, 0)]
    assert read_guard(text, SETTING).forbids(moment(done=done)) == forbidden


def test_a_lost_reading_is_not_high() -> None:
    assert read_guard("never replace when reading is lost", SETTING).forbids(moment(reading=None)) == {3}
    assert read_guard("never replace when reading is not good", SETTING).forbids(moment(reading=None)) == {3}


def test_several_rules_add_up() -> None:
    texts = ("never manufacture when P(two-bad) > .1", "at most no replace a day")
    found = permitted([read_guard(text, SETTING) for text in texts], moment(), 4)
    assert found[0] == {1, 2}
    assert found[1] == texts


def test_numbers_are_compared_where_readings_are_numbers() -> None:
    setting = problem("railway-gaussian").setting
    action = setting.actions[0]
    guard = read_guard(f"never {action} when reading > 2.5", setting)
    assert guard.forbids(Moment((1.0,) * setting.n_states, 3.0, 1, 0.0, [], []))
    assert not guard.forbids(Moment((1.0,) * setting.n_states, None, 1, 0.0, [], []))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("never", "no rule that is understood"),
        ("never manufactur when P(two-bad) > 1", "did you mean 'manufacture'"),
        ("never manufacture when P(twobad) > 1", "did you mean 'two-bad'"),
        ("never manufacture when P(two-bad) > high", "no condition"),
        ("never manufacture when reading is goood", "did you mean 'good'"),
        ("never manufacture when reading > 3", "write 'reading is NAME'"),
        ("at most lots inspect a day", "'lots' is no number"),
        ("at most one inspect in 3 steps for the plant", "no common steps"),
    ],
)
def test_a_sentence_that_is_not_understood_says_why(text: str, part: str) -> None:
    with pytest.raises(InvalidModelError) as error:
        read_guard(text, SETTING)
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"fallbck": "run"}, "fallbck is no key of a plant (did you mean 'fallback'?)"),
        ({"seed": "one"}, "seed: "),
        ({"seed": -1}, "seed is -1"),
        ({"deadline": 0.0}, "deadline is 0"),
        ({"limits": {"bodie": 1}}, "limits.bodie is no key of a plant (did you mean 'body'?)"),
        ({"limits": {"rate": -1.0}}, "limits.rate is -1"),
        ({"limits": {"body": "x"}}, "limits.body: "),
        ({"units": "all"}, "units is 'all'"),
        ({"units": ["a b"]}, "units: 'a b' is no name"),
        ({"guards": "x"}, "guards: "),
        ({"schedule": "dubling"}, "schedule: "),
        ({"budget": {"rtoll": 1.0}}, "budget.rtoll is no key of a plant (did you mean 'rtol'?)"),
        ({"watch": 2.0}, "watch is 2"),
        ({"model": ""}, "model is empty"),
    ],
)
def test_every_error_of_a_plant_file_names_the_key(change: dict[str, object], part: str) -> None:
    with pytest.raises(ParseError) as error:
        plant_from({**PLANT, **change}, "plant.toml")
    assert str(error.value).startswith("plant.toml: ")
    assert part in str(error.value)


def test_a_missing_key_is_named() -> None:
    for key in ("model", "fallback"):
        with pytest.raises(ParseError, match=f"{key} is missing"):
            plant_from({name: value for name, value in PLANT.items() if name != key})


def test_the_model_the_prior_and_the_fallback_are_checked_by_key(tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text('model = "pump.json"\nfallback = "run"\n', "utf-8")
    found = read_plant(tmp_path / "plant.toml")
    assert found.name == "plant"
    with pytest.raises(LiveError, match=r"plant: model: .*pump\.json"):
        found.make_model()
    with pytest.raises(LiveError, match="machines: fallback: 'run' is no action"):
        plant_from({**PLANT, "fallback": "run"}).fallback_action(SETTING)
    with pytest.raises(LiveError, match="machines: prior: 'dirichlt' is not among the priors"):
        plant_from({**PLANT, "prior": "dirichlt"}).make_prior(problem("machine-repair"))
    with pytest.raises(LiveError, match=r"machines: guards\[1\]: "):
        plant_from({**PLANT, "guards": ["never replace when reading is lost", "x"]}).make_guards(SETTING)
    (tmp_path / "plant.toml").write_text("model = ", "utf-8")
    with pytest.raises(ParseError, match="not a plant in TOML"):
        read_plant(tmp_path / "plant.toml")


def test_a_model_file_lies_beside_the_plant_file(tmp_path: Path) -> None:
    from psrl_pomdp import save

    save(problem("machine-repair"), tmp_path / "machine.json")
    (tmp_path / "plant.toml").write_text(
        'model = "machine.json"\nfallback = 3\nprior = "dirichlet"\n', "utf-8"
    )
    found: PlantFile = read_plant(tmp_path / "plant.toml")
    model = found.make_model()
    assert model.setting.fingerprint == problem("machine-repair").setting.fingerprint
    assert found.fallback_action(model.setting) == 3
    assert found.make_prior(model).setting.n_states == 3
