"""The page of a plant in a real browser, with a real server behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from page_plants import (
    Plant,
    check,
    loaded,
    needs_browser,
    opened,
    serving,
    some_history,
    text_of,
    wait_for_text,
)

from browser import Browser
from psrl_pomdp.live.store import Store
from psrl_pomdp.live.tokens import new_token

# -- the views ------------------------------------------------------------------------------------------


@needs_browser
def test_the_plant_shows_its_units_and_follows_them(tmp_path: Path, live_browser: Browser) -> None:
    with serving(tmp_path) as plant:
        for unit in ("p1", "p2", "q7"):
            some_history(plant, unit, 3)
        with opened(live_browser, plant) as page:
            assert page.evaluate("document.title") == "Units – Pumps"
            assert text_of(page, "#status") == "live"
            rows = "[...document.querySelectorAll('#units > li')].map((row) => row.dataset.unit)"
            assert page.evaluate(rows) == ["p1", "p2", "q7"]
            belief = plant.client.get("/v1/units/p1").json()["belief"]
            best = max(belief, key=belief.__getitem__)
            label = page.evaluate("document.querySelector('#units .belief').getAttribute('aria-label')")
            assert label.startswith(f"Belief: {best} ")
            widths = page.evaluate(
                "[...document.querySelectorAll('#units li:first-child .belief i')]"
                ".map((part) => part.getBoundingClientRect().width)"
            )
            assert max(widths) / sum(widths) == pytest.approx(belief[best], abs=0.03)
            # What comes in is shown without a reload, a new unit as well.
            answer = plant.read("p2", "high")
            wait_for_text(page, "high", "#units li[data-unit=p2] .read")
            assert answer["action"] in text_of(page, "#units li[data-unit=p2] .act")
            plant.read("z9", None)
            page.wait_for("document.querySelector('#units li[data-unit=z9]') !== null")
            # The list is searched and ordered, and has keys.
            page.evaluate("document.querySelector('#search').value = 'P'")
            page.evaluate("document.querySelector('#search').dispatchEvent(new Event('input'))")
            assert page.evaluate(rows) == ["p1", "p2"]
            assert text_of(page, "#found") == "2 of 4 units"
            page.press("#units li a", "ArrowDown")
            assert page.evaluate("document.activeElement.closest('li').dataset.unit") == "p2"
            page.press("#units li[data-unit=p2] a", "Enter")
            page.wait_for("location.hash === '#/unit/p2'")
            loaded(page)


@needs_browser
def test_a_unit_has_a_timeline_and_the_same_as_a_table(tmp_path: Path, live_browser: Browser) -> None:
    with serving(tmp_path) as plant:
        last = some_history(plant, steps=30)
        with opened(live_browser, plant, "#/unit/p1") as page:
            loaded(page)
            timeline = "document.querySelector('svg.timeline')"
            assert page.evaluate(f"{timeline}.getAttribute('aria-valuenow')") == "30"
            said = page.evaluate(f"{timeline}.getAttribute('aria-valuetext')")
            assert "Step 30" in said
            assert f"action {last['action']}" in said
            lanes = page.evaluate(
                f"[...{timeline}.querySelectorAll('.lane')].map((lane) => lane.textContent)"
            )
            assert lanes == ["Belief", "Readings", "Actions", "Episodes", "Marks", "Step"]
            # Keys move along it, and the table has the same steps.
            page.press("svg.timeline", "ArrowLeft")
            assert page.evaluate(f"{timeline}.getAttribute('aria-valuenow')") == "29"
            assert "Step 29" in text_of(page, ".detail")
            page.press("svg.timeline", "Home")
            assert "Step 1," in text_of(page, ".detail")
            page.click("details.numbers summary")
            wait_for_text(page, "P(failing)", "details.numbers")
            cells = page.evaluate(
                "[...document.querySelectorAll('details.numbers tbody tr')]"
                ".map((row) => [...row.cells].map((cell) => cell.innerText))"
            )
            assert [row[0] for row in cells] == [str(step) for step in range(30, 0, -1)]
            events = plant.client.get("/v1/units/p1/history", params={"limit": 1000}).json()["events"]
            answers = {row["step"]: row["answer"] for row in events if row["kind"] == "reading"}
            assert [row[3] for row in cells] == [answers[int(row[0])]["action"] for row in cells]
            assert cells[-6][2] == "lost"
            # It zooms by buttons, and follows what comes in.
            before = page.evaluate(f"{timeline}.querySelectorAll('path').length")
            page.click("[aria-label='Show fewer steps']")
            page.wait_for("document.querySelectorAll('details.numbers tbody tr').length < 30")
            assert before > 3
            page.click("[aria-label='The latest steps']")
            plant.read("p1", "high")
            page.wait_for(f"{timeline}.getAttribute('aria-valuemax') === '31'")
            page.press("svg.timeline", "End")
            page.press("svg.timeline", "Enter")
            page.wait_for("location.hash.startsWith('#/decision/')")
            loaded(page)


@needs_browser
def test_a_timeline_is_moved_and_zoomed_by_fingers(tmp_path: Path, live_browser: Browser) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, steps=60)
        with opened(live_browser, plant, "#/unit/p1", width=375, height=800) as page:
            loaded(page)
            page.click("details.numbers summary")
            rows = "[...document.querySelectorAll('details.numbers tbody tr')]"
            steps = f"{rows}.map((row) => Number(row.cells[0].innerText))"
            page.wait_for(f"{steps}.length === 30")
            assert page.evaluate(steps)[0] == 60
            y = 60 + page.evaluate("document.querySelector('svg.timeline').getBoundingClientRect().y")
            page.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)

            def touch(kind: str, *xs: float) -> None:
                points = [{"x": x, "y": y, "id": i} for i, x in enumerate(xs)]
                page.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

            touch("touchStart", 150)
            for x in (180, 220, 260):
                touch("touchMove", x)
            touch("touchEnd")
            page.wait_for(f"{steps}[0] < 60")
            moved = page.evaluate(steps)
            touch("touchStart", 200, 240)
            for apart in (30, 50, 70):
                touch("touchMove", 220 - apart, 220 + apart)
            touch("touchEnd")
            page.wait_for(f"{steps}.length < {len(moved) // 2}")


@needs_browser
def test_a_decision_is_told_in_words_and_replaced_by_an_operator(
    tmp_path: Path, live_browser: Browser
) -> None:
    with serving(tmp_path, guards=["never run when P(good) > .1"]) as plant:
        last = some_history(plant, "p1", 4)
        why = plant.client.get(f"/v1/decisions/{last['decision']}").json()
        with opened(live_browser, plant, f"#/decision/{last['decision']}") as page:
            loaded(page)
            words = text_of(page, ".verdict")
            assert words.startswith("At step 4, p1 read low.")
            assert f"its state is {max(last['belief'], key=last['belief'].__getitem__)} with" in words
            assert "the long run" in words
            assert "never run when P(good) > .1" in words
            assert f"so {last['action']} was given" in words
            low, high = why["sampled_model"]["lower"], why["sampled_model"]["upper"]
            assert f"between {low:.4g} and {high:.4g} euro" in text_of(page)
            # The form, first without an answer, then with one and back, then to the end.
            page.click("button.override")
            assert check(page, "faint") == []
            assert page.evaluate("document.querySelector('#override-dialog').open")
            other = "overhaul" if last["action"] != "overhaul" else "inspect"
            page.evaluate(f"document.querySelector('#override-dialog input[value={other}]').checked = true")
            page.evaluate("document.querySelector('#override-dialog [name=by]').value = 'Ann'")
            page.evaluate("document.querySelector('#override-dialog [name=why]').value = 'a noise'")
            page.click("#override-dialog button[type=submit]")
            assert f"{other} instead of {last['action']}" in text_of(page, ".sure")
            assert plant.client.get("/v1/units/p1").json()["action"] == last["action"]  # not yet
            page.click("#override-dialog button[type=submit]")
            page.wait_for("!document.querySelector('#override-dialog').open")
            wait_for_text(page, f"Ann replaced it by {other}")
            assert "“a noise”" in text_of(page)
            unit = plant.client.get("/v1/units/p1").json()
            assert (unit["action"], unit["overridden"]) == (other, True)
            marks = "[...document.querySelectorAll('.heading .mark')].map((mark) => mark.innerText)"
            assert page.evaluate(marks)[:2] == ["override", "rule"]
            # A decision that is not the last one has no form, but a way to the last one.
            plant.read("p1", "low")
            page.wait_for("!document.querySelector('button.override')")
            wait_for_text(page, "the latest decision", "#crumb")


@needs_browser
def test_an_alarm_tells_what_was_expected_and_what_came(tmp_path: Path, live_browser: Browser) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, "p1", 3)
        some_history(plant, "p2", 3)
        with opened(live_browser, plant) as page:
            assert page.evaluate("document.querySelector('#units .mark.alarm') === null")
            found = plant.read("p2", "nothing")
            assert found["fallback"]
            page.wait_for("document.querySelector('#units li:first-child .mark.alarm') !== null")
            assert page.evaluate("document.querySelector('#units li').dataset.unit") == "p2"  # alarms first
            assert text_of(page, "#alarm-count") == "1"
            assert page.evaluate("document.title").startswith("(1) ")
            assert "Alarm at p2" in page.evaluate("document.querySelector('#said').textContent")
            page.evaluate("void (location.hash = '#/alarms')")
            wait_for_text(page, "Impossible reading")
            (alarm,) = plant.client.get("/v1/plant").json()["alarms"]
            chances = alarm["body"]["expected"]
            assert sum(chances.values()) == pytest.approx(1.0)
            shown = text_of(page)
            assert "at most 1 %" in shown
            assert "What came\nnothing" in shown
            assert all(f"{word} {100 * p:.0f} %" in shown for word, p in chances.items())
            page.click(".alarms a")
            page.wait_for("location.hash === '#/unit/p2?step=4'")
            loaded(page)
            assert "Marked: alarm and fallback" in text_of(page, ".detail")
            plant.read("p2", "low")
            page.wait_for("document.getElementById('alarm-count').hidden")


@needs_browser
def test_what_was_learned_stands_beside_the_prior(tmp_path: Path, live_browser: Browser) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, steps=5)
        with opened(live_browser, plant, "#/learned") as page:
            wait_for_text(page, "run: good → good")
            rows = plant.client.get("/v1/plant").json()["rows"]
            assert rows["level"] == 0.95
            first = next(row for row in rows["rows"] if (row["action"], row["state"]) == ("run", "good"))
            line = page.evaluate(
                "[...document.querySelectorAll('table.learned tbody tr')]"
                ".find((row) => row.cells[0].innerText === 'run: good → good').innerText"
            )
            assert f"{first['posterior']['mean'][0]:.3g}" in line
            assert "0.333 [0.013, 0.84]" in line  # a beta distribution with 1 and 2
            episodes = plant.client.get("/v1/plant").json()["episodes"]
            assert (
                page.evaluate("document.querySelectorAll('svg.chart .interval').length")
                == len(episodes)
                == 12
            )
            page.click("details.numbers summary")
            cells = page.evaluate(
                "[...document.querySelector('details.numbers tbody tr').cells].map((cell) => cell.innerText)"
            )
            assert cells[0] == "12"
            assert float(cells[4]) == pytest.approx(episodes[-1]["lower"], rel=1e-3)


# -- connection and tokens ------------------------------------------------------------------------------


@needs_browser
def test_the_page_comes_back_after_a_restart_and_misses_nothing(
    tmp_path: Path, live_browser: Browser
) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, "p1", 3)
        live_browser.events.clear()
        page = live_browser.open(plant.url)
        assert page.evaluate("document.getElementById('offline').hidden")
        head = plant.ledger.head[0]
        plant.stop()
        page.wait_for("!document.getElementById('offline').hidden")
        assert text_of(page, "#status") == "not connected"
        assert text_of(page, "#offline").startswith("Not connected since ")
        assert check(page, "faint") == []
        page.evaluate("window.same = true")
        plant.start()
        plant.read("p1", "high")
        plant.read("new", None)
        page.click("#offline button")
        page.wait_for("document.getElementById('status').dataset.status === 'live'")
        page.wait_for("document.querySelector('#units li[data-unit=new]') !== null")
        wait_for_text(page, "high", "#units li[data-unit=p1] .read")
        assert page.evaluate("window.same")  # no reload
        assert page.evaluate("document.getElementById('offline').hidden")
        asked = [
            {name.lower(): value for name, value in event["params"]["request"]["headers"].items()}[
                "last-event-id"
            ]
            for event in live_browser.events
            if event.get("method") == "Network.requestWillBeSent"
            and event["params"]["request"]["url"].endswith("/v1/events")
        ]
        assert asked[0] == asked[-1] == str(head)
        page.close()
        live_browser.events.clear()


@needs_browser
def test_tokens_are_asked_for_and_kept_in_the_tab(tmp_path: Path, live_browser: Browser) -> None:
    plant = Plant(tmp_path)
    store = Store(plant.database, create=True)
    reads, operates = new_token(store, "reads", "read"), new_token(store, "operates", "operate")
    store.close()
    plant.start()
    try:
        plant.client.headers["Authorization"] = f"Bearer {operates}"
        last = some_history(plant, "p1", 3)
        live_browser.events.clear()
        page = live_browser.open(f"{plant.url}/#/decision/{last['decision']}")
        assert page.evaluate("document.querySelector('#token-dialog').open")
        assert "a token is wanted" in text_of(page, "#token-why")

        def give(token: str) -> None:
            page.evaluate(f"document.querySelector('#token').value = {json.dumps(token)}")
            page.click("#token-form button[type=submit]")

        give("wrong")
        wait_for_text(page, "unknown or revoked", "#token-why")
        give(reads)
        loaded(page)
        assert "a token with the role “operate” is needed" in text_of(page)
        assert page.evaluate("document.querySelector('button.override') === null")
        assert page.evaluate("Object.values(sessionStorage)") == [reads]
        assert page.evaluate("Object.values(localStorage).length") == 0
        page.click("#token-button")
        give(operates)
        page.call("Page.reload")
        page.wait_for("document.documentElement.dataset.ready === 'yes'")
        loaded(page)
        assert page.evaluate("document.querySelector('button.override') !== null")
        assert all("psrl_" not in url for url in page.requests())
        page.close()
    finally:
        plant.stop()
