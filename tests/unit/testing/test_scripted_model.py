"""The scripted chat model."""

import asyncio
from typing import Any

import pytest

from jazz_select.errors import ModelError
from jazz_select.ports import takes_schema
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message, Reply

ASK = [Message(role="user", content="ping")]
BUSY = ModelError("m", "busy", retryable=True)


async def test_replies_come_in_order_and_calls_are_recorded() -> None:
    full = Reply(text="b", model="m")
    model = ScriptedModel("a", full, lambda messages: messages[0].content.upper(), lambda _: full)
    assert await model.complete(ASK) == Reply(text="a", model="scripted")
    assert await model.complete([*ASK, *ASK]) is full
    assert (await model.complete(ASK)).text == "PING"
    assert await model.complete(ASK) is full
    assert model.calls == [tuple(ASK), (*ASK, *ASK), tuple(ASK), tuple(ASK)]


@pytest.mark.parametrize("error", [BUSY, asyncio.CancelledError()], ids=["error", "cancelling"])
async def test_an_exception_is_raised_and_the_call_recorded(error: BaseException) -> None:
    model = ScriptedModel(error, "then")
    with pytest.raises(type(error)) as caught:
        await model.complete(ASK)
    assert caught.value is error
    assert (await model.complete(ASK)).text == "then"
    assert len(model.calls) == 2


async def test_a_script_that_has_ended_says_so() -> None:
    model = ScriptedModel("a")
    await model.complete(ASK)
    with pytest.raises(AssertionError, match=r"asked 2 times and has 1 answers; add one or pass repeat=True"):
        await model.complete(ASK)
    assert len(model.calls) == 2


async def test_the_last_reply_may_repeat() -> None:
    model = ScriptedModel("a", "b", repeat=True)
    assert [(await model.complete(ASK)).text for _ in range(4)] == ["a", "b", "b", "b"]


async def test_schemas_are_recorded() -> None:
    schema = {"type": "object"}
    model = ScriptedModel("a", repeat=True, takes_schema=True)
    await model.complete(ASK, schema=schema)
    await model.complete(ASK)
    assert model.schemas == [schema, None]
    assert takes_schema(model)
    assert not takes_schema(ScriptedModel("a"))


def test_nothing_cannot_repeat() -> None:
    with pytest.raises(ValueError, match="needs an answer"):
        ScriptedModel(repeat=True)


async def test_a_delay_lets_a_timeout_strike() -> None:
    model = ScriptedModel("a", delay_s=10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(model.complete(ASK), 0.02)
    assert asyncio.get_running_loop().time() < 5
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        pytest.param(
            {"ids": ["a"]}, r"reply 2 must be a text, .* got \{'ids': \['a'\]\}; as text .*json\.dumps", id="dict"
        ),
        pytest.param(["a", "b"], r"reply 2 must be a text, .*json\.dumps\(\['a', 'b'\]\)", id="list"),
        pytest.param(
            None, "reply 2 must be a text, a Reply, an exception or a function of the messages, got None", id="None"
        ),
        pytest.param(b"a", "got b'a'$", id="bytes"),
        pytest.param(
            TimeoutError, r"reply 2 is the class TimeoutError; make it an instance, TimeoutError\(…\)", id="class"
        ),
    ],
)
def test_a_reply_of_another_kind_is_refused_where_the_script_is_written(reply: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        ScriptedModel("a", reply)
