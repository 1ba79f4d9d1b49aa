"""What is a model shown in a conversation? One talk at the example shop's desk, prompt by prompt.

`python -m benchmarks.model_sees` writes the prompts into docs/inside/model-sees.md; a test compares them.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from flows.shop import TODAY, Shop
from flows.tools import shop_tools
from jazz_select import Agent, BaseFlow, FlowRegistry, FlowSelector
from jazz_select.agent import Conversation, PromptOptions
from jazz_select.flow.flow_loading import load_flows
from jazz_select.selector.prompt import candidate_of
from jazz_select.testing import ListMemory
from jazz_select.text import estimate_tokens, json_line
from jazz_select.values import Message, OfferedTool, Reply
from tests.conversations.native import as_sent
from tests.conversations.tape import as_native

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "inside" / "model-sees.md"
BEGIN, END = "<!-- made by: python -m benchmarks.model_sees -->\n", "<!-- end -->"
OFFERED: Final = ("refund_order", "exchange_item", "damaged_item_claim")
"""What recall finds, whatever is said: what is under way is offered anyway."""


class Asked(NamedTuple):
    """A prompt of a turn."""

    turn: int
    kind: str
    messages: tuple[Message, ...]
    tools: tuple[OfferedTool, ...] = ()

    @property
    def tokens(self) -> int:
        """About how many it takes."""
        return sum(estimate_tokens(each.content) for each in as_sent(self.messages, self.tools))


TALK: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "I'd like my money back for the lamp of order 60105. You have me as ada@example.org.",
        (
            '{"flows": ["refund_order"], "values": {"email": "ada@example.org", "order_number": "60105"}}',
            "offer_store_credit",
            (
                '{"text": "I am sorry, the lamp was used, and its 30 days are over: I cannot take it back.", '
                '"tool_calls": [{"id": "s1", "tool": "cannot_finish", "arguments": {"reason": "used and too late"}}]}'
            ),
        ),
    ),
    (
        "I see. Then the headphones, please. They are from order 60112.",
        ('{"flows": ["refund_order"], "values": {"email": "ada@example.org", "order_number": "60112"}}',),
    ),
    (
        "One thing before that: the toothbrush of order 60098 came with a crack in its handle.",
        (
            '{"flows": ["damaged_item_claim"]}',
            (
                '{"tool_calls": [{"id": "s1", "tool": "lookup_order", "arguments": '
                '{"email": "ada@example.org", "order_number": "60098"}}]}'
            ),
            "I am sorry about that. Could you send me two photos of the crack, please?",
        ),
    ),
    (
        "Sure, later today. Until when are you there?",
        (
            '{"tool_calls": [{"id": "s2", "tool": "another_wish", "arguments": {"wish": "Until when is that?"}}]}',
            "{}",
            "Until six.",
        ),
    ),
)
"""What a customer says, and what the model answers in each turn."""
PARTS: Final = {
    "read": "Reading the message",
    "decide": "Choosing between tools",
    "call": "Going on with a flow",
    "talk": "Answering where no flow fits",
}
"""What each kind of prompt is called."""
TOLD: Final = {
    "read": """\
Which flows is the message for, what does it give for their inputs, what does it call off, and does it agree to what was
asked? The flows that were begun stand first, with what they have asked for; then what recall found. The first three are
told whole, further ones by name, condition and inputs. `<confirm>` is the question that waits for a yes or a no. The
rules come first and the message last, so that a provider can serve the beginning from its cache. A value that nobody
said is not used, whatever the model answers.""",
    "decide": """\
Which tool comes next? The request, the flow's steps, the calls made so far, and what each tool does to the world.""",
    "call": """\
The flow's procedure, what holds in any case, the other wishes that are open, and the calls made so far with arguments
and results. Behind it the tools of this flow, and two ways to end it.""",
    "talk": "The same without a procedure; the tools are those that change nothing.",
}
"""What each kind is for."""
SHOWN: Final = (("read", 3), ("decide", 1), ("call", 3), ("talk", 4))
"""Which prompts the page shows in full, each by its kind and turn."""
NATIVE: Final = (
    "A model that calls tools in its provider's own form (`takes_tools`) is told of them there, each by its JSON "
    "Schema, and no longer in the text. Its calls and their results come and go in that form as well. All else is the "
    "same: the same prompt of the flow, the same rules, and the same core that checks a call, has it approved and "
    "makes it.\n\nTurn {turn}, the first call of going on with the flow, about {tokens:,} tokens with the tools:"
)
"""What the page says of the other form."""
_BEGINNINGS: Final = {
    "You read a user's message": "read",
    "You choose the next tool": "decide",
}


class _Scripted:
    """Gives the replies of the talk, in either form, and keeps what was asked."""

    def __init__(self, *, native: bool) -> None:
        self.takes_tools = native
        self.turn = 0
        self.replies: list[str] = []
        self.asked: list[Asked] = []

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[OfferedTool] = ()) -> Reply:
        """The next reply of this turn."""
        self.asked.append(Asked(self.turn, _kind(messages), tuple(messages), tuple(tools)))
        return as_native(Reply(text=self.replies.pop(0), model="scripted"), tools)


def _kind(messages: Sequence[Message]) -> str:
    system = messages[0].content
    begun = next((kind for text, kind in _BEGINNINGS.items() if system.startswith(text)), "")
    return begun or ("talk" if "No procedure fits" in system else "call")


async def played(*, native: bool = False) -> list[Asked]:
    """Every prompt of the talk, in order; `native` is with tools in the provider's own form.

    Raises:
        AssertionError: The agent asked for less than was written, or for more.
    """
    registry = FlowRegistry()
    load_flows(ROOT / "flows" / "returns.py", registry)
    named = {tool for flow in registry.values() for tool in flow.tools}
    flows = [registry.by_name(name) for name in OFFERED]
    memory = ListMemory([_found(each) for each in flows if each is not None])
    model, shop = _Scripted(native=native), Shop()
    agent = Agent(
        FlowSelector(model, registry, memory, "support"),
        [tool for tool in shop_tools(shop) if tool.name in named],
        model,
        prompt=PromptOptions(system="You work at the support desk of a shop."),
        facts={"company": "Fjord & Co", "today": TODAY.isoformat(), "hours": "9 to 18, Monday to Friday"},
    )
    conversation = Conversation()
    try:
        for number, (message, replies) in enumerate(TALK, 1):
            model.turn, model.replies = number, [*replies]
            result = await agent.turn(message, conversation)
            conversation = result.conversation
            if model.replies or len([each for each in model.asked if each.turn == number]) != len(replies):
                msg = f"turn {number} came to {result.status} ({result.reason}) with other prompts than were written"
                raise AssertionError(msg)
    finally:
        shop.close()
    return model.asked


def _found(flow: BaseFlow) -> dict[str, Any]:
    """A flow, as recall finds it."""
    return candidate_of(flow).as_metadata()


def block() -> str:
    """What the page shows of it."""
    asked = asyncio.run(played())
    rows = ["| Turn | The customer says | The model is asked |", "|---:|---|---|"]
    for number, (message, _) in enumerate(TALK, 1):
        kinds = [f"{PARTS[each.kind].lower()} (about {each.tokens:,} tokens)" for each in asked if each.turn == number]
        rows.append(f"| {number} | {message} | {', '.join(kinds)} |")
    parts = ["\n".join(rows)]
    for kind, turn in SHOWN:
        one = next(each for each in asked if (each.kind, each.turn) == (kind, turn))
        said = "\n\n".join(f"[{each.role}]\n{_readable(each.content)}" for each in one.messages)
        parts.append(
            f"### {PARTS[kind]}\n\n{TOLD[kind]}\n\nTurn {turn}, about {one.tokens:,} tokens:\n\n````text\n{said}\n````"
        )
    called = next(each for each in asyncio.run(played(native=True)) if (each.kind, each.turn) == ("call", 3))
    parts.append(f"### In the provider's own form\n\n{NATIVE.format(turn=called.turn, tokens=called.tokens)}")
    tools = [{"name": each.name, "description": each.description, "parameters": each.schema} for each in called.tools]
    said = "\n\n".join(f"[{each.role}]\n{_readable(each.content)}" for each in called.messages)
    parts.append(f"````text\n[tools]\n{chr(10).join(map(json_line, tools))}\n\n{said}\n````")
    return "\n\n".join(parts) + "\n"


def _readable(content: str) -> str:
    """A message that is one long line of JSON, over several lines."""
    try:
        return json.dumps(json.loads(content), indent=2, ensure_ascii=False)
    except ValueError:
        return content


def main() -> None:
    """Write it into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{block()}{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
