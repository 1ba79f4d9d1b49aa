"""Other routers, asked by a script in an environment of their own, since their pins and ours exclude each other.

`python peer_systems.py` reads one JSON line: {"system", "embedder", "flows": [{"name", "text", "examples"}],
"requests", "top", "root"}; it writes one: {"build_s", "ranked", "seconds"}, or {"error"}.

Every system gets the same flows and the same embedder, and is timed one request at a time, embedding included.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from time import perf_counter
from typing import Any

WARM_UP = 20


def semantic_router(
    flows: Sequence[Mapping[str, Any]], embedder: Any, top: int, *, hybrid: bool, tuned: bool = True
) -> Any:
    """semantic-router's IndexedRouter: utterances in an index, their scores combined per route.

    A route's utterances are the flow's name with its description, and its examples. `hybrid` adds its TF-IDF encoder,
    the one of its sparse encoders that downloads nothing. `tuned` reads all utterances and takes each route's mean,
    which ranked highest of what was tried on a seed that is not reported; otherwise its defaults (the five nearest
    utterances, their mean). Ranking is what `acall(limit=…)` returns.
    """
    encoders, routers = import_module("semantic_router.encoders"), import_module("semantic_router.routers")
    base, route = import_module("semantic_router.encoders.base"), import_module("semantic_router").Route

    class Encoder(base.DenseEncoder):
        name: str = "same"

        def __call__(self, docs: list[str]) -> list[list[float]]:
            return embedder.embed(docs).tolist()

        async def acall(self, docs: list[str]) -> list[list[float]]:
            return [embedder.embed_query(docs[0]).tolist()] if len(docs) == 1 else self(docs)

    utterances = [[flow["text"], *flow["examples"]] for flow in flows]
    options = {"top_k": sum(map(len, utterances)), "aggregation": "mean"} if tuned else {}
    router = routers.IndexedRouter(
        Encoder(),
        [route(name=flow["name"], utterances=its) for flow, its in zip(flows, utterances, strict=True)],
        sparse_encoder=encoders.TfidfEncoder() if hybrid else None,
        **options,
    )

    async def ask(request: str) -> list[str]:
        choices: list[Any] = await router.acall(request, limit=top)
        return [choice.name for choice in choices if choice.name]

    return ask


def ratel(flows: Sequence[Mapping[str, Any]], top: int) -> Any:
    """ratel-ai's ToolCatalog with its default ranking, BM25; examples stand in the description."""
    package = import_module("ratel_ai")
    catalog = package.ToolRegistry()
    for flow in flows:
        catalog.register(flow["name"], flow["name"], " ".join((flow["text"], *flow["examples"])), {}, {})

    async def ask(request: str) -> list[str]:
        return [hit.tool_id for hit in catalog.search(request, top)]

    return ask


SYSTEMS = ("semantic-router, hybrid", "semantic-router, hybrid, defaults", "semantic-router, dense", "ratel-ai, BM25")


def built(task: Mapping[str, Any]) -> Any:
    """The system that a task names, with its flows."""
    name, flows, top = task["system"], task["flows"], task["top"]
    if name.startswith("ratel"):
        return ratel(flows, top)
    sys.path.insert(0, task["root"])
    embedder = import_module("jazz_select.memory.embedders.known_embedders").open_embedder(task["embedder"])
    return semantic_router(flows, embedder, top, hybrid="hybrid" in name, tuned="defaults" not in name)


async def answered(task: Mapping[str, Any]) -> dict[str, Any]:
    """Build, warm up, ask."""
    start = perf_counter()
    ask = built(task)
    build_s = perf_counter() - start
    for request in task["requests"][:WARM_UP]:
        await ask(request)
    ranked: list[list[str]] = []
    seconds: list[float] = []
    for request in task["requests"]:
        start = perf_counter()
        found = await ask(request)
        seconds.append(perf_counter() - start)
        ranked.append(found)
    return {"build_s": build_s, "ranked": ranked, "seconds": seconds}


def main() -> None:
    """Answer one task."""
    task = json.loads(sys.stdin.readline())
    try:
        answer = asyncio.run(answered(task))
    except Exception as error:  # noqa: BLE001 - whatever a peer fails with is told, and the others go on
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
