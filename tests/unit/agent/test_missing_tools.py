"""What cannot be done here: an agent is not made without the tools of its flows, and a flow may end as blocked."""

from collections.abc import Collection
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector, ParallelFlow, SequentialFlow
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.answer import run_text
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.titles import Titles
from jazz_select.errors import ConfigError, UnconnectedToolsError
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import RecallResult
from tests.unit.agent.turns import agent_of, destroyer, shop_of
from tests.unit.selector.shop import metadata


def pay() -> None:
    """Pay it back."""


def flows_of(**changes: dict[str, Any]) -> FlowRegistry:
    """Two flows, each with a chain of its tools: `pays` of two, `looks` of one."""
    registry = shop_of(("pays", ("pay", "print_it")), ("looks", ("look_it_up",)))
    for name, fields in changes.items():
        found = registry.by_name(name)
        assert found is not None
        vars(found).update(fields)
    return registry


OPTIONAL: dict[str, Any] = {"optional_tools": ("print_it",)}
MANUAL: dict[str, Any] = {"manual": True}
MISSING: list[Any] = [
    pytest.param({}, {"pays": ("print_it",), "looks": ("look_it_up",)}, id="all at once"),
    pytest.param({"pays": OPTIONAL}, {"looks": ("look_it_up",)}, id="but what is optional"),
    pytest.param({"looks": MANUAL}, {"pays": ("print_it",)}, id="but what a person does"),
]


@pytest.mark.spec("010.6")
@pytest.mark.parametrize(("changes", "missing"), MISSING)
def test_an_agent_is_not_made_without_the_tools_of_its_flows(
    changes: dict[str, Any], missing: dict[str, tuple[str, ...]]
) -> None:
    with pytest.raises(UnconnectedToolsError) as caught:
        Agent(FlowSelector(None, flows_of(**changes)), [pay])
    error, told = caught.value, str(caught.value)
    assert isinstance(error, ConfigError)
    assert error.missing == missing
    assert all(f"{flow}: {', '.join(names)}" in told for flow, names in missing.items())
    assert all(remedy in told for remedy in ("Connect them", "optional_tools", "manual = True"))


@pytest.mark.spec("010.6")
def test_what_flows_can_do_without_is_told_and_no_error() -> None:
    selector = FlowSelector(None, flows_of(pays=OPTIONAL, looks=MANUAL))
    assert Agent(selector, [pay]).selector is selector


@pytest.mark.spec("010.6")
async def test_an_agent_without_any_tool_leaves_its_flows_to_the_caller() -> None:
    result = await Agent(FlowSelector(None, flows_of())).turn("thanks")
    assert (result.status, result.flows) == ("open", [])


def test_a_slip_is_told_with_what_may_be_meant() -> None:
    registry = shop_of(("pays", ("pays_back",)))
    with pytest.raises(UnconnectedToolsError, match=r"pays: pays_back \(did you mean 'pay_back'\?\)\. Connect them"):
        Agent(FlowSelector(None, registry), [Tool(name="pay_back")])


BLOCKED: list[Any] = [
    pytest.param("looks", "Looks cannot be done here.", "it is a person's to do", [], id="a person does it"),
    pytest.param(
        "pays",
        "Money back was started but cannot be finished here. Already done: Pay.",
        "not connected: print_it",
        ["pay"],
        id="a step is missing",
    ),
]


@pytest.mark.spec("010.6")
@pytest.mark.spec("010.8")
@pytest.mark.parametrize(("flow", "text", "reason", "done"), BLOCKED)
async def test_a_flow_that_cannot_be_done_ends_as_blocked(flow: str, text: str, reason: str, done: list[str]) -> None:
    log: list[str] = []
    registry = flows_of(pays={**OPTIONAL, "title": "Money back"}, looks=MANUAL)
    agent = agent_of(registry, [destroyer("pay", log), Tool(name="look_it_up", function=pay)], flow)
    result = await agent.turn(flow)
    assert (result.status, result.text, result.reason, log) == ("blocked", text, reason, done)
    assert (result.runs[0].status, result.conversation.flows) == ("blocked", ())
    again = await agent.turn(flow, Conversation.from_json(result.conversation.to_json()))
    assert (again.status, log) == ("blocked", done), "nothing is done twice"


@pytest.mark.spec("010.6")
async def test_what_was_destroyed_for_a_flow_that_was_blocked_is_not_destroyed_again_once_it_can_be_done() -> None:
    log: list[str] = []
    registry = flows_of(pays=OPTIONAL, looks=MANUAL)
    first = await agent_of(registry, [destroyer("pay", log)], "pays").turn("pays")
    able = agent_of(registry, [destroyer("pay", log), destroyer("print_it", log)], "pays")
    second = await able.turn("pays", first.conversation)
    assert (first.status, second.status, log) == ("blocked", "done", ["pay", "print_it"])


PARTS: list[Any] = [
    pytest.param(SequentialFlow, "Both was started but cannot be finished here: Looks cannot be done here."),
    pytest.param(ParallelFlow, "Both was started but cannot be finished here: Looks cannot be done here."),
]


@pytest.mark.spec("010.6")
@pytest.mark.parametrize(("kind", "text"), PARTS)
async def test_a_composite_is_blocked_by_a_part_and_tells_what_was_done(
    kind: type[SequentialFlow | ParallelFlow], text: str
) -> None:
    registry = shop_of(("pays", ("pay",)), ("looks", ("look_it_up",)))
    kind(name="both", description="d", condition="c", flows=["pays", "looks"], examples=[], registry=registry)
    looks = registry.by_name("looks")
    assert looks is not None
    vars(looks).update(MANUAL)
    result = await agent_of(registry, [pay], "both").turn("both")
    assert (result.status, result.text) == ("blocked", f"{text} Pays is done.")


@pytest.mark.spec("010.6")
async def test_with_a_model_what_a_person_does_is_the_models_to_tell_and_its_chain_is_not_run() -> None:
    log: list[str] = []
    registry = shop_of(("pays", ("pay",)))
    pays = registry.by_name("pays")
    assert pays is not None
    vars(pays).update(MANUAL)
    agent = agent_of(registry, [destroyer("pay", log)], "pays", model=ScriptedModel("A colleague does that."))
    result = await agent.turn("pays")
    assert (result.status, result.text, log) == ("active", "A colleague does that.", [])


@pytest.mark.spec("010.6")
async def test_whom_to_turn_to_is_told_where_that_is_known() -> None:
    registry = flows_of(pays=OPTIONAL, looks={**MANUAL, "title": "A look at it"})
    selector = FlowSelector(None, registry, ListMemory(metadata("looks")), "support")
    (run,) = (await Agent(selector, [pay]).turn("looks")).runs
    text = run_text(run, Titles(KnownFlows(registry, {})), "help@example.org")
    assert text == "A look at it cannot be done here. Please contact help@example.org."


OFFER = "I can help with: Pays, Looks."


class SureOfWords(ListMemory):
    """Recall that is sure of its first flow where a word of the request, or of what was said before, is its name."""

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> RecallResult:
        found = await super().recall(query, agent_id, top_k, rrf_k, exclude=exclude)
        sure = 0.9 if found and found[0]["flow_name"] in query.split() else 0.1
        return RecallResult([{**each, "confidence": sure} for each in found], p_none=1 - sure)


@pytest.mark.spec("010.6")
@pytest.mark.parametrize(
    ("message", "status", "text"),
    [
        pytest.param("thanks", "done", "You are welcome.", id="thanks"),
        pytest.param("ok", "open", OFFER, id="ok"),
        pytest.param("who are you?", "open", OFFER, id="a question"),
    ],
)
async def test_that_a_person_does_it_is_told_once_and_not_for_whatever_is_said_next(
    message: str, status: str, text: str
) -> None:
    registry = flows_of(looks=MANUAL)
    selector = FlowSelector(None, registry, SureOfWords(metadata("looks")), "support")
    agent = Agent(selector, [Tool(name=name, function=pay) for name in ("pay", "print_it")])
    told = await agent.turn("please looks now")
    after = await agent.turn(message, Conversation.from_json(told.conversation.to_json()))
    again = await agent.turn("please looks now", after.conversation)
    assert (told.status, after.status, again.status) == ("blocked", status, "blocked")
    assert after.text.endswith(text)
