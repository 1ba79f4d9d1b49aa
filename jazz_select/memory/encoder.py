"""From flows and requests to vectors: one prototype per flow, both arms per request."""

from collections.abc import Mapping, Sequence

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory import documents
from jazz_select.memory.engines.points import Layout
from jazz_select.memory.lexical import Lexical
from jazz_select.ports import Embedder, FlowPoint, Vectors
from jazz_select.values import FlowCard


class Encoder:
    """An embedder and the lexical settings: together they make the layout of an index."""

    def __init__(self, embedder: Embedder, lexical: Lexical) -> None:
        """Join them."""
        self.embedder = embedder
        self.lexical = lexical
        self.layout = Layout(embedder=embedder.identity, dim=embedder.dim, lexical=lexical.identity)

    def fingerprint(self, card: FlowCard) -> str:
        """Changes when the flow, its embedded text, or the layout changes."""
        return documents.fingerprint(card, self.layout.key)

    def rows(self, cards: Sequence[FlowCard]) -> dict[str, Vectors]:
        """Flow id to the vectors of its texts; all texts go through the embedder in one call.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        texts = {card.id: documents.dense_texts(card) for card in cards}
        vectors = self.embed([text for group in texts.values() for text in group])
        ends = np.cumsum([len(group) for group in texts.values()]).tolist()
        return {flow: vectors[end - len(group) : end] for (flow, group), end in zip(texts.items(), ends, strict=True)}

    def points(self, agent_id: str, cards: Sequence[FlowCard], rows: Mapping[str, Vectors]) -> list[FlowPoint]:
        """One point per card, from the vectors of its texts."""
        return [
            FlowPoint(
                agent_id=agent_id,
                flow_id=card.id,
                fingerprint=self.fingerprint(card),
                dense=_prototype(rows[card.id]),
                sparse=self.lexical.document(documents.lexical_parts(card), stop_words=bool(card.examples)),
                payload=documents.payload(card),
            )
            for card in cards
        ]

    def request(self, text: str) -> Vectors | None:
        """The dense vector of a request, or None where the embedder knows none of its words.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        try:
            vector = np.asarray(self.embedder.embed_query(text), dtype=np.float32)
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(self.embedder.identity, repr(error)) from error
        self._check(vector, (self.embedder.dim,))
        return vector if vector.any() else None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        try:
            rows = np.asarray(self.embedder.embed(texts), dtype=np.float32)
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(self.embedder.identity, repr(error)) from error
        self._check(rows, (len(texts), self.embedder.dim))
        return rows

    def _check(self, vectors: Vectors, shape: tuple[int, ...]) -> None:
        if vectors.shape != shape:
            raise EmbeddingError(self.embedder.identity, f"it returned shape {vectors.shape}, not {shape}")
        if not np.isfinite(vectors).all():
            raise EmbeddingError(self.embedder.identity, "it returned numbers that are not finite")


def _prototype(rows: Vectors) -> list[float] | None:
    """The normalised mean of a flow's text vectors: where its requests are expected to lie."""
    mean = rows.mean(axis=0)
    norm = float(np.linalg.norm(mean))
    return (mean / norm).tolist() if norm > 0 else None
