"""One first selection in a fresh interpreter, timed from the inside: `python -m benchmarks.cold INDEX FLOWS REQUEST`.

Prints JSON. Run by benchmarks.latency, which times it from the outside as well.
"""

import sys
from time import perf_counter

_STARTED = perf_counter()


async def first_select(index: str, flows: str, request: str) -> dict[str, float | str]:
    """Import, load the flows, open the index, select; seconds for each."""
    from jazz_select import FlowRegistry, FlowSelector, ProceduralMemory
    from jazz_select.flow.flow_loading import load_flows

    imported = perf_counter()
    registry = FlowRegistry()
    load_flows(flows, registry)
    loaded = perf_counter()
    async with await ProceduralMemory.open(index) as memory:
        opened = perf_counter()
        selector = FlowSelector(llm=None, flow_registry=registry, proc_mem=memory, agent_id="bench")
        result = await selector.select(request)
        done = perf_counter()
    return {
        "import": imported - _STARTED,
        "load": loaded - imported,
        "open": opened - loaded,
        "select": done - opened,
        "chosen": result.chosen_flows[0].name,
    }


if __name__ == "__main__":
    import asyncio
    import json

    print(json.dumps(asyncio.run(first_select(*sys.argv[1:4]))))
