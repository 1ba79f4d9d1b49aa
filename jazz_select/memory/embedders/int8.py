"""An ONNX graph with int8 weights, rewritten as it is loaded so that it multiplies with them as they are.

Such a graph makes floats of all its weights before it multiplies: four times the memory to read for each request,
which is where its time goes. Here each of these products becomes the operator that takes int8, and rows of an embedding
become floats once they are looked up. No weight changes. What weights are multiplied with is rounded to int8 in blocks
of one token each, so that no text changes another's vector.

ONNX is Protocol Buffers: each field is a number and a kind, then a varint, or bytes after their length. That much is
read and written here, since the package `onnx` is no dependency.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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
