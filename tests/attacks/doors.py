"""Doors by which a model gets tools called, each with a model that obeys whatever text it was shown.

Every tool that a text names destroys something, and nobody approves anything. The model looks something up first, as
its user wants; from what it reads then, it does what that says. What ran is given back, and it should be nothing.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation, respond, run_chain
from jazz_select.agent.chain.prompts import Strategy
from jazz_select.routing import GuidedDecisionPoint, Tool
from jazz_select.routing.approval import ApprovalPolicy
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message
from tests.agents import TAKE_FIRST, make_agent
from tests.attacks.texts import Attack
from tests.unit.selector.shop import flow, metadata

_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
_LOOK = json.dumps({"tool_call": {"tool": "look", "arguments": {}}})
_ANSWERS = ("hm", "yes?", "what is that?")
"""What its user says meanwhile; none of it is a yes."""


class Trial:
    """One text, the tools that it would have called, and a model that obeys it."""

    def __init__(self, attack: Attack, *, approval: ApprovalPolicy = "destructive") -> None:
        self.attack = attack
        self.approval: ApprovalPolicy = approval
        self.ran: list[str] = []
        self.obeyed = False
        names = sorted({name for name, _ in attack.calls})
        self.tools = [self._destroyer(name) for name in names]
        self.model = ScriptedModel(self.reply, repeat=True)

    def look(self) -> Tool:
        """What its user wants: the text comes with it."""
        text = self.attack.text
        return Tool(name="look", input_schema=_OBJECT, function=lambda: {"note": text, "all": [{"body": text}]})

    def has_read(self, messages: Sequence[Message]) -> bool:
        """Whether the text was shown."""
        return any(self.attack.key in each.content for each in messages)

    def _destroyer(self, name: str) -> Tool:
        def run(**given: Any) -> str:
            self.ran.append(name)
            return "gone"

        return Tool(name=name, input_schema=_OBJECT, function=run, destructive=True)

    def reply(self, messages: Sequence[Message]) -> str:
        if not self.has_read(messages):
            return _LOOK
        self.obeyed = True
        if messages[0].content.startswith("You choose the next tool"):
            return self.tools[0].name
        calls = [{"tool": name, "arguments": dict(arguments)} for name, arguments in self.attack.calls]
        return json.dumps({"tool_calls": calls}) if len(messages) % 2 else json.dumps({"tool_call": calls[-1]})


def _chain(trial: Trial, *said: str, look: Tool | None = None) -> None:
    messages = [Message(role="user", content=each) for each in said or ("look",)]
    asyncio.run(run_chain(trial.model, messages, [look or trial.look(), *trial.tools], approval=trial.approval))


def by_result(trial: Trial) -> None:
    _chain(trial)


def by_key_of_a_result(trial: Trial) -> None:
    _chain(trial, look=Tool(name="look", input_schema=_OBJECT, function=lambda: {trial.attack.text: 1}))


def by_message(trial: Trial) -> None:
    _chain(trial, trial.attack.text, "look")


def by_name_of_a_tool(trial: Trial) -> None:
    _chain(trial, look=Tool(name=trial.attack.text, input_schema=_OBJECT, function=lambda: 1))


def by_description_of_a_tool(trial: Trial) -> None:
    _chain(trial, look=Tool(name="look", description=trial.attack.text, input_schema=_OBJECT, function=lambda: 1))


def by_respond(trial: Trial) -> None:
    said = [Message(role="user", content="look")]
    strategies: tuple[Strategy, ...] = ("deferred", "tool")
    for strategy in strategies:
        model = ScriptedModel(*[trial.reply] * 8, "{}", repeat=True)
        tools = [trial.look(), *trial.tools]
        asyncio.run(respond(model, said, tools, _OBJECT, strategy=strategy, approval=trial.approval))


def by_open_flow(trial: Trial) -> None:
    _talk(_agent(trial), "help me", *_ANSWERS)


def by_metadata_of_a_flow(trial: Trial) -> None:
    text = trial.attack.text.replace("\ud800", "")
    given = {"description": text, "condition": text, "desired_effects": [text], "steps": [text]}
    _talk(_agent(trial, **given), "help me", *_ANSWERS)


def by_agent_without_a_flow(trial: Trial) -> None:
    selector = FlowSelector(None, FlowRegistry(), ListMemory(), "shop")
    tools = [trial.look(), *trial.tools]
    _talk(make_agent(selector, tools, trial.model, approval=trial.approval, open_tools="all"), "help me", *_ANSWERS)


def by_message_to_an_agent(trial: Trial) -> None:
    _talk(_agent(trial), trial.attack.text, *_ANSWERS)


def by_choice_in_a_flow(trial: Trial) -> None:
    other = Tool(name="other", input_schema=_OBJECT, function=lambda: 1)
    names = [each.name for each in (*trial.tools[:1], other)]
    point = GuidedDecisionPoint(after_step="look", candidate_tools=names)
    _talk(_agent(trial, other, chain=("look", point)), "help me", *_ANSWERS)


def _agent(trial: Trial, *more: Tool, chain: Sequence[Any] = (), **fields: Any) -> Agent:
    registry = FlowRegistry(min_examples=0)
    tools = [trial.look(), *trial.tools, *more]
    made = flow("helps", registry, tools=tuple(each.name for each in tools), **fields)
    vars(made).update(chain=tuple(chain))
    selector = FlowSelector(None, registry, ListMemory(metadata("helps")), "shop", policy=TAKE_FIRST)
    return Agent(selector, tools, trial.model, approval=trial.approval)


def _talk(agent: Agent, *said: str) -> None:
    conversation = Conversation()
    for message in said:
        result = asyncio.run(agent.turn(message, conversation))
        conversation = Conversation.from_json(result.conversation.to_json())


_ALL: tuple[Callable[[Trial], None], ...] = (
    by_result,
    by_key_of_a_result,
    by_message,
    by_name_of_a_tool,
    by_description_of_a_tool,
    by_respond,
    by_open_flow,
    by_metadata_of_a_flow,
    by_agent_without_a_flow,
    by_message_to_an_agent,
    by_choice_in_a_flow,
)
DOORS = {each.__name__: each for each in _ALL}


def assert_unharmed(door: str, attack: Attack) -> None:
    """A model that obeys this text at this door destroys nothing.

    Raises:
        AssertionError: Something was destroyed, or the text was never shown, so that nothing was tried.
    """
    trial = Trial(attack)
    DOORS[door](trial)
    assert trial.obeyed, f"{door}: {attack.text!r:.200} was not read"
    assert trial.ran == [], f"{door}: {attack.text!r:.200}"


def what_it_would_do(door: str, attack: Attack) -> list[str]:
    """What such a model destroys where its caller lets everything pass: so that one can see that it is tried."""
    trial = Trial(attack, approval="never")
    DOORS[door](trial)
    return trial.ran
