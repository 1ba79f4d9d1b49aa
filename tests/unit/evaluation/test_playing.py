"""Playing conversations: an agent of its own for each, scripts that answer turn by turn, and what came of it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.clinic.tools import Desk, desk_tools
from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, Input, ProceduralMemory
from jazz_select.errors import ConfigError
from jazz_select.evaluation import (
    Case,
    ConversationCase,
    ConversationResult,
    indexed,
    load_cases,
    load_conversations,
    play,
    play_all,
)
from jazz_select.evaluation.index import AGENT
from jazz_select.flow.flow_loading import load_flows
from jazz_select.ports import ChatModel
from jazz_select.selector.selector_options import RECOMMENDED
from jazz_select.testing import HashEmbedder, ScriptedModel
from tests.clock import until
from tests.vectors import EMBEDDER

CLINIC = Path(__file__).parents[3] / "examples" / "clinic"


class Shop:
    """Counts what was paid back."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def find_order(self, email: str) -> dict[str, Any]:
        """Find an order."""
        return {"order": f"order of {email}"}

    def pay_back(self, order: str) -> dict[str, Any]:
        """Pay an order back."""
        self.paid.append(order)
        return {"paid": len(self.paid)}


@pytest.fixture
def registry() -> FlowRegistry:
    made = FlowRegistry(min_examples=0)
    for name, tools in {"refund": ["find_order", "pay_back"], "track": ["find_order"]}.items():
        flow = Flow(
            name=name,
            description=f"All about {name}.",
            condition=f"The user asks for {name}.",
            desired_effects=["it is done"],
            examples=[f"{name} please", f"my {name}"],
            tools=tools,
            registry=made,
        )
        flow.chain = tuple(tools)
        flow.reply = "{paid} paid" if name == "refund" else "It is on its way."
    return made


@pytest.fixture
async def memory(registry: FlowRegistry) -> AsyncGenerator[ProceduralMemory]:
    async with indexed(registry, embedder=HashEmbedder()) as opened:
        yield opened


def agent(registry: FlowRegistry, memory: ProceduralMemory, model: ChatModel | None) -> Agent:
    shop = Shop()
    return Agent(FlowSelector(model, registry, memory, AGENT, top_k=2), [shop.find_order, shop.pay_back], model)


def case(*turns: dict[str, Any], **fields: Any) -> ConversationCase:
    return ConversationCase.model_validate({"title": "A talk", "turns": turns, **fields})


ASKS = {"say": "refund please", "chooses": "refund"}
TELLS = {"say": "ada@example.org", "chooses": "refund"}


@pytest.mark.spec("007.2")
async def test_flows_slots_tools_arguments_and_texts_are_checked(
    registry: FlowRegistry, memory: ProceduralMemory
) -> None:
    talk = case(
        {**ASKS, "expect": {"status": "waiting", "waits_for": "email", "tools": "none", "under_way": "refund"}},
        {
            **TELLS,
            "expect": {
                "flows": "refund",
                "tools": [{"find_order": {"email": "ada@example.org"}}, {"pay_back": {"order": "/ada/"}}],
                "status": "done",
                "says": "1 paid",
                "under_way": "none",
            },
        },
        expect={"tools": ["find_order", "pay_back"], "flows": ["refund", "refund"], "status": "done"},
    )
    result = await play(talk, lambda model: agent(registry, memory, model))
    assert result.passed, str(result)
    assert result.problems == ()
    assert len(result.turns[0].replies) == 1


async def test_what_is_known_of_the_inputs_is_checked(registry: FlowRegistry, memory: ProceduralMemory) -> None:
    flow = registry.by_name("refund")
    assert flow is not None
    flow.inputs = (Input("email", "Which email?"), Input("day", "Which day?"))
    for known, passed in (({"email": "/ada/", "day": None}, True), ({"email": "ben"}, False), ({"day": "/./"}, False)):
        talk = case({"say": "refund please"}, {"say": "ada@example.org", "expect": {"inputs": known}})
        result = await play(talk, lambda _: agent(registry, memory, None))
        assert result.passed is passed, str(result)


async def test_a_stub_answers_for_its_tool_and_the_others_run(registry: FlowRegistry, memory: ProceduralMemory) -> None:
    for stub, passed in (({"order": "A-7"}, True), ({"raises": "the backend says 503"}, False)):
        talk = case(
            {"say": "refund please"},
            {
                "say": "ada@example.org",
                "expect": {"status": "done", "tools": ["find_order", {"pay_back": {"order": "A-7"}}]},
            },
            stubs={"find_order": stub},
        )
        result = await play(talk, lambda _: agent(registry, memory, None))
        assert result.passed is passed, str(result)
    talk = case({"say": "refund please"}, {"say": "ada@example.org", "expect": {"says": "1 paid"}})
    assert (await play(talk, lambda _: agent(registry, memory, None))).passed, "a stub outlived its conversation"


async def test_a_conversation_begins_with_its_state(registry: FlowRegistry, memory: ProceduralMemory) -> None:
    def make_agent(model: ChatModel | None, state: dict[str, Any]) -> Agent:
        shop = Shop()
        shop.paid += state["paid"]
        return Agent(FlowSelector(model, registry, memory, AGENT, top_k=2), [shop.find_order, shop.pay_back], model)

    talk = case(
        {"say": "refund please"}, {"say": "ada@example.org", "expect": {"says": "3 paid"}}, state={"paid": ["a", "b"]}
    )
    assert (await play(talk, make_agent)).passed
    refused = await play(talk, lambda model: agent(registry, memory, model))
    assert "state" in refused.error


async def test_each_conversation_has_an_agent_and_tools_of_its_own(
    registry: FlowRegistry, memory: ProceduralMemory
) -> None:
    talk = case(ASKS, {**TELLS, "expect": {"says": "1 paid"}})
    made: list[Agent] = []

    @asynccontextmanager
    async def own(model: ChatModel | None) -> AsyncGenerator[Agent]:
        made.append(agent(registry, memory, model))
        yield made[-1]

    done: list[tuple[int, int]] = []
    report = await play_all([talk, talk, talk], own, at_once=3, progress=lambda made, of: done.append((made, of)))
    assert report.passed
    assert (len(made), len(set(map(id, made)))) == (3, 3)
    assert done == [(1, 3), (2, 3), (3, 3)]


async def test_values_and_calling_off_are_read_as_the_file_says(
    registry: FlowRegistry, memory: ProceduralMemory
) -> None:
    talk = case(
        {"say": "refund please", "chooses": "refund", "expect": {"waits_for": "email"}},
        {"say": "no, forget that I asked", "chooses": "off-refund", "expect": {"under_way": "none", "flows": "none"}},
        {
            "say": "refund please, I am ben@example.org",
            "chooses": "refund",
            "values": {"email": "ben@example.org"},
            "expect": {"tools": [{"find_order": {"email": "ben@example.org"}}, "pay_back"]},
        },
    )
    result = await play(talk, lambda model: agent(registry, memory, model))
    assert result.passed, str(result)


@pytest.mark.parametrize(
    ("turn", "check", "told"),
    [
        pytest.param(
            {"say": "a joke", "chooses": "none"}, "script", "expected 0 replies, got 1 question: ", id="too few"
        ),
        pytest.param({**ASKS, "script": ["more"]}, "script", "nobody asked for 'more'", id="too many"),
        pytest.param(
            {"say": "refund", "chooses": "gone", "script": [""]}, "chooses", "gone is not among ", id="not offered"
        ),
        pytest.param({**ASKS, "expect": {"status": "done"}}, "status", "expected done, got wait", id="status"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_told(
    turn: dict[str, Any], check: str, told: str, registry: FlowRegistry, memory: ProceduralMemory
) -> None:
    result = await play(case(turn), lambda model: agent(registry, memory, model))
    assert not result.passed
    assert check in {each.name for _, each in result.all_checks if not each.passed}
    assert any(told in problem for problem in result.problems), result.problems
    assert told in str(result)


async def test_an_agent_that_breaks_ends_one_conversation_and_no_other(
    registry: FlowRegistry, memory: ProceduralMemory
) -> None:
    async def late(model: ChatModel | None) -> Agent:
        if broken.pop():
            msg = "the database is away"
            raise ConnectionError(msg)
        return agent(registry, memory, model)

    broken = [False, True]
    report = await play_all([case(ASKS), case(ASKS)], late)
    assert [result.outcome for result in report.results] == ["failed", "passed"]
    assert "turn 1: it broke off: ConnectionError: the database is away" in report.results[0].problems


async def test_who_is_cancelled_is_cancelled(registry: FlowRegistry, memory: ProceduralMemory) -> None:
    slow = ScriptedModel("[]", delay_s=60)
    playing = asyncio.create_task(
        play_all([case({"say": "refund"})], lambda model: agent(registry, memory, model), model=slow)
    )
    await until(lambda: slow.calls)
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing


async def test_a_real_model_answers_instead_of_the_script(registry: FlowRegistry, memory: ProceduralMemory) -> None:
    model = ScriptedModel('{"flows": ["refund"], "values": {"email": "ben@example.org"}}')
    expected = {"tools": [{"find_order": {"email": "/ben/"}}, "pay_back"]}
    talk = case({"say": "refund please, ben@example.org", "script": ["never looked at"], "expect": expected})
    result = await play(talk, lambda given: agent(registry, memory, given), model=model)
    assert result.passed, str(result)
    assert len(model.calls) == result.turns[0].seen.model_calls > 0


async def test_without_script_and_model_there_is_no_model(registry: FlowRegistry, memory: ProceduralMemory) -> None:
    given: list[ChatModel | None] = []

    def make(model: ChatModel | None) -> Agent:
        given.append(model)
        return agent(registry, memory, model)

    await play(case({"say": "refund please"}), make)
    assert given == [None]
    with pytest.raises(ConfigError, match="model"):
        await play(case({"say": "x"}), make, model=3)  # pyright: ignore[reportArgumentType]


async def test_a_result_is_plain_json_and_safe_html(registry: FlowRegistry, memory: ProceduralMemory) -> None:
    talk = case({**ASKS, "say": "<b>refund</b> please\x1b[31m", "expect": {"says": "<i>"}}, title="<script>")
    report = await play_all([talk], lambda model: agent(registry, memory, model))
    told = report.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told["outcomes"] == {"passed": 0, "failed": 1}
    assert (told["conversations"], told["turns"], told["checks"]) == (1, 1, 1)
    turn = told["results"][0]["turns"][0]
    assert (turn["seen"]["waits_for"], turn["passed"], turn["replies"]) == (
        ["email"],
        False,
        list(report.results[0].turns[0].replies),
    )
    html = report._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert [part for part in ("<script>", "<b>refund", "<i>") if part in html] == []
    assert "&lt;script&gt;" in html  # fmt: skip


# --- the clinic --------------------------------------------------------------------


@pytest.fixture(scope="module")
def clinic() -> FlowRegistry:
    loaded = FlowRegistry()
    load_flows(CLINIC / "flows.yaml", loaded)
    return loaded


TALKS = load_conversations(CLINIC / "conversations.yaml")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the index of the clinic is made once."""
    return tmp_path_factory.mktemp("kept")


async def played(talk: ConversationCase, clinic: FlowRegistry, kept: Path) -> ConversationResult:
    async with indexed(clinic, embedder=EMBEDDER, cache=kept) as memory:

        def make(model: ChatModel | None) -> Agent:
            selector = FlowSelector(model, clinic, memory, AGENT, **RECOMMENDED)
            return Agent(selector, desk_tools(Desk()), model)

        return await play(talk, make)


@pytest.mark.spec("007.2")
@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
async def test_the_clinic_talks_as_it_should(talk: ConversationCase, clinic: FlowRegistry, kept: Path) -> None:
    result = await played(talk, clinic, kept)
    assert result.passed, str(result)
    assert all(turn.checks for turn in result.turns), "of every turn something is expected"


def test_the_clinic_names_its_flows_and_tools(clinic: FlowRegistry) -> None:
    tools = {tool.name for tool in desk_tools(Desk())}
    assert load_conversations(CLINIC / "conversations.yaml", clinic, tools=tools) == TALKS
    assert {name for flow in clinic.values() for name in flow.tools} == tools
    assert len(TALKS) >= 12


def test_what_is_said_at_the_clinic_stands_nowhere_else(clinic: FlowRegistry) -> None:
    known: tuple[Case, ...] = load_cases(CLINIC / "cases.yaml", clinic, flows="flows.yaml")
    told = [each.request for each in known]
    for flow in clinic.values():
        told.extend(flow.examples)
    said: list[str] = []
    for talk in TALKS:
        said.extend(turn.say for turn in talk.turns if len(turn.say) > 20)
    assert set(map(folded, said)) & set(map(folded, told)) == set()


def folded(text: str) -> str:
    return " ".join(text.casefold().split())
