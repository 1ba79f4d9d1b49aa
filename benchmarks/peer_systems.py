"""Other routers, asked by a script in an environment of their own, since their pins and ours exclude each other.

`python peer_systems.py` reads one JSON line: {"system", "embedder", "flows": [{"name", "text", "examples"}],
"requests", "top", "root"}; it writes one: {"build_s", "ranked", "seconds"}, or {"error"}. With "labelled", requests
with the flow that each is for, semantic-router is fitted to them, and "confidences" of the first are written as well.

Every system gets the same flows and the same embedder, and is timed one request at a time, embedding included.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from threading import Thread
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

    ask.router = router  # pyright: ignore[reportFunctionMemberAccess] - for whoever fits it
    return ask


def fitted(flows: Sequence[Mapping[str, Any]], embedder: Any, labelled: Sequence[Sequence[str]]) -> Any:
    """The tuned hybrid router, its confidence fitted to labelled requests: the first flow and how sure it is."""
    router: Any = semantic_router(flows, embedder, 1, hybrid=True).router

    async def ask(request: str) -> list[Any]:
        if not router.calibrated:
            await router.afit([text for text, _ in labelled], [name for _, name in labelled])
        choice = await router.acall(request, limit=1)
        return [choice.name, choice.confidence]

    return ask


def ratel(flows: Sequence[Mapping[str, Any]], embedder: Any, top: int) -> Any:
    """ratel-ai's catalogue of tools: BM25, its default, or its hybrid mode with the same embedder as all others.

    It takes embeddings of somebody else's from a server with OpenAI's protocol, so there is one on loopback; its time
    is in the time of each request. Examples stand in the description.
    """
    package = import_module("ratel_ai")
    method = "bm25" if embedder is None else "hybrid"
    served = None if embedder is None else {"url": served_embeddings(embedder), "model": "same"}
    registry = package.ToolRegistry(served, method=method)
    tools = [
        package.Tool(
            id=flow["name"],
            name=flow["name"],
            description=" ".join((flow["text"], *flow["examples"])),
            input_schema={},
            output_schema={},
        )
        for flow in flows
    ]
    built = False

    async def ask(request: str) -> list[str]:
        nonlocal built
        if not built:
            await registry.register(tools)
            built = True
        hits = await registry.search_async(request, top, "direct", method)
        return [hit.tool_id for hit in hits]

    return ask


def served_embeddings(embedder: Any) -> str:
    """The address of a server on loopback that embeds as OpenAI's does, for as long as this process lives."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # ratel keeps its connection

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            rows = embedder.embed(texts).tolist()
            data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
            body = json.dumps({"object": "list", "model": "same", "data": data}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it overrides
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/v1/embeddings"


SYSTEMS = (
    *("semantic-router, hybrid", "semantic-router, hybrid, defaults", "semantic-router, dense"),
    *("ratel-ai, BM25", "ratel-ai, hybrid"),
)


def built(task: Mapping[str, Any]) -> Any:
    """The system that a task names, with its flows."""
    name, flows, top = task["system"], task["flows"], task["top"]
    if name == "ratel-ai, BM25":
        return ratel(flows, None, top)
    sys.path.insert(0, task["root"])
    embedder = import_module("jazz_select.memory.embedders.known_embedders").open_embedder(task["embedder"])
    if name.startswith("ratel"):
        return ratel(flows, embedder, top)
    if "labelled" in task:
        return fitted(flows, embedder, task["labelled"])
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
