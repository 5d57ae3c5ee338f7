"""Pictures of the page of a live plant: python benchmarks/live/screenshots.py FOLDER [--docs]

It serves forty pumps with the real agent, plays some months of their life, and takes pictures of every view,
at a desk and on a phone, light and dark. With `--docs` three of them replace those in docs/images.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from psrl_pomdp import POMDP, Setting, save

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

from plants import Server  # noqa: E402

from browser import Browser  # noqa: E402

STATES, ACTIONS = ("good", "worn", "failing", "stopped"), ("run", "inspect", "overhaul")
READINGS = ("low", "raised", "high", "nothing")
RUN = [[0.78, 0.20, 0.02, 0], [0.25, 0.55, 0.20, 0], [0.04, 0.30, 0.66, 0], [0, 0, 0, 1]]
INSPECT = [[0.96, 0.04, 0, 0], [0.04, 0.92, 0.04, 0], [0, 0.04, 0.96, 0], [0, 0, 0, 1]]
WEAR = [[0.93, 0.07, 0, 0], [0, 0.91, 0.09, 0], [0, 0, 0.86, 0.14], [0, 0, 0, 1]]
NEW = [[1, 0, 0, 0]] * 4
COSTS = [[0, 15, 60, 900], [25, 40, 85, 925], [220, 220, 220, 700]]
TOML = """\
name = "Pumps of hall 3"
model = "pump.json"
prior = "dirichlet"
fallback = "inspect"
seed = 1
budget = { rtol = 0.1 }
guards = ["never run when P(failing) > .6"]

[limits]
rate = 0
"""


def pump() -> POMDP:
    """A pump that wears out, with a noisy vibration meter and an inspection that costs something."""
    names: dict[str, Any] = {"states": STATES, "actions": ACTIONS, "observations": READINGS}
    setting = Setting([RUN, INSPECT, RUN], COSTS, [1, 0, 0, 0], units="euro a day", **names)
    return POMDP(setting, [WEAR, WEAR, NEW], name="pump")


class Hall:
    """Forty pumps. The first one has a meter that reads too high."""

    def __init__(self, model: POMDP, seed: int = 4) -> None:
        self.model, self.rng = model, np.random.default_rng(seed)
        self.units = [f"pump-{i:02d}" for i in range(1, 41)]
        self.state = dict.fromkeys(self.units, 0)
        self.action: dict[str, str | None] = dict.fromkeys(self.units)
        self.step = dict.fromkeys(self.units, 0)

    def line(self, unit: str) -> dict[str, Any]:
        reading = None
        if self.action[unit] is not None:
            a = ACTIONS.index(str(self.action[unit]))
            self.state[unit] = int(self.rng.choice(4, p=self.model.transition[a, self.state[unit]]))
            seen = int(self.rng.choice(4, p=self.model.setting.observation[a, self.state[unit]]))
            if unit == self.units[0] and seen < 2 and self.step[unit] > 60:
                seen += 1
            reading = READINGS[seen] if self.rng.random() > 0.02 else None
        self.step[unit] += 1
        return {"unit": unit, "step": self.step[unit], "reading": reading}

    def play(self, server: Server, steps: int) -> None:
        for _ in range(steps):
            lines = "\n".join(json.dumps(self.line(unit)) for unit in self.units)
            for text in post(server, "/v1/readings", lines).splitlines():
                found = json.loads(text)
                self.action[found["unit"]] = found["action"]
            # A real day is long enough for a plan; this one waits for it.
            end = time.monotonic() + 20.0
            while time.monotonic() < end and server.metric("psrl_pomdp_working"):
                time.sleep(0.05)


def post(server: Server, path: str, text: str) -> str:
    import urllib.request

    request = urllib.request.Request(server.url + path, text.encode(), method="POST")
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: str = answer.read().decode()
        return found


def prepare(server: Server, hall: Hall, steps: int) -> str:
    """Play some months, an operator's override and an impossible reading; return the decision to show."""
    hall.play(server, steps)
    unit = next(unit for unit in hall.units[1:] if hall.action[unit] == "run")
    decision = json.loads(server.ask("GET", f"/v1/units/{unit}")[1])["decision"]
    words = {"action": "inspect", "by": "Ann Miller", "why": "a noise from the bearing"}
    post(server, f"/v1/decisions/{decision}/override", json.dumps(words))
    hall.action[unit] = "inspect"
    broken = next(each for each in hall.units[1:] if each != unit and hall.state[each] < 2)
    state = json.loads(server.ask("GET", f"/v1/units/{broken}")[1])
    if state["action"] != "overhaul":
        words = {"action": "overhaul", "by": "Ann Miller", "why": "planned"}
        post(server, f"/v1/decisions/{state['decision']}/override", json.dumps(words))
    hall.step[broken] += 1
    body = {"step": hall.step[broken], "reading": "nothing"}
    found = json.loads(post(server, f"/v1/units/{broken}/readings", json.dumps(body)))
    hall.action[broken] = found["action"]
    return str(decision)


def pictures(server: Server, decision: str, hall: Hall, folder: Path) -> None:
    unit = json.loads(server.ask("GET", f"/v1/decisions/{decision}")[1])["unit"]
    views = {
        "plant": "#/", "unit": f"#/unit/{unit}", "drift": f"#/unit/{hall.units[0]}",
        "decision": f"#/decision/{decision}", "learned": "#/learned", "alarms": "#/alarms",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as home, Browser(Path(home)) as browser:
        for width, device in ((1180, "desk"), (375, "phone"), (320, "narrow")):
            for dark in (False, True):
                for name, address in views.items():
                    page = browser.open(server.url + "/" + address, width=width, height=820, dark=dark)
                    if name in ("unit", "drift", "decision"):
                        page.wait_for("document.getElementById('main').dataset.loaded === 'yes'")
                    time.sleep(0.5)
                    page.screenshot(folder / f"{name}-{device}-{'dark' if dark else 'light'}.png")
                    whole = name != "plant" and width < 1000
                    if whole and not dark:
                        page.screenshot(folder / f"{name}-{device}-whole.png", whole=True)
                    for complaint in page.complaints():
                        print(name, device, complaint)
                    page.browser.events.clear()
                    page.close()


def shrink(source: Path, target: Path) -> None:
    """Write a picture with few colors, which is small."""
    from PIL import Image

    few = (
        Image.open(source)
        .convert("RGB")
        .quantize(192, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    few.save(target, optimize=True)
    print(target.relative_to(ROOT), target.stat().st_size // 1024, "kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--stay", action="store_true", help="go on serving")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        model, server = pump(), Server(Path(place))
        save(model, Path(place) / "pump.json")
        (Path(place) / "plant.toml").write_text(TOML, encoding="utf-8")
        server.start()
        try:
            hall = Hall(model)
            begun = time.perf_counter()
            decision = prepare(server, hall, chosen.steps)
            print(f"{40 * chosen.steps} readings in {time.perf_counter() - begun:.1f} s, {server.url}")
            pictures(server, decision, hall, chosen.folder)
            while chosen.stay:
                hall.play(server, 1)
                time.sleep(1)
        finally:
            server.stop()
    if chosen.docs:
        for name in ("plant-desk-light", "unit-desk-dark", "decision-desk-light"):
            view = name.partition("-")[0]
            shrink(chosen.folder / f"{name}.png", ROOT / "docs" / "images" / f"live_{view}.png")


if __name__ == "__main__":
    main()
