"""What the tests of the agent in conversation share: a small shop, and a model that answers by what it is asked."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation, TurnResult
from jazz_select.agent.turn_events import first_reader
from jazz_select.routing import GuidedDecisionPoint, Tool
from jazz_select.testing import ListMemory
from jazz_select.values import Message, Reply
from tests.agents import make_agent
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata

FLOWS: Final = ("send_back", "cancel_it", "track_it", "settle_it")
READS: Final = "You read a user's message"
BEGINNINGS: Final = {
    "You choose which flows fit": "choose",
    READS: "choose",
    "You choose the next tool": "decide",
}
_USUAL: Final = {"choose": "{}", "decide": "none", "call": "Well."}


class Mind:
    """A model with replies, or errors, for each kind of prompt; after the last one it says nothing in particular.

    `choose` is what it makes of each message that is read, and `values` what it finds in it for the inputs of what it
    chooses, where that takes any. Where it is at work on a flow and may hand a message back, it goes by the next
    `choose` as well: it does, unless that is the flow it is at work on.

    Attributes:
        asked: The kind and the text of each prompt; where a message was handed back the kind is `back`.
    """

    def __init__(self, **replies: Sequence[str | Exception]) -> None:
        self._replies = {kind: list(given) for kind, given in replies.items()}
        self.asked: list[tuple[str, tuple[Message, ...]]] = []

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """The next reply of this kind."""
        kind = next((kind for begins, kind in BEGINNINGS.items() if messages[0].content.startswith(begins)), "call")
        if kind == "call" and self._hands_back(messages):
            self.asked.append(("back", tuple(messages)))
            return Reply(text=calls("another_wish", wish=""), model="scripted")
        self.asked.append((kind, tuple(messages)))
        left = self._replies.get(kind, [])
        reply = left.pop(0) if left else _USUAL[kind]
        if isinstance(reply, Exception):
            raise reply
        if kind == "choose" and messages[0].content.startswith(READS):
            reply = self._with_values(reply, messages[-1].content)
        return Reply(text=reply, model="scripted")

    def _hands_back(self, messages: Sequence[Message]) -> bool:
        """Whether it is at work on a flow, and the message is for another one, or for none."""
        here, left = first_reader(), self._replies.get("choose", [])
        is_after_calls = "TOOL RESULTS" in messages[-1].content
        if is_after_calls or not (here and left) or isinstance(left[0], Exception):
            return False
        if _parts(left[0]) != {"flows": [here]}:
            return True
        left.pop(0)
        return False

    def _with_values(self, reply: str, shown: str) -> str:
        """With the next values, where a flow that is chosen is shown with inputs."""
        read, left = _parts(reply), self._replies.get("values", [])
        takes = {name for name, told in re.findall(r'name="(\w+)"([^>]*)', shown) if "inputs=" in told}
        if not (left and takes & {*read.get("flows", [])}):
            return reply
        found: dict[str, Any] = json.loads(str(left.pop(0)))
        unclear: dict[str, Any] = {name: each["unclear"] for name, each in found.items() if isinstance(each, dict)}
        values = {name: each for name, each in found.items() if each is not None and name not in unclear}
        return json.dumps({**read, "values": values, "unclear": unclear})

    def prompts(self, *kinds: str) -> list[str]:
        """The prompts of these kinds, or of all, each as one text."""
        return [
            "\n\n".join(each.content for each in messages)
            for kind, messages in self.asked
            if not kinds or kind in kinds
        ]


def _parts(reply: Any) -> dict[str, Any]:
    """A reading as its parts; an array alone is `flows`."""
    try:
        read: Any = json.loads(reply)
    except ValueError:
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {"flows": read}


def chooses(*flows: str, **read: Any) -> str:
    """A choice by name: where a flow stands is not what these tests are about; and what else was read."""
    return json.dumps({"flows": list(flows), **read})


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
    return make_agent(selector, shop_tools([] if log is None else log), mind, **options)


async def talk(agent: Agent, *messages: str, **options: Any) -> list[TurnResult]:
    """The results of these turns; between any two the conversation is a text, as if in another process."""
    results: list[TurnResult] = []
    kept = Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept, **options))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results
