"""The page where names are hostile, units are many, windows are narrow and colors are dark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from page_plants import (
    BAD,
    NAMES,
    WORSE,
    Plant,
    check,
    everything,
    loaded,
    needs_browser,
    opened,
    serving,
    text_of,
    wait_for_text,
)

from browser import Browser, Page
from psrl_pomdp.live.page_routes import page_files

# -- what may not happen --------------------------------------------------------------------------------


def open_all(page: Page) -> None:
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


@needs_browser
def test_names_are_texts_whatever_they_contain(tmp_path: Path, live_browser: Browser) -> None:
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
            with _complaining(live_browser, plant, view, width=390) as page:
                page.evaluate("void (window.hurt = () => { window.wasHurt = true })")
                if view.startswith(("#/unit/p1", "#/decision")):
                    loaded(page)
                    open_all(page)
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
                assert check(page, "sideways") == []


BAD_ACTION = NAMES["hostile"]["actions"][2]


@contextmanager
def _complaining(live_browser: Browser, plant: Plant, view: str, **more: Any) -> Iterator[Page]:
    """As `opened`, where a unit that is not there may be a complaint of the network."""
    try:
        with opened(live_browser, plant, view, **more) as page:
            yield page
    except AssertionError as error:
        if "status of 404" not in str(error) or "%3Cimg" not in view:
            raise


@needs_browser
def test_no_view_is_wider_than_a_phone_and_every_text_has_contrast(
    tmp_path: Path, live_browser: Browser
) -> None:
    with serving(tmp_path) as plant:
        views = everything(plant)
        for dark in (False, True):
            with opened(live_browser, plant, dark=dark) as page:
                assert page.evaluate("document.documentElement.dataset.theme") == (
                    "dark" if dark else "light"
                )
                for view in views:
                    page.evaluate(f"void (location.hash = {json.dumps(view or '#/')})")
                    if view.startswith(("#/unit", "#/decision")):
                        page.wait_for(
                            f"location.hash === {json.dumps(view)} && !document.querySelector('#units')"
                        )
                        loaded(page)
                    for width in (320, 1200):
                        page.resize(width, 800)
                        open_all(page)
                        time.sleep(0.05)  # for what is drawn anew
                        assert check(page, "sideways") == [], (view, width)
                        assert check(page, "faint") == [], (view, width, dark)


@needs_browser
def test_light_and_dark_are_switched_and_kept(tmp_path: Path, live_browser: Browser) -> None:
    with serving(tmp_path) as plant, opened(live_browser, plant, dark=True) as page:
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
def test_ten_thousand_units_stay_usable(tmp_path: Path, live_browser: Browser) -> None:
    with serving(tmp_path) as plant:
        lines = "\n".join(json.dumps({"unit": f"u{i:05}", "step": 1, "reading": None}) for i in range(10_000))
        for start in range(0, 10_000, 2_500):
            part = "\n".join(lines.splitlines()[start : start + 2_500])
            assert plant.client.post("/v1/readings", content=part, timeout=120).status_code == 200
        plant.steps["u07777"] = 1
        with opened(live_browser, plant) as page:
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
    tmp_path: Path, live_browser: Browser
) -> None:
    with serving(tmp_path) as plant:
        for i in range(60):
            plant.read(f"u{i}", None)
        with opened(live_browser, plant, height=600) as page:
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
