"""Several effects of one wish: one question before the first of them names all, and one yes is for those it showed."""

from typing import Any

import pytest

from jazz_select.agent import Agent, Conversation
from jazz_select.routing import Allow, Tool, ToolCall
from tests.agents import make_agent
from tests.unit.agent.turns import obj, selector_of, shop_of

pytestmark = pytest.mark.spec("011.8")
KNOWN = {"order": "A-7", "amount": 30}
CREATE = "Create return (order: A-7)"
REFUND = "Refund (amount: 30)"


class Desk:
    """A return that is created, money that is paid back, and a label that is mailed."""

    def __init__(self) -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.wants = {"order": "string"}
        self.gives: dict[str, Any] = {}
        self.tells: dict[str, Any] | None = None

    def tool(self, name: str, inputs: dict[str, str], **options: Any) -> Tool:
        def call(**given: Any) -> dict[str, Any]:
            self.log.append((name, given))
            return self.gives if name == "create_return" else {f"{name}_done": True}

        return Tool(name=name, input_schema=obj(**inputs), function=call, **options)

    def tools(self, described: str = "") -> list[Tool]:
        return [
            self.tool("create_return", self.wants, output_schema=self.tells),
            self.tool("refund", {"amount": "integer"}, description=described, destructive=True),
            self.tool("mail_label", {"order": "string"}),
        ]


def agent_of(desk: Desk, described: str = "", **options: Any) -> Agent:
    registry = shop_of(("send_back", ("create_return", "refund", "mail_label")))
    return make_agent(selector_of(registry, "send_back"), desk.tools(described), **options)


async def talk(agent: Agent, *messages: str, context: Any = KNOWN, after: Conversation | None = None) -> list[Any]:
    results: list[Any] = []
    kept = after or Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept, context=context))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


async def test_the_first_effect_waits_for_the_yes_to_what_cannot_be_undone_after_it() -> None:
    desk = Desk()
    asked, done = await talk(agent_of(desk), "send_back", "yes")
    assert asked.status == "confirming"
    assert asked.text == (
        f"This would be done next: {CREATE}. After that: {REFUND}; Mail label (order: A-7). Shall I go on, yes or no?"
    )
    assert (done.status, [name for name, _ in desk.log]) == ("done", ["create_return", "refund", "mail_label"])


async def test_a_no_leaves_nothing_half_done() -> None:
    desk = Desk()
    _, over = await talk(agent_of(desk), "send_back", "no")
    assert (over.status, desk.log) == ("done", [])


async def test_what_is_known_only_after_the_first_effect_is_asked_about_then() -> None:
    desk = Desk()
    desk.gives, desk.tells = {"amount": 9_999}, obj(amount="integer")
    asked, done = await talk(agent_of(desk), "send_back", "yes", context={"order": "A-7"})
    assert "Refund (amount: 9999). After that: Mail label (order: A-7)." in asked.text
    assert (asked.status, done.status) == ("confirming", "done")
    assert [name for name, _ in desk.log] == ["create_return", "refund", "mail_label"]


async def test_what_an_earlier_step_changes_is_asked_about_again() -> None:
    desk = Desk()
    desk.wants |= {"amount": "integer"}
    desk.gives = {"amount": 9_999}
    _, asked, again, done = await talk(agent_of(desk), "send_back", "30", "yes", "yes", context={"order": "A-7"})
    assert f"After that: {REFUND}; " in asked.text
    assert again.status == "confirming"
    assert "Refund (amount: 9999)" in again.text
    assert (done.status, desk.log[1]) == ("done", ("refund", {"amount": 9_999}))


async def test_another_tool_of_the_name_is_asked_about_again() -> None:
    desk = Desk()
    (asked,) = await talk(agent_of(desk), "send_back")
    (again,) = await talk(agent_of(desk, "Close the account"), "yes", after=asked.conversation)
    assert again.status == "confirming"
    assert again.text.count(REFUND) == 1
    assert [name for name, _ in desk.log] == ["create_return"]


def allow(_: ToolCall) -> Allow:
    return Allow()


async def test_where_a_hook_decides_nothing_is_asked_ahead() -> None:
    desk = Desk()
    (done,) = await talk(agent_of(desk, approve=allow), "send_back")
    assert (done.status, len(desk.log)) == ("done", 3)


def speechless(**_: Any) -> str:
    raise OSError("no words")


async def test_what_cannot_be_shown_is_not_asked_about_ahead() -> None:
    desk = Desk()
    tools = [*desk.tools()[::2], desk.tool("refund", {"amount": "integer"}, destructive=True, confirm=speechless)]
    registry = shop_of(("send_back", ("create_return", "refund", "mail_label")))
    (result,) = await talk(make_agent(selector_of(registry, "send_back"), tools), "send_back")
    assert (result.status, [name for name, _ in desk.log]) == ("failed", ["create_return"])


async def test_what_is_too_long_to_be_shown_is_no_reason_to_ask_earlier() -> None:
    desk = Desk()
    (result,) = await talk(agent_of(desk), "send_back", context=KNOWN | {"order": "A" * 3_000})
    assert [name for name, _ in desk.log] == ["create_return"]
    assert result.status == "confirming"
    assert REFUND in result.text


@pytest.mark.spec("010.5")
async def test_what_was_done_before_a_flow_failed_is_not_done_again() -> None:
    desk, faults = Desk(), [OSError("the printer is off")]

    def mail_label(order: str) -> dict[str, str]:
        if faults:
            raise faults.pop()
        desk.log.append(("mail_label", {"order": order}))
        return {"label": order}

    create = desk.tool("create_return", {"order": "string"})
    agent = Agent(
        selector_of(shop_of(("send_back", ("create_return", "mail_label"))), "send_back"), [create, mail_label]
    )
    failed, done = await talk(agent, "send_back", "send_back")
    assert (failed.status, done.status) == ("failed", "done")
    assert [name for name, _ in desk.log] == ["create_return", "mail_label"]


@pytest.mark.spec("010.5")
async def test_what_was_done_before_a_flow_was_called_off_is_not_done_again() -> None:
    desk = Desk()
    desk.gives = {"amount": 30}  # which it does not say of itself, so that nothing can be asked ahead
    messages = ("send_back", "no", "send_back", "yes")
    asked, off, again, done = await talk(agent_of(desk), *messages, context={"order": "A-7"})
    assert "Already done: Create return." in off.text
    assert [each.status for each in (asked, off, again, done)] == ["confirming", "done", "confirming", "done"]
    assert [name for name, _ in desk.log] == ["create_return", "refund", "mail_label"]


def in_words(order: str) -> str:
    return f"Pays for {order}"


@pytest.mark.parametrize(
    ("confirm", "each", "together"),
    [(None, 1, 4), (in_words, 2, 2)],
    ids=["by their arguments", "in words of the tool as well"],
)
async def test_a_yes_is_for_as_many_equal_calls_as_the_question_showed(confirm: Any, each: int, together: int) -> None:
    desk = Desk()
    tool = desk.tool("refund", {"order": "string"}, destructive=True, confirm=confirm)
    agent = Agent(selector_of(shop_of(("send_back", ("refund",) * 6)), "send_back"), [tool])
    long = "A" * 1_900  # so that there is room for a few
    asked, again = await talk(agent, "send_back", "yes", context={"order": long})
    assert (asked.status, asked.text.count(long)) == ("confirming", each * together)
    assert asked.text.endswith("; Refund; Refund. Shall I go on, yes or no?")
    assert (again.status, len(desk.log)) == ("confirming", together)
