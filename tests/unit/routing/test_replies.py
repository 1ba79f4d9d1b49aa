"""What a model's reply says: calls, text, both, or nothing that can be made out."""

import json
from dataclasses import replace
from typing import Any

import pytest

from jazz_select.chat.json_reader import LONGEST
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.plans.plan_runner import run_plan
from jazz_select.routing.plans.replies import ToolReply, read_tool_reply

SEARCH = {"tool": "web_search", "arguments": {"query": "Gibby"}}
MAIL = {"id": "m", "tool": "send_mail", "arguments": {"body": "```\n</think> {x}"}}
X = PlanStep(tool="x", arguments={"a": 1})
ONE = PlanStep(tool="web_search", arguments={"query": "Gibby"})
TWO = PlanStep(tool="send_mail", arguments=MAIL["arguments"], id="m")  # pyright: ignore[reportArgumentType]


def calls(*steps: PlanStep, text: str = "", note: str = "") -> ToolReply:
    return ToolReply(calls=steps, text=text, note=note)


def said(text: str) -> ToolReply:
    return ToolReply(text=text)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param({"tool_call": SEARCH}, calls(ONE), id="one call", marks=pytest.mark.spec("004.4")),
        pytest.param(
            {"tool_calls": [SEARCH, MAIL]}, calls(ONE, TWO), id="calls in order", marks=pytest.mark.spec("004.5")
        ),
        pytest.param(
            {"tool_calls": [MAIL, SEARCH]}, calls(TWO, ONE), id="the other order", marks=pytest.mark.spec("004.5")
        ),
        pytest.param(
            {"natural_language_response": "An actor."}, said("An actor."), id="text", marks=pytest.mark.spec("004.6")
        ),
        pytest.param(
            {"natural_language_response": "Let me look.", "tool_call": SEARCH},
            calls(ONE, text="Let me look."),
            id="text and a call",
            marks=pytest.mark.spec("004.7"),
        ),
        pytest.param({"tool_call": SEARCH, "tool_calls": [MAIL]}, calls(ONE, TWO), id="both keys"),
        pytest.param({"tool_calls": SEARCH}, calls(ONE), id="one where several are told"),
        pytest.param({"tool_call": [SEARCH, MAIL]}, calls(ONE, TWO), id="several where one is told"),
        pytest.param({"toolCalls": [SEARCH]}, calls(ONE), id="camel case"),
        pytest.param([SEARCH, {"tool_call": MAIL}], calls(ONE, TWO), id="a list"),
        pytest.param(SEARCH, calls(ONE), id="a bare call"),
        pytest.param({"content": "Let me.", "tool_calls": [SEARCH]}, calls(ONE, text="Let me."), id="a chat message"),
        pytest.param({"tool_call": None, "natural_language_response": "Hi"}, said("Hi"), id="no call"),
    ],
)
def test_the_shapes(reply: Any, expected: ToolReply) -> None:
    assert read_tool_reply(reply) == expected
    assert read_tool_reply(json.dumps(reply)) == expected
    assert read_tool_reply(f"\n```json\n{json.dumps(reply, indent=1)}\n```\n") == expected
    assert read_tool_reply(f'<think>{{"tool_call": "x"}} no</think>{json.dumps(reply)}') == expected
    assert read_tool_reply(json.dumps(json.dumps(reply))) == expected


@pytest.mark.parametrize(
    ("call", "step"),
    [
        pytest.param("web_search", PlanStep(tool="web_search"), id="a name alone"),
        pytest.param({"name": "x", "args": {"a": 1}}, PlanStep(tool="x", arguments={"a": 1}), id="name and args"),
        pytest.param({"tool": "x", "parameters": None}, PlanStep(tool="x"), id="no arguments"),
        pytest.param({"tool": "x", "arguments": ""}, PlanStep(tool="x"), id="empty arguments"),
        pytest.param({"tool": "x", "arguments": '{"a": 1}'}, PlanStep(tool="x", arguments={"a": 1}), id="as text"),
        pytest.param(
            {"id": "c1", "type": "function", "function": {"name": "x", "arguments": '{"a": 1}'}},
            PlanStep(tool="x", arguments={"a": 1}, id="c1"),
            id="a function call",
        ),
        pytest.param({"tool": {"name": "x"}, "input": {"a": 1}}, PlanStep(tool="x", arguments={"a": 1}), id="nested"),
        pytest.param({"id": "node-7", "arguments": {}}, PlanStep(tool="node-7"), id="by the tool's id"),
        pytest.param({"provider": "cal", "operation": "list"}, PlanStep(tool="cal.list"), id="provider, operation"),
        pytest.param({"id": 2, "tool": "x"}, PlanStep(tool="x", id="2"), id="a number for an id"),
        pytest.param({"action": "x", "args": {"a": 1}}, X, id="action and args"),
        pytest.param({"action": "x", "action_input": {"a": 1}}, X, id="action and its input"),
        pytest.param({"action": {"name": "x", "args": {"a": 1}}}, X, id="an action as an object"),
        pytest.param({"functionCall": {"name": "x", "args": {"a": 1}}}, X, id="as Gemini writes it"),
        pytest.param(
            {"type": "tool_use", "id": "t1", "name": "x", "input": {"a": 1}}, replace(X, id="t1"), id="Claude"
        ),
        pytest.param({"tool_name": "x", "kwargs": {"a": 1}}, X, id="keyword arguments"),
        pytest.param({"tool": "x", "tool_arguments": '{"a": 1}'}, X, id="a tool's arguments as text"),
        pytest.param({"function": {"name": "x", "parameters": {"a": 1}}, "thought": "so"}, X, id="beside a thought"),
        pytest.param({"tool": "x", "arguments": {"a": 1}, "reason": "so"}, X, id="beside a reason"),
        pytest.param({"tool": "x", "arguments": {}, "args": {"a": 1}}, X, id="an empty one beside"),
        pytest.param({"tool": "x", "args": {"a": 1}, "depends_on": ["s1"]}, replace(X, after=("s1",)), id="after"),
    ],
)
def test_the_spellings_of_a_call(call: Any, step: PlanStep) -> None:
    assert read_tool_reply({"tool_calls": [call]}).calls == (step,)


@pytest.mark.spec("004.10")
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(7, id="a number"),
        pytest.param(None, id="null"),
        pytest.param({}, id="empty"),
        pytest.param({"arguments": {"a": 1}}, id="without a tool"),
        pytest.param({"tool": "x", "arguments": [1]}, id="arguments in a list"),
        pytest.param({"tool": "x", "arguments": "a=1"}, id="arguments as words"),
    ],
)
def test_a_bad_call_is_told_and_the_good_one_beside_it_kept(call: Any) -> None:
    bad, good = read_tool_reply({"tool_calls": [call, SEARCH]}).calls
    assert bad.problem
    assert good == ONE


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        pytest.param({"tool": "x", "query": "rent"}, "an unknown key, query;", id="an argument of its own"),
        pytest.param({"tool": "x", "arguments": {}, "q": 1, "r": 2}, "unknown keys, q, r;", id="beside arguments"),
        pytest.param({"action": "x", "reason": "late"}, "an unknown key, reason;", id="a reason may be an argument"),
        pytest.param({"tool": "x", "type": "open"}, "an unknown key, type;", id="a type that is none of a call"),
        pytest.param({"tool": "x", "name": "Ada"}, 'twice, under "tool" and "name"', id="two names"),
        pytest.param({"tool": "x", "args": {"a": 1}, "input": {"a": 2}}, '"args" and "input"', id="two arguments"),
        pytest.param({"x": {"a": 1}}, "names no tool; it has x", id="the name as a key"),
    ],
)
def test_a_key_that_is_not_understood_is_named_and_nothing_runs_without_it(call: Any, problem: str) -> None:
    (step,) = read_tool_reply({"tool_calls": [call]}).calls
    assert problem in step.problem
    assert step.arguments == {}


async def test_a_step_waits_for_those_it_says_it_comes_after() -> None:
    calls = [
        {"id": "b", "tool": "note", "args": {"text": "second"}, "depends_on": "a"},
        {"id": "a", "tool": "note", "args": {"text": "first"}},
    ]
    noted: list[str] = []

    def note(text: str) -> None:
        noted.append(text)

    await run_plan(read_tool_reply({"tool_calls": calls}).plan, [note], parallel=True)
    assert noted == ["first", "second"]
    assert "'c', which is no step" in str(read_tool_reply({"tool_calls": [{**calls[0], "after": "c"}]}).plan.problems)


def in_prose(before: str, *values: Any, after: str = "") -> str:
    return before + "\n".join(json.dumps(value) for value in values) + after


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(
            in_prose("Let me look.\n```json\n", {"tool_call": SEARCH}, after="\n```\nOne moment."),
            calls(ONE, text="Let me look.\n\nOne moment."),
            id="prose around",
            marks=pytest.mark.spec("004.7"),
        ),
        pytest.param(in_prose("", {"tool_call": SEARCH}, {"tool_call": MAIL}), calls(ONE, TWO), id="one a line"),
        pytest.param(
            in_prose("<tool_call>", SEARCH, after="</tool_call>"), calls(ONE), id="tags, as some models write"
        ),
        pytest.param(
            in_prose("", {"tool_call": SEARCH}, {"tool_call": SEARCH}),
            calls(ONE, note="a call was repeated"),
            id="twice",
        ),
        pytest.param(
            in_prose("", {"tool_call": SEARCH}) + in_prose("\nActually: ", {"tool_call": MAIL}),
            calls(TWO, text="Actually:", note="a call was taken back"),
            id="taken back",
        ),
        pytest.param(
            in_prose("I will not use ", {"tool_call": SEARCH}, after=" for that."),
            ToolReply(text="I will not use\n\nfor that.", note="a call was quoted, not made"),
            id="denied",
        ),
        pytest.param(
            "{'tool_call': {'tool': 'web_search', 'arguments': {'query': 'Gibby',}}}",
            calls(ONE, note="the JSON was repaired"),
            id="single quotes and a stray comma",
        ),
        pytest.param(
            '{"tool_call": {"tool": "web_search", "arguments": {"query": "Gibby"}}',
            calls(ONE, note="the JSON was repaired"),
            id="one bracket short",
        ),
        pytest.param("An actor on iCarly.", said("An actor on iCarly."), id="prose", marks=pytest.mark.spec("004.6")),
        pytest.param("Use `f(x) = {x}` or\n```py\nx\n```", said("Use `f(x) = {x}` or\n```py\nx\n```"), id="code"),
        pytest.param('"It is five."', said("It is five."), id="prose in quotes"),
        pytest.param("No tool_call: none fits.", said("No tool_call: none fits."), id="prose about calls"),
    ],
)
def test_what_stands_in_prose(reply: str, expected: ToolReply) -> None:
    assert read_tool_reply(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param('{"tool_call": {"tool": "send_mail", "arguments": {"body": "Dear Sir, I', id="in a text"),
        pytest.param('{"tool_calls": [{"tool": "delete", "arguments": {"path": "/tmp"}', id="in a list"),
        pytest.param('{"tool_calls": [{"tool": "a", "arguments": {}}, {"tool": "b"', id="after the first call"),
        pytest.param('[{"tool": "a", "arguments": {}}, {"tool": "b"', id="after the first of a bare list"),
    ],
)
def test_what_was_cut_off_is_not_run(reply: str) -> None:
    found = read_tool_reply(reply)
    assert (found.kind, found.calls) == ("unreadable", ())
    assert "cut off" in found.note


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param('{"name": "x", "description": "d", "parameters": {"type": "object"}}', id="a description"),
        pytest.param(
            '{"natural_language_response": "{\\"tool_call\\": {\\"tool\\": \\"x\\"}}"}', id="a call in a text"
        ),
        pytest.param('{"answer": {"tool_call": {"tool": "x", "arguments": {}}}}', id="a call inside of something else"),
        pytest.param('[1, {"tool": "x", "arguments": {}}]', id="a list of other things"),
    ],
)
def test_what_only_looks_like_a_call_is_none(reply: str) -> None:
    assert read_tool_reply(reply).calls == ()


HOSTILE: list[object] = [
    None,
    7,
    b'{"tool_call": {}}',
    "",
    " \n",
    "\x00",
    "\ud800",
    "null",
    "[]",
    "{}",
    '{"tool_calls": []}',
    '{"tool_call": null}',
    "x" * (LONGEST + 1),
    "[" * 200_000,
    '{"a":' * 50_000,
    '{"tool_call": ' * 5_000,
    '{"function":' * 400 + "{}" + "}" * 400,
    "<think>" * 50_000,
    "{'" * 100_000,
    '{"tool_call": {"tool": "x", "arguments": ' + "[" * 900 + "]" * 900 + "}}",
    "not {" * 100_000,
]


@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_a_model_answers_is_an_outcome(reply: object) -> None:
    found = read_tool_reply(reply)
    assert found.plan.steps == found.calls or found.calls
    assert found.kind != "unreadable" or found.note


def test_more_calls_than_a_plan_may_have_are_not_cut_silently() -> None:
    found = read_tool_reply({"tool_calls": [SEARCH] * 10_000})
    assert "at most 64 steps" in found.plan.problems[0]
