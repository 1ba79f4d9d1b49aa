"""The contracts of the ports, as functions for an adapter's own tests.

Each raises an `AssertionError` that says what is wrong.

```python
async def test_my_model_keeps_the_contract() -> None:
    await check_chat_model(MyModel(...))


def test_my_embedder_keeps_the_contract() -> None:
    check_embedder(MyEmbedder(...))
```
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from copy import deepcopy
from typing import Any, TypeVar, cast

import numpy as np

from jazz_select.ports import (
    BatchEmbedder,
    ChatModel,
    ClaimStore,
    Embedder,
    StreamingChatModel,
    StructuredChatModel,
    ToolCallingModel,
    Vectors,
    streams,
    takes_schema,
    takes_tools,
)
from jazz_select.values import Claim, Message, NativeCall, OfferedTool, Reply, Usage

T = TypeVar("T")
_CONVERSATION = (
    Message(role="system", content="Answer with one word."),
    Message(role="user", content="Say <hello> & nothing else. 你好 🎷"),
    Message(role="assistant", content="hello"),
    Message(role="user", content="Again, please."),
)
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"words": {"type": "array", "items": {"type": "string", "enum": ["hello", "goodbye"]}}},
    "required": ["words"],
    "additionalProperties": False,
}
_TOOLS = (
    OfferedTool(name="look_up", description="Looks up a word. 你好", schema=_SCHEMA),
    OfferedTool(name="no_inputs"),
)
_CALLED = (
    *_CONVERSATION,
    Message(
        role="assistant",
        content="I look it up.",
        tool_calls=(
            NativeCall(id="c1", name="look_up", arguments={"words": ["hello"]}),
            NativeCall(id="c2", name="no_inputs", arguments="{}"),
        ),
    ),
    Message(role="tool", content='{"ok": true}', call_id="c1", tool="look_up"),
    Message(role="tool", content="", call_id="c2", tool="no_inputs"),
)
_TEXTS = (
    "I want a refund for my last order",
    "please refund the order I made last",
    "what is the weather in Lisbon tomorrow",
    "",
    " \t\n",
    "退款 返金 возврат 🎷",
    "refund " * 2000,
)
_CLOSE = 0.99
_UNIT_TOLERANCE = 1e-3


def require(holds: bool, problem: str) -> None:  # noqa: FBT001  (reads as a sentence)
    """Raise with `problem` unless `holds`.

    Raises:
        AssertionError: It does not.
    """
    if not holds:
        raise AssertionError(problem)


def require_kind(value: object, kind: type[T], problem: str) -> T:
    """Return the value if it is of that kind.

    Raises:
        AssertionError: It is of another kind.
    """
    if not isinstance(value, kind):
        msg = f"{problem}, not {type(value).__name__}"
        raise AssertionError(msg)  # noqa: TRY004  (a contract speaks in assertions)
    return value


async def awaited(pending: object, name: str) -> object:
    """Await the result of a call.

    Raises:
        AssertionError: It is not awaitable.
    """
    require(inspect.isawaitable(pending), f"{name}() must be async; it returned {type(pending).__name__}")
    return await cast("Awaitable[object]", pending)


def require_usage(value: object, what: str) -> None:
    """Check token counts, if there are any.

    Raises:
        AssertionError: They are not valid.
    """
    if value is not None:
        usage = require_kind(value, Usage, f"{what} must be a Usage or None")
        require(
            min(usage.input_tokens, usage.output_tokens, usage.cached_tokens) >= 0,
            f"tokens cannot be negative: {usage}",
        )
        require(usage.cached_tokens <= usage.input_tokens, f"cached tokens are some of the input tokens: {usage}")


def as_reply(value: object) -> Reply:
    """Return the value if it is a `Reply` with fields of the right types.

    Raises:
        AssertionError: It is not.
    """
    reply = require_kind(value, Reply, "complete() must return a Reply")
    for name in ("text", "model", "finish_reason"):
        require_kind(getattr(reply, name), str, f"Reply.{name} must be a str")
    require_usage(reply.usage, "Reply.usage")
    require_kind(reply.tool_calls, tuple, "Reply.tool_calls must be a tuple")
    for each in reply.tool_calls:
        call = require_kind(each, NativeCall, "Reply.tool_calls must hold NativeCalls")
        for name in ("id", "name"):
            require_kind(getattr(call, name), str, f"NativeCall.{name} must be a str")
    return reply


async def check_cancellation(
    call: Callable[[], Coroutine[Any, Any, object]], name: str, check: Callable[[object], object]
) -> None:
    """Check that a cancelled call is cancelled, or returns its answer if it was done before.

    Args:
        call: Makes the call.
        name: What is called.
        check: Checks the answer.

    Raises:
        AssertionError: The call raises something else, or `check` does.
    """
    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)  # let the call start; one that ends at once cannot be cancelled
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if not isinstance(outcome, asyncio.CancelledError):
        require(not isinstance(outcome, BaseException), f"cancelled, {name}() must not raise {outcome!r}")
        check(outcome)


async def check_chat_model(model: ChatModel) -> None:
    """Check a chat model. It is called five to thirteen times, so a scripted one needs `repeat=True`.

    It answers a conversation with a `Reply`, leaves the messages unchanged, can be called concurrently, and lets
    `asyncio.CancelledError` through. If it `takes_schema`, it answers with and without one, and leaves the schema
    unchanged. If it `takes_tools`, it answers with and without them, and accepts calls and their results. If it
    streams, it yields pieces of text, and at most one `Reply`, last. The content does not matter.
    """
    messages = list(_CONVERSATION)
    as_reply(await _complete(model, messages))
    require(messages == list(_CONVERSATION), "complete() must leave the messages as they are")
    as_reply(await _complete(model, _CONVERSATION[:2]))
    for reply in await asyncio.gather(_complete(model, _CONVERSATION), _complete(model, _CONVERSATION[:2])):
        as_reply(reply)
    await check_cancellation(lambda: _complete(model, _CONVERSATION), "complete", as_reply)
    require_kind(getattr(model, "takes_schema", False), bool, "takes_schema must be a bool")
    if takes_schema(model):
        await _check_schema(model)
    require_kind(getattr(model, "takes_tools", False), bool, "takes_tools must be a bool")
    if takes_tools(model):
        await _check_tools(model)
    if streams(model):
        await _check_stream(model)


def check_embedder(embedder: Embedder) -> None:
    """Check an embedder: shapes, types, unit rows, determinism, and a minimum of sense."""
    identity, dim = embedder.identity, embedder.dim
    require(
        isinstance(cast("object", identity), str) and bool(identity), f"identity must name the model, not {identity!r}"
    )
    require(isinstance(cast("object", dim), int) and dim > 0, f"dim must be a positive int, not {dim!r}")
    require_kind(embedder.offload, bool, "offload must be a bool")

    rows = embedder.embed(_TEXTS)
    _check_rows(rows, (len(_TEXTS), dim), "embed(texts)")
    _check_rows(embedder.embed([]), (0, dim), "embed([])")
    require(_near(rows, embedder.embed(_TEXTS)), "embed() of the same texts must give the same vectors")
    alone = np.concatenate([embedder.embed([text]) for text in _TEXTS])
    require(_near(rows, alone), "a text's vector must not depend on the texts beside it, nor on their order")
    for text in _TEXTS:
        _check_rows(embedder.embed_query(text)[np.newaxis], (1, dim), f"embed_query({text[:20]!r})")
    if isinstance(embedder, BatchEmbedder):
        asked = np.stack([embedder.embed_query(text) for text in _TEXTS])
        require(_near(embedder.embed_queries(_TEXTS), asked), "embed_queries() must give what embed_query() gives")

    query = embedder.embed_query(_TEXTS[0])
    require(
        float(rows[1] @ query) > float(rows[2] @ query),
        f"{_TEXTS[0]!r} must be nearer to {_TEXTS[1]!r} than to {_TEXTS[2]!r}",
    )
    require(embedder.identity == identity and embedder.dim == dim, "identity and dim must not change with use")


async def check_claim_store(store: ClaimStore) -> None:
    """Check that an empty claim store grants each call to one claimant, and forgets nothing.

    Raises:
        AssertionError: It violates the contract.
    """
    found = await asyncio.gather(*(store.claim("a", str(number)) for number in range(20)))
    first = [number for number, each in enumerate(found) if each is None]
    require(len(first) == 1, f"{len(first)} of 20 callers were told that the call is theirs, not 1")
    unsettled = Claim(fingerprint=str(first[0]))
    require(all(each in (None, unsettled) for each in found), "who came later is not told of the first one's claim")
    require(await store.claim("b", "x") is None, "another call was taken for this one")
    await store.settle("a", "done 退")
    await store.settle("a", "done otherwise")
    settled = Claim(fingerprint=str(first[0]), outcome="done 退")
    require(await store.claim("a", "x") == settled, "the first outcome of the call did not stay as it was settled")
    require(await store.claim("b", "x") == Claim(fingerprint="x"), "what became of one call is told of another")
    await store.settle("never claimed", "done")
    require(await store.claim("never claimed", "x") in (None, Claim(fingerprint="x")), "an outcome made a claim")


async def _check_schema(model: StructuredChatModel) -> None:
    schema = deepcopy(_SCHEMA)
    as_reply(await model.complete(_CONVERSATION, schema=schema))
    require(schema == _SCHEMA, "complete() must leave the schema as it is")
    as_reply(await model.complete(_CONVERSATION, schema=None))


async def _check_tools(model: ToolCallingModel) -> None:
    tools = deepcopy(_TOOLS)
    as_reply(await model.complete(_CONVERSATION, tools=tools))
    as_reply(await model.complete(_CALLED, tools=tools))
    require(tools == _TOOLS, "complete() must leave the tools as they are")
    require(not as_reply(await model.complete(_CONVERSATION, tools=())).tool_calls, "without tools nothing is called")


async def _check_stream(model: StreamingChatModel) -> None:
    stream = cast("Callable[..., AsyncIterator[object]]", model.stream)
    given: list[dict[str, Any]] = [{}]
    given += [{"schema": deepcopy(_SCHEMA)}] * (getattr(model, "takes_schema", False) is True)
    given += [{"tools": deepcopy(_TOOLS)}] * (getattr(model, "takes_tools", False) is True)
    for options in given:
        pieces = [piece async for piece in stream(_CONVERSATION, **options)]
        if pieces and isinstance(pieces[-1], Reply):
            as_reply(pieces.pop())
        for piece in pieces:
            require_kind(piece, str, "stream() must give pieces of text, and a Reply only as the last")


async def _complete(model: ChatModel, messages: Sequence[Message]) -> object:
    return await awaited(model.complete(messages), "complete")


def _check_rows(rows: Vectors, shape: tuple[int, int], call: str) -> None:
    require_kind(rows, np.ndarray, f"{call} must return an array")
    require(rows.shape == shape, f"{call} must have the shape {shape}, not {rows.shape}")
    require(rows.dtype == np.float32, f"{call} must be float32, not {rows.dtype}")
    require(bool(np.isfinite(rows).all()), f"{call} must be finite")
    lengths = np.linalg.norm(rows, axis=1)
    unit = (np.abs(lengths - 1) < _UNIT_TOLERANCE) | (lengths == 0)
    require(bool(unit.all()), f"{call} must have rows of length 1, or 0 where there is no token: {lengths.tolist()}")


def _near(these: Vectors, those: Vectors) -> bool:
    """Whether rows point the same way, within the noise that padding and batching cause in some models."""
    zero = ~these.any(axis=1) & ~those.any(axis=1)
    return bool((zero | (np.sum(these * those, axis=1) > _CLOSE)).all())
