"""A decision model, asked: what it answers comes back whole, or as an error that says what was wrong with it."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, cast

import pytest

from jazz_select.chat.client import client_for
from jazz_select.chat.decisions import DecisionClient, decision_client_for
from jazz_select.errors import (
    ConfigError,
    DecisionAskError,
    DecisionReplyError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from jazz_select.ports import DecisionModel
from jazz_select.questions import ChoiceQuestion, DecisionReply, Question, YesNoQuestion, labels_of
from jazz_select.telemetry import Trace
from jazz_select.testing import LIES, ScriptedDecider, ScriptedModel, check_decision_model, likely
from jazz_select.threads import Deadline
from jazz_select.values import Usage

pytestmark = pytest.mark.spec("009.1")

ROUTE = ChoiceQuestion({"refund": "gives money back", "track": "says where it is", "none": "anything else"}, "Which?")
ANGRY = YesNoQuestion("Is the customer angry?")
ASKED: Mapping[str, Question] = {"route": ROUTE, "angry": ANGRY}
BUSY = ModelError("m", "busy", retryable=True, retry_after=0.0)


async def ask(client: DecisionClient, state: str = "my money back", **more: Any) -> DecisionReply:
    return await client.ask(state, more.get("questions", ASKED), Deadline.after(more.get("limit_s", 10)))


async def test_what_it_answers_comes_back() -> None:
    given = {"route": {"none": 0.1, "track": 0.2, "refund": 0.7}, "angry": {"yes": 0.5, "no": 0.5}}
    model = ScriptedDecider(given, usage=Usage(input_tokens=9))
    reply = await ask(DecisionClient(model))
    assert reply == DecisionReply(given, Usage(input_tokens=9), "scripted")
    assert list(reply.probabilities["route"]) == ["refund", "track", "none"], "in the order that was asked"
    assert reply.best("route") == ("refund", 0.7)
    assert model.calls == [("my money back", ASKED)]


@pytest.mark.parametrize("lie", sorted(LIES))
async def test_a_reply_that_is_no_answer(lie: str) -> None:
    model = ScriptedDecider(LIES[lie], repeat=True)
    client = DecisionClient(model)
    for _ in range(5):
        with pytest.raises(DecisionReplyError, match="cannot be used: ") as caught:
            await ask(client)
        assert not caught.value.retryable
    assert len(model.calls) == 5, "it is not asked again, and it is not left alone: it did answer"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param({"refund": 1.0, "track": 0.0}, "lacks the options none", id="an option is missing"),
        pytest.param({"refund": 1.0, "track": 0, "none": 0, "x\ny": 0}, 'not among the options: "x\\ny"', id="unknown"),
        pytest.param({"refund": 1.0, "track": 1.0, "none": 1.0}, "each option has probability 1", id="all one"),
        pytest.param(dict.fromkeys(ROUTE.options, 0.33), "equally likely", id="all equal"),
        pytest.param({"refund": 0.9, "track": 0.3, "none": 0}, "sum to 1.200", id="too much"),
        pytest.param({"refund": 0.9, "track": 0.0, "none": 0}, "sum to 0.900", id="too little"),
        pytest.param({"refund": float("nan"), "track": 0.5, "none": 0.5}, "of refund is nan", id="nan"),
        pytest.param({"refund": float("-inf"), "track": 0.5, "none": 0.5}, "of refund is -inf", id="infinite"),
        pytest.param({"refund": 1.1, "track": -0.1, "none": 0}, "of refund, track is 1.1", id="beyond"),
        pytest.param({"refund": "1", "track": 0, "none": 0}, "of refund is 1; a number", id="a text"),
        pytest.param({"refund": True, "track": 0, "none": 0}, "of refund is True", id="a truth"),
        pytest.param({"refund": 10**400, "track": 0, "none": 0}, "of refund is 1000", id="beyond any float"),
        pytest.param([0.5, 0.5], "it is list", id="no mapping"),
        pytest.param(None, "it is NoneType", id="nothing"),
    ],
)
async def test_an_error_says_what_was_wrong(given: Any, problem: str) -> None:
    model = ScriptedDecider({"route": given, "angry": likely(ANGRY, "yes")})
    with pytest.raises(DecisionReplyError, match=re.escape(problem)) as caught:
        await ask(DecisionClient(model))
    assert caught.value.question == "route"
    assert "its answer to 'route' cannot be used" in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param((0.34, 0.33, 0.33), id="to two decimals"),
        pytest.param((0.33, 0.34, 0.34), id="rounded up"),
        pytest.param((1.0, 0.0, 0.0), id="sure"),
        pytest.param((1, 0, 0), id="whole numbers"),
        pytest.param((0.1 + 0.2, 0.3, 0.4), id="floats"),
    ],
)
async def test_a_distribution_is_one_but_for_rounding(given: tuple[float, ...]) -> None:
    answer = dict(zip(ROUTE.options, given, strict=True))
    reply = await ask(DecisionClient(ScriptedDecider({"route": answer})), questions={"route": ROUTE})
    assert reply.probabilities["route"] == answer


async def test_many_options_leave_no_more_room_for_more_than_one() -> None:
    """What was rounded to nothing cannot have been rounded up."""
    wide = ChoiceQuestion({f"o{number}": "" for number in range(200)}, "?")
    too_much = {label: 0.75 if label in {"o0", "o1"} else 0.0 for label in wide.options}
    with pytest.raises(DecisionReplyError, match=r"sum to 1\.500"):
        await ask(DecisionClient(ScriptedDecider({"q": too_much})), questions={"q": wide})


@pytest.mark.parametrize(
    ("state", "questions", "problem"),
    [
        pytest.param("hi", {}, "there is no question", id="nothing asked"),
        pytest.param(" \n", ASKED, "there is no text to judge", id="nothing to judge"),
        pytest.param("x" * 100_001, ASKED, "has 100001 characters, and may have 100000: shorten it", id="too long"),
        pytest.param("hi", {"q": ChoiceQuestion({"a": ""}, "?")}, "has 1 options, and takes two", id="no choice"),
        pytest.param("hi", {"q": ChoiceQuestion({}, "?")}, "has 0 options", id="no options"),
        pytest.param(
            "hi",
            {"a": ROUTE, "q": ChoiceQuestion(dict.fromkeys("abcd", ""), "?")},
            "the question q has 4 options, and this model takes 3: offer fewer",
            id="too many options",
        ),
    ],
)
async def test_what_cannot_be_asked_is_not_sent(state: str, questions: Mapping[str, Question], problem: str) -> None:
    model = ScriptedDecider()
    model_of_three = ScriptedDecider(most_options=3)
    for each in (model, model_of_three)[len(questions) - 1 if "takes 3" in problem else 0 :]:
        with pytest.raises(DecisionAskError, match=re.escape(problem)) as caught:
            await ask(DecisionClient(each), state, questions=questions)
        assert not caught.value.retryable
        assert each.calls == []


async def test_as_many_options_as_it_takes_are_asked() -> None:
    client = DecisionClient(ScriptedDecider("refund", repeat=True, most_options=3))
    assert client.most_options == 3
    assert (await ask(client)).best("route") == ("refund", 0.97)


class Small(ScriptedDecider):
    """Takes few tokens."""

    most_tokens = 40


@pytest.mark.spec("020.4")
async def test_more_tokens_than_the_model_takes_are_not_sent() -> None:
    model = Small("refund", repeat=True)
    client = DecisionClient(model)
    assert client.most_tokens == 40
    assert (await ask(client, "money back")).best("route")[0] == "refund"
    with pytest.raises(DecisionAskError, match="tokens, and this model takes 40: shorten the text") as caught:
        await ask(client, "money back " * 20)
    assert not caught.value.retryable
    with pytest.raises(DecisionAskError, match="this model takes 40"):
        await ask(client, "money back", questions={"q": ChoiceQuestion({"a": "one " * 50, "b": ""}, "?")})
    assert len(model.calls) == 1


@pytest.mark.parametrize("most", [None, 0, -1, True, "40"], ids=repr)
async def test_a_limit_of_tokens_that_is_none_limits_nothing(most: object) -> None:
    model = ScriptedDecider("refund", repeat=True)
    vars(model)["most_tokens"] = most
    client = DecisionClient(model)
    assert client.most_tokens is None
    assert (await ask(client, "money back " * 2_000)).best("route")[0] == "refund"


# --- bounds, as with a chat model ---


async def test_what_passes_is_asked_again() -> None:
    model = ScriptedDecider(BUSY, ConnectionError("gone"), "refund")
    assert (await ask(DecisionClient(model, max_retries=2))).best("route")[0] == "refund"
    assert len(model.calls) == 3


@pytest.mark.parametrize("error", [ModelError("m", "no such model", retryable=False), ValueError("a bug")], ids=repr)
async def test_what_does_not_pass_is_raised_as_it_is(error: Exception) -> None:
    model = ScriptedDecider(error, "refund")
    with pytest.raises(type(error)) as caught:
        await ask(DecisionClient(model))
    assert caught.value is error
    assert len(model.calls) == 1


async def test_a_slow_model_costs_one_deadline() -> None:
    model = ScriptedDecider("refund", repeat=True, delay_s=30)
    client = DecisionClient(model)
    with pytest.raises(ModelTimeoutError):
        await ask(client, limit_s=0.05)
    with pytest.raises(ModelUnavailableError):
        await ask(client, limit_s=0.05)
    assert len(model.calls) == 1


async def test_a_cancelled_caller_is_cancelled() -> None:
    model = ScriptedDecider("refund", delay_s=30)
    task = asyncio.ensure_future(ask(DecisionClient(model)))
    while not model.calls:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_more_than_so_many_are_in_flight() -> None:
    here: list[int] = []
    most = 0

    class Counts(ScriptedDecider):
        async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
            nonlocal most
            here.append(1)
            most = max(most, len(here))
            await asyncio.sleep(0)
            here.pop()
            return await super().decide(state, questions)

    client = DecisionClient(Counts("refund", repeat=True), max_concurrency=2)
    await asyncio.gather(*(ask(client) for _ in range(9)))
    assert most == 2


async def test_a_call_is_a_span() -> None:
    with Trace() as trace:
        await ask(DecisionClient(ScriptedDecider("refund", usage=Usage(input_tokens=7, output_tokens=1))))
    (found,) = trace
    assert (found.name, found.kind) == ("ScriptedDecider", "decide")
    assert found.attributes == {
        "model": "scripted",
        "sure": {"route": 0.97, "angry": 0.51},
        "input_tokens": 7,
        "output_tokens": 1,
    }
    assert found.content["state"] == "my money back"
    assert found.content["probabilities"]["angry"]["yes"] == pytest.approx(0.51)


# --- doubles and contract ---


async def test_the_contract_holds_for_what_works() -> None:
    await check_decision_model(ScriptedDecider("refund", repeat=True, most_options=3))


@pytest.mark.parametrize("lie", sorted(LIES))
async def test_the_contract_finds_each_lie(lie: str) -> None:
    with pytest.raises(AssertionError):
        await check_decision_model(ScriptedDecider(LIES[lie], repeat=True))


@pytest.mark.parametrize(
    "most", [pytest.param(0, id="none"), pytest.param("255", id="a text"), pytest.param(True, id="a truth")]
)
async def test_the_contract_wants_a_number_of_options(most: Any) -> None:
    with pytest.raises(AssertionError, match="most_options"):
        await check_decision_model(ScriptedDecider("refund", repeat=True, most_options=most))


async def test_the_contract_finds_who_swallows_being_cancelled() -> None:
    class Swallows(ScriptedDecider):
        async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError as error:
                msg = "stopped"
                raise RuntimeError(msg) from error
            return await super().decide(state, questions)

    with pytest.raises(AssertionError, match="cancelled, decide"):
        await check_decision_model(Swallows("refund", repeat=True))


async def test_a_script_that_has_ended_says_so() -> None:
    with pytest.raises(AssertionError, match="asked 1 times and has 0 answers"):
        await ScriptedDecider().decide("hi", ASKED)
    with pytest.raises(ValueError, match="needs an answer"):
        ScriptedDecider(repeat=True)


async def test_a_rule_answers() -> None:
    model = ScriptedDecider(lambda state, _: "refund" if "money" in state else "track", repeat=True)
    assert (await ask(DecisionClient(model))).best("route")[0] == "refund"
    assert (await ask(DecisionClient(model), "where is it")).best("route")[0] == "track"


def test_likely_spreads_the_rest() -> None:
    assert likely(ROUTE, "track", 0.5) == {"refund": 0.25, "track": 0.5, "none": 0.25}
    assert labels_of(ANGRY) == ("yes", "no")
    with pytest.raises(AssertionError, match="no option 'maybe'"):
        likely(ANGRY, "maybe")


# --- of which kind a model is ---


def test_a_client_is_itself() -> None:
    client = DecisionClient(ScriptedDecider())
    assert decision_client_for(client) is client
    assert decision_client_for(None) is None
    own = decision_client_for(cast("DecisionModel", ScriptedDecider()))
    assert own is not None
    assert own.name == "ScriptedDecider"


def test_a_client_of_the_other_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="it is a decision model"):
        client_for(cast("Any", DecisionClient(ScriptedDecider())))
    with pytest.raises(ConfigError, match="decider cannot be"):
        decision_client_for(cast("Any", client_for(ScriptedModel("x"))))
