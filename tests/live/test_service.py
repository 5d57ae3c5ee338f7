"""The service over HTTP: routes, problems, tokens, limits, guards, shadow mode, fallback, overrides."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_fleet import make_fleet
from plants import Http, plant, serving

from psrl_pomdp.live.audit import audit
from psrl_pomdp.live.openapi import openapi_document
from psrl_pomdp.live.routes import HANDLERS
from psrl_pomdp.live.store import Store
from psrl_pomdp.live.tokens import new_token


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "plant.db")


def post(
    client: Http, unit: str, step: int | None = None, reading: Any = "good", key: str = "", **more: Any
) -> Any:
    body = {"reading": reading, **more} | ({} if step is None else {"step": step})
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"/v1/units/{unit}/readings", content=json.dumps(body), headers=headers)


def test_the_smallest_plant(database: str) -> None:
    with serving(database) as client:
        found = client.post(
            "/v1/units/p1/readings",
            content='{"step": 1, "reading": "good"}',
            headers={"Idempotency-Key": "p1-1", "Content-Type": "application/x-www-form-urlencoded"},
        )
        assert found.status_code == 200
        answer = found.json()
        assert {"unit": "p1", "step": 1}.items() <= answer.items()
        assert answer["action"] in ("manufacture", "examine", "inspect", "replace")
        unit = client.get("/v1/units/p1").json()
        assert (unit["step"], unit["action"], unit["decision"]) == (1, answer["action"], answer["decision"])
        assert sum(unit["belief"].values()) == pytest.approx(1.0)
        why = client.get(f"/v1/decisions/{answer['decision']}").json()
        assert len(why["why"]["advantages"]) == len(why["actions"]) == 4
        assert why["sampled_model"]["upper"] >= why["sampled_model"]["lower"]
        assert client.get("/v1/plant").json()["readings"] == 1
        assert [each["unit"] for each in client.get("/v1/units").json()["units"]] == ["p1"]
        assert "text/html" in client.get("/").headers["content-type"]


def test_the_same_request_gets_the_same_bytes(database: str) -> None:
    with serving(database) as client:
        first = post(client, "p1", 1, key="k")
        assert post(client, "p1", 1, key="k").content == first.content
        assert post(client, "p1", 1, key='"k"').content == first.content  # quoted, as the draft has it
        other = post(client, "p1", 1, "defective", key="k")
        assert (other.status_code, other.headers["content-type"]) == (422, "application/problem+json")
        late = post(client, "p1", 7, key="k7")
        assert (late.status_code, late.json()["expected"], late.json()["status"]) == (409, 2, 409)


def test_a_batch_is_lines_in_and_lines_out(database: str) -> None:
    with serving(database) as client:
        lines = [{"unit": f"p{i}", "step": 1, "reading": "good"} for i in range(5)]
        lines[3]["step"] = 4
        data = "\n".join(map(json.dumps, lines))
        found = client.post("/v1/readings", content=data, headers={"Idempotency-Key": "b1"})
        answers = [json.loads(line) for line in found.text.splitlines()]
        assert [each.get("status", 200) for each in answers] == [200, 200, 200, 409, 200]
        assert [each["unit"] for each in answers] == [f"p{i}" for i in range(5)]
        assert client.post("/v1/readings", content=data, headers={"Idempotency-Key": "b1"}).text == found.text
        bad = client.post("/v1/readings", content=data + "\nnonsense")
        assert (bad.status_code, "line 6" in bad.json()["detail"]) == (400, True)
        assert client.get("/v1/plant").json()["readings"] == 4
        assert client.post("/v1/readings", content="\n").status_code == 400


@pytest.mark.parametrize(
    ("body", "part"),
    [("{", "no JSON"), ('{"stepp": 1}', "stepp"), ('{"step": "one"}', "step"), ("[]", "object"),
     ('{"step": 1, "at": 5}', "at"), ('{"step": 1e400}', "step"), ("[" * 10000, ""), ('"\\ud800"', "")],
)  # fmt: skip
def test_a_body_that_is_not_understood_names_the_field(database: str, body: str, part: str) -> None:
    with serving(database) as client:
        found = client.post("/v1/units/p/readings", content=body)
        assert found.status_code == 400
        assert part in found.json()["detail"]
        assert client.get("/v1/units/p").status_code == 404


@pytest.mark.parametrize("unit", ["a b", "-x", "x" * 65, "ü", "%2e%2e"])
def test_a_name_that_no_unit_can_have_is_refused(database: str, unit: str) -> None:
    with serving(database) as client:
        assert post(client, unit, 1).status_code in (404, 422)
        assert client.get("/v1/plant").json()["units"] == 0


def test_what_is_not_there_is_a_problem(database: str) -> None:
    with serving(database) as client:
        for path in (
            "/v1/units/none",
            "/v1/decisions/d999",
            "/v1/decisions/x",
            "/v1/nothing",
            "/v1/units/none/history",
        ):
            found = client.get(path)
            assert (found.status_code, found.json()["status"]) == (404, 404)
        assert client.post("/v1/plant").status_code == 405
        assert client.get("/v1/units/x/history?after=-1").status_code == 400


def test_a_body_that_is_too_large_is_refused(database: str) -> None:
    found = plant(limits={"body": 2000, "batch": 3})
    with serving(database, found) as client:
        large = client.post("/v1/units/p/readings", content=b"x" * 2001)
        assert (large.status_code, large.json()["limit"]) == (413, 2000)

        def pieces() -> Any:  # without a length
            for _ in range(100):
                yield b" " * 100

        assert client.post("/v1/units/p/readings", content=pieces()).status_code == 413
        many = "\n".join('{"unit": "p", "step": 1}' for _ in range(4))
        assert client.post("/v1/readings", content=many).status_code == 413
        assert post(client, "p", 1).status_code == 200


def test_rate_and_units_are_limited(database: str) -> None:
    with serving(database, plant(limits={"rate": 5, "units": 2})) as client:
        assert post(client, "a", 1).status_code == 200
        assert post(client, "b", 1).status_code == 200
        third = post(client, "c", 1)
        assert (third.status_code, "limits.units" in third.json()["detail"]) == (403, True)
        found = [client.get("/v1/units") for _ in range(8)]
        refused = [each for each in found if each.status_code == 429]
        assert refused
        assert int(refused[0].headers["retry-after"]) >= 1


def test_only_units_of_the_list_are_taken(database: str) -> None:
    with serving(database, plant(units=["a"])) as client:
        assert post(client, "a", 1).status_code == 200
        assert post(client, "b", 1).status_code == 404


def test_tokens_have_roles_and_can_be_revoked(database: str) -> None:
    with Store(database, create=True) as store:
        read, operate = new_token(store, "page", "read"), new_token(store, "scada", "operate")
        assert all(read not in str(tuple(row)) for row in store.token_rows())
    with serving(database) as client:

        def ask(token: str | None) -> tuple[int, int]:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            body = json.dumps({"reading": "good"})
            key = {"Idempotency-Key": f"k{token}"}
            sent = client.post("/v1/units/p/readings", content=body, headers=headers | key)
            return client.get("/v1/plant", headers=headers).status_code, sent.status_code

        assert ask(None) == (401, 401)
        assert ask("psrl_wrong") == (401, 401)
        assert ask(read) == (200, 403)
        assert ask(operate) == (200, 200)
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 401
        with Store(database) as store:
            assert store.revoke_token("scada", "now")
        client.service.tokens.refresh()
        assert ask(operate) == (401, 401)
        row = client.service.ledger.store.by_key(f"k{operate}")[0]
        assert row.who == "scada"


def test_without_tokens_foreign_pages_and_hosts_are_refused(database: str) -> None:
    with serving(database) as client:
        assert client.get("/v1/plant", headers={"Host": "evil.example"}).status_code == 403
        assert client.get("/v1/plant", headers={"Origin": "http://evil.example"}).status_code == 403
        assert client.get("/v1/plant", headers={"Origin": str(client.base_url)}).status_code == 200


def test_an_impossible_reading_gets_the_fallback_and_an_alarm(database: str) -> None:
    """After `replace` an examined product cannot be defective: the parts are new."""
    with serving(database) as client:
        first = post(client, "p", 1).json()
        after = post(client, "p", 2, "defective", taken="replace").json()
        assert (after["fallback"], after["action"]) == (True, "replace")
        assert "impossible" in after["alarm"]
        belief = client.get("/v1/units/p").json()["belief"]
        assert belief["none-bad"] == 1.0  # predicted, as for a reading that was lost
        (alarm,) = client.get("/v1/plant").json()["alarms"]
        assert alarm["body"]["alarm"] == "fallback"
        following = post(client, "p", 3, None).json()
        assert following["fallback"] is False
        assert following["belief"]["none-bad"] == 1.0  # after the fallback, which is `replace`
        assert first["fallback"] is False
        assert "psrl_pomdp_fallbacks_total 1" in client.get("/metrics").text
    with Store(database) as store:
        assert audit(store, make_fleet).good


def test_an_override_replaces_the_action_and_the_belief_follows_it(database: str) -> None:
    with serving(database) as client:
        decision = post(client, "p", 1).json()["decision"]
        body = {"action": "replace", "by": "Ada", "why": "noise"}
        path = f"/v1/decisions/{decision}/override"
        first = client.post(path, json=body)
        assert first.json()["action"] == "replace"
        assert client.post(path, json=body).content == first.content  # the same again is one override
        assert client.get("/v1/units/p").json()["action"] == "replace"
        told = client.get(f"/v1/decisions/{decision}").json()["overrides"]
        assert [(each["by"], each["why"]) for each in told] == [("Ada", "noise")]
        assert post(client, "p", 2, None).json()["belief"]["none-bad"] == 1.0
        late = client.post(path, json=body | {"action": "inspect"})
        assert (late.status_code, "taken" in late.json()["detail"]) == (409, True)
        wrong = client.post(path, json={"action": "replce"})
        assert wrong.status_code == 409
    with Store(database) as store:
        assert audit(store, make_fleet).good


def test_in_shadow_mode_every_reading_says_what_was_taken(database: str) -> None:
    with serving(database, plant(shadow=True)) as client:
        assert post(client, "p", 1).json()["shadow"] is True
        assert post(client, "p", 2).status_code == 422
        answer = post(client, "p", 2, taken="replace").json()
        assert answer["belief"]["none-bad"] == 1.0


def test_a_rule_replaces_the_action_and_is_named(database: str) -> None:
    rule = "always inspect when P(two-bad) >= 0"
    with serving(database, plant(guards=[rule, "at most two inspect a day"])) as client:
        day = "2026-01-0{}T0{}:00:00Z"
        answers = [post(client, "p", i + 1, at=day.format(1, i)).json() for i in range(3)]
        assert [each["action"] for each in answers] == ["inspect", "inspect", "replace"]
        assert answers[0]["guards"] == [rule]
        assert answers[0]["policy_action"] != "inspect"
        assert answers[2]["fallback"] is True  # one rule wants an inspection, and the other forbids it
        assert "forbid every action" in answers[2]["alarm"]
        assert post(client, "p", 4, at=day.format(2, 5)).json()["action"] == "inspect"
    with Store(database) as store:
        assert audit(store, make_fleet).good


def test_the_rule_for_the_plant_counts_all_units(database: str) -> None:
    rules = ["always replace when P(two-bad) >= 0", "at most one replace a day for the plant"]
    with serving(database, plant(guards=rules, fallback="manufacture")) as client:
        assert [post(client, unit, 1).json()["action"] for unit in "ab"] == ["replace", "manufacture"]
        assert post(client, "a", 2, None).json()["belief"]["none-bad"] == 1.0  # what was done, not the policy


def test_times_ahead_of_the_clock_are_noted_or_refused(database: str, tmp_path: Path) -> None:
    future = "2199-01-01T00:00:00Z"
    with serving(database) as client:
        assert "ahead" in post(client, "p", 1, at=future).json()["warnings"][0]
        assert "earlier" in post(client, "p", 2, at="2001-01-01").json()["warnings"][0]
        assert post(client, "p", 3, at="yesterday").status_code == 422
    with serving(str(tmp_path / "other.db"), plant(limits={"ahead": 60})) as client:
        found = post(client, "p", 1, at=future)
        assert (found.status_code, found.json()["title"]) == (422, "from the future")


def test_units_are_described_leave_and_come_back(database: str) -> None:
    with serving(database) as client:
        assert client.put("/v1/units/p", json={"hall": 3}).status_code == 201
        assert client.put("/v1/units/p", json={"hall": 4}).status_code == 200
        found = client.get("/v1/units/p").json()
        assert (found["step"], found["description"]) == (0, {"hall": 4})
        post(client, "p", 1)
        assert client.delete("/v1/units/p").json()["present"] is False
        assert client.get("/v1/units/p").json()["present"] is False
        assert post(client, "p", 2).json()["step"] == 2
        assert client.get("/v1/units/p").json()["present"] is True
        assert client.delete("/v1/units/q").status_code == 404
    with Store(database) as store:
        assert audit(store, make_fleet).good


def test_history_comes_in_pages(database: str) -> None:
    with serving(database) as client:
        for step in range(1, 8):
            post(client, "p", step)
            post(client, "q", step)
        seen: list[int] = []
        after: int | None = 0
        while after is not None:
            page = client.get(f"/v1/units/p/history?after={after}&limit=3").json()
            seen += [each["step"] for each in page["events"] if each["kind"] == "reading"]
            after = page["next"]
        assert seen == list(range(1, 8))


def test_events_are_streamed_from_any_point_on(database: str) -> None:
    with serving(database) as client:
        post(client, "p", 1)
        lines: list[str] = []
        got = threading.Event()
        service = client.service

        def watch() -> None:
            with client.stream("GET", "/v1/events", headers={"Last-Event-ID": "1"}) as found:
                for line in found.iter_lines():
                    lines.append(line)
                    if line.startswith("id: "):
                        got.set()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        for _ in range(200):
            if service.broadcast.watching:
                break
            threading.Event().wait(0.02)
        post(client, "p", 2)
        threading.Event().wait(0.3)
        assert service.broadcast._loop is not None
        service.broadcast._loop.call_soon_threadsafe(service.broadcast.close)
        thread.join(timeout=10)
        assert not thread.is_alive()
        ids = [int(line[4:]) for line in lines if line.startswith("id: ")]
        assert ids == [2, 3, 4]  # the reading, its episode, and the reading that came while watching
        data = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert data[-1]["answer"]["step"] == 2


def test_a_client_that_is_too_slow_loses_its_stream(database: str) -> None:
    import asyncio

    from psrl_pomdp.live.events import Event, row_of
    from psrl_pomdp.live.metrics import Metrics
    from psrl_pomdp.live.stream import Broadcast

    async def watch() -> int:
        with Store(database, create=True) as store:
            metrics = Metrics()
            broadcast = Broadcast(store, metrics)
            broadcast.begin()
            stream = broadcast.stream(None)
            assert await anext(stream) == b"retry: 1000\n\n"
            row = row_of("0" * 64, Event(1, "alarm", "{}", "now"))
            for _ in range(3000):
                broadcast._pass_on([row])
            assert "streams_dropped_total 1" in metrics.text()
            return len([piece async for piece in stream])

    assert asyncio.run(watch()) == 0


def test_metrics_and_the_schema_describe_the_service(database: str) -> None:
    with serving(database) as client:
        post(client, "p", 1)
        post(client, "p", 9)
        text = client.get("/metrics").text
        for line in ("psrl_pomdp_readings_total 1", "psrl_pomdp_refused_total 1", "psrl_pomdp_ready 1",
                     'psrl_pomdp_answer_seconds_bucket{le="+Inf"} 1', "psrl_pomdp_units 1"):  # fmt: skip
            assert line in text.splitlines()
        assert client.get("/schema").json()["openapi"] == "3.1.0"
    described = {
        (method.upper(), path) for path, methods in openapi_document()["paths"].items() for method in methods
    }
    routes = {
        (str(method), path.replace(":str", ""))
        for handler in HANDLERS
        for path in handler.paths
        for method in handler.http_methods
    }
    assert described == {
        (method, path) for method, path in routes if method in ("GET", "POST", "PUT", "DELETE")
    }


def test_a_database_that_takes_no_writes_is_503_with_retry_after(database: str) -> None:
    with serving(database) as client:
        post(client, "p", 1)
        ledger = client.service.ledger

        def fail(rows: Any) -> None:
            raise OSError("database or disk is full")

        ledger.store.append = fail  # type: ignore[method-assign]
        found = post(client, "p", 2)
        assert (found.status_code, found.headers["retry-after"]) == (503, "1")
        assert "disk is full" in found.json()["detail"]
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        del ledger.store.append
        threading.Event().wait(1.2)
        assert post(client, "p", 2).json()["step"] == 2
        assert client.get("/readyz").status_code == 200
