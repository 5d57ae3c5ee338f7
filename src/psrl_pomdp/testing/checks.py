"""Checks of models, posteriors, agents and planners. Each returns a list of issues in plain sentences."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

import numpy as np

from .._utils.issues import Issue
from ..errors import ParseError, PSRLError
from ..models import POMDP
from ..models.structure import analyze_structure
from ..protocols import Planner, Posterior, Prior
from .model_checks import model_notes, model_warnings


def check_model(model: POMDP | str | PathLike[str]) -> list[Issue]:
    """Check a model, or a file that contains one.

    Parameters
    ----------
    model
        The model, or the path of its file.

    Returns
    -------
    list of Issue
        An error for a file that cannot be read, or for invalid arrays; warnings for what is legal and rarely
        meant, such as unreachable states; and notes.

    >>> from psrl_pomdp import problem
    >>> for finding in check_model(problem("two-rooms")):
    ...     print(f"{finding.severity}: {finding.text}")
    warning: the start can lead to 2 recurrent classes (good-room | bad-room): the optimal average may \
depend on the class, and the paper's Assumption 1 then fails
    """
    if isinstance(model, str | PathLike):
        from ..io import load

        try:
            model = load(model)
        except (ParseError, OSError) as error:
            return [Issue("error", str(error))]
    if not isinstance(model, POMDP):
        return [Issue("error", f"a {type(model).__name__} is not a POMDP")]  # type: ignore[unreachable]
    try:
        POMDP(model.setting.replace(), model.transition)
    except PSRLError as error:  # an array was made writable and changed
        return [Issue("error", str(error))]
    facts = analyze_structure(model)
    found = [Issue("warning", text) for text in model_warnings(model, facts)]
    return found + [Issue("info", text) for text in (*model.remarks, *model_notes(model, facts))]


def check_posterior(
    prior: Prior,
    posterior: Callable[[np.random.Generator], Posterior] | None = None,
    *,
    replicates: int = 300,
    length: int = 30,
    seed: int = 0,
) -> list[Issue]:
    """Check that a posterior is correct for its prior.

    Kernels, counts and beliefs must have the right shapes and sums. Beliefs, and for a finite prior also
    weights and expected counts, must agree with the sum over all hidden paths. The same seed must give the
    same sample. The posterior must refuse an impossible observation without changing. Over `replicates`
    trajectories of `length` steps, each from a model sampled from the prior, the samples given the
    observations must have the distribution of the truth: the absolute values of eight z-scores, one of them
    of the exact log-likelihood, must not exceed 5 (false alarm rate 5e-6; with an unknown observation model
    and unknown costs there are up to 20 z-scores, and the rate is 1.2e-5). Given a history, samples and
    expected counts must have the means of kernels drawn from the prior and weighted by the exact likelihood
    (false alarm rate 5e-6). If compiled loops can drive the posterior, an agent must choose the same actions
    with them as with one observation at a time.

    Parameters
    ----------
    prior
        The prior.
    posterior
        Called with a random generator to create a posterior; by default `prior.posterior`.
    replicates
        The number of trajectories.
    length
        The number of steps of each trajectory.
    seed
        The seed of all random numbers.

    Returns
    -------
    list of Issue
        One error for each violated requirement.

    >>> from psrl_pomdp import FinitePrior, Setting
    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0], first_observation=None)
    >>> stays, moves = [[[0.9, 0.1], [0.1, 0.9]]], [[[0.1, 0.9], [0.9, 0.1]]]
    >>> check_posterior(FinitePrior(setting, [stays, moves]), replicates=20, length=5)
    []
    """
    from .posterior_checks import posterior_violations

    factory = prior.posterior if posterior is None else posterior
    found = []
    try:
        for text in posterior_violations(prior, factory, replicates, length, seed):
            found.append(Issue("error", text))
    except PSRLError as error:
        found.append(Issue("error", str(error)))
    except Exception as error:
        found.append(Issue("error", f"raised {error!r}"))
    return found


def check_agent(make: Callable[[int], object], model: POMDP, *, steps: int = 60) -> list[Issue]:
    """Check that agents satisfy the `Agent` protocol.

    The actions must be valid. The same seed and observations must give the same actions. The agent must
    accept missing observations. An agent that is saved and loaded must continue like one that is not.

    Parameters
    ----------
    make
        Called with a seed to create an agent.
    model
        A model with which the agents are tried.
    steps
        The number of steps of each trial.

    Returns
    -------
    list of Issue
        One error for each violated requirement; a warning if the agent cannot be saved.

    >>> from psrl_pomdp import PSRLAgent, problem
    >>> world = problem("separated")
    >>> check_agent(lambda seed: PSRLAgent(world.family, seed=seed), world)
    []
    """
    from .agent_checks import NOT_SAVED, agent_violations

    found = []
    try:
        for text in agent_violations(make, model, steps):
            found.append(Issue("warning" if text == NOT_SAVED else "error", text))
    except Exception as error:
        found.append(Issue("error", f"raised {error!r}"))
    return found


def check_planner(planner: Planner, *, steps: int = 4000, seed: int = 0) -> list[Issue]:
    """Check a planner on small models whose optimal averages are known.

    The interval of the planner must contain the optimum and be no wider than requested; its actions must be
    valid; and the same call must give the same interval. The average cost of its policy in a simulation must
    not exceed the upper bound by more than six standard errors (false alarm rate 1e-9 per model) and the
    possible effect of the initial state.

    Parameters
    ----------
    planner
        Called like `psrl_pomdp.plan`.
    steps
        The number of simulated steps.
    seed
        The seed of the simulation.

    Returns
    -------
    list of Issue
        One error for each violated requirement, with the name of the model.
    """
    from .planner_checks import KNOWN_MODELS, planner_violations

    found = []
    for name, known_model in KNOWN_MODELS.items():
        model, optimum = known_model()
        try:
            texts = list(planner_violations(planner, model, optimum, steps, seed))
        except Exception as error:
            texts = [f"raised {error!r}"]
        found += [Issue("error", f"{name}: {text}") for text in texts]
    return found
