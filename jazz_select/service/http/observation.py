"""What is seen of each request: an id, a line in the log, counts for Prometheus; and that it ends with an answer."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import nan
from secrets import token_hex
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jazz_select.agent.turn import TurnResult
from jazz_select.json_values import json_text
from jazz_select.outcomes.audit import Audit
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.service.http.limits import CONNECTION, Lifecycle, catalogue_of
from jazz_select.service.problems import problem_response
from jazz_select.service.running import RunningCatalogue
from jazz_select.stages import Usage
from jazz_select.values import Decision

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class AgentMetrics:
    """Counters of one agent, in a registry of their own: no key shows what another agent did."""

    def __init__(self, catalogue: RunningCatalogue, life: Lifecycle) -> None:
        """Begin at nothing."""
        self._catalogue, self._registry = catalogue, CollectorRegistry(auto_describe=False)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"jazz_select_{name}", text, ("agent", *labels), registry=self._registry)

        def gauge(
            name: str, text: str, value: Callable[[], float], agent: Sequence[str] = (catalogue.agent_id,)
        ) -> None:
            made = Gauge(f"jazz_select_{name}", text, ["agent"] if agent else [], registry=self._registry)
            if agent:
                made = made.labels(*agent)
            made.set_function(value)

        asked = "Requests, by what was asked and how it was answered."
        self._requests = counter("requests", asked, "method", "route", "status")
        self._took = Histogram(
            "jazz_select_request_seconds",
            "From the first byte of a request to the last of its answer.",
            ("agent", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._selections = counter("selections", "Selections, by how they were made.", "tier", "reason")
        self._turns = counter("turns", "Turns, by how they ended.", "status")
        self._tokens = counter("tokens", "Tokens of models.", "kind")
        self._failures = counter("reload_failures", "How often flows could not be read again.")
        self._failures.labels(catalogue.agent_id)  # so that it is shown as 0 before the first one
        self._failed = 0
        gauge("in_flight", "Requests that are being answered.", lambda: life.in_flight, ())
        gauge("streams", "Streams that are held open.", lambda: len(life.streams), ())
        gauge("catalogue_generation", "Which reading of the flows answers, from 1.", lambda: catalogue.number)
        gauge(
            "catalogue_flows",
            "How many flows there are.",
            lambda: len(catalogue.live.registry) if catalogue.is_ready else 0,
        )
        gauge(
            "catalogue_loaded_timestamp_seconds",
            "When it was read.",
            lambda: catalogue.live.loaded_at if catalogue.is_ready else 0,
        )
        gauge("catalogue_stale", "1 where the newest files could not be used.", lambda: bool(catalogue.problem))
        # Bind the value as a default: when the gauge is read, the loop's variable holds the last one.
        for name, text, value in _OF_AUDIT:
            gauge(f"audit_{name}", text, lambda value=value: value(_audit(catalogue)))

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(self._catalogue.agent_id, method, route, str(status)).inc()
        self._took.labels(self._catalogue.agent_id, route).observe(seconds)

    def count_selections(self, results: Iterable[FlowSelectionResult]) -> None:
        """Count selections, whether or not they found flows."""
        for result in results:
            self._count_decision(result.decision)
            self._count_tokens(result.decision.usage)

    def count_turn(self, result: TurnResult) -> None:
        """Count a turn that ended."""
        self._turns.labels(self._catalogue.agent_id, result.status).inc()
        if result.selection is not None:
            self._count_decision(result.selection.decision)
        self._count_tokens(result.usage)

    def _count_decision(self, decision: Decision) -> None:
        self._selections.labels(self._catalogue.agent_id, decision.tier.value, decision.reason.value).inc()

    def _count_tokens(self, usage: Usage | None) -> None:
        if usage is not None and (usage.input_tokens or usage.output_tokens):
            self._tokens.labels(self._catalogue.agent_id, "input").inc(usage.input_tokens)
            self._tokens.labels(self._catalogue.agent_id, "output").inc(usage.output_tokens)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        # The catalogue counts itself, and a counter can only be raised.
        before, self._failed = self._failed, self._catalogue.failures
        self._failures.labels(self._catalogue.agent_id).inc(self._failed - before)
        return generate_latest(self._registry)


def _audit(catalogue: RunningCatalogue) -> Audit:
    found = catalogue.live.selector.audit if catalogue.is_ready else None
    return Audit() if found is None else found


def _or_nan(number: float | None) -> float:
    return nan if number is None else number


_OF_AUDIT: Final[Sequence[tuple[str, str, Callable[[Audit], float]]]] = (
    ("promise", "The share of answers without a model that may differ.", lambda audit: _or_nan(audit.promise)),
    ("measured", "The share of audited answers that differed.", lambda audit: _or_nan(audit.whole.share)),
    ("answers", "How many answers were audited since the last fit.", lambda audit: audit.whole.audited),
    ("differing", "How many of those differed.", lambda audit: audit.whole.differed),
    ("alone", "How many answers were given without a model since then.", lambda audit: audit.whole.alone),
    ("threshold", "The confidence that a broken promise demands.", lambda audit: audit.whole.threshold),
    (
        "raised_flows",
        "For how many flows.",
        lambda audit: sum(bool(each.threshold) for each in audit.flows),
    ),
    ("suspected_flows", "Flows whose every answer is asked, as models differ.", lambda audit: len(audit.suspected)),
)


def metrics_of(connection: HTTPConnection) -> AgentMetrics:
    """Return the metrics of the agent that a request is for."""
    metrics: Mapping[str, AgentMetrics] = connection.scope["state"]["metrics"]
    return metrics[catalogue_of(connection).agent_id]


access_log: Final = logging.getLogger("jazz_select.access")
_log: Final = logging.getLogger(__name__)
_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_HEADER: Final = b"x-request-id"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNKNOWN: Final = "(unknown)"
_LEFT: Final = 499
"""What is logged where the client left before it was answered; it is sent to nobody."""


class ObservationMiddleware:
    """Outermost: whatever happens behind it, the request is answered, logged and counted."""

    def __init__(self, app: ASGIApp, metrics: Mapping[str, AgentMetrics], send_timeout_s: float) -> None:
        """Stand before an app; a client that reads no piece of a stream for so many seconds is cut off."""
        self._app, self._metrics, self._send_timeout_s = app, metrics, send_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and watch what becomes of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        sent_id = next((value for name, value in scope["headers"] if name == _HEADER), b"")
        # It goes into the log and back to the client, so allow only characters that can forge neither.
        request_id = sent_id if _ID.fullmatch(sent_id) else token_hex(16).encode()
        state = scope.setdefault("state", {})
        state["request_id"], state["metrics"] = request_id.decode(), self._metrics
        status = size = 0

        async def send_counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id)]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
                if message.get("more_body"):
                    await self._send_in_time(scope, send, message)
                    return
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            connection = state.get(CONNECTION)
            is_gone = connection is not None and connection.transport.is_closing()
            if isinstance(error, RuntimeError) and is_gone:  # some event loops then fail to write
                request_id = state["request_id"]
                _log.debug("request_id=<%s> | failed, with nobody there to be answered", request_id, exc_info=True)
                await asyncio.sleep(0)  # lets the server see it, too
                return
            response = problem_response(error, scope)  # it logs the error, too
            if not status:
                await response(scope, receive, send_counted)
        finally:
            self._note(scope, status or _LEFT, size, perf_counter() - began)

    async def _send_in_time(self, scope: Scope, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
        except TimeoutError:
            connection = scope["state"].get(CONNECTION)
            if connection is not None:
                connection.transport.abort()
                await asyncio.sleep(0)  # lets the server see it
            raise ClientDisconnect from None

    def _note(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        state = scope["state"]
        catalogue = state.get("catalogue")
        agent_id = "" if catalogue is None else catalogue.agent_id
        # Each value that a client makes up would become a time series of its own.
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        route: str = getattr(scope.get("route"), "path", "") or _UNKNOWN
        if catalogue is not None:
            self._metrics[agent_id].count_request(method, route, status, seconds)
        if access_log.isEnabledFor(logging.INFO):
            record = {  # never its body, its key, or a path that somebody made up
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "id": state["request_id"],
                "agent": agent_id,
                "method": method,
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 3),
                "bytes": size,
            }
            access_log.info("%s", json_text(record))
