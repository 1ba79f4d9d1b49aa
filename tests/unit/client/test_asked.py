"""A question that a service asks comes to the client as data, and its answer decides there as in process."""

from typing import Any

import pytest

from jazz_select import FlowSelectionResult
from jazz_select.client import RemoteSelector
from jazz_select.stages import UserOption, UserQuestion
from tests.unit.client.serving import KEY, catalogue, serving

pytestmark = pytest.mark.spec("009.2")

ASKS: dict[str, Any] = {"ask_user": True, "max_error": 0.01}


def question_of(result: FlowSelectionResult) -> UserQuestion:
    assert result.decision.reason == "ask"
    assert result.decision.question is not None
    return result.decision.question


async def test_an_answer_decides_in_another_process_too() -> None:
    async with catalogue(**ASKS) as made, serving(made) as url, RemoteSelector(url, key=KEY, agent_id="shop") as remote:
        asked = await remote.select("something about my order")
        question = question_of(asked)
        last = question.options[-1]
        for given in (asked.decision, question):
            answered = await remote.select(str(len(question.options)), asked=given)
            assert (answered.names, answered.decision.reason) == ([last.flow_name], "user")


async def test_a_forged_question_chooses_nothing_that_is_not_there() -> None:
    async with catalogue(**ASKS) as made, serving(made) as url, RemoteSelector(url, key=KEY, agent_id="shop") as remote:
        options = tuple(UserOption(flow_id=each, flow_name=each, title=each) for each in ("gone", "of another"))
        forged = UserQuestion(text="Which?", options=options, request="something")
        answered = await remote.select("1", asked=forged)
        assert (answered.names, answered.decision.reason) == ([], "none")
