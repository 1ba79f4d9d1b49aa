"""The bare parts of recall, called as directly as they allow: what recall costs at least."""

import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from jazz_select.ports import FlowPoint, SparseVector


class BareEngine:
    """A Qdrant Edge shard with the points of an index, asked without anything around it.

    It counts no IDF, as the shards of recall count none: that takes half as long again.
    """

    def __init__(self, folder: Path, points: Sequence[FlowPoint], *, depth: int) -> None:
        dim = len(points[0].dense or ())
        self._depth = depth
        folder.mkdir()
        self._shard = qe.EdgeShard.create(
            str(folder),
            qe.EdgeConfig(
                vectors={"flow": qe.EdgeVectorParams(size=dim, distance=qe.Distance.Cosine)},
                sparse_vectors={"bm25": qe.EdgeSparseVectorParams()},
            ),
        )
        self._shard.update(
            qe.UpdateOperation.upsert_points([_point(number, each) for number, each in enumerate(points)])
        )
        self._shard.flush()

    def ask(self, dense: list[float], sparse: qe.SparseVector) -> Any:
        """Both arms in one batch, as recall asks them; nothing is done with the answer."""
        return self._shard.query_batch(
            qe.QueryBatchRequest(
                [
                    qe.QueryRequest(limit=self._depth, query=qe.Query.Nearest(dense, using="flow")),
                    qe.QueryRequest(limit=self._depth, query=qe.Query.Nearest(sparse, using="bm25")),
                ]
            )
        )

    def ask_words(self, dense: list[float], words: SparseVector) -> Any:
        """`ask`, with the words still to be put in the engine's terms."""
        return self.ask(dense, qe.SparseVector(indices=list(words.indices), values=list(words.values)))

    def close(self) -> None:
        """Release the folder."""
        self._shard.close()


class BareEmbedder:
    """wordllama, called as its own documentation does."""

    def __init__(self) -> None:
        wordllama: Any = import_module("wordllama")  # not every platform has it
        logging.getLogger().setLevel(logging.WARNING)  # it has the root logger write a line for each request
        folder = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def embed(self, text: str) -> list[float]:
        """The unit vector of a text."""
        return self._model.embed([text], norm=True)[0].tolist()


def _point(number: int, point: FlowPoint) -> qe.Point:
    sparse = qe.SparseVector(indices=list(point.sparse.indices), values=list(point.sparse.values))
    return qe.Point(number, {"flow": list(point.dense or ()), "bm25": sparse}, dict(point.payload))
