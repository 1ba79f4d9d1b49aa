"""Approval at every door: what is asked for, what a yes lets pass, and what nobody is asked about."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jazz_select import FlowSelector, ParallelFlow
from jazz_select.agent import Agent, Conversation, Route, respond, run_chain
from jazz_select.agent.chain.transcript import ToolResult
from jazz_select.agent.conversation import PendingCall
from jazz_select.agent.graph.guards import guard
from jazz_select.agent.turn import TurnInput
from jazz_select.errors import ConfigError
from jazz_select.routing import Allow, Ask, Deny, FlowExecutor, Plan, PlanStep, Tool, ToolCall, run_plan
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message, flow_id
from tests.agents import make_agent
from tests.unit.agent.turns import agent_of, composed, destroyer, obj, selector_of, shop_of
from tests.unit.selector.shop import metadata

POLICIES = ("destructive", "always", "never")
ASK = (Message(role="user", content="pay 5"),)
CALL = '{"tool_call": {"tool": "pay", "arguments": {"amount": 5}}}'
KNOWN = {"amount": 5}
QUESTION = "This would be done next: Pay (amount: 5). Shall I go on, yes or no?"


def pays(log: list[Any], *, destructive: bool = True, name: str = "pay") -> Tool:
    def pay(**given: Any) -> dict[str, Any]:
        log.append(given)
        return {"paid": given["amount"]}

    return Tool(name=name, input_schema=obj(amount="integer"), function=pay, destructive=destructive)


def at_an_agent(tool: Tool, *, steps: bool = True, model: Any = None, **options: Any) -> Agent:
    registry = shop_of(("pays", ("pay",) if steps else ()))
    if not steps:
        flow = registry.by_name("pays")
        assert flow is not None
        vars(flow).update(tools=("pay",))
    given: dict[str, Any] = {"open_tools": "all"} | options
    return make_agent(selector_of(registry, "pays"), [tool], model, **given)


async def talk(agent: Agent, *messages: str, context: Any = KNOWN) -> list[Any]:
    """The results of these turns; between any two the conversation is a text, as if in another process."""
    results: list[Any] = []
    kept = Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept, context=context))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


# --- doors and policies --------------------------------------------------------


async def by_executor(tool: Tool, **options: Any) -> str:
    return (await FlowExecutor([tool], **options).run(["pay"], KNOWN)).records[0].fault


async def by_plan(tool: Tool, **options: Any) -> str:
    (step,) = (await run_plan(Plan.from_steps([PlanStep(tool="pay", arguments=KNOWN)]), [tool], **options)).steps
    return step.error.fault if step.error else ""


async def by_chain(tool: Tool, **options: Any) -> str:
    return _fault((await run_chain(ScriptedModel(CALL, "done"), ASK, [tool], **options)).entries)


async def by_respond(tool: Tool, **options: Any) -> str:
    return _fault((await respond(ScriptedModel(CALL, "done"), ASK, [tool], **options)).chain.entries)


def _fault(entries: Sequence[Any]) -> str:
    (result,) = [each for each in entries if isinstance(each, ToolResult)]
    return result.fault


async def by_steps_of_an_agent(tool: Tool, **options: Any) -> str:
    return _asked(await at_an_agent(tool, **options).turn("pays", context=KNOWN))


async def by_model_of_an_agent(tool: Tool, **options: Any) -> str:
    return _asked(await at_an_agent(tool, steps=False, model=ScriptedModel(CALL, "done"), **options).turn("pays"))


async def by_model_without_a_flow(tool: Tool, **options: Any) -> str:
    agent = at_an_agent(tool, model=ScriptedModel("[]", CALL, "done"), **options)
    return _asked(await agent.turn("something quite else"))


def _asked(result: Any) -> str:
    return "asked" if result.status == "confirming" else ""


ENGINES = {"executor": by_executor, "plan": by_plan, "chain": by_chain, "respond": by_respond}
BY_A_MODEL = {"chain", "respond"}
AGENTS = {
    "steps of an agent": by_steps_of_an_agent,
    "a model with a flow": by_model_of_an_agent,
    "a model without one": by_model_without_a_flow,
}
DOORS = ENGINES | AGENTS


@pytest.mark.spec("005.1")
@pytest.mark.parametrize("destructive", [True, False], ids=["destroys", "harmless"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("door", DOORS)
async def test_each_policy_at_each_door(door: str, policy: Any, *, destructive: bool) -> None:
    log: list[Any] = []
    fault = await DOORS[door](pays(log, destructive=destructive), approval=policy)
    asked = policy == "always" or (policy == "destructive" and destructive and door in AGENTS.keys() | BY_A_MODEL)
    assert (fault, log) == (("asked", []) if asked else ("", [KNOWN]))


@pytest.mark.spec("005.1")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("door", DOORS)
async def test_a_hook_decides_about_each_call_whatever_the_policy(door: str, policy: Any) -> None:
    log, heard = list[Any](), list[ToolCall]()

    def allow(call: ToolCall) -> Allow:
        heard.append(call)
        return Allow()

    async def ask(call: ToolCall) -> Ask:
        heard.append(call)
        return Ask("it costs money")

    assert await DOORS[door](pays(log, destructive=False), approval=policy, approve=allow) == ""
    assert await DOORS[door](pays(log), approval=policy, approve=ask) == "asked"
    assert log == [KNOWN]
    assert [(each.tool, each.arguments, each.destructive) for each in heard] == [
        ("pay", KNOWN, False),
        ("pay", KNOWN, True),
    ]


@pytest.mark.spec("005.1")
@pytest.mark.parametrize("door", DOORS)
async def test_the_default_is_that_of_what_destroys_and_another_word_is_refused(door: str) -> None:
    log: list[Any] = []
    fault = await DOORS[door](pays(log))
    assert (fault, log) == (("asked", []) if door in AGENTS.keys() | BY_A_MODEL else ("", [KNOWN]))
    with pytest.raises(ConfigError, match=r'approval must be "destructive", "always" or "never", got .odd.'):
        await DOORS[door](pays(log), approval="odd")


# --- a turn that asks ----------------------------------------------------------


@pytest.mark.spec("005.2")
@pytest.mark.parametrize("by", ["steps", "model"])
async def test_a_yes_lets_the_call_pass_that_was_shown_once(by: str) -> None:
    log: list[Any] = []
    model = ScriptedModel(CALL, "It is paid.") if by == "model" else None
    asked, done = await talk(at_an_agent(pays(log), steps=by == "steps", model=model), "pays", "Yes, please.")
    assert (asked.status, asked.text) == ("confirming", QUESTION)
    assert asked.conversation.pending.arguments == KNOWN
    assert log == [KNOWN]
    assert done.status == ("done" if by == "steps" else "active")
    assert done.conversation.pending is None
    if by == "model":
        assert (done.text, done.model_calls) == ("It is paid.", 1)
        assert [each.final for part in done.conversation.flows[0].parts.values() for each in part.ran] == [True]


@pytest.mark.spec("005.2")
async def test_a_model_without_a_flow_hears_what_came_of_the_call_that_was_agreed_to() -> None:
    log: list[Any] = []
    model = ScriptedModel("[]", CALL, "It is paid.", "[]", CALL)
    asked, done, again = await talk(at_an_agent(pays(log), model=model), "settle 5 for me", "ok", "and once more")
    assert [asked.status, done.status, again.status] == ["confirming", "done", "confirming"]
    assert (done.text, log) == ("It is paid.", [KNOWN])
    heard = model.calls[2]
    assert [each.role for each in heard[-3:]] == ["user", "assistant", "user"]
    assert '"paid":5' in heard[-1].content.replace(" ", "")


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(
    ("by", "text"),
    [
        ("steps", "All right, nothing more will be done about: Pays."),
        ("model", "All right, nothing more will be done about: Pays."),
        ("no flow", "All right, this will not be done: Pay."),
    ],
)
async def test_a_no_calls_it_off_and_a_later_yes_does_nothing(by: str, text: str) -> None:
    log: list[Any] = []
    replies = (CALL, "{}", "What do you mean?")
    model = None if by == "steps" else ScriptedModel(*(("{}", *replies) if by == "no flow" else replies))
    agent = at_an_agent(pays(log), steps=by != "model", model=model)
    first, off, after = await talk(agent, "something quite else" if by == "no flow" else "pays", "no, thanks", "yes")
    assert (first.status, off.text, off.conversation.pending, off.conversation.flows) == ("confirming", text, None, ())
    assert (log, after.status) == ([], "open" if by == "steps" else "done")


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(
    "message", ["yes?", "what does it cost?", "hm", "", "5", "yes, but only 4", "pays", "don't know"]
)
async def test_neither_yes_nor_no_asks_again(message: str) -> None:
    log: list[Any] = []
    first, again, done = await talk(at_an_agent(pays(log)), "pays", message, "yes")
    assert (first.text, again.status, again.text) == (
        QUESTION,
        "confirming",
        QUESTION if again.flows else f"I did not understand that.\n\n{QUESTION}",
    )
    repeated = "the question was asked again: the message says neither yes nor no to pay"
    assert again.reason == (repeated if not again.flows else "pay was not run: it has to be approved first")
    assert (done.status, log) == ("done", [KNOWN])


@pytest.mark.spec("011.9")
async def test_it_is_asked_again_in_the_language_of_the_answer() -> None:
    _, again = await talk(at_an_agent(pays([])), "pays", "sí pero no")
    question = "Esto es lo que se haría ahora: Pay (amount: 5). ¿Sigo, sí o no?"
    assert again.text == f"No lo he entendido.\n\n{question}"


@pytest.mark.spec("005.2")
async def test_with_other_arguments_than_shown_the_question_is_another() -> None:
    log: list[Any] = []
    agent = at_an_agent(pays(log))
    first = await agent.turn("pays", context={"amount": 5})
    second = await agent.turn("yes", first.conversation, context={"amount": 5_000})
    assert (second.status, second.text, log) == ("confirming", QUESTION.replace("5", "5000"), [])
    third = await agent.turn("yes", second.conversation, context={"amount": 5_000})
    assert (third.status, log) == ("done", [{"amount": 5_000}])


@pytest.mark.spec("005.2")
async def test_what_differs_far_behind_beside_a_number_beyond_64_bits_is_another_call() -> None:
    log: list[Any] = []

    def refund(**given: Any) -> None:
        log.append(given)

    tool = Tool(name="pay", input_schema=obj(to="object"), function=refund, destructive=True)
    agent = at_an_agent(tool)
    ours, theirs = ({"to": {"amount": 2**70, "names": ["x" * 1_100, name]}} for name in ("ada", "eve"))
    first = await agent.turn("pays", context=ours)
    second = await agent.turn("yes", first.conversation, context=theirs)
    assert (second.status, log) == ("confirming", [])
    third = await agent.turn("yes", second.conversation, context=theirs)
    assert (third.status, log) == ("done", [theirs])


@pytest.mark.spec("005.2")
@pytest.mark.spec("011.8")
async def test_one_yes_is_for_all_calls_of_a_chain_that_are_known_before_it() -> None:
    log: list[Any] = []
    registry = shop_of(("pays", ("pay", "pay")))
    results = await talk(Agent(selector_of(registry, "pays"), [pays(log)]), "pays", "yes")
    assert [each.status for each in results] == ["confirming", "done"]
    assert results[0].text.count("Pay (") == 2
    assert log == [KNOWN, KNOWN]


@pytest.mark.spec("005.2")
async def test_parts_side_by_side_are_asked_about_one_after_the_other() -> None:
    log: list[Any] = []
    selector, _ = composed(ParallelFlow)
    tools = [pays(log, name="do_first"), pays(log, name="do_second")]
    results = await talk(Agent(selector, tools), "both", "yes", "yes")
    assert [each.status for each in results] == ["confirming", "confirming", "done"]
    assert ["Do first" in results[0].text, "Do second" in results[1].text, len(log)] == [True, True, 2]


async def test_a_message_about_another_flow_parks_the_one_that_asks_and_brings_the_question_back() -> None:
    log: list[Any] = []

    def look() -> None:
        log.append("look")

    registry = shop_of(("pays", ("pay",)), ("looks", ("look",)))
    model = ScriptedModel(*(f'["{flow_id(name)}"]' for name in ("pays", "looks")))
    selector = FlowSelector(model, registry, ListMemory(metadata("pays", "looks")), "support")
    agent = Agent(selector, [pays(log), look])
    first, other, done = await talk(agent, "I pay", "show me", "yes")
    assert [each.status for each in (first, other, done)] == ["confirming", "confirming", "done"]
    assert (other.flows, other.resumed, log) == (["looks"], "pays", ["look", KNOWN])
    assert other.text == f"Looks is done.\n\nBack to: Pays. {QUESTION}"
    assert other.conversation.pending == first.conversation.pending
    assert [each.pending for each in other.conversation.flows] == [None]


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(
    ("last", "context", "schema", "statuses", "paid"),
    [
        pytest.param("no", KNOWN, None, ["confirming", "done"], [], id="a no"),
        pytest.param("hm", KNOWN, None, ["confirming", "confirming"], [], id="neither"),
        pytest.param("yes", {"amount": 6}, None, ["confirming", "confirming"], [], id="other arguments"),
        pytest.param("yes", KNOWN, obj(paid="integer"), ["done", "confirming"], [], id="no text to ask it in"),
    ],
)
async def test_what_comes_back_is_asked_about_once_and_only_a_yes_to_that_counts(
    last: str, context: Any, schema: Any, statuses: list[str], paid: list[Any]
) -> None:
    log: list[Any] = []

    def look() -> dict[str, int]:
        return {"paid": 0}

    registry = shop_of(("pays", ("pay",)), ("looks", ("look",)))
    model = ScriptedModel(*(f'["{flow_id(name)}"]' for name in ("pays", "looks", "nothing")))
    selector = FlowSelector(model, registry, ListMemory(metadata("pays", "looks")), "support")
    agent = Agent(selector, [pays(log), look])
    first = await agent.turn("I pay", context=KNOWN)
    other = await agent.turn("show me", first.conversation, context=KNOWN, schema=schema)
    kept = Conversation.from_json(other.conversation.to_json())
    ended = await agent.turn(last, kept, context=context)
    assert ([other.status, ended.status], log) == (statuses, paid)
    if schema is not None:
        assert (other.value, other.conversation.pending) == ({"paid": 0}, None)


@pytest.mark.spec("005.2")
async def test_where_nothing_can_be_looked_for_the_question_stands() -> None:
    log: list[Any] = []
    registry = shop_of(("pays", ("pay",)))
    agent, broken = (
        Agent(FlowSelector(None, registry, memory, "support"), [pays(log)])
        for memory in (ListMemory(metadata("pays")), ListMemory(error=ConnectionError("gone")))
    )
    first = await agent.turn("pays", context=KNOWN)
    again = await broken.turn("what about the weather", first.conversation, context=KNOWN)
    done = await agent.turn("yes", again.conversation, context=KNOWN)
    assert (again.status, again.text, log) == ("confirming", QUESTION, [KNOWN])
    assert again.reason.startswith("no flow could be looked for")
    assert [first.status, done.status] == ["confirming", "done"]


@pytest.mark.spec("005.2")
async def test_a_flow_that_is_called_off_brings_the_question_of_the_one_below_it() -> None:
    log: list[Any] = []

    def look(number: str) -> None: ...

    registry = shop_of(("pays", ("pay",)), ("looks", ("look",)))
    model = ScriptedModel(*(f'["{flow_id(name)}"]' for name in ("pays", "looks")))
    selector = FlowSelector(model, registry, ListMemory(metadata("pays", "looks")), "support")
    results = await talk(Agent(selector, [pays(log), look]), "I pay", "show me", "never mind", "yes")
    assert [each.status for each in results] == ["confirming", "waiting", "confirming", "done"]
    assert results[2].text.endswith(f"Back to: Pays. {QUESTION}")
    assert log == [KNOWN]


async def test_a_hook_may_still_say_no_after_the_yes_and_its_reason_is_for_logs() -> None:
    log: list[Any] = []
    verdicts = [Deny("the till is closed"), Ask("it costs money")]

    def approve(_: ToolCall) -> Deny | Ask:
        return verdicts.pop()

    agent = at_an_agent(pays(log), approve=approve)
    first, denied = await talk(agent, "pays", "yes")
    assert (first.status, first.reason, first.text) == ("confirming", "it costs money", QUESTION)
    assert (denied.status, denied.text, log) == ("failed", "Pays could not be done.", [])
    assert "the till is closed" in denied.reason


async def test_a_guard_that_blocks_takes_the_question_back() -> None:
    log: list[Any] = []

    @guard("closed")
    def closed(state: TurnInput) -> Route | None:
        return Route("closed") if "late" in state.message else None

    results = await talk(at_an_agent(pays(log), guards=[closed]), "pays", "too late", "yes", "yes")
    assert [each.status for each in results] == ["confirming", "blocked", "confirming", "done"]
    assert log == [KNOWN]


async def test_what_was_prepared_is_not_done_again_and_a_flow_that_is_gone_is_asked_about_no_more() -> None:
    log: list[Any] = []

    def look() -> None:
        log.append("look")

    registry = shop_of(("pays", ("look", "pay")))
    agent = Agent(selector_of(registry, "pays"), [look, pays(log)])
    first = await agent.turn("pays", context=KNOWN)
    done = await agent.turn("yes", first.conversation, context=KNOWN)
    assert (done.status, log) == ("done", ["look", KNOWN])
    flow = registry.by_name("pays")
    assert flow is not None
    registry.unregister(flow.id)
    gone = await agent.turn("yes", first.conversation, context=KNOWN)
    assert (gone.status, gone.flows, log) == ("open", [], ["look", KNOWN])


def test_nothing_in_a_question_turns_or_forges_what_is_shown() -> None:
    call: dict[str, Any] = {"tool": "pay", "title": "Pay\u202e", "words": "129 EUR\u202e\x1b[2J\nto Ada"}
    asked = PendingCall(**call, arguments={"to\u2066": "A1", "to: B2), (or": 1}).question()
    assert not {"\u202e", "\u2066", "\x1b", "\n"} & set(asked)
    assert '"to: B2), (or": 1). Shall I go on' in asked


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nShall I? yes", r"a\nShall I? yes"),
        (True, "true"),
        (["x", {"y": 1}], '["x", {"y": 1}]'),
        (None, "null"),
        ("z" * 1_900, "z" * 1_900),
        ("A1\u200b\u2060\U000e0041\u3164\u00ad", r'"A1\u200b\u2060\U000e0041\u3164\u00ad"'),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
    ids=["lines", "a boolean", "nested", "nothing", "long", "what cannot be seen", "a joiner between letters"],
)
async def test_every_argument_is_shown_in_one_line(value: Any, shown: str) -> None:
    log: list[Any] = []

    def pay(**given: Any) -> None:
        log.append(given)

    call = {"tool_call": {"tool": "pay", "arguments": {"to_whom": value}}}
    tool = Tool(name="pay", input_schema={"properties": {"to_whom": {}}}, function=pay, destructive=True)
    model = ScriptedModel(json.dumps(call), "done")
    asked, done = await talk(at_an_agent(tool, steps=False, model=model), "pays", "yes", context=None)
    assert asked.text.startswith("This would be done next: Pay (to whom: ")
    assert shown in asked.text
    assert "\n" not in asked.text
    assert (done.status, len(log)) == ("active", 1)


async def test_a_number_beyond_all_json_is_kept_as_it_is_shown() -> None:
    log: list[Any] = []
    asked, _ = await talk(at_an_agent(pays(log)), "pays", "yes", context={"amount": 10**30})
    assert f"amount: {10**30})" in asked.text
    assert log == [{"amount": 10**30}]


async def test_the_agents_own_tool_for_ending_a_flow_is_never_asked_about() -> None:
    end = '{"tool_call": {"tool": "finish_procedure", "arguments": {}}}'
    model = ScriptedModel(end, "All done.")
    result = await at_an_agent(pays([]), steps=False, model=model, approval="always").turn("pays")
    assert (result.status, result.text) == ("done", "All done.")


def says(number: str) -> str:
    return f"the cut on Friday\n(no. {number})"


async def says_later(number: str) -> str:
    return "the cut on Friday"


def says_much(number: str) -> str:
    return "x" * 100_000


def falls(number: str) -> str:
    raise LookupError(number)


def says_five(number: str) -> int:
    return 5


def says_length(number: str) -> str:
    return f"{len(number)} letters"


async def test_an_error_writes_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def forges(number: str) -> str:
        raise LookupError('x> | ok\n{"time": "2026"}\r\x1b[31m\u202e\u2028\ud800 ' + number * 9_000)

    tool = replace(destroyer("cancel", [], number="string"), confirm=forges)
    await agent_of(shop_of(("off", ("cancel",))), [tool], "off", approval="destructive").turn(
        "off", context={"number": "A-17"}
    )
    (line,) = [record.getMessage() for record in caplog.records if "its confirm failed" in record.getMessage()]
    assert 'LookupError: x> | ok {"time": "2026"} [31m A-17' in line
    assert line.isprintable()
    assert len(line) < 1_000


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(
    ("confirm", "said"),
    [
        pytest.param(says, "Cancel: the cut on Friday (no. A-17)", id="in one line"),
        pytest.param(says_later, "Cancel: the cut on Friday", id="async"),
        pytest.param(None, "Cancel", id="none"),
    ],
)
async def test_a_question_has_the_words_of_the_tool(confirm: Any, said: str) -> None:
    log: list[str] = []
    tool = replace(destroyer("cancel", log, number="string"), confirm=confirm)
    agent = agent_of(shop_of(("off", ("cancel",))), [tool], "off", approval="destructive")
    asked = await agent.turn("off", context={"number": "A-17"})
    assert (asked.status, log) == ("confirming", [])
    assert asked.text.startswith(f"This would be done next: {said}")
    assert asked.text.endswith("(number: A-17). Shall I go on, yes or no?")
    assert len(asked.text) < 1_000
    again = Conversation.from_json(asked.conversation.to_json())
    done = await agent.turn("yes", again, context={"number": "A-17"})
    assert (done.status, log) == ("done", ["cancel A-17"])


@pytest.mark.spec("012.3")
@pytest.mark.parametrize(
    ("confirm", "why"),
    [
        pytest.param(says_much, "has 100000 characters, and at most 2000 can be shown", id="long"),
        pytest.param(falls, "the `confirm` of cancel failed: LookupError", id="it fails"),
        pytest.param(says_five, "the `confirm` of cancel must return a text, got int", id="no text"),
    ],
)
async def test_what_cannot_be_shown_is_not_asked_and_not_done(confirm: Any, why: str) -> None:
    log: list[str] = []
    tool = replace(destroyer("cancel", log, number="string"), confirm=confirm)
    agent = agent_of(shop_of(("off", ("cancel",))), [tool], "off", approval="destructive")
    refused = await agent.turn("off", context={"number": "A-17"})
    done = await agent.turn("yes", refused.conversation, context={"number": "A-17"})
    assert (refused.status, refused.conversation.pending, log) == ("failed", None, [])
    assert why in refused.reason
    assert done.status != "done"


@pytest.mark.spec("012.3")
async def test_arguments_too_long_to_be_shown_need_words_of_the_tool() -> None:
    log: list[str] = []
    tool, long = destroyer("cancel", log, number="string"), {"number": "A-17 " * 1_000}
    agent = agent_of(shop_of(("off", ("cancel",))), [tool], "off", approval="destructive")
    refused = await agent.turn("off", context=long)
    assert (refused.status, log) == ("failed", [])
    assert "its argument 'number' takes 5008 characters, and at most 2000 can be shown" in refused.reason
    worded = replace(tool, confirm=says_length)
    agent = agent_of(shop_of(("off", ("cancel",))), [worded], "off", approval="destructive")
    asked = await agent.turn("off", context=long)
    assert asked.text == "This would be done next: Cancel: 5000 letters. Shall I go on, yes or no?"
