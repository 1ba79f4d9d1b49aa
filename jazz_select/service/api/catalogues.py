"""What is served: the flows of an agent, reading them anew, and whether the service is well."""

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from jazz_select.errors import JazzSelectError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.travelling import flow_data
from jazz_select.routing.decisions.points import GuidedDecisionPoint
from jazz_select.routing.run_context import CHOOSE, chain_of
from jazz_select.selector.result import prompt_of
from jazz_select.service.access import catalogue_of
from jazz_select.service.agents import ServedAgents
from jazz_select.service.api.answered import answer, metrics_of
from jazz_select.service.api.asked import ReloadBody, asked
from jazz_select.service.http.life import Life
from jazz_select.service.http.metrics import CONTENT_TYPE
from jazz_select.service.problems import refused
from jazz_select.service.running import Generation, RunningCatalogue
from jazz_select.text import near
from jazz_select.travel import as_data
from jazz_select.values import flow_id


def catalogue_routes(served: ServedAgents, life: Life) -> list[BaseRoute]:
    """All of them."""

    async def readyz(_: Request) -> Response:
        """Whether requests may be sent here: one agent whose files are broken keeps no other's requests away."""
        broken = sum(not each.is_ready for each in served.values())
        status = "stopping" if life.is_stopping else "starting" if broken == len(served) else "ready"
        # How many, and not which: everybody may ask.
        told = {"status": status, **({"not_served": broken} if broken else {})}
        return answer(told, 200 if status == "ready" else 503)

    return [
        Route("/v1/agent", agent, methods=["GET"]),
        Route("/v1/flows", flows, methods=["GET"]),
        Route("/v1/flows/{name:path}", flow, methods=["GET"]),
        Route("/v1/reload", reload, methods=["POST"]),
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]


async def healthz(_: Request) -> Response:
    """Whether the process lives."""
    return answer({"status": "ok"})


async def metrics(request: Request) -> Response:
    """What Prometheus reads."""
    text = metrics_of(request).text(catalogue_of(request).agent_id)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


async def agent(request: Request) -> Response:
    """Whom the key opens, and how it is."""
    catalogue = catalogue_of(request)
    live = catalogue.live
    return answer({**_state(catalogue, live), "flows": len(live.registry)})


async def flows(request: Request) -> Response:
    """All flows, in short."""
    catalogue = catalogue_of(request)
    live = catalogue.live
    listed = sorted(live.registry.values(), key=lambda each: each.name)
    return answer({**_state(catalogue, live), "flows": [_in_short(each) for each in listed]})


async def flow(request: Request) -> Response:
    """One flow, whole."""
    found = flow_named(catalogue_of(request).live, request.path_params["name"])
    told = {**flow_data(found), "chain": _chain(found), "reply": found.reply}
    own = {"flow_id": found.id, "flow_name": told.pop("name"), "prompt": await prompt_of(found)}
    return answer(as_data({**own, **told}))


def flow_named(live: Generation, name: str) -> BaseFlow:
    """The flow of this name, or of this id.

    Raises:
        HTTPException: There is none; the answer says which names are near.
    """
    registry = live.registry
    found = registry.get(flow_id(name)) or registry.get(name)
    if found is None:
        found_near = near(name, (each.name for each in registry.values()), most=3)
        more = f"; did you mean {', '.join(found_near)}?" if found_near else ""
        detail = f"there is no flow {name[:200]!r}{more}"
        raise refused(404, detail, code="UnknownFlowError", rest="none")
    return found


async def reload(request: Request) -> Response:
    """Read flows and tools anew."""
    catalogue = catalogue_of(request)
    wanted = await asked(request, ReloadBody) if await request.body() else ReloadBody()
    try:
        live = await catalogue.reload(allow_delete=wanted.allow_delete)
    except JazzSelectError as error:
        detail = f"what answered before still does: {error}" if catalogue.is_ready else str(error)
        raise refused(409, detail, code=type(error).__name__, rest="none") from error
    report = live.report
    changes = {
        "created": list(report.created),
        "updated": list(report.updated),
        "deleted": list(report.deleted),
        "unchanged": list(report.skipped),
        "notes": list(report.notes),
    }
    return answer({**_state(catalogue, live), **changes})


def _state(catalogue: RunningCatalogue, live: Generation) -> dict[str, Any]:
    return {
        "agent_id": catalogue.agent_id,
        "generation": live.number,
        "loaded_at": live.loaded_at,
        "took_s": live.took_s,
        "problem": catalogue.problem,
    }


def _chain(found: BaseFlow) -> list[Any]:
    """Its steps, as a file says them: names of tools, points of decision with their fields, `CHOOSE`."""
    return [
        asdict(step) if isinstance(step, GuidedDecisionPoint) else "CHOOSE" if step is CHOOSE else step
        for step in chain_of(found)
    ]


def _in_short(found: BaseFlow) -> dict[str, Any]:
    return {
        "flow_id": found.id,
        "flow_name": found.name,
        "flow_type": found.type,
        "description": found.description,
        "condition": found.condition,
        "desired_effects": list(found.desired_effects),
        "tools": list(found.tools),
        "priority": list(found.priority),
        "checksum": found.compute_checksum(),
    }
