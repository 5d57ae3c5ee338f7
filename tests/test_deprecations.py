"""Names of version 0.1 go on to work, and warn."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import psrl_pomdp
import psrl_pomdp.cli as cli_package
from psrl_pomdp import Issue, PlanningBudget, PSRLAgent, UnknownNameError, plan, problem, simulate
from psrl_pomdp._utils.deprecation import renamed_keywords
from psrl_pomdp.problems import catalogue
from psrl_pomdp.studies import comparison, sensor_sensitivity, summary
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.study import study_from

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Finding", "Issue"),
        ("ImpossibleObservation", "ImpossibleObservationError"),
        ("Structure", "ModelStructure"),
        ("analyse", "analyze_structure"),
    ],
)
def test_an_old_public_name_is_the_new_object(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"psrl_pomdp\.{old} is now psrl_pomdp\.{new};"):
        found = getattr(psrl_pomdp, old)
    assert found is getattr(psrl_pomdp, new)
    assert old not in psrl_pomdp.__all__


def test_an_effort_is_a_planning_budget_with_its_old_keywords() -> None:
    with pytest.warns(DeprecationWarning, match="psrl_pomdp.Effort is now psrl_pomdp.PlanningBudget"):
        effort: Any = psrl_pomdp.Effort
    with pytest.warns(DeprecationWarning, match=r"Effort\((floor|ceiling)=...\)"):
        found: Any = effort(floor=0.1, ceiling=0.2, max_work=5.0)
    assert (found.min_tolerance, found.max_tolerance, found.max_work) == (0.1, 0.2, 5.0)
    assert (found.floor, found.ceiling) == (0.1, 0.2)
    assert isinstance(found, PlanningBudget)


def test_agents_take_their_budget_by_its_old_keyword() -> None:
    family: Any = problem("separated").family
    budget = PlanningBudget(max_work=1e6)
    make: Any = PSRLAgent
    with pytest.warns(DeprecationWarning, match=r"PSRLAgent\(effort=...\) is now PSRLAgent\(budget=...\)"):
        agent = make(family, effort=budget)
    with pytest.warns(DeprecationWarning, match="PSRLAgent.effort is now PSRLAgent.budget"):
        assert agent.effort is agent.budget is budget
    with pytest.raises(TypeError, match="both budget and its old name effort"):
        make(family, effort=budget, budget=budget)


def test_a_trace_has_its_old_names() -> None:
    model: Any = problem("separated")
    trace = simulate(model, PSRLAgent(model.family), 20)
    with pytest.warns(DeprecationWarning, match=r"Trace\.readings is now Trace\.observations"):
        assert trace.readings is trace.observations
    with pytest.warns(DeprecationWarning, match=r"Trace\.first_reading is now Trace\.first_observation"):
        assert trace.first_reading == trace.first_observation
    best = plan(model, 1e-3)
    with pytest.warns(DeprecationWarning, match=r"Trace\.controlled is now Trace\.control_variate_sums"):
        assert (trace.controlled(best) == trace.control_variate_sums(best)).all()


def test_an_issue_has_its_level_of_version_0_1() -> None:
    issue = Issue("warning", "odd")
    with pytest.warns(DeprecationWarning, match=r"Issue\.level is now Issue\.severity"):
        assert issue.level == "doubtful"
    assert issue.to_dict() == {"severity": "warning", "level": "doubtful", "text": "odd"}


def test_a_function_keeps_its_signature_and_its_own_errors() -> None:
    @renamed_keywords(old="new")
    def function(new: int = 1) -> int:
        """Return it."""
        return new

    assert function() == 1
    assert function.__name__ == "function"
    with pytest.raises(TypeError, match="other"):
        function(other=1)  # type: ignore[call-arg]


def test_a_problem_takes_its_parameter_by_the_old_spelling() -> None:
    with pytest.warns(
        DeprecationWarning, match="parameter neighbour of river-swim is now the parameter neighbor"
    ):
        old = problem("river-swim", neighbour=0.1)
    assert old == problem("river-swim", neighbor=0.1)
    assert old.parameters["neighbor"] == 0.1
    assert "neighbour" not in old.parameters
    with pytest.raises(UnknownNameError, match="both neighbor and its old name neighbour"):
        problem("river-swim", neighbour=0.1, neighbor=0.1)


def test_a_study_takes_the_parameter_by_the_old_spelling() -> None:
    words = {"problem": "river-swim", "horizon": 10, "seeds": 1}
    study = study_from(words | {"parameters": {"neighbour": 0.1}})
    with pytest.warns(DeprecationWarning, match="neighbour of river-swim"):
        model = Experiment(study).problem
    assert model == problem("river-swim", neighbor=0.1)


def test_the_summary_has_its_old_spelling() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"summary\.summarise is now psrl_pomdp\.studies\.summary\.summarize"
    ):
        assert summary.summarise is summary.summarize


def old_names() -> set[str]:
    """The old names that give a warning: those in tables, and those in calls of `_utils.deprecation`."""
    found = {*psrl_pomdp._RENAMED, *comparison._RENAMED, *sensor_sensitivity._RENAMED, *summary._RENAMED}
    found |= {f"psrl-pomdp {name}" for name in cli_package._RENAMED}
    found |= {old for entry in catalogue() for old in entry.renamed}
    for path in (ROOT / "src").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                if call.func.id == "renamed_keywords":
                    found |= {str(keyword.arg) for keyword in call.keywords}
                if call.func.id == "warn_renamed" and isinstance(call.args[0], ast.Constant):
                    found.add(str(call.args[0].value).rpartition(".")[2])
    return found


def test_the_changelog_lists_every_old_name() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    table = changes.partition("### Deprecated")[2].partition("###")[0]
    left = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("|"))
    names = old_names()
    assert len(names) > 25
    words = {name: re.findall(r"[\w-]+", name)[-1] for name in names}
    assert not [name for name, word in words.items() if not re.search(rf"\b{word}\b", left)]


def test_old_names_are_announced_for_a_version_to_come() -> None:
    now = tuple(int(part) for part in psrl_pomdp.__version__.split(".")[:2])
    named = {
        tuple(int(part) for part in found)
        for path in (ROOT / "src").rglob("*.py")
        for found in re.findall(r"until version (\d+)\.(\d+)", path.read_text(encoding="utf-8"))
    }
    assert len(named) == 1
    assert min(named) > now
    assert "until version {}.{}".format(*min(named)) in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
