"""Static word vectors from the wordllama wheel: nothing to download, tens of microseconds a text."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.ports import Vectors
from jazz_select.text import describe_error

_BATCH = 1_024
"""Texts tokenized at once, on all cores."""
_TOKENIZER, _WEIGHTS = "tokenizers/l2_supercat_tokenizer_config.json", "weights/l2_supercat_256.safetensors"


class StaticEmbedder:
    """Mean of wordllama's static token vectors, unit length.

    Pooling is done here: wordllama pads to the longest text of a batch, which takes most of the time for short texts.
    """

    offload = False

    def __init__(self) -> None:
        """Load the weights and the tokenizer from the wheel.

        Raises:
            EmbeddingError: The wheel does not contain them.
        """
        try:
            self._tokenizer, self._vectors = _load()
        except (FileNotFoundError, OSError, ValueError) as error:
            raise EmbeddingError("static", f"the wordllama package is incomplete ({error}); reinstall it") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._rows_of: Callable[[list[int], int], Vectors] = self._vectors.take
        self.dim = int(self._vectors.shape[1])
        self.identity = f"static:wordllama-{version('wordllama')}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text; a text without tokens gives a zero row."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            self._pool(list(texts[start : start + _BATCH]), rows[start : start + _BATCH])
        return unit_rows(rows)

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a request; requests and documents are embedded alike."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not ids:
            return np.zeros(self.dim, dtype=np.float32)
        total: Vectors = np.add.reduce(self._rows_of(ids, 0))
        length = sqrt(total.dot(total))
        return np.divide(total, np.float32(length), out=total) if length > 0 else total

    def _pool(self, texts: list[str], rows: Vectors) -> None:
        """Fill the rows with sums: they are normalized later, so means are not needed."""
        for row, encoded in zip(rows, self._tokenizer.encode_batch_fast(texts, add_special_tokens=False), strict=True):
            if ids := encoded.ids:
                self._vectors[ids].sum(axis=0, out=row)


class SymmetricEmbedder:
    """Base of embedders that read requests as they read documents."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text."""
        raise NotImplementedError

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a request; requests and documents are embedded alike."""
        return self.embed([text])[0]

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of several requests, in one run."""
        return self.embed(texts)


@cache
def _load() -> tuple[Any, Vectors]:
    """Return the tokenizer and the vectors, read once per process.

    They are read without importing wordllama, which takes longer, loads an HTTP client, and configures the root logger.
    """
    spec = find_spec("wordllama")
    folders = spec.submodule_search_locations if spec is not None else None
    tokenizer, weights = (Path(*(folders or ())[:1], file) for file in (_TOKENIZER, _WEIGHTS))
    reader: Any = import_module("tokenizers")  # both come with wordllama, which not every platform has
    files: Any = import_module("safetensors")
    try:
        with files.safe_open(weights, framework="np") as held:
            vectors = np.ascontiguousarray(held.get_tensor("embedding.weight"), dtype=np.float32)
        return reader.Tokenizer.from_file(str(tokenizer)), vectors
    except Exception as error:  # both libraries document no errors
        raise ValueError(describe_error(error)) from error


def unit_rows(rows: Vectors) -> Vectors:
    """Scale each row to length 1; zero or non-finite rows become zero rows."""
    rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
