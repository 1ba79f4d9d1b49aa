"""The default embedder: static word vectors that come inside the wordllama wheel. No download, tens of microseconds."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import wordllama
from wordllama import WordLlama

from jazz_select.errors import EmbeddingError
from jazz_select.ports import Vectors


class StaticEmbedder:
    """Mean of static token vectors, unit length."""

    offload = False

    def __init__(self) -> None:
        """Load the weights and the tokenizer that the wheel holds.

        Raises:
            EmbeddingError: The wheel does not hold them.
        """
        folder = Path(wordllama.__file__).parent
        try:
            # The bundled tokenizer is only found when the package's own folder is the cache.
            self._model: Any = WordLlama.load(cache_dir=folder, disable_download=True)
        except (FileNotFoundError, OSError, ValueError) as error:
            raise EmbeddingError("static", f"the wordllama package is incomplete ({error}); reinstall it") from error
        self.dim = int(self._model.embedding.shape[1])
        self.identity = f"static:wordllama-{version('wordllama')}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a text without a token is a zero row."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        rows: Vectors = self._model.embed(list(texts))
        return unit_rows(np.asarray(rows, dtype=np.float32))

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request; requests and documents are embedded alike."""
        return self.embed((text,))[0]


def unit_rows(rows: Vectors) -> Vectors:
    """Each row at length 1; rows of length 0 (or not finite) become zero rows, never NaN."""
    rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
