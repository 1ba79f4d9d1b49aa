"""One yes for one outcome: a call that was announced with its arguments' source needs no second one."""

from dataclasses import replace
from typing import Any

import pytest

from jazz_select.agent import Agent, Conversation
from jazz_select.agent.conversation import OpenFlow
from jazz_select.errors import CannotDo
from jazz_select.routing import Ask, Deny, SqliteClaims, Tool, ToolCall
from tests.agents import make_agent
from tests.unit.agent.turns import obj, selector_of, shop_of

pytestmark = pytest.mark.spec("018.5")
KNOWN = {"order": "A-7"}
CANCELLED = {"cancellation": "K-1"}
QUESTION = "This would be done next: Cancel order (order: A-7). {} Shall I go on, yes or no?"
RELEASED = QUESTION.format("After that: Release payment, from the result of: Cancel order.")


class Desk:
    """An order that is cancelled, and money that goes back by the number of the cancellation."""

    def __init__(self) -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.gives: dict[str, Any] = {"cancel_order": CANCELLED, "find_account": {"account": "B-2"}}

    @property
    def made(self) -> list[str]:
        return [name for name, _ in self.log]

    def tool(self, name: str, *, destructive: bool = True, returns: Any = None, **inputs: Any) -> Tool:
        required = [each for each in inputs if not each.endswith("_")]
        properties = {each.rstrip("_"): {"type": kind} for each, kind in inputs.items()}

        def call(**given: Any) -> dict[str, Any]:
            self.log.append((name, given))
            return self.gives.get(name, {f"{name}_done": True})

        return Tool(
            name=name,
            input_schema={"type": "object", "properties": properties, "required": required},
            output_schema=returns,
            function=call,
            destructive=destructive,
            read_only=name.startswith("find"),
        )


def agent_of(*tools: Tool, **options: Any) -> Agent:
    registry = shop_of(("stop_it", tuple(each.name for each in tools)))
    return make_agent(selector_of(registry, "stop_it"), list(tools), **options)


async def talk(agent: Agent, *messages: str, context: Any = KNOWN, after: Conversation | None = None) -> list[Any]:
    """The results of these turns; between any two the conversation is a text, as if in another process."""
    results: list[Any] = []
    kept = after or Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept, context=context))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


def cancelling(desk: Desk, *, declared: bool = True) -> Tool:
    return desk.tool("cancel_order", returns=obj(cancellation="string") if declared else None, order="string")


@pytest.mark.parametrize("declared", [True, False], ids=["declared outputs", "outputs that nobody declared"])
async def test_one_yes_is_for_a_call_whose_arguments_the_shown_call_returns(*, declared: bool) -> None:
    desk = Desk()
    agent = agent_of(cancelling(desk, declared=declared), desk.tool("release_payment", cancellation="string"))
    asked, done = await talk(agent, "stop_it", "yes")
    assert (asked.text, asked.status, done.status) == (RELEASED, "confirming", "done")
    assert desk.log == [("cancel_order", KNOWN), ("release_payment", CANCELLED)]


@pytest.mark.parametrize("says", [Deny("over the limit"), CannotDo("Nothing more goes back today.")])
async def test_a_hook_is_asked_before_an_announced_call_is_made(says: Any) -> None:
    desk = Desk()
    seen: list[str] = []

    def hook(call: ToolCall) -> Ask | Deny:
        seen.append(call.tool)
        if call.tool == "cancel_order":
            return Ask()
        if isinstance(says, CannotDo):
            raise says
        return says

    agent = agent_of(cancelling(desk), desk.tool("release_payment", cancellation="string"), approve=hook)
    asked, ended = await talk(agent, "stop_it", "yes")
    assert (asked.text, seen) == (RELEASED, ["cancel_order", "cancel_order", "release_payment"])
    assert desk.made == ["cancel_order"]
    told = "Stop it was started but could not be finished." if isinstance(says, Deny) else says.message
    assert ended.text == f"{told} Already done: Cancel order."
    assert "over the limit" in ended.reason or isinstance(says, CannotDo)


async def test_what_is_known_of_an_announced_call_is_shown_with_it() -> None:
    desk = Desk()
    agent = agent_of(cancelling(desk), desk.tool("release_payment", cancellation="string", order="string"))
    asked, done = await talk(agent, "stop_it", "yes")
    assert "After that: Release payment (order: A-7), from the result of: Cancel order." in asked.text
    assert (done.status, desk.log[1:]) == ("done", [("release_payment", {**CANCELLED, **KNOWN})])


async def test_one_yes_reaches_as_far_as_outputs_lead() -> None:
    desk = Desk()
    desk.gives["release_payment"] = {"release": "F-1"}
    tools = [
        cancelling(desk),
        desk.tool("release_payment", returns=obj(release="string"), cancellation="string"),
        desk.tool("close_case", release="string", cancellation="string"),
    ]
    asked, done = await talk(agent_of(*tools), "stop_it", "yes")
    assert asked.text.count("from the result of") == 2
    assert "Close case, from the result of: Cancel order, Release payment." in asked.text
    assert (done.status, desk.log[2:]) == ("done", [("close_case", {"release": "F-1", **CANCELLED})])


NAMED = [
    pytest.param({"item": "the blue rug"}, ' You named: "the blue rug".', id="in words that the call does not show"),
    pytest.param({"item": "Oak Table"}, "", id="as the call shows it"),
    pytest.param({"item": "tables"}, "", id="in another form"),
    pytest.param({"email": "ada@example.org"}, "", id="an address"),
    pytest.param({"number": "A-7"}, "", id="a number"),
    pytest.param({"order": "A-7"}, "", id="what the call takes"),
]


@pytest.mark.parametrize(("said", "named"), NAMED)
async def test_the_question_shows_what_the_user_named_as_named(said: dict[str, str], named: str) -> None:
    desk = Desk()
    desk.gives["find_order"] = {"order": "A-7"}

    def say_what(order: str) -> str:
        return f"the oak table of {order} is not sent"

    find = desk.tool("find_order", destructive=False, item_="string", email_="string", number_="string")
    cancel = replace(cancelling(desk), confirm=say_what)
    agent = agent_of(find, cancel)
    kept = Conversation(flows=(OpenFlow(name="stop_it", status="queued", answers=said),))
    result = await agent.turn("stop_it", kept)
    assert result.text == (
        "This would be done next: Cancel order: the oak table of A-7 is not sent (order: A-7)."
        f"{named} Shall I go on, yes or no?"
    )


async def test_a_no_makes_none_of_them() -> None:
    desk = Desk()
    agent = agent_of(cancelling(desk), desk.tool("release_payment", cancellation="string"))
    results = await talk(agent, "stop_it", "no", "yes")
    assert (results[1].status, desk.log) == ("done", [])


def looked_up(desk: Desk) -> list[Tool]:
    """The account comes from a look-up between the two, which was not shown."""
    find = desk.tool("find_account", destructive=False, returns=obj(account="string"), order="string")
    return [cancelling(desk), find, desk.tool("release_payment", cancellation="string", account="string")]


def looked_up_undeclared(desk: Desk) -> list[Tool]:
    """Either of the two calls before it may give the account, as far as anybody can tell before."""
    find = desk.tool("find_account", destructive=False, order="string")
    return [
        cancelling(desk, declared=False),
        find,
        desk.tool("release_payment", cancellation="string", account="string"),
    ]


def overtaken(desk: Desk) -> list[Tool]:
    """The shown call declares the number, and the look-up after it returns another one."""
    desk.gives["find_account"] = {"cancellation": "K-9"}
    find = desk.tool("find_account", destructive=False, order="string")
    return [cancelling(desk), find, desk.tool("release_payment", cancellation="string")]


def optional(desk: Desk) -> list[Tool]:
    """An optional input that a look-up fills later was not shown."""
    find = desk.tool("find_account", destructive=False, returns=obj(account="string"), order="string")
    return [cancelling(desk), find, desk.tool("release_payment", cancellation="string", account_="string")]


@pytest.mark.parametrize("tools", [looked_up, looked_up_undeclared, overtaken, optional])
async def test_what_comes_from_elsewhere_is_asked_about_when_it_is_known(tools: Any) -> None:
    desk = Desk()
    _, again = await talk(agent_of(*tools(desk)), "stop_it", "yes")
    assert (again.status, desk.made) == ("confirming", ["cancel_order", "find_account"])
    assert again.text.endswith("Shall I go on, yes or no?")
    (done,) = await talk(agent_of(*tools(desk)), "yes", after=again.conversation)
    assert (done.status, desk.made[2:]) == ("done", ["release_payment"])


async def test_an_argument_that_was_shown_and_is_another_now_is_asked_about() -> None:
    desk = Desk()
    desk.gives["cancel_order"] = {**CANCELLED, "order": "A-8"}
    refund = desk.tool("release_payment", cancellation="string", order="string")
    agent = agent_of(cancelling(desk, declared=False), refund)
    given = {"order": "A-7"}
    first = await agent.turn("stop_it", Conversation())
    assert first.status == "waiting"
    _, again = await talk(agent, given["order"], "yes", context=None, after=first.conversation)
    assert (again.status, desk.made) == ("confirming", ["cancel_order"])
    assert "Release payment (cancellation: K-1, order: A-8)" in again.text


async def test_what_was_asked_of_the_user_in_between_is_asked_about() -> None:
    desk = Desk()
    desk.gives["cancel_order"] = {}
    agent = agent_of(cancelling(desk, declared=False), desk.tool("release_payment", cancellation="string"))
    _, waits, again = await talk(agent, "stop_it", "yes", "K-4")
    assert (waits.status, again.status, desk.made) == ("waiting", "confirming", ["cancel_order"])
    assert "Release payment (cancellation: K-4)" in again.text


async def test_another_tool_of_the_announced_name_is_asked_about() -> None:
    desk = Desk()
    tools = cancelling(desk), desk.tool("release_payment", cancellation="string")
    (asked,) = await talk(agent_of(*tools), "stop_it")
    changed = desk.tool("release_payment", cancellation="string", note_="string")
    (again,) = await talk(agent_of(tools[0], changed), "yes", after=asked.conversation)
    assert (again.status, desk.made) == ("confirming", ["cancel_order"])


async def test_what_failed_before_it_leaves_an_announced_call_unmade() -> None:
    desk = Desk()

    def cancel_order(order: str) -> dict[str, str]:
        msg = f"{order} has left"
        raise OSError(msg)

    tool = Tool(name="cancel_order", input_schema=obj(order="string"), function=cancel_order, destructive=True)
    agent = agent_of(tool, desk.tool("release_payment", cancellation="string"))
    _, failed = await talk(agent, "stop_it", "yes")
    assert (failed.status, desk.log) == ("failed", [])


async def test_a_yes_in_two_processes_makes_each_call_once(tmp_path: Any) -> None:
    desk = Desk()
    agent = agent_of(
        cancelling(desk),
        desk.tool("release_payment", cancellation="string"),
        claims=SqliteClaims(tmp_path / "claims"),
    )
    (asked,) = await talk(agent, "stop_it")
    ends = [await agent.turn("yes", asked.conversation, context=KNOWN) for _ in range(2)]
    assert [each.status for each in ends] == ["done", "done"]
    assert desk.made == ["cancel_order", "release_payment"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"uses": ("somebody else's",)}, id="of a call that nobody made"),
        pytest.param({"digest": "0"}, id="of another tool"),
        pytest.param({"path": "0/other"}, id="at another place"),
        pytest.param({"door": "chain"}, id="at another door"),
        pytest.param({"tool": "close_case"}, id="by another name"),
    ],
)
async def test_an_announcement_that_was_changed_covers_nothing(changes: dict[str, Any]) -> None:
    desk = Desk()
    agent = agent_of(cancelling(desk), desk.tool("release_payment", cancellation="string"))
    (asked,) = await talk(agent, "stop_it")
    pending = asked.conversation.pending
    then = tuple(each.model_copy(update=changes) for each in pending.then)
    kept = asked.conversation.model_copy(update={"pending": pending.model_copy(update={"then": then})})
    (again,) = await talk(agent, "yes", after=kept)
    assert (again.status, desk.made) == ("confirming", ["cancel_order"])


async def test_a_conversation_saved_before_announcements_asks_again() -> None:
    desk = Desk()
    agent = agent_of(cancelling(desk), desk.tool("release_payment", cancellation="string"))
    (asked,) = await talk(agent, "stop_it")
    text = asked.conversation.to_json()
    pending = asked.conversation.pending
    for old in (f',"uses":["{pending.id}"]', ',"uses":[]', ',"digest":""', f',"digest":"{pending.then[0].digest}"'):
        text = text.replace(old, "")
    assert '"uses"' not in text
    assert '"digest"' not in text
    (again,) = await talk(agent, "yes", after=Conversation.from_json(text))
    assert (again.status, desk.made) == ("confirming", ["cancel_order"])
