"""The endpoints: what each takes, does and gives. The table of them is what is mounted, and what the document shows."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from inspect import getdoc
from typing import Any, Final, Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.turn_events import event_data, event_name
from jazz_select.errors import JazzSelectError
from jazz_select.flow.base import CHOOSE, BaseFlow, GuidedDecisionPoint, chain_of
from jazz_select.flow.composite import flow_data
from jazz_select.json_values import json_bytes, plain
from jazz_select.selector.candidates_stage import Request as Query
from jazz_select.selector.result import FlowSelectionResult, prompt_of
from jazz_select.service.api import models
from jazz_select.service.api.models import json_answer, read_body
from jazz_select.service.http.limits import caller_of, catalogue_of, check_may_teach
from jazz_select.service.http.observation import CONTENT_TYPE, metrics_of
from jazz_select.service.kept_turn import KeptTurn
from jazz_select.service.problems import problem_response, refusal
from jazz_select.service.running import Generation, RunningCatalogue
from jazz_select.service.service_options import ServeOptions
from jazz_select.text import near
from jazz_select.threads import give_way
from jazz_select.values import COVERAGE, Message, Source, flow_id

_AT_ONCE: Final = 32
"""Requests of one body that are looked at before others have their turn."""
MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
_ALIVE_S: Final = 15.0
"""How often a stream says that it is still there, where nothing happens."""
_LARGEST_SCHEMA: Final = 64 << 10
"""Bytes of a schema: what takes seconds to be checked is no schema of an answer."""
_NAMED: Final = {"flow_id": "id", "flow_name": "name", "flow_type": "type"}
_TOLD_IN_SHORT: Final = (*_NAMED, "description", "condition", "desired_effects", "tools", "priority")


async def select(request: Request) -> Response:
    """Select the flows for a request, and say why these."""
    catalogue = catalogue_of(request)
    body = await read_body(request, models.SelectBody)
    one = body.as_request()
    result = await catalogue.live.selector.select(
        one.enhanced_query,
        one.candidates,
        one.episode_summaries,
        context=body.context,
        only=one.only,
        asked=one.asked,
    )
    metrics_of(request).count_selections((result,))
    return json_answer(result.to_json())


async def select_many(request: Request) -> Response:
    """Select the flows for several requests, each by itself; results are in the order of the requests."""
    catalogue = catalogue_of(request)
    body = await read_body(request, models.SelectManyBody)
    selector, results = catalogue.live.selector, list[FlowSelectionResult]()
    for at in range(0, len(body.requests), _AT_ONCE):
        some = body.requests[at : at + _AT_ONCE]
        asked = [each if isinstance(each, str) else each.as_request() for each in some]
        results += await selector.select_many(asked, context=body.context, ask=body.ask)
        await give_way()
    metrics_of(request).count_selections(results)
    return json_answer({"results": [each.to_dict() for each in results]})


async def recall(request: Request) -> Response:
    """Return the candidates for a request, best first, without choosing among them."""
    catalogue = catalogue_of(request)
    body = await read_body(request, models.RecallBody)
    settings, query = catalogue.settings, Query.from_query(body.request, body.episode_summaries)
    options: dict[str, Any] = {
        "top_k": settings.top_k if body.top_k is None else body.top_k,
        "rrf_k": settings.rrf_k if body.rrf_k is None else body.rrf_k,
        "coverage": COVERAGE if body.coverage is None else body.coverage,
        "focus": body.request if query.summaries else "",
        "exclude": body.exclude,
    }
    found = await catalogue.recalls.recall(query.text, catalogue.agent_id, **options)
    return json_answer(found.to_dict())


async def turn(request: Request) -> Response:
    """Send one message to the agent.

    With `Accept: text/event-stream` each thing that happens is an event, and the last one, `finished`, is what is
    answered otherwise; what goes wrong meanwhile is the event `problem`. Send `conversation` back as `history`: it is
    signed, and no other is gone on with. Where the service keeps conversations, `conversation_id` alone will do.
    """
    catalogue = catalogue_of(request)
    given = turn_arguments(request, await read_body(request, models.TurnBody))
    kept = await KeptTurn.begin(request, given)
    if MEDIA_TYPE in request.headers.get("accept", ""):
        return StreamingResponse(stream_turn(request, given, kept=kept), media_type=MEDIA_TYPE, headers=HEADERS)
    result = await kept.end(await catalogue.live.agent.turn(**given))
    metrics_of(request).count_turn(result)
    return json_answer(result.to_dict(secret=catalogue.secret))


def turn_arguments(request: Request, body: models.TurnBody) -> dict[str, Any]:
    """Build the arguments of `Agent.turn` from a body."""
    options: ServeOptions = request.app.state.options
    limit: float | Literal["agent"] = "agent" if body.timeout_s is None else body.timeout_s
    if body.timeout_s is not None and body.timeout_s > options.max_turn_s:
        raise refusal(400, f"timeout_s: a turn may take {options.max_turn_s:g} s here, and no longer")
    if body.schema_ is not None and len(json_bytes(body.schema_)) > _LARGEST_SCHEMA:
        detail = f"schema: it is larger than {_LARGEST_SCHEMA} bytes of JSON, and none of an answer needs to be"
        raise refusal(400, detail)
    history: Conversation | list[Message] | None = None
    if isinstance(body.history, str):
        history = Conversation.from_json(body.history, secret=catalogue_of(request).secret)
    elif body.history is not None:
        history = [Message(role=each.role, content=each.content) for each in body.history]
    given = {**dict(body), "history": history, "timeout_s": limit}
    given["schema"] = given.pop("schema_")
    return given


async def stream_turn(
    request: Request,
    given: Mapping[str, Any],
    as_data: Callable[..., Mapping[str, Any]] = event_data,
    *,
    kept: KeptTurn | None = None,
) -> AsyncGenerator[bytes]:
    """Stream the events of a turn, with signs of life between them.

    The status is sent before the turn ends, so an error is the last event.
    """
    catalogue = catalogue_of(request)
    try:
        async with aclosing(catalogue.live.agent.stream(**given)) as events, aclosing(_alive(events)) as signs:
            async for event in signs:
                if event is None:
                    yield b": still here\n\n"
                    continue
                happened: Event = event
                if isinstance(event, Finished):
                    happened = event if kept is None else replace(event, answer=await kept.end(event.answer))
                    metrics_of(request).count_turn(happened.answer)
                # This JSON has no line breaks, so one line of data is all of it.
                data = json_bytes(as_data(happened, secret=catalogue.secret))
                yield b"event: %s\ndata: %s\n\n" % (event_name(happened).encode(), data)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is to hear of it
        yield b"event: problem\ndata: " + bytes(problem_response(error, request.scope).body) + b"\n\n"


async def _alive(events: AsyncGenerator[Event]) -> AsyncGenerator[Event | None]:
    """Yield the events, and None after each pause, as a sign of life."""
    waiting: asyncio.Future[Event | None] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events, None))
            done, _ = await asyncio.wait({waiting}, timeout=_ALIVE_S)
            if not done:
                yield None
                continue
            event, waiting = waiting.result(), None
            if event is None:
                return
            yield event
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})


async def feedback(request: Request) -> Response:
    """Record the right flows for a selection made with this key, or with any key of the agent if this one may teach."""
    catalogue = catalogue_of(request)
    body = await read_body(request, models.FeedbackBody)
    reviewer = models.SourceBody(kind="user") if body.source is None else body.source
    if reviewer.kind == "person":
        check_may_teach(request)
    source = Source(kind=reviewer.kind, name=reviewer.name, key=caller_of(request).key)
    await catalogue.live.selector.feedback(body.selection, right=body.right, note=body.note, source=source)
    return json_answer({"kept": True})


async def agent(request: Request) -> Response:
    """Describe the agent that the key opens, with the number of its flows."""
    catalogue = catalogue_of(request)
    live = catalogue.live
    return json_answer({**state_of(catalogue, live), "flows": len(live.registry)})


async def flows(request: Request) -> Response:
    """List all flows in short."""
    catalogue = catalogue_of(request)
    live = catalogue.live
    listed: list[dict[str, Any]] = []
    for each in sorted(live.registry.values(), key=lambda each: each.name):
        fields = {name: getattr(each, _NAMED.get(name, name)) for name in _TOLD_IN_SHORT}
        listed.append({**fields, "checksum": each.compute_checksum()})
    return json_answer({**state_of(catalogue, live), "flows": listed})


async def flow(request: Request) -> Response:
    """Describe one flow with its prompt; it is found by its name or its id."""
    found = flow_named(catalogue_of(request).live, request.path_params["name"])
    data = {**flow_data(found), "chain": chain_as_data(found), "reply": found.reply}
    own = {"flow_id": found.id, "flow_name": data.pop("name"), "prompt": await prompt_of(found)}
    return json_answer(plain({**own, **data}))


def flow_named(live: Generation, name: str) -> BaseFlow:
    """Find the flow of this name or of this id."""
    registry = live.registry
    found = registry.get(flow_id(name)) or registry.get(name)
    if found is None:
        found_near = near(name, (each.name for each in registry.values()), most=3)
        more = f"; did you mean {', '.join(found_near)}?" if found_near else ""
        raise refusal(404, f"there is no flow {name[:200]!r}{more}", code="UnknownFlowError")
    return found


async def reload(request: Request) -> Response:
    """Read flows and tools anew, and put them in place of what answers; requests go on meanwhile. It needs no body."""
    catalogue = catalogue_of(request)
    wanted = await read_body(request, models.ReloadBody) if await request.body() else models.ReloadBody()
    try:
        live = await catalogue.reload(allow_delete=wanted.allow_delete)
    except JazzSelectError as error:
        detail = f"what answered before still does: {error}" if catalogue.is_ready else str(error)
        raise refusal(409, detail, code=type(error).__name__) from error
    report = live.report
    changes = {name: getattr(report, name) for name in ("created", "updated", "deleted", "notes")}
    return json_answer({**state_of(catalogue, live), **changes, "unchanged": report.skipped})


async def healthz(_: Request) -> Response:
    """Tell that the process is alive."""
    return json_answer({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Tell whether requests may be sent here.

    The status is 503 before flows are loaded, without index or database, and while the service stops.
    """
    served, life, database = request.app.state.served, request.app.state.life, request.app.state.database
    is_without_database = database is not None and bool(await database.look())
    await request.app.state.index.look()
    # One agent whose files are broken keeps no other's requests away.
    broken = sum(not each.is_ready or bool(each.index_problem) for each in served.values())
    status = "ready"
    if life.is_stopping:
        status = "stopping"
    elif broken == len(served):
        status = "no_index" if any(each.is_ready for each in served.values()) else "starting"
    elif is_without_database:
        status = "no_database"
    # How many, and not which: everybody may ask.
    state = {"status": status, **({"not_served": broken} if broken else {})}
    return json_answer(state, 200 if status == "ready" else 503)


async def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    return Response(metrics_of(request).text(), headers={"Content-Type": CONTENT_TYPE})


def state_of(catalogue: RunningCatalogue, live: Generation) -> dict[str, Any]:
    """Describe the generation of flows that answers: of which agent, since when, and its problem if it has one."""
    return {
        "agent_id": catalogue.agent_id,
        "generation": live.number,
        "loaded_at": live.loaded_at,
        "took_s": live.took_s,
        "problem": catalogue.problem,
    }


def chain_as_data(found: BaseFlow) -> list[Any]:
    """Return the steps of a flow as its file has them: tool names, decision points with their fields, `CHOOSE`."""
    steps: list[Any] = []
    for step in chain_of(found):
        if isinstance(step, GuidedDecisionPoint):
            steps.append(asdict(step))
        elif step is CHOOSE:
            steps.append("CHOOSE")
        else:
            steps.append(step)
    return steps


# --- the table -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that may be asked: where, of whom, and what is told of it beside that.

    Attributes:
        path: Where it is mounted.
        endpoint: What answers. It is called as this is, and its docstring is what users are told.
        gives: What it answers; text where None.
        body: What it takes, if anything.
        example: Such a body.
        problems: Statuses of problems, beside those that any such operation may answer with.
        public: Whether it needs no key.
    """

    path: str
    endpoint: Callable[[Request], Awaitable[Response]]
    gives: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    example: Mapping[str, Any] | None = None
    problems: tuple[int, ...] = ()
    public: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.endpoint.__name__

    @property
    def summary(self) -> str:
        """What it does."""
        return " ".join((getdoc(self.endpoint) or "").split())

    @property
    def method(self) -> Literal["GET", "POST"]:
        """What has a body is posted, and nothing else."""
        return "GET" if self.body is None else "POST"

    @property
    def statuses(self) -> list[int]:
        """Of the problems that it may answer with."""
        usual = () if self.public else (401, 429, 503)
        of_bodies = () if self.body is None else (400, 408, 413, 415)
        return sorted({*usual, *of_bodies, *self.problems})


_ASKED: Final = {"request": "I want my money back for order A-1042"}
_SEVERAL: Final = ["I want my money back", {"request": "and that?", "episode_summaries": ["The lamp."]}]
_SIZED: Final = {**_ASKED, "top_k": 5}
_SAID: Final = {"message": "Where is my order? I am ada@example.org"}
_RIGHT: Final = {"selection": "the `logged` of a selection", "right": ["refund_order"]}
_CAREFUL: Final = {"allow_delete": False}
OPERATIONS: Final = (
    Operation("/v1/select", select, models.SelectionAnswer, models.SelectBody, _ASKED),
    Operation("/v1/select_many", select_many, models.SelectionsAnswer, models.SelectManyBody, {"requests": _SEVERAL}),
    Operation("/v1/recall", recall, models.RecallAnswer, models.RecallBody, _SIZED),
    Operation("/v1/turn", turn, models.TurnAnswer, models.TurnBody, _SAID),
    Operation("/v1/feedback", feedback, models.FeedbackAnswer, models.FeedbackBody, _RIGHT, problems=(403,)),
    Operation("/v1/agent", agent, models.AgentAnswer),
    Operation("/v1/flows", flows, models.FlowsAnswer),
    Operation("/v1/flows/{name:path}", flow, models.FlowAnswer, problems=(404,)),
    Operation("/v1/reload", reload, models.ReloadAnswer, models.ReloadBody, _CAREFUL, problems=(409,)),
    Operation("/healthz", healthz, models.HealthAnswer, public=True),
    Operation("/readyz", readyz, models.HealthAnswer, public=True),
    Operation("/metrics", metrics),
)
