"""What a turn costs beside its model and its actions: `python -m benchmarks.turn`. Asks for no data.

Ways along five nodes, none of which does anything: an agent with one flow in a list, the router, the walk of its graph
with empty steps, and a plain loop of awaits. They take turns, so that whatever else the machine does strikes all
of them.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.options import Unclean, opened_book
from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.agent import Action, ActionDecision, Agent, Guard, Router, TurnState, iteration_cap
from jazz_select.agent.graph.router import laid_out
from jazz_select.agent.graph.topology import NodeExit, walk
from jazz_select.testing import ListMemory

KEY = ("way",)
NODES = ("pre_check", "acquire_or_plan", "work", "pre_check", "finish")
_TAGS: Final = ("continue", "work", "", "finish_iteration_cap", "")
Way = Callable[[], Awaitable[object]]


class Worked(TurnState):
    """Whether it was done."""

    done: bool = False


def router() -> Way:
    """Guards, one decision, one action, the guards again, the end: with a trace, checked updates and a cap."""

    async def plan(_: Worked) -> ActionDecision:
        return ActionDecision(action="work")

    def work(_: Worked) -> Mapping[str, Any]:
        return {"done": True}

    made = Router(
        Worked,
        guards=[iteration_cap(1)],
        routes={"finish_iteration_cap": "finish"},
        actions={"work": Action(run=work)},
        plan=plan,
    )

    async def turn() -> object:
        run = await made.run(Worked())
        if tuple(each.node for each in run.trace) != NODES:
            msg = f"the turn went another way: {run.trace}"
            raise RuntimeError(msg)
        return run

    return turn


def same_graph() -> Way:
    """The router's own graph, with the branches that follow its nodes, and empty steps."""
    topology = laid_out([iteration_cap(1)], {"finish_iteration_cap": "finish"}, {"work": Action(run=dict)}, ())

    async def leave(node: str, passed: int) -> NodeExit[int]:  # noqa: ARG001 - the walk's signature
        return NodeExit(passed + 1, _TAGS[passed])

    async def turn() -> object:
        return await walk(topology, NODES[0], 0, leave)

    return turn


def plain_loop() -> Way:
    """As many awaits, and nothing else."""

    async def call() -> None:
        return None

    async def turn() -> object:
        for _ in NODES:
            await call()
        return None

    return turn


def agent() -> Way:
    """A whole turn of an agent: a guard, a candidate that a list holds, a flow that is handed back, and its trace."""
    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="work", description="d", condition="c", desired_effects=["e"], registry=registry)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name}])
    made = Agent(FlowSelector(None, registry, memory, "bench"), guards=[Guard("never", lambda _: None, ("blocked",))])

    async def turn() -> object:
        result = await made.turn("work")
        if (result.flows, result.model_calls) != (["work"], 0):
            msg = f"the turn went another way: {result.trace}"
            raise RuntimeError(msg)
        return result

    return turn


WAYS: Mapping[str, Callable[[], Way]] = {
    "agent": agent,
    "router": router,
    "the router's graph and empty steps": same_graph,
    "loop of awaits": plain_loop,
}


async def times(ways: Mapping[str, Way], turns: int) -> dict[str, list[float]]:
    """Seconds of each turn, by way; the first turns are not counted."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    for number in range(turns + turns // 10):
        for name, turn in ways.items():
            began = perf_counter()
            await turn()
            if number >= turns // 10:
                took[name].append(perf_counter() - began)
    return took


def row_of(way: str, took: list[float]) -> rows.Row:
    """The stored row of one way."""
    p50, p99 = np.percentile(took, [50, 99])
    return {
        "way": way,
        "nodes": len(NODES),
        "turns": len(took),
        "us": {"p50": round(1e6 * float(p50), 1), "p99": round(1e6 * float(p99), 1)},
    }


def main(turns: Annotated[int, typer.Option(help="Turns of each way.")] = 3_000, *, unclean: Unclean = False) -> None:
    """Measure every way, and store the rows."""
    book = opened_book("turn", KEY, look=unclean)
    took = asyncio.run(times({name: make() for name, make in WAYS.items()}, turns))
    found = [row_of(way, seconds) for way, seconds in took.items()]
    book.store(*found)
    for row in found:
        Console().print(f"{row['way']}: {row['us']['p50']} µs, p99 {row['us']['p99']} µs")


if __name__ == "__main__":
    typer.run(main)
