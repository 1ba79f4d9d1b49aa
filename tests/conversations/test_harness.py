"""The judge of conversations can say no, a stale record is named, and a reply is recorded by one command."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flows.shop import TODAY, Shop
from jazz_select import Agent, FlowSelector
from jazz_select.telemetry import Span
from jazz_select.testing import ListMemory, Recorded, ScriptedModel
from jazz_select.values import Message
from tests.agents import TAKE_FIRST, make_agent
from tests.conversations import record
from tests.conversations.desk import Desk, borrow_shop, inside
from tests.conversations.effects import diff
from tests.conversations.judge import problems, related
from tests.conversations.play import Played, play
from tests.conversations.report import Tally
from tests.conversations.script import Expected, Script, Turn, read, scripts
from tests.conversations.tape import Mode, Tape, kind_of, renumbered
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata

CHAIN = ("lookup_order", "cancel_order", "release_payment")
ASKED = ("lookup_order", "get_tracking", "check_return_window", "lookup_refund")
CANCELLED: dict[str, Any] = {
    "orders": {"changed": [{"number": "60144", "status": "cancelled"}]},
    "cancellations": {"added": [{"order_number": "60144", "released": 1}]},
    "charges": {"changed": [{"order_number": "60144", "status": "released"}]},
    "products": {"changed": [{"sku": "LMP-9", "stock": 12}]},
}
WISHED: dict[str, Any] = {"effects": CANCELLED, "entities": [60144], "says": ["Order 60144 is off"], "status": "done"}


def counter(reply: str = "Order {order_number} is off.") -> Desk:
    """A desk with one flow, which cancels the latest order, and no model."""
    registry = shop_of(("call_off", CHAIN))
    flow = registry.by_name("call_off")
    assert flow is not None
    vars(flow).update(reply=reply)
    shop, tools, leave = borrow_shop(TODAY)
    selector = FlowSelector(None, registry, ListMemory(metadata("call_off")), "support", policy=TAKE_FIRST)
    return Desk(Agent(selector, tools, approval="never"), shop, inside(tools, registry), leave)


def window(tape: Tape) -> Desk:
    """A desk without a flow, where a model says all, with so few tools that it is shown each."""
    shop, tools, leave = borrow_shop(TODAY)
    selector = FlowSelector(None, shop_of(), ListMemory([]), "support")
    asked = [tool for tool in tools if tool.name in ASKED]
    return Desk(make_agent(selector, asked, tape, hooks=[tape]), shop, frozenset(), leave)


def script_of(folder: Path, expect: Mapping[str, Any], *said: str, each: Mapping[str, Any] | None = None) -> Script:
    expected = Expected.model_validate(each or {})
    turns = tuple(Turn(customer=text, expect=expected) for text in said or ("call off my order",))
    return Script(
        file=folder / "scripts" / "talk.yaml",
        title="t",
        context={"email": "cleo@example.org"},
        turns=turns,
        expect=Expected.model_validate(expect),
    )


# --- the judge -----------------------------------------------------------------


async def test_a_conversation_that_comes_out_as_it_should_has_no_problems(tmp_path: Path) -> None:
    script = script_of(tmp_path, WISHED, each=WISHED | {"flow": "call_off", "model_calls_for_choice": 0})
    assert problems(await play(script, Tape(script.cassette), counter())) == []


WRONG = [
    pytest.param({"effects": {}}, "effect", "orders changed: .*'60144', 'status': 'cancelled'", id="unwished"),
    pytest.param({"effects": {"orders": {"changed": [{"number": 60144}]}}}, "effect", "orders", id="a change untold"),
    pytest.param(
        {"effects": CANCELLED | {"returns": {"added": [{"refundable": 1}]}}},
        "wish",
        "returns added",
        id="an effect lacks",
    ),
    pytest.param({"effects": {"orders": {"removed": [{"number": 60144}]}}}, "wish", "orders removed", id="another"),
    pytest.param({"entities": [60131]}, "entity", "cancel_order .* 60144 is not meant", id="a wrong entity"),
    pytest.param({"entities": []}, "entity", "60144 is not meant", id="no entity is meant"),
    pytest.param({"says": ["refunded"]}, "wish", "'refunded' is not said in 'Order 60144", id="not said"),
    pytest.param({"says": ["/order \\d{9}/"]}, "wish", "is not said", id="a pattern is not said"),
    pytest.param({"never_says": ["ORDER  60144"]}, "claim", "is said in", id="claimed"),
    pytest.param({"never_says": [r"/\bis (off|cancelled)/"]}, "claim", "is said in", id="a pattern is claimed"),
    pytest.param({"status": "waiting"}, "wish", "the status is done, not waiting", id="another status"),
    pytest.param({"flow": "refund_order"}, "wish", "call_off.* not refund_order", id="another flow"),
    pytest.param({"flow": "none"}, "wish", "call_off.* not none", id="a flow at all"),
    pytest.param({"model_calls_for_choice": 1}, "calls", "asked 0 times which flow", id="not asked"),
]


@pytest.mark.spec("010.10")
@pytest.mark.parametrize("place", ["turn", "whole"])
@pytest.mark.parametrize(("changed", "kind", "told"), WRONG)
async def test_what_is_not_as_it_should_be_is_told(
    tmp_path: Path, place: str, changed: dict[str, Any], kind: str, told: str
) -> None:
    whole = place == "whole"
    script = script_of(tmp_path, WISHED | changed if whole else WISHED, each=None if whole else WISHED | changed)
    played = await play(script, Tape(script.cassette), counter())
    found = problems(played)
    assert any(each.kind == kind and re.search(told, each.text) for each in found), found
    tally = Tally()
    tally.add(played)
    assert tally.counts[kind]  # pyright: ignore[reportArgumentType] - one of the kinds


@pytest.mark.parametrize("restarted", [True, False])
async def test_an_agent_is_made_anew_where_a_script_says_so(tmp_path: Path, *, restarted: bool) -> None:
    first, another = counter("Order {order_number} is off."), counter("The other agent took {order_number} off.")
    said = [Turn(customer="where is the moon?"), Turn(customer="call off my order", restarted=restarted)]
    script = script_of(tmp_path, {}).model_copy(update={"turns": tuple(said)})
    played = await play(script, Tape(script.cassette), replace(first, again=lambda: another.agent))
    assert not played.crash
    before, after = (turn.result.conversation for turn in played.turns)
    assert [each.content for each in after.messages[:2]] == [each.content for each in before.messages]
    assert ("The other agent" in played.turns[1].result.text) is restarted


async def test_a_name_of_the_inside_is_never_said(tmp_path: Path) -> None:
    script = script_of(tmp_path, {"effects": CANCELLED})
    found = problems(await play(script, Tape(script.cassette), counter("cancel_order: {order_number}")))
    assert [(each.kind, each.turn) for each in found] == [("claim", 1)]


async def test_a_model_that_is_asked_too_often_is_told(tmp_path: Path) -> None:
    script = script_of(tmp_path, {"model_calls": 1}, "hello", "and?")
    tape = Tape(script.cassette, replies=["Hello.", "Nothing."])
    found = problems(await play(script, tape, window(tape)))
    assert [each.text for each in found] == ["a model was asked 2 times, for call, call; not 1 times"]


CALLED = [
    pytest.param("get_tracking", {"tracking_number": "TR-1112"}, "", id="its parcel"),
    pytest.param("get_tracking", {"tracking_number": "TR-1140"}, "TR-1140", id="the parcel of another order"),
    pytest.param("lookup_order", {"email": "ada@example.org"}, "", id="its customer"),
    pytest.param("lookup_order", {"email": "cleo@example.org"}, "", id="who is in the context"),
    pytest.param(
        "lookup_order", {"email": "ben@example.org"}, "", id="another customer, in whose place the context stands"
    ),
    pytest.param("lookup_order", {"email": "new@example.org"}, "", id="nobody that the shop knows"),
    pytest.param("check_return_window", {"order_number": "99999"}, "99999", id="an order that is made up"),
    pytest.param("check_return_window", {"order_number": "60105"}, "60105", id="another order of the customer"),
    pytest.param("lookup_refund", {"return_number": "R-40001"}, "R-40001", id="the return of another order"),
]


@pytest.mark.spec("010.10")
@pytest.mark.parametrize(("tool", "arguments", "wrong"), CALLED)
async def test_a_call_is_about_what_is_meant_and_what_belongs_to_it(
    tmp_path: Path, tool: str, arguments: Mapping[str, Any], wrong: str
) -> None:
    call = json.dumps({"tool_calls": [{"id": "s1", "tool": tool, "arguments": arguments}]})
    script = script_of(tmp_path, {"entities": [60112]}, "where is it?")
    tape = Tape(script.cassette, replies=[call, "There."])
    found = problems(await play(script, tape, window(tape)))
    assert [each.text.partition(": ")[2] for each in found] == ([f"{wrong} is not meant"] if wrong else [])


def test_another_order_of_the_customer_is_not_meant() -> None:
    tables = {
        "orders": [{"number": "60001", "customer": "C-7001"}, {"number": "60002", "customer": "C-7001"}],
        "returns": [{"number": "R-40001", "order": "60001"}, {"number": "R-40002", "order": "60002"}],
        "notes": [{"id": 1, "order": "60002"}],
    }
    assert related({"60001"}, [tables]) == {"60001", "C-7001", "R-40001"}


ROWS = [
    pytest.param([{"id": 1, "a": 2}], [{"id": 1, "a": 3}], ["t changed: {'id': 1, 'a': 3}"], id="changed"),
    pytest.param([{"id": 1}], [{"id": 1}, {"id": 2}], ["t added: {'id': 2}"], id="added"),
    pytest.param([{"id": 1}], [], ["t removed: {'id': 1}"], id="removed"),
    pytest.param([{"id": 1}, {"id": 1}], [{"id": 1}], ["t removed: {'id': 1}"], id="one of two that are alike"),
    pytest.param([], [], [], id="nothing"),
]


@pytest.mark.parametrize(("before", "after", "told"), ROWS)
def test_what_changed_in_tables(before: Sequence[Any], after: Sequence[Any], told: list[str]) -> None:
    assert [str(each) for each in diff({"t": before}, {"t": after})] == told


# --- cassettes -----------------------------------------------------------------


async def recorded(script: Script, *replies: str, mode: Mode = Mode.STOP) -> Played:
    tape = Tape(script.cassette, replies=replies, mode=mode)
    played = await play(script, tape, window(tape))
    tape.save()
    return played


@pytest.mark.spec("010.10")
async def test_a_changed_prompt_names_the_record_that_is_stale(tmp_path: Path) -> None:
    script = script_of(tmp_path, {}, "hello", "what is new?")
    await recorded(script, "Hello.", "Nothing.")
    tape = Tape(script.cassette)
    assert problems(await play(script, tape, window(tape))) == []

    changed = script_of(tmp_path, {}, "hello", "what is old?")
    tape = Tape(script.cassette)
    (found,) = problems(await play(changed, tape, window(tape)))
    assert (found.kind, found.turn) == ("cassette", 2)
    assert "record 2 (turn 2, call, about " in found.text
    assert "-user: what is new?\n+user: what is old?" in found.text


WORDED: list[Any] = [
    pytest.param("read", "The condition decides", "What the condition says decides", id="a rule"),
    pytest.param("read", ' description="', ' description="In short: ', id="a description"),
    pytest.param("call", "step by step", "one step after the other", id="how to go on"),
    pytest.param("call", "(changes something; ", "(acts; ", id="an effect in other words"),
    pytest.param("read", "Never guess", "Guess nothing", id="how to find"),
    pytest.param("decide", "You choose the next tool", "Choose the next tool", id="how to decide"),
]
TOLD: list[Any] = [
    pytest.param("read", '<flow id="2" name="', '<flow id="2" name="other_', id="another flow"),
    pytest.param("read", "<request>", "<request>do not ", id="another message"),
    pytest.param("call", "\nlookup_", "\nfind_", id="another tool"),
    pytest.param("call", "today: ", "tomorrow: ", id="another fact"),
    pytest.param("read", "<user>", "<user>no, ", id="something else said"),
    pytest.param("read", 'inputs="order_number:', 'inputs="number:', id="another input"),
    pytest.param("decide", '"returned"', '"failed"', id="another result"),
]


@pytest.mark.spec("010.10")
@pytest.mark.parametrize(("kind", "was", "now"), WORDED)
def test_a_reply_is_kept_where_a_prompt_only_says_it_otherwise(kind: str, was: str, now: str) -> None:
    before, after = put_otherwise(kind, was, now)
    assert after.digest == before.digest


@pytest.mark.spec("010.10")
@pytest.mark.parametrize(("kind", "was", "now"), TOLD)
def test_a_reply_is_stale_where_what_it_rests_on_is_another(kind: str, was: str, now: str) -> None:
    before, after = put_otherwise(kind, was, now)
    assert after.digest != before.digest


def put_otherwise(kind: str, was: str, now: str) -> tuple[Recorded, Recorded]:
    """A recorded prompt that has these words, and the same with others in their place."""
    for each in all_prompts():
        if each.kind == kind and was in each.text:
            changed = tuple(replace(part, content=part.content.replace(was, now)) for part in each.messages)
            return each, replace(each, messages=changed)
    raise AssertionError(kind)


@cache
def all_prompts() -> list[Recorded]:
    """The recorded prompts of all conversations, read once."""
    return [each for script in scripts() for each in Tape(script.cassette).left]


async def test_a_prompt_without_a_record_is_told_whole(tmp_path: Path) -> None:
    script = script_of(tmp_path, {}, "hello")
    tape = Tape(script.cassette)
    played = await play(script, tape, window(tape))
    (found,) = problems(played)
    assert played.turns == []
    assert "no record for prompt 1 (turn 1, call" in found.text
    assert found.text.endswith("[user]\nhello")


async def test_a_record_that_nobody_asks_for_is_told(tmp_path: Path) -> None:
    script = script_of(tmp_path, {}, "hello", "what is new?")
    await recorded(script, "Hello.", "Nothing.")
    tape = Tape(script.cassette)
    (found,) = problems(await play(script.model_copy(update={"turns": script.turns[:1]}), tape, window(tape)))
    assert "never asked for: turn 2, call" in found.text


async def test_replies_are_kept_where_only_prompts_have_changed(tmp_path: Path) -> None:
    await recorded(script_of(tmp_path, {}, "hello", "what is new?"), "Hello.", "Nothing.")
    changed = script_of(tmp_path, {}, "good day", "what is new?")
    played = await recorded(changed, mode=Mode.REKEY)
    assert [each.result.text for each in played.turns] == ["Hello.", "Nothing."]
    assert ["-user: hello\n+user: good day" in was.changes(now) for was, now in played.tape.rekeyed] == [True, True]
    tape = Tape(changed.cassette)
    assert problems(await play(changed, tape, window(tape))) == []


def chooser(tape: Tape, *offered: str, talks: bool = False) -> Desk:
    """A desk where a model chooses among flows, which are offered in this order, and says nothing unless it talks."""
    selector = FlowSelector(tape, shop_of(*((name, ()) for name in offered)), ListMemory(metadata(*offered)), "support")
    return Desk(make_agent(selector, [], tape if talks else None, hooks=[tape]), Shop(), frozenset())


MOVED = [
    pytest.param('["2"]', ["refund", "track"], ["track"], id="the order is as it was"),
    pytest.param('["2"]', ["track", "refund"], ["track"], id="in another order"),
    pytest.param('["2"]', ["cancel", "refund", "track"], ["track"], id="one more before it"),
    pytest.param('["1", "2"]', ["track", "refund"], ["refund", "track"], id="several keep their order"),
    pytest.param('the 2nd: ["2"]', ["refund", "track", "cancel"], ["track"], id="no list alone stays as it is"),
    pytest.param("[]", ["track", "refund"], [], id="none of them"),
]


@pytest.mark.parametrize(("reply", "offered", "chosen"), MOVED)
async def test_a_choice_that_is_kept_means_the_same_flows(
    tmp_path: Path, reply: str, offered: list[str], chosen: list[str]
) -> None:
    script = script_of(tmp_path, {}, "where is it, and my money?")
    first = Tape(script.cassette, replies=[reply])
    await play(script, first, chooser(first, "refund", "track"))
    first.save()
    tape = Tape(script.cassette, mode=Mode.REKEY)
    (turn,) = (await play(script, tape, chooser(tape, *offered))).turns
    assert (turn.result.selection.names if turn.result.selection else None) == chosen
    assert (tape.stopped, tape.left) == (None, [])


async def test_a_choice_of_a_flow_that_is_not_offered_any_more_is_asked_for_anew(tmp_path: Path) -> None:
    script = script_of(tmp_path, {}, "where is it?")
    first = Tape(script.cassette, replies=['["2"]'])
    await play(script, first, chooser(first, "refund", "track"))
    first.save()
    tape = Tape(script.cassette, mode=Mode.REKEY)
    assert (await play(script, tape, chooser(tape, "refund", "cancel"))).turns == []
    assert tape.stopped is not None
    assert tape.stopped.kind == "read"


SAID_BESIDE = [
    pytest.param('{"off": ["1"], "flows": ["2"]}', '{"off": ["2"], "flows": ["1"]}', id="called off, with a wish"),
    pytest.param(
        '{"values": {"1": {"x": 1}, "y": 2}}', '{"values": {"2": {"x": 1}, "y": 2}}', id="values of one flow alone"
    ),
    pytest.param('{"confirm": {"is": "yes", "quote": "1"}}', '{"confirm": {"is": "yes", "quote": "1"}}', id="a yes"),
    pytest.param('{"tool_calls": []}', '{"tool_calls": []}', id="no choice"),
]


@pytest.mark.parametrize(("reply", "now"), SAID_BESIDE)
def test_what_else_a_choice_says_is_kept(reply: str, now: str) -> None:
    shown = ('<flow id="1" name="a" /><flow id="2" name="b" />', '<flow id="1" name="b" /><flow id="2" name="a" />')
    was, asked = (Recorded(messages=(Message(role="user", content=text),), reply=reply) for text in shown)
    assert renumbered(was, asked) == now


async def test_replies_are_kept_where_a_prompt_before_them_is_gone(tmp_path: Path) -> None:
    script = script_of(tmp_path, {}, "hello there, who are you?")
    first = Tape(script.cassette, replies=["[]", "A desk."])
    await play(script, first, chooser(first, "refund", "track", talks=True))
    first.save()
    tape = Tape(script.cassette, mode=Mode.REKEY)
    (turn,) = (await play(script, tape, window(tape))).turns
    assert turn.result.text == "A desk."
    assert [each.kind for each in tape.left] == ["read"]


async def test_a_real_model_is_asked_instead_of_the_cassette_and_kept_only_where_it_is_saved(tmp_path: Path) -> None:
    script = script_of(tmp_path, {"never_says": ["Hello"]}, "hello")
    await recorded(script, "Hello.")
    kept = script.cassette.read_text("utf-8")
    tape = Tape(script.cassette, mode=Mode.ASK, model=ScriptedModel("Good day."))
    assert problems(await play(script, tape, window(tape))) == []
    assert script.cassette.read_text("utf-8") == kept
    tape.save()
    again = Tape(script.cassette)
    assert (await play(script, again, window(again))).turns[0].result.text == "Good day."


async def test_prompts_are_the_same_whenever_a_conversation_is_played(tmp_path: Path) -> None:
    call = '{"tool_calls": [{"tool": "lookup_order", "arguments": {"email": "cleo@example.org"}}]}'
    script = script_of(tmp_path, {}, "hello", "and?")
    digests = [[each.digest for each in (await recorded(script, "Hi.", call, "There.")).tape.asked] for _ in "ab"]
    assert digests[0] == digests[1]
    assert len(digests[0]) == 3


SPANS = [
    pytest.param([("turn", "agent"), ("node", "select"), ("decision", "select"), ("chat", "m")], "read", id="read"),
    pytest.param([("node", "run_flows"), ("node", "refund"), ("decision", "step"), ("chat", "m")], "decide", id="step"),
    pytest.param([("node", "converse"), ("node", "chain"), ("chat", "m")], "call", id="call"),
    pytest.param([("node", "answer"), ("decision", "format"), ("node", "format"), ("chat", "m")], "finalize", id="end"),
    pytest.param([("node", "select"), ("decision", "consent"), ("chat", "m")], "consent", id="consent"),
    pytest.param([("node", "select"), ("decision", "new"), ("chat", "m")], "new", id="a part that is not known"),
    pytest.param([], "prompt", id="outside of all"),
]


@pytest.mark.parametrize(("spans", "kind"), SPANS)
def test_the_kind_of_a_prompt_is_told_by_where_it_is_asked(spans: list[tuple[Any, str]], kind: str) -> None:
    span = None
    for each, name in spans:
        span = Span(name=name, kind=each, parent=span)
    assert kind_of(span) == kind


# --- by hand -------------------------------------------------------------------

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command, in a folder with one conversation."""
    (tmp_path / "scripts").mkdir()
    text = "title: t\nturns:\n- hello\n- customer: what is new?\n  expect: {says: [Nothing]}\n"
    (tmp_path / "scripts" / "talk.yaml").write_text(text)

    @asynccontextmanager
    async def make(_: Script, tape: Tape) -> AsyncGenerator[Desk]:
        yield window(tape)

    return lambda *given: record.main(["talk", *given], folder=tmp_path / "scripts", make=make)


def test_a_cassette_is_written_by_a_command_a_call(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == record.WANTED
    assert "=== prompt 1: turn 1, call" in capsys.readouterr().out
    assert not (tmp_path / "cassettes").exists(), "to look writes nothing"
    assert run("--say", "Hello.") == record.WANTED
    told = capsys.readouterr().out
    assert re.search(r"^agent \(done; no flow.*\): Hello\.$", told, re.MULTILINE)
    assert told.count("what is new?") == 2
    reply = tmp_path / "reply.txt"
    reply.write_text("Something.\n")
    assert run("--reply", str(reply), "--brief") == record.WRONG
    assert "!!! wish, turn 2: 'Nothing' is not said in 'Something.'" in capsys.readouterr().out
    assert run("--drop", "2") == record.WANTED
    assert run("--say", "Nothing.", "--say", "More?") == record.DONE
    assert "1 replies were not asked for" in capsys.readouterr().out
    assert run() == record.DONE


@pytest.mark.parametrize("given", [["--drop", "1"], ["--drop", "x"], ["--reply", "no-such-file"]], ids=" ".join)
def test_a_command_that_cannot_be_understood_says_so(
    run: Run, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*given) == record.USAGE
    assert given[-1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("title: t\nturns: []", "turns", id="no turn"),
        pytest.param("title: t\nturns: [hello]\nexpects: {}", "expects", id="a slip of the pen"),
        pytest.param("title: t\nturns: [{customer: a, expect: {status: fine}}]", "status", id="an unknown status"),
        pytest.param("- a", "no conversation", id="a list"),
    ],
)
def test_a_file_that_is_no_conversation_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError, match=rf"(?s)bad.yaml is no conversation: .*{told}|{told}"):
        read(tmp_path / "bad.yaml")
    with pytest.raises(ValueError, match="there is no conversation nobody; there are bad"):
        scripts("nobody", folder=tmp_path)


async def test_a_table_has_each_kind_of_prompt(tmp_path: Path) -> None:
    script = script_of(tmp_path, {}, "hello", "and?")
    tally = Tally()
    tally.add(await recorded(script, "Hello.", "Nothing."))
    broken = replace(await recorded(script), crash="TypeError: x")
    tally.add(broken)
    lines = tally.lines()
    assert lines[0] == "2 conversations, 4 turns, 4 model calls; 1 as they should be"
    assert lines[4].split()[:3] == ["call", "4", "1.00"]
    assert "crashes                                             1" in lines
