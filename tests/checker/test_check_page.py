"""The page that checks proofs, in a real browser: it gives the verdicts of the lone checker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import CHROMIUM, Browser, Page
from model_strategies import previous_state_model, random_model
from proof_oracle import (
    PAGE,
    Document,
    chain_document,
    changed,
    load_checker,
    moved_indices,
    moved_numbers,
    nonsense,
    unreachable_state,
)
from psrl_pomdp import plan, problem
from psrl_pomdp.planning import proof_document
from psrl_pomdp.planning import solve as planner
from psrl_pomdp.planning.parameters import PlannerParameters, RepresentationParameters
from psrl_pomdp.planning.proofs.document import as_text

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed: apt install chromium")
check_proof = load_checker()


def expected(text: str) -> dict[str, Any]:
    """The verdict of the lone checker, as the page has it."""
    try:
        low, high = check_proof.check(json.loads(text))
    except (check_proof.Refused, ValueError) as error:
        return {"proved": False, "message": str(error)}
    return {"proved": True, "lower": check_proof.decimal(low), "upper": check_proof.decimal(high, True)}


def verdict(page: Page, text: str) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(f"checkText({json.dumps(text)})")
    return found


def documents() -> list[tuple[str, Document]]:
    """Proofs of all kinds, and some that are spoiled."""
    rng = np.random.default_rng(1)
    models = {
        "tiger": problem("tiger"),
        "two-rooms": problem("two-rooms"),
        "blind-cycle": problem("blind-cycle"),
        "random": random_model(1),
        "unreachable": unreachable_state(),
        "previous state": previous_state_model(5, 3),
    }
    proofs = {name: proof_document(plan(model, tolerance=1e-3), model) for name, model in models.items()}
    sparse = PlannerParameters(representation=RepresentationParameters(dense_entries=0, dense_work=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "PARAMETERS", sparse)
        for name, model in (("sparse", random_model(4, 4, 2, 3)), ("sparse tiger", problem("tiger"))):
            proofs[name] = proof_document(plan(model, tolerance=1e-2, time_limit=2), model)
    found: list[tuple[str, Document]] = []
    for name, document in proofs.items():
        found.append((name, document))
        for spoil in (moved_numbers, moved_indices, nonsense):
            found += [(f"{name}: {what}", other) for what, other in spoil(document, rng, 30)]
    for which in (proofs["tiger"], proofs["sparse"]):  # a point that is not there
        weights = [
            [[[0, [[len(which["lower"]["points"]), "0.001"]]]]] * len(of_place)
            for of_place in which["lower"]["weights"]
        ]
        found.append(("no such point", changed(which, ("lower", "weights"), weights)))
    for discount in (None, "0.9"):
        found += [("chain", chain_document(rng, discount)) for _ in range(20)]
    return found


def test_the_page_and_the_lone_checker_agree(tmp_path: Path) -> None:
    proofs = documents()
    proofs_accepted = 0
    with Browser(tmp_path) as browser:
        page = browser.open(PAGE)
        for what, document in proofs:
            text = json.dumps(document)
            right, found = expected(text), verdict(page, text)
            assert found["proved"] == right["proved"], (what, right, found)
            if right["proved"]:
                proofs_accepted += 1
                assert (found["lower"], found["upper"]) == (right["lower"], right["upper"]), what
            else:
                assert "checker failed" not in found["message"], (what, found)
        assert page.complaints() == []
        assert [url for url in page.requests() if not url.startswith("file:")] == []
    assert 60 < proofs_accepted < len(proofs) - 200


def test_a_file_is_dropped_on_the_page(tmp_path: Path) -> None:
    """What a visitor does: a file by drop and by the button, on a phone and in the dark."""
    model = problem("tiger")
    document = proof_document(plan(model, tolerance=1e-3), model)
    good, bad = as_text(document), as_text(changed(document, ("lower", "values", 0, 0), "7"))
    with Browser(tmp_path) as browser:
        page = browser.open(PAGE, width=390, dark=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for text, kind in ((good, "proved"), (bad, "refused"), ("{", "refused"), (good, "proved")):
            page.evaluate(
                f"""(() => {{
                    const files = new DataTransfer();
                    files.items.add(new File([{json.dumps(text)}], "proof.json"));
                    part("verdict").className = "";
                    document.dispatchEvent(new DragEvent("drop", {{dataTransfer: files, cancelable: true}}));
                }})()"""
            )
            page.wait_for("part('verdict').className !== ''")
            assert page.evaluate("part('verdict').className") == kind
        words = page.evaluate("part('verdict').textContent")
        assert f"from {document['claim']['lower']} to {document['claim']['upper']}" in words
        assert "optimal reward per step" in words
        assert page.evaluate("part('about').textContent").startswith("2 statestiger-left, tiger-right")
        page.evaluate(
            f"""(() => {{
                const files = new DataTransfer();
                files.items.add(new File([{json.dumps(bad)}], "proof.json"));
                part("file").files = files.files;
                part("file").dispatchEvent(new Event("change"));
            }})()"""
        )
        page.wait_for("part('verdict').className === 'refused'")
        assert "the claim is at most" in page.evaluate("part('verdict').textContent")
        assert page.evaluate("part('progress').hidden")
        assert page.complaints() == []


def test_progress_moves_and_a_new_file_ends_the_check_of_the_old_one(tmp_path: Path) -> None:
    model = random_model(0, 6, 3, 4)
    text = as_text(proof_document(plan(model, tolerance=1e-3), model))
    with Browser(tmp_path) as browser:
        page = browser.open(PAGE)
        # A clock that runs fast has the page show its progress at every step, as it does for large files.
        page.evaluate("{ let now = 0; performance.now = () => now += 100; window.seen = new Set(); }")
        page.evaluate(
            "new MutationObserver(() => seen.add(part('progress').value))"
            ".observe(part('progress'), {attributes: true})"
        )
        assert verdict(page, text) == {**expected(text), "message": verdict(page, text)["message"]}
        assert page.evaluate("seen.size") > 10
        both = page.evaluate(f"Promise.all([checkText({json.dumps(text)}), checkText('{{}}')])")
        assert [found["message"] for found in both] == [
            "Refused: another file was opened",
            "Refused: the proof has no part 'format'",
        ]
        assert page.evaluate("part('verdict').className") == "refused"
