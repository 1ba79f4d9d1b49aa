"""Embedders without a model, for tests that need vectors and no download."""

import re
from collections import defaultdict
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.ports import Embedder, Vectors

_WORD = re.compile(r"\w+")
_GRAM = 3
_GRAM_WEIGHT = 0.5


class HashEmbedder:
    """An `Embedder` by feature hashing: texts that share words, or parts of words, are near each other.

    Gives the same vectors on every machine. It knows no synonyms and does not replace a model where quality counts.
    """

    def __init__(self, dim: int = 256) -> None:
        if dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}")
        self.identity, self.dim = f"hash:{dim}", dim
        self.offload = False  # it takes microseconds

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text; a text without a word is a zero row."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in _features(text).items():
                code = crc32(feature.encode("utf-8", "surrogatepass"))
                # The lowest bit is the feature's sign, so that collisions cancel out instead of adding up.
                row[(code >> 1) % self.dim] += weight if code & 1 else -weight
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=rows, where=lengths > 0)

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a request, as of any text."""
        return self.embed([text])[0]


class FailingEmbedder:
    """An `Embedder` that fails while `failing` is true, and delegates otherwise.

    Set `failing` to False to index, and back to True to test recall without vectors.
    """

    def __init__(
        self, embedder: Embedder | None = None, *, error: Exception | None = None, failing: bool = True
    ) -> None:
        """Create an embedder that fails.

        Args:
            embedder: Its vectors, identity and dim are used; a `HashEmbedder` by default.
            error: What to raise; an `EmbeddingError` by default.
            failing: Whether it fails from the start.
        """
        self.failing = failing
        self._embedder = embedder or HashEmbedder()
        self._error = error or EmbeddingError(self._embedder.identity, "set to fail")
        self.identity, self.dim = self._embedder.identity, self._embedder.dim  # so that its index fits
        self.offload = self._embedder.offload

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Fail or delegate."""
        return self._checked_embedder().embed(texts)

    def embed_query(self, text: str) -> Vectors:
        """Fail or delegate."""
        return self._checked_embedder().embed_query(text)

    def _checked_embedder(self) -> Embedder:
        if self.failing:
            raise self._error
        return self._embedder


def _features(text: str) -> dict[str, float]:
    features: defaultdict[str, float] = defaultdict(float)
    for word in _WORD.findall(text.casefold()):
        features[word] += 1.0
        marked = f"^{word}$"
        for start in range(len(marked) - _GRAM + 1):
            features["#" + marked[start : start + _GRAM]] += _GRAM_WEIGHT
    return features
