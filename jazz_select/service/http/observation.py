"""What is seen of each request: an id, a line in the log, counts for Prometheus; and that it ends with an answer."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import count
from secrets import token_hex
from time import perf_counter
from typing import Final

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jazz_select.agent.turn import TurnResult
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.service.agents import ServedAgents
from jazz_select.service.http.limits import CONNECTION, Lifecycle
from jazz_select.service.problems import problem_response
from jazz_select.service.running import RunningCatalogue

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServiceMetrics:
    """Counters of one service, in a registry of their own: two services in one process count apart."""

    def __init__(self, served: ServedAgents, life: Lifecycle) -> None:
        """Begin at nothing."""
        self._registry = registry = CollectorRegistry(auto_describe=False)
        self._requests = Counter(
            "jazz_select_requests",
            "Requests, by what was asked and how it was answered.",
            ("agent", "method", "route", "status"),
            registry=registry,
        )
        self._took = Histogram(
            "jazz_select_request_seconds",
            "From the first byte of a request to the last of its answer.",
            ("agent", "route"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._selections = Counter(
            "jazz_select_selections",
            "Selections, by how they were made.",
            ("agent", "tier", "reason"),
            registry=registry,
        )
        self._turns = Counter("jazz_select_turns", "Turns, by how they ended.", ("agent", "status"), registry=registry)
        self._tokens = Counter("jazz_select_tokens", "Tokens of models.", ("agent", "kind"), registry=registry)
        in_flight = Gauge("jazz_select_in_flight", "Requests that are being answered.", registry=registry)
        in_flight.set_function(lambda: life.in_flight)
        streams = Gauge("jazz_select_streams", "Streams that are held open.", registry=registry)
        streams.set_function(lambda: len(life.streams))
        registry.register(_Catalogues(served))

    def requested(self, agent_id: str, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(agent_id, method, route, str(status)).inc()
        self._took.labels(agent_id, route).observe(seconds)

    def selected(self, agent_id: str, results: Iterable[FlowSelectionResult]) -> None:
        """Flows were found, or not."""
        for result in results:
            decision = result.decision
            self._selections.labels(agent_id, decision.tier.value, decision.reason.value).inc()
            if decision.usage is not None:
                self._spent(agent_id, decision.usage.input_tokens, decision.usage.output_tokens)

    def answered(self, agent_id: str, result: TurnResult) -> None:
        """A turn ended."""
        self._turns.labels(agent_id, result.status).inc()
        if result.selection is not None:
            decision = result.selection.decision
            self._selections.labels(agent_id, decision.tier.value, decision.reason.value).inc()
        usage = result.usage
        self._spent(agent_id, usage.input_tokens, usage.output_tokens)

    def _spent(self, agent_id: str, read: int, written: int) -> None:
        if read or written:
            self._tokens.labels(agent_id, "input").inc(read)
            self._tokens.labels(agent_id, "output").inc(written)

    def text(self, agent_id: str) -> bytes:
        """All as Prometheus reads it: of one agent, and what is of none."""
        return generate_latest(_OfOne(self._registry, agent_id))


class _Catalogues(Collector):
    """Metrics of the catalogues, read when they are scraped."""

    def __init__(self, served: ServedAgents) -> None:
        self._served = served

    def collect(self) -> Iterator[Metric]:
        """The generation of each catalogue, how large it is, and whether its newest files are live."""
        for name, text, value in _OF_A_CATALOGUE:
            family = GaugeMetricFamily(f"jazz_select_catalogue_{name}", text, labels=["agent"])
            for agent_id, catalogue in self._served.items():
                family.add_metric([agent_id], float(value(catalogue)))
            yield family
        failures = CounterMetricFamily(
            "jazz_select_reload_failures", "How often flows could not be read again.", labels=["agent"]
        )
        for agent_id, catalogue in self._served.items():
            failures.add_metric([agent_id], float(catalogue.failures))
        yield failures


_OF_A_CATALOGUE: Final[tuple[tuple[str, str, Callable[[RunningCatalogue], float]], ...]] = (
    ("generation", "Which reading of the flows answers, from 1.", lambda each: each.number),
    ("flows", "How many flows there are.", lambda each: len(each.live.registry) if each.is_ready else 0),
    ("loaded_timestamp_seconds", "When it was read.", lambda each: each.live.loaded_at if each.is_ready else 0),
    ("stale", "1 where the newest files could not be used.", lambda each: bool(each.problem)),
)


class _OfOne(CollectorRegistry):
    """A view of the metrics registry for one agent."""

    def __init__(self, registry: CollectorRegistry, agent_id: str) -> None:
        super().__init__()
        self._whole, self._agent_id = registry, agent_id

    def collect(self) -> Iterator[Metric]:
        """What is of this agent, or of none."""
        for metric in self._whole.collect():
            kept = Metric(metric.name, metric.documentation, metric.type, metric.unit)
            own = (each for each in metric.samples if each.labels.get("agent", self._agent_id) == self._agent_id)
            kept.samples = list(own)
            yield kept


access_log: Final = logging.getLogger("jazz_select.access")
_log: Final = logging.getLogger(__name__)
_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_HEADER: Final = b"x-request-id"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNKNOWN: Final = "(unknown)"
_LEFT: Final = 499
"""What is logged where the client left before it was answered; it is sent to nobody."""


class Watched:
    """Outermost: whatever happens behind it, the request is answered, logged and counted."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, send_timeout_s: float) -> None:
        """Stand before an app; a client that reads no piece of a stream for so many seconds is cut off."""
        self._app, self._metrics, self._send_timeout_s = app, metrics, send_timeout_s
        # To ask the system for each anew takes longer than all else here.
        self._own, self._numbers = token_hex(8), count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and watch what becomes of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        given = next((value for name, value in scope["headers"] if name == _HEADER), b"")
        request_id = given if _ID.fullmatch(given) else self._new_id()
        state = scope.setdefault("state", {})
        state["request_id"], state["metrics"] = request_id.decode(), self._metrics
        status = size = 0

        async def told(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id)]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
                if message.get("more_body"):
                    await self._sent(scope, send, message)
                    return
            await send(message)

        try:
            await self._app(scope, receive, told)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            if isinstance(error, RuntimeError) and _is_gone(scope):
                request_id = state["request_id"]
                _log.debug("request_id=<%s> | failed, with nobody there to be answered", request_id, exc_info=True)
                await asyncio.sleep(0)  # lets the server see it, too
                return
            response = problem_response(error, scope)
            if not status:
                await response(scope, receive, told)
        finally:
            self._note(scope, status or _LEFT, size, perf_counter() - began)

    def _new_id(self) -> bytes:
        """Return an id that is unique across processes."""
        return f"{self._own}{next(self._numbers):016x}".encode()

    async def _sent(self, scope: Scope, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
        except TimeoutError:
            if (connection := scope["state"].get(CONNECTION)) is not None:
                connection.transport.abort()
                await asyncio.sleep(0)  # lets the server see it
            raise ClientDisconnect from None

    def _note(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        state = scope["state"]
        caller = state.get("catalogue")
        agent_id = "" if caller is None else caller.agent_id
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        route: str = getattr(scope.get("route"), "path", "") or _UNKNOWN
        self._metrics.requested(agent_id, method, route, status, seconds)
        if access_log.isEnabledFor(logging.INFO):
            told = {  # never its body, its key, or a path that somebody made up
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "id": state["request_id"],
                "agent": agent_id,
                "method": method,
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 3),
                "bytes": size,
            }
            access_log.info("%s", orjson.dumps(told).decode())


def _is_gone(scope: Scope) -> bool:
    """Whether the client has left; some event loops then fail to write."""
    connection = scope["state"].get(CONNECTION)
    return connection is not None and connection.transport.is_closing()
