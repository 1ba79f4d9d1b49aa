"""The embedders without a model, and the contract of the port."""

import subprocess
import sys
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select.errors import EmbeddingError
from jazz_select.ports import Embedder, Vectors
from jazz_select.testing import FailingEmbedder, HashEmbedder, check_embedder


@pytest.mark.parametrize("dim", [32, 256, 1024])
def test_hash_embedder_keeps_the_contract(dim: int) -> None:
    check_embedder(HashEmbedder(dim))


def test_failing_embedder_keeps_the_contract_while_it_works() -> None:
    embedder = FailingEmbedder()
    embedder.failing = False
    check_embedder(embedder)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=4))
def test_each_row_is_a_unit_or_nothing(texts: list[str]) -> None:
    rows = HashEmbedder(64).embed(texts)
    assert rows.shape == (len(texts), 64)
    lengths = np.linalg.norm(rows, axis=1)
    assert np.all(np.isclose(lengths, 1, atol=1e-5) | (lengths == 0))


def test_shared_words_and_parts_of_words_are_near() -> None:
    embedder = HashEmbedder()
    query = embedder.embed_query("refunding orders")
    same, related, other = embedder.embed(["Orders REFUNDING", "refund an order", "sunny weather"]) @ query
    assert same == pytest.approx(1, abs=1e-5)
    assert related > other + 0.2


def test_the_same_vectors_in_every_process() -> None:
    program = "from jazz_select.testing import HashEmbedder; print(HashEmbedder(8).embed_query('refund it').tolist())"
    seen = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30).stdout
        for _ in range(2)
    }
    assert seen == {f"{HashEmbedder(8).embed_query('refund it').tolist()}\n"}


def test_a_vector_has_a_length() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        HashEmbedder(0)


def test_failing_embedder_fails_while_told_to() -> None:
    embedder = FailingEmbedder(HashEmbedder(16))
    assert (embedder.identity, embedder.dim) == ("hash:16", 16)
    for call in (lambda: embedder.embed(["a"]), lambda: embedder.embed_query("a")):
        with pytest.raises(EmbeddingError, match="hash:16"):
            call()
    embedder.failing = False
    assert embedder.embed_query("a").shape == (16,)


def test_failing_embedder_raises_what_it_is_given() -> None:
    error = RuntimeError("out of memory")
    with pytest.raises(RuntimeError) as caught:
        FailingEmbedder(error=error).embed_query("a")
    assert caught.value is error


class Broken(HashEmbedder):
    """Delegates, with one thing wrong."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self._wrong = wrong
        self._calls = 0
        self.identity = "" if wrong == "identity" else self.identity
        self.dim = 0 if wrong == "dim" else self.dim
        self.offload = cast("bool", None) if wrong == "offload" else self.offload

    def embed(self, texts: Sequence[str]) -> Vectors:
        self._calls += 1
        rows = super().embed(texts)
        match self._wrong:
            case "length":
                rows = rows * np.float32(2)
            case "dtype":
                rows = cast("Vectors", rows.astype(np.float64))
            case "nan":
                rows[:, 0] = np.nan
            case "shape":
                rows = rows[:, 1:]
            case "empty" if not texts:
                rows = np.zeros((0,), dtype=np.float32)
            case "order":
                rows = rows[::-1]
            case "random":
                rows = np.roll(rows, self._calls, axis=1)
            case "list":
                return cast("Vectors", rows.tolist())
            case "blind":
                rows = np.full_like(rows, self.dim**-0.5)
            case _:
                pass
        return rows

    def embed_query(self, text: str) -> Vectors:
        row = HashEmbedder.embed(self, [text])[0]
        return row[np.newaxis] if self._wrong == "query" else row


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("identity", "identity must name"),
        ("dim", "dim must be a positive int"),
        ("offload", "offload must be a bool"),
        ("length", "rows of length 1"),
        ("dtype", "must be float32"),
        ("nan", "must be finite"),
        ("shape", "must have the shape"),
        ("empty", r"embed\(\[\]\) must have the shape"),
        ("order", "must not depend on the texts beside it"),
        ("random", "must give the same vectors"),
        ("list", "must return an array"),
        ("query", "embed_query"),
        ("blind", "must be nearer"),
    ],
)
def test_an_embedder_that_breaks_the_contract_is_found_out(wrong: str, problem: str) -> None:
    broken: Embedder = Broken(wrong)
    with pytest.raises(AssertionError, match=problem):
        check_embedder(broken)
