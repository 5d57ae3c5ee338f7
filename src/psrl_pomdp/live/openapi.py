"""The description of the service in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from .._version import __version__

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_UNIT = {"name": "unit", "in": "path", "required": True, "schema": {"type": "string"}}
_DECISION = {"name": "decision", "in": "path", "required": True, "schema": {"type": "string"}}
_FILE = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "maxLength": 255},
    "description": "The same key with the same body gives the same answer, to the byte.",
}
_AFTER = {"name": "after", "in": "query", "schema": {"type": "integer", "minimum": 0}}
_BEFORE = {
    "name": "before",
    "in": "query",
    "schema": {"type": "integer", "minimum": 0},
    "description": "The last events before this number; 0 for the last ones of all.",
}
_LIMIT = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 1000}}

# (method, path, summary, parameters, body, further statuses)
_ROUTES: tuple[tuple[str, str, str, tuple[Any, ...], str | None, tuple[int, ...]], ...] = (
    ("post", "/v1/units/{unit}/readings", "Take a reading in and answer with a decision.",
     (_UNIT, _KEY), "Reading", (400, 409, 413, 422, 429, 503)),
    ("post", "/v1/readings", "Take many readings in with one commit, one JSON document a line.",
     (_KEY,), "Batch", (400, 413, 429, 503)),
    ("get", "/v1/units", "List the units.", (_AFTER, _LIMIT), None, (503,)),
    ("get", "/v1/units/{unit}", "A unit's step, belief and last decision.", (_UNIT,), None, (404, 503)),
    ("put", "/v1/units/{unit}", "Create or describe a unit.", (_UNIT, _KEY), "Description",
     (400, 403, 404, 422, 503)),
    ("delete", "/v1/units/{unit}", "Let a unit leave; its next reading brings it back.", (_UNIT, _KEY), None,
     (404, 503)),
    ("get", "/v1/units/{unit}/history", "Pages of a unit's events.", (_UNIT, _AFTER, _BEFORE, _LIMIT), None,
     (400, 404)),
    ("get", "/v1/decisions/{decision}", "Why a decision was made.", (_DECISION,), None, (404,)),
    ("post", "/v1/decisions/{decision}/override", "An operator did something else.", (_DECISION, _KEY),
     "Override", (400, 404, 409, 422, 503)),
    ("get", "/v1/plant", "What was learned.", (), None, (503,)),
    ("get", "/v1/events", "The log as server-sent events.", (_AFTER,), None, ()),
    ("get", "/healthz", "Whether the process lives.", (), None, ()),
    ("get", "/readyz", "Whether the service accepts readings now.", (), None, (503,)),
    ("get", "/metrics", "Counters for Prometheus.", (), None, ()),
    ("get", "/schema", "This document.", (), None, ()),
    ("get", "/", "The page of the plant.", (), None, ()),
    ("get", "/page/{name}", "A script, the style or the icon of the page.", (_FILE,), None, (404,)),
)  # fmt: skip
_MEDIA = {"/v1/events": "text/event-stream", "/metrics": "text/plain", "/": "text/html"}
_MEDIA["/page/{name}"] = "text/javascript"
_OPEN = ("/healthz", "/readyz", "/schema", "/", "/page/{name}")

_NAME_OR_NUMBER = {"type": ["string", "integer"]}
_READING = {
    "step": {"type": "integer", "minimum": 1, "description": "By default the next one, if there is a key."},
    "reading": {"description": "A name, a number or a list of numbers; null where it is lost."},
    "at": {"type": "string", "format": "date-time"},
    "taken": {**_NAME_OR_NUMBER, "description": "The action that was really done since the last reading."},
    "cost": {"type": "number", "description": "The cost of that action, if costs are seen."},
}
_SCHEMAS: dict[str, Any] = {
    "Reading": {"type": "object", "properties": _READING, "additionalProperties": False},
    "BatchLine": {
        "type": "object",
        "properties": {"unit": {"type": "string"}, "key": {"type": "string"}, **_READING},
        "required": ["unit"],
        "additionalProperties": False,
    },
    "Override": {
        "type": "object",
        "properties": {"action": _NAME_OR_NUMBER, "by": {"type": "string"}, "why": {"type": "string"}},
        "required": ["action"],
        "additionalProperties": False,
    },
    "Description": {"type": "object"},
    "Decision": {
        "type": "object",
        "properties": {
            "unit": {"type": "string"},
            "step": {"type": "integer"},
            "decision": {"type": "string"},
            "action": {"type": "string"},
            "action_number": {"type": "integer"},
            "episode": {"type": "integer"},
            "belief": {"type": "object", "additionalProperties": {"type": "number"}},
            "fallback": {"type": "boolean"},
            "shadow": {"type": "boolean"},
            "guards": {"type": "array", "items": {"type": "string"}},
            "late": {"type": "boolean"},
            "at": {"type": "string", "format": "date-time"},
        },
        "required": ["unit", "step", "decision", "action"],
    },
    "Problem": {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "expected": {"type": "integer", "description": "The step that the unit expects next."},
        },
        "required": ["type", "title", "status", "detail"],
    },
}


def openapi_document() -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary, parameters, body, statuses in _ROUTES:
        schema = {"$ref": "#/components/schemas/Decision"} if body == "Reading" else {}
        media = "application/x-ndjson" if body == "Batch" else _MEDIA.get(path, "application/json")
        found: dict[str, Any] = {
            "summary": summary,
            "operationId": f"{method}_{path.strip('/').replace('/', '_').replace('{', '').replace('}', '')}",
            "responses": {"200": {"description": "The answer.", "content": {media: {"schema": schema}}}},
        }
        if parameters:
            found["parameters"] = list(parameters)
        if body == "Batch":
            line = {"$ref": "#/components/schemas/BatchLine"}
            found["requestBody"] = {"content": {"application/x-ndjson": {"schema": line}}}
        elif body is not None:
            known = {"$ref": f"#/components/schemas/{body}"}
            found["requestBody"] = {"content": {"application/json": {"schema": known}}}
        refusals = set(statuses)
        if path in _OPEN:
            found["security"] = []
        else:
            refusals |= {401, 403}
        for status in sorted(refusals):
            problem = {"application/problem+json": {"schema": _PROBLEM}}
            found["responses"][str(status)] = {"description": "A problem.", "content": problem}
        paths.setdefault(path, {})[method] = found
    return {
        "openapi": "3.1.0",
        "info": {"title": "psrl-pomdp", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
