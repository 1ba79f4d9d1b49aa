"""What is answered: JSON, and schemas of as much of it as a program may count on. Answers may have more keys."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from jazz_select.json_values import json_bytes
from jazz_select.service.http.metrics import ServiceMetrics

_Schema = dict[str, Any]
TEXT: Final[_Schema] = {"type": "string"}
NUMBER: Final[_Schema] = {"type": "number"}
WHOLE: Final[_Schema] = {"type": "integer"}
FLAG: Final[_Schema] = {"type": "boolean"}
ANY: Final[_Schema] = {}


def ref(name: str) -> _Schema:
    """One of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(schema: _Schema) -> _Schema:
    """Several of these."""
    return {"type": "array", "items": schema}


def or_null(schema: _Schema) -> _Schema:
    """One of these, or null where it is not known."""
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(*texts: str) -> _Schema:
    """One of these texts."""
    return {"type": "string", "enum": list(texts)}


def keys(fields: Mapping[str, _Schema], **optional: _Schema) -> _Schema:
    """An object that has these keys, and may have the optional ones."""
    return {"type": "object", "properties": {**fields, **optional}, "required": list(fields)}


_FLOW: Final = {
    "flow_id": TEXT,
    "flow_name": TEXT,
    "flow_type": TEXT,
    "description": TEXT,
    "condition": TEXT,
    "desired_effects": list_of(TEXT),
}
_CANDIDATE: Final = {
    **_FLOW,
    "score": NUMBER,
    "ranks": {"type": "object", "additionalProperties": WHOLE},
    "scores": {"type": "object", "additionalProperties": NUMBER},
    "confidence": or_null(NUMBER),
}
_IN_SHORT: Final = {
    **_FLOW,
    "tools": list_of(TEXT),
    "priority": list_of(WHOLE),
    "checksum": TEXT,
}
_CATALOGUE: Final = {
    "agent_id": TEXT,
    "generation": WHOLE,
    "loaded_at": NUMBER,
    "took_s": NUMBER,
    "problem": TEXT,
}
SCHEMAS: Final[Mapping[str, _Schema]] = {
    "Problem": keys(
        {"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT, "code": TEXT, "request_id": TEXT},
    ),
    "Candidate": keys(_CANDIDATE, chosen=FLAG),
    "Chosen": keys(
        {"flow_id": TEXT, "flow_name": TEXT, "prompt": TEXT, "type": TEXT, "description": TEXT, "checksum": TEXT},
        examples=list_of(TEXT),
        tools=list_of(TEXT),
        chain=list_of({"anyOf": [TEXT, {"type": "object"}]}),
        reply=TEXT,
    ),
    "Decision": keys(
        {
            "tier": one_of("deterministic", "guided", "open"),
            "reason": TEXT,
            "chosen_ids": list_of(TEXT),
            "confidence": or_null(NUMBER),
            "in_scope": or_null(NUMBER),
            "sized": TEXT,
            "model": TEXT,
            "raw_reply": or_null(TEXT),
            "error": TEXT,
            "notes": list_of(TEXT),
            "latency": keys({"recall_s": NUMBER, "choose_s": NUMBER, "total_s": NUMBER}),
            "usage": or_null(keys({"input_tokens": WHOLE, "output_tokens": WHOLE})),
        },
        stages=list_of(
            keys(
                {
                    "name": one_of("recall", "transformer", "decider", "chat", "user"),
                    "outcome": one_of("decided", "passed", "none", "failed", "spared"),
                    "why": TEXT,
                    "confidence": or_null(NUMBER),
                    "took_s": NUMBER,
                }
            )
        ),
        question=or_null(
            keys(
                {
                    "text": TEXT,
                    "options": list_of(keys({"flow_id": TEXT, "flow_name": TEXT, "title": TEXT, "says": TEXT})),
                    "request": TEXT,
                    "again": FLAG,
                }
            )
        ),
    ),
    "Selection": keys(
        {
            "chosen": list_of(ref("Chosen")),
            "combined_prompt": TEXT,
            "unresolved_ids": list_of(TEXT),
            "candidates": list_of(ref("Candidate")),
            "decision": ref("Decision"),
            "logged": TEXT,
        }
    ),
    "Selections": keys({"results": list_of(ref("Selection"))}),
    "Recall": keys(
        {
            "candidates": list_of(ref("Candidate")),
            "in_scope": or_null(NUMBER),
            "sized": TEXT,
            "caveat": TEXT,
            "notes": list_of(TEXT),
        }
    ),
    "Turn": keys(
        {
            "status": one_of("done", "active", "open", "waiting", "confirming", "failed", "blocked"),
            "text": TEXT,
            "conversation": TEXT,
            "value": ANY,
            "runs": list_of({"type": "object"}),
            "selection": or_null(ref("Selection")),
            "prompt": TEXT,
            "incomplete": FLAG,
            "reason": TEXT,
            "notes": list_of(TEXT),
            "error": or_null({"type": "object"}),
            "trace": list_of({"type": "object"}),
        }
    ),
    "Kept": keys({"kept": FLAG}),
    "FlowInShort": keys(_IN_SHORT),
    "Served": keys({**_CATALOGUE, "flows": WHOLE}),
    "Flows": keys({**_CATALOGUE, "flows": list_of(ref("FlowInShort"))}),
    "Reloaded": keys(
        {
            **_CATALOGUE,
            **dict.fromkeys(("created", "updated", "deleted", "unchanged", "notes"), list_of(TEXT)),
        }
    ),
    "Health": keys({"status": one_of("ok", "ready", "starting", "stopping")}, not_served=WHOLE),
}


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return answer_json(json_bytes(value), status)


def answer_json(text: str | bytes, status: int = 200) -> Response:
    """What is JSON already."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(text, status, headers, "application/json")


def metrics_of(request: Request) -> ServiceMetrics:
    """Where what happens is counted."""
    metrics: ServiceMetrics = request.scope["state"]["metrics"]
    return metrics
