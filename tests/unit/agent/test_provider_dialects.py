"""Odd replies and odd conversations, over all four dialects: the provider refuses nothing, the user sees the answer."""

import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from jazz_select.agent import run_chain, stream_respond
from jazz_select.agent.chain.responder import Answer
from jazz_select.agent.chain.transcript import Chain, Finished, FormatRestarted, OutputText, ToolResult
from jazz_select.chat.pydantic_ai_model import PydanticAIModel
from jazz_select.errors import ChainError, ConfigError, MessageError, ModelError
from jazz_select.values import Message, NativeCall, OfferedTool
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import CALLING, CHAT, Call, Protocol
from tests.unit.chat.strict import refusal_of, streamed, whole

ANSWER = "Both stand upstairs."
each_protocol = pytest.mark.parametrize("protocol", CALLING, ids=str)
both_ways = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def shelf(isbn: str) -> str:
    """Where a book stands."""
    return f"shelf of {isbn}" if isbn != "none" else ""


def book(own: str, isbn: str = "1", name: str = "shelf") -> Call:
    return own, name, json.dumps({"isbn": isbn})


@dataclass(frozen=True)
class Odd:
    """A reply with calls, or several in a row, and the isbns whose shelf is found."""

    calls: Sequence[Call]
    found: Sequence[str]
    pieces: Sequence[str] = ()
    more: Sequence[Call] = ()


CALLED = {
    "one id twice": Odd([book("c", "1"), book("c", "2")], ["1", "2"]),
    "one id in two replies": Odd([book("shelf:0", "1")], ["1", "2"], more=[book("shelf:0", "2")]),
    "one call twice": Odd([book("c", "1"), book("c", "1")], ["1", "1"]),
    "no id": Odd([book("", "1"), book("", "2")], ["1", "2"]),
    "an id of blanks": Odd([book("  ", "1")], ["1"]),
    "an id with spaces and signs": Odd([book("call 1/ä:0", "1"), book("call 1/ö:0", "2")], ["1", "2"]),
    "an id of 300 characters": Odd([book("x" * 300, "1"), book("x" * 299, "2")], ["1", "2"]),
    "blank text beside": Odd([book("c")], ["1"], pieces=[" \n", "\n"]),
    "reasoning beside": Odd([book("c")], ["1"], pieces=["<thi", "nk>hide the till</think>"]),
    "text beside": Odd([book("c")], ["1"], pieces=["I look."]),
    "no name": Odd([book("c", name="")], []),
    "a strange name": Odd([book("c", name="what is (this)?")], []),
    "remains of a template in the name": Odd([book("c", name="shelf<|channel|>json")], ["1"]),
    "arguments that are no object": Odd([("c", "shelf", "[1]")], []),
    "arguments that are no JSON": Odd([("c", "shelf", '{"isbn": ')], []),
    "no arguments": Odd([("c", "shelf", "")], []),
    "many calls": Odd([book(f"c{n % 7}", str(n)) for n in range(30)], [str(n) for n in range(30)]),
    "too many calls": Odd([book("c", str(n)) for n in range(130)], []),
    "an empty result": Odd([book("c", "none")], ["none"]),
}


async def answered(model: PydanticAIModel, asked: str, *, streams: bool) -> tuple[Chain, str]:
    """The chain, and what the user saw of its answer in the end."""
    if not streams:
        chain = await run_chain(model, asked, [shelf])
        return chain, chain.answer
    seen, answers = "", list[Answer]()
    async with aclosing(stream_respond(model, asked, [shelf])) as events:
        async for event in events:
            if isinstance(event, OutputText):
                assert "till" not in event.delta
                seen += event.delta
            elif isinstance(event, FormatRestarted):
                seen = ""
            elif isinstance(event, Finished):
                answers.append(event.answer)
    return answers[0].chain, seen


@both_ways
@each_protocol
async def test_odd_calls_are_answered_and_not_refused(protocol: Protocol, *, streams: bool, provider: Provider) -> None:
    """All in one, since a client takes longer to make than to ask."""

    def write(pieces: Sequence[str], calls: Sequence[Call]) -> Any:
        return (streamed if streams else whole)(protocol, pieces, calls)

    came: dict[str, Any] = {}
    provider.refuses = refusal_of(protocol)
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        for name, odd in CALLED.items():
            more = [write((), odd.more)] if odd.more else []
            provider.script = [write(odd.pieces, odd.calls), *more, write([ANSWER], ())]
            try:
                chain, seen = await answered(model, "Where are both books?", streams=streams)
            except ChainError as error:
                came[name] = str(error)
                continue
            outputs = [each.output for each in chain.entries if isinstance(each, ToolResult) and each.ok]
            came[name] = (chain.status, chain.answer, seen, outputs)
            assert "till" not in json.dumps([each.reply for each in chain.records])
    assert came == {
        name: ("answered", ANSWER, ANSWER, [shelf(isbn) for isbn in odd.found]) for name, odd in CALLED.items()
    }


REASONED = {
    "before the answer": (["<think>hide the till</think>", ANSWER], ANSWER),
    "cut by pieces": (["<thi", "nk>hide the t", "ill</th", "ink>\n\nBoth stand", " upstairs."], ANSWER),
    "in a piece with the answer": (["<think>\nhide", " the till</think>Both stand upstairs."], ANSWER),
    "in the middle": (["Both stand", " <thinking>hide the till</thin", "king>upstairs."], ANSWER),
    "without an end": ([ANSWER, "\n<think>hide the till"], ANSWER),
    "in channels": (
        ["<|channel|>analysis<|mess", "age|>hide the till<|end|><|start|>assistant<|channel|>final<|message|>", ANSWER],
        ANSWER,
    ),
    "in another spelling": (["[THINK]hide the till[/TH", f"INK]{ANSWER}"], ANSWER),
    "quoted within": (["<think>not `</think>` yet: hide the till</think>", ANSWER], ANSWER),
    "a tag in code": (["Write `<thi", "nk>` and `</think>`."], "Write `<think>` and `</think>`."),
    "a tag in a sentence": (["The <think> tag begins it."], "The <think> tag begins it."),
}


@both_ways
@each_protocol
async def test_reasoning_in_text_is_never_shown(protocol: Protocol, *, streams: bool, provider: Provider) -> None:
    came: dict[str, Any] = {}
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        for name, (pieces, _) in REASONED.items():
            provider.script = [(streamed if streams else whole)(protocol, pieces, ())]
            chain, seen = await answered(model, "When do you close?", streams=streams)
            came[name] = (chain.answer, seen.rstrip())
    assert came == {name: (expected, expected) for name, (_, expected) in REASONED.items()}


@each_protocol
async def test_reasoning_whose_beginning_was_kept_back_is_withdrawn(protocol: Protocol, provider: Provider) -> None:
    provider.script = [streamed(protocol, ["hide it", "</think>", ANSWER], ())]
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        chain, seen = await answered(model, "When do you close?", streams=True)
    assert (chain.answer, seen) == (ANSWER, ANSWER)


@both_ways
@each_protocol
async def test_reasoning_alone_is_no_answer(protocol: Protocol, *, streams: bool, provider: Provider) -> None:
    write = streamed if streams else whole
    provider.refuses = refusal_of(protocol)
    provider.script = [write(protocol, ["<think>hide the till</think>"], ()), write(protocol, [ANSWER], ())]
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        chain, seen = await answered(model, "When do you close?", streams=streams)
    assert (chain.answer, seen) == (ANSWER, ANSWER)
    assert any("reasoning and no answer" in note for note in chain.notes)


@each_protocol
async def test_a_stream_without_its_end_is_cut_off(protocol: Protocol, provider: Provider) -> None:
    """No call of it is made, since the next words might have changed it; a text counts, with a note."""
    provider.refuses = refusal_of(protocol)
    provider.script = [
        streamed(protocol, (), [book("c")], ends=False),
        streamed(protocol, ["Both stand"], (), ends=False),
    ]
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        chain, _ = await answered(model, "Where are both books?", streams=True)
    results = [each for each in chain.entries if isinstance(each, ToolResult)]
    assert [(each.called, each.error) for each in results] == [(False, "not run: the reply was cut off")]
    assert [each.truncated for each in chain.records] == [True, True]
    assert chain.answer == "Both stand"
    assert "reply 2: the model's reply was cut off: its stream ended without a finish reason" in chain.notes


# --- conversations ---


def said(roles: str, *texts: str) -> list[Message]:
    long: dict[str, Any] = {"s": "system", "u": "user", "a": "assistant"}
    given = texts or tuple(f"text {number}" for number in range(len(roles)))
    return [Message(role=long[role], content=text) for role, text in zip(roles, given, strict=True)]


CALL = NativeCall(id="c1", name="shelf", arguments={"isbn": "1"})


def calling(*calls: NativeCall, text: str = "") -> Message:
    return Message(role="assistant", content=text, tool_calls=calls)


def result(own: str = "c1", text: str = "upstairs") -> Message:
    return Message(role="tool", content=text, call_id=own, tool="shelf")


ASK = said("u", "Where?")
CONVERSATIONS = {
    "the assistant begins": said("au"),
    "the assistant begins after the system": said("sau"),
    "two systems": said("ssu"),
    "a system in the middle": said("uasu"),
    "a system alone": said("s"),
    "the system at the end": said("us"),
    "two users, two assistants": said("uuaau"),
    "a blank text": said("sua", " ", "\n", "Hi.") + ASK,
    "a blank assistant": said("uau", "Hi.", " ", "Where?"),
    "white space at the end": said("ua", "Hi.", "I think \n"),
    "a call without a result": [*ASK, calling(CALL), *ASK],
    "a call at the end": [*ASK, calling(CALL)],
    "a result without a call": [*ASK, result(), *ASK],
    "a result first": [result(), *ASK],
    "a text before the result": [*ASK, calling(CALL), *said("u", "Well?"), result()],
    "a result twice": [*ASK, calling(CALL), result(), result(text="downstairs")],
    "results in another order": [
        *ASK,
        calling(CALL, NativeCall(id="c2", name="shelf", arguments="{}")),
        result("c2"),
        result("c1"),
    ],
    "one of two results": [*ASK, calling(CALL, NativeCall(id="c2", name="shelf", arguments="{")), result("c2")],
    "one id again": [*ASK, calling(CALL), result(), *ASK, calling(CALL), result(), *ASK],
    "blank text beside a call": [*ASK, calling(CALL, text=" \n"), result()],
    "an empty result": [*ASK, calling(CALL), result(text="")],
    "two replies with calls": [*ASK, calling(CALL), calling(NativeCall(id="c2", name="", arguments="[1]")), *ASK],
    "no id": [*ASK, calling(NativeCall(id="", name="a b", arguments="")), result("")],
    "parts": [Message(role="user", content=[{"type": "text", "text": "Where?"}])],  # pyright: ignore[reportArgumentType]
    "no content": [*ASK, Message(role="assistant", content=None), *ASK],  # pyright: ignore[reportArgumentType]
    "half an emoji": said("u", "Where? \ud83d"),
}
TOOL = OfferedTool(name="shelf", description="Where a book stands.", schema={"type": "object", "properties": {}})


@each_protocol
async def test_odd_conversations_are_not_refused(protocol: Protocol, provider: Provider) -> None:
    refused: dict[str, str] = {}
    provider.refuses = refusal_of(protocol)
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        for name, messages in CONVERSATIONS.items():
            try:
                reply = await model.complete(messages, tools=[TOOL])
                *_, last = [each async for each in model.stream(messages, tools=[TOOL])]
            except ModelError as error:
                refused[name] = str(error)
            else:
                assert (reply.text, last) == ("pong", reply)
    assert refused == {}


async def test_no_result_is_lost_and_what_is_missing_is_told(provider: Provider) -> None:
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        await model.complete(CONVERSATIONS["one of two results"], tools=[TOOL])
        await model.complete(CONVERSATIONS["a result without a call"], tools=[TOOL])
    missing, orphan = provider.requests
    told = {each["tool_call_id"]: each["content"] for each in missing["messages"] if each["role"] == "tool"}
    assert "may have been made" in told["c1"]
    assert told["c2"] == "upstairs"
    assert "upstairs" in orphan["messages"][0]["content"]


BROKEN: list[Any] = [
    pytest.param([Message(role="user", content=object())], "content is a object", id="no text"),  # pyright: ignore[reportArgumentType]
    pytest.param([Message(role="user", content=[{"type": "image_url"}])], "more than text", id="a picture"),  # pyright: ignore[reportArgumentType]
    pytest.param([Message(role="developer", content="x")], "use one of system, user", id="a role"),  # pyright: ignore[reportArgumentType]
    pytest.param([{"role": "user", "content": "x"}], "it is a dict", id="a dictionary"),
    pytest.param([Message(role="assistant", content="", tool_calls=[7])], "NativeCall", id="a call"),  # pyright: ignore[reportArgumentType]
    pytest.param(
        [Message(role="user", content="", tool_calls=(CALL,))], "give them to the assistant", id="a user's call"
    ),
]


@pytest.mark.parametrize(("messages", "problem"), BROKEN)
async def test_what_cannot_be_sent_is_an_error_that_says_what_to_do(
    messages: Any, problem: str, provider: Provider
) -> None:
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        with pytest.raises(MessageError, match=problem):
            await model.complete(messages)
        with pytest.raises(MessageError, match=problem):
            [each async for each in model.stream(messages)]
    assert provider.requests == []


async def test_a_schema_that_is_no_json_is_an_error_that_names_the_tool(provider: Provider) -> None:
    tool = OfferedTool(name="shelf", description="", schema={"type": "object", "default": {1, 2}})
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        with pytest.raises(ConfigError, match="the schema of the tool 'shelf' cannot be sent"):
            await model.complete(ASK, tools=[tool])
    assert provider.requests == []
