"""The common recipe: one text per flow, dense and BM25 vectors, fused by plain RRF, in qdrant-client's local mode."""

from collections.abc import Sequence

import qdrant_edge as qe
from qdrant_client import AsyncQdrantClient, models

from benchmarks.datasets.base import Entry
from benchmarks.index import described
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import spoken_name

RRF_K = 10
_COLLECTION = "recipe"
_PREFETCH = 20


def text_of(entry: Entry) -> str:
    """A flow as one text: name, description, examples."""
    return " ".join((f"{spoken_name(entry.name)}: {described(entry)}", *entry.examples))


class CommonRecipe:
    """What a tutorial on hybrid search builds."""

    def __init__(self, embedder: str, top: int) -> None:
        self._embedder = open_embedder(embedder)
        self._words = qe.Bm25(qe.Bm25Config())
        self._client = AsyncQdrantClient(":memory:")
        self._top = top

    async def build(self, entries: Sequence[Entry]) -> None:
        """Index the flows."""
        await self._client.create_collection(
            _COLLECTION,
            vectors_config={
                "dense": models.VectorParams(size=self._embedder.dim, distance=models.Distance.COSINE),
            },
            sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        texts = [text_of(entry) for entry in entries]
        vectors = self._embedder.embed(texts)
        await self._client.upsert(
            _COLLECTION,
            [
                models.PointStruct(
                    id=number,
                    vector={"dense": vectors[number].tolist(), "bm25": self._sparse(self._words.embed_document(text))},
                    payload={"name": entry.name},
                )
                for number, (entry, text) in enumerate(zip(entries, texts, strict=True))
            ],
        )

    async def ask(self, request: str) -> list[str]:
        """The names of the best flows."""
        dense = self._embedder.embed_query(request).tolist()
        sparse = self._sparse(self._words.embed_query(request))
        found = await self._client.query_points(
            _COLLECTION,
            prefetch=[
                models.Prefetch(query=dense, using="dense", limit=_PREFETCH),
                models.Prefetch(query=sparse, using="bm25", limit=_PREFETCH),
            ],
            query=models.RrfQuery(rrf=models.Rrf(k=RRF_K)),
            limit=self._top,
        )
        return [str((point.payload or {})["name"]) for point in found.points]

    async def close(self) -> None:
        """Release the index."""
        await self._client.close()

    @staticmethod
    def _sparse(vector: "qe.SparseVector") -> models.SparseVector:
        return models.SparseVector(indices=list(vector.indices), values=list(vector.values))
