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
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from jazz_select.chat.decisions import why_no_distribution
from jazz_select.ports import (
    ArmHits,
    BatchEmbedder,
    ChatModel,
    ClaimStore,
    DecisionModel,
    Embedder,
    FlowPoint,
    FlowStore,
    HybridQuery,
    SparseVector,
    StreamingChatModel,
    Vectors,
    streams,
    takes_schema,
    takes_tools,
)
from jazz_select.questions import ChoiceQuestion, DecisionReply, Question, YesNoQuestion, labels_of
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


_STATE = "Hello! <b>My parcel</b> & I are apart: it never came. 你好 🎷"
_QUESTIONS: Mapping[str, Question] = {
    "route": ChoiceQuestion(
        {"refund": "gives money back", "track": "says where a parcel is", "none": "anything else"},
        asked="Which of these does the customer want?",
    ),
    "angry?": YesNoQuestion("Is the customer angry?", yes="rude, or swearing", no="anything milder"),
}


def require(holds: bool, problem: str) -> None:  # noqa: FBT001  (reads as a sentence)
    """Raise with `problem` unless `holds`."""
    if not holds:
        raise AssertionError(problem)


def require_kind(value: object, kind: type[T], problem: str) -> T:
    """Return the value if it is of that kind."""
    if not isinstance(value, kind):
        msg = f"{problem}, got {type(value).__name__}"
        raise AssertionError(msg)  # noqa: TRY004  (a contract speaks in assertions)
    return value


async def awaited(pending: object, name: str) -> object:
    """Await the result of a call."""
    require(inspect.isawaitable(pending), f"{name}() must be async; it returned {type(pending).__name__}")
    return await cast("Awaitable[object]", pending)


def require_usage(value: object, what: str) -> None:
    """Check token counts, if there are any."""
    if value is not None:
        usage = require_kind(value, Usage, f"{what} must be a Usage or None")
        require(
            min(usage.input_tokens, usage.output_tokens, usage.cached_tokens) >= 0,
            f"tokens cannot be negative: {usage}",
        )
        require(usage.cached_tokens <= usage.input_tokens, f"cached tokens are some of the input tokens: {usage}")


def as_reply(value: object) -> Reply:
    """Return the value if it is a `Reply` with fields of the right types."""
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
    """Check that a cancelled call is cancelled, or returns its answer, which `check` checks, if it was done before."""
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
        schema = deepcopy(_SCHEMA)
        as_reply(await model.complete(_CONVERSATION, schema=schema))
        require(schema == _SCHEMA, "complete() must leave the schema as it is")
        as_reply(await model.complete(_CONVERSATION, schema=None))
    require_kind(getattr(model, "takes_tools", False), bool, "takes_tools must be a bool")
    if takes_tools(model):
        tools = deepcopy(_TOOLS)
        as_reply(await model.complete(_CONVERSATION, tools=tools))
        as_reply(await model.complete(_CALLED, tools=tools))
        require(tools == _TOOLS, "complete() must leave the tools as they are")
        bare = as_reply(await model.complete(_CONVERSATION, tools=()))
        require(not bare.tool_calls, "without tools nothing is called")
    if streams(model):
        await _check_stream(model)


def check_embedder(embedder: Embedder) -> None:
    """Check an embedder: shapes, types, unit rows, determinism, and a minimum of sense."""
    identity, dim = embedder.identity, embedder.dim
    require(
        isinstance(cast("object", identity), str) and bool(identity), f"identity must name the model, got {identity!r}"
    )
    require(isinstance(cast("object", dim), int) and dim > 0, f"dim must be a positive int, got {dim!r}")
    require_kind(embedder.offload, bool, "offload must be a bool")

    rows = embedder.embed(_TEXTS)
    _check_rows(rows, (len(_TEXTS), dim), "embed(texts)")
    _check_rows(embedder.embed([]), (0, dim), "embed([])")
    require(_are_near(rows, embedder.embed(_TEXTS)), "embed() of the same texts must give the same vectors")
    alone = np.concatenate([embedder.embed([text]) for text in _TEXTS])
    require(_are_near(rows, alone), "a text's vector must not depend on the texts beside it, nor on their order")
    for text in _TEXTS:
        _check_rows(embedder.embed_query(text)[np.newaxis], (1, dim), f"embed_query({text[:20]!r})")
    if isinstance(embedder, BatchEmbedder):
        asked = np.stack([embedder.embed_query(text) for text in _TEXTS])
        require(_are_near(embedder.embed_queries(_TEXTS), asked), "embed_queries() must give what embed_query() gives")

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
    require(rows.shape == shape, f"{call} must have the shape {shape}, got {rows.shape}")
    require(rows.dtype == np.float32, f"{call} must be float32, got {rows.dtype}")
    require(bool(np.isfinite(rows).all()), f"{call} must be finite")
    lengths = np.linalg.norm(rows, axis=1)
    unit = (np.abs(lengths - 1) < _UNIT_TOLERANCE) | (lengths == 0)
    require(bool(unit.all()), f"{call} must have rows of length 1, or 0 where there is no token: {lengths.tolist()}")


def _are_near(these: Vectors, those: Vectors) -> bool:
    """Whether rows point the same way, within the noise that padding and batching cause in some models."""
    zero = ~these.any(axis=1) & ~those.any(axis=1)
    return bool((zero | (np.sum(these * those, axis=1) > _CLOSE)).all())


_EAST, _NORTH, _BETWEEN = (1.0, 0.0), (0.0, 1.0), (0.8, 0.6)
_RED, _BLUE = 7, 9


def _point(flow_id: str, dense: tuple[float, float] | None, *words: int, agent_id: str = "a") -> FlowPoint:
    sparse = SparseVector(indices=words, values=(1.0,) * len(words))
    payload = {"flow_id": flow_id, "flow_name": f"name of {flow_id}"}
    return FlowPoint(
        agent_id=agent_id, flow_id=flow_id, fingerprint=f"mark-{flow_id}", dense=dense, sparse=sparse, payload=payload
    )


def _query(
    dense: tuple[float, float] | None, *words: int, agent_id: str = "a", depth: int = 10, exclude: tuple[str, ...] = ()
) -> HybridQuery:
    sparse = SparseVector(indices=words, values=(1.0,) * len(words)) if words else None
    return HybridQuery(agent_id=agent_id, dense=dense, sparse=sparse, depth=depth, exclude=exclude)


async def _ask(store: FlowStore, query: HybridQuery) -> ArmHits:
    (legs,) = await store.search([query])
    return legs


async def _names(store: FlowStore, leg: Mapping[int, float]) -> list[str]:
    payloads = await store.retrieve(list(leg))
    return [payloads[key]["flow_id"] for key in leg]


async def check_flow_store(store: FlowStore) -> None:
    """Raise `AssertionError` unless an empty store of two-dimensional vectors keeps the port's contract."""
    await _check_empty(store)
    await store.upsert([_point("east", _EAST, _RED), _point("north", _NORTH, _BLUE)])
    await store.upsert([_point("between", _BETWEEN, _RED, _BLUE), _point("words only", None, _RED)])
    await _check_contents(store)
    await _check_search(store)
    await _check_notes(store)
    await _check_agents(store)
    await _check_changes(store)


async def _marks(store: FlowStore, agent_id: str) -> dict[str, str]:
    return {each["flow_id"]: each["fingerprint"] for each in (await store.payloads(agent_id)).values()}


async def _check_empty(store: FlowStore) -> None:
    assert await store.payloads("a") == {}
    assert await store.count("a") == 0
    assert await store.terms("a", 10) == []
    assert await store.elsewhere("a") == []
    legs = await _ask(store, _query(_EAST, _RED))
    assert (legs.dense, legs.bm25) == ({}, {})
    assert await store.search([]) == []
    assert await store.retrieve([store.key("a", "nothing")]) == {}
    assert await store.read_note("a") is None
    await store.delete("a", [store.key("a", "nothing")])
    await store.upsert([])


async def _check_contents(store: FlowStore) -> None:
    flows = ("between", "east", "north", "words only")
    assert await _marks(store, "a") == {flow: f"mark-{flow}" for flow in flows}
    payloads = await store.payloads("a")
    assert sorted(payload["flow_name"] for payload in payloads.values()) == [f"name of {flow}" for flow in flows]
    assert sorted(payloads) == sorted(store.key("a", flow) for flow in flows)
    assert await store.count("a") == len(flows)
    words = {"between": (_RED, _BLUE), "east": (_RED,), "north": (_BLUE,), "words only": (_RED,)}
    assert sorted(tuple(sorted(each)) for each in await store.terms("a", 10)) == sorted(words.values())
    lowest = sorted(flows, key=lambda flow: store.key("a", flow))[:3]
    assert sorted(tuple(sorted(each)) for each in await store.terms("a", 3)) == sorted(map(words.__getitem__, lowest))
    key = store.key("a", "east")
    assert (await store.retrieve([key, store.key("a", "never there")]))[key]["flow_name"] == "name of east"


async def _check_search(store: FlowStore) -> None:
    legs = await _ask(store, _query(_EAST, _BLUE))
    assert await _names(store, legs.dense) == ["east", "between", "north"], "best first"
    assert sorted(await _names(store, legs.bm25)) == ["between", "north"], "only flows that share a word"
    cosine = legs.dense[store.key("a", "between")]
    assert abs(cosine - 0.8) < 1e-5, "the raw dense score is the cosine"
    for score in legs.bm25.values():
        assert abs(score - 1.0) < 1e-5, "the raw lexical score is the product of the weights, rare words or not"
    assert list(legs.dense.values()) == sorted(legs.dense.values(), reverse=True)
    assert all(payload["flow_id"] for payload in legs.payloads.values())
    assert (await _ask(store, _query(_EAST))).bm25 == {}, "an arm that was not asked found nothing"
    assert sorted(await _names(store, (await _ask(store, _query(None, _RED))).bm25)) == [
        "between",
        "east",
        "words only",
    ]
    assert len((await _ask(store, _query(_EAST, depth=2))).dense) == 2
    left = await _ask(store, _query(_EAST, _RED, exclude=("east", "between")))
    assert await _names(store, left.dense) == ["north"]
    assert await _names(store, left.bm25) == ["words only"]
    first, second, third = await store.search([_query(_EAST), _query(None), _query(_NORTH, _RED)])
    assert await _names(store, first.dense) == ["east", "between", "north"]
    assert (second.dense, second.bm25) == ({}, {}), "a query that asks nothing finds nothing and shifts nothing"
    assert (await _names(store, third.dense))[0] == "north"


async def _check_notes(store: FlowStore) -> None:
    await store.write_note("a", {"told": [1.5, None, {"deep": "down"}]})
    assert await store.read_note("a") == {"told": [1.5, None, {"deep": "down"}]}
    assert await store.read_note("b") is None
    await store.write_note("a", {"told": "again"})
    assert await store.read_note("a") == {"told": "again"}
    assert len(await store.payloads("a")) == await store.count("a") == 4, "a note is no flow"
    assert len(await store.terms("a", 10)) == 4
    await store.write_note("note", {"of": "an agent of an odd name"})
    await store.upsert([_point("a", _EAST, _RED, agent_id="note")])
    assert await store.read_note("a") == {"told": "again"}, "no flow takes the place of a note"
    await store.delete("note", [store.key("note", "a")])
    assert len((await _ask(store, _query(_EAST))).dense) == 3


async def _check_agents(store: FlowStore) -> None:
    alone = await _ask(store, _query(_EAST, _RED))
    await store.upsert([_point("east", _NORTH, _BLUE, agent_id="b"), _point("only b", _EAST, _RED, agent_id="b")])
    beside = await _ask(store, _query(_EAST, _RED))
    assert list(beside.dense) == list(alone.dense), "another agent's flows never come back"
    assert sorted(beside.bm25) == sorted(alone.bm25)
    for key, score in alone.bm25.items():
        assert abs(beside.bm25[key] - score) < 1e-5, "another agent's words do not change what a word weighs"
    assert len(await store.terms("a", 10)) == len(alone.dense) + 1
    assert store.key("a", "east") != store.key("b", "east")
    assert await _marks(store, "b") == {"east": "mark-east", "only b": "mark-only b"}
    await store.delete("b", [store.key("b", each) for each in ("east", "only b")])
    assert await _marks(store, "b") == {}
    assert len(await _marks(store, "a")) == 4, "one agent's deletes leave another's flows of the same id"


async def _check_changes(store: FlowStore) -> None:
    await store.upsert([_point("north", _EAST, _RED)])
    assert len(await _marks(store, "a")) == 4, "writing a flow again replaces it"
    moved = await _ask(store, _query(_EAST, _RED))
    assert abs(moved.dense[store.key("a", "north")] - 1.0) < 1e-5
    await store.delete("a", [store.key("a", each) for each in ("north", "never there")])
    assert store.key("a", "north") not in (await _ask(store, _query(_EAST, _RED))).dense


async def check_second_vectors(store: FlowStore) -> None:
    """Raise `AssertionError` if an empty store of two dimensions, and three in second vectors, mixes the two up."""
    await store.upsert(
        [
            replace(_point("east", _EAST, _RED), second=(0.0, 0.0, 1.0)),
            replace(_point("north", _NORTH, _RED), second=(0.6, 0.0, 0.8)),
            _point("first only", _BETWEEN, _RED),
        ]
    )
    asked = replace(_query(None, _RED), dense=(1.0, 0.0, 0.0), of_second=True)
    second, first = await store.search([asked, _query(_EAST, _RED)])
    assert await _names(store, second.dense) == ["north", "east"], "a flow without a second vector is not found by one"
    assert abs(second.dense[store.key("a", "north")] - 0.6) < 1e-5, "the raw score is the cosine of the second vectors"
    assert await _names(store, first.dense) == ["east", "first only", "north"], "the first vectors are as they were"
    assert second.bm25 == first.bm25, "words are the same beside either"


async def check_layouts(open_store: Callable[[str], Awaitable[FlowStore]]) -> None:
    """Raise `AssertionError` if vectors of two layouts mix, or one agent's move touches another's flows.

    `open_store` opens the same place with the layout of the given name; one is open at a time.
    """
    old = await open_store("old")
    await old.upsert([_point("east", _EAST, _RED), _point("east", _EAST, _RED, agent_id="b")])
    await old.write_note("a", {"of": "old"})
    await old.close()
    new = await open_store("new")
    assert (await _ask(new, _query(_EAST, _RED))).dense == {}, "flows of another layout never come back"
    assert await new.read_note("a") is None, "nor does its note"
    assert [each["flow_id"] for each in await new.elsewhere("a")] == ["east"]
    await new.upsert([_point("east", _NORTH, _BLUE)])
    await new.forget_other_layouts("a")
    assert await new.elsewhere("a") == []
    assert len(await new.elsewhere("b")) == 1, "the other agent's flows stay where they are"
    await new.forget_other_layouts("b")
    assert await new.elsewhere("b") == []
    assert await _marks(new, "a") == {"east": "mark-east"}
    await new.close()


async def check_decision_model(model: DecisionModel) -> None:
    """Check a decision model. It is called five times, so a scripted one needs `repeat=True`.

    It answers a choice and a yes/no with a probability for each option, leaves the questions unchanged, can be called
    concurrently, lets `asyncio.CancelledError` through, and reports how many options it takes. Its decisions do not
    matter, except that it must tell the options of a choice apart.

    Raises:
        AssertionError: It violates the contract.
    """
    most = cast("object", model.most_options)
    allowed = most is None or (isinstance(most, int) and not isinstance(most, bool) and most > 1)
    require(allowed, f"most_options must be None, or how many options a question may have, got {most!r}")
    questions = dict(_QUESTIONS)
    _check_decisions(await _decide(model, questions), questions)
    require(questions == _QUESTIONS, "decide() must leave the questions as they are")
    one = {"angry?": _QUESTIONS["angry?"]}
    for reply, asked in zip(
        await asyncio.gather(_decide(model, questions), _decide(model, one), _decide(model, questions)),
        (questions, one, questions),
        strict=True,
    ):
        _check_decisions(reply, asked)
    await check_cancellation(
        lambda: _decide(model, questions), "decide", lambda reply: _check_decisions(reply, questions)
    )


async def _decide(model: DecisionModel, questions: Mapping[str, Question]) -> object:
    return await awaited(model.decide(_STATE, questions), "decide")


def _check_decisions(reply: object, questions: Mapping[str, Question]) -> None:
    said = require_kind(reply, DecisionReply, "decide() must return a DecisionReply")
    given = cast(
        "Mapping[Any, Any]", require_kind(said.probabilities, Mapping, "DecisionReply.probabilities must be a mapping")
    )
    require(set(given) == set(questions), f"decide() was asked {sorted(questions)}, and answered {list(given)}")
    for name, question in questions.items():
        problem = why_no_distribution(given[name], labels_of(question), even=isinstance(question, YesNoQuestion))
        require(not problem, f"the answer to {name!r} is no distribution: {problem}")
    require_kind(said.model, str, "DecisionReply.model must be a str")
    require_usage(said.usage, "DecisionReply.usage")
