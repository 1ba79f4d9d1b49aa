"""As few candidates as hold the right one: `recall(…, top_k="auto", coverage=…)`."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import ProceduralMemory
from jazz_select.errors import ConfigError
from jazz_select.memory.fit.model import Sets
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import CARDS, card

pytestmark = pytest.mark.spec("006.4")
TOPICS = ("invoice", "parcel", "password", "address", "voucher", "newsletter", "warranty", "complaint")
DEEDS = ("show", "send", "change", "delete")
CATALOGUE = [card(f"{deed} {topic}", f"{deed} the {topic} of a customer") for topic in TOPICS for deed in DEEDS]
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.999)


@pytest.fixture
async def memory() -> AsyncIterator[ProceduralMemory]:
    """Thirty-two flows, four to a topic."""
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder(256)) as opened:
        await opened.sync("a", CATALOGUE)
        yield opened


REQUESTS = ("show me the invoice", "please change my address", "the voucher", "what now", "delete it", "hi")


@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_set_holds_that_of_a_lower_coverage(memory: ProceduralMemory, request_: str) -> None:
    sets = [
        [each["flow_id"] for each in await memory.recall(request_, "a", "auto", coverage=level)] for level in LEVELS
    ]
    ten = [each["flow_id"] for each in await memory.recall(request_, "a", 10)]
    assert all(1 <= len(one) <= 10 and one == ten[: len(one)] for one in sets)
    assert [len(one) for one in sets] == sorted(len(one) for one in sets)
    (many,) = await memory.recall_many([request_], "a", "auto", coverage=LEVELS[2])
    assert [each["flow_id"] for each in many] == sets[2]


async def test_it_says_how_many_and_why(memory: ProceduralMemory) -> None:
    found = await memory.recall("show the invoice", "a", "auto", coverage=0.9)
    assert found.sized.startswith(f"{len(found)} of at most 10: "), found.sized
    assert "90 of 100 requests like the examples" in found.sized
    assert (await memory.recall("show the invoice", "a", 4)).sized == ""
    named = await memory.recall("Show invoice", "a", "auto")
    assert (len(named), named.sized) == (1, "1 of at most 10: the request is the name of a flow, word for word")


async def test_a_request_for_several_things_gets_the_candidates_of_each(memory: ProceduralMemory) -> None:
    one, other = "please show the invoice of a customer", "please delete the parcel of a customer"
    sizes = [len(await memory.recall(each, "a", "auto", coverage=0.8)) for each in (one, other)]
    both = await memory.recall(f"{one} and then {other}", "a", "auto", coverage=0.8)
    assert {"show invoice", "delete parcel"} <= {each["flow_name"] for each in both}
    assert len(both) > max(sizes)


async def test_a_catalogue_that_cannot_be_calibrated_gives_eight_and_says_why() -> None:
    bare = [card(f"tool {n}", f"does thing{n}") for n in range(12)]
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        await memory.sync("small", CARDS)
        await memory.sync("never", [])
        for each in bare:
            await memory.memorize(each, "unsynced")
        small = await memory.recall("money back", "small", "auto")
        assert len(small) == len(CARDS)
        assert "how many are needed is not known" in small.sized
        unsynced = await memory.recall("thing1", "unsynced", "auto")
        assert len(unsynced) == 8
        assert unsynced.sized.startswith("8 of at most 10: how many are needed is not known")
        assert await memory.recall("anything", "never", "auto") == []


CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(
    st.lists(st.floats(0, 30), min_size=1, max_size=60),
    CHANCES,
    st.tuples(st.floats(0.5, 0.999), st.floats(0.5, 0.999)),
)
def test_sizes_grow_with_the_coverage(
    scores: list[float], chances: list[float], coverages: tuple[float, float]
) -> None:
    sets = Sets(nonconformity=tuple(sorted(scores)))
    fewer, more = (sets.size(chances, coverage) for coverage in sorted(coverages))
    assert 1 <= fewer <= more <= min(10, len(chances))


@given(st.lists(CHANCES, min_size=20, max_size=60), st.floats(0.5, 0.9), st.randoms(use_true_random=False))
def test_the_wished_share_of_the_requests_it_learned_from_is_held(
    requests: list[list[float]], coverage: float, random: Random
) -> None:
    places = [random.randrange(min(len(chances), 10)) for chances in requests]
    right = [Sets.scores(chances)[place] for chances, place in zip(requests, places, strict=True)]
    sets = Sets(nonconformity=tuple(sorted(right)))
    held = [place < sets.size(chances, coverage) for chances, place in zip(requests, places, strict=True)]
    assert sum(held) >= coverage * len(held)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"top_k": "some"}, "top_k", id="another word"),
        pytest.param({"top_k": 0}, "top_k", id="none"),
        pytest.param({"top_k": None}, "top_k", id="nothing"),
        pytest.param({"top_k": "auto", "coverage": 1.0}, "coverage", id="certainty"),
        pytest.param({"top_k": "auto", "coverage": 0.2}, "coverage", id="less than half"),
        pytest.param({"top_k": "auto", "coverage": float("nan")}, "coverage", id="no number"),
        pytest.param({"top_k": "auto", "coverage": "0.9"}, "coverage", id="text"),
        pytest.param({"top_k": "auto", "coverage": True}, "coverage", id="a truth"),
    ],
)
async def test_what_cannot_work_is_refused(memory: ProceduralMemory, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"{said} must be"):
        await memory.recall("invoice", "a", **options)
