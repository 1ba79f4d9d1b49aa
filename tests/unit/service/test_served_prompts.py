"""An agent that a service makes by itself asks with prompts that only grow, as is recommended."""

import pytest

from jazz_select.testing import ScriptedModel
from tests.unit.service.served import Shop, catalogue, memory


@pytest.mark.spec("018.10")
async def test_what_a_turn_asks_begins_with_what_the_turn_before_asked() -> None:
    model = ScriptedModel("{}", "Good morning!", "{}", "The same to you.")
    async with memory() as index:
        made = await catalogue(index, Shop().sources, model=model).reload()
        first = await made.agent.turn("good morning to all of you")
        second = await made.agent.turn("and a nice day", first.conversation)
    assert [first.text, second.text] == ["Good morning!", "The same to you."]
    read, answered, read_again, answered_again = model.calls
    assert read_again[0] == read[0]
    assert read_again[1].content.startswith(read[1].content.partition("</conversation>")[0])
    assert answered_again[0] == answered[0]
    assert [each.name for each in second.conversation.shown]
