"""How much words count beside vectors where no flow has examples: the more, the more the catalogue says."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import pytest

from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.ports import Vectors

pytestmark = pytest.mark.spec("006.8")

REQUEST = "measure the crate"
NEAR, SAID = "freight_survey", "box_scale"
_COSINES = {"freight": 0.9, "box": 0.73, "crate": 1.0}


class _Placed:
    """The request lies nearer to the flow that shares no word with it."""

    identity, dim, offload = "placed", 4, False

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32).reshape(-1, self.dim)

    def embed_query(self, text: str) -> Vectors:
        cosine = next((each for word, each in _COSINES.items() if word in text), 0.0)
        other = 3 if cosine == 0 else 1 if "freight" in text else 2
        row = np.zeros(self.dim, dtype=np.float32)
        row[0], row[other] = cosine, sqrt(1 - cosine**2)
        return row


def _catalogue(*, others: int, words: int) -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    Flow(name=NEAR, description="freight survey", registry=registry)
    Flow(name=SAID, description="box scale: measure one crate", registry=registry)
    for number in range(others):
        told = " ".join(f"w{number}x{word}" for word in range(words))
        Flow(name=f"other_{number}", description=told, registry=registry)
    return registry


@pytest.mark.parametrize(
    ("others", "words", "first"),
    [(0, 0, NEAR), (20, 5, NEAR), (60, 500, SAID)],
    ids=["two names", "a few short ones", "30,000 words"],
)
async def test_words_count_more_the_more_the_catalogue_says(others: int, words: int, first: str) -> None:
    async with await ProceduralMemory.open(":memory:", embedder=_Placed()) as memory:
        await sync_registry(memory, "a", _catalogue(others=others, words=words))
        found = await memory.recall(REQUEST, "a", top_k=2)
        assert {each["flow_name"] for each in found} == {NEAR, SAID}
        assert found[0]["flow_name"] == first


async def test_it_counts_the_catalogue_as_it_is_now() -> None:
    async with await ProceduralMemory.open(":memory:", embedder=_Placed()) as memory:
        for others, first in ((60, SAID), (0, NEAR), (60, SAID)):
            await sync_registry(memory, "a", _catalogue(others=others, words=500), allow_delete=True)
            assert (await memory.recall(REQUEST, "a"))[0]["flow_name"] == first
