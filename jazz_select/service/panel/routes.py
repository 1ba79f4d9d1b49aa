"""The panel's routes: pages that are the same for everybody, and data of the agent that a key opens."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jazz_select.service.access import catalogue_of
from jazz_select.service.api.answers import answer
from jazz_select.service.api.bodies import TurnBody, read_body
from jazz_select.service.api.operations import flow_named
from jazz_select.service.api.turns import HEADERS, MEDIA_TYPE, streamed, turn_arguments
from jazz_select.service.app import Part
from jazz_select.service.panel import corrections, pages, runs
from jazz_select.service.panel.files import PanelFiles
from jazz_select.service.panel.trial import TryBody, tried, turn_shown
from jazz_select.service.running import RunningCatalogue

_PAGES: Final = Path(__file__).parent / "static"
_DAYS: Final = 7.0
_SETTINGS: Final = {"top_k", "coverage", "skip_llm_above", "abstain_below", "on_empty"}
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


def panel_part(files: Mapping[str, PanelFiles]) -> Part:
    """Pages below `/panel/`, and their data below `/v1/panel/`.

    Args:
        files: Agent id to its files, for every agent that is served.
    """
    panel = _Panel(files)
    routes: list[BaseRoute] = [
        Route("/v1/panel/state", panel.state),
        Route("/v1/panel/try", panel.tried, methods=["POST"]),
        Route("/v1/panel/turn", panel.turn, methods=["POST"]),
        Route("/v1/panel/flows", panel.flows),
        Route("/v1/panel/flows/{name}", panel.flow),
        Route("/v1/panel/map", panel.map),
        Route("/v1/panel/findings", panel.findings),
        Route("/v1/panel/runs", panel.runs, methods=["GET"]),
        Route("/v1/panel/runs", panel.begin, methods=["POST"]),
        Route("/v1/panel/runs/{run}", panel.run),
        Route("/v1/panel/drift", panel.drift),
        Route("/v1/panel/corrections", panel.corrections, methods=["GET"]),
        Route("/v1/panel/corrections", panel.correct, methods=["POST"]),
        Route("/panel", _to_the_pages),
        Mount("/panel", app=_Guarded(StaticFiles(directory=_PAGES, html=True))),
    ]
    return Part(routes, panel.running)


class _Guarded:
    """Pages with headers by which a browser runs nothing but them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, sent)


class _Panel:
    """Answers for whichever agent a request is for."""

    def __init__(self, files: Mapping[str, PanelFiles]) -> None:
        self._files = files
        self._surveys: dict[str, pages.Survey] = {}
        self._runs: dict[str, runs.Runs] = {}

    def _files_of(self, catalogue: RunningCatalogue) -> PanelFiles:
        return self._files[catalogue.agent_id]

    def _survey_of(self, catalogue: RunningCatalogue) -> pages.Survey:
        made = pages.Survey(catalogue, self._files_of(catalogue))
        return self._surveys.setdefault(catalogue.agent_id, made)

    def _runs_of(self, catalogue: RunningCatalogue) -> runs.Runs:
        return self._runs.setdefault(catalogue.agent_id, runs.Runs(catalogue, self._files_of(catalogue)))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """While the service runs; at its end, so does what is being made."""
        try:
            yield
        finally:
            await asyncio.gather(*(each.close() for each in self._runs.values()))

    async def state(self, request: Request) -> Response:
        """Who is served, how, and what is wrong."""
        catalogue = catalogue_of(request)
        files, settings, live = self._files_of(catalogue), catalogue.settings, catalogue.live
        return answer(
            {
                "agent_id": catalogue.agent_id,
                "flows": len(live.registry),
                "tools": len(live.tools),
                "has_model": live.selector.has_model,
                "generation": live.number,
                "loaded_at": live.loaded_at,
                "took_s": live.took_s,
                "problem": catalogue.problem,
                "notes": live.report.notes,
                "embedder": catalogue.memory.embedder,
                "has_log": catalogue.log is not None,
                "has_learned": settings.learned is not None,
                "cases": list(await asyncio.to_thread(lambda: files.known)),
                "examples": pages.suggested(live),
                "settings": settings.model_dump(include=_SETTINGS),
            }
        )

    async def tried(self, request: Request) -> Response:
        """A request, selected."""
        catalogue = catalogue_of(request)
        return answer(await tried(catalogue, await read_body(request, TryBody)))

    async def turn(self, request: Request) -> Response:
        """A turn, as server-sent events."""
        given = turn_arguments(request, await read_body(request, TurnBody))
        return StreamingResponse(streamed(request, given, turn_shown), media_type=MEDIA_TYPE, headers=HEADERS)

    async def flows(self, request: Request) -> Response:
        """Every flow, in short."""
        live = catalogue_of(request).live
        return answer({"generation": live.number, "flows": pages.listed(live)})

    async def flow(self, request: Request) -> Response:
        """One flow, whole."""
        live = catalogue_of(request).live
        found = flow_named(live, request.path_params["name"])
        return answer(await pages.shown(live, found))

    async def map(self, request: Request) -> Response:
        """Where the flows lie, and which are confused."""
        return answer(pages.mapped(await self._survey_of(catalogue_of(request)).now()))

    async def findings(self, request: Request) -> Response:
        """What a check finds, and how much of it names which flow."""
        surveyed = await self._survey_of(catalogue_of(request)).now()
        return answer({**surveyed.findings.to_dict(), "by_flow": pages.counted(surveyed.findings)})

    async def runs(self, request: Request) -> Response:
        """The runs that are kept, the one that is being made, and what there is to judge by."""
        catalogue = catalogue_of(request)
        files = self._files_of(catalogue)
        return answer(
            {
                "runs": await asyncio.to_thread(runs.kept, files),
                "under_way": self._runs_of(catalogue).under_way(),
                "cases": list(await asyncio.to_thread(lambda: files.known)),
                "commits": await runs.commits(catalogue.settings.flows),
                "folder": files.runs.as_posix(),
                "has_model": catalogue.live.selector.has_model,
            }
        )

    async def begin(self, request: Request) -> Response:
        """Begin a run."""
        begun = self._runs_of(catalogue_of(request)).begin(await read_body(request, runs.RunBody))
        return answer({"id": begun}, 202)

    async def run(self, request: Request) -> Response:
        """A run that is kept, how far one that is being made has come, or why it failed."""
        catalogue = catalogue_of(request)
        name: str = request.path_params["run"]
        under = self._runs_of(catalogue).under_way()
        if under is not None and under["id"] == name:
            return answer({"under_way": under})
        found = await asyncio.to_thread(runs.one, self._files_of(catalogue), name)
        if found is not None:
            return answer({"run": found})
        if why := self._runs_of(catalogue).failed(name):
            return answer({"failed": why})
        raise HTTPException(404, "there is no such run; the list has all there are")

    async def drift(self, request: Request) -> Response:
        """The last days of the log."""
        try:
            days = float(request.query_params.get("days", _DAYS))
        except ValueError as error:
            raise HTTPException(400, "days is a number of days, such as 7") from error
        catalogue = catalogue_of(request)
        found = await runs.drifted(catalogue, days)
        return answer({"has_log": catalogue.log is not None, "drift": found})

    async def corrections(self, request: Request) -> Response:
        """What was corrected so far."""
        catalogue = catalogue_of(request)
        return answer(await asyncio.to_thread(corrections.recent, catalogue, self._files_of(catalogue)))

    async def correct(self, request: Request) -> Response:
        """Keep what was right."""
        catalogue = catalogue_of(request)
        body = await read_body(request, corrections.CorrectionBody)
        return answer(await corrections.kept(catalogue, self._files_of(catalogue), body), 201)


def _to_the_pages(_: Request) -> Response:
    return RedirectResponse("/panel/", 307)
