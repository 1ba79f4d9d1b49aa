"""From a data set to an index, by the same path that a deployment takes."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.datasets.base import Entry
from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import Encoder, Lexical, indexable
from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.fit.model import RecallModel
from jazz_select.ports import Embedder, HybridQuery, Vectors

AGENT = "bench"


def registry_of(entries: Iterable[Entry]) -> FlowRegistry:
    """The entries as flows, in a registry that asks for no examples."""
    registry = FlowRegistry(min_examples=0)
    for entry in entries:
        Flow(
            name=entry.name,
            description=described(entry),
            examples=entry.examples,
            registry=registry,
        )
    return registry


def described(entry: Entry) -> str:
    """The description; a tool's owner and its parameters are part of what it is, so they stand around it."""
    owner = ", ".join(part for part in (entry.provider, entry.provider_title) if part)
    about = f"{owner}: {entry.description}" if owner else entry.description
    if not entry.parameters:
        return about
    parameters = "; ".join(f"{name}: {text}" if text else name for name, text in entry.parameters)
    return f"{about} Parameters: {parameters}"


class RememberingEmbedder:
    """An embedder that embeds each request when it is first asked, and need not when a leg is asked the same."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._seen: dict[str, Vectors] = {}
        self.replaying = False
        self.identity = inner.identity
        self.dim = inner.dim
        self.offload = inner.offload

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text."""
        return self._inner.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request; from memory only while `replaying`, so that timed calls pay in full."""
        if self.replaying and text in self._seen:
            return self._seen[text]
        vector = self._seen[text] = self._inner.embed_query(text)
        return vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A memory, and the two parts it is made of, to measure them by themselves."""

    memory: ProceduralMemory
    store: EdgeStore
    encoder: Encoder
    embedder: RememberingEmbedder
    model: RecallModel

    async def leg(self, request: str, leg: str, depth: int) -> list[str]:
        """The names that one arm finds when the other one is not asked, best first."""
        text = indexable(request)
        self.embedder.replaying = True
        try:
            dense = self.encoder.requests([text])[0] if leg == "dense" else None
            dense = None if dense is None else self.model.aim(dense)
        finally:
            self.embedder.replaying = False
        words = self.encoder.lexical.query(text) if leg == "bm25" else None
        sparse = words if self.model.terms is None else self.model.terms.weigh_query(words)
        query = HybridQuery(agent_id=AGENT, dense=dense, sparse=sparse, depth=depth)
        if not query.arms:
            return []
        legs = (await self.store.search([query]))[0]
        found = list(legs.dense or legs.bm25)
        payloads = await self.store.retrieve(found)
        return [payloads[key]["flow_name"] for key in found]


@asynccontextmanager
async def indexed(
    entries: Iterable[Entry], embedder: str | Embedder, *, cases: Sequence[tuple[str, str]] = ()
) -> AsyncGenerator[Index]:
    """An embedded index of these entries in a folder of its own, gone when the block ends.

    `cases` are labelled requests: text, name of the entry.
    """
    remembering = RememberingEmbedder(open_embedder(embedder))
    encoder = Encoder(remembering, Lexical())
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        store = EdgeStore(Path(folder) / "index", encoder.layout)
        async with ProceduralMemory(store, encoder) as memory:
            await sync_registry(memory, AGENT, registry_of(entries), cases=cases)
            model = RecallModel.from_note(await store.read_note(AGENT))
            yield Index(memory=memory, store=store, encoder=encoder, embedder=remembering, model=model)
