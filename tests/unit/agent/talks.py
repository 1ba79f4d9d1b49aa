"""What the tests of the agent in conversation share: a small shop, and a model that answers by what it is asked."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation, TurnResult
from jazz_select.routing import GuidedDecisionPoint, Tool
from jazz_select.testing import ListMemory
from jazz_select.values import Message, Reply
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata

FLOWS: Final = ("send_back", "cancel_it", "track_it", "settle_it")
BEGINNINGS: Final = {
    "You choose which flows fit": "choose",
    "You find facts": "fill",
    "You choose the next tool": "decide",
}
_USUAL: Final = {"choose": "[]", "fill": "{}", "decide": "none", "call": "Well."}


class Mind:
    """A model with replies, or errors, for each kind of prompt; after the last one it says nothing in particular.

    Attributes:
        asked: The kind and the text of each prompt.
    """

    def __init__(self, **replies: Sequence[str | Exception]) -> None:
        self._replies = {kind: list(given) for kind, given in replies.items()}
        self.asked: list[tuple[str, tuple[Message, ...]]] = []

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """The next reply of this kind."""
        kind = next((kind for begins, kind in BEGINNINGS.items() if messages[0].content.startswith(begins)), "call")
        self.asked.append((kind, tuple(messages)))
        left = self._replies.get(kind, [])
        reply = left.pop(0) if left else _USUAL[kind]
        if isinstance(reply, Exception):
            raise reply
        return Reply(text=reply, model="scripted")

    def prompts(self, *kinds: str) -> list[str]:
        """The prompts of these kinds, or of all, each as one text."""
        return [
            "\n\n".join(each.content for each in messages)
            for kind, messages in self.asked
            if not kinds or kind in kinds
        ]

    def questions(self) -> list[dict[str, Any]]:
        """What was asked for facts, as data."""
        return [json.loads(messages[-1].content) for kind, messages in self.asked if kind == "fill"]


def chooses(*flows: str) -> str:
    """A choice by name: where a flow stands is not what these tests are about."""
    return json.dumps(list(flows))


def calls(tool: str, **arguments: Any) -> str:
    """A model's call of a tool."""
    return json.dumps({"tool_calls": [{"id": "s1", "tool": tool, "arguments": arguments}]})


def takes(*required: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    """A schema of texts."""
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in (*required, *optional)},
        "required": list(required),
    }


def shop_tools(log: list[Any]) -> list[Tool]:
    """The shop's tools; each says of what it was called with."""

    def tool(name: str, schema: Mapping[str, Any], output: Mapping[str, Any], **marks: Any) -> Tool:
        def run(**given: Any) -> dict[str, Any]:
            log.append((name, given))
            return {**output, **({"order_id": given["order_number"]} if given.get("order_number") else {})}

        return Tool(name=name, input_schema=schema, function=run, description=f"What {name} does.", **marks)

    return [
        tool("find_order", takes("email", optional=["order_number"]), {"order_id": "LATEST"}, read_only=True),
        tool("open_return", takes("order_id", "reason"), {"return_id": "R1"}),
        tool("cancel_order", takes("order_number"), {"cancelled": True}, destructive=True),
        tool("tell_why", takes("reason"), {"told": True}),
        tool("look_up", takes("order_number"), {"state": "shipped"}, read_only=True),
    ]


def shop_flows() -> FlowRegistry:
    """A chain that asks, one that destroys, a flow that is open, and one with a choice between tools."""
    registry = shop_of(
        ("send_back", ("find_order", "open_return")),
        ("cancel_it", ("cancel_order", "tell_why")),
        ("track_it", ()),
        ("settle_it", ("find_order", "open_return", "cancel_order")),
    )
    open_one, decided = registry.by_name("track_it"), registry.by_name("settle_it")
    assert open_one is not None
    assert decided is not None
    vars(open_one).update(tools=("look_up", "cancel_order"), steps=("Look it up.", "Tell where it is."))
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["open_return", "cancel_order"])
    vars(decided).update(chain=("find_order", point), steps=("Find it.", "Send it back, or cancel it."))
    return registry


def shop_agent(mind: Any, log: list[Any] | None = None, **options: Any) -> Agent:
    """The shop's agent, whose selector asks the same model."""
    selector = FlowSelector(mind, shop_flows(), ListMemory(metadata(*FLOWS)), "support", top_k=4)
    return Agent(selector, shop_tools([] if log is None else log), mind, **options)


async def talk(agent: Agent, *messages: str, **options: Any) -> list[TurnResult]:
    """The results of these turns; between any two the conversation is a text, as if in another process."""
    results: list[TurnResult] = []
    kept = Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept, **options))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results
