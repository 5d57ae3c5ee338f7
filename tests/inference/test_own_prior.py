"""Priors of a user's own: their posteriors by other routes, moves, files, and both ways to run an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles import every_path
from own_priors import PUMP, ManyRates, WearPrior, WearWithGradient
from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    FinitePrior,
    ImpossibleObservationError,
    InvalidModelError,
    ParametricPrior,
    PlanningBudget,
    PSRLAgent,
    Setting,
    Simulation,
    UnknownNameError,
    bayesian_runs,
    check_posterior,
    simulate,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents.baselines.ba_pomcp import BAPOMCPAgent
from psrl_pomdp.agents.baselines.certainty import MAPAgent, MeanAgent
from psrl_pomdp.analysis.concentration import estimate_concentration
from psrl_pomdp.inference.moves import HMC, DifferentialEvolution, RandomWalk
from psrl_pomdp.inference.parameter_group import HistoryTarget
from psrl_pomdp.testing.calibration import replay
from psrl_pomdp.testing.calibration import simulate_from_prior as lived

pytestmark = pytest.mark.filterwarnings("ignore::psrl_pomdp.CoarsePlanWarning")

QUICK = PlanningBudget(min_tolerance=1e-2, max_tolerance=0.05, rtol=np.inf, max_work=2e6)
WEAR = WearPrior()
TRUTH = POMDP(PUMP, WEAR.kernels(np.array([[0.04, 0.1]]))[0])


def target_after(prior: ParametricPrior, length: int, seed: int) -> tuple[HistoryTarget, Any]:
    """The density of the parameters after some steps, and the steps."""
    rng = np.random.default_rng(seed)
    history = lived(prior, length, rng).history
    posterior = prior.posterior(rng)
    replay(posterior, history)
    return HistoryTarget(prior, posterior.histories, {}, np.full(2, 0.1)), history


# -- the likelihood and its gradient ----------------------------------------------------------------


def test_the_likelihood_is_the_sum_over_every_hidden_path() -> None:
    target, history = target_after(WEAR, 6, 1)
    parameters = WEAR.sample_parameters(np.random.default_rng(2), 5)
    start = np.repeat(PUMP.initial[None], 5, axis=0)
    exact = every_path(
        PUMP, WEAR.kernels(parameters), start, history.first, history.actions, history.observations
    )
    found = target.log_likelihood(parameters)
    assert found - found[0] == pytest.approx(np.log(exact.likelihood / exact.likelihood[0]), abs=1e-10)
    logs, transitions = target.expected_transitions(parameters)
    assert logs == pytest.approx(found, abs=1e-10)
    assert transitions.sum(axis=3) == pytest.approx(exact.visits, abs=1e-9)


def test_outside_of_the_support_the_density_is_zero() -> None:
    target, _ = target_after(WEAR, 20, 1)
    found = target.log_density(np.array([[0.1, 0.1], [-0.1, 0.1], [0.1, 1.2]]))
    assert np.isfinite(found[0])
    assert np.isneginf(found[1:]).all()
    assert np.isneginf(target.log_density(np.array([[2.0, 2.0]]))).all()


def test_the_score_is_the_slope_of_the_density() -> None:
    prior = WearWithGradient()
    target, _ = target_after(prior, 60, 3)
    parameters = 0.05 + 0.3 * np.random.default_rng(0).random((4, 2))
    density, gradient = target.score(parameters)
    assert density == pytest.approx(target.log_density(parameters))
    for i in range(2):
        step = 1e-6 * np.eye(2)[i]
        rise = target.log_density(parameters + step) - target.log_density(parameters - step)
        assert gradient[:, i] == pytest.approx(rise / 2e-6, rel=1e-5, abs=1e-4)


# -- moves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "move", [RandomWalk(sweeps=40), DifferentialEvolution(sweeps=60), HMC(sweeps=15)], ids=type
)
def test_moves_leave_the_posterior_as_it_is(move: Any) -> None:
    """From an ensemble drawn exactly from the posterior, on a grid; z-scores of means and of squares of 40
    ensembles of 64: four of them, false alarm 4 × 7e-6."""
    prior = WearWithGradient()
    target, _ = target_after(prior, 60, 5)
    grid = (np.arange(120) + 0.5) / 120
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = target.log_density(points)
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    exact = np.concatenate([mass @ points, mass @ points**2])
    rng = np.random.default_rng(6)
    target.spread = np.sqrt(exact[2:] - exact[:2] ** 2)
    found = []
    for _ in range(40):
        start = points[rng.choice(len(points), 64, p=mass)] + (rng.random((64, 2)) - 0.5) / 120
        start = np.clip(start, 1e-6, 1 - 1e-6)
        moved, tuning = move(start, target, {}, rng)
        assert (moved != start).any(axis=1).mean() > 0.9
        assert all(np.isfinite(value) for value in tuning.values())
        found.append(np.concatenate([moved.mean(axis=0), (moved**2).mean(axis=0)]))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    z = (np.mean(found, axis=0) - exact) / np.hypot(error, 1e-4 * exact)
    assert np.abs(z).max() < 4.5, z


@pytest.mark.parametrize(
    ("prior", "lives", "length"),
    [(WearPrior(k=1.0), 100, 120), (WearWithGradient(k=1.0), 80, 100), (ManyRates(PUMP), 60, 60)],
    ids=["two rates", "two rates with gradients", "twelve numbers"],
)
def test_posteriors_of_own_priors_are_calibrated(prior: Any, lives: int, length: int) -> None:
    """False alarm 5e-6 each."""
    assert check_posterior(prior, replicates=lives, length=length) == []


def test_a_refresh_resamples_by_weight() -> None:
    """Where moves change nothing, each member is there as often as its weight says, up to rounding."""
    prior = WEAR.replace(move=lambda parameters, target, tuning, rng: (parameters, tuning))
    posterior = prior.posterior(np.random.default_rng(0))
    posterior.start(0)
    group: Any = posterior._groups[0]
    weights = np.arange(group.size) ** 2 / np.square(np.arange(group.size)).sum()
    after = group.refreshed(weights, posterior.histories, np.random.default_rng(1)).parameters
    counts = (after[:, None] == group.parameters[None]).all(axis=2).sum(axis=0)
    assert counts.sum() == group.size
    assert np.abs(counts - group.size * weights).max() < 1.0


class Shrinks:
    """A move that draws towards the middle: no posterior is left as it is by that."""

    def __call__(self, parameters: Array, target: Any, tuning: Any, rng: Any) -> Any:
        return parameters.mean(axis=0) + 0.1 * (parameters - parameters.mean(axis=0)), tuning


def test_a_move_that_is_wrong_is_told() -> None:
    found = check_posterior(WearPrior(k=1.0).replace(move=Shrinks()), replicates=200, length=150)
    assert any("not distributed as the truth" in finding.text for finding in found), found


def test_a_move_that_leaves_the_support_is_refused() -> None:
    prior = WEAR.replace(move=lambda parameters, target, tuning, rng: (parameters + 5.0, tuning))
    posterior = prior.posterior(np.random.default_rng(0))
    posterior.start(0)
    with pytest.raises(InvalidModelError, match="the prior's support"):
        posterior.refresh()


def test_hmc_without_gradients_says_what_is_missing() -> None:
    posterior = WEAR.replace(move=HMC()).posterior(np.random.default_rng(0))
    posterior.start(0)
    with pytest.raises(InvalidModelError, match="WearPrior: HMC needs log_density_gradient"):
        posterior.refresh()


# -- what the methods of a user return --------------------------------------------------------------


class Broken(WearPrior):
    """One method at a time returns something else."""

    def __init__(self, name: str, broken: Any) -> None:
        super().__init__()
        setattr(self, name, broken)


@pytest.mark.parametrize(
    ("name", "broken", "says"),
    [
        ("sample_parameters", lambda rng, size: rng.random(size), r"parameters\(rng, 1\) has shape \(1,\)"),
        ("sample_parameters", lambda rng, size: np.full((size, 2), np.nan), "not finite"),
        ("sample_parameters", lambda rng, size: np.full((size, 2), 7.0), "log_density is -inf at"),
        ("log_density", lambda p: 0.0, r"log_density\(parameters\) has shape \(\)"),
        ("log_density", lambda p: np.full(len(p), np.nan), "log_density.* is nan at the parameters"),
        ("log_density", lambda p: np.random.default_rng().random(len(p)), "log_density returned another"),
        ("kernels", lambda p: 0.9 * WEAR.kernels(p), r"kernels\(parameters\)\[m=0, a=0, s=0\] sums to 0.9"),
        ("kernels", lambda p: WEAR.kernels(p)[:, :1], r"kernels\(parameters\) has shape"),
        ("kernels", lambda p: "no", "not an array of numbers"),
        ("kernels", lambda p: np.full((len(p), 2, 3, 3), 1 / 3), "support excludes this transition"),
        ("support", np.zeros((2, 3, 3), bool), "support is bool of shape"),
        ("support", np.ones(3), "support is float64"),
    ],
)  # fmt: skip
def test_what_is_no_prior_is_refused_by_the_name_of_the_method(name: str, broken: Any, says: str) -> None:
    with pytest.raises(InvalidModelError, match=says):
        Broken(name, broken).posterior(np.random.default_rng(0))


def test_an_own_prior_is_as_equal_as_its_attributes() -> None:
    assert WearPrior() == WearPrior()
    assert hash(WearPrior()) == hash(WearPrior())
    assert WearPrior(k=8.0) != WEAR
    assert WearWithGradient() != WEAR
    assert WEAR.replace(move=Shrinks()) != WEAR
    assert WEAR.replace(move=RandomWalk(sweeps=3)) != WEAR.replace(move=RandomWalk(sweeps=4))
    steeper = type("WearPrior", (WearPrior,), {"__qualname__": "WearPrior", "support": None})
    assert steeper().fingerprint != WEAR.fingerprint  # an attribute of the class is one too
    assert WEAR.replace(k=8.0) == WearPrior(k=8.0)
    other = PUMP.replace(initial=[0.5, 0.5, 0.0])
    assert WEAR.replace(setting=other).setting == other
    with pytest.raises(UnknownNameError, match="did you mean 'setting'"):
        WEAR.replace(seting=other)
    with pytest.raises(InvalidModelError, match="setting is a int, not a Setting"):
        WEAR.replace(setting=1)
    with pytest.raises(InvalidModelError, match="differ in size"):
        WEAR.replace(setting=Setting([[1.0], [1.0]], [[0.0, 1.0]], [1.0, 0.0]))
    with pytest.raises(InvalidModelError, match="fingerprint cannot include"):
        _ = Broken("log_density", object()).fingerprint
    with pytest.raises(InvalidModelError, match="not a Setting"):
        WearPrior(1)  # type: ignore[arg-type]


def test_what_the_support_rules_out_is_refused_and_changes_nothing() -> None:
    """A new pump cannot be read as broken where the sensor is exact."""
    setting = PUMP.replace(observation=np.eye(3), first_observation=np.eye(3))
    for support, under in (
        (WearPrior.support, "every kernel that the prior allows"),
        (None, "all 64 kernels"),
    ):
        prior = WearPrior(setting).replace(support=support)
        posterior = prior.posterior(np.random.default_rng(0))
        posterior.start(0)
        before = posterior.state()
        with pytest.raises(ImpossibleObservationError, match=under):
            posterior.update(0, 2)
        assert all(np.array_equal(before[name], value) for name, value in posterior.state().items())


# -- agents -----------------------------------------------------------------------------------------


class CoreOnly:
    """The names of the protocol `Posterior`, and nothing else, around another posterior."""

    def __init__(self, own: Any) -> None:
        self._own = own

    @property
    def setting(self) -> Any:
        return self._own.setting

    @property
    def expected_counts(self) -> Any:
        return self._own.expected_counts

    def start(self, first_observation: Any) -> None:
        self._own.start(first_observation)

    def update(self, action: Any, observation: Any) -> None:
        self._own.update(action, observation)

    def sample(self, rng: np.random.Generator) -> Any:
        return self._own.sample(rng)

    def belief(self, kernel: Any) -> Any:
        return self._own.belief(kernel)


class CorePrior:
    """The same for a prior."""

    def __init__(self, own: Any) -> None:
        self._own = own

    @property
    def setting(self) -> Any:
        return self._own.setting

    def sample(self, rng: np.random.Generator) -> Any:
        return self._own.sample(rng)

    def posterior(self, rng: np.random.Generator) -> Any:
        return CoreOnly(self._own.posterior(rng))


ROWS = DirichletPrior(PUMP, np.ones((2, 3, 3)))
FAMILY = FinitePrior(PUMP, WEAR.kernels(np.array([[0.04, 0.1], [0.2, 0.1], [0.1, 0.3]])))


@pytest.mark.parametrize("prior", [WEAR, ROWS, FAMILY], ids=["own", "rows", "finite"])
def test_both_ways_choose_the_same_actions_from_the_same_seed(prior: Any) -> None:
    """Compiled, streamed, and streamed with nothing but the protocol's names."""
    fast = simulate(TRUTH, PSRLAgent(prior, seed=1, budget=QUICK), 400, 2, driver="compiled")
    slow = simulate(TRUTH, PSRLAgent(prior, seed=1, budget=QUICK), 400, 2, driver="streaming")
    hidden: Any = CorePrior(prior)
    if prior is FAMILY:  # finitely many kernels is what its schedule and the accuracy of plans go by
        hidden = _HidesPosterior(PUMP, FAMILY.kernels)
    agent = PSRLAgent(hidden, seed=1, budget=QUICK)
    core = simulate(TRUTH, agent, 400, 2)
    assert isinstance(agent.posterior, CoreOnly)
    assert not agent.can_compile
    for trace in (slow, core):
        assert (trace.actions == fast.actions).all()
        assert (trace.observations == fast.observations).all()
        assert trace.episodes == fast.episodes
        assert (trace.checkpoints.expected == fast.checkpoints.expected).all()
    assert np.isnan(core.checkpoints.truth).all()
    assert np.isfinite(fast.checkpoints.truth).all()
    assert np.isnan(agent.info.effective_size)


class _HidesPosterior(FinitePrior):
    def posterior(self, rng: Any = None) -> Any:
        return CoreOnly(FinitePrior.posterior(self))


def test_a_posterior_without_snapshots_is_taken_back_too() -> None:
    """A call that raises leaves the agent as it was, also where its posterior can only be copied."""
    agent = PSRLAgent(CorePrior(WEAR), seed=1, budget=QUICK)
    twin = PSRLAgent(CorePrior(WEAR), seed=1, budget=QUICK)
    for o in (0, 0, 1):
        assert agent.act(o) == twin.act(o)
    good = agent.choose_action

    def bad() -> int:
        raise KeyboardInterrupt

    agent.choose_action = bad  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        agent.act(2)
    agent.choose_action = good  # type: ignore[method-assign]
    rest = np.random.default_rng(0).integers(0, 3, 60).tolist()
    assert [agent.act(o) for o in rest] == [twin.act(o) for o in rest]
    assert agent.posterior_rng.bit_generator.state == twin.posterior_rng.bit_generator.state


def test_a_log_is_taken_in_by_any_posterior() -> None:
    seen, did = [0, 0, None, 1, 0, 2], [0, 0, 1, 0, 0, 1]
    agents = [PSRLAgent(prior, seed=3, budget=QUICK) for prior in (WEAR, CorePrior(WEAR))]
    for agent in agents:
        agent.learn(seen, did)
        agent.act(0)
    assert (agents[0].info.kernel == agents[1].info.kernel).all()
    assert agents[0].time == agents[1].time == 7


@pytest.mark.parametrize("kind", [PSRLAgent, MeanAgent, MAPAgent])
def test_saved_and_loaded_it_goes_on_to_the_last_bit(kind: Any, tmp_path: Path) -> None:
    agent = kind(WEAR, seed=1, budget=QUICK)
    simulate(TRUTH, agent, 150, 2)
    assert agent.posterior._groups[0].tuning, "no refresh so far: the test would show little"
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(InvalidModelError, match=r"own_priors:WearPrior: pass this prior as prior="):
        kind.load(tmp_path / "agent.npz")
    with pytest.raises(InvalidModelError, match="not the prior that this agent was saved with"):
        kind.load(tmp_path / "agent.npz", prior=WearPrior(k=8.0))
    with pytest.raises(InvalidModelError, match="not the prior that this agent was saved with"):
        kind.load(tmp_path / "agent.npz", prior=ROWS)
    again = kind.load(tmp_path / "agent.npz", prior=WearPrior())
    assert again.to_bytes() == agent.to_bytes()
    for o in np.random.default_rng(0).integers(0, 3, 200).tolist():
        assert agent.act(o) == again.act(o)
    assert again.to_bytes() == agent.to_bytes()


def test_worlds_for_the_bayesian_regret_are_drawn_from_it() -> None:
    own: Any = WEAR
    traces, plans = bayesian_runs(own, 60, seeds=2, budget=QUICK, tolerance=0.05, max_work=2e6)
    assert traces[0].model.fingerprint != traces[1].model.fingerprint
    assert [trace.horizon for trace in traces] == [60, 60]
    assert len(plans) == 2
    found = estimate_concentration(own, horizon=30, seeds=2, budget=QUICK)
    assert np.isfinite(found.kernel).all()
    own = CorePrior(WEAR)
    with pytest.raises(InvalidModelError, match="CoreOnly has no kernels and weights"):
        estimate_concentration(own, horizon=30, seeds=1, budget=QUICK)


def test_a_prior_that_is_data_may_be_passed_too(tmp_path: Path) -> None:
    PSRLAgent(ROWS, budget=QUICK).save(tmp_path / "agent.npz")
    assert PSRLAgent.load(tmp_path / "agent.npz", prior=ROWS).prior == ROWS
    with pytest.raises(InvalidModelError, match="not the prior"):
        PSRLAgent.load(tmp_path / "agent.npz", prior=WEAR)


def test_a_posterior_without_a_state_cannot_be_saved() -> None:
    with pytest.raises(InvalidModelError, match="CorePrior has no fingerprint and restore"):
        PSRLAgent(CorePrior(WEAR), budget=QUICK).to_bytes()


@pytest.mark.parametrize("kind", [PSRLAgent, BAPOMCPAgent])
def test_a_run_that_was_cut_short_is_taken_up(kind: Any) -> None:
    options: dict[str, Any] = {"budget": QUICK} if kind is PSRLAgent else {"n_simulations": 20, "depth": 3}
    whole = simulate(TRUTH, kind(WEAR, seed=1, **options), 60, 2)
    first = Simulation(TRUTH, kind(WEAR, seed=1, **options), 2)
    first.until(25)
    second = Simulation(TRUTH, kind(WEAR, seed=1, **options), 2)
    second.resume(first.to_bytes())
    assert (second.until(60).actions == whole.actions).all()


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"parameters": np.full((64, 2), 3.0)}, "the prior's support"),
        ({"parameters": np.zeros((64, 3))}, "parameters has shape"),
        ({"size": 0}, "size is 0"),
        ({"tuning_scale": np.nan}, "not finite"),
        ({"prior": "other"}, "another prior"),
    ],
)
def test_a_state_that_no_posterior_can_be_in_is_refused(state: dict[str, Any], says: str) -> None:
    posterior = WEAR.posterior(np.random.default_rng(0))
    posterior.start(0)
    posterior.refresh()
    with pytest.raises(InvalidModelError, match=says):
        WEAR.restore({**posterior.state(), **state}, np.random.default_rng(0))


def test_what_is_no_prior_is_refused_by_what_it_lacks() -> None:
    with pytest.raises(InvalidModelError, match=r"prior is a int, which has no method sample\(rng\)"):
        PSRLAgent(1)  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="whose setting is a NoneType"):
        PSRLAgent(_NoSetting())  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="CoreOnly has no mean_model"):
        MeanAgent(CorePrior(WEAR))
    with pytest.raises(InvalidModelError, match="CoreOnly has no kernels, weights and beliefs"):
        BAPOMCPAgent(CorePrior(WEAR))


class _NoSetting:
    setting = None

    def sample(self, rng: Any) -> None: ...
    def posterior(self, rng: Any) -> None: ...
