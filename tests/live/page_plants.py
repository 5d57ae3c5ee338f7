"""Plants, fleets and views for the tests of the page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import fake_fleet
import httpx
import msgspec
import numpy as np
import pytest
import uvicorn

from browser import CHROMIUM, Browser, Page
from psrl_pomdp import POMDP, DirichletPrior, Setting, problem, save
from psrl_pomdp.live import reasons
from psrl_pomdp.live.config import PlantFile, plant_from
from psrl_pomdp.live.ledger import Ledger
from psrl_pomdp.live.metrics import Metrics
from psrl_pomdp.live.opening import open_log
from psrl_pomdp.live.routes import make_app
from psrl_pomdp.live.server import listen
from psrl_pomdp.live.service import Service
from psrl_pomdp.live.store import Store
from psrl_pomdp.live.stream import Broadcast
from psrl_pomdp.live.tokens import Tokens

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
    wear = [[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]]
    return POMDP(setting, [wear, wear, [[1.0, 0.0, 0.0]] * 3], name=name)


class PageFleet(fake_fleet.FakeFleet):
    """The small fleet, with something learned to show."""

    @property
    def prior(self) -> Any:
        if not hasattr(self, "_prior"):
            self._prior = DirichletPrior(self.setting, np.ones((3, 3, 3)))
        return self._prior

    @property
    def posterior(self) -> Any:
        rng = np.random.default_rng(1)
        kernels = np.stack(
            [0.9 * self.model.transition + 0.1 * rng.dirichlet([1, 1, 1], (3, 3)) for _ in range(9)]
        )
        return SimpleNamespace(kernels=kernels, weights=np.full(9, 1 / 9))

    def episode_records(self) -> tuple[Any, ...]:
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


def any_model(name: str) -> POMDP:
    return model_of(name) if name in NAMES else problem(name)


def advantages(now: Any, own: Setting) -> Any:
    """Values of the actions, where the small fleet has none."""
    costs = own.own_cost @ now.belief
    return costs - costs.min()


class Plant:
    """A service on a port that stays the same, and that can be stopped and started again."""

    def __init__(self, folder: Path, model: str = "pump", **changes: Any) -> None:
        self.folder, self.database, self.port = folder, str(folder / "plant.db"), 0
        save(model_of(model), folder / "model.json")
        words = {"name": "Pumps", "model": "model.json", "fallback": NAMES[model]["actions"][1], "seed": 3}
        found = plant_from({**words, **changes, "limits": {"rate": 0}})
        self.plant: PlantFile = msgspec.structs.replace(found, folder=str(folder))
        self.steps: dict[str, int] = {}

    def start(self) -> None:
        self.patches = ExitStack()
        self.patches.enter_context(mock.patch.object(fake_fleet, "problem", any_model))
        self.patches.enter_context(mock.patch.object(reasons, "advantages_at", advantages))
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
        self.patches.close()

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


CHECKS = Path(__file__).with_name("page_checks.js").read_text(encoding="utf-8")


def check(page: Page, name: str) -> list[str]:
    """What a check of `page_checks.js` finds: `sideways` or `faint`."""
    found: list[str] = page.evaluate(f"({CHECKS.strip()}).{name}()")
    return found
