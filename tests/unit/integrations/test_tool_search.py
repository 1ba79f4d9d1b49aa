"""The search that all slots share: names by what is to be done, and none where none fits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import Tool
from jazz_select.errors import ConfigError, EmbeddingError
from jazz_select.integrations.tool_search import NO_TOOL, FoundTools, ToolSearcher
from jazz_select.testing import HashEmbedder, ScriptedDecider
from tests.unit.integrations.tool_list import ABOUT, NOTHING, REFUND, tools

pytestmark = pytest.mark.spec("020.2")


@pytest.fixture
async def searcher() -> AsyncIterator[ToolSearcher]:
    async with ToolSearcher(tools(), embedder="static", top_k=3) as searcher:
        yield searcher


async def test_what_fits_is_found_likeliest_first(searcher: ToolSearcher) -> None:
    found = await searcher.search(REFUND)
    assert found.names[0] == "refund_order"
    assert len(found.names) == 3
    assert list(found.confidences) == list(found.names)
    assert found.confidences["refund_order"] == max(found.confidences.values())
    assert found.message == ""
    assert found.p_none is not None
    assert found.p_none < 0.2


async def test_where_none_fits_none_is_returned_and_a_model_is_told(searcher: ToolSearcher) -> None:
    found = await searcher.search(NOTHING)
    assert (found.names, found.message) == ((), NO_TOOL)
    assert found.p_none is not None
    assert found.p_none > 0.6


async def test_a_tool_whose_name_is_said_comes_first(searcher: ToolSearcher) -> None:
    assert (await searcher.search(f"play_music while you {REFUND}")).names[0] == "play_music"


@pytest.mark.parametrize(
    ("queries", "firsts"),
    [
        pytest.param([REFUND, "will it rain in Oslo"], {"refund_order", "get_weather"}, id="the best of each"),
        pytest.param([NOTHING, "will it rain in Oslo"], {"get_weather"}, id="one of them finds none"),
        pytest.param([7, None, "will it rain in Oslo"], {"get_weather"}, id="what is no text is passed over"),
    ],
)
async def test_several_queries_share_the_places(queries: list[Any], firsts: set[str], searcher: ToolSearcher) -> None:
    found = await searcher.search(queries, top_k=2)
    assert len(found.names) <= 2
    assert firsts <= {*found.names}


@pytest.mark.parametrize("query", ["", "  ", [], None, 7], ids=repr)
async def test_no_query_finds_nothing(query: Any, searcher: ToolSearcher) -> None:
    assert await searcher.search(query) == FoundTools(message=NO_TOOL)


async def test_only_what_is_given_is_found(searcher: ToolSearcher) -> None:
    assert "refund_order" in (await searcher.search(REFUND)).names
    others = [tool for tool in tools() if tool.name != "refund_order"]
    assert "refund_order" not in (await searcher.search(REFUND, others)).names


async def test_new_and_changed_tools_are_found_by_their_texts(searcher: ToolSearcher) -> None:
    await searcher.search(REFUND)
    drill = Tool(name="drill", description="Drill a hole into the moon.")
    assert (await searcher.search(NOTHING, [*tools(), drill])).names[0] == "drill"
    async with ToolSearcher(embedder="static") as fresh:
        await fresh.search(NOTHING, tools())
        changed = [Tool(name=tool.name, description="Drill a hole into the moon.") for tool in tools()[:1]]
        assert (await fresh.search(NOTHING, [*changed, *tools()[1:]])).names[0] == tools()[0].name


async def test_what_the_searcher_was_told_of_a_tool_takes_the_place_of_a_framework_s_text() -> None:
    known = Tool(name="f17", description="Drill a hole into the moon.")
    async with ToolSearcher([known], embedder="static") as searcher:
        found = await searcher.search(NOTHING, [*tools(), Tool(name="f17", description="Internal function 17.")])
    assert found.names[0] == "f17"


async def test_examples_of_a_tool_that_is_not_there_are_named() -> None:
    examples = {"refund_ordr": ["I want my money back"]}
    async with ToolSearcher(tools(), embedder="static", examples=examples) as searcher:
        (note,) = (await searcher.search(REFUND)).notes
    assert note.startswith("there are examples for a tool that is not here: refund_ordr")
    assert "did you mean 'refund_order'?" in note


async def test_a_decision_model_says_that_none_fits() -> None:
    few = tools()[:4]  # of so few, recall knows nothing
    async with ToolSearcher(few, embedder="static", decider=ScriptedDecider("none", sure=0.99)) as searcher:
        found = await searcher.search(REFUND)
    assert (found.names, found.message) == ((), NO_TOOL)
    assert found.p_none is not None
    assert found.p_none > 0.6


async def test_searches_at_the_same_time_index_once() -> None:
    embedder = HashEmbedder()
    async with ToolSearcher(tools(), embedder=embedder) as searcher:
        first, *others = await asyncio.gather(*(searcher.search(REFUND) for _ in range(8)))
    assert all(other == first for other in others)


class Broken(HashEmbedder):
    """Fails when it is to embed."""

    def embed(self, texts: Any) -> Any:
        raise EmbeddingError("broken", "the weights are gone")


async def test_a_failure_is_told_and_does_not_end_the_run_around_it() -> None:
    async with ToolSearcher(tools(), embedder=Broken()) as searcher:
        found = await searcher.search(REFUND)
        assert found.names == ()
        assert "the weights are gone" in found.notes[0]
        assert found.message.startswith("The search failed")
        assert await searcher.narrow(REFUND) == tuple(ABOUT)


async def test_what_a_user_says_narrows_and_hides_nothing_else(searcher: ToolSearcher) -> None:
    shown = await searcher.narrow(REFUND, top_k=3)
    assert len(shown) == 3
    assert "refund_order" in shown
    assert len(await searcher.narrow(NOTHING, top_k=3)) == 3
    assert set(await searcher.narrow(REFUND, top_k=99)) == set(ABOUT)


async def test_a_closed_searcher_opens_anew() -> None:
    searcher = ToolSearcher(tools(), embedder="static")
    before = await searcher.search(REFUND)
    await searcher.aclose()
    after = await searcher.search(REFUND)
    assert after.names == before.names
    assert after.confidences == pytest.approx(before.confidences)  # sums are rounded by where arrays lie in memory
    await searcher.aclose()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"top_k": 0}, id="no place"),
        pytest.param({"tools": ["refund"]}, id="no tools"),
        pytest.param({"decider": object()}, id="no decision model"),
        pytest.param({"embedder": "telepathy"}, id="no embedder"),
    ],
)
async def test_what_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        async with ToolSearcher(**options) as searcher:
            await searcher.search(REFUND, tools())


@given(queries=st.lists(st.sampled_from([REFUND, NOTHING, "", "play_music", "an e-mail to Bo"]), max_size=10))
def test_names_are_known_each_once_and_no_more_than_asked(queries: list[str]) -> None:
    async def searched() -> FoundTools:
        async with ToolSearcher(tools(), embedder=HashEmbedder()) as searcher:
            return await searcher.search(queries, top_k=2)

    found = asyncio.run(searched())
    assert len(found.names) == len({*found.names}) <= 2
    assert {*found.names} <= {*ABOUT}
    assert bool(found.names) != bool(found.message)
