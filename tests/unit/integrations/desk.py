"""What the tests of the frameworks share: a desk with three flows, tools that record their calls, and a toolkit."""

from typing import Any, Self

from jazz_select import Flow, FlowRegistry, FlowSelector, Tool
from jazz_select.integrations.toolkit import FlowToolkit
from jazz_select.routing import Allow, Ask, Deny, ToolCall
from jazz_select.routing.approval import Approve, Verdict
from jazz_select.selector.policy import Policy
from jazz_select.testing import ListMemory
from jazz_select.values import flow_id

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
TRACK, REFUND, MOVE = "track_order", "refund_order", "move_order"
FLOWS = {TRACK: ("look_up",), REFUND: ("look_up", "shop.pay_back"), MOVE: ("look_up", "redirect")}

VERDICTS: dict[str, tuple[Verdict, list[str]]] = {
    "denied": (Deny("closed on Sundays"), []),
    "allowed": (Allow(), ["pay_back A1"]),
}
"""What a hook says of paying back A1, and what is done then."""
ASKS = Ask("really?")
UNCLEAR, QUESTION = "something with A1", "Which of these do you mean?"
"""A request of which `Desk.asking` asks what is meant, and how it asks."""


def saying(verdicts: list[Verdict]) -> Approve:
    """A hook that says these in turn, and the last one from then on."""

    def approve(_: ToolCall) -> Verdict:
        return verdicts.pop(0) if len(verdicts) > 1 else verdicts[0]

    return approve


class Desk:
    """Flows and their tools. `done` is what the tools did; `found` are the flows that recall finds, best first."""

    def __init__(self, *found: str) -> None:
        self.done: list[str] = []
        self._how: dict[str, Any] = {}
        self.memory = ListMemory(
            [{"flow_id": flow_id(name), "flow_name": name, "score": 1.0} for name in found or (REFUND,)]
        )
        self.registry = FlowRegistry(min_examples=0)
        for name, tools in FLOWS.items():
            steps = [f"Do what {name} is about."]
            Flow(
                name=name,
                description=f"What {name} does.",
                condition=f"The user wants {name}.",
                desired_effects=["done"],
                examples=[],
                tools=tools,
                steps=steps,
                registry=self.registry,
            )

    def tools(self) -> list[Tool]:
        def look_up(order_id: str) -> dict[str, Any]:
            self.done.append(f"look_up {order_id}")
            return {"order_id": order_id, "state": "delivered"}

        def pay_back(order_id: str) -> dict[str, Any]:
            self.done.append(f"pay_back {order_id}")
            return {"refunded": 20}

        def redirect(order_id: str) -> str:
            self.done.append(f"redirect {order_id}")
            msg = "the parcel has left"
            raise LookupError(msg)

        return [
            Tool(name="look_up", description="An order.", input_schema=ORDER, function=look_up, read_only=True),
            Tool(
                name="shop.pay_back",
                description="Money back.",
                input_schema=ORDER,
                function=pay_back,
                destructive=True,
                title="Refund of an order",
            ),
            Tool(name="redirect", description="Another address.", input_schema=ORDER, function=redirect),
        ]

    def guarded(self, name: str) -> list[dict[str, Any]]:
        """What the guard of a flow was shown, each time it was asked."""
        seen: list[dict[str, Any]] = []
        flow = self.registry.by_name(name)
        assert flow is not None

        def available(context: dict[str, Any]) -> bool:
            seen.append(context)
            return True

        vars(flow)["available"] = available
        return seen

    def toolkit(self, **options: Any) -> FlowToolkit:
        return FlowToolkit(FlowSelector(None, self.registry, self.memory, "desk", **self._how), self.tools(), **options)

    def asking(self) -> Self:
        """From now on the user is asked whether a refund is meant, or a parcel that is looked for."""
        self.memory.candidates = [
            {"flow_id": flow_id(name), "flow_name": name, "score": 1.0, "confidence": sure}
            for name, sure in ((REFUND, 0.5), (TRACK, 0.45))
        ]
        self._how = {"policy": Policy(max_error=0.01, ask_user=True)}
        return self
