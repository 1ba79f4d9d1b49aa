"""A selector that keeps a log: what is in it, what it is told afterwards, and what it refuses."""

import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from jazz_select import Flow, FlowRegistry, FlowSelector, SequentialFlow
from jazz_select.errors import ConfigError, OutcomeLogError
from jazz_select.outcomes import OutcomeLog
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.testing import ListMemory, ScriptedModel
from tests.unit.selector.shop import guarded


@pytest.fixture
def registry() -> FlowRegistry:
    made = FlowRegistry(min_examples=0)
    for name in ("refund_order", "track_order", "say_hello"):
        Flow(name=name, registry=made)
    return made


@pytest.fixture
def memory(registry: FlowRegistry) -> ListMemory:
    return ListMemory({"flow_id": flow.id, "flow_name": flow.name, "confidence": 0.5} for flow in registry.values())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outcomes.db"


@pytest_asyncio.fixture
async def selector(registry: FlowRegistry, memory: ListMemory, path: Path) -> AsyncGenerator[FlowSelector]:
    async with FlowSelector(None, registry, memory, "shop", log=path) as made:
        yield made


async def test_nothing_is_kept_unless_it_is_asked_for(registry: FlowRegistry, memory: ListMemory) -> None:
    selector = FlowSelector(None, registry, memory, "shop")
    result = await selector.select("my money back")
    assert result.logged == ""
    selector.hint(result.logged, right=["track_order"])
    with pytest.raises(ConfigError, match="keeps no log"):
        await selector.feedback(result, right="track_order")


@pytest.mark.spec("007.5")
async def test_each_selection_is_kept_and_corrected(selector: FlowSelector, path: Path) -> None:
    one = await selector.select("my money back")
    two, three, blank = await selector.select_many(
        ["where is it", SelectRequest("help with that", episode_summaries=["The user has a parcel."]), " "]
    )
    await selector.feedback(one, right=["track_order"], note="said by phone")
    await selector.feedback(two.logged, right="say_hello")
    await selector.feedback(three, right=[])
    selector.hint(one.logged, right=["say_hello"])
    assert blank.logged == ""
    kept = list(OutcomeLog.existing(path).read())
    assert [(each.request, each.right, str(each.corrected_by), each.alone) for each in kept] == [
        ("my money back", ("track_order",), "user", True),
        ("where is it", ("say_hello",), "user", True),
        ("help with that", (), "user", False),
    ]
    assert {each.agent_id for each in kept} == {"shop"}
    assert {each.chosen for each in kept} == {("refund_order",)}
    assert kept[0].candidates == ("refund_order", "track_order", "say_hello")
    assert kept[0].note == "said by phone"


async def test_what_is_seen_ahead_is_not_kept(registry: FlowRegistry, memory: ListMemory, path: Path) -> None:
    with OutcomeLog(path) as log:
        selector = FlowSelector(ScriptedModel(), registry, memory, "shop", log=log)
        (seen,) = await selector.select_many(["my money back"], ask=False)
        assert seen.logged == ""
        assert list(log.read()) == []


@pytest.mark.parametrize(
    ("right", "said"),
    [
        pytest.param("refund_ordr", r"no flow 'refund_ordr' \(did you mean 'refund_order'", id="misspelt"),
        pytest.param(["track_order", "zzz"], "no flow 'zzz'; right=", id="one of two"),
        pytest.param([7], "no flow '7'", id="no name"),
        pytest.param(5, "right must be names of flows", id="a number"),
        pytest.param(["\ud800"], "no flow", id="half a pair"),
    ],
)
async def test_a_flow_that_is_not_there_is_refused(
    selector: FlowSelector, path: Path, right: list[str], said: str
) -> None:
    result = await selector.select("my money back")
    with pytest.raises(ConfigError, match=said):
        await selector.feedback(result, right=right)
    assert [each.right for each in OutcomeLog.existing(path).read()] in ([], [None])


async def test_an_entry_that_is_not_there_is_refused(selector: FlowSelector) -> None:
    with pytest.raises(ConfigError, match="has no entry 'made-up'"):
        await selector.feedback("made-up", right=[])
    (blank,) = await selector.select_many([""])
    with pytest.raises(ConfigError, match="no entry in the log"):
        await selector.feedback(blank, right=[])


async def test_what_another_selector_selected_is_told_to_that_one(
    selector: FlowSelector, registry: FlowRegistry, memory: ListMemory, tmp_path: Path, path: Path
) -> None:
    async with FlowSelector(None, registry, memory, "shop", log=tmp_path / "another.db") as other:
        result = await other.select("my money back")
    for entry in (result, result.logged):
        with pytest.raises(ConfigError, match="goes to that selector"):
            await selector.feedback(entry, right="track_order")
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM feedback").fetchone() == (0,)
    database.close()


@pytest.mark.parametrize("entry", ["\ud800", "a\0b", 5, None], ids=["half a pair", "NUL", "a number", "None"])
async def test_what_is_no_entry_is_refused(selector: FlowSelector, entry: str) -> None:
    with pytest.raises(ConfigError, match="or its `logged`"):
        await selector.feedback(entry, right="track_order")
    result = await selector.select("my money back")
    with pytest.raises(ConfigError, match="note must be a string"):
        await selector.feedback(result, right=[], note=5)  # pyright: ignore[reportArgumentType]


async def test_a_log_that_cannot_be_used_is_told_of_at_once(
    registry: FlowRegistry, memory: ListMemory, path: Path
) -> None:
    path.write_text("dear diary, " * 100)
    with pytest.raises(OutcomeLogError, match="It was left as it is"):
        FlowSelector(None, registry, memory, "shop", log=path)
    with pytest.raises(ConfigError, match="log must be an OutcomeLog"):
        FlowSelector(None, registry, memory, "shop", log=7)  # pyright: ignore[reportArgumentType]


async def test_a_composite_without_its_parts_keeps_no_selection_out_of_the_log(
    selector: FlowSelector, registry: FlowRegistry, path: Path
) -> None:
    SequentialFlow(name="whole", flows=["nowhere"], registry=registry)
    await selector.select("one")
    await selector.aclose()
    assert [each.request for each in OutcomeLog.existing(path).read()] == ["one"]


@pytest.mark.spec("016.3")
async def test_a_choice_that_somebody_limited_says_nothing_of_the_request(memory: ListMemory, path: Path) -> None:
    """The candidates of a caller, flows that were left, or a closed guard: another caller may have what was missing."""
    registry = FlowRegistry(min_examples=0)
    for name in ("refund_order", "track_order", "say_hello"):
        Flow(name=name, registry=registry)
    guarded("gift", registry)
    ids = {flow.name: flow.id for flow in registry.values()}
    memory = ListMemory({"flow_id": flow.id, "flow_name": flow.name} for flow in registry.values())
    log = OutcomeLog(path)
    chooses = FlowSelector(ScriptedModel(f'["{ids["refund_order"]}"]', repeat=True), registry, memory, "shop", log=log)
    none = FlowSelector(ScriptedModel("[]", repeat=True), registry, memory, "shop", log=log, policy="recommended")
    given = [{"flow_id": ids["refund_order"], "flow_name": "refund_order", "description": "Find a parcel."}]
    expected = {
        (await chooses.select("where is my parcel", given)).logged: False,
        (await chooses.select("find the parcel", only=[ids["refund_order"], ids["track_order"]])).logged: False,
        (await chooses.select("my money back")).logged: True,
        (await chooses.select("give it back", context={"member": True})).logged: True,
        (await none.select("a gift, please")).logged: False,
        (await none.select("sing a song", context={"member": True})).logged: True,
    }
    log.close()
    assert {entry.id: entry.alone for entry in OutcomeLog(path).read()} == expected
