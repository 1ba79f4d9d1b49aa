"""How long does a hostile input hold the event loop, at each door that takes text? `python -m benchmarks.bounds`.

Asks for no data. At every door each text of `benchmarks.hostile` is handed in, short of the door's bound and far beyond
it, while a task beside it counts how long it was kept from running.
"""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.hostile import documents, schemas, texts
from benchmarks.options import Unclean, opened_book
from jazz_select import Flow, FlowRegistry, FlowSelector, ProceduralMemory, SequentialFlow, sync_registry
from jazz_select.agent import Agent, Conversation, respond
from jazz_select.agent.conversation import LONGEST_REQUEST
from jazz_select.agent.graph.planner import read_decision
from jazz_select.agent.reading.grounding import Wanted, ground
from jazz_select.errors import JazzSelectError
from jazz_select.flow.flow_loading import load_flows
from jazz_select.routing import CHOOSE, FlowExecutor, Tool, ToolAsker, resolve
from jazz_select.routing.tools.sources import tools_from_mcp
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.testing import ScriptedModel
from jazz_select.threads import in_thread

KEY = ("door",)
NEAR, FAR = 8_000, 300_000
"""Lengths of what is handed in: what a door reads whole, and what it cuts or refuses."""
AGAIN: Final = 0.02
"""Seconds from which on something is measured again: the machine may have been busy with something else."""
_TRIES = 3
_FLOWS = ("refund_order", "cancel_order", "track_parcel", "change_address", "exchange_item", "gift_card")
_ANSWER: Final = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
Handed = Callable[[str], Awaitable[object]]
"""What is done with one text."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where text comes in.

    Attributes:
        bound: What it takes, in words.
        inputs: What is handed in, by name.
        handed: What is done with it.
    """

    bound: str
    inputs: Callable[[], Iterable[tuple[str, str]]]
    handed: Handed


def near() -> Iterable[tuple[str, str]]:
    """Texts that are read whole."""
    return texts(NEAR)


def far() -> Iterable[tuple[str, str]]:
    """Texts of all lengths."""
    for length in (NEAR, 250_000, FAR):
        for name, text in texts(length):
            yield f"{name}, {length}", text


def files() -> Iterable[tuple[str, str]]:
    """What may stand in a file."""
    yield from documents()
    yield from texts(NEAR)


def long_outputs() -> Iterable[tuple[str, str]]:
    """Each fourth text, of a million characters, as a tool may return it."""
    return islice(texts(1_000_000), 0, None, 4)


def heard() -> Iterable[tuple[str, str]]:
    """Texts as long as what an agent hears."""
    return texts(LONGEST_REQUEST)


def wide_schemas() -> Iterable[tuple[str, str]]:
    """The names of schemas."""
    return ((name, name) for name in _schemas())


def hundreds() -> Iterable[tuple[str, str]]:
    """How many there are of something."""
    return ((f"{count}", str(count)) for count in (100, 1_000))


def thousands() -> Iterable[tuple[str, str]]:
    """How many there are of something that comes in thousands."""
    return ((f"{count:,}", str(count)) for count in (1_000, 10_000))


def compositions() -> Iterable[tuple[str, str]]:
    """Parts in parts: how often in one, and how deep."""
    yield from ((f"{parts} parts, {depth} deep", f"{parts} {depth}") for parts, depth in ((1, 400), (2, 22), (9, 9)))


@asynccontextmanager
async def doors(folder: Path) -> AsyncGenerator[dict[str, Door]]:
    """Every door, on a small shop whose index lies in this folder."""
    async with AsyncExitStack() as stack:
        registry = _registry()
        memory = await stack.enter_async_context(await ProceduralMemory.open(folder / "index", embedder="static"))
        await sync_registry(memory, agent_id="shop", registry=registry)
        plain = FlowSelector(None, registry, memory, "shop")
        given = [each.as_metadata() for each in (await plain.select("money back")).decision.candidates]
        for first in ("返品したい", "退款"):  # the first word in Japanese, and in Chinese, loads a dictionary
            await plain.select(first)
        agent = Agent(plain, tools=_tools())

        async def choose(text: str) -> object:
            return await FlowSelector(
                ScriptedModel(text, repeat=True), registry, model_options=ModelOptions(max_reasks=0)
            ).select("x", given)

        async def chain(text: str) -> object:
            return await respond(ScriptedModel(text, "done", repeat=True), "x", _tools(), chain_limit=2)

        async def answer(text: str) -> object:
            return await respond(ScriptedModel(text, repeat=True), "x", schema=_ANSWER, max_reasks=0)

        async def returned(text: str) -> object:
            model = ScriptedModel('{"tool_call":{"tool":"find","arguments":{}}}', "done", repeat=True)
            return await respond(model, "x", _tools(text), chain_limit=2)

        async def loaded(text: str) -> object:
            file = folder / "flows.yaml"
            file.write_text(text, encoding="utf-8", errors="replace")
            return await asyncio.to_thread(load_flows, file, FlowRegistry())

        async def parsed(text: str) -> object:
            return Conversation.from_json(text)

        async def decided(text: str) -> object:
            return read_decision(text, ["search", "finish"])

        async def listed(text: str) -> object:
            schema = {"type": "object", "properties": {text[:NEAR]: {"type": "string", "description": text}}}
            tools = tools_from_mcp([{"name": text[:NEAR], "description": text, "inputSchema": schema}])
            return ToolAsker(ScriptedModel("none", repeat=True), tools), FlowExecutor(tools)

        request = "8,000 characters are read, and 8,000 of context beside them"
        reply = "262,144 characters with 32,768 brackets, commas and tags"
        found = {
            "a request": Door(request, far, plain.select),
            "eight requests": Door(request, near, lambda text: plain.select_many([text] * 8)),
            "what a user says to an agent": Door("32,000 characters", far, agent.turn),
            "a choice of flows": Door("16,384 characters from either end", far, choose),
            "a reply with calls": Door(reply, far, chain),
            "an answer in a schema": Door(reply, far, answer),
            "a planner's decision": Door("65,536 characters", far, decided),
            "what a tool returns, and its turning into a schema": Door("4,000,000 characters", long_outputs, _answered),
            "facts in what a user says": Door("4,000 at once, more in a thread", heard, _filled),
            "candidates handed in": Door("100 at once, more in a thread", hundreds, partial(_offered, given, registry)),
            "tools of a new executor": Door("500 at once, more in a thread", thousands, _connected),
            "a schema of five million characters": Door("50,000 at once, more in a thread", wide_schemas, _followed),
            "what a tool returns": Door("10,000 values, 4,000,000 characters", far, returned),
            "the input of a chain": Door("whole; 40 characters of it are remembered", far, _executed),
            "the name of a tool": Door("200 characters", far, _resolved),
            "a listing of tools": Door("8,000 characters of each, in an index", far, listed),
            "a stored conversation": Door("2,000,000 characters", far, parsed),
            "a file of flows": Door("4 MiB, 100,000 values, 100 levels", files, loaded),
            "composites": Door("500 parts in 24 levels", compositions, _composed),
        }
        yield found


def _registry() -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    for name in _FLOWS:
        words = name.replace("_", " ")
        examples = [f"{words} {number}" for number in range(5)]
        Flow(name=name, description=words, condition=words, examples=examples, registry=registry)
    return registry


def _tools(returned: str = "") -> list[Tool]:
    takes = {"type": "object", "properties": {"query": {"type": "string"}}}

    async def run(**_: object) -> object:
        return {"text": returned, "words": returned.split()}

    return [Tool(name=name, description=name, input_schema=takes, function=run) for name in ("find", "cancel")]


async def _executed(text: str) -> object:
    return await FlowExecutor(_tools()).run([CHOOSE], {"query": text})


async def _answered(text: str) -> object:
    called, said = '{"tool_call":{"tool":"find","arguments":{}}}', '{"answer": "done"}'
    return await respond(ScriptedModel(called, "done", said, repeat=True), "x", _tools(text), schema=_ANSWER)


async def _offered(given: list[dict[str, Any]], registry: FlowRegistry, count: str) -> object:
    many = (given * -(-int(count) // len(given)))[: int(count)]
    return await FlowSelector(
        ScriptedModel("[1]", repeat=True), registry, model_options=ModelOptions(max_reasks=0)
    ).select("x", many)


async def _filled(text: str) -> object:
    part = {"type": "integer"}
    wanted = {"amount": Wanted(part, {"type": "object", "properties": {"amount": part}})}
    return await in_thread(ground, {"amount": 7}, {}, wanted, [text])


@cache
def _many(count: int) -> list[Tool]:
    takes = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return [Tool(name=f"tool_{number}", input_schema=takes) for number in range(count)]


async def _connected(count: str) -> object:
    return await FlowExecutor(_many(int(count))).run([CHOOSE], {"query": "x"})


@cache
def _schemas() -> dict[str, dict[str, object]]:
    """Made once; the garbage collector looks at them no more, since it would hold the loop as long again."""
    made = dict(schemas())
    gc.freeze()
    return made


async def _followed(name: str) -> object:
    async def run(**_: object) -> object:
        return {"a": {}, "f0": "x"}

    schema = _schemas().get(name, {})
    gives = Tool(name="gives", output_schema=schema, function=run)
    takes = Tool(name="takes", input_schema=schema, function=run)
    return await FlowExecutor([gives, takes]).run(["gives", CHOOSE])


async def _resolved(text: str) -> object:
    return resolve(text, _tools())


async def _composed(text: str) -> object:
    parts, depth = map(int, text.split())
    registry = FlowRegistry(min_examples=0)
    flow: Any = Flow(name="leaf", registry=registry)
    for level in range(depth):
        flow = SequentialFlow(name=f"level {level}", description="d", flows=[flow] * parts, registry=registry)
    with suppress(JazzSelectError):
        flow.definition()
    return flow.build_prompt(verbose=False)


async def held_s(work: Awaitable[object]) -> float:
    """The longest that whatever else runs on the loop had to wait while this did.

    What other programs take of a busy machine meanwhile is not counted: of each wait, no more than this process worked.
    """
    longest, last, spent = 0.0, perf_counter(), process_time()
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        now, used = perf_counter(), process_time()
        longest, last, spent = max(longest, min(now - last, used - spent)), now, used
    with suppress(JazzSelectError):
        task.result()
    return longest


async def worst(door: Door) -> rows.Row:
    """What held the loop longest at a door, and how long."""
    found: list[tuple[float, str]] = []
    for name, text in door.inputs():
        took = await held_s(door.handed(text))
        for _ in range(_TRIES - 1):
            took = min(took, await held_s(door.handed(text))) if took > AGAIN else took
        found.append((took, name))
    took, name = max(found)
    return {"bound": door.bound, "inputs": len(found), "held_ms": round(1e3 * took, 1), "worst": name}


async def measured(only: str = "") -> AsyncIterator[rows.Row]:
    """The row of each door, as it is done."""
    with TemporaryDirectory() as folder:
        async with doors(Path(folder)) as every:
            for name, door in every.items():
                if only in name:
                    yield {"door": name, **await worst(door)}


async def _all(only: str) -> list[rows.Row]:
    found: list[rows.Row] = []
    async for row in measured(only):
        found.append(row)
        Console().print(f"{row['door']}: {row['held_ms']} ms at worst, of {row['inputs']} inputs: {row['worst']}")
    return found


def main(
    only: Annotated[str, typer.Option(help="Only the doors with this in their names; nothing is stored then.")] = "",
    *,
    unclean: Unclean = False,
) -> None:
    """Measure every door, and store the rows."""
    book = opened_book("bounds", KEY, look=unclean or bool(only))
    logging.disable(logging.WARNING)
    try:
        found = asyncio.run(_all(only))
    finally:
        logging.disable(logging.NOTSET)
    book.store(*found)


if __name__ == "__main__":
    typer.run(main)
