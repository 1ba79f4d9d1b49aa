"""Static vectors, read out of the wheel that holds them."""

from collections.abc import Iterator

import pytest

from jazz_select.errors import EmbeddingError
from jazz_select.memory.embedders import static
from tests.vectors import NEEDS_STATIC

pytestmark = NEEDS_STATIC
TEXTS = ["where is my parcel", "Où est mon colis ? 日本語", "a b " * 900, ""]


@pytest.fixture
def read_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """As if nothing had been read yet; afterwards too."""
    static._load.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield monkeypatch
    static._load.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("file", ["_TOKENIZER", "_WEIGHTS"])
def test_a_spoilt_wheel_is_an_error_that_says_what_to_do(read_anew: pytest.MonkeyPatch, file: str) -> None:
    read_anew.setattr(static, file, "__init__.py")
    with pytest.raises(EmbeddingError, match=r"the wordllama package is incomplete \(.+\); reinstall it"):
        static.StaticEmbedder()
