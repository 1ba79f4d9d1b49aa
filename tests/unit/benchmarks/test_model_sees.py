"""The page shows what a model is asked: every prompt of one conversation, as the code makes it now."""

import asyncio
from collections import Counter

from benchmarks import model_sees


def test_the_page_shows_the_prompts_as_they_are() -> None:
    page = model_sees.PAGE.read_text("utf-8")
    shown = page.partition(model_sees.BEGIN)[2].partition(model_sees.END)[0]
    assert shown == model_sees.block(), "run python -m benchmarks.model_sees"


def test_the_conversation_asks_for_every_kind_of_prompt() -> None:
    asked = asyncio.run(model_sees.played())
    assert set(Counter(each.kind for each in asked)) == set(model_sees.PARTS)
    assert {(each.kind, each.turn) for each in asked} >= set(model_sees.SHOWN)
    # A reading holds the steps and tools of the two nearest flows, so that it can begin one.
    assert all(each.tokens < (4_000 if each.kind == "read" else 3_000) for each in asked)
