"""One client for those who ask one model: asking again, streams, spans, and what they share."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from jazz_select.agent import ModelPlanner, TurnState
from jazz_select.chat.client import (
    ChatClient,
    ChatReply,
    Inquiry,
    client_for,
    correct_inquiry,
    total_usage,
    why_unusable,
)
from jazz_select.errors import ConfigError, ModelError, ModelTimeoutError, ModelUnavailableError, PlanError
from jazz_select.telemetry import Trace
from jazz_select.testing import ScriptedModel
from jazz_select.threads import Deadline, time_budget
from jazz_select.values import Message, NativeCall, Reply, Usage
from tests.unit.agent.hanging import Hang, timed

ASK = Inquiry((Message(role="user", content="a number?"),), reply_form="a number")
BUSY = ModelError("m", "busy", retryable=True, retry_after=0)
GONE = ModelError("m", "gone", retryable=False)


def ever() -> Deadline:
    return Deadline.after(None)


async def number(model: ScriptedModel, **options: Any) -> tuple[ChatReply, str]:
    """Ask until there is a number."""
    return await ChatClient(model).ask_until_usable(
        lambda: ASK,
        ever(),
        read=lambda answer: answer.text or "",
        problem=lambda _, text: "" if text.isdigit() else f"{text!r} is no number",
        **{"max_reasks": 2} | options,
    )


def counted(text: str) -> Reply:
    return Reply(text=text, usage=Usage(input_tokens=2, output_tokens=1))


AGAIN: list[Any] = [
    pytest.param((counted("1"),), {}, "1", 1, (), id="at first"),
    pytest.param((counted("x"), counted("1")), {}, "1", 2, ("asked again: 'x' is no number",), id="asked again"),
    pytest.param(
        (counted("x"), counted("y"), counted("1")),
        {},
        "1",
        3,
        ("asked again: 'x' is no number", "asked again: 'y' is no number"),
        id="and again",
    ),
    pytest.param((counted("x"), BUSY, counted("1")), {}, "1", 3, ("asked again: 'x' is no number",), id="retried"),
    pytest.param((counted("x"),), {"max_reasks": 0}, "x", 1, (), id="not at all"),
    pytest.param(
        (counted("x"), GONE),
        {},
        "x",
        1,
        ("asked again ('x' is no number), and the model failed: ModelError: the model m failed: gone",),
        id="it fails",
    ),
]


@pytest.mark.parametrize(("replies", "options", "text", "attempts", "notes"), AGAIN)
async def test_a_reply_that_is_no_use_is_asked_for_again(
    replies: Sequence[Any], options: dict[str, Any], text: str, attempts: int, notes: tuple[str, ...]
) -> None:
    answer, said = await number(ScriptedModel(*replies), **options)
    assert (said, answer.text, answer.attempts, answer.notes) == (text, text, attempts, notes)
    heard = sum(isinstance(reply, Reply) for reply in replies)
    assert answer.usage == Usage(input_tokens=2 * heard, output_tokens=heard)


async def test_the_model_is_told_what_was_wrong_and_what_is_wanted() -> None:
    model = ScriptedModel("x", "1")
    await number(model)
    before, correction = model.calls[1][-2:]
    assert (before.role, before.content) == ("assistant", "x")
    assert correction.content == "That could not be used: 'x' is no number. Answer again, with nothing but a number."
    assert model.calls[1][:-2] == ASK.messages


async def test_a_model_that_said_nothing_is_told_so() -> None:
    model = ScriptedModel(" ", "1")
    await number(model)
    assert model.calls[1][-2].content == "(no text)"


@pytest.mark.parametrize(
    ("answer", "ids", "why"),
    [
        pytest.param(ChatReply(attempts=1), [], "it was no text", id="no text"),
        pytest.param(
            ChatReply(text="x", truncated=True, attempts=1), [], "it was cut off before it ended", id="cut off"
        ),
        pytest.param(
            ChatReply(text="x", attempts=1),
            ["a", "v", "w", "x", "y"],
            "not among the candidates: v, w, x",
            id="strange, the first three",
        ),
        pytest.param(ChatReply(text="a", attempts=1), ["a"], "what it chose can not be run any more", id="gone since"),
        pytest.param(ChatReply(text="?", attempts=1), [], "no ids were found in it", id="nothing"),
    ],
)
def test_the_writer_is_told_why_a_reply_is_of_no_use(answer: ChatReply, ids: list[str], why: str) -> None:
    assert why_unusable(answer, ids, {"a"}) == why


@pytest.mark.parametrize("schema", [None, {"type": "string"}], ids=["without a schema", "with a schema"])
async def test_a_schema_goes_along_where_there_is_one(schema: dict[str, str] | None) -> None:
    model = ScriptedModel("1", takes_schema=True)
    await ChatClient(model).ask(lambda: Inquiry(ASK.messages, schema, ASK.reply_form), ever())
    assert model.schemas == [schema]


async def test_a_model_that_takes_no_schema_is_sent_none() -> None:
    model = ScriptedModel("1")
    await ChatClient(model).ask(lambda: Inquiry(ASK.messages, {"type": "string"}, ASK.reply_form), ever())
    assert model.schemas == [None]


async def test_a_client_that_is_made_for_a_model_keeps_the_bounds_that_are_given() -> None:
    at_once, most = 0, 0

    class Slow(ScriptedModel):
        async def complete(self, messages: Sequence[Message], *, schema: object = None, tools: object = ()) -> Reply:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
            return await super().complete(messages)

    client = client_for(Slow("1", repeat=True), max_concurrency=2)
    await asyncio.gather(*(client.ask(lambda: ASK, ever()) for _ in range(5)))
    assert most == 2


async def test_a_span_holds_what_was_asked_and_answered_and_notes_what_it_cost() -> None:
    reply = Reply(text="1", model="small", usage=Usage(input_tokens=3, output_tokens=1, cached_tokens=2))
    with Trace() as trace:
        await ChatClient(ScriptedModel(reply)).ask(lambda: ASK, ever())
    (chat,) = trace
    assert chat.content == {"messages": [{"role": "user", "content": "a number?"}], "reply": "1"}
    told = {"model": "small", "input_tokens": 3, "output_tokens": 1, "cached_tokens": 2}
    assert {name: chat.attributes[name] for name in told} == told
    assert "finish_reason" in chat.attributes


async def test_a_fault_at_first_passes() -> None:
    with pytest.raises(ModelError, match="gone"):
        await number(ScriptedModel(GONE))


# --- spans ---------------------------------------------------------------------


async def test_each_call_is_a_span() -> None:
    with Trace() as trace:
        await ChatClient(ScriptedModel(BUSY, "1")).ask(lambda: ASK, ever())
    assert [each.name for each in trace] == ["ScriptedModel", "ScriptedModel"]


# --- streams -------------------------------------------------------------------


class Writing(ScriptedModel):
    """Writes a letter at a time."""

    async def stream(self, messages: Sequence[Message], *, schema: object = None) -> AsyncIterator[str]:
        for letter in (await self.complete(messages)).text:
            yield letter


async def test_a_stream_is_told_piece_by_piece_and_is_one_span() -> None:
    heard: list[str] = []

    async def hear(piece: str) -> None:
        heard.append(piece)

    with Trace() as trace:
        answer = await ChatClient(Writing("a\ud800b")).stream(ASK, ever(), hear)
    assert (heard, answer.text, answer.attempts) == (["a", "\ufffd", "b"], "a\ufffdb", 1)
    assert [(each.kind, each.content["reply"]) for each in trace] == [("chat", "a\ufffdb")]


async def ignore(piece: str) -> None:
    """Hears nothing."""


async def test_a_stream_has_a_deadline_and_then_the_model_is_left_alone() -> None:
    client = ChatClient(Writing("a", delay_s=30, repeat=True))
    with pytest.raises(ModelTimeoutError):
        await client.stream(ASK, Deadline.after(0.01), ignore)
    with pytest.raises(ModelUnavailableError):
        await client.stream(ASK, ever(), ignore)
    with pytest.raises(ModelUnavailableError):
        await client.ask(lambda: ASK, ever())


class Stubborn(Writing):
    """Begins, and lets nobody end it until it is told to go on."""

    def __init__(self) -> None:
        super().__init__("a")
        self.goes_on = asyncio.Event()

    async def stream(self, messages: Sequence[Message], *, schema: object = None) -> AsyncIterator[str]:
        yield "a"
        while not self.goes_on.is_set():
            with suppress(asyncio.CancelledError):
                await self.goes_on.wait()
        yield "b"


async def test_a_stream_that_ignores_being_cancelled_is_left_and_nothing_more_is_heard_of_it() -> None:
    heard: list[str] = []

    async def hear(piece: str) -> None:
        heard.append(piece)

    model = Stubborn()
    async with asyncio.timeout(5):
        with pytest.raises(ModelTimeoutError):
            await ChatClient(model).stream(ASK, Deadline.after(0.01), hear)
    model.goes_on.set()
    await asyncio.sleep(0.01)
    assert heard == ["a"]


async def test_what_fails_before_the_first_piece_is_asked_for_whole() -> None:
    heard: list[str] = []

    async def hear(piece: str) -> None:
        heard.append(piece)

    model = Writing(BUSY, "ab")
    answer = await ChatClient(model).stream(ASK, ever(), hear)
    assert (heard, answer.text, answer.attempts) == (["ab"], "ab", 2)
    assert len(model.calls) == 2


class Halting(Writing):
    """Fails after its first letter."""

    async def stream(self, messages: Sequence[Message], *, schema: object = None) -> AsyncIterator[str]:
        yield (await self.complete(messages)).text[0]
        raise BUSY


@pytest.mark.parametrize(
    "model",
    [Writing(GONE, "a"), Halting("ab", "cd"), Writing(ModelTimeoutError("m", timeout_s=1), "a")],
    ids=["for good", "after a piece", "out of time"],
)
async def test_otherwise_a_stream_is_not_made_again(model: Writing) -> None:
    with pytest.raises(ModelError, match=r"busy|gone|no answer within"):
        await ChatClient(model).stream(ASK, ever(), ignore)
    assert len(model.calls) == 1


async def test_what_a_listener_raises_ends_the_stream_and_is_no_fault_of_the_models() -> None:
    async def fails(piece: str) -> None:
        raise ValueError(piece)

    client = ChatClient(Writing("ab", repeat=True))
    for _ in range(4):
        with pytest.raises(ValueError, match=r"^a$"):
            await client.stream(ASK, ever(), fails)


class Pipe(ScriptedModel):
    """Writes without end, and is told when nobody reads it any more."""

    closed = 0

    def stream(self, messages: Sequence[Message], *, schema: object = None) -> "Pipe":
        return self

    def __aiter__(self) -> "Pipe":
        return self

    async def __anext__(self) -> str:
        return "a"

    async def aclose(self) -> None:
        self.closed += 1


async def test_a_stream_that_nobody_reads_any_more_is_closed() -> None:
    async def fails(piece: str) -> None:
        raise ValueError(piece)

    model = Pipe()
    with pytest.raises(ValueError, match=r"^a$"):
        await ChatClient(model).stream(ASK, ever(), fails)
    assert model.closed == 1


async def test_a_model_that_cannot_be_read_while_it_writes_is_refused() -> None:
    with pytest.raises(ConfigError, match="no method 'stream'"):
        await ChatClient(ScriptedModel("a")).stream(ASK, ever(), ignore)


async def test_streams_and_questions_share_their_places() -> None:
    client = ChatClient(Writing("a", delay_s=0.02, repeat=True), max_concurrency=1)
    most = under_way = 0

    async def hear(piece: str) -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.005)
        under_way -= 1

    await asyncio.gather(*(client.stream(ASK, ever(), hear) for _ in range(4)))
    assert most == 1


@pytest.mark.parametrize("takes", [True, False], ids=["it takes schemas", "it takes none"])
async def test_a_stream_is_held_to_a_schema_where_the_model_takes_one(*, takes: bool) -> None:
    given: list[object] = []

    class Held(ScriptedModel):
        async def stream(self, messages: Sequence[Message], *, schema: object = None) -> AsyncIterator[str]:
            given.append(schema)
            yield "a"

    schema = {"type": "string"}
    client = ChatClient(Held(takes_schema=takes))
    assert (client.takes_schema, client.streams) == (takes, True)
    assert not ChatClient(ScriptedModel()).streams
    answer = await client.stream(Inquiry(ASK.messages, schema, ASK.reply_form), ever(), ignore)
    assert (answer.model, given) == ("Held", [schema if takes else None])


async def test_who_leaves_a_stream_ends_it() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    class Endless(ScriptedModel):
        async def stream(self, messages: Sequence[Message], *, schema: object = None) -> AsyncIterator[str]:
            try:
                began.set()
                await asyncio.Event().wait()
                yield "a"
            finally:
                ended.set()

    stream = asyncio.create_task(ChatClient(Endless()).stream(ASK, ever(), ignore))
    await began.wait()
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stream
    async with asyncio.timeout(5):
        await ended.wait()


async def test_what_is_no_reply_but_a_text_is_read_as_one() -> None:
    class Plain(ScriptedModel):
        async def complete(self, messages: Sequence[Message], *, schema: object = None, tools: object = ()) -> Any:
            return "7"

    answer = await ChatClient(Plain()).ask(lambda: ASK, ever())
    assert (answer.text, answer.attempts, answer.notes) == ("7", 1, ())


async def test_what_a_model_calls_is_kept() -> None:
    call = NativeCall(id="1", name="look")
    client = ChatClient(ScriptedModel(Reply(text="", tool_calls=(call,)), takes_tools=True))
    assert (client.takes_tools, ChatClient(ScriptedModel()).takes_tools) == (True, False)
    assert (await client.ask(lambda: ASK, ever())).tool_calls == (call,)


def test_the_tokens_of_two_calls_are_added_up() -> None:
    one, other = (
        Usage(input_tokens=1, output_tokens=2, cached_tokens=3),
        Usage(input_tokens=4, output_tokens=5, cached_tokens=6),
    )
    assert total_usage(one, other) == Usage(input_tokens=5, output_tokens=7, cached_tokens=9)
    assert (total_usage(one, None), total_usage(None, other), total_usage(None, None)) == (one, other, None)


def test_a_reply_without_a_text_is_shown_as_none() -> None:
    *_, said, wanted = correct_inquiry(ASK, None, "it was no text").messages
    assert (said.role, said.content, wanted.role) == ("assistant", "(no text)", "user")


# --- a client for a model ------------------------------------------------------


def test_a_client_is_its_own_client() -> None:
    client = ChatClient(ScriptedModel("a"))
    assert client_for(client, max_retries=9) is client


def test_without_a_model_there_is_no_client() -> None:
    nothing: Any = None
    with pytest.raises(ConfigError, match="there is no model to ask"):
        client_for(nothing)


class Closing(ScriptedModel):
    """Counts how often it is closed."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("owned", [True, False], ids=["its own", "a caller's"])
async def test_only_a_model_of_its_own_is_closed(*, owned: bool) -> None:
    model = Closing("a")
    await ChatClient(model, owned=owned).aclose()
    assert model.closed == owned


# --- within the time of a whole turn -------------------------------------------


@pytest.mark.spec("005.5")
@pytest.mark.parametrize(
    ("own_s", "spent_s", "waited_s", "blamed"),
    [
        pytest.param(30.0, 8.0, 2.0, False, id="others spent the time"),
        pytest.param(None, 6.0, 4.0, False, id="others spent more than half"),
        pytest.param(None, 0.0, 10.0, True, id="it had the whole turn"),
        pytest.param(30.0, 0.5, 9.5, True, id="it had about the whole turn"),
        pytest.param(5.0, 2.0, 5.0, True, id="it had its own limit"),
    ],
)
def test_a_model_is_blamed_for_no_more_time_than_it_had(
    own_s: float | None, spent_s: float, waited_s: float, *, blamed: bool
) -> None:
    client = ChatClient(ScriptedModel("1", delay_s=100, repeat=True))

    async def ask_twice() -> type[Exception]:
        with time_budget(10.0):
            await asyncio.sleep(spent_s)
            with pytest.raises(ModelTimeoutError):
                await client.ask(lambda: ASK, Deadline.after(own_s))
        with pytest.raises(ModelError) as caught:
            await client.ask(lambda: ASK, Deadline.after(1.0))
        return caught.type

    error, took_s = timed(Hang(), ask_twice)
    assert error is (ModelUnavailableError if blamed else ModelTimeoutError)
    assert round(took_s - spent_s, 3) == waited_s + (0 if blamed else 1)


@pytest.mark.spec("005.5")
def test_once_no_time_is_left_a_model_is_not_asked_nor_waited_for() -> None:
    model = ScriptedModel(ModelError("m", "busy", retryable=True, retry_after=20), "1")
    client = ChatClient(model)

    async def ask_twice() -> None:
        with time_budget(10.0):
            with pytest.raises(ModelError, match="busy"):  # asking again would come too late
                await client.ask(lambda: ASK, ever())
            await asyncio.sleep(11)
            with pytest.raises(ModelTimeoutError, match="no time was left"):
                await client.ask(lambda: ASK, ever())

    _, took_s = timed(Hang(), ask_twice)
    assert (len(model.calls), took_s) == (1, 11)


# --- a planner's options -------------------------------------------------------


class Plain(TurnState):
    """Nothing is known."""


def prompt(_: Plain) -> list[Message]:
    return list(ASK.messages)


DONE = '{"action": "search"}'


@pytest.mark.parametrize(
    ("replies", "options"),
    [
        pytest.param(("who knows", DONE), {"max_reasks": 1}, id="asked again"),
        pytest.param((BUSY, DONE), {"max_retries": 1}, id="retried"),
    ],
)
async def test_a_planner_may_be_patient(replies: Sequence[Any], options: dict[str, Any]) -> None:
    model = ScriptedModel(*replies)
    assert (await ModelPlanner(model, prompt, ["search"], **options)(Plain())).action == "search"
    assert len(model.calls) == 2


async def test_a_planner_that_was_asked_again_in_vain_says_why() -> None:
    with pytest.raises(PlanError, match="'fly' is none of the actions"):
        await ModelPlanner(ScriptedModel("who knows", '{"action": "fly"}'), prompt, ["search"], max_reasks=1)(Plain())


@pytest.mark.parametrize("options", [{"max_retries": -1}, {"max_reasks": 0.5}], ids=str)
def test_a_planners_counts_are_counts(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="whole number from 0"):
        ModelPlanner(ScriptedModel(DONE), prompt, ["search"], **options)
