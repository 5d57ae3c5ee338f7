"""Our worlds as Gymnasium environments, and Gymnasium's environments as worlds for our agents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    FinitePrior,
    InvalidModelError,
    OutOfOrderError,
    PSRLAgent,
    RandomAgent,
    Setting,
    UnknownNameError,
    plan,
    problem,
    save,
    simulate,
)
from psrl_pomdp.problems import catalogue
from psrl_pomdp.sensors import ContinuousSensor

pytest.importorskip("gymnasium", reason='gymnasium is not installed: pip install "psrl-pomdp[gym]"')

import gymnasium
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

from psrl_pomdp.gym import NOTHING, EnvironmentLearner, POMDPEnv, learner_for, run_on_env

NAMES = [entry.name for entry in catalogue()]


def made(name: str, **told: Any) -> Any:
    return gymnasium.make(f"psrl_pomdp.gym:{name}-v0", **told)


# -- our worlds as environments -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*A Box observation space m")  # a density has no bounds
@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_finds_nothing_to_complain_of(name: str) -> None:
    check_env(made(name).unwrapped)  # every warning is an error here


def possible(setting: Setting, action: int, before: int, state: int, reading: Any) -> bool:
    """Return whether the observation is possible after a transition."""
    if isinstance(setting.sensor, ContinuousSensor):
        return bool(setting.sensor.log_likelihood(action, np.asarray(reading))[0, state] > -np.inf)
    place = (action, before) if setting.sensor_depends_on_previous else (action,)
    return bool(setting.observation[(*place, state, reading)] > 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_rewards_and_the_readings_are_those_of_the_model(name: str) -> None:
    env = made(name)
    model = env.unwrapped.model
    setting = model.setting
    first, info = env.reset(seed=3)
    assert env.action_space == Discrete(setting.n_actions)
    if setting.is_finite:
        assert (env.observation_space.n > setting.n_observations) == (not setting.has_first_observation)
        assert (first == setting.n_observations) == (not setting.has_first_observation)
    else:
        assert isinstance(env.observation_space, Box)
        assert np.isnan(first).all() == (not setting.has_first_observation)
    rng, sign = np.random.default_rng(4), 1.0 if setting.units.kind == "reward" else -1.0
    for _ in range(50):
        before, action = info["state"], int(rng.integers(setting.n_actions))
        reading, reward, terminated, truncated, info = env.step(action)
        assert reward == sign * setting.own_cost[action, before]
        assert possible(setting, action, before, info["state"], reading)
        assert model.transition[action, before, info["state"]] > 0
        assert (terminated, truncated, sorted(info)) == (False, False, ["state"])


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    def run(seed: int) -> list[Any]:
        env = made("railway")
        env.reset(seed=seed)
        return [env.step(t % 2) for t in range(40)]

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_a_reset_without_a_seed_goes_on_with_the_same_stream() -> None:
    env = POMDPEnv("random")
    env.reset(seed=1)
    starts = [env.reset()[1]["state"] for _ in range(30)]
    assert len(set(starts)) > 1  # 3 states at random: all the same with chance below 1e-13
    env.reset(seed=1)
    assert [env.reset()[1]["state"] for _ in range(30)] == starts


@pytest.mark.parametrize("name", ["tiger", "railway", "random-readout"])
def test_the_world_is_that_of_simulate(name: str) -> None:
    world = problem(name)
    agents = [PSRLAgent(world.prior, seed=1) for _ in range(2)]
    trace = simulate(world, agents[0], 300, seed=7)
    run = run_on_env(agents[1], POMDPEnv(world), 300, seed=7)
    assert run.first_reading == (NOTHING if trace.first_observation is None else trace.first_observation)
    assert (run.actions == trace.actions).all()
    assert (run.readings == trace.observations).all()
    sign = 1.0 if world.setting.units.kind == "reward" else -1.0
    assert run.average_reward == pytest.approx(sign * trace.average_cost, rel=1e-12)


def test_parameters_models_and_files(tmp_path: Path) -> None:
    assert made("tiger", accuracy=0.7).unwrapped.model == problem("tiger", accuracy=0.7)
    model = problem("machine-repair")
    file = tmp_path / "machine.json"
    save(model, file)
    for given in (model, file, str(file)):
        env = made("model", model=given)
        assert env.unwrapped.model.setting.cost.tobytes() == model.setting.cost.tobytes()
        check_env(env.unwrapped)


def test_truncated_by_a_time_limit_alone() -> None:
    env = made("random", max_episode_steps=7)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_several_at_once(mode: str) -> None:
    told = {"context": "spawn"} if mode == "async" else {}  # a fork of a process with threads is a warning
    several = gymnasium.make_vec(
        "psrl_pomdp.gym:random-readout-v0", 2, vectorization_mode=mode, vector_kwargs=told
    )
    alone = [made("random-readout") for _ in range(2)]
    first, _ = several.reset(seed=11)  # the second one gets the next seed
    assert first.tolist() == [int(env.reset(seed=11 + i)[0]) for i, env in enumerate(alone)]
    for t in range(10):
        actions = np.array([t % 3, (t + 1) % 3])
        readings, rewards, terminated, truncated, infos = several.step(actions)
        wanted = [env.step(action) for env, action in zip(alone, actions, strict=True)]
        assert readings.tolist() == [int(step[0]) for step in wanted]
        assert rewards.tolist() == [step[1] for step in wanted]
        assert infos["state"].tolist() == [step[4]["state"] for step in wanted]
        assert not terminated.any()
        assert not truncated.any()
    several.close()


def test_wrong_words_are_named() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'tiger'"):
        POMDPEnv("tigre")
    with pytest.raises(UnknownNameError, match=r"no parameter 'acuracy'"):
        made("tiger", acuracy=0.9)
    with pytest.raises(InvalidModelError, match=r"parameter 'accuracy': only problems"):
        POMDPEnv(problem("tiger"), accuracy=0.9)
    with pytest.raises(InvalidModelError, match="a dict is neither a POMDP nor a name nor a file"):
        POMDPEnv({})  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="render_mode 'human'"):
        POMDPEnv("tiger", render_mode="human")
    env = POMDPEnv("tiger")
    with pytest.raises(OutOfOrderError, match="step before reset"):
        env.step(0)
    with pytest.raises(InvalidModelError, match="no option 'state'"):
        env.reset(options={"state": 1})
    env.reset()
    with pytest.raises(UnknownNameError, match=r"action 3 is out of range: \w+ are numbered 0 to 2"):
        env.step(3)


def test_whoever_does_not_ask_for_gymnasium_does_not_load_it() -> None:
    words = "import sys, psrl_pomdp as p; p.simulate, p.problem; assert 'gymnasium' not in sys.modules"
    subprocess.run([sys.executable, "-c", words], check=True, timeout=60)


# -- their environments as worlds ---------------------------------------------------------------------


class Corridor(gymnasium.Env[np.int64, np.int64]):
    """Cells 5, 6, 7: step right (action 3) or stay (action 2); the end is reached at 7."""

    observation_space = Discrete(3, start=5)
    action_space: gymnasium.Space[Any] = Discrete(2, start=2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.cell = 5
        return np.int64(self.cell), {}

    def step(self, action: Any) -> Any:
        assert isinstance(action, np.int64)
        self.cell += int(action) - 2
        return np.int64(self.cell), float(self.cell == 7), self.cell == 7, False, {}


class Script:
    """Plays what is written, and remembers what it was told."""

    def __init__(self, actions: list[int]) -> None:
        self.actions, self.told = list(actions), list[int | None]()

    def act(self, observation: int | None) -> int:
        self.told.append(observation)
        return self.actions.pop(0)


def test_at_an_end_the_agent_is_told_the_next_beginning() -> None:
    agent = Script([1, 0, 1, 1, 1])
    run = run_on_env(agent, Corridor(), 5)
    assert run.first_reading == 0
    assert run.readings.tolist() == [1, 1, 0, 1, 0]
    assert agent.told == [0, 1, 1, 0, 1]
    assert run.rewards.tolist() == [0, 0, 1, 0, 1]
    assert run.ended.tolist() == [False, False, True, False, True]
    assert run.average_reward == 0.4


def test_learning_to_walk_a_corridor() -> None:
    """Seen through clear glass, with restarts among the dynamics: the best is a reward every other step."""
    clear, cost = np.eye(3), np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    setting = Setting(clear, cost, [1.0, 0.0, 0.0])
    run = run_on_env(PSRLAgent(DirichletPrior(setting, np.ones((2, 3, 3))), seed=0), Corridor(), 600)
    assert run.rewards[300:].mean() > 0.45


def test_psrl_learns_on_the_environment() -> None:
    """Over the second half, nine tenths of the way from random play to the best: over 40 seeds the mean way
    was 1.00 and its deviation 0.022, so that a false alarm takes 4.5 deviations (3e-6)."""
    world = problem("separated")
    assert isinstance(world.family, FinitePrior)
    best = -plan(world, 1e-4).upper
    env = made("separated")
    idle = run_on_env(RandomAgent(world.n_actions), env, 4000, seed=1).average_reward
    run = run_on_env(PSRLAgent(world.family, seed=1), env, 4000, seed=2)
    assert (run.rewards[2000:].mean() - idle) / (best - idle) > 0.9


def test_nothing_read_at_a_restart_is_a_lost_reading() -> None:
    agent = Script([0] * 6)
    run = run_on_env(agent, made("tiger", max_episode_steps=3), 6, seed=0)
    assert [told is None for told in agent.told] == [True, False, False, True, False, False]
    assert (run.readings == NOTHING).tolist() == run.ended.tolist()
    learner = PSRLAgent(problem("tiger").prior)
    run = run_on_env(learner, made("tiger", max_episode_steps=3), 30, seed=0)
    assert run.ended.sum() == 10


def test_what_does_not_fit_is_named() -> None:
    world = problem("random")  # 3 states, 3 actions, 3 readings
    agent = PSRLAgent(world.prior)
    with pytest.raises(InvalidModelError, match=r"observation space is Box.*: a Discrete one is wanted"):
        run_on_env(agent, gymnasium.make("CartPole-v1"), 10)
    corridor = Corridor()
    corridor.action_space = Box(-1.0, 1.0)
    with pytest.raises(InvalidModelError, match=r"action space is Box"):
        run_on_env(agent, corridor, 10)
    with pytest.raises(InvalidModelError, match="has 2 actions, and the agent was told 3"):
        run_on_env(agent, Corridor(), 10)
    with pytest.raises(InvalidModelError, match="has 5 observations, and the agent was told 3"):
        run_on_env(agent, POMDPEnv("random", n_observations=5), 10)
    with pytest.raises(InvalidModelError, match="a SyncVectorEnv is not a single"):
        run_on_env(agent, gymnasium.make_vec("psrl_pomdp.gym:random-v0", 2), 10)  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="horizon is 0"):
        run_on_env(agent, POMDPEnv(world), 0)
    blind = PSRLAgent(DirichletPrior(_without_first(world), np.ones((3, 3, 3))))
    with pytest.raises(InvalidModelError, match="told that nothing is"):
        run_on_env(blind, POMDPEnv(world), 10)
    with pytest.raises(InvalidModelError, match=r"chose action 9 at step 1"):
        run_on_env(Script([9]), POMDPEnv(world), 10)
    run_on_env(agent, POMDPEnv(world), 5)
    with pytest.raises(InvalidModelError, match="has lived for 5 steps"):
        run_on_env(agent, POMDPEnv(world), 5)


def _without_first(world: POMDP) -> Setting:
    own = world.setting
    return Setting(own.observation, own.cost, own.initial, None, units=own.units)


_ORDERS = {
    "gymnasium first": "import gymnasium, psrl_pomdp",
    "psrl_pomdp first": "import psrl_pomdp, gymnasium",
    "gymnasium alone": "import gymnasium",
    "a part of psrl_pomdp first": "from psrl_pomdp import problem; import gymnasium",
    "its own environments first": "import psrl_pomdp.gym, gymnasium",
    "looked for before": "import psrl_pomdp, importlib.util as u; u.find_spec('gymnasium'); import gymnasium",
    "a part of gymnasium first": "import psrl_pomdp; from gymnasium.spaces import Discrete; import gymnasium",
}


def in_a_fresh_process(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("imports", _ORDERS.values(), ids=_ORDERS.keys())
def test_the_short_id_works_whichever_package_was_imported_first(imports: str) -> None:
    made = "gymnasium.make('psrl_pomdp:tiger-v0', accuracy=0.9).reset(seed=1)[0]"
    assert in_a_fresh_process(f"{imports}; print({made})") == "2"


def test_waiting_for_gymnasium_imports_nothing_and_leaves_its_module_as_it_is() -> None:
    script = """
import sys, importlib.util
import psrl_pomdp
assert "gymnasium" not in sys.modules and "numpy" not in sys.modules
here = "psrl_pomdp.integrations.registration"
assert [type(f).__module__ for f in sys.meta_path].count(here) == 1
import gymnasium
assert here not in [type(f).__module__ for f in sys.meta_path]
assert type(gymnasium.__loader__).__module__ != here
assert gymnasium.__spec__.loader is gymnasium.__loader__
assert "numba" not in sys.modules
import importlib
importlib.reload(psrl_pomdp)
print(len([name for name in gymnasium.registry if name == "tiger-v0"]))
"""
    assert in_a_fresh_process(script) == "1"


def test_an_id_that_somebody_else_has_taken_is_left_alone() -> None:
    script = """
import gymnasium
gymnasium.register("tiger-v0", entry_point="elsewhere:Tiger")
import psrl_pomdp
print(gymnasium.spec("tiger-v0").entry_point, gymnasium.spec("railway-v0").entry_point)
"""
    assert in_a_fresh_process(script) == "elsewhere:Tiger psrl_pomdp.gym:POMDPEnv"


class Meter(gymnasium.Env[Any, Any]):
    """A machine that wears out, with a vibration meter. Nothing is known of it but its spaces."""

    def __init__(self, observation_space: Any, rate: float = 0.1) -> None:
        self.observation_space, self.action_space, self.rate = observation_space, Discrete(2, start=1), rate
        self.worn = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.worn = False
        return self.reading(), {}

    def reading(self) -> Any:
        noise = self.np_random.normal(0.0, 0.3)
        if isinstance(self.observation_space, Box):
            return np.array([2.0 * self.worn + noise, self.np_random.normal()])
        return int(self.np_random.random() < (0.9 if self.worn else 0.1))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        replaced = action == 2
        reward = -2.0 if replaced else (-5.0 if self.worn else 1.0)
        self.worn = not replaced and (self.worn or self.np_random.random() < self.rate)
        return self.reading(), reward, False, False, {}


@pytest.mark.parametrize("space", [Discrete(2), Box(-np.inf, np.inf, (2,))])
def test_an_agent_learns_in_an_environment_of_which_nothing_is_known(space: Any) -> None:
    """Random play earns −2.2 a step, never replacing −5, knowing everything about .6; the last 1,000 of 2,000
    steps have a standard error of about .1."""
    learner = learner_for(Meter(space), n_states=2, explore=300, seed=1)
    run = run_on_env(learner, Meter(space), 2000, seed=2)
    assert run.rewards[1000:].mean() > 0.0
    assert learner.time == 2000
    assert set(run.actions.tolist()) == {0, 1}
    if isinstance(space, Box):
        assert run.readings.shape == (2000, 2)
        assert learner.discretization.n_observations == 8
    found = learner.agent.posterior.sample_model(np.random.default_rng(0)).setting
    assert set(np.round(found.seen_cost.values, 6)) == {-5.0, -2.0, 1.0}


def test_without_an_agent_one_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_on_env(None, Meter(Discrete(2)), 50, seed=3)
    assert len(run.rewards) == 50


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n_states": 0}, "n_states is 0"),
        ({"classes": 1}, "classes is 1"),
        ({"rewards": True}, "rewards is True"),
        ({"explore": 2.5}, "explore is 2.5"),
    ],
)
def test_mistakes_in_the_arguments_of_a_learner_are_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidModelError, match=says):
        learner_for(Meter(Discrete(2)), **arguments)


def test_a_reward_that_is_not_finite_is_refused() -> None:
    class Broken(Meter):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            observation, _, *rest = super().step(action)
            return observation, float("nan"), *rest

    with pytest.raises(InvalidModelError, match="a reward that is not finite"):
        learner_for(Broken(Discrete(2)))


def test_a_reward_between_two_values_is_rounded_to_the_nearer_one() -> None:
    learner = learner_for(Meter(Discrete(2)), n_states=2, explore=200, seed=1)
    assert isinstance(learner, EnvironmentLearner)
    assert [learner.discretization.reward(r) for r in (-9.0, -2.4, -0.6, 7.0)] == [-5.0, -2.0, -2.0, 1.0]
