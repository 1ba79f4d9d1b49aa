"""Chat models are asked in one place, `jazz_select.chat`, and every door takes the same forms of a model."""

import ast
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from pydantic_ai.models.test import TestModel

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.agent import Agent, ModelPlanner, TurnState, finalize, respond, run_chain, stream_respond
from jazz_select.agent.chain.transcript import Chain, Finished
from jazz_select.chat.client import ChatClient
from jazz_select.chat.decisions import Decider, DecisionClient
from jazz_select.errors import ConfigError
from jazz_select.routing import ModelDecision, ToolAsker, ToolCandidate
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.values import Message
from tests.source import tree
from tests.unit.agent.support import ASK, SCHEMA, VALID, VALUE
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import CHAT
from tests.unit.routing.shop import tools
from tests.unit.selector.shop import EXCHANGE, metadata, shop

ROOT = Path(__file__).parents[3] / "jazz_select"
HOMES = {"chat", "testing/contracts.py", "testing/doubles.py", "testing/provider_cases.py"}
"""Where a model may be asked: its home, the suites that prove adapters, and the cassette that records one."""
TENACITY = {"routing/executor.py": "retries of tools", "memory/engines/qdrant_server.py": "retries of a server's calls"}
"""Who else repeats calls, and which; none of them are calls of models."""


def strangers() -> list[Path]:
    """Every module that is no home of models."""
    found = [path for path in sorted(ROOT.rglob("*.py")) if "chat" not in path.relative_to(ROOT).parts[:1]]
    return [path for path in found if path.relative_to(ROOT).as_posix() not in HOMES]


def asks(module: ast.AST) -> list[str]:
    """The calls in a module that ask a model: of a method `complete`, or of a `stream` that is iterated or passed on.

    A client's own `stream` is awaited, so that it can be told from a model's; that of an agent gives events, and that
    of a request its body.
    """
    awaited = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Await)}
    called = [node for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    names = [(node.func.attr, of(node.func.value), node) for node in called if isinstance(node.func, ast.Attribute)]
    return [
        f"line {node.lineno}: .{name}("
        for name, owner, node in names
        if name == "complete" or (name == "stream" and id(node) not in awaited and owner not in {"agent", "request"})
    ]


def of(owner: ast.expr) -> str:
    """The last name of whose method is called."""
    return str(getattr(owner, "attr", "") or getattr(owner, "id", ""))


def imported(module: ast.AST) -> set[str]:
    """The modules that a module imports, anywhere in it."""
    nodes = list(ast.walk(module))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_nobody_else_asks_a_model() -> None:
    found = {place(path): tree(path) for path in strangers()}
    assert len(found) > 100
    assert {path: asked for path, module in found.items() if (asked := asks(module))} == {}
    imports = {path: imported(module) for path, module in found.items()}
    assert [path for path, names in imports.items() if "jazz_select.chat.calls" in names] == []
    assert [path for path, names in imports.items() if "tenacity" in names and path not in TENACITY] == []


@pytest.mark.parametrize(
    ("code", "number"),
    [
        pytest.param("async def f(m):\n    return await m.complete([])", 1, id="complete"),
        pytest.param("async def f(m):\n    async for each in m.stream([]): pass", 1, id="a stream that is iterated"),
        pytest.param("def f(m):\n    return listen(m.stream([]))", 1, id="a stream that is passed on"),
        pytest.param("async def f(c):\n    return await c.stream(q, d, hear)", 0, id="a client's stream"),
        pytest.param("async def f(c):\n    return await c.ask(q, d)", 0, id="a client"),
    ],
)
def test_who_asks_a_model_is_found(code: str, number: int) -> None:
    assert len(asks(ast.parse(code))) == number


def test_those_who_are_exempt_are_there() -> None:
    assert [name for name in (HOMES | TENACITY.keys()) if not (ROOT / name).exists()] == []


# --- the doors -----------------------------------------------------------------


class Plain(TurnState):
    """Nothing is known."""


def planned(_: Plain) -> list[Message]:
    return [Message(role="user", content="go on")]


async def selected(model: Any) -> object:
    return (await FlowSelector(model, shop(), ListMemory(metadata()), "support").select("money")).names


async def decided(model: Any) -> object:
    candidates = [ToolCandidate(name="check_refund"), ToolCandidate(name="send_mail")]
    return await ModelDecision(model).decide({}, candidates, "which?")


async def asked_for_tools(model: Any) -> object:
    return (await ToolAsker(model, tools()).ask("hi")).text


async def planned_next(model: Any) -> object:
    return (await ModelPlanner(model, planned, ["search"])(Plain())).action


async def chained(model: Any) -> object:
    return (await run_chain(model, ASK, tools())).answer


async def responded(model: Any) -> object:
    return (await respond(model, ASK, schema=SCHEMA)).value


async def streamed(model: Any) -> object:
    async with aclosing(stream_respond(model, ASK)) as events:
        return [event.answer.text async for event in events if isinstance(event, Finished)]


async def finalized(model: Any) -> object:
    return (await finalize(model, Chain(messages=ASK, answer="20"), SCHEMA)).value


async def turned(model: Any) -> object:
    agent = Agent(FlowSelector(None, FlowRegistry(min_examples=0), ListMemory(), "a"), tools(), model)
    return (await agent.turn("hello")).text


Door = Callable[[Any], Awaitable[object]]
DOORS = [
    pytest.param(selected, f'["{EXCHANGE}"]', ["exchange_order"], id="FlowSelector"),
    pytest.param(decided, "send_mail", "send_mail", id="ModelDecision"),
    pytest.param(asked_for_tools, '{"natural_language_response": "Hello!"}', "Hello!", id="ToolAsker"),
    pytest.param(planned_next, '{"action": "search"}', "search", id="ModelPlanner"),
    pytest.param(chained, "It cost 20.", "It cost 20.", id="run_chain"),
    pytest.param(responded, VALID, VALUE, id="respond"),
    pytest.param(streamed, "It cost 20.", ["It cost 20."], id="stream_respond"),
    pytest.param(finalized, VALID, VALUE, id="finalize"),
    pytest.param(turned, "Hello!", "Hello!", id="Agent"),
]


def as_object(text: str, _: Provider) -> object:
    return ScriptedModel(text, repeat=True)


def as_function(text: str, _: Provider) -> object:
    async def say(messages: Sequence[Message]) -> str:
        return text

    return say


def as_string(text: str, provider: Provider) -> object:
    provider.says(text)
    provider.headers = {"Connection": "close"}  # a selector keeps its connections, and lives as long as the program
    return CHAT.model


def as_pydantic_ai(text: str, _: Provider) -> object:
    return TestModel(custom_output_text=text)


FORMS = [
    pytest.param(as_object, id="object"),
    pytest.param(as_function, id="async function"),
    pytest.param(as_string, id="model string"),
    pytest.param(as_pydantic_ai, id="pydantic-ai Model"),
]


@pytest.mark.parametrize(
    "door",
    [FlowSelector.__init__, ModelDecision.__init__, ToolAsker.__init__, run_chain, respond, stream_respond, finalize],
    ids=lambda door: door.__qualname__,
)
def test_what_a_door_takes_can_be_read_without_a_vendors_package(door: Callable[..., object]) -> None:
    hints = get_type_hints(door)
    assert str in get_args(hints.get("model", hints.get("llm")))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("door", "text", "expected"), DOORS)
async def test_every_door_takes_every_form_of_a_model(
    door: Door, text: str, expected: object, form: Callable[[str, Provider], object], provider: Provider
) -> None:
    assert await door(form(text, provider)) == expected


async def selected_and_closed(model: Any) -> object:
    async with FlowSelector(model, shop(), ListMemory(metadata()), "support") as selector:
        return await selector.select("money")


async def turned_and_closed(model: Any) -> object:
    async with Agent(FlowSelector(None, FlowRegistry(min_examples=0), ListMemory(), "a"), tools(), model) as agent:
        return await agent.turn("hello")


CLOSING = [chained, streamed, selected_and_closed, turned_and_closed]


@pytest.mark.parametrize("door", CLOSING, ids=lambda door: door.__name__)
async def test_a_door_that_is_closed_closes_the_connections_that_it_made(door: Door, provider: Provider) -> None:
    provider.says("It cost 20.")
    await door(CHAT.model)
    gc.collect()  # what was left open warns here, and a warning is an error


class Closing(ScriptedModel):
    """Tells whether it was closed."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True


async def test_a_door_that_is_closed_leaves_open_what_its_caller_made() -> None:
    model = Closing("Hi.", repeat=True)
    await turned_and_closed(ChatClient(model, owned=True))
    await turned_and_closed(model)
    await selected_and_closed(model)
    assert not model.closed


class ClosingDecider(ScriptedDecider):
    """Tells whether it was closed."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True


async def test_a_door_that_is_closed_leaves_open_the_decider_that_its_caller_made() -> None:
    decider = ClosingDecider("none", repeat=True)
    for given in (decider, DecisionClient(decider, owned=True)):
        async with FlowSelector(None, shop(), ListMemory(metadata()), "support", decider=given) as selector:
            await selector.select("money")
        async with Agent(selector, tools(), decider=given) as agent:
            await agent.turn("hello")
    async with Agent(selector, tools(), decider=Decider(DecisionClient(decider, owned=True))) as agent:
        await agent.turn("hello")
    assert not decider.closed


@pytest.mark.parametrize("model", [7, ScriptedModel], ids=["a number", "a class"])
@pytest.mark.parametrize(("door", "text", "expected"), DOORS)
async def test_what_is_no_model_is_refused_by_every_door(door: Door, text: str, expected: object, model: Any) -> None:
    with pytest.raises(ConfigError, match=r"^(llm|model) cannot be"):
        await door(model)


SHARING = [param for param in DOORS if param.id not in {"FlowSelector", "Agent"}]


@pytest.mark.parametrize(("door", "text", "expected"), SHARING)
async def test_a_client_may_be_shared(door: Door, text: str, expected: object) -> None:
    client = ChatClient(ScriptedModel(text, repeat=True))
    assert [await door(client) for _ in range(2)] == [expected, expected]


class Streaming(ScriptedModel):
    """Can be read while it writes."""

    async def stream(self, messages: Sequence[Message], *, schema: object = None) -> AsyncIterator[str]:
        yield (await self.complete(messages)).text


async def test_a_client_of_a_model_that_streams_streams() -> None:
    async with aclosing(stream_respond(ChatClient(Streaming(VALID)), ASK, schema=SCHEMA)) as events:
        kinds = [type(event).__name__ async for event in events]
    assert kinds == ["ModelCalled", "OutputText", "Finished"]
