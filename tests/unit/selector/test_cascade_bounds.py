"""The bounds of a decision model in a cascade: time, calls at once and retries are those of its selector."""

import asyncio
from collections.abc import Mapping

import pytest

from jazz_select.agent import Agent
from jazz_select.chat.decisions import DecisionClient
from jazz_select.questions import DecisionReply, Question
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.testing import ScriptedDecider, ScriptedModel, likely
from jazz_select.values import Reason
from tests.unit.selector.test_cascade import FIRST, Sure, selector

pytestmark = pytest.mark.spec("009.2")


async def test_a_turn_that_ends_before_its_selection_keeps_time_for_the_chat_model() -> None:
    """A quarter of what the turn has left, and not of the much longer time that a selection may take."""
    decider = ScriptedDecider("1", repeat=True, delay_s=60)
    made = selector(Sure(0.97, 0.02), ScriptedModel(FIRST, repeat=True), decider=decider, max_error=0.01)
    turn = await Agent(made).turn("my money back", timeout_s=2.0)
    assert turn.selection is not None
    decision = turn.selection.decision
    assert decision.reason is Reason.LLM
    assert [(each.name, each.outcome) for each in decision.stages[1:]] == [("decider", "failed"), ("chat", "decided")]


class Counting:
    """How many calls it has been given, and how many at once at most."""

    most_options = None

    def __init__(self, error: Exception | None = None) -> None:
        self.calls = self.most = self._live = 0
        self._error = error

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        assert state
        self.calls += 1
        self._live += 1
        self.most = max(self.most, self._live)
        await asyncio.sleep(0.001)
        self._live -= 1
        if self._error is not None:
            raise self._error
        return DecisionReply({name: likely(each, "1") for name, each in questions.items()})


async def test_as_many_calls_at_once_as_the_selector_may_make() -> None:
    decider = Counting()
    made = selector(Sure(0.9, 0.05), decider=decider, max_error=0.01, model_options=ModelOptions(max_concurrency=2))
    await asyncio.gather(*(made.select(f"request {number}") for number in range(8)))
    assert (decider.calls, decider.most) == (8, 2)
    decider = Counting()
    own = DecisionClient(decider, max_concurrency=3)
    made = selector(Sure(0.9, 0.05), decider=own, max_error=0.01, model_options=ModelOptions(max_concurrency=1))
    await asyncio.gather(*(made.select(f"request {number}") for number in range(8)))
    assert decider.most == 3, "a client keeps its own"


async def test_as_many_retries_as_the_selector_makes() -> None:
    decider = Counting(ConnectionError("down"))
    await selector(Sure(0.9, 0.05), decider=decider, max_error=0.01, model_options=ModelOptions(max_retries=0)).select(
        "x"
    )
    assert decider.calls == 1
