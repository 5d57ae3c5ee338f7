"""The routes of the service, under `/v1`, and what machines ask: health, readiness, metrics, the schema."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import msgspec
from litestar import Litestar, Response, delete, get, post, put
from litestar.exceptions import HTTPException
from litestar.response import Stream

from .engine import Engine, ReadingBody, decision_id, decision_number
from .events import RefusedError, ordered_json
from .learned_rows import learned_of, learned_rows
from .ledger import Request as Wanted
from .openapi import openapi_document
from .page_routes import get_page, get_page_file
from .plant_view import plant_document, unit_document
from .reasons import sentences
from .service import (
    NDJSON,
    Http,
    Service,
    answer,
    document,
    handle_fault,
    handle_http,
    handle_refused,
    key_of,
)
from .stream import row_document

_MOST_IN_PAGE = 1000
_PLANT_FRESH = 2.0  # seconds for which the document of the plant is good


class BatchLine(ReadingBody, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a batch: a reading with its unit, and its own key."""

    unit: str
    key: str | None = None


class OverrideBody(msgspec.Struct, forbid_unknown_fields=True):
    """What an operator did instead."""

    action: str | int
    by: str | None = None
    why: str | None = None


def _service(request: Http) -> Service:
    found: Service = request.app.state.service
    return found


# -- readings -------------------------------------------------------------------------------------------


@post("/v1/units/{unit:str}/readings", status_code=200)
async def post_reading(request: Http) -> Response[bytes]:
    """Take one reading in and answer with a decision."""
    unit = str(request.path_params["unit"])
    begun, service = time.perf_counter(), _service(request)
    who = await service.admit(request, "operate")
    data = await service.body(request)
    reading = document(data, ReadingBody)
    wanted = Wanted("reading", unit, msgspec.to_builtins(reading), key_of(request), who)
    text = await service.wait(service.ledger.take(wanted))
    service.observe(begun)
    return answer(text)


@post("/v1/readings", status_code=200)
async def post_readings(request: Http) -> Response[bytes]:
    """Take many readings in with one commit: a line of JSON in, a line of JSON out."""
    begun, service = time.perf_counter(), _service(request)
    who = await service.admit(request, "operate")
    data = await service.body(request)
    key = key_of(request)
    wanted: list[Wanted] = []
    lines = [(i, line) for i, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if len(lines) > service.limits.batch:
        text = f"{len(lines)} readings, more than {service.limits.batch} (limits.batch)"
        raise RefusedError(413, "body-too-large", text, limit=service.limits.batch)
    for i, line in lines:
        try:
            found = document(line, BatchLine)
        except RefusedError as refused:
            raise RefusedError(refused.status, refused.kind, f"line {i}: {refused.detail}") from None
        words = msgspec.to_builtins(found)
        unit, own = words.pop("unit"), words.pop("key", None)
        if own is None and key is not None:
            own = f"{key}#{len(wanted) + 1}"
        wanted.append(Wanted("reading", unit, words, own, who))
    if not wanted:
        raise RefusedError(400, "invalid-request", "no readings: one JSON document a line is wanted")
    answers = await service.wait(service.ledger.take_all(wanted))
    service.observe(begun)
    texts = [each if isinstance(each, str) else ordered_json(each.problem()) for each in answers]
    return answer("".join(f"{text}\n" for text in texts), media=NDJSON)


# -- units ----------------------------------------------------------------------------------------------


@get("/v1/units")
async def get_units(request: Http) -> Response[bytes]:
    """List the units, in the order in which they came; with `limit`, a part of them after `after` others."""
    service = _service(request)
    await service.admit(request, "read")
    after, most = _number(request, "after", 0), _number(request, "limit", 0)

    def units(engine: Engine) -> str:
        names = list(islice(engine.units, after, after + most if most else None))
        end = after + len(names)
        return ordered_json(
            {
                "units": [unit_document(engine, name) for name in names],
                "next": end if end < len(engine.units) else None,
            }
        )

    return answer(await service.wait(service.ledger.ask(units)))


@get("/v1/units/{unit:str}")
async def get_unit(request: Http) -> Response[bytes]:
    """Tell a unit's step, belief and last decision."""
    unit = str(request.path_params["unit"])
    service = _service(request)
    await service.admit(request, "read")

    def found(engine: Engine) -> str:
        if unit not in engine.units:
            raise RefusedError(404, "unknown-unit", f"the plant has no unit {unit!r}", unit=unit)
        return ordered_json(unit_document(engine, unit))

    return answer(await service.wait(service.ledger.ask(found)))


@put("/v1/units/{unit:str}")
async def put_unit(request: Http) -> Response[bytes]:
    """Create or describe a unit, or bring one back that has left."""
    unit = str(request.path_params["unit"])
    service = _service(request)
    who = await service.admit(request, "operate")
    body = document(await service.body(request), dict[str, Any])
    text = await service.wait(service.ledger.take(Wanted("describe", unit, body, key_of(request), who)))
    created = msgspec.json.decode(text)["created"]
    return answer(text, 201 if created else 200)


@delete("/v1/units/{unit:str}", status_code=200)
async def delete_unit(request: Http) -> Response[bytes]:
    """Let a unit leave; its history stays, and its next reading brings it back."""
    unit = str(request.path_params["unit"])
    service = _service(request)
    who = await service.admit(request, "operate")
    return answer(await service.wait(service.ledger.take(Wanted("leave", unit, {}, key_of(request), who))))


@get("/v1/units/{unit:str}/history")
async def get_history(request: Http) -> Response[bytes]:
    """Give a page of a unit's events: those after a number, or with `before` the last ones before it."""
    unit = str(request.path_params["unit"])
    service = _service(request)
    await service.admit(request, "read")
    after, most = _number(request, "after", 0), min(_number(request, "limit", 100), _MOST_IN_PAGE)
    before = _number(request, "before", 0) if "before" in request.query_params else None
    rows = await asyncio.to_thread(service.ledger.store.history, unit, after, max(most, 1), before)
    if not rows and after == 0 and before is None:
        raise RefusedError(404, "unknown-unit", f"the log has no unit {unit!r}", unit=unit)
    segments = service.ledger.segments
    events = [row_document(row) | ({} if row.seq in segments else {"void": True}) for row in rows]
    full = len(rows) == most
    following = rows[-1].seq if full and before is None else None
    earlier = rows[0].seq if full and before is not None else None
    return answer(ordered_json({"unit": unit, "events": events, "next": following, "previous": earlier}))


# -- decisions ------------------------------------------------------------------------------------------


@get("/v1/decisions/{decision:str}")
async def get_decision(request: Http) -> Response[bytes]:
    """Tell why: the belief, the costs now, the advantages, θ_k and the plan's certified interval."""
    decision = str(request.path_params["decision"])
    service = _service(request)
    await service.admit(request, "read")
    store = service.ledger.store
    row = await asyncio.to_thread(_decision, service, decision)
    overrides = await asyncio.to_thread(store.overrides, row.unit, row.seq)
    episode = await asyncio.to_thread(store.last_episode, row.seq)
    assert service.ledger.engine is not None
    setting = service.ledger.engine.fleet.setting
    told, why = msgspec.json.decode(row.answer), msgspec.json.decode(row.why)
    done = told["action_number"]
    if overrides and overrides[-1].answer is not None:
        done = setting.actions.index(msgspec.json.decode(overrides[-1].answer)["action"])
    why["text"] = sentences(setting, told["unit"], told["step"], why["chosen"], done, why)
    found = told | {
        "reading": msgspec.json.decode(row.body).get("reading"),
        "why": why,
        "states": list(setting.states),
        "actions": list(setting.actions),
        "unit_of_cost": setting.units.name,
        "overrides": [
            msgspec.json.decode(each.body) | {"at": each.at, "who": each.who} for each in overrides
        ],
        "sampled_model": None if episode is None else msgspec.json.decode(episode.body),
        "void": row.seq not in service.ledger.segments,
        "hash": row.hash,
    }
    return answer(ordered_json(found))


@post("/v1/decisions/{decision:str}/override", status_code=200)
async def post_override(request: Http) -> Response[bytes]:
    """Note that an operator did something else."""
    decision = str(request.path_params["decision"])
    service = _service(request)
    who = await service.admit(request, "operate")
    body = document(await service.body(request), OverrideBody)
    row = await asyncio.to_thread(_decision, service, decision)
    words = msgspec.to_builtins(body) | {"decision": decision_id(row.seq)}
    wanted = Wanted("override", row.unit, words, key_of(request), who)
    return answer(await service.wait(service.ledger.take(wanted)))


def _decision(service: Service, decision: str) -> Any:
    number = decision_number(decision)
    row = None if number is None else service.ledger.store.row(number)
    if row is None or row.kind != "reading":
        raise RefusedError(404, "unknown-decision", f"there is no decision {decision!r}")
    return row


# -- the plant ------------------------------------------------------------------------------------------


@get("/v1/plant")
async def get_plant(request: Http) -> Response[bytes]:
    """Tell what was learned: the posterior mean and an interval of every row, episodes, alarms."""
    service = _service(request)
    await service.admit(request, "read")
    now, seq = time.monotonic(), service.ledger.head[0]
    if service.plant_cache is None or (
        service.plant_cache[1] != seq and now - service.plant_cache[0] > _PLANT_FRESH
    ):
        words, learned = await service.wait(
            service.ledger.ask(lambda engine: (plant_document(engine), learned_of(engine.fleet)))
        )
        if learned is not None:  # not in the thread of the ledger, for whom readings wait
            words["rows"] = await asyncio.to_thread(learned_rows, learned)
        service.plant_cache = (now, seq, ordered_json(words))
    found = msgspec.json.decode(service.plant_cache[2])
    alarms = await asyncio.to_thread(service.ledger.store.alarms)
    segments = service.ledger.segments  # alarms before a rollback count no more
    found["alarms"] = [row_document(row, with_why=False) for row in alarms if row.seq in segments]
    found["role"] = service.tokens.role(request.headers.get("authorization"))
    found["log"] = {"events": service.ledger.head[0], "hash": service.ledger.head[1]}
    return answer(ordered_json(found))


@get("/v1/events")
async def get_events(request: Http) -> Stream:
    """Stream the log as server-sent events."""
    service = _service(request)
    await service.admit(request, "read")
    last = request.headers.get("last-event-id", "")
    after: int | None = int(last) if last.isdecimal() and len(last) < 19 else None
    if "after" in request.query_params:
        after = _number(request, "after", 0)
    return Stream(
        service.broadcast.stream(after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _number(request: Http, name: str, default: int) -> int:
    given = str(request.query_params.get(name, default))
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise RefusedError(400, "invalid-request", f"{name}: {given!r} is no whole number from 0")
    return int(given)


# -- machines -------------------------------------------------------------------------------------------


@get("/healthz")
async def healthz(request: Http) -> Response[bytes]:
    """Say that the process lives."""
    return answer(ordered_json({"status": "ok", "plant": _service(request).name}))


@get("/readyz")
async def readyz(request: Http) -> Response[bytes]:
    """Say whether the service accepts readings now."""
    service = _service(request)
    ready = service.ledger.ready
    return answer(ordered_json({"status": "ready" if ready else "not ready"}), 200 if ready else 503)


@get("/metrics")
async def get_metrics(request: Http) -> Response[bytes]:
    """Give the counters, for Prometheus."""
    service = _service(request)
    if service.tokens.wanted:
        await service.admit(request, "read")
    metrics, engine = service.metrics, service.ledger.engine
    metrics.gauge("ready", "Whether the service accepts readings now.", float(service.ledger.ready))
    metrics.gauge("log_events", "Events in the log.", service.ledger.head[0])
    metrics.gauge("waiting", "Requests that wait for a commit.", service.ledger.waiting)
    metrics.gauge("streams", "Clients that watch the events.", service.broadcast.watching)
    if engine is not None:
        metrics.gauge("units", "Units of the plant.", len(engine.units))
        metrics.gauge("episode", "The number of the episode.", engine.episode)
        metrics.gauge("late_steps", "Steps taken while a plan was due.", engine.fleet.late_steps)
    return answer(metrics.text(), media="text/plain; version=0.0.4; charset=utf-8")


@get("/schema")
async def get_schema() -> Response[bytes]:
    """Give the description of these routes, in OpenAPI 3.1."""
    return answer(ordered_json(openapi_document()))


HANDLERS = (
    post_reading, post_readings, get_units, get_unit, put_unit, delete_unit, get_history, get_decision,
    post_override, get_plant, get_events, healthz, readyz, get_metrics, get_schema, get_page,
    get_page_file,
)  # fmt: skip


def make_app(service: Service) -> Litestar:
    """Return the application."""

    @asynccontextmanager
    async def life(app: Litestar) -> AsyncIterator[None]:
        service.broadcast.begin()
        yield

    app = Litestar(
        route_handlers=list(HANDLERS),
        exception_handlers={
            RefusedError: handle_refused,
            HTTPException: handle_http,
            Exception: handle_fault,
        },
        lifespan=[life],
        openapi_config=None,
        request_max_body_size=None,  # `Service.body` has the plant's own limit
        logging_config=None,
    )
    app.state.service = service
    return app
