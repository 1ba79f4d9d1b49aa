"""A question that a service asks comes to the client as data, and its answer decides there as in process."""

from typing import Any

import httpx
import pytest

from jazz_select import FlowSelectionResult
from jazz_select.client import RemoteSelector
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.stages import UserOption, UserQuestion
from tests.unit.client.serving import KEY, catalogue, serving

pytestmark = pytest.mark.spec("009.2")

BEARER = {"Authorization": f"Bearer {KEY}"}
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


async def test_one_of_several_may_be_an_answer() -> None:
    async with catalogue(**ASKS) as made, serving(made) as url, RemoteSelector(url, key=KEY, agent_id="shop") as remote:
        question = question_of(await remote.select("something about my order"))
        last, first = question.options[-1], question.options[0]
        requests = [
            "something about my order",
            SelectRequest(str(len(question.options)), asked=question),
            SelectRequest("something about my order", only=[first.flow_id]),
        ]
        asked, answered, among = await remote.select_many(requests)
        assert question_of(asked).options == question.options
        assert (answered.names, answered.decision.reason) == ([last.flow_name], "user")
        assert among.names == [first.flow_name]


async def test_a_number_that_no_option_has_is_asked_about_once_more() -> None:
    async with catalogue(**ASKS) as made, serving(made) as url, RemoteSelector(url, key=KEY, agent_id="shop") as remote:
        first = question_of(await remote.select("something about my order"))
        again = question_of(await remote.select("9", asked=first))
        assert (again.again, again.options, again.request) == (True, first.options, first.request)
        assert again.text.startswith("There is no number 9 here: please say 1 ")
        assert (await remote.select("1", asked=again)).names == [first.options[0].flow_name]


async def test_a_decision_without_a_question_is_said_to_have_none_as_in_process() -> None:
    async with catalogue() as made, serving(made) as url, RemoteSelector(url, key=KEY, agent_id="shop") as remote:
        first = await remote.select("something about my order")
        assert first.decision.question is None
        here = await made.live.selector.select("something about my order", asked=first.decision)
        there = await remote.select("something about my order", asked=first.decision)
        assert there.decision.notes == here.decision.notes
        assert "carries no question" in there.decision.notes[0]


async def test_a_forged_question_chooses_nothing_that_is_not_there() -> None:
    async with catalogue(**ASKS) as made, serving(made) as url, RemoteSelector(url, key=KEY, agent_id="shop") as remote:
        options = tuple(UserOption(flow_id=each, flow_name=each, title=each) for each in ("gone", "of another"))
        forged = UserQuestion(text="Which?", options=options, request="something")
        answered = await remote.select("1", asked=forged)
        assert (answered.names, answered.decision.reason) == ([], "none")


@pytest.mark.parametrize("part", ["decision", "question"])
@pytest.mark.parametrize("path", ["/v1/select", "/v1/select_many"])
async def test_over_http_the_decision_is_sent_back_as_the_question_is(path: str, part: str) -> None:
    async with catalogue(**ASKS) as made, serving(made) as url, httpx.AsyncClient(base_url=url, headers=BEARER) as web:
        first = (await web.post("/v1/select", json={"request": "something about my order"})).json()["decision"]
        last = first["question"]["options"][-1]
        one = {"request": str(len(first["question"]["options"])), "asked": first if part == "decision" else first[part]}
        many = path.endswith("many")
        found = (await web.post(path, json={"requests": [one]} if many else one)).json()
        decision = (found["results"][0] if many else found)["decision"]
        assert (decision["reason"], decision["chosen_ids"]) == ("user", [last["flow_id"]])


NO_QUESTIONS: dict[str, tuple[Any, int]] = {
    "a decision without one": ({"reason": "confident", "question": None}, 200),
    "nothing of either": ({}, 400),
    "a question that is a text": ({"question": "which?"}, 400),
    "a decision in a decision": ({"question": {"question": None}}, 400),
    "more than a question": ({"question": None, "text": "?", "options": []}, 400),
    "a list": ([], 400),
}


@pytest.mark.parametrize(("given", "status"), NO_QUESTIONS.values(), ids=NO_QUESTIONS)
async def test_over_http_what_has_no_question_is_a_request_or_refused(given: Any, status: int) -> None:
    async with catalogue() as made, serving(made) as url, httpx.AsyncClient(base_url=url, headers=BEARER) as web:
        found = await web.post("/v1/select", json={"request": "refund my order", "asked": given})
        assert found.status_code == status
