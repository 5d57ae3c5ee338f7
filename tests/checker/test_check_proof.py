"""The lone checker: what it accepts is proved by the lemmas of the manual, and what is spoiled it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from model_strategies import previous_state_model, random_model
from proof_oracle import (
    CHECKER,
    Document,
    chain_document,
    changed,
    load_checker,
    moved_indices,
    moved_numbers,
    nonsense,
    numbers_of,
    proved,
    unreachable_state,
)
from psrl_pomdp import POMDP, CertificateError, Plan, Setting, plan, problem, verify
from psrl_pomdp.planning import proof_document, save_proof
from psrl_pomdp.planning import solve as planner
from psrl_pomdp.planning.parameters import PlannerParameters, RepresentationParameters
from psrl_pomdp.planning.proofs.document import as_text, number_text, rounded_outward
from psrl_pomdp.planning.proofs.rational_model import distribution

check_proof = load_checker()


def hypothesis_test() -> POMDP:
    """Two worlds that never change; name the right one, for ever: gains, and an optimum of 0."""
    sensor = [[0.7, 0.3], [0.3, 0.7]]
    setting = Setting(sensor, [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], first_observation=None)
    return POMDP(setting, np.stack([np.eye(2), np.eye(2)]))


def told_apart_by_reading() -> POMDP:
    """Two rooms between which a first reading tells."""
    sensor = [[0.7, 0.3], [0.3, 0.7]]
    setting = Setting(sensor, [[0.2, 0.8], [0.9, 0.9]], [0.25, 0.75])
    return POMDP(setting, np.stack([np.eye(2), np.eye(2)]))


def seen_costs() -> POMDP:
    model = random_model(3)
    own = model.setting
    return POMDP(
        Setting(own.observation, own.cost.round(1), own.initial, seen_cost="exact"), model.transition
    )


MODELS: dict[str, Any] = {
    "tiger": lambda: problem("tiger"),
    "machine-repair": lambda: problem("machine-repair"),
    "two-rooms": lambda: problem("two-rooms"),
    "blind-cycle": lambda: problem("blind-cycle"),
    "no-sensor": lambda: problem("no-sensor"),
    "separated": lambda: problem("separated"),
    "random": lambda: random_model(1),
    "random, 4 states": lambda: random_model(4, 4, 2, 3),
    "previous state": lambda: previous_state_model(5, 3),
    "hypothesis test": hypothesis_test,
    "first reading": told_apart_by_reading,
    "unreachable": unreachable_state,
    "seen costs": seen_costs,
}
TOLERANCES = {"unreachable": 0.02, "random, 4 states": 0.01, "random": 1e-5}
Planned = tuple[Plan, POMDP, Document]


@pytest.fixture(scope="module")
def planned() -> dict[str, Planned]:
    found = {}
    for name, make in MODELS.items():
        model = make()
        result = plan(model, tolerance=TOLERANCES.get(name, 1e-3), time_limit=20)
        found[name] = result, model, proof_document(result, model)
    usual = planner.PARAMETERS
    try:
        planner.PARAMETERS = PlannerParameters(
            representation=RepresentationParameters(dense_entries=0, dense_work=0)
        )
        sparse = {"tiger": 1e-2, "two-rooms": 0.1, "random, 4 states": 1e-2, "previous state": 1e-4}
        for name, tolerance in sparse.items():
            model = MODELS[name]()
            result = plan(model, tolerance=tolerance, time_limit=1)
            found[f"{name}, sparse"] = result, model, proof_document(result, model)
    finally:
        planner.PARAMETERS = usual
    return found


def test_proofs_of_plans_are_accepted_and_all_checks_agree(planned: dict[str, Planned]) -> None:
    sparse = 0
    for name, (result, model, document) in planned.items():
        low, high = check_proof.check(json.loads(as_text(document)))
        assert (low, high) == verify(result, model, exact=True), name
        assert (low, high) == proved(document), name
        lower, upper = verify(result, model)
        width = Fraction(model.setting.units.high) - Fraction(model.setting.units.low)
        assert abs(low - Fraction(lower)) < Fraction(1, 10**10) * width, name
        assert abs(high - Fraction(upper)) < Fraction(1, 10**10) * width, name
        # Exact arithmetic pays nothing for rounding: the interval lies in the one of the plan.
        assert Fraction(result.lower) <= low + width / 10**13, name
        assert high - width / 10**13 <= Fraction(result.upper), name
        assert Fraction(document["claim"]["lower"]) <= low <= high <= Fraction(document["claim"]["upper"])
        sparse += len(document["lower"]["values"][0]) > 1
    assert sparse == 4
    with_gains = [name for name, (_, _, document) in planned.items() if document["lower"]["gains"]]
    assert {"two-rooms", "two-rooms, sparse"} <= set(with_gains)


def test_the_program_prints_the_interval_or_what_fails(planned: dict[str, Planned], tmp_path: Path) -> None:
    """It runs without site packages: no numpy, and nothing of this package."""
    result, model, document = planned["tiger"]
    path = tmp_path / "proof.json"
    save_proof(result, model, path)
    assert json.loads(path.read_text("utf-8")) == document
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(CHECKER), str(path)], capture_output=True, text=True, check=False
    )
    claim = document["claim"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"from {claim['lower']} to {claim['upper']}" in done.stdout
    assert "2 states 3 actions 2 observations" in done.stdout
    for text, words in (
        (json.dumps(changed(document, ("lower", "values", 0, 0), "7")), "the claim is at most"),
        (json.dumps(document)[:-30], "REFUSED"),
        ("[" * 100_000, "REFUSED"),
        ("", "REFUSED"),
    ):
        path.write_text(text, "utf-8")
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(CHECKER), str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert words in done.stdout
        assert done.stderr == ""


def test_the_checker_is_short_and_needs_the_standard_library_only() -> None:
    lines = CHECKER.read_text("utf-8").splitlines()
    assert len(lines) <= 300
    imports = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert imports == {"json", "math", "sys", "fractions"}
    assert not any("float" in line and "floating" not in line for line in lines)


_expected: dict[int, tuple[Document, Any]] = {}


def expected_verdict(document: Document) -> Any:
    """The interval or "refused", by the lemmas; the same document is asked for often."""
    if id(document) not in _expected:
        found = proved(document)
        _expected[id(document)] = document, "refused" if isinstance(found, str) else found
    return _expected[id(document)][1]


def verdicts(checker: ModuleType, spoiled: list[tuple[str, Document]]) -> tuple[int, int, list[str]]:
    """How many are refused and accepted, and where the checker and the oracle do not agree."""
    refused, accepted, wrong = 0, 0, []
    for what, document in spoiled:
        try:
            found = checker.check(document)
        except checker.Refused:
            found = "refused"
        except Exception as error:
            wrong.append(f"{what}: {error!r}")
            continue
        expected = expected_verdict(document)
        refused, accepted = refused + (found == "refused"), accepted + (found != "refused")
        if found != expected:
            wrong.append(f"{what}: {found} instead of {expected}")
    return refused, accepted, wrong


SMALL = ("tiger", "two-rooms", "blind-cycle", "first reading", "two-rooms, sparse", "random", "unreachable")


def spoiled_documents(planned: dict[str, Planned], most: int, seed: int) -> list[tuple[str, Document]]:
    rng = np.random.default_rng(seed)
    found = []
    for name in SMALL:
        document = planned[name][2]
        many = most if len(document["lower"]["points"]) < 9 else most // 6
        for what, other in (*moved_numbers(document, rng, many), *moved_indices(document, rng, many)):
            found.append((f"{name}: {what}", other))
    return found


def test_a_thousand_spoiled_proofs_are_refused_and_harmless_changes_are_not(
    planned: dict[str, Planned],
) -> None:
    """The verdict is that of the lemmas, and so is the interval."""
    refused, accepted, wrong = verdicts(check_proof, spoiled_documents(planned, 150, 1))
    assert wrong == []
    assert refused > 1000
    assert accepted > 100


def test_nonsense_is_refused_and_never_crashes_the_checker(planned: dict[str, Planned]) -> None:
    rng = np.random.default_rng(2)
    refused = 0
    for name in ("tiger", "two-rooms", "previous state", "two-rooms, sparse", "first reading"):
        document = planned[name][2]
        for what, other in nonsense(document, rng, 250):
            try:
                low, high = check_proof.check(other)
            except check_proof.Refused:
                refused += 1
            else:  # such as gains that are left out, and weights of no points
                assert (low, high) == proved(other), what
    assert refused > 1000


@pytest.mark.parametrize("discount", [None, "0.9", "0"])
def test_random_proofs_prove_no_false_interval(discount: str | None) -> None:
    """About a chain with a known average, and known discounted costs; the weights are random too."""
    rng = np.random.default_rng(3)
    tight = 0
    for _ in range(150):
        document = chain_document(rng, discount)
        found = check_proof.check(document)
        assert found == proved(document)
        low, high = found
        truth = Fraction(1, 3)
        if discount is not None:
            # V(1) − V(0) = 1 / (1 − 0.7 γ), V(0) = γ (V(0) + 0.1 (V(1) − V(0)))
            gamma = Fraction(discount)
            more = 1 / (1 - Fraction(7, 10) * gamma)
            truth = gamma * more / 10 / (1 - gamma) + Fraction(3, 4) * more
        assert low <= truth <= high
        tight += high - low < Fraction(1) / (1 - (Fraction(discount) if discount else 0))
    assert tight > 5


def test_a_false_interval_is_refused() -> None:
    """The average of the chain is 1/3; who claims more than that from below has no proof of it."""
    document = chain_document(np.random.default_rng(4))
    exact: dict[str, Any] = {
        "points": [],
        "values": [["0"], ["10/3"]],
        "gains": None,
        "weights": [[[]], [[]]],
        "start": [[]],
    }
    document["lower"] = exact
    document["upper"] = {
        "actions": [0], "successors": [[0, 0]], "vectors": [["0", "10/3"]], "gains": None, "start": [0]
    }  # fmt: skip
    third = Fraction(1, 3)
    assert check_proof.check(document) == (third, third)
    for lower, upper in (("0.334", "0.5"), ("0.3", "0.333"), ("333334/1000000", "1"), ("0.34", "0.2")):
        with pytest.raises(check_proof.Refused, match="claim"):
            check_proof.check(changed(document, ("claim",), {"lower": lower, "upper": upper}))
    document["claim"] = {"lower": "1/3", "upper": "1/3"}
    assert check_proof.check(document) == (third, third)
    for values in ([["0"], ["3"]], [["0"], ["4"]], [["1"], ["10/3"]], [["-0.01"], ["10/3"]]):
        with pytest.raises(check_proof.Refused, match="claim"):
            check_proof.check(changed(document, ("lower", "values"), values))
    # A point above the belief that it makes up, and one that weighs less than nothing.
    other = {**exact, "points": [[[0, "1"], [1, "1"]]], "values": [["0"], ["10/3"], ["9"]]}
    for weight in ("1", "-1"):
        other["weights"] = [[[[0, [[0, weight]]]]], [[]], [[]]]
        with pytest.raises(check_proof.Refused, match=r"more than the belief|negative"):
            check_proof.check(changed(document, ("lower",), other))
    # Gains that promise more than what follows, on either side.
    gains = changed(document, ("lower", "gains"), ["0.5", "0.5"])
    assert proved(gains) == (third, third)
    with pytest.raises(check_proof.Refused, match="gain"):
        check_proof.check(changed(document, ("lower", "gains"), ["0", "1"]))
    with pytest.raises(check_proof.Refused, match="gain"):
        check_proof.check(changed(document, ("upper", "gains"), [["0", "1"]]))


# Each takes one condition out of the checker.
FAULTS = [
    ("demand(rest[t] >= 0,", "demand(True,"),
    ("demand(entry >= 0,", "demand(True,"),
    ("demand(rise >= r[i],", "demand(True,"),
    ("demand(rise <= rises[n][s] * model.unit,", "demand(True,"),
    ("demand(sum(found.values()) == 1,", "demand(True,"),
    ("demand(ends[0] <= low,", "demand(True,"),
    ("demand(ends[1] >= high,", "demand(True,"),
    ("for a in range(model.A):\n            what", "for a in range(1):\n            what"),
    ("Fraction(min(total)", "Fraction(max(total)"),
    ("at_start + max(error)", "at_start + min(error)"),
    ("at_start - max(error)", "at_start - min(error)"),
    ("size = Fraction(sum(x.values()), dp)", "size = Fraction(1)"),
    ("for t, x in rest.items():", "for t, x in belief.items():"),
    ("gain += w * dp * rises[place]", "gain += w * dp * rises[0]"),
    ("alpha[sigma[o]][t]", "alpha[sigma[0]][t]"),
    ("for s in order:\n            order +=", "for s in list(order):\n            order +="),
    ("order.sort()", "order.sort(reverse=True)"),
    ("first[order[k]].get(o, 0)", "first[order[k]].get(0, 0)"),
    ("Fraction(1) / (1 - discount or 1)", "1 / (1 - discount or 1)"),
]


def test_no_condition_of_the_checker_is_superfluous(planned: dict[str, Planned]) -> None:
    """Without one of its conditions the checker would accept a spoiled proof, or prove another interval."""
    code = CHECKER.read_text("utf-8")
    rng = np.random.default_rng(5)
    documents = [
        (name, planned[name][2]) for name in planned if len(planned[name][2]["lower"]["points"]) < 30
    ]
    spoiled = spoiled_documents(planned, 40, 6)
    documents += spoiled + [(what, {**document, "claim": None}) for what, document in spoiled]
    documents += [("chain", chain_document(rng, str(rng.choice(["0.9", "0.5"])))) for _ in range(50)]
    documents += [("chain", chain_document(rng)) for _ in range(50)]
    for name in SMALL:
        for path in numbers_of(planned[name][2]["lower"]["weights"]):
            less = changed(planned[name][2], ("lower", "weights", *path), "-0.01")
            documents.append((f"{name}: a negative weight", {**less, "claim": None}))
    for text, other in FAULTS:
        assert text in code, text
        module = ModuleType("check_proof")
        exec(compile(code.replace(text, other), "check_proof.py", "exec"), module.__dict__)
        for what, document in documents:
            if verdicts(module, [(what, document)])[2]:
                break
        else:
            pytest.fail(f"{other!r} instead of {text!r} is not found")


# -- the side of the package ------------------------------------------------------------------------


def test_plans_of_other_models_and_plans_that_claim_too_much_are_refused(planned: dict[str, Planned]) -> None:
    result, model, _ = planned["machine-repair"]
    with pytest.raises(CertificateError, match="another model"):
        proof_document(result, problem("tiger"))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"lower_cost": result.lower_cost + 1e-9}, "from below"),
        ({"upper_cost": result.upper_cost - 1e-9}, "from above"),
    ]
    for change, words in changes:
        spoiled = replace(result, **change)
        with pytest.raises(CertificateError, match=words):
            verify(spoiled, model, exact=True)
    vectors = result.controller.vectors.copy()
    vectors[0, 0] += 1e-3
    spoiled = replace(result, controller=replace(result.controller, vectors=vectors))
    with pytest.raises(CertificateError, match="from above"):
        verify(spoiled, model, exact=True)
    # The file says what is proved, and no more.
    assert check_proof.check(proof_document(spoiled, model)) == proved(proof_document(spoiled, model))


def test_a_density_has_no_proof_in_fractions() -> None:
    model = problem("railway-gaussian")
    result = plan(model, tolerance=0.3, time_limit=20)
    with pytest.raises(CertificateError, match="integrals"):
        verify(result, model, exact=True)
    with pytest.raises(CertificateError, match="quantized"):
        proof_document(result, model)


def test_weights_that_exceed_their_belief_are_cut(planned: dict[str, Planned]) -> None:
    """Weights a tenth too large: the plan proves less, but what it proves is accepted."""
    for name in ("random", "tiger, sparse"):
        result, model, _ = planned[name]
        grid: Any = result.grid
        part = "weights" if hasattr(grid, "weights") else "shares"
        spoiled = replace(result, grid=replace(grid, **{part: 1.1 * getattr(grid, part)}))
        document = proof_document(spoiled, model)
        low, high = check_proof.check(document)
        assert (low, high) == proved(document)
        assert low <= verify(result, model, exact=True)[1]


def test_probabilities_are_decimals_that_sum_to_one() -> None:
    rows = {
        (0.85, 1 - 0.85): ("0.85", "0.15"),
        (1 - 0.9, 0.9): ("0.1", "0.9"),
        (1 / 3, 1 / 3, 1 / 3): None,
        (1e-20, 0.3, 0.7): None,
    }
    for row, expected in rows.items():
        found = distribution(np.array(row))
        assert sum(found.values()) == 1
        assert all(abs(found[k] - Fraction(x)) < Fraction(1, 10**15) for k, x in enumerate(row))
        if expected is not None:
            assert [number_text(found[k]) for k in range(len(row))] == list(expected)
    with pytest.raises(CertificateError, match="no rounding"):
        distribution(np.array([0.5, 0.4]))


@pytest.mark.parametrize("text", ["0", "-0.5", "12", "1/3", "-7/9", "1e-30", "123456789.123456789", "-5e-25"])
def test_numbers_come_back_as_they_were(text: str) -> None:
    assert check_proof.number(number_text(Fraction(text)), "") == Fraction(text)


def test_decimals_are_rounded_outward() -> None:
    for value in (Fraction(1, 3), Fraction(-1, 3), Fraction(5), Fraction(-1, 10**20)):
        low, high = rounded_outward(value, value, 6)
        assert Fraction(low) <= value <= Fraction(high)
        assert Fraction(high) - Fraction(low) <= Fraction(1, 10**6)
        assert Fraction(check_proof.decimal(value)) <= value <= Fraction(check_proof.decimal(value, True))
