"""What there is to count, for Prometheus. Nothing that anybody asked or was answered is in it."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jazz_select.agent.turn_result import TurnResult
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.service.agents import ServedAgents
from jazz_select.service.http.life import Life

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServiceMetrics:
    """Counters of one service, in a registry of their own: two services in one process count apart."""

    def __init__(self, served: ServedAgents, life: Life) -> None:
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
    """What is served, looked at when it is asked for."""

    def __init__(self, served: ServedAgents) -> None:
        self._served = served

    def collect(self) -> Iterator[Metric]:
        """The generation of each catalogue, how large it is, and whether its newest files are live."""
        told = {
            "jazz_select_catalogue_generation": "Which reading of the flows answers, from 1.",
            "jazz_select_catalogue_flows": "How many flows there are.",
            "jazz_select_catalogue_loaded_timestamp_seconds": "When it was read.",
            "jazz_select_catalogue_stale": "1 where the newest files could not be used.",
        }
        families = {name: GaugeMetricFamily(name, text, labels=["agent"]) for name, text in told.items()}
        failures = CounterMetricFamily(
            "jazz_select_reload_failures", "How often flows could not be read again.", labels=["agent"]
        )
        for agent_id, catalogue in self._served.items():
            live = catalogue.live if catalogue.is_ready else None
            values = (
                0 if live is None else live.number,
                0 if live is None else len(live.registry),
                0.0 if live is None else live.loaded_at,
                bool(catalogue.problem),
            )
            for family, value in zip(families.values(), values, strict=True):
                family.add_metric([agent_id], float(value))
            failures.add_metric([agent_id], float(catalogue.failures))
        yield from families.values()
        yield failures


class _OfOne(CollectorRegistry):
    """A registry as one agent may see it."""

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
