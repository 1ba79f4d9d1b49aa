"""Running a flow of tools: certain, chosen, or open."""

import asyncio
import json
from typing import Any

import pytest
from tenacity import AsyncRetrying, stop_after_attempt, wait_none

from jazz_select.errors import DecisionCallbackError, ModelError, ToolError
from jazz_select.flow.base import CHOOSE
from jazz_select.routing.decisions.decision_points import GuidedDecisionPoint, ToolCandidate
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.records import promotions
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import ScriptedModel
from jazz_select.values import Tier
from tests.unit.routing.shop import obj, tools

ORDER = {"order_id": "A1"}
POINT = GuidedDecisionPoint(after_step="find_order", candidate_tools=["send_mail", "check_refund", "weigh_parcel"])


class Choosing:
    """Answers the same each time, or raises it, and remembers what it was shown."""

    def __init__(self, answer: Any, *, sync: bool = False) -> None:
        self.answer, self.sync = answer, sync
        self.calls: list[tuple[dict[str, Any], list[ToolCandidate], str]] = []

    def decide(self, context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> Any:
        self.calls.append((context, candidates, prompt))
        if self.sync:
            return self._answered()
        return self._later()

    def _answered(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def _later(self) -> Any:
        await asyncio.sleep(0)
        if self.answer == "hang":
            await asyncio.sleep(30)
        return self._answered()


@pytest.mark.spec("000.1")
async def test_one_legal_successor_runs_without_being_asked_for() -> None:
    callback = Choosing("send_mail")
    only = GuidedDecisionPoint(after_step="find_order", candidate_tools=["check_refund", "weigh_parcel"])
    result = await FlowExecutor(tools(), callback).run(["find_order", only], ORDER)
    assert [(record.tool, record.tier) for record in result.records] == [
        ("find_order", Tier.DETERMINISTIC),
        ("check_refund", Tier.DETERMINISTIC),
    ]
    assert (result.status, callback.calls) == ("ok", [])
    assert result.context["eligible"] is True


@pytest.mark.spec("000.2")
@pytest.mark.spec("000.6")
@pytest.mark.spec("000.9")
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_a_choice_is_asked_for_once_with_what_fits(*, sync: bool) -> None:
    callback = Choosing("send_mail", sync=sync)
    result = await FlowExecutor(tools(), callback).run(["find_order", POINT], ORDER)
    ((context, candidates, prompt),) = callback.calls
    assert [each.name for each in candidates] == ["send_mail", "check_refund"]
    assert "weigh_parcel" not in prompt
    assert context == {"order_id": "A1", "amount": 20, "email": "a@example.org"}
    assert (result.records[1].tool, result.records[1].tier) == ("send_mail", Tier.GUIDED)
    assert result.context["result"] == "sent to a@example.org"


@pytest.mark.spec("000.3")
@pytest.mark.parametrize(
    "steps",
    [["nowhere"], [GuidedDecisionPoint(after_step="x", candidate_tools=["weigh_parcel"])], [CHOOSE]],
    ids=["unknown tool", "nothing fits", "nothing known"],
)
async def test_where_nothing_narrows_it_is_open_and_every_tool_is_there(steps: list[Any]) -> None:
    result = await FlowExecutor(tools(), Choosing("x")).run(steps, {"unheard": 1})
    assert (result.status, result.records[-1].tier) == ("open", Tier.OPEN)
    assert [each.name for each in result.pending] == [tool.name for tool in tools()]


@pytest.mark.spec("000.3")
async def test_an_open_router_goes_on() -> None:
    seen: list[list[str]] = []

    async def route(context: dict[str, Any], candidates: list[ToolCandidate]) -> str:
        seen.append([each.name for each in candidates])
        return "find_order"

    result = await FlowExecutor(tools(), open_router=route).run(["nowhere", "check_refund"], ORDER)
    assert (result.status, result.records[0].tier, result.records[0].reason) == ("ok", Tier.OPEN, "open_router")
    assert len(seen[0]) == 4


@pytest.mark.spec("000.10")
async def test_the_prompt_is_made_of_metadata_and_holds_no_values() -> None:
    callback = Choosing("send_mail")
    await FlowExecutor(tools(), callback).run(["find_order", POINT], ORDER)
    prompt = callback.calls[0][2]
    assert prompt.splitlines() == [
        "Tool 'find_order' returned a result with the fields {order_id, amount, email}.",
        "Choose the next action from these compatible tools:",
        "1. send_mail — What send_mail does. (email: string)",
        "2. check_refund — What check_refund does. (order_id: string, amount: integer)",
        'Answer with the name of one of them, or with "none" if none should come next.',
    ]
    assert "A1" not in prompt


@pytest.mark.spec("000.11")
@pytest.mark.spec("000.12")
async def test_a_prompt_and_fields_of_ones_own() -> None:
    callback = Choosing("send_mail")
    point = GuidedDecisionPoint(
        after_step="find_order",
        candidate_tools=["send_mail", "check_refund"],
        decision_prompt=" Which?\n\n",
        context_fields=["amount"],
    )
    await FlowExecutor(tools(), callback).run(["find_order", point], ORDER)
    assert callback.calls[0][0] == {"amount": 20}
    assert callback.calls[0][2] == " Which?\n\n"


@pytest.mark.spec("000.12")
async def test_a_field_that_nothing_gives_is_an_error_before_anything_runs() -> None:
    ran: list[str] = []
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["send_mail"], context_fields=["colour"])
    with pytest.raises(ToolError, match="context_fields names colour"):
        await FlowExecutor(tools(find_order=ran.append)).run(["find_order", point], ORDER)
    assert ran == []


@pytest.mark.spec("000.13")
async def test_the_executor_finds_itself_that_a_choice_is_needed() -> None:
    callback = Choosing("check_refund")
    result = await FlowExecutor(tools(), callback).run(["find_order", CHOOSE], ORDER)
    assert (result.records[1].tool, len(callback.calls)) == ("check_refund", 1)


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("answer", [None, "none", "None", "", " "], ids=repr)
async def test_none_of_them_is_open(answer: str | None) -> None:
    point = GuidedDecisionPoint(
        after_step="find_order", candidate_tools=["send_mail", "check_refund"], fallback_tool="send_mail"
    )
    result = await FlowExecutor(tools(), Choosing(answer)).run(["find_order", point], ORDER)
    assert (result.status, result.records[1].tier, result.records[1].reason) == ("open", Tier.OPEN, "none")


@pytest.mark.spec("000.13")
@pytest.mark.spec("000.14")
async def test_without_a_callback_it_is_open() -> None:
    result = await FlowExecutor(tools()).run(["find_order", POINT], ORDER)
    assert (result.status, result.records[1].reason) == ("open", "no_callback")


FAILURES = [RuntimeError("boom"), "hang", "weigh_parcel", "ghost", 5]


@pytest.mark.spec("000.15")
@pytest.mark.spec("000.16")
@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_who_fails_to_choose_is_stood_in_for(failure: Any) -> None:
    point = GuidedDecisionPoint(
        after_step="find_order", candidate_tools=["send_mail", "check_refund"], fallback_tool="check_refund"
    )
    executor = FlowExecutor(tools(), Choosing(failure), decision_timeout_s=0.05)
    record = (await executor.run(["find_order", point], ORDER)).records[1]
    assert (record.tool, record.reason, record.status) == ("check_refund", "fallback", "ok")
    assert "failed" in record.error


@pytest.mark.spec("000.16")
@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_without_a_fallback_the_step_fails_with_the_original_error(failure: Any) -> None:
    executor = FlowExecutor(tools(), Choosing(failure), decision_timeout_s=0.05)
    result = await executor.run(["find_order", POINT], ORDER)
    cause = result.records[1].cause
    assert (result.status, isinstance(cause, DecisionCallbackError)) == ("failed", True)
    assert cause is not None
    assert cause.__cause__ is (failure if isinstance(failure, Exception) else cause.__cause__)
    assert cause.__cause__ is not None


@pytest.mark.spec("000.17")
async def test_a_record_has_everything() -> None:
    result = await FlowExecutor(tools(), Choosing("send_mail")).run(["find_order", POINT], ORDER)
    record = result.records[1]
    assert (record.step, record.tier, record.tool, record.attempts) == (2, Tier.GUIDED, "send_mail", 1)
    assert [(each.name, each.compatibility_score) for each in record.candidates] == [
        ("send_mail", 1.0),
        ("check_refund", 1.0),
    ]
    assert record.duration_s > 0


@pytest.mark.spec("000.18")
async def test_choices_that_are_always_the_same_are_hinted_at() -> None:
    executor = FlowExecutor(tools(), Choosing("send_mail"))
    runs = [await executor.run(["find_order", POINT], ORDER) for _ in range(20)]
    (hint,) = promotions(runs)
    assert (hint.after, hint.tool, hint.share, hint.runs) == ("find_order", "send_mail", 1.0, 20)
    assert promotions(runs[:19]) == []
    other = await FlowExecutor(tools(), Choosing("check_refund")).run(["find_order", POINT], ORDER)
    assert promotions([*runs, other, other]) == []
    assert promotions([*runs, other, other], min_share=0.9)


async def test_a_tool_that_fails_ends_the_run_with_its_name() -> None:
    def broken(order_id: str) -> None:
        raise ValueError(order_id)

    result = await FlowExecutor(tools(find_order=broken)).run(["find_order", "check_refund"], ORDER)
    assert (result.status, len(result.records)) == ("failed", 1)
    assert "find_order failed: ValueError: A1" in result.records[0].error


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ({"order_id": 7}, "find_order: the arguments are not valid: order_id: 7 is not of type 'string'"),
        ({"order_id": ["A1"]}, "order_id: ['A1'] is not of type 'string'"),
        ({"order_id": object()}, "is not of type 'string'"),
    ],
    ids=["number", "list", "object"],
)
async def test_a_wrong_argument_fails_its_step_and_the_tool_is_not_called(
    context: dict[str, Any], problem: str
) -> None:
    called: list[object] = []

    def find(order_id: object) -> None:
        called.append(order_id)

    result = await FlowExecutor(tools(find_order=find)).run(["find_order"], context)
    assert (result.status, called) == ("failed", [])
    assert problem in result.records[0].error


@pytest.mark.timeout(10)
@pytest.mark.parametrize(("given", "status"), [("a" * 60, "ok"), ("a" * 60 + "!", "failed")], ids=["fits", "does not"])
async def test_a_pattern_is_checked_in_linear_time(given: str, status: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}

    def same(a: str) -> str:
        return a

    executor = FlowExecutor([Tool(name="t", input_schema=schema, function=same)])
    result = await executor.run(["t"], {"a": given})
    assert result.status == status


async def test_a_tool_that_changes_its_arguments_changes_nothing_that_is_kept() -> None:
    given: dict[str, Any] = {"items": [1, {"a": []}], "by": {"name": "x"}}
    seen: list[str] = []

    def spoils(items: list[Any], by: dict[str, Any]) -> None:
        seen.append(f"{items} {by}")
        items[1]["a"].append(2)
        items.clear()
        by.clear()
        raise ConnectionError

    policy = AsyncRetrying(stop=stop_after_attempt(2), wait=wait_none())
    result = await FlowExecutor([tool_from_function(spoils)], retry=policy).run(["spoils"], given)
    assert result.records[0].attempts == 2
    assert given == {"items": [1, {"a": []}], "by": {"name": "x"}}
    assert seen == ["[1, {'a': []}] {'name': 'x'}"] * 2
    assert result.context == given


async def test_missing_arguments_are_told() -> None:
    result = await FlowExecutor(tools()).run(["check_refund"], ORDER)
    assert "check_refund wants amount" in result.records[0].error


async def test_a_policy_says_when_a_tool_is_called_again() -> None:
    calls: list[str] = []

    async def flaky(order_id: str) -> dict[str, str]:
        calls.append(order_id)
        if len(calls) < 3:
            raise ConnectionError
        return {"email": "b"}

    policy = AsyncRetrying(stop=stop_after_attempt(3), wait=wait_none())
    result = await FlowExecutor(tools(find_order=flaky), retry=policy).run(["find_order"], ORDER)
    assert (result.status, result.records[0].attempts, len(calls)) == ("ok", 3, 3)


@pytest.mark.spec("005.1")
@pytest.mark.parametrize(
    ("step", "status"),
    [
        pytest.param(CHOOSE, "open", id="found by schema"),
        pytest.param(GuidedDecisionPoint(after_step="find", candidate_tools=["drop"]), "open", id="left at a point"),
        pytest.param("drop", "ok", id="named as a step"),
    ],
)
async def test_what_destroys_runs_without_a_choice_only_where_its_caller_named_it(step: Any, status: str) -> None:
    ran: list[str] = []

    def find() -> dict[str, str]:
        return {"key": "k"}

    def drop(key: str) -> None:
        ran.append(key)

    found = Tool(name="find", function=find)
    taken = tool_from_function(drop, destructive=True)
    result = await FlowExecutor([found, taken]).run(["find", step])
    assert (result.status, ran) == (status, ["k"] if status == "ok" else [])


@pytest.mark.spec("005.1")
async def test_the_one_that_destroys_and_is_left_at_a_point_is_asked_about() -> None:
    def drop(key: str) -> None:
        ran.append(key)

    class Chooser:
        def decide(self, context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> str | None:
            asked.append(candidates[0].name)
            return answers.pop()

    ran, asked, answers = list[str](), list[str](), ["drop", None]
    point = GuidedDecisionPoint(after_step="find", candidate_tools=["drop"])
    executor = FlowExecutor([tool_from_function(drop, destructive=True)], Chooser())
    results = [await executor.run([point], {"key": "k"}) for _ in range(2)]
    assert [each.status for each in results] == ["open", "ok"]
    assert (asked, ran) == (["drop", "drop"], ["k"])


async def test_a_value_that_is_null_is_not_hoped_for() -> None:
    def nameless(order_id: str) -> dict[str, Any]:
        return {"order_id": order_id, "amount": 20, "email": None}

    result = await FlowExecutor(tools(find_order=nameless)).run(["find_order", CHOOSE], {"order_id": "A1"})
    assert [(each.tool, each.tier) for each in result.records][1] == ("check_refund", Tier.DETERMINISTIC)


async def test_cancelled_it_ends_the_tool() -> None:
    ended = asyncio.Event()

    async def slow(order_id: str) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    run = asyncio.ensure_future(FlowExecutor(tools(find_order=slow)).run(["find_order"], ORDER))
    await asyncio.sleep(0.02)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended.is_set()


# --- a model as the one who chooses --------------------------------------------


@pytest.mark.parametrize(
    ("reply", "tool", "status"),
    [
        ("send_mail", "send_mail", "ok"),
        ('["check_refund"]', "check_refund", "ok"),
        ("2", "check_refund", "ok"),
        ("none", "", "open"),
        ("weigh_parcel", "", "open"),
        ("{{{{", "", "open"),
    ],
)
async def test_a_model_chooses(reply: str, tool: str, status: str) -> None:
    model = ScriptedModel(reply, repeat=True)
    result = await FlowExecutor(tools(), ModelDecision(model)).run(["find_order", POINT], ORDER)
    assert (result.records[1].tool, result.status) == (tool, status)
    assert '"amount":20' in model.calls[0][1].content


async def test_a_model_that_fails_is_one_who_fails_to_choose() -> None:
    model = ScriptedModel(ModelError("m", "down", retryable=False))
    result = await FlowExecutor(tools(), ModelDecision(model)).run(["find_order", POINT], ORDER)
    assert (result.status, "down" in result.records[1].error) == ("failed", True)


async def test_a_step_says_what_its_tool_was_called_with_in_a_copy_that_can_be_stored() -> None:
    given = {"order_id": "A1", "lines": [1], "client": object(), "share": float("nan"), "half": "\ud800"}

    def spoils(order_id: str, lines: list[int], **rest: object) -> None:
        lines.append(2)

    tool = Tool(name="spoils", input_schema=obj({}, **dict.fromkeys(given, True)), function=spoils)
    found = await FlowExecutor([tool, *tools()]).run(["find_order", "spoils"], given)
    first, second = (record.arguments for record in found.records)
    assert first == {"order_id": "A1"}
    assert (second["order_id"], second["lines"], second["share"]) == ("A1", [1], None)
    assert "[a object]" in second["client"]
    json.dumps(second).encode()


async def test_a_call_that_was_refused_says_what_it_would_have_been_made_with() -> None:
    found = await FlowExecutor(tools(), approval="always").run(["find_order"], ORDER)
    assert (found.status, found.records[0].arguments) == ("failed", ORDER)
    assert (await FlowExecutor(tools()).run(["find_order"], {})).records[0].arguments == {}
