"""The panel's routes: pages that are the same for everybody, and data of the agent that a key opens."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from jazz_select.selector.forecast import forecast
from jazz_select.service.api.models import TurnBody, json_answer, read_body
from jazz_select.service.api.operations import HEADERS, MEDIA_TYPE, flow_named, state_of, stream_turn, turn_arguments
from jazz_select.service.app import AppPart
from jazz_select.service.http.limits import caller_of, catalogue_of, check_may_teach
from jazz_select.service.panel import pages, runs, teaching
from jazz_select.service.panel.runs import PanelFiles
from jazz_select.service.panel.try_and_talk import TryBody, try_request, turn_event_data
from jazz_select.service.running import RunningCatalogue
from jazz_select.threads import compute

_PAGES: Final = Path(__file__).parent / "static"
_DAYS: Final = 7.0
_SETTINGS: Final = {"top_k", "policy"}
_HEADERS: Final = {
    # Nothing but what lies here runs or is loaded, whatever a flow, a tool or a model says.
    "content-security-policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def panel_part(files: Mapping[str, PanelFiles]) -> AppPart:
    """Serve pages below `/panel/`, and their data below `/v1/panel/`.

    Args:
        files: Agent id to its files, for every agent that is served.
    """
    panels: dict[str, _Panel] = {}

    def as_endpoint(by: Callable[[_Panel, Request], Awaitable[Any]], status: int = 200) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            catalogue = catalogue_of(request)
            agent_id = catalogue.agent_id
            panel = panels.get(agent_id)
            if panel is None:
                panel = panels[agent_id] = _Panel(catalogue, files[agent_id])
            return json_answer(await by(panel, request), status)

        return endpoint

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await asyncio.gather(*(each.runs.close() for each in panels.values()))

    routes: list[BaseRoute] = [
        Route("/v1/panel/state", as_endpoint(_Panel.state)),
        Route("/v1/panel/try", as_endpoint(_Panel.try_request), methods=["POST"]),
        Route("/v1/panel/turn", _turn, methods=["POST"]),
        Route("/v1/panel/flows", as_endpoint(_Panel.flows)),
        Route("/v1/panel/flows/{name}", as_endpoint(_Panel.flow)),
        Route("/v1/panel/map", as_endpoint(_Panel.map)),
        Route("/v1/panel/findings", as_endpoint(_Panel.findings)),
        Route("/v1/panel/runs", as_endpoint(_Panel.all_runs), methods=["GET"]),
        Route("/v1/panel/runs", as_endpoint(_Panel.begin, 202), methods=["POST"]),
        Route("/v1/panel/runs/{run}", as_endpoint(_Panel.run)),
        Route("/v1/panel/drift", as_endpoint(_Panel.drift)),
        Route("/v1/panel/corrections", as_endpoint(_Panel.corrections), methods=["GET"]),
        Route("/v1/panel/corrections", as_endpoint(_Panel.correct, 201), methods=["POST"]),
        Route("/v1/panel/corrections/rehearsal", as_endpoint(_Panel.rehearse), methods=["POST"]),
        Route("/v1/panel/corrections/undo", as_endpoint(_Panel.undo), methods=["POST"]),
        Route("/panel", RedirectResponse("/panel/", 307), methods=["GET"]),
        Mount("/panel", app=_PanelPages(directory=_PAGES, html=True)),
    ]
    return AppPart(routes, lifespan)


class _PanelPages(StaticFiles):
    """Pages with a content security policy: browsers run only their own scripts."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        found = await super().get_response(path, scope)
        found.headers.update(_HEADERS)
        return found


class _Panel:
    def __init__(self, catalogue: RunningCatalogue, files: PanelFiles) -> None:
        self._catalogue, self._files = catalogue, files
        self._survey = pages.SurveyCache(catalogue, files)
        self.runs = runs.Runs(catalogue, files)
        self._drift = runs.SharedDrift(catalogue)

    async def state(self, request: Request) -> Any:
        catalogue, files = self._catalogue, self._files
        settings, live = catalogue.settings, catalogue.live
        policy = live.selector.policy
        answers, caveat = await catalogue.memory.leave_one_out_confidence(catalogue.agent_id)
        thresholds = await catalogue.memory.thresholds(catalogue.agent_id)
        expected = forecast(
            answers,
            policy,
            list(live.registry.values()),
            caveat=caveat,
            thresholds=thresholds,
            shares_budget=live.selector.has_decider,
            logged=await compute(runs.read_logged_alone, catalogue),
        )
        audit = live.selector.audit
        return {
            **state_of(catalogue, live),
            "flows": len(live.registry),
            "tools": len(live.tools),
            "has_model": live.selector.has_model,
            "notes": live.report.notes,
            "embedder": catalogue.memory.embedder,
            "asked_over": catalogue.memory.asked_over,
            "has_log": catalogue.log is not None,
            "has_learned": catalogue.learned is not None,
            "may_teach": caller_of(request).may_teach,
            "cases": list(await compute(lambda: files.known)),
            "examples": pages.suggest_requests(live),
            "settings": {**settings.model_dump(include=_SETTINGS), **policy.to_dict()},
            "forecast": expected.as_data(),
            "learned_requests": 0 if thresholds is None else thresholds.requests,
            "audit": None if audit is None else {**audit.to_dict(), "says": str(audit)},
        }

    async def try_request(self, request: Request) -> Any:
        return await try_request(self._catalogue, await read_body(request, TryBody))

    async def flows(self, _: Request) -> Any:
        live = self._catalogue.live
        chosen = await compute(runs.count_recent_choices, self._catalogue)
        return {"generation": live.number, "flows": pages.flow_rows(live, chosen)}

    async def flow(self, request: Request) -> Any:
        live = self._catalogue.live
        return await pages.flow_details(live, flow_named(live, request.path_params["name"]))

    async def map(self, _: Request) -> Any:
        return pages.map_data(await self._survey.get())

    async def findings(self, _: Request) -> Any:
        surveyed = await self._survey.get()
        more = {"by_flow": pages.findings_by_flow(surveyed.findings), "recalled": pages.recall_by_flow(surveyed.land)}
        return {**surveyed.findings.to_dict(), **more}

    async def all_runs(self, _: Request) -> Any:
        files = self._files
        return {
            "runs": await compute(runs.list_runs, files),
            "under_way": self.runs.under_way,
            "cases": list(await compute(lambda: files.known)),
            "commits": await runs.commits(self._catalogue.settings.flows),
            "folder": files.runs.as_posix(),
            "has_model": self._catalogue.live.selector.has_model,
        }

    async def begin(self, request: Request) -> Any:
        return {"id": self.runs.begin(await read_body(request, runs.RunBody))}

    async def run(self, request: Request) -> Any:
        name: str = request.path_params["run"]
        under = self.runs.under_way
        if under is not None and under["id"] == name:
            return {"under_way": under}
        found = await compute(runs.find_run, self._files, name)
        if found is not None:
            return {"run": found}
        if why := self.runs.failed.get(name):
            return {"failed": why}
        raise HTTPException(404, "there is no such run; the list has all there are")

    async def drift(self, request: Request) -> Any:
        try:
            days = float(request.query_params.get("days", _DAYS))
        except ValueError as error:
            raise HTTPException(400, "days is a number of days, such as 7") from error
        found = await self._drift.compare_last_days(days)
        return {"has_log": self._catalogue.log is not None, "drift": found}

    async def corrections(self, request: Request) -> Any:
        return await compute(teaching.recent_lessons, self._catalogue, self._files, caller_of(request))

    async def correct(self, request: Request) -> Any:
        check_may_teach(request)
        body = await read_body(request, teaching.CorrectionBody)
        return await teaching.save_correction(self._catalogue, self._files, body)

    async def rehearse(self, request: Request) -> Any:
        body = await read_body(request, teaching.CorrectionBody)
        return await teaching.rehearse_example(self._catalogue, self._files, body)

    async def undo(self, request: Request) -> Any:
        check_may_teach(request)
        return await teaching.undo_teaching(self._catalogue, await read_body(request, teaching.UndoBody))


async def _turn(request: Request) -> Response:
    given = turn_arguments(request, await read_body(request, TurnBody))
    return StreamingResponse(stream_turn(request, given, turn_event_data), media_type=MEDIA_TYPE, headers=HEADERS)
