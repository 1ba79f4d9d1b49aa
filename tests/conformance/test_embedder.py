"""One contract for every embedder."""

from collections.abc import Callable

import pytest

from jazz_select.errors import ConfigError, MissingExtraError
from jazz_select.memory.embedders import known_embedders as embedders
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.ports import Embedder
from jazz_select.settings import Settings
from jazz_select.testing import FailingEmbedder, HashEmbedder, check_embedder
from tests.vectors import NEEDS_STATIC

BACKENDS = [
    pytest.param(lambda: open_embedder("static"), id="static", marks=NEEDS_STATIC),
    pytest.param(lambda: open_embedder("minilm"), id="minilm"),
    pytest.param(HashEmbedder, id="hash"),
    pytest.param(lambda: FailingEmbedder(failing=False), id="failing, while it works"),
    pytest.param(lambda: open_embedder(Settings().embedder), id="JAZZ_EMBEDDER", marks=pytest.mark.live),
]


@pytest.mark.parametrize("make", BACKENDS)
def test_an_embedder_keeps_its_promises(make: Callable[[], Embedder]) -> None:
    check_embedder(make())


@NEEDS_STATIC
def test_static_vectors_know_what_is_near() -> None:
    static = open_embedder("static")
    request, near, far = static.embed(["give me my money back", "refund my order", "what is the weather in Lima"])
    assert request @ near > request @ far
    assert open_embedder("static").identity == static.identity


def test_an_embedder_object_is_taken_as_it_is() -> None:
    mine = HashEmbedder()
    assert open_embedder(mine) is mine


def test_a_missing_extra_is_one_error_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedders, "find_spec", _nothing_installed)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[fastembed\]'"):
        open_embedder("fastembed:BAAI/bge-small-en-v1.5")


@pytest.mark.parametrize("spec", ["", "glove", "static:large", "fastembed", "fastembed:"])
def test_an_unknown_embedder_says_which_there_are(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"static, fastembed:<model>"):
        open_embedder(spec)


def _nothing_installed(_: str) -> None:
    return None
