"""Chromium without a window, driven by its DevTools protocol through two pipes: no driver, and no port.

with Browser(tmp_path) as browser:
    page = browser.open(path, width=390)
    page.evaluate("document.title")
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync --disable-extensions
    --disable-default-apps --mute-audio
    --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe""".split()
# The protocol's pipes are descriptors 3 and 4, which is for a small program in between to arrange.
_LAUNCH = "import os, sys; r, w, *command = sys.argv[1:]; os.dup2(int(r), 3); os.dup2(int(w), 4); "
_LAUNCH += "os.execvp(command[0], command)"


class BrowserError(Exception):
    """The browser said no, or nothing in time."""


class Browser:
    """One process of chromium with a profile of its own."""

    def __init__(self, folder: Path, patience: float = 60.0) -> None:
        assert CHROMIUM is not None
        self.patience = patience
        (read, self._write), (self._read, write) = (_high(os.pipe()), _high(os.pipe()))
        home = folder / "browser"
        home.mkdir()
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(read), str(write)]
        self._process = subprocess.Popen(
            [*launcher, CHROMIUM, *_FLAGS, f"--user-data-dir={home}", "about:blank"],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home), "NO_AT_BRIDGE": "1"},
        )
        os.close(read)
        os.close(write)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def open(self, path: Path | str, *, width: int = 1200, height: int = 900, dark: bool = False) -> Page:
        """A page from disk or from a server, with its figures there."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        page.wait_for("document.documentElement?.dataset.ready === 'yes'")
        return page

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        self._number += 1
        words: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            words["sessionId"] = session
        os.write(self._write, json.dumps(words).encode() + b"\0")
        end = time.monotonic() + self.patience
        while True:
            message = self._next(end)
            if message.get("id") != self._number:
                self.events.append(message)
            elif "error" in message:
                raise BrowserError(f"{method}: {message['error']}")
            else:
                result: dict[str, Any] = message["result"]
                return result

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise BrowserError("the browser has gone" if ready else "the browser does not answer")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        words: dict[str, Any] = json.loads(message)
        return words


class Page:
    """One page, as its user and its console see it."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, code: str) -> Any:
        """The value of an expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{code}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, code: str) -> None:
        """Until the expression is true."""
        end = time.monotonic() + self.browser.patience
        while not self._is_true(code):
            if time.monotonic() > end:
                raise BrowserError(f"never came true: {code}; {self.complaints()}")
            time.sleep(0.05)

    def _is_true(self, code: str) -> bool:
        try:
            return bool(self.evaluate(code))
        except BrowserError:  # between two documents there is nothing to ask
            return False

    def click(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, selector: str, key: str = "Enter") -> None:
        """A key, for who has no mouse."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        code = {"Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            own = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **own)

    def resize(self, width: int, height: int) -> None:
        phone = width < 500
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """What is in the window, or the whole page."""
        more: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **more)["data"]))

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and exceptions that nobody caught."""
        self.evaluate("0")  # what is under way has arrived by now
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            words = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(words["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded" and words["entry"]["level"] in ("error", "warning"):
                found.append(json.dumps(words["entry"]))
            elif event.get("method") == "Runtime.consoleAPICalled" and words["type"] in ("error", "warning"):
                found.append(json.dumps(words["args"]))
        return found

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        self.evaluate("0")
        return [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event.get("method") == "Network.requestWillBeSent" and event.get("sessionId") == self.session
        ]


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """The same pipe with descriptors above those that the protocol wants."""
    import fcntl

    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
