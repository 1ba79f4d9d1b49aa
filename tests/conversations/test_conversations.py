"""Each conversation of `scripts/`, played with its cassette, comes out as its file says."""

import pytest

from jazz_select import ProceduralMemory
from tests.conversations.desk import desk_for
from tests.conversations.judge import problems
from tests.conversations.play import play
from tests.conversations.script import Script, scripts
from tests.conversations.tape import NativeTape, Tape
from tests.vectors import NEEDS_STATIC

ALL = scripts()


@NEEDS_STATIC
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.spec("010.10")
@pytest.mark.parametrize("script", [pytest.param(each, id=each.name) for each in ALL])
async def test_a_conversation_comes_out_as_it_should(script: Script, memory: ProceduralMemory) -> None:
    tape = Tape(script.cassette)
    found = problems(await play(script, tape, desk_for(script, tape, memory)))
    assert not found, "\n\n".join(map(str, found))


OTHERWISE = {"hacked-account": (4, "+assistant: I would remove your old device from the account fay@example.org")}
"""Conversations to turn and line that native calls make another: a call that destroys and stands in prose has to be
made once more by itself, and what was said beside it is lost; of a native call, the question has it."""


@NEEDS_STATIC
@pytest.mark.programs  # as long as the same in the text form
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.spec("011.10")
@pytest.mark.parametrize("script", [pytest.param(each, id=each.name) for each in ALL])
async def test_it_comes_out_likewise_by_native_calls(script: Script, memory: ProceduralMemory) -> None:
    tape = NativeTape(script.cassette)
    found = problems(await play(script, tape, desk_for(script, tape, memory)))
    otherwise = OTHERWISE.get(script.name)
    if otherwise is None:
        assert not found, "\n\n".join(map(str, found))
    else:
        assert [each.turn for each in found] == [otherwise[0]]
        assert otherwise[1] in str(found[0])


def test_there_are_conversations() -> None:
    assert ALL
    assert {each.cassette for each in ALL} >= set(ALL[0].cassette.parent.glob("*.json")), "a cassette lacks its script"
