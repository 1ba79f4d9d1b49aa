"""Tools without examples: what is known of confidence by names, descriptions and parameters alone."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from jazz_select.memory.encoder import Lexical, dense_texts, prototype
from jazz_select.memory.fit.floor import with_floor
from jazz_select.memory.fit.model import RecallModel
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.ports import Vectors
from jazz_select.values import FlowCard, flow_id
from tests.vectors import EMBEDDER

VERBS = {"open": "Open a {0} to read it.", "print": "Print a {0} on paper.", "sign": "Put a signature under a {0}."}
THINGS = ("contract", "letter", "ticket", "passport", "poster", "recipe")
TOOLS = [
    FlowCard(
        id=flow_id(f"{verb}_{thing}"),
        name=f"{verb}_{thing}",
        type="tool",
        description=text.format(thing),
        text=f"{verb}_{thing}\n{text.format(thing)}",
    )
    for verb, text in VERBS.items()
    for thing in THINGS
]
AGENT = "office"


@pytest.fixture
async def memory() -> AsyncGenerator[ProceduralMemory]:
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as opened:
        yield opened


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    ("cards", "is_known"),
    [
        (TOOLS, True),
        (TOOLS[:8], True),
        (TOOLS[:7], False),
        ([replace(card, type="flow") for card in TOOLS], False),
        ([*TOOLS[1:], replace(TOOLS[0], type="flow")], False),
        ([replace(TOOLS[0], examples=("read the contract", "show me the contract")), *TOOLS[1:]], True),
    ],
    ids=["tools", "just enough", "too few", "flows", "a flow among them", "examples of one alone"],
)
async def test_only_tools_have_a_floor(memory: ProceduralMemory, cards: Sequence[FlowCard], is_known: bool) -> None:
    await memory.sync(AGENT, cards)
    found = await memory.recall("print the letter", AGENT)
    assert (found.p_none is not None, found[0]["confidence"] is not None) == (is_known, is_known)
    assert found.caveat
    assert found.answers is None


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    "said", ["print this letter", "sign my passport", "open the recipe", "a signature for a poster"]
)
@pytest.mark.parametrize("other", ["hello", "why is the sea salty?", "buy three chairs", "play some jazz music"])
async def test_a_request_for_a_tool_is_likelier_one_than_another(
    memory: ProceduralMemory, said: str, other: str
) -> None:
    await memory.sync(AGENT, TOOLS)
    inside, outside = [await memory.recall(each, AGENT) for each in (said, other)]
    assert inside.p_none is not None
    assert outside.p_none is not None
    assert inside.p_none < 0.5 < outside.p_none
    assert inside[0]["confidence"] > outside[0]["confidence"]


async def test_the_size_of_the_catalogue_changes_little(memory: ProceduralMemory) -> None:
    more = [
        replace(card, id=flow_id(f"{card.name}_{number}"), name=f"{card.name}_{number}")
        for card in TOOLS
        for number in range(9)
    ]
    chances: list[float] = []
    for cards in (TOOLS, [*TOOLS, *more]):
        await memory.sync(AGENT, cards, allow_delete=True)
        chances += [each.p_none or 0.0 for each in await memory.recall_many(["print this letter", "hello"], AGENT)]
    assert chances == pytest.approx([*chances[:2], *chances[:2]], abs=0.25)


async def test_texts_that_say_nothing_break_nothing(memory: ProceduralMemory) -> None:
    cards = [replace(card, name="・" * (number + 1), description="", text="") for number, card in enumerate(TOOLS)]
    await memory.sync(AGENT, cards)
    found = await memory.recall("hello", AGENT)
    assert found.p_none is None or 0 <= found.p_none <= 1


@pytest.mark.spec("016.11")
def test_a_cosine_counts_by_what_it_tells_of_the_tools_own_names() -> None:
    lexical, random = Lexical(), np.random.default_rng(5)
    cards = [replace(card, description=f"Number {place}.") for place, card in enumerate(TOOLS)]

    def weight(alike: float) -> float:
        """How many log odds a standard deviation of cosines is worth if names and sentences are so much alike."""
        rows: dict[str, Vectors] = {}
        for card in cards:
            texts = random.normal(size=(len(dense_texts(card)), 64))
            texts[-1] = alike * texts[-2] + (1 - alike) * texts[-1]
            rows[card.id] = (texts / np.linalg.norm(texts, axis=1, keepdims=True)).astype(np.float32)
        prototypes = np.stack([prototype(card, rows[card.id]) for card in cards])
        apart = (prototypes @ prototypes.T)[~np.eye(len(cards), dtype=bool)]
        scope = with_floor(RecallModel(), cards, rows, lexical).scope
        assert scope is not None
        return scope.weights[0] * float(apart.std())

    nothing, something = weight(0.0), weight(0.3)
    assert nothing < 0.45 < something
