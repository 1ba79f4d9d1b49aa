"""The bare parts of recall, called as directly as they allow: what recall costs at least."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as qe
import wordllama
from wordllama import WordLlama

from jazz_select.ports import FlowPoint


class BareEngine:
    """A Qdrant Edge shard with the points of an index, asked without anything around it."""

    def __init__(self, folder: Path, points: Sequence[FlowPoint], *, limit: int, depth: int, rrf_k: int) -> None:
        dim = len(points[0].dense or ())
        self._limit = limit
        self._depth = depth
        self._rrf: Any = qe.Fusion.Rrf(k=rrf_k)
        self._bm25 = qe.Bm25(qe.Bm25Config(language="english", tokenizer=qe.TokenizerType.Multilingual))
        folder.mkdir()
        self._shard = qe.EdgeShard.create(
            str(folder),
            qe.EdgeConfig(
                vectors={"flow": qe.EdgeVectorParams(size=dim, distance=qe.Distance.Cosine)},
                sparse_vectors={"bm25": qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
            ),
        )
        self._shard.update(
            qe.UpdateOperation.upsert_points([_point(number, each) for number, each in enumerate(points)])
        )
        self._shard.flush()

    def ask(self, text: str, dense: list[float]) -> Any:
        """The fused query and both arms in one batch, as recall asks them."""
        by_meaning = qe.Query.Nearest(dense, using="flow")
        by_words = qe.Query.Nearest(self._bm25.embed_query(text), using="bm25")
        arms = [qe.Prefetch(limit=self._depth, query=query) for query in (by_meaning, by_words)]
        return self._shard.query_batch(
            qe.QueryBatchRequest(
                [
                    qe.QueryRequest(limit=self._limit, query=self._rrf, prefetches=arms, with_payload=True),
                    qe.QueryRequest(limit=self._depth, query=by_meaning),
                    qe.QueryRequest(limit=self._depth, query=by_words),
                ]
            )
        )

    def close(self) -> None:
        """Release the folder."""
        self._shard.close()


class BareEmbedder:
    """wordllama, called as its own documentation does."""

    def __init__(self) -> None:
        folder = Path(wordllama.__file__).parent
        self._model: Any = WordLlama.load(cache_dir=folder, disable_download=True)

    def embed(self, text: str) -> list[float]:
        """The unit vector of a text."""
        return self._model.embed([text], norm=True)[0].tolist()


def _point(number: int, point: FlowPoint) -> qe.Point:
    sparse = qe.SparseVector(indices=list(point.sparse.indices), values=list(point.sparse.values))
    return qe.Point(number, {"flow": list(point.dense or ()), "bm25": sparse}, dict(point.payload))
