"""What models of one's own answer: cleaned by the client, as what providers answer is."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from jazz_select.chat.client import ChatClient, ChatReply, Inquiry
from jazz_select.chat.incoming import LONGEST_ID, MOST_CALLS
from jazz_select.errors import ModelError
from jazz_select.threads import Deadline
from jazz_select.values import Message, NativeCall, Reply

ASK = Inquiry((Message(role="user", content="Where?"),))


class Own:
    """Answers what it is given; in a stream, piece by piece."""

    takes_tools = True

    def __init__(self, *given: Any) -> None:
        self.given = given
        self.messages: Sequence[Message] = ()

    async def complete(self, messages: Sequence[Message], *, tools: object = ()) -> Reply:
        self.messages = messages
        return self.given[0]

    async def stream(self, messages: Sequence[Message], *, tools: object = ()) -> AsyncIterator[Any]:
        for each in self.given:
            yield each


async def asked(*given: Any, question: Inquiry = ASK) -> ChatReply:
    return await ChatClient(Own(*given)).ask(lambda: question, Deadline.after(30))


def called(*calls: Any, text: Any = "") -> Reply:
    return Reply(text=text, tool_calls=calls)


def call(own: Any, name: Any = "shelf", arguments: Any = "{}") -> NativeCall:
    return NativeCall(id=own, name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "a", "a_2"], ["a", "a_1", "a_2"]),
        (["", None, " "], ["call_1", "call_2", "call_3"]),
        (["a b", "a_b"], ["a_b", "a_b_1"]),
        (["x" * 300], ["x" * LONGEST_ID]),
    ],
    ids=["repeated", "missing", "with spaces", "long"],
)
async def test_each_call_has_an_id_of_its_own(ids: list[Any], expected: list[str]) -> None:
    reply = await asked(called(*map(call, ids)))
    assert [each.id for each in reply.tool_calls] == expected


async def test_what_is_no_text_beside_calls_does_not_lose_them() -> None:
    reply = await asked(called(call("a", " shelf<|x|>", [1]), 7, call("b", None, None), text=None))
    assert [(each.name, each.arguments) for each in reply.tool_calls] == [("shelf", "[1]"), ("", "")]
    assert reply.text == ""
    assert reply.degraded == ("1 call in the reply could not be read: a call has to be a NativeCall",)


async def test_more_calls_than_any_provider_takes_back_are_dropped_with_a_note() -> None:
    reply = await asked(called(*[call("a")] * (MOST_CALLS + 1)))
    assert len(reply.tool_calls) == MOST_CALLS
    assert reply.degraded == (
        f"the reply holds {MOST_CALLS + 1} calls; those after the first {MOST_CALLS} are dropped",
    )


async def test_the_reply_is_kept_as_it_was_written_beside_its_answer() -> None:
    reply = await asked(Reply(text="<think>hide</think>At five."))
    assert (reply.text, reply.raw) == ("At five.", "<think>hide</think>At five.")


async def test_a_stream_of_something_else_is_an_error_that_says_what_to_yield() -> None:
    async def hear(_: str) -> None:
        pass

    with pytest.raises(ModelError, match="gave a dict: it has to yield pieces of text"):
        await ChatClient(Own({"delta": "At five."})).stream(ASK, Deadline.after(30), hear)


async def test_a_model_of_ones_own_gets_each_call_answered_once() -> None:
    again = Message(role="assistant", content=" ", tool_calls=(call("a"),))
    result = Message(role="tool", content="upstairs", call_id="a", tool="shelf")
    model = Own(Reply(text="pong"))
    question = Inquiry((*ASK.messages, again, result, again, *ASK.messages))
    await ChatClient(model).ask(lambda: question, Deadline.after(30))
    _, first, found, second, missing, last = model.messages
    assert [each.id for each in (*first.tool_calls, *second.tool_calls)] == [found.call_id, missing.call_id]
    assert (first.content, found.content, last) == ("", "upstairs", ASK.messages[0])
    assert found.call_id != missing.call_id
    assert "may have been made" in missing.content
