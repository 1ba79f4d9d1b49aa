"""Decision models of pydantic-ai against a real HTTP server that speaks each dialect, and what comes of it."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from importlib.util import find_spec
from typing import Any

import pytest
from pydantic_ai.models import infer_model

from jazz_select.chat.decisions import DecisionClient
from jazz_select.chat.models import as_decision_model
from jazz_select.chat.pydantic_ai_model import PydanticAIDecisions
from jazz_select.errors import (
    DecisionAskError,
    DecisionReplyError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from jazz_select.questions import ChoiceQuestion, Question, YesNoQuestion
from jazz_select.testing import PROVIDER_CASES, ProviderCase, check_decision_model
from jazz_select.threads import Deadline
from jazz_select.values import Usage
from tests.clock import until
from tests.unit.chat.decision_protocols import DECISION_PROTOCOLS, OPENAI, SYSTEM_ONE, DecisionProtocol, Gives
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import INPUT_TOKENS, OUTPUT_TOKENS, SERVED

pytestmark = pytest.mark.spec("009.1")

STATE = "my parcel <b>never</b> came 你好"
ROUTE = ChoiceQuestion({"refund": "gives money back", "track": "", "none": "anything else"}, asked="Which one?")
ASKED: Mapping[str, Question] = {"the route": ROUTE, "angry?": YesNoQuestion("Is she angry?", yes="swears")}
SILENT = ProviderCase(name="silent", act="silence")


def _installed(package: str) -> bool:
    try:
        return not package or find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _of(protocols: Sequence[DecisionProtocol]) -> list[Any]:
    there = [(each, pytest.mark.skipif(not _installed(each.needs), reason=f"no {each.needs}")) for each in protocols]
    return [pytest.param(each, id=each.name, marks=mark) for each, mark in there]


each_protocol = pytest.mark.parametrize("protocol", _of(DECISION_PROTOCOLS))


FAULTS = [each for each in PROVIDER_CASES if each.error is not None]


@each_protocol
async def test_contract(protocol: DecisionProtocol, provider: Provider) -> None:
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        await check_decision_model(model)


@each_protocol
async def test_an_answer_with_its_usage(protocol: DecisionProtocol, provider: Provider) -> None:
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        reply = await DecisionClient(model).ask(STATE, ASKED, Deadline.after(10))
    assert reply.probabilities == {
        "the route": {"refund": 0.75, "track": 0.125, "none": 0.125},
        "angry?": {"yes": 0.75, "no": 0.25},
    }
    assert reply.usage == Usage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    assert reply.model == (protocol.model.partition(":")[2] if protocol.needs else SERVED)  # Google names none
    assert reply.best("the route") == ("refund", 0.75)


@each_protocol
async def test_what_is_asked_arrives(protocol: DecisionProtocol, provider: Provider) -> None:
    async with aclosing(PydanticAIDecisions(protocol.model, settings={"extra_headers": {"x-a": "b"}})) as model:
        await model.decide(STATE, ASKED)
    (request,) = provider.requests
    assert request["model"] == protocol.model.partition(":")[2]
    assert STATE in request.values()
    for said in ("gives money back", "anything else", "Which one?", "Is she angry?", "swears"):
        assert said in str(request)
    assert provider.paths == [protocol.path], "one decide() is one request"


@each_protocol
@pytest.mark.parametrize("case", [each for each in FAULTS if each.act != "trickle"], ids=str)
async def test_what_a_provider_may_do(protocol: DecisionProtocol, case: ProviderCase, provider: Provider) -> None:
    await may_do(protocol, case, provider)


@pytest.mark.real_clock
@each_protocol
@pytest.mark.parametrize("case", [each for each in FAULTS if each.act == "trickle"], ids=str)
async def test_what_goes_on_arriving_is_given_up(
    protocol: DecisionProtocol, case: ProviderCase, provider: Provider
) -> None:
    """It never lets a still clock go on."""
    await may_do(protocol, case, provider)


async def may_do(protocol: DecisionProtocol, case: ProviderCase, provider: Provider) -> None:
    """What is no JSON, or none of the dialect, is an answer that cannot be used; all else is as with chat models."""
    provider.case = case
    limit = 0.1 if case.act in {"silence", "trickle"} else 10.0
    async with aclosing(PydanticAIDecisions(protocol.model, timeout_s=limit)) as model:
        with pytest.raises(ModelError) as caught:
            await model.decide(STATE, ASKED)
    error = caught.value
    if case.act == "garbage" and case.status == 200:
        assert isinstance(error, DecisionReplyError)
        assert not error.retryable
    else:
        assert error.retryable is case.retryable, error
        assert isinstance(error, case.error or ModelError)
    assert error.retry_after is None or case.wait_s is not None
    assert isinstance(error.__cause__, Exception)
    assert provider.paths == [protocol.path], "the vendor's client repeats nothing"


def _given(**given: Any) -> Gives:
    def gives(labels: Sequence[str]) -> Mapping[str, Any]:
        return {**dict.fromkeys(labels, 0.0), **given} if "refund" in labels else {"yes": 0.5, "no": 0.5}

    return gives


def _all_one(labels: Sequence[str]) -> Mapping[str, Any]:
    return dict.fromkeys(labels, 1.0)


def _all_equal(labels: Sequence[str]) -> Mapping[str, Any]:
    return dict.fromkeys(labels, 1 / len(labels))


def _the_first_alone(labels: Sequence[str]) -> Mapping[str, Any]:
    return {labels[0]: 1.0}


@each_protocol
@pytest.mark.parametrize(
    "gives",
    [
        pytest.param(_all_one, id="all 1"),
        pytest.param(_given(refund=0.5), id="half is missing"),
        pytest.param(_given(refund=1.5, track=-0.5), id="beyond 0 and 1"),
        pytest.param(_given(refund="much"), id="a text"),
        pytest.param(_given(refund=None), id="null"),
        pytest.param(_given(refund=float("nan")), id="NaN"),
        pytest.param(_given(refund=float("inf")), id="infinite"),
        pytest.param(_given(another=1.0), id="an unknown option"),
        pytest.param(_the_first_alone, id="an option is missing"),
        pytest.param(_all_equal, id="all equal"),
    ],
)
async def test_probabilities_that_are_none(protocol: DecisionProtocol, gives: Gives, provider: Provider) -> None:
    provider.gives = gives
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        client = DecisionClient(model)
        with pytest.raises(DecisionReplyError, match="cannot be used: ") as caught:
            await client.ask(STATE, ASKED, Deadline.after(10))
    assert not caught.value.retryable
    assert len(provider.requests) == 1


@pytest.mark.parametrize("protocol", _of([SYSTEM_ONE, OPENAI]))
async def test_what_was_rounded_to_two_decimals_still_sums_to_one(
    protocol: DecisionProtocol, provider: Provider
) -> None:
    provider.gives = lambda labels: dict(zip(labels, (0.33, 0.34, 0.34), strict=False))
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        reply = await DecisionClient(model).ask(STATE, {"route": ROUTE}, Deadline.after(10))
    assert reply.probabilities == {"route": {"refund": 0.33, "track": 0.34, "none": 0.34}}


async def test_a_refusal(provider: Provider) -> None:
    """OpenAI's dialect has an answer for it; the others refuse with a status."""
    answer = OPENAI.answer({"questions": [{"type": "predicate", "name": "angry?"}]}, provider.gives)
    answer["answers"].insert(0, {"type": "refusal", "name": "the route"})
    provider.body = answer
    async with aclosing(PydanticAIDecisions(OPENAI.model)) as model:
        with pytest.raises(DecisionReplyError, match=r"declined to answer: 'the route'") as caught:
            await DecisionClient(model).ask(STATE, ASKED, Deadline.after(10))
    assert not caught.value.retryable
    assert len(provider.requests) == 1


@each_protocol
async def test_no_text_keeps_a_request_from_being_sent(protocol: DecisionProtocol, provider: Provider) -> None:
    """Half of a surrogate pair, which somebody may say, or a server write into what its tool does."""
    half = "\ud83c or \udfb7"
    asked = {"q": ChoiceQuestion({"a": half, "b": ""}, half), "r": YesNoQuestion(half, half, half)}
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        reply = await DecisionClient(model).ask(half, asked, Deadline.after(10))
    assert reply.best("q") == ("a", 0.75)
    assert "\ufffd or \ufffd" in str(provider.requests)


@each_protocol
@pytest.mark.parametrize("body", [{}, [], {"answers": {}}, {"hello": 1}, "yes"], ids=str)
async def test_an_answer_of_another_shape(protocol: DecisionProtocol, body: object, provider: Provider) -> None:
    provider.body = body
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        with pytest.raises(ModelError) as caught:
            await model.decide(STATE, ASKED)
    assert not caught.value.retryable
    assert len(str(caught.value)) < 600


async def test_more_options_than_its_provider_takes_are_not_sent(provider: Provider) -> None:
    async with aclosing(PydanticAIDecisions(OPENAI.model)) as model:
        client = DecisionClient(model)
        assert client.most_options == 255
        fits, one_more = (ChoiceQuestion({f"o{number}": "" for number in range(size)}, "?") for size in (255, 256))
        assert len((await client.ask(STATE, {"q": fits}, Deadline.after(10))).probabilities["q"]) == 255
        with pytest.raises(DecisionAskError, match="has 256 options, and this model takes 255"):
            await client.ask(STATE, {"q": one_more}, Deadline.after(10))
        many = {f"q{number}": YesNoQuestion("?") for number in range(201)}
        with pytest.raises(DecisionAskError, match="201 questions, and its provider takes 200"):
            await client.ask(STATE, many, Deadline.after(10))
    assert len(provider.requests) == 1


@each_protocol
async def test_a_slow_provider_costs_a_deadline_and_is_then_left_alone(
    protocol: DecisionProtocol, provider: Provider
) -> None:
    provider.case = SILENT
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        client = DecisionClient(model)
        with pytest.raises(ModelTimeoutError):
            await client.ask(STATE, ASKED, Deadline.after(0.1))
        with pytest.raises(ModelUnavailableError):
            await client.ask(STATE, ASKED, Deadline.after(0.1))
    assert len(provider.requests) == 1


@each_protocol
async def test_what_passes_is_asked_again(protocol: DecisionProtocol, provider: Provider) -> None:
    provider.case = ProviderCase(name="busy", status=429, wait_s=0.01)

    async def recovers() -> None:
        await until(lambda: len(provider.requests) >= 2)
        provider.case = ProviderCase(name="well again")

    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        client = DecisionClient(model, max_retries=200)
        reply, _ = await asyncio.gather(client.ask(STATE, ASKED, Deadline.after(10)), recovers())
    assert reply.best("angry?") == ("yes", 0.75)
    assert len(provider.requests) > 2


@each_protocol
async def test_cancelling_closes_the_connection(protocol: DecisionProtocol, provider: Provider) -> None:
    provider.case = SILENT
    async with aclosing(PydanticAIDecisions(protocol.model)) as model:
        task = asyncio.ensure_future(model.decide(STATE, ASKED))
        assert await asyncio.to_thread(provider.arrived.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(provider.left.wait, 5)


@each_protocol
async def test_a_ready_model_is_as_good_as_its_name(protocol: DecisionProtocol, provider: Provider) -> None:
    ready = infer_model(protocol.model)
    async with ready:
        model = as_decision_model(ready)
        assert isinstance(model, PydanticAIDecisions)
        assert model.name == protocol.model.partition(":")[2]
        assert (await model.decide(STATE, ASKED)).best("the route") == ("refund", 0.75)


async def test_one_model_string_on_two_loops(provider: Provider) -> None:
    model = PydanticAIDecisions(SYSTEM_ONE.model)

    async def once() -> str:
        async with aclosing(model):
            return (await model.decide(STATE, ASKED)).best("the route")[0]

    assert await once() == "refund"
    assert await asyncio.to_thread(asyncio.run, once()) == "refund"
