"""A run or a plan that ended since a call has to be approved: somebody answers, and it goes on from there."""

from typing import Any

import pytest

from jazz_select.agent import run_chain
from jazz_select.errors import ConfigError
from jazz_select.routing import CHOOSE, Allow, Ask, Deny, FlowExecutor, Plan, PlanStep, Tool, ToolCall, run_plan
from jazz_select.testing import ScriptedModel

SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


class Books:
    """Tools that say what they did, and a hook that asks about what costs money."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.asked: list[str] = []
        self.ids: dict[str, str] = {}

    def tool(self, name: str, *, destructive: bool = False) -> Tool:
        def run(amount: int, call_id: str) -> dict[str, int]:
            self.log.append(name)
            self.ids[name] = call_id
            return {"amount": amount + 1}

        return Tool(name=name, input_schema=SCHEMA, output_schema=SCHEMA, function=run, destructive=destructive)

    @property
    def tools(self) -> list[Tool]:
        return [self.tool("look"), self.tool("pay", destructive=True), self.tool("post", destructive=True)]

    def hook(self, call: ToolCall) -> Allow | Ask:
        if not call.destructive:
            return Allow()
        self.asked.append(call.id)
        return Ask("it costs money")


@pytest.mark.spec("005.2")
async def test_a_run_goes_on_from_the_call_that_was_asked_about_and_asks_again_about_the_next() -> None:
    books = Books()
    executor = FlowExecutor(books.tools, approve=books.hook)
    first = await executor.run(["look", "pay", "post"], {"amount": 1})
    assert first.asked is not None
    assert (first.status, first.asked.tool, first.asked.arguments, books.log) == (
        "failed",
        "pay",
        {"amount": 1},
        ["look"],
    )
    second = await executor.resume(first, Allow())
    assert second.asked is not None
    assert (second.asked.tool, books.log) == ("post", ["look", "pay"])
    last = await executor.resume(second, Allow())
    assert (last.status, last.asked, books.log) == ("ok", None, ["look", "pay", "post"])
    assert [(each.step, each.tool, each.status) for each in last.records] == [
        (1, "look", "ok"),
        (2, "pay", "ok"),
        (3, "post", "ok"),
    ]
    assert last.context == {"amount": 1}, "what the caller gave stays as it is"
    assert [books.ids["pay"], books.ids["post"]] == books.asked, "a call keeps the id that it was asked about with"


@pytest.mark.spec("005.2")
async def test_one_yes_is_for_one_call_and_an_equal_one_is_asked_about_again() -> None:
    books = Books()

    def wipe(amount: int) -> None:
        books.log.append(f"wipe {amount}")

    tool = Tool(name="wipe", input_schema=SCHEMA, function=wipe, destructive=True)
    executor = FlowExecutor([tool], approve=books.hook)
    result = await executor.run(["wipe", "wipe", "wipe"], {"amount": 1})
    for done in range(3):
        assert result.asked is not None
        assert (result.asked.arguments, books.log) == ({"amount": 1}, ["wipe 1"] * done)
        result = await executor.resume(result, Allow())
    assert (result.status, books.log) == ("ok", ["wipe 1"] * 3)


@pytest.mark.spec("005.2")
async def test_what_is_denied_fails_there() -> None:
    books = Books()
    executor = FlowExecutor(books.tools, approve=books.hook)
    first = await executor.run(["pay", "post"], {"amount": 1})
    last = await executor.resume(first, Deny("too much"))
    assert (last.status, last.records[-1].fault, last.asked, books.log) == ("failed", "denied", None, [])
    assert last.records[-1].error == "pay was not run: too much"


async def test_a_choice_that_was_asked_about_is_not_made_again() -> None:
    books = Books()
    chosen: list[str] = []

    class Pays:
        def decide(self, context: Any, candidates: Any, prompt: Any) -> str:
            chosen.append("pay")
            return "pay"

    executor = FlowExecutor(books.tools, Pays(), approve=books.hook)
    first = await executor.run(["look", CHOOSE], {"amount": 1})
    last = await executor.resume(first, Allow())
    assert (last.status, books.log, chosen) == ("ok", ["look", "pay"], ["pay"])


@pytest.mark.parametrize("answer", [Ask(), True, None, "yes"], ids=str)
async def test_an_answer_is_allow_or_deny(answer: Any) -> None:
    books = Books()
    executor = FlowExecutor(books.tools, approve=books.hook)
    first = await executor.run(["pay"], {"amount": 1})
    with pytest.raises(ConfigError, match=r"the answer must be Allow\(\) or Deny\(reason\)"):
        await executor.resume(first, answer)
    done = await executor.resume(first, Allow())
    with pytest.raises(ConfigError, match="this run does not wait for an answer"):
        await executor.resume(done, Allow())
    assert books.log == ["pay"]


PLAN = Plan.from_steps(
    [
        PlanStep(id="a", tool="look", arguments={"amount": 1}),
        PlanStep(id="b", tool="pay", arguments={"amount": {"$ref": "a#/amount"}}),
        PlanStep(id="c", tool="post", arguments={"amount": {"$ref": "b#/amount"}}),
        PlanStep(id="d", tool="look", arguments={"amount": 9}),
    ]
)


@pytest.mark.spec("005.2")
async def test_a_plan_goes_on_with_what_was_asked_about_and_what_waited_for_it() -> None:
    books = Books()
    first = await run_plan(PLAN, books.tools, approve=books.hook)
    assert [(step.id, step.status) for step in first.steps] == [
        ("a", "ok"),
        ("b", "failed"),
        ("c", "skipped"),
        ("d", "ok"),
    ]
    assert [(each.tool, each.arguments) for each in first.asked] == [("pay", {"amount": 2})]
    assert books.log == ["look", "look"]
    second = await run_plan(PLAN, books.tools, approve=books.hook, after=first, answer=Allow())
    assert [(each.tool, each.arguments) for each in second.asked] == [("post", {"amount": 3})]
    last = await run_plan(PLAN, books.tools, approve=books.hook, after=second, answer=Allow())
    assert (last.ok, last.asked, books.log) == (True, (), ["look", "look", "pay", "post"])
    assert last.outputs == {"a": {"amount": 2}, "b": {"amount": 3}, "c": {"amount": 4}, "d": {"amount": 10}}
    assert books.ids["pay"] == books.asked[0]


@pytest.mark.spec("005.2")
async def test_a_plan_whose_call_is_denied_keeps_what_it_has() -> None:
    books = Books()
    first = await run_plan(PLAN, books.tools, approve=books.hook)
    last = await run_plan(PLAN, books.tools, approve=books.hook, after=first, answer=Deny("no"))
    assert [step.status for step in last.steps] == ["ok", "failed", "skipped", "ok"]
    assert (last.errors["b"].fault, last.asked, books.log) == ("denied", (), ["look", "look"])


async def test_what_became_of_another_plan_is_refused() -> None:
    books = Books()
    first = await run_plan(PLAN, books.tools, approve=books.hook)
    other = Plan.from_steps([PlanStep(id="a", tool="pay", arguments={"amount": 1})])
    with pytest.raises(ConfigError, match="`after` must be the result of this plan"):
        await run_plan(other, books.tools, after=first, answer=Allow())


@pytest.mark.parametrize("answer", [Allow(), Deny("no")], ids=["a yes", "a no"])
async def test_an_answer_to_nothing_is_refused_before_anything_runs(answer: Allow | Deny) -> None:
    books, said = Books(), ScriptedModel()
    done = await run_plan(PLAN, books.tools)
    ended = await run_chain(ScriptedModel("Good day."), "hello", books.tools)
    books.log.clear()
    for after in (None, done):
        with pytest.raises(ConfigError, match="`after` must be a result that waits for an answer"):
            await run_plan(PLAN, books.tools, after=after, answer=answer)
    for after in (None, ended):
        with pytest.raises(ConfigError, match="`after` must be a result that waits for an answer"):
            await run_chain(said, "hello", books.tools, after=after, answer=answer)
    assert (books.log, said.calls) == ([], [])
