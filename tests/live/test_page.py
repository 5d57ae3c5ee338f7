"""The page of a plant in a real browser, with a real server behind it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn

import fake_fleet
from browser import CHROMIUM, Browser, Page
from psrl_pomdp import POMDP, DirichletPrior, Setting, problem, save
from psrl_pomdp.live.config import PlantFile, plant_from
from psrl_pomdp.live.learned_rows import Learned, learned_rows, prior_tables, weighted_tables
from psrl_pomdp.live.ledger import Ledger
from psrl_pomdp.live.metrics import Metrics
from psrl_pomdp.live.opening import open_log
from psrl_pomdp.live.page_routes import page_files
from psrl_pomdp.live.routes import make_app
from psrl_pomdp.live.server import listen
from psrl_pomdp.live.service import Service
from psrl_pomdp.live.store import Store
from psrl_pomdp.live.stream import Broadcast
from psrl_pomdp.live.tokens import Tokens, new_token

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed: apt install chromium")

BAD = "<img src=x onerror=hurt()>"
WORSE = "</script><script>hurt()</script>"
NAMES: dict[str, dict[str, Any]] = {
    "pump": {
        "states": ["good", "worn", "failing"], "actions": ["run", "inspect", "overhaul"],
        "observations": ["low", "high", "nothing"],
    },
    "hostile": {
        "states": [BAD, WORSE, "&amp;"], "actions": [f"run {BAD}", WORSE, "a" * 120],
        "observations": [BAD, f"{WORSE} x", "javascript:hurt()"],
    },
}  # fmt: skip


def model_of(name: str) -> POMDP:
    """A pump of three states; the reading `nothing` is possible after an overhaul only."""
    run = [[0.9, 0.1, 0], [0.4, 0.6, 0], [0.1, 0.9, 0]]
    sensor = [run, run, [[0.5, 0, 0.5]] * 3]
    setting = Setting(
        sensor, [[0, 20, 300], [15, 35, 315], [100, 100, 100]], [1, 0, 0], units="euro", **NAMES[name]
    )
    wear = [[0.9, 0.1, 0], [0, 0.8, 0.2], [0, 0, 1]]
    return POMDP(setting, [wear, wear, [[1, 0, 0]] * 3], name=name)


class PageFleet(fake_fleet.FakeFleet):
    """The small fleet, with something learned to show."""

    @property
    def prior(self) -> Any:
        if not hasattr(self, "_prior"):
            self._prior = DirichletPrior(self.setting, np.ones((3, 3, 3)))
        return self._prior

    @property
    def posterior(self) -> Any:
        from types import SimpleNamespace

        rng = np.random.default_rng(1)
        kernels = np.stack(
            [0.9 * self.model.transition + 0.1 * rng.dirichlet([1, 1, 1], (3, 3)) for _ in range(9)]
        )
        return SimpleNamespace(kernels=kernels, weights=np.full(9, 1 / 9))

    def episode_records(self) -> tuple[Any, ...]:
        from types import SimpleNamespace

        return tuple(
            SimpleNamespace(
                number=k,
                start=5 * k,
                length=5,
                ended="schedule",
                lower_cost=0.2 - 0.1 / k,
                upper_cost=0.2 + 0.2 / k,
            )
            for k in range(1, 13)
        )


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fake_fleet, "problem", lambda name: model_of(name) if name in NAMES else problem(name)
    )


class Plant:
    """A service on a port that stays the same, and that can be stopped and started again."""

    def __init__(self, folder: Path, model: str = "pump", **changes: Any) -> None:
        self.folder, self.database, self.port = folder, str(folder / "plant.db"), 0
        save(model_of(model), folder / "model.json")
        words = {"name": "Pumps", "model": "model.json", "fallback": NAMES[model]["actions"][1], "seed": 3}
        found = plant_from({**words, **changes, "limits": {"rate": 0}})
        self.plant: PlantFile = __import__("msgspec").structs.replace(found, folder=str(folder))
        self.steps: dict[str, int] = {}

    def start(self) -> None:
        self.store = Store(self.database, create=True)
        self.store.lock(self.plant.name)
        open_log(self.store, self.plant, lambda plant, model: PageFleet(model, plant.seed))
        metrics = Metrics()
        self.broadcast = Broadcast(self.store, metrics)
        self.ledger = Ledger(
            self.store, metrics, lambda data, plant: PageFleet.from_bytes(data), self.broadcast.publish
        )
        self.ledger.start()
        app = make_app(Service(self.ledger, Tokens(self.store), metrics, self.broadcast))
        self.server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=5)
        )
        self.listener = listen("127.0.0.1", self.port)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],), daemon=True)
        self.thread.start()
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=60.0)

    def stop(self) -> None:
        self.client.close()
        self.broadcast.close()
        self.server.should_exit = True
        self.thread.join(timeout=30)
        self.listener.close()
        self.ledger.close()
        self.store.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def read(self, unit: str, reading: Any, **more: Any) -> dict[str, Any]:
        step = self.steps[unit] = self.steps.get(unit, 0) + 1
        answer = self.client.post(
            f"/v1/units/{unit}/readings", json={"step": step, "reading": reading, **more}
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@contextmanager
def serving(folder: Path, model: str = "pump", **changes: Any) -> Iterator[Plant]:
    found = Plant(folder, model, **changes)
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium"), patience=20.0) as found:
        yield found


@contextmanager
def opened(browser: Browser, plant: Plant, view: str = "", **more: Any) -> Iterator[Page]:
    """A view of the page. It must end without a complaint of the console and without requests to others."""
    browser.events.clear()
    page = browser.open(f"{plant.url}/{view}", **more)
    try:
        yield page
        assert page.complaints() == []
        assert [url for url in page.requests() if not url.startswith(plant.url)] == []
    finally:
        page.close()
        browser.events.clear()


def text_of(page: Page, selector: str = "#main") -> str:
    found: str = page.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
    return found


def wait_for_text(page: Page, part: str, selector: str = "#main") -> None:
    page.wait_for(
        f"(document.querySelector({json.dumps(selector)})?.innerText ?? '').includes({json.dumps(part)})"
    )


def loaded(page: Page) -> None:
    page.wait_for("document.getElementById('main').dataset.loaded === 'yes'")


def some_history(plant: Plant, unit: str = "p1", steps: int = 12) -> dict[str, Any]:
    """Readings of a unit, one of them lost; the last answer."""
    found = plant.read(unit, None)
    for i in range(steps - 1):
        reading = None if i == 4 else "low" if i % 3 else "high"
        found = plant.read(unit, reading)
    return found


# -- the views ------------------------------------------------------------------------------------------


@needs_browser
def test_the_plant_shows_its_units_and_follows_them(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        for unit in ("p1", "p2", "q7"):
            some_history(plant, unit, 3)
        with opened(browser, plant) as page:
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
def test_a_unit_has_a_timeline_and_the_same_as_a_table(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        last = some_history(plant, steps=30)
        with opened(browser, plant, "#/unit/p1") as page:
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
def test_a_timeline_is_moved_and_zoomed_by_fingers(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, steps=60)
        with opened(browser, plant, "#/unit/p1", width=375, height=800) as page:
            loaded(page)
            page.click("details.numbers summary")
            steps = "[...document.querySelectorAll('details.numbers tbody tr')].map((row) => Number(row.cells[0].innerText))"
            page.wait_for(f"{steps}.length === 30")
            assert page.evaluate(steps)[0] == 60
            box = page.evaluate(
                "(({x, y, width}) => [x, y, width])(document.querySelector('svg.timeline').getBoundingClientRect())"
            )
            y = box[1] + 60
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
def test_a_decision_is_told_in_words_and_replaced_by_an_operator(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path, guards=["never run when P(good) > .1"]) as plant:
        last = some_history(plant, "p1", 4)
        why = plant.client.get(f"/v1/decisions/{last['decision']}").json()
        with opened(browser, plant, f"#/decision/{last['decision']}") as page:
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
            assert page.evaluate(FAINT) == []
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
def test_an_alarm_tells_what_was_expected_and_what_came(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, "p1", 3)
        some_history(plant, "p2", 3)
        with opened(browser, plant) as page:
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
def test_what_was_learned_stands_beside_the_prior(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, steps=5)
        with opened(browser, plant, "#/learned") as page:
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
def test_the_page_comes_back_after_a_restart_and_misses_nothing(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        some_history(plant, "p1", 3)
        browser.events.clear()
        page = browser.open(plant.url)
        assert page.evaluate("document.getElementById('offline').hidden")
        head = plant.ledger.head[0]
        plant.stop()
        page.wait_for("!document.getElementById('offline').hidden")
        assert text_of(page, "#status") == "not connected"
        assert text_of(page, "#offline").startswith("Not connected since ")
        assert page.evaluate(FAINT) == []
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
            for event in browser.events
            if event.get("method") == "Network.requestWillBeSent"
            and event["params"]["request"]["url"].endswith("/v1/events")
        ]
        assert asked[0] == asked[-1] == str(head)
        page.close()
        browser.events.clear()


@needs_browser
def test_tokens_are_asked_for_and_kept_in_the_tab(tmp_path: Path, browser: Browser) -> None:
    plant = Plant(tmp_path)
    store = Store(plant.database, create=True)
    reads, operates = new_token(store, "reads", "read"), new_token(store, "operates", "operate")
    store.close()
    plant.start()
    try:
        plant.client.headers["Authorization"] = f"Bearer {operates}"
        last = some_history(plant, "p1", 3)
        browser.events.clear()
        page = browser.open(f"{plant.url}/#/decision/{last['decision']}")
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


# -- what may not happen --------------------------------------------------------------------------------


@needs_browser
def test_names_are_texts_whatever_they_contain(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path, "hostile", name=f"plant {WORSE}") as plant:
        plant.client.put("/v1/units/p1", json={"place": BAD, WORSE: {"a": BAD}})
        plant.read("p1", None)
        for reading in (0, 1, 1):
            last = plant.read("p1", reading)
        words = {"action": BAD_ACTION, "by": WORSE, "why": BAD}
        answer = plant.client.post(f"/v1/decisions/{last['decision']}/override", json=words)
        assert answer.status_code == 200
        plant.read("p1", 2)  # impossible, which is an alarm
        for view in (
            "",
            "#/unit/p1",
            f"#/decision/{last['decision']}",
            "#/learned",
            "#/alarms",
            "#/unit/%3Cimg%20src=x%3E",
        ):
            with _complaining(browser, plant, view, width=390) as page:
                page.evaluate("void (window.hurt = () => { window.wasHurt = true })")
                if view.startswith(("#/unit/p1", "#/decision")):
                    loaded(page)
                    page.evaluate(
                        "[...document.querySelectorAll('details')].forEach((each) => { each.open = true })"
                    )
                time.sleep(0.2)
                assert not page.evaluate("window.wasHurt ?? false")
                assert (
                    page.evaluate("document.querySelectorAll('#main img, #main script, #main iframe').length")
                    == 0
                )
                assert page.evaluate(
                    "[...document.querySelectorAll('a')].every((link) => link.protocol === 'http:')"
                )
                assert WORSE in text_of(page, "#name")
                assert page.evaluate(SIDEWAYS) == []


BAD_ACTION = NAMES["hostile"]["actions"][2]
# Elements that are wider than the window, outside of what scrolls by itself.
SIDEWAYS = """(() => {
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= wide) return [];
  return [...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll > *') && each.getBoundingClientRect().right > wide + 1)
    .map((each) => `${each.tagName}.${each.getAttribute('class')}: ${each.textContent.slice(0, 40)}`).concat(`scrollWidth ${document.documentElement.scrollWidth}`);
})()"""


@contextmanager
def _complaining(browser: Browser, plant: Plant, view: str, **more: Any) -> Iterator[Page]:
    """As `opened`, where a unit that is not there may be a complaint of the network."""
    try:
        with opened(browser, plant, view, **more) as page:
            yield page
    except AssertionError as error:
        if "status of 404" not in str(error) or "%3Cimg" not in view:
            raise


def everything(plant: Plant) -> list[str]:
    """A plant with every kind of mark; the views of it."""
    some_history(plant, "a-unit-whose-name-is-as-long-as-a-name-of-a-unit-may-be-in-plant", 6)
    last = some_history(plant, "p1", 40)
    plant.client.post(
        f"/v1/decisions/{last['decision']}/override", json={"action": "overhaul", "by": "Ann", "why": "?"}
    )
    some_history(plant, "p2", 3)
    plant.read("p2", "nothing")
    plant.client.delete("/v1/units/p2")
    return ["", "#/unit/p1", "#/unit/p2", f"#/decision/{last['decision']}", "#/learned", "#/alarms"]


@needs_browser
def test_no_view_is_wider_than_a_phone_and_every_text_has_contrast(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        views = everything(plant)
        for dark in (False, True):
            for width in (320, 1200):
                for view in views:
                    with opened(browser, plant, view, width=width, dark=dark) as page:
                        if view.startswith(("#/unit", "#/decision")):
                            loaded(page)
                        page.evaluate(
                            "[...document.querySelectorAll('details')].forEach((each) => { each.open = true })"
                        )
                        assert page.evaluate(SIDEWAYS) == [], (view, width)
                        assert page.evaluate(FAINT) == [], (view, width, dark)
                        assert page.evaluate(
                            "getComputedStyle(document.body).colorScheme + document.documentElement.dataset.theme"
                        ).endswith("dark" if dark else "light")


# Texts whose contrast with what is behind them is below 4.5 (WCAG AA), or 3 where they are large.
FAINT = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = rgb(getComputedStyle(each).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length || ['NOSCRIPT', 'TITLE', 'title', 'OPTION'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    if (style.clipPath !== 'none' || element.closest('.skip, .visually-hidden')) continue;
    const ink = rgb(element instanceof SVGElement ? style.fill : style.color);
    let ground = behind(element);
    if (element.classList.contains('episode-number')) ground = rgb(getComputedStyle(element.previousElementSibling).fill);
    let opacity = 1;
    for (let each = element; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
    const mixed = ink.map((c, i) => c * opacity + ground[i] * (1 - opacity));
    const [one, other] = [light(mixed), light(ground)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${element.tagName}.${element.getAttribute('class')}: ${element.textContent.slice(0, 30)}`);
  }
  return faint;
})()"""


@needs_browser
def test_light_and_dark_are_switched_and_kept(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        with opened(browser, plant, dark=True) as page:
            ground = "getComputedStyle(document.body).backgroundColor"
            dark = page.evaluate(ground)
            page.click("#theme")
            assert page.evaluate(ground) == "rgb(255, 255, 255)" != dark
            page.call("Page.reload")
            page.wait_for("document.documentElement.dataset.ready === 'yes'")
            assert page.evaluate(ground) == "rgb(255, 255, 255)"
            page.click("#theme")
            assert page.evaluate(ground) == dark
            assert page.evaluate("Object.values(localStorage).length") == 0  # as the system has it


@needs_browser
def test_ten_thousand_units_stay_usable(tmp_path: Path, browser: Browser) -> None:
    with serving(tmp_path) as plant:
        lines = "\n".join(json.dumps({"unit": f"u{i:05}", "step": 1, "reading": None}) for i in range(10_000))
        for start in range(0, 10_000, 2_500):
            part = "\n".join(lines.splitlines()[start : start + 2_500])
            assert plant.client.post("/v1/readings", content=part, timeout=120).status_code == 200
        plant.steps["u07777"] = 1
        with opened(browser, plant) as page:
            page.wait_for("document.querySelectorAll('#units > li').length > 5")
            drawn = "document.querySelectorAll('#units > li').length"
            assert page.evaluate(drawn) < 60
            assert page.evaluate("document.querySelector('#units').getBoundingClientRect().height") > 300_000
            page.evaluate("void scrollTo(0, document.documentElement.scrollHeight)")
            page.wait_for("document.querySelector('#units li[data-unit=u09999]') !== null")
            assert page.evaluate(drawn) < 60
            begun = time.monotonic()
            page.evaluate("scrollTo(0, 0)")
            page.evaluate("document.querySelector('#search').value = '7777'")
            page.evaluate("document.querySelector('#search').dispatchEvent(new Event('input'))")
            page.wait_for("document.querySelector('#units li[data-unit=u07777]') !== null")
            assert page.evaluate(drawn) == 1
            assert time.monotonic() - begun < 5.0
            plant.read("u07777", "low")
            wait_for_text(page, "low", "#units li[data-unit=u07777] .read")


@needs_browser
def test_it_prints_all_units_and_moves_nothing_where_that_is_not_wanted(
    tmp_path: Path, browser: Browser
) -> None:
    with serving(tmp_path) as plant:
        for i in range(60):
            plant.read(f"u{i}", None)
        with opened(browser, plant, height=600) as page:
            assert page.evaluate("document.querySelectorAll('#units > li').length") < 60
            assert (
                page.evaluate("getComputedStyle(document.querySelector('.belief i')).transitionDuration")
                != "0s"
            )
            wanted = [{"name": "prefers-reduced-motion", "value": "reduce"}]
            page.call("Emulation.setEmulatedMedia", features=wanted)
            assert (
                page.evaluate("getComputedStyle(document.querySelector('.belief i')).transitionDuration")
                == "0s"
            )
            page.call("Emulation.setEmulatedMedia", media="print")
            page.evaluate("void dispatchEvent(new Event('beforeprint'))")
            assert page.evaluate("document.querySelectorAll('#units > li').length") == 60
            assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
            assert page.evaluate("document.documentElement.dataset.theme") == "light"
            tops = page.evaluate(
                "[...document.querySelectorAll('#units > li')].map((row) => row.getBoundingClientRect().top)"
            )
            assert tops == sorted(set(tops))  # one under the other
            page.evaluate("void dispatchEvent(new Event('afterprint'))")
            assert page.evaluate("document.querySelectorAll('#units > li').length") < 60


def test_the_files_of_the_page_are_served_with_a_strict_policy(tmp_path: Path) -> None:
    with serving(tmp_path) as plant:
        for name in ["", *(f"page/{name}" for name in page_files())]:
            found = plant.client.get(f"/{name}")
            assert found.status_code == 200, name
            policy = found.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert found.headers["x-content-type-options"] == "nosniff"
        for name in ("..%2Fengine.py", "nothing.js", "%2e%2e", "engine.py"):
            assert plant.client.get(f"/page/{name}").status_code == 404
    for name, (data, _) in page_files().items():
        text = data.decode()
        assert "innerHTML" not in text, name
        assert "//" not in text.replace("http://www.w3.org/", "").replace("// ", "").replace("//\n", ""), name


# -- what the page stands on ----------------------------------------------------------------------------


def test_units_and_histories_come_in_pages(tmp_path: Path) -> None:
    with serving(tmp_path) as plant:
        for i in range(5):
            plant.read(f"u{i}", None)
        some_history(plant, "p", 7)
        names, after = [], 0
        while after is not None:
            page = plant.client.get("/v1/units", params={"after": after, "limit": 2}).json()
            names += [each["unit"] for each in page["units"]]
            after = page["next"]
        assert names == ["u0", "u1", "u2", "u3", "u4", "p"]
        steps, before = [], 0
        while before is not None:
            page = plant.client.get("/v1/units/p/history", params={"before": before, "limit": 3}).json()
            steps = [row["step"] for row in page["events"] if row["kind"] == "reading"] + steps
            before = page["previous"]
        assert steps == list(range(1, 8))


def test_intervals_of_weighted_kernels_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(5)
    kernels = rng.dirichlet([1, 1], (12, 2, 2))
    weights = rng.dirichlet(np.ones(12))
    mean, lower, upper = weighted_tables(kernels, weights, 0.8)
    for place in np.ndindex(2, 2, 2):
        values = kernels[(slice(None), *place)]
        assert mean[place] == pytest.approx(float((weights * values).sum()))
        # The smallest value with more than a tenth of the weight up to it, and the largest with a tenth above.
        assert lower[place] == min(v for v in values if weights[values <= v].sum() > 0.1)
        assert upper[place] == min(v for v in values if weights[values <= v].sum() >= 0.9)


def test_the_interval_of_a_dirichlet_prior_has_its_probability() -> None:
    setting = model_of("pump").setting
    counts = np.array([[[8.0, 1, 1], [0, 3, 2], [0, 0, 1]]] * 3)
    mean, lower, upper = prior_tables(DirichletPrior(setting, counts)) or (None, None, None)
    assert mean is not None
    assert lower is not None
    assert upper is not None
    np.testing.assert_allclose(mean[0, 0], [0.8, 0.1, 0.1])
    drawn = np.random.default_rng(3).dirichlet([8.0, 1, 1], 40_000)
    inside = ((lower[0, 0] <= drawn) & (drawn <= upper[0, 0])).mean(axis=0)
    # Three shares of 40,000 draws, each within 5 standard deviations: a false alarm in 2 million.
    assert (abs(inside - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 40_000)).all()
    assert lower[0, 2, 2] == upper[0, 2, 2] == 1.0


def test_rows_that_are_known_are_not_told() -> None:
    model = model_of("pump")
    known = {(0, 0): [0.9, 0.1, 0], (2, 1): [1, 0, 0]}
    prior = DirichletPrior(model.setting, np.array([[[1.0, 1, 1]] * 3] * 3), known)
    rng = np.random.default_rng(2)
    kernels = np.stack([prior.sample(rng) for _ in range(20)])
    found = learned_rows(Learned(model.setting, prior, kernels, np.full(20, 0.05), None))["rows"]
    assert len(found) == 7
    assert ("run", "good") not in {(row["action"], row["state"]) for row in found}
    assert found[0]["next"] == ["good", "worn", "failing"]
