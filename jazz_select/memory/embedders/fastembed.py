"""Every model that fastembed runs, by its hub name or from a local ONNX folder."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

from jazz_select.errors import ConfigError, EmbeddingError
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.ports import Vectors

_ONNX_FILES = ("model.onnx", "model_optimized.onnx", "onnx/model.onnx")
_SAMPLE = 1 << 16


class FastEmbedder:
    """A transformer on ONNX Runtime; around a millisecond a request."""

    offload = True

    def __init__(self, name: str, *, folder: str | None = None) -> None:
        """Load the model `name` from the hub, or from `folder` without a download.

        Raises:
            ConfigError: The folder has no ONNX model, or the hub has no such model.
            EmbeddingError: The model could not be loaded or fetched.
        """
        self._spec = f"fastembed:{name}" + (f"@{folder}" if folder else "")
        self.identity = f"fastembed:{name}"
        options: dict[str, Any] = {}
        if folder is not None:
            path = Path(folder).expanduser()
            model_file = _model_file(path)
            options["specific_model_path"] = str(path)
            self.identity += f"#{_content_mark(path / model_file)}"
            if not _is_known(name):
                _describe(name, path, model_file)
        elif not _is_known(name):
            msg = f"fastembed has no model {name!r}: use one that it lists, or give a folder: fastembed:{name}@<folder>"
            raise ConfigError(msg)
        try:
            self._model = TextEmbedding(name, **options)
            self.dim = int(self.embed(["probe"]).shape[1])
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(self._spec, f"it could not be loaded ({error})") from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        # One at a time: a quantized model scales its activations by batch, so that vectors would depend on the other
        # texts (cosines of .95 to .99), and a batch of long texts takes gigabytes. A batch would save a third of the
        # time on a CPU.
        return self._run(self._model.embed(list(texts), batch_size=1))

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a request, with the model's prefix for requests."""
        return self._run(self._model.query_embed(text))[0]

    def _run(self, vectors: Any) -> Vectors:
        try:
            return unit_rows(np.asarray(list(vectors), dtype=np.float32))
        except Exception as error:
            raise EmbeddingError(self._spec, str(error)) from error


def _is_known(name: str) -> bool:
    return any(model["model"].lower() == name.lower() for model in TextEmbedding.list_supported_models())


def _model_file(folder: Path) -> str:
    for name in _ONNX_FILES:
        if (folder / name).is_file():
            return name
    msg = f"no ONNX model in {folder}: expected one of {', '.join(_ONNX_FILES)}, beside tokenizer.json and config.json"
    raise ConfigError(msg)


def _describe(name: str, folder: Path, model_file: str) -> None:
    """Register an unknown model with fastembed, from the folder's files."""
    try:
        dim = int(json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{folder / 'config.json'} does not say the model's hidden_size ({error!r})") from error
    TextEmbedding.add_custom_model(
        model=name,
        pooling=_pooling(folder),
        normalization=True,
        sources=ModelSource(hf=name),
        dim=dim,
        model_file=model_file,
    )


def _pooling(folder: Path) -> PoolingType:
    """Return the pooling that sentence-transformers stored with the model; mean by default."""
    try:
        config = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return PoolingType.MEAN
    return PoolingType.CLS if config.get("pooling_mode_cls_token") else PoolingType.MEAN


def _content_mark(file: Path) -> str:
    """Return a digest of a model file's size and both ends: reading gigabytes at start-up would take too long."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        head = stream.read(_SAMPLE)
        stream.seek(max(0, size - _SAMPLE))
        tail = stream.read(_SAMPLE)
    return hashlib.sha256(b"%d" % size + head + tail).hexdigest()[:12]
