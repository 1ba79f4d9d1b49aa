"""Where foreign text enters a prompt, and the shape that the prompt has whatever that text says.

A shape is what stands in a prompt that the library wrote: messages and who speaks them, headings, the kinds of lines,
the elements of XML. `PLACES` makes one prompt each with a text in it. A text is harmless to the structure where the
shape is that of the same prompt with an ordinary text.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from jazz_select import FlowRegistry, FlowSelector, SequentialFlow
from jazz_select.agent import Agent, Conversation, run_chain
from jazz_select.agent.chain.formatting import formatting_messages
from jazz_select.agent.chain.transcript import AssistantText, Chain, ToolRequest, ToolResult
from jazz_select.agent.graph.planner import plan_instruction
from jazz_select.chat.client import ChatClient
from jazz_select.chat.outgoing import shape_messages
from jazz_select.evaluation.checks.suggesting import Writer
from jazz_select.routing import FlowExecutor, GuidedDecisionPoint, Tool, ToolAsker
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.selector.prompt import build_prompt
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.text import as_text
from jazz_select.values import Candidate, Message
from tests.agents import TAKE_FIRST
from tests.unit.agent.small_view import prompts_of, small_view
from tests.unit.selector.shop import flow, metadata

ORDINARY = "an ordinary text"
MARKERS = (
    *("AVAILABLE TOOLS:", "TOOL RESULTS:", "USER INPUT:", "QUESTION:"),
    *(
        "JSON SCHEMA:",
        "CLOSING ANSWER:",
        "TRANSCRIPT (",
        "The actions are:",
        "CALLS MADE SO FAR",
        "OTHER WISHES",
        "KNOWN:",
    ),
    *("THE USER SAYS:", "WHAT TO DO NOW:", "PROCEDURE SHOWN", "TOOLS SHOWN", "CALLS MADE, with"),
    *("[user] ", "[assistant] ", "[system] ", "[tool call ", "[tool result ", "[… "),
)
"""How the lines of our prompts begin that tell what follows."""
_XML = re.compile(r"^<(selection|flow|returned|situation)\b.*</\1>$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"\b(AVAILABLE TOOLS|TOOL RESULTS)\s*:", re.IGNORECASE)
_PART = re.compile(r"\b(KNOWN:|CALLS MADE SO FAR|OTHER WISHES)")
_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
Sent = Sequence[Message]


_GIVES_WAY = {"description", "desired_effects", "examples"}
"""What is left out of a flow's card where there is no room for it."""


def shape(messages: Sent, *, spoken: str) -> list[Any]:
    """What of these messages the library wrote; of those that pass on what user or model said, who said it."""
    said = [each.role == "assistant" or _is_said(each.content, spoken) for each in messages]
    return [(each.role, "spoken" if own else _lines(each.content)) for each, own in zip(messages, said, strict=True)]


def _is_said(content: str, text: str) -> bool:
    """Whether a message is what somebody said, as it is or with our headings in it told as said."""
    said = as_text(text)
    told = _PART.sub(r"[said: \1]", said)
    return content in {form for each in (said, told) for form in (each, _HEADING.sub(r"[said: \1]", each))}


def _lines(content: str) -> list[Any]:
    found = _XML.search(content)
    if found is None:
        return [_kind(line) for line in content.splitlines()]
    tags = [(each.tag, sorted({*each.attrib} - _GIVES_WAY)) for each in ET.fromstring(found[0]).iter()]  # noqa: S314 - our own text
    return [*_lines(content[: found.start()]), tags, *_lines(content[found.end() :])]


def _kind(line: str) -> Any:
    """A line that begins with JSON as the type of its value, and the rest; else the line up to where it quotes."""
    if line.startswith(("{", '"')):
        value, end = json.JSONDecoder().raw_decode(line)
        return type(value).__name__ + re.split(r"[\"']", line[end:], maxsplit=1)[0]
    return re.split(r"[\"']", line, maxsplit=1)[0]


def marked(messages: Sent, among: Iterable[str] = MARKERS) -> list[str]:
    """Those of these markers that begin a line, in their order."""
    lines = [line for each in messages for line in each.content.splitlines()]
    return [marker for line in lines for marker in among if line.startswith(marker)]


# --- the places --------------------------------------------------------------------


def look(output: Any, name: str = "look", description: str = "Look.") -> Tool:
    return Tool(name=name, description=description, input_schema=_OBJECT, function=lambda: output)


def _called(name: str) -> str:
    return json.dumps({"tool_call": {"tool": name, "arguments": {}}})


def chained(tool: Tool, *, said: str = "Please look.", earlier: Sequence[Message] = ()) -> Sent:
    model = ScriptedModel(_called(tool.name), "done")
    asyncio.run(run_chain(model, [*earlier, Message(role="user", content=said)], [tool, look(1, "other")]))
    return model.calls[-1]


def in_a_result(text: str) -> Sent:
    return chained(look({"note": text, "more": [text, {"deep": text}]}))


def in_a_key_of_a_result(text: str) -> Sent:
    return chained(look({text: 1}))


def in_an_error(text: str) -> Sent:
    def fails() -> None:
        raise ValueError(text)

    return chained(Tool(name="look", input_schema=_OBJECT, function=fails))


def in_a_name_of_a_tool(text: str) -> Sent:
    return chained(look(1, name=text))


def in_a_description_of_a_tool(text: str) -> Sent:
    return chained(look(1, description=text))


def in_a_message(text: str) -> Sent:
    earlier = [Message(role="system", content="Be kind."), Message(role="assistant", content=text)]
    return chained(look(1), said=text, earlier=earlier)


def in_an_unknown_call(text: str) -> Sent:
    model = ScriptedModel(_called(text), "done")
    asyncio.run(run_chain(model, [Message(role="user", content="go")], [look(1)]))
    return model.calls[-1]


def in_a_result_of_no_call(text: str) -> Sent:
    result = Message(role="tool", content=text, tool=text, call_id=text)
    return shape_messages([Message(role="user", content="go"), result])


def in_metadata(text: str) -> Sent:
    shown = [Candidate.from_metadata(each) for each in metadata("refund", "exchange")]
    given: dict[str, Any] = dict.fromkeys(("flow_name", "description", "condition"), text)
    attacked = [Candidate.from_metadata({**each, **given, "desired_effects": [text]}) for each in metadata("third")]
    examples = {shown[0].flow_id: [text]}
    return build_prompt("a request", ["earlier"], [*shown, *attacked], examples=examples, tokens=10**6).messages


def in_a_request(text: str) -> Sent:
    shown = [Candidate.from_metadata(each) for each in metadata("refund", "exchange")]
    return build_prompt(text, [text], shown).messages


def _asked(registry: FlowRegistry, tools: Sequence[Tool], *said: str, conversation: Conversation | None = None) -> Sent:
    """What the model of an agent is sent last, in the open flow `helps`."""
    model = ScriptedModel(_called("look"), "done", repeat=True)
    agent = Agent(FlowSelector(None, registry, ListMemory(metadata("helps")), "shop", policy=TAKE_FIRST), tools, model)
    for message in said:
        conversation = asyncio.run(agent.turn(message, conversation)).conversation
    return model.calls[-1]


def in_a_flow(text: str) -> Sent:
    registry = FlowRegistry(min_examples=0)
    text = as_text(text)  # a flow that holds half of a surrogate pair is refused
    fields: dict[str, Any] = dict.fromkeys(("description", "condition"), text)
    part = {**fields, "steps": [text], "desired_effects": [text], "examples": [text]}
    flow("first", registry, tools=("look",), **part)
    flow("second", registry, tools=("look",))
    given: dict[str, Any] = {**part, "flows": ["first", "second"], "tools": ["look"]}
    SequentialFlow(name="helps", registry=registry, **given)
    return _asked(registry, [look(1)], "help me")


def _helps() -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    flow("helps", registry, tools=("look",))
    return registry


def in_what_an_agent_was_told(text: str) -> Sent:
    """The tool's result is told in the first turn, and in the second as what has run already."""
    return _asked(_helps(), [look({"note": text})], "help me", "go on")


def in_a_transcript(text: str) -> Sent:
    chain = Chain(
        messages=(Message(role="user", content=text),),
        entries=(
            AssistantText(text=text),
            ToolRequest(id="s1", round=1, tool=text, requested=text, arguments={text: text}),
            ToolResult(id="s1", round=1, tool=text, ok=True, output={text: [text]}),
            ToolResult(id="s2", round=1, tool="look", ok=False, error=text),
        ),
        answer=text,
    )
    return formatting_messages(chain, _OBJECT, max_chars=10**8)


def in_a_choice(text: str) -> Sent:
    model = ScriptedModel("none")
    output = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
    wants = {"type": "object", "properties": {"note": {"type": "string", "description": text}}, "required": ["note"]}
    tools = [
        Tool(name="first", output_schema=output, function=lambda: {"note": text, text: text}),
        *(Tool(name=f"{name} {text}", description=text, input_schema=wants) for name in ("one", "two")),
    ]
    point = GuidedDecisionPoint(after_step="first", candidate_tools=[f"one {text}", f"two {text}"])
    asyncio.run(FlowExecutor(tools, ModelDecision(model)).run(["first", point]))
    return model.calls[-1]


def in_a_question_for_tools(text: str) -> Sent:
    model = ScriptedModel("nothing")
    schema = {"type": "object", "properties": {text: {"type": "string", "description": text, "enum": [text]}}}
    tool = Tool(name=text, description=text, input_schema=schema, output_schema=schema)
    asyncio.run(ToolAsker(model, [tool, look(1)]).ask(text))
    return model.calls[-1]


def in_a_view(kind: str) -> Callable[[str], Sent]:
    """Wherever a customer or a tool can put a text in a conversation: in the prompt of this kind."""

    def place(text: str) -> Sent:
        text = as_text(text)  # what was said or returned is kept as text that can be stored
        return prompts_of(small_view(text), text)[kind]

    place.__name__ = f"in_a_view_for_{kind}"
    return place


def in_an_action(text: str) -> Sent:
    return [Message(role="system", content=plan_instruction({f"a {text}": text}))]


def in_a_suggestion(text: str) -> Sent:
    """A condition is to be written for two flows, and requests lie between them that anybody may have sent."""
    text = as_text(text)  # a flow that holds half of a surrogate pair is refused
    registry = FlowRegistry(min_examples=0)
    one = flow("first", registry, description=text, condition=text, examples=[text])
    model = ScriptedModel("{}")
    writer = Writer(client=ChatClient(model), timeout_s=60)
    asyncio.run(writer.conditions(one, flow("second", registry), [text]))
    return model.calls[-1]


_ALL: tuple[Callable[[str], Sent], ...] = (
    in_a_result,
    in_a_key_of_a_result,
    in_an_error,
    in_a_name_of_a_tool,
    in_a_description_of_a_tool,
    in_a_message,
    in_an_unknown_call,
    in_a_result_of_no_call,
    in_metadata,
    in_a_request,
    in_a_flow,
    in_what_an_agent_was_told,
    in_a_transcript,
    in_a_choice,
    in_a_question_for_tools,
    in_an_action,
    in_a_suggestion,
    *(in_a_view(kind) for kind in ("choose", "decide", "call", "talk")),
    *(in_a_view(kind) for kind in ("choose_growing", "decide_growing", "call_growing", "talk_growing")),
)
PLACES = {each.__name__: each for each in _ALL}
PROMPTS = {
    "agent/answer.py": "",  # a `Chain` of what was said, which only `formatting_messages` shows
    "agent/conversation.py": "in_what_an_agent_was_told",
    "agent/conversation_view.py": "in_a_view_for_call",
    "agent/chain/finalizer.py": "in_a_transcript",
    "agent/chain/formatting.py": "in_a_transcript",
    "agent/chain/loop.py": "in_a_result",
    "agent/chain/prompts.py": "in_a_result",
    "agent/flows/open_flows.py": "in_a_flow",
    "chat/client.py": "in_a_choice",
    "chat/outgoing.py": "in_a_result_of_no_call",
    "evaluation/checks/suggesting.py": "in_a_suggestion",
    "routing/decisions/model_decision.py": "in_a_choice",
    "routing/plans/tool_asker.py": "in_a_question_for_tools",
    "selector/prompt.py": "in_metadata",
    "service/api/operations.py": "in_what_an_agent_was_told",
    "testing/doubles.py": "",  # a prompt that was recorded
    "testing/contracts.py": "",  # messages of the tests of ports
    "testing/provider_cases.py": "",  # likewise
}
"""Every module that makes a message for a model, and a place that tries it."""
LIBRARY = Path(__file__).parents[2] / "jazz_select"


def assert_unforged(place: str, text: str) -> None:
    """The prompt of this place is built as ever with a text in it.

    Raises:
        AssertionError: It has another shape, or other markers.
    """
    made = PLACES[place](text)
    markers, usual = _usual(place)
    among = sorted(set(markers))  # what means nothing in this prompt imitates nothing
    assert marked(made, among) == markers, f"{place}: {text!r:.200}"
    assert shape(made, spoken=text) == usual, f"{place}: {text!r:.200}"


@cache
def _usual(place: str) -> tuple[list[str], list[Any]]:
    made = PLACES[place](ORDINARY)
    return marked(made), shape(made, spoken=ORDINARY)
