"""`psrl-pomdp serve`, `audit`, `export`, `rollback` and `token`, and the client."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from plants import serving

from commands import run
from psrl_pomdp import PSRLError
from psrl_pomdp.live import Client
from psrl_pomdp.live.client import NoAnswerError, ServiceError
from psrl_pomdp.live.config import plant_from
from psrl_pomdp.live.ledger import Ledger, Request
from psrl_pomdp.live.metrics import Metrics
from psrl_pomdp.live.opening import open_log
from psrl_pomdp.live.store import Store

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> str:
    """The log of a plant with three readings, on the fleet of the package."""
    database = str(tmp_path / "plant.db")
    with Store(database, create=True) as store:
        open_log(
            store, plant_from({"name": "tracks", "model": "tiger", "prior": "dirichlet", "fallback": "0"})
        )
        ledger = Ledger(store, Metrics())
        ledger.start()
        for step in (1, 2, 3):
            ledger.take(Request("reading", "p", {"step": step, "reading": None})).result(timeout=60)
        ledger.close()
    return database


def test_a_good_log_and_a_changed_one(log: str, capsys: Capture) -> None:
    code, out, _ = run("audit", log, capsys=capsys)
    assert (code, "good." in out, "3 decisions" in out) == (0, True, True)
    from sqlalchemy import text

    with Store(log) as store, store.engine.begin() as connection:
        connection.execute(text("UPDATE events SET step = 9 WHERE kind = 'reading' AND step = 2"))
    code, out, _ = run("audit", log, "--json", capsys=capsys)
    assert (code, json.loads(out)["good"]) == (1, False)
    assert json.loads(out)["findings"][0].startswith("event ")


def test_export_and_rollback(log: str, tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run("export", log, capsys=capsys)
    assert (code, len(out.strip().splitlines()), err.strip()) == (0, 4, "3 lines")
    where = tmp_path / "events.jsonl"
    run("export", log, "--format", "jsonl", "-o", str(where), capsys=capsys)
    rows = [json.loads(line) for line in where.read_text("utf-8").splitlines()]
    second = next(row["seq"] for row in rows if row["kind"] == "reading" and row["step"] == 2)
    code, out, _ = run("rollback", log, str(second), "--by", "Ada", capsys=capsys)
    assert (code, f"from the state after event {second}" in out) == (0, True)
    assert run("audit", log, capsys=capsys)[0] == 0
    assert len(run("export", log, capsys=capsys)[1].strip().splitlines()) == 3
    code, _, err = run("rollback", log, "999", capsys=capsys)
    assert (code, "there is no event 999" in err) == (1, True)


def test_tokens_are_shown_once(log: str, capsys: Capture) -> None:
    code, out, _ = run("token", "add", "scada", "--role", "operate", "--db", log, capsys=capsys)
    assert code == 0
    assert out.startswith("psrl_")
    code, listed, _ = run("token", "list", "--db", log, capsys=capsys)
    assert "scada" in listed
    assert out.strip() not in listed
    assert "already" in run("token", "add", "scada", "--role", "read", "--db", log, capsys=capsys)[2]
    assert "did you mean" in run("token", "add", "x", "--role", "reed", "--db", log, capsys=capsys)[2]
    assert run("token", "revoke", "scada", "--db", log, capsys=capsys)[0] == 0
    assert json.loads(run("token", "list", "--db", log, "--json", capsys=capsys)[1])[0]["revoked"]
    assert "no valid token" in run("token", "revoke", "scada", "--db", log, capsys=capsys)[2]


def test_serve_says_what_is_wrong_before_it_starts(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "plant.toml").write_text('model = "tiger"\nfallback = "0"\n', "utf-8")
    (tmp_path / "bad.toml").write_text('model = "tiger"\nfallback = "0"\nguard = []\n', "utf-8")
    database = ["--db", f"sqlite:///{tmp_path / 'plant.db'}"]
    code, _, err = run("serve", str(tmp_path / "bad.toml"), *database, capsys=capsys)
    assert (code, "guard is no key of a plant (did you mean 'guards'?)" in err) == (1, True)
    plant = str(tmp_path / "plant.toml")
    code, _, err = run("serve", plant, *database, "--host", "0.0.0.0", capsys=capsys)
    assert (code, "without tokens" in err) == (1, True)
    code, _, err = run("serve", plant, "--db", "sqlite:////no/such/plant.db", capsys=capsys)
    assert (code, "there is no folder /no/such" in err) == (1, True)
    assert run("audit", str(tmp_path / "none.db"), capsys=capsys)[0] == 1


# -- the client -----------------------------------------------------------------------------------------


def test_the_client_speaks_with_the_service(tmp_path: Path) -> None:
    with serving(str(tmp_path / "plant.db")) as http, Client(str(http.base_url)) as client:
        first = client.reading("p", "good")
        assert (first["unit"], first["step"]) == ("p", 1)
        assert client.reading("p", "good", step=1) == first
        assert client.reading("p", "defective", cost=None)["step"] == 2
        both = client.readings(
            [{"unit": "p", "step": 3, "reading": 0}, {"unit": "q", "step": 2, "reading": 0}]
        )
        assert [each.get("status", 200) for each in both] == [200, 409]
        assert client.reading("p", None)["step"] == 4
        assert client.unit("p")["step"] == client.step("p") == 4
        assert client.step("unknown") == 0
        decision = client.units()[0]["decision"]
        assert client.override(decision, "replace", "Ada", "noise")["action"] == "replace"
        assert client.decision(decision)["overrides"][0]["by"] == "Ada"
        assert [event["step"] for event in client.history("p") if event["kind"] == "reading"] == [1, 2, 3, 4]
        assert client.describe("r", hall=3)["created"]
        assert client.leave("r")["present"] is False
        assert client.plant()["readings"] == 4
        stream = client.events(after=0)
        assert [next(stream)["seq"] for _ in range(3)] == [1, 2, 3]
        stream.close()
        with pytest.raises(ServiceError) as error:
            client.reading("p", "nonsense")
        assert (error.value.status, error.value.problem["title"]) == (422, "invalid reading")


class Flaky(BaseHTTPRequestHandler):
    """Answers 503, breaks the connection, and answers at last; it remembers the keys."""

    seen: ClassVar[list[tuple[str | None, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.headers["Idempotency-Key"], body))
        if len(self.seen) == 1:
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.end_headers()
        elif len(self.seen) == 2:
            self.connection.close()
        else:
            data = b'{"unit": "p", "step": 1, "decision": "d2", "action": "go"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def test_the_client_repeats_the_same_request_until_it_has_an_answer() -> None:
    with HTTPServer(("127.0.0.1", 0), Flaky) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with Client(f"http://127.0.0.1:{server.server_port}") as client:
            assert client.reading("p", 0, step=1, key="k")["action"] == "go"
        server.shutdown()
    assert [key for key, _ in Flaky.seen] == ["k"] * 3
    assert len({body for _, body in Flaky.seen}) == 1


def test_the_client_gives_up_and_refuses_nonsense() -> None:
    with pytest.raises(NoAnswerError, match=r"127\.0\.0\.1"):
        Client("http://127.0.0.1:9", attempts=2, timeout=0.5).unit("p")
    with pytest.raises(PSRLError, match="no address"):
        Client("ftp://x")


def test_the_client_needs_no_further_packages() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from psrl_pomdp.live import Client; "
        "print([m for m in ('litestar', 'uvicorn', 'sqlalchemy', 'numpy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
