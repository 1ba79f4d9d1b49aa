"""Flows of several parts in a turn: which parts run, in which order, and what each knows."""

import pytest

from jazz_select import ConditionalFlow, FlowRegistry, FlowSelector, ParallelFlow, SequentialFlow
from jazz_select.agent import Conversation
from jazz_select.agent.agent import Agent
from jazz_select.routing import Tool
from jazz_select.selector.policy import Policy
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import flow_id
from tests.unit.agent.turns import Made, agent_of, composed, destroyer, shop_of, tools_for
from tests.unit.selector.shop import metadata, shop


@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
async def test_composites_run_their_parts(kind: type[SequentialFlow | ParallelFlow]) -> None:
    selector, _ = composed(kind)
    log: list[str] = []
    result = await Agent(selector, tools_for("do_first", "do_second", log=log)).turn("both")
    assert (result.status, sorted(log)) == ("done", ["do_first", "do_second"])
    assert [part.flow for part in result.runs[0].parts] == ["first", "second"]
    assert {"do_first_done", "do_second_done"} <= set(result.runs[0].facts)


async def test_a_sequence_stops_where_a_part_waits_and_goes_on_there() -> None:
    selector, _ = composed(SequentialFlow)
    log: list[str] = []
    agent = Agent(selector, tools_for("do_first", "do_second", log=log, wants="number"))
    first = await agent.turn("both")
    assert (first.status, log, first.text) == ("waiting", ["do_first"], "To go on, I need: number.")
    second = await agent.turn("A-17", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["do_first", "do_second"])
    assert second.runs[0].facts["number"] == "A-17"


async def test_a_sequence_stops_where_a_part_fails() -> None:
    selector, _ = composed(SequentialFlow)
    log: list[str] = []

    def fails() -> None:
        raise ValueError("no")

    failing = [Tool(name="do_first", function=fails), *tools_for("do_second", log=log)]
    result = await Agent(selector, failing).turn("both")
    assert (result.status, log, result.text) == ("failed", [], "Both could not be done.")
    assert "ValueError: no" in result.reason


@pytest.mark.spec("010.6")
@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
@pytest.mark.parametrize("manual", [False, True], ids=["a model's to do", "a person's to do"])
async def test_a_model_that_goes_on_with_all_of_it_has_no_tools_of_a_part_that_is_a_persons(
    kind: type[SequentialFlow | ParallelFlow], manual: bool
) -> None:
    selector, registry = composed(kind)
    for name in ("first", "second"):
        vars(registry.by_name(name)).update(chain=(), manual=manual and name == "second")
    vars(registry.by_name("both")).update(steps=("Do the first.", "Have the second done."))
    log: list[str] = []
    called = '{"tool_call": {"id": "s1", "tool": "do_second", "arguments": {}}}'
    model = ScriptedModel(called, "Well.", repeat=True)
    await Agent(selector, tools_for("do_first", "do_second", log=log), model).turn("both")
    assert ("do_second" in log) is not manual


@pytest.mark.parametrize(
    ("replies", "confidence", "otherwise", "branch"),
    [
        ((), 0.9, "second", "first"),
        ((), 0.2, "second", "second"),
        ((), 0.2, None, ""),
        ((f'["{flow_id("first")}"]',), 0.2, "second", "first"),
        (("[]",), 0.9, "second", "second"),
        (("[]",), 0.9, None, ""),
    ],
    ids=["recall is sure", "otherwise", "nothing", "a model", "a model: otherwise", "a model: nothing"],
)
async def test_a_conditional_flow_runs_the_branch_that_fits(
    replies: tuple[str, ...], confidence: float, otherwise: str | None, branch: str
) -> None:
    registry = shop("first", "second", "third")
    ConditionalFlow(
        name="either",
        description="d",
        condition="c",
        branches=[("it is the first", "first"), ("it is the third", "third")],
        otherwise=otherwise,
        examples=[],
        registry=registry,
    )
    model = ScriptedModel(f'["{flow_id("either")}"]', *replies) if replies else None
    memory = ListMemory([*metadata("either", confidence=0.9), *metadata("first", "third", confidence=confidence)])
    result = await Agent(FlowSelector(model, registry, memory, "support")).turn(
        "one of the two" if replies else "either"
    )
    assert result.flows == ["either"]
    assert [part.flow for part in result.runs[0].parts] == ([branch] if branch else [])
    assert result.status == "open"
    if model is not None:
        assert "it is the first" in model.calls[1][-1].content


async def test_parts_side_by_side_do_not_see_what_the_others_found() -> None:
    registry = shop_of(("look", ("look",)), ("drop", ("drop",)))
    ParallelFlow(name="both", description="d", condition="c", flows=["look", "drop"], examples=[], registry=registry)
    dropped: list[str] = []

    def look() -> dict[str, str]:
        return {"number": "LATEST-1"}

    def drop(number: str) -> None:
        dropped.append(number)

    agent = agent_of(registry, [look, drop])
    first = await agent.turn("both")
    assert (first.status, first.runs[0].asks) == ("waiting", ("number",))
    second = await agent.turn("wait, which ones do I have?", first.conversation)
    assert (second.status, dropped) == ("waiting", [])
    third = await agent.turn("OLD-7", second.conversation)
    assert (third.status, dropped) == ("done", ["OLD-7"])


async def test_a_part_that_is_listed_twice_runs_twice() -> None:
    registry = shop_of(("verify", ("verify",)), ("change", ("change",)))
    SequentialFlow(
        name="both",
        description="d",
        condition="c",
        flows=["verify", "change", "verify"],
        examples=[],
        registry=registry,
    )
    ran: list[str] = []

    def verify() -> None:
        ran.append("verify")

    def change(number: str) -> None:
        ran.append(number)

    agent = agent_of(registry, [verify, change])
    first = await agent.turn("both")
    second = await agent.turn("A-1", first.conversation)
    assert (second.status, ran) == ("done", ["verify", "A-1", "verify"])


async def test_a_conditional_flow_keeps_its_branch(made: Made) -> None:
    registry = shop_of(("first", ("do_first",)), ("second", ("do_second",)))
    ConditionalFlow(
        name="both",
        description="d",
        condition="c",
        branches=[("x", "first"), ("y", "second")],
        examples=[],
        registry=registry,
    )
    ran: list[str] = []

    def do_first(email: str) -> None:
        ran.append(f"first {email}")

    def do_second(email: str) -> None:
        ran.append(f"second {email}")

    replies = [f'["{flow_id("both")}"]', f'["{flow_id("first")}"]']
    selector = FlowSelector(ScriptedModel(*replies), registry, ListMemory(metadata("both", "first", "second")), "s")
    agent = Agent(selector, [do_first, do_second])
    first = await agent.turn("both")
    assert first.status == "waiting"
    second = await agent.turn("ada@example.org", first.conversation)
    assert (second.status, ran) == ("done", ["first ada@example.org"])


async def test_a_model_says_that_a_procedure_is_complete_and_the_next_part_follows() -> None:
    registry = shop_of(("talk", ("pay",)), ("pay", ("pay",)))
    talk = registry.by_name("talk")
    assert talk is not None
    vars(talk).update(chain=())
    SequentialFlow(name="both", description="d", condition="c", flows=["talk", "pay"], examples=[], registry=registry)
    ran: list[str] = []

    def pay() -> None:
        ran.append("pay")

    model = ScriptedModel(
        "What is it about?", '{"tool_call": {"tool": "finish_procedure"}}', "Then I'll take the money."
    )
    agent = agent_of(registry, [pay], model=model)
    first = await agent.turn("both")
    assert (first.status, ran) == ("active", [])
    second = await agent.turn("the chairs", first.conversation)
    assert (second.status, ran) == ("done", ["pay"])
    assert "Then I'll take the money." in second.text


async def test_a_sole_branch_has_to_hold() -> None:
    log: list[str] = []
    registry = shop_of(("drop", ("drop",)))
    ConditionalFlow(
        name="both",
        description="d",
        condition="c",
        branches=[("it was said twice", "drop")],
        examples=[],
        registry=registry,
    )
    without = await agent_of(registry, [destroyer("drop", log)]).turn("both")
    assert (without.status, log) == ("open", [])
    model = ScriptedModel("[]")
    selector = FlowSelector(model, registry, ListMemory(metadata("both")), "s", policy=Policy(on_empty="none"))
    asked = await Agent(selector, [destroyer("drop", log)]).turn("both")
    assert (asked.status, log) == ("open", [])
    assert "it was said twice" in model.calls[0][-1].content


async def test_a_part_that_is_gone_fails_its_flow_alone() -> None:
    selector, registry = composed(SequentialFlow)
    log: list[str] = []
    agent = Agent(selector, tools_for("do_first", "do_second", log=log, wants="number"))
    first = await agent.turn("both")
    registry.unregister(flow_id("second"))
    second = await agent.turn("A-1", first.conversation)
    assert second.status in {"failed", "waiting"}
    assert log == ["do_first"]


@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
async def test_what_inner_parts_have_found_is_known_after_a_pause(kind: type[SequentialFlow | ParallelFlow]) -> None:
    registry = shop_of(("find", ("find",)), ("drop", ("drop",)))
    kind(name="inner", description="d", condition="c", flows=["find"], examples=[], registry=registry)
    SequentialFlow(name="both", description="d", condition="c", flows=["inner", "drop"], examples=[], registry=registry)
    log: list[str] = []

    def find() -> dict[str, str]:
        return {"order": "A-17"}

    def drop(email: str, order: str = "LATEST") -> None:
        log.append(f"{email} {order}")

    agent = agent_of(registry, [find, drop])
    first = await agent.turn("both")
    assert first.runs[0].asks == ("email",)
    second = await agent.turn("ada@example.org", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["ada@example.org A-17"])


async def test_an_open_choice_of_branches_is_gone_on_with_by_a_model() -> None:
    registry = shop_of(("first", ("look",)), ("second", ("look",)))
    branches = [("x", "first"), ("y", "second")]
    ConditionalFlow(name="both", description="d", condition="c", branches=branches, examples=[], registry=registry)
    model = ScriptedModel("Which of the two?", "I see.")
    agent = agent_of(registry, [destroyer("look", [])], model=model)
    first = await agent.turn("both")
    assert (first.status, first.text) == ("active", "Which of the two?")
    second = await agent.turn("hm", first.conversation)
    assert (second.status, second.text) == ("active", "I see.")


def bad_chain(registry: FlowRegistry) -> None:
    found = registry.by_name("second")
    assert found is not None
    vars(found).update(chain=("no_such_tool",))


@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
async def test_a_chain_that_cannot_run_is_found_before_any_does(kind: type[SequentialFlow | ParallelFlow]) -> None:
    selector, registry = composed(kind)
    bad_chain(registry)
    log: list[str] = []
    result = await Agent(selector, tools_for("do_first", "do_second", log=log)).turn("both")
    assert (result.status, log) == ("failed", [])
    assert "no_such_tool" in result.reason


async def test_a_composite_speaks_with_the_words_of_its_parts() -> None:
    selector, registry = composed(SequentialFlow)
    for name in ("first", "second"):
        found = registry.by_name(name)
        assert found is not None
        vars(found).update(reply=f"{name} {{do_{name}_done}}.")
    result = await Agent(selector, tools_for("do_first", "do_second", log=[])).turn("both")
    assert result.text == "first True. second True."
