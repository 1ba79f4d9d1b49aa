"""What the tests of traces share: a selection, spans that fail, values that are hard to write, an exporter."""

from contextlib import suppress
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jazz_select import FlowSelector
from jazz_select.agent import ActionDecision, Router, TurnState
from jazz_select.errors import ModelError
from jazz_select.otel import OpenTelemetryHook
from jazz_select.routing import FlowExecutor, GuidedDecisionPoint, Plan, run_plan
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.telemetry import Trace, span
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Reply, Usage
from tests.unit.routing.shop import tools
from tests.unit.selector.shop import EXCHANGE, metadata, shop


def selector(model: ScriptedModel) -> FlowSelector:
    return FlowSelector(model, shop(), ListMemory(metadata()), "support")


def shape(trace: Trace) -> list[tuple[int, str, str]]:
    return [(each.depth, each.kind, each.name) for each in trace]


CHOICE = Reply(
    text=f'["{EXCHANGE}"]', model="small", finish_reason="stop", usage=Usage(input_tokens=310, output_tokens=12)
)


SAID = "a@example.org"


async def everything_fails() -> None:
    """Each kind of span, failing with a text that quotes what was said."""

    def fails(order_id: str) -> str:
        raise ValueError(SAID)

    class Fails:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str:
            raise ValueError(SAID)

    def rewrite(state: TurnState, decision: ActionDecision) -> ActionDecision:
        raise ValueError(SAID)

    async def plan(state: TurnState) -> ActionDecision:
        return ActionDecision(action="finish")

    own = tools(find_order=fails)
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["send_mail", "check_refund"])
    choosing = FlowExecutor(tools(), Fails())
    await FlowExecutor(own).run(["find_order"], {"order_id": "A1"})
    await choosing.run(["find_order", point], {"order_id": "A1"})
    await choosing.run([SAID])
    await run_plan(Plan.from_steps([PlanStep(id="s1", tool="find_order", arguments={"order_id": SAID})]), own)
    await selector(ScriptedModel(ModelError("m", SAID, retryable=False))).select("money")
    turn = Router(TurnState, guards=[], routes={}, actions={}, plan=plan, rewrites=[rewrite])
    await turn.run(TurnState())
    with suppress(ValueError), span("x", "node"):
        raise ValueError(SAID)


class Mute:
    """Whose own text fails."""

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


def nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


VALUES = {
    "object": {1: object()},
    "lone": "\ud800",
    "lone within": {"a": ["\ud800"]},
    "big": 10**30,
    "too big to print": 10**10_000,
    "big within": [10**30],
    "nan": float("nan"),
    "mute": Mute(),
    "mute within": [Mute()],
    "deep": nested(),
}


def exported(*, with_content: bool) -> tuple[OpenTelemetryHook, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetryHook(provider, with_content=with_content), exporter


def known(found: ReadableSpan) -> dict[str, Any]:
    return dict(found.attributes or {})
