"""Many tools: indexed like flows, and only those that are recalled are shown to a model."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from jazz_select.errors import ConfigError, DuplicateToolError, ModelError, StoreUnavailableError
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.questions import ChoiceQuestion, Question
from jazz_select.routing import Tool, ToolAsker, ToolRecall, sync_tools, tool_card
from jazz_select.routing.tools.tool_memory import tools_scope
from jazz_select.testing import LIES, ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.values import FlowCard, RecallResult, flow_id
from tests.vectors import EMBEDDER

AGENT = "support"
VERBS = {
    "create": "Make a new {0}.",
    "delete": "Remove a {0} for good.",
    "list": "Show every {0} there is.",
    "rename": "Give a {0} another name.",
    "share": "Let somebody else use a {0}.",
    "archive": "Put a {0} away.",
}
THINGS = ("folder", "playlist", "invoice", "meeting", "contact", "ticket", "photo", "branch", "budget", "survey")
TOOLS = [
    Tool(name=f"{verb}_{thing}", description=text.format(thing)) for verb, text in VERBS.items() for thing in THINGS
] + [
    Tool(
        name="forecast",
        description="What the weather will be.",
        provider="meteo",
        capabilities=("weather.predict",),
        input_schema={
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The town to look at"},
                "humidity": {"type": "boolean", "description": "Whether moisture of the air is wanted"},
            },
        },
    ),
]
SHARE = "share the playlist with my sister"


@pytest.fixture
async def memory() -> AsyncGenerator[ProceduralMemory]:
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as opened:
        yield opened


@pytest.fixture
async def filled(memory: ProceduralMemory) -> ProceduralMemory:
    await sync_tools(memory, AGENT, TOOLS)
    return memory


async def test_syncing_twice_does_nothing(memory: ProceduralMemory) -> None:
    planned = await sync_tools(memory, AGENT, TOOLS, dry_run=True)
    first = await sync_tools(memory, AGENT, TOOLS)
    again = await sync_tools(memory, AGENT, reversed(TOOLS))
    assert len(planned.created) == len(first.created) == len(again.skipped) == len(TOOLS)
    changed = replace(TOOLS[0], description="Make a box for files.")
    third = await sync_tools(memory, AGENT, [changed, *TOOLS[2:]])
    assert (third.updated, third.deleted) == ((TOOLS[0].name,), (TOOLS[1].name,))


def test_what_nobody_asks_for_changes_nothing() -> None:
    tool = TOOLS[-1]
    assert tool_card(replace(tool, output_schema={"type": "string"}, destructive=True)) == tool_card(tool)
    assert tool_card(tool).owner == "meteo"
    for word in ("weather predict", "humidity: Whether moisture"):
        assert word in tool_card(tool).text


@pytest.mark.spec("020.6")
@pytest.mark.parametrize(
    ("owner", "read", "text"),
    [
        pytest.param({}, "", "Show a list.", id="nobody says whose it is"),
        pytest.param({"provider": "weread"}, "weread", "Show a list.", id="an owner"),
        pytest.param(
            {"provider": "hub", "provider_title": "Trends Hub", "group": "books"},
            "hub, Trends Hub, books",
            "Show a list.",
            id="an owner with a title and a group",
        ),
        pytest.param(
            {"provider": "trends-hub", "provider_title": "Trends Hub", "group": "trends"},
            "trends-hub",
            "Show a list.",
            id="what only repeats words is left out",
        ),
        pytest.param(
            {"provider": "hub", "operation": "GET /rank/{book}"},
            "hub",
            "Show a list. Of GET /rank/{book}.",
            id="the owner's name of it",
        ),
        pytest.param({"operation": "rank"}, "", "Show a list.", id="the owner's name of it is its name"),
    ],
)
def test_a_card_says_whose_the_tool_is(owner: dict[str, Any], read: str, text: str) -> None:
    card = tool_card(Tool(name="rank", description="Show a list.", **owner))
    assert (card.owner, card.text) == (read, f"rank\n{text}")


def test_a_prefix_is_not_said_twice() -> None:
    card = tool_card(Tool(name="hub.rank", description="Show a list.", provider="hub", operation="rank"))
    assert (card.owner, card.text) == ("hub", "hub.rank\nShow a list.")


@pytest.mark.spec("020.6")
async def test_another_owner_is_indexed_anew(memory: ProceduralMemory) -> None:
    tool = Tool(name="list_all", description="List all.", provider="jira")
    await sync_tools(memory, AGENT, [tool])
    report = await sync_tools(memory, AGENT, [replace(tool, provider="notion")])
    assert report.updated == ("list_all",)


async def test_a_request_that_names_the_owner_finds_its_tool(memory: ProceduralMemory) -> None:
    owners = ("github", "spotify", "jira", "notion")
    tools = [Tool(name=f"list_{number}", description="List all.", provider=each) for number, each in enumerate(owners)]
    await sync_tools(memory, AGENT, tools)
    found = await ToolRecall(memory, AGENT, top_k=1).recall("list all of spotify", tools)
    assert [tool.provider for tool in found] == ["spotify"]
    owned = await scores_of("list_1", "list all of spotify", memory)
    await sync_tools(memory, AGENT, [replace(tool, provider="") for tool in tools])
    alone = await scores_of("list_1", "list all of spotify", memory)
    assert owned["dense"] > alone["dense"]
    assert owned["bm25"] > alone["bm25"]


async def scores_of(name: str, request: str, memory: ProceduralMemory) -> dict[str, float]:
    """The scores of a tool, by arm."""
    hits = await memory.recall(request, tools_scope(AGENT), 10)
    return next(hit["scores"] for hit in hits if hit["flow_name"] == name)


def test_a_book_of_a_description_is_cut() -> None:
    schema = {"type": "object", "properties": {"x": {"description": "word " * 1_000}, "y": {"description": 7}}}
    text = tool_card(replace(TOOLS[0], description="", input_schema=schema)).text
    assert (len(text) < 400, text.endswith("; y")) == (True, True)
    assert len(tool_card(replace(TOOLS[0], description="x" * 100_000)).text) < 10_000
    assert len(tool_card(Tool(name="x", provider_title="long " * 1_000, group="longer " * 1_000)).owner) < 500


async def test_a_tool_and_a_flow_of_one_name_are_two(memory: ProceduralMemory) -> None:
    flow = FlowCard(id=flow_id("forecast"), name="forecast", description="A flow.", text="forecast")
    assert tool_card(TOOLS[-1]).id != flow.id
    await memory.sync(AGENT, [flow])
    await sync_tools(memory, AGENT, TOOLS)
    report = await memory.sync(AGENT, [flow])
    assert (report.skipped, report.deleted) == (("forecast",), ())
    assert [each["flow_type"] for each in await memory.list_flows(AGENT)] == ["flow"]
    again = await sync_tools(memory, AGENT, TOOLS)
    assert (len(again.skipped), again.deleted) == (len(TOOLS), ())


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        (SHARE, "share_playlist"),
        ("get rid of that invoice", "delete_invoice"),
        ("which meetings are there?", "list_meeting"),
        ("will it rain in Oslo tomorrow?", "forecast"),
        ("how humid, I mean moist, is the air?", "forecast"),
        ("rename_branch", "rename_branch"),
    ],
)
async def test_the_right_tool_is_among_those_recalled(filled: ProceduralMemory, request_: str, right: str) -> None:
    found = await ToolRecall(filled, AGENT, top_k=8).recall(request_, TOOLS)
    assert (right in [tool.name for tool in found], len(found), found.notes) == (True, 8, ())


@pytest.mark.spec("004.3")
async def test_the_order_of_connecting_changes_nothing_in_what_is_shown(filled: ProceduralMemory) -> None:
    model = ScriptedModel('{"natural_language_response": "ok"}', repeat=True)
    records = [
        (await ToolAsker(model, tools, memory=filled, agent_id=AGENT, top_k=8).ask(SHARE))
        for tools in (TOOLS, TOOLS[::-1])
    ]
    assert model.calls[0] == model.calls[1]
    shown = records[0].tools_shown
    assert (len(shown), "share_playlist" in shown, list(shown)) == (8, True, sorted(shown))
    assert all(f'"name":"{name}"' in model.calls[0][1].content for name in shown)
    assert model.calls[0][1].content.count('"name":') == 8


async def test_few_tools_are_shown_as_they_are() -> None:
    recall = ListMemory(error=AssertionError("not to be asked"))
    model = ScriptedModel('{"natural_language_response": "ok"}')
    choice = await ToolAsker(model, TOOLS[19::-1], memory=recall, agent_id=AGENT).ask(SHARE)
    assert choice.tools_shown == tuple(tool.name for tool in TOOLS[19::-1])
    assert recall.calls == []


async def test_a_tool_that_is_gone_is_never_shown_and_takes_no_place(filled: ProceduralMemory) -> None:
    left = [tool for tool in TOOLS if not tool.name.endswith("_playlist")]
    found = await ToolRecall(filled, AGENT, top_k=8).recall(SHARE, left)
    names = {tool.name for tool in found}
    assert (len(found), names <= {tool.name for tool in left}) == (8, True)
    assert "sync_tools is due" in found.notes[-1]
    assert not any("only" in note for note in found.notes)


async def test_places_that_recall_leaves_empty_are_filled(memory: ProceduralMemory) -> None:
    await sync_tools(memory, AGENT, TOOLS[:3])
    found = await ToolRecall(memory, AGENT, top_k=8).recall("create a folder", TOOLS[::-1])
    names = [tool.name for tool in found]
    assert (len(names), {tool.name for tool in TOOLS[:3]} < set(names)) == (8, True)
    assert found.notes == ("only 3 tools were recalled; 5 others are shown beside them",)


@pytest.mark.parametrize(
    ("memory_", "note"),
    [
        (ListMemory(error=StoreUnavailableError("http://x", "down")), "recall failed, so all 61 tools are shown"),
        (ListMemory(notes=("by BM25 alone",)), "by BM25 alone"),
        (ListMemory([{"flow_id": flow_id("forecast")}, {}]), "2 tools are indexed and not connected"),
    ],
    ids=["it fails", "it finds nothing", "it finds no tool"],
)
async def test_without_recall_all_tools_are_shown_with_a_note(memory_: ListMemory, note: str) -> None:
    model = ScriptedModel('{"natural_language_response": "ok"}')
    record = await ToolAsker(model, TOOLS, memory=memory_, agent_id=AGENT).ask("hi")
    assert set(record.tools_shown) == {tool.name for tool in TOOLS}
    assert note in record.notes[0]
    assert record.as_json()["notes"] == list(record.notes)
    assert memory_.calls[0].agent_id != AGENT


async def test_an_index_that_was_never_filled_hides_nothing(memory: ProceduralMemory) -> None:
    found = await ToolRecall(memory, AGENT).recall(SHARE, TOOLS)
    assert (len(found), "sync_tools" in found.notes[-1]) == (len(TOOLS), True)


class _Cancelled:
    async def recall(self, *_: object, **__: object) -> list[dict[str, Any]]:
        raise asyncio.CancelledError


async def test_being_cancelled_is_no_failure() -> None:
    model = ScriptedModel()
    with pytest.raises(asyncio.CancelledError):
        await ToolAsker(model, TOOLS, memory=_Cancelled(), agent_id=AGENT).ask("hi")
    assert model.calls == []


async def test_a_call_to_a_tool_that_was_not_shown_stands_and_is_noted(filled: ProceduralMemory) -> None:
    model = ScriptedModel('{"tool_call": {"tool": "forecast", "arguments": {}}}')
    asker = ToolAsker(model, TOOLS, memory=filled, agent_id=AGENT, top_k=3)
    choice = await asker.ask(SHARE)
    assert "forecast" not in choice.tools_shown
    assert [step.tool for step in choice.plan.steps] == ["forecast"]
    assert choice.notes == ("called without having been shown: forecast",)


FOREIGN = ("hello there", "who was Napoleon's second wife?", "paint my bathroom ceiling purple")


@pytest.mark.spec("016.11")
@pytest.mark.parametrize("request_", [SHARE, "delete that invoice", "list all meetings", "rename the branch"])
async def test_a_search_tells_how_sure_each_tool_is(filled: ProceduralMemory, request_: str) -> None:
    found = await ToolRecall(filled, AGENT, top_k=5).search(request_, TOOLS)
    outside = [await ToolRecall(filled, AGENT, top_k=5).search(each, TOOLS) for each in FOREIGN]
    assert found.p_none is not None
    assert all(found.p_none < (each.p_none or 0.0) for each in outside)
    assert {tool.name for tool in found} == found.confidences.keys()
    assert found.p_none + sum(found.confidences.values()) <= 1 + 1e-9
    assert [tool.name for tool in found] == sorted(found.confidences)


@pytest.mark.spec("016.11")
@pytest.mark.parametrize("request_", FOREIGN)
async def test_a_search_finds_nothing_where_nothing_fits(filled: ProceduralMemory, request_: str) -> None:
    assert not await ToolRecall(filled, AGENT, top_k=5).search(request_, TOOLS)


class _Doubting:
    """A memory that finds two tools for anything, with this P(none)."""

    def __init__(self, p_none: float | None) -> None:
        self._p_none = p_none

    async def recall(self, *_: object, **__: object) -> RecallResult:
        sure = None if self._p_none is None else 0.1
        hits = [{"flow_id": tool_card(TOOLS[place]).id, "confidence": sure} for place in (0, 1)]
        return RecallResult(hits, p_none=self._p_none)


FOUND = ["create_folder", "create_playlist"]


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    ("p_none", "request_", "shown"),
    [
        (0.59, "hello", FOUND),
        (None, "hello", FOUND),
        (0.6, "hello", []),
        (0.9, "who was Napoleon's wife? forecast", ["forecast"]),
        (0.9, "Hello: delete_invoice, share_photo.", ["delete_invoice", "share_photo"]),
        (0.1, "Hello: delete_invoice", [*FOUND, "delete_invoice"]),
        (0.9, "create_folder", ["create_folder"]),
        (0.9, "Hello there, share_photo_2 and Share_Photo!", []),
        (0.9, "Hello there, xshare_photo!", []),
        (0.9, "see ünter share_photo/ or forecast:", ["forecast", "share_photo"]),
        (0.9, "größe ändern!", ["größe ändern"]),
        (0.9, "what is a+b?", ["a+b"]),
        (0.9, "what is a+bc, or größe ändernd?", []),
    ],
    ids=str,
)
async def test_what_a_search_names_is_kept_whatever_is_found(
    p_none: float | None, request_: str, shown: list[str]
) -> None:
    odd = [Tool(name="größe ändern", description="Make it larger."), Tool(name="a+b", description="Add.")]
    found = await ToolRecall(_Doubting(p_none), AGENT, top_k=5).search(request_, [*TOOLS, *odd])
    assert [tool.name for tool in found] == shown
    assert found.p_none == p_none


def choosing(name: str) -> ScriptedDecider:
    """A decision model that is sure of a tool, or of `none`."""

    def answer(state: str, questions: Mapping[str, Question]) -> str:
        del state
        (question,) = questions.values()
        assert isinstance(question, ChoiceQuestion)
        return next(label for label, text in question.options.items() if label == name or text.startswith(f"{name}."))

    return ScriptedDecider(answer, repeat=True)


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    ("p_none", "chosen", "shown", "likeliest"),
    [
        (0.5, "none", [], "none"),
        (0.7, "create_playlist", FOUND, "create_playlist"),
        (None, "none", [], "none"),
        (None, "create_folder", FOUND, "create_folder"),
    ],
    ids=["none though recall found some", "one though recall doubted", "none", "one"],
)
async def test_a_decision_model_decides_which_fits_or_that_none_does(
    p_none: float | None, chosen: str, shown: list[str], likeliest: str
) -> None:
    decider = choosing(chosen)
    recall = ToolRecall(_Doubting(p_none), AGENT, top_k=5, decider=decider)
    found = await recall.search("make room for photos", TOOLS)
    assert [tool.name for tool in found] == shown
    assert found.p_none is not None
    chances = {**found.confidences, "none": found.p_none}
    assert max(chances, key=chances.__getitem__) == likeliest
    assert sum(chances.values()) == pytest.approx(1)
    ((state, questions),) = decider.calls
    assert "make room for photos" in state
    (question,) = questions.values()
    assert isinstance(question, ChoiceQuestion)
    assert sorted(question.options.values())[1:] == [
        "create_folder. Make a new folder.",
        "create_playlist. Make a new playlist.",
    ]
    await recall.recall("make room for photos", TOOLS)
    assert len(decider.calls) == 1, "what hides nothing asks nobody"


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    "answer",
    [ModelError("d", "busy", retryable=False), RuntimeError("gone"), LIES["even"]],
    ids=["a model's", "any", "no distribution"],
)
async def test_a_decision_model_that_fails_leaves_what_recall_knows(answer: Any) -> None:
    recall = ToolRecall(_Doubting(0.3), AGENT, top_k=5, decider=ScriptedDecider(answer, repeat=True))
    found = await recall.search("make room for photos", TOOLS)
    assert ([tool.name for tool in found], found.p_none) == (FOUND, 0.3)
    assert [note.partition(":")[0] for note in found.notes] == ["the decision model was passed over"]


async def test_a_cancelled_search_is_not_taken_for_a_failure() -> None:
    recall = ToolRecall(_Doubting(0.3), AGENT, top_k=5, decider=ScriptedDecider("none", delay_s=60))
    search = asyncio.create_task(recall.search("make room for photos", TOOLS))
    await asyncio.sleep(1)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search


async def test_a_decision_model_that_is_slow_is_not_waited_for() -> None:
    recall = ToolRecall(_Doubting(0.3), AGENT, top_k=5, decider=ScriptedDecider("none", delay_s=60))
    found = await recall.search("make room for photos", TOOLS)
    assert (found.p_none, "passed over" in found.notes[0]) == (0.3, True)


async def test_a_decision_model_is_not_asked_of_what_the_request_names() -> None:
    decider = ScriptedDecider("none")
    found = await ToolRecall(_Doubting(0.3), AGENT, decider=decider).search(" or ".join(FOUND), TOOLS)
    assert ([tool.name for tool in found], decider.calls) == (FOUND, [])


@pytest.mark.spec("016.11")
@pytest.mark.parametrize("most", [2, 3, 30])
async def test_tools_that_a_decision_model_was_not_asked_about_keep_their_share(
    filled: ProceduralMemory, most: int
) -> None:
    decider = ScriptedDecider("none", most_options=most)
    before = await ToolRecall(filled, AGENT, top_k=6).search(SHARE, TOOLS)
    found = await ToolRecall(filled, AGENT, top_k=6, decider=decider).search(SHARE, TOOLS)
    (questions,) = (each for _, each in decider.calls)
    (question,) = questions.values()
    assert isinstance(question, ChoiceQuestion)
    assert len(question.options) == min(most, 7)
    assert found.p_none is not None
    assert found.p_none + sum(found.confidences.values()) == pytest.approx(1)
    order = sorted(before.confidences, key=before.confidences.__getitem__, reverse=True)
    assert found.confidences[order[0]] < before.confidences[order[0]], "it said that none of those asked about fits"
    rest = order[most - 1 :]
    assert all(found.confidences[name] > before.confidences[name] for name in rest)


@pytest.mark.spec("016.11")
async def test_tools_that_are_named_come_before_what_is_found(filled: ProceduralMemory) -> None:
    request_ = f"{SHARE}: rename_budget list_survey"
    found = await ToolRecall(filled, AGENT, top_k=3).search(request_, TOOLS)
    assert len(found) == 3
    assert {"rename_budget", "list_survey"} < {tool.name for tool in found}
    assert len(await ToolRecall(filled, AGENT, top_k=1).search(request_, TOOLS)) == 1


async def test_a_search_of_few_tools_or_of_none_knows_no_chance(memory: ProceduralMemory) -> None:
    recall = ToolRecall(memory, AGENT, top_k=5)
    nothing = await recall.search(SHARE, TOOLS)
    assert ([*nothing], nothing.p_none, nothing.confidences) == ([], None, {})
    await sync_tools(memory, AGENT, TOOLS[:7])
    few = await recall.search("hello there", TOOLS[:7])
    assert (len(few), few.p_none, few.confidences) == (5, None, {})


async def test_a_search_shows_no_tool_that_is_gone(filled: ProceduralMemory) -> None:
    left = [tool for tool in TOOLS if not tool.name.endswith("_playlist")]
    found = await ToolRecall(filled, AGENT, top_k=8).search(SHARE, left)
    assert {tool.name for tool in found} <= {tool.name for tool in left}


async def test_a_search_that_fails_says_so() -> None:
    memory_ = ListMemory(error=StoreUnavailableError("http://x", "down"))
    with pytest.raises(StoreUnavailableError):
        await ToolRecall(memory_, AGENT).search(SHARE, TOOLS)


@pytest.mark.spec("016.11")
async def test_examples_make_a_tool_found_by_what_users_say(memory: ProceduralMemory) -> None:
    examples = {"forecast": ("do I need an umbrella", "umbrella or not?"), "gone_tool": ("never mind",)}
    await sync_tools(memory, AGENT, TOOLS, examples=examples)
    report = await sync_tools(memory, AGENT, TOOLS, examples=examples)
    found = await ToolRecall(memory, AGENT, top_k=5).search("an umbrella for tomorrow?", TOOLS)
    assert max(found.confidences, key=found.confidences.__getitem__) == "forecast"
    assert (len(report.skipped), report.created) == (len(TOOLS), ())
    assert tool_card(TOOLS[-1], examples["forecast"]).examples == examples["forecast"]
    again = await sync_tools(memory, AGENT, TOOLS)
    assert again.updated == ("forecast",)


@pytest.mark.spec("016.11")
async def test_confidence_is_fitted_to_examples_where_there_are_enough(memory: ProceduralMemory) -> None:
    ways = ("please {0} my {1}", "{0} the {1} now", "I want to {0} a {1}", "can you {0} that {1}?", "{1}: {0} it")
    examples = {
        tool.name: tuple(way.format(*tool.name.split("_")) for way in ways) for tool in TOOLS if "_" in tool.name
    }
    scope = tools_scope(AGENT)
    await sync_tools(memory, AGENT, TOOLS)
    bare = await memory.recall(SHARE, scope)
    await sync_tools(memory, AGENT, TOOLS, examples=examples)
    fitted = await memory.recall(SHARE, scope)
    assert "there are too few examples" in bare.caveat
    assert (fitted.caveat, fitted[0]["flow_name"]) == ("", "share_playlist")
    assert fitted.answers is not None
    assert bare.answers is None


@pytest.mark.parametrize(
    "options",
    [{"agent_id": ""}, {"agent_id": AGENT, "top_k": 0}, {"agent_id": AGENT, "top_k": True}],
    ids=["no agent", "none", "a flag"],
)
def test_what_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ToolAsker(ScriptedModel(), TOOLS, memory=ListMemory(), **options)


async def test_no_tools_are_a_mistake_unless_they_are_meant(filled: ProceduralMemory) -> None:
    with pytest.raises(ConfigError, match="forget all 61"):
        await sync_tools(filled, AGENT, [])
    with pytest.raises(DuplicateToolError):
        await sync_tools(filled, AGENT, [*TOOLS, *TOOLS])
    report = await sync_tools(filled, AGENT, [], allow_delete=True)
    assert len(report.deleted) == len(TOOLS)
