"""From an embedder's name to the embedder."""

from importlib.util import find_spec

from jazz_select.errors import ConfigError, MissingExtraError
from jazz_select.ports import Embedder

_KNOWN = "static, fastembed:<model> (for example fastembed:BAAI/bge-small-en-v1.5) or fastembed:<name>@<folder>"


def open_embedder(spec: str | Embedder) -> Embedder:
    """The embedder of this name, loaded; an `Embedder` is returned as it is.

    Raises:
        ConfigError: There is no such embedder.
        MissingExtraError: It needs an optional dependency that is not installed.
    """
    if not isinstance(spec, str):
        return spec
    kind, _, model = spec.partition(":")
    if kind == "static" and not model:
        from jazz_select.memory.embed_static import StaticEmbedder

        return StaticEmbedder()
    if kind == "fastembed" and model:
        if find_spec("fastembed") is None:
            raise MissingExtraError("fastembed", extra="fastembed", purpose=f"the embedder {spec!r}")
        from jazz_select.memory.embed_fastembed import FastEmbedder

        name, _, folder = model.partition("@")
        return FastEmbedder(name, folder=folder or None)
    msg = f"no such embedder: {spec!r}. Use {_KNOWN}, or pass an object with embed and embed_query."
    raise ConfigError(msg)
