"""Caches of text vectors: in memory for this process, and in a file beside the index for a catalogue."""

import hashlib
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from jazz_select.ports import Embedder, Vectors
from jazz_select.sqlite_files import guard, wrong_schema

_log = logging.getLogger(__name__)

FILE_NAME: Final = "vectors.sqlite"
_MOST_IN_MEMORY: Final = 32 << 20
"""Maximum size of an embedder's cache in memory, in bytes: some 20,000 texts."""
_MOST_ON_DISK: Final = 200_000
"""Maximum number of vectors in a file, about 300 MB; the oldest are deleted beyond it."""
_TABLE: Final = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, row BLOB NOT NULL)"
_STORED: Final = {"vectors": ("key", "row")}
Embed = Callable[[Sequence[str]], Vectors]


class _Recent:
    """An LRU cache of one embedder's vectors."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Vectors] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def known(self, texts: Sequence[str]) -> dict[str, Vectors]:
        with self._lock:
            found = {text: row for text in texts if (row := self._rows.get(text)) is not None}
            for text in found:
                self._rows.move_to_end(text)
            return found

    def keep(self, rows: Mapping[str, Vectors]) -> None:
        with self._lock:
            for text, row in rows.items():
                self._bytes += 0 if text in self._rows else row.nbytes
                self._rows[text] = row.copy()
            while self._bytes > _MOST_IN_MEMORY:
                self._bytes -= self._rows.popitem(last=False)[1].nbytes


_RECENT: Final[WeakKeyDictionary[Embedder, _Recent]] = WeakKeyDictionary()


def _recent(embedder: Embedder) -> _Recent:
    try:
        return _RECENT.setdefault(embedder, _Recent())
    except TypeError:  # not hashable or not weakly referenceable
        return _Recent()


class VectorFile:
    """The vectors of a catalogue's texts in an SQLite file, by digest of embedder and text.

    It is only a cache: a damaged, full or locked file counts as none. Each row has a checksum, since SQLite does not
    detect a changed byte; and a vector that no text can have (not finite, zero, of another length) is neither stored
    nor read, whoever wrote it.
    """

    def __init__(self, folder: Path) -> None:
        """Use the file in this folder; the first write creates it."""
        self._path = folder / FILE_NAME

    def known(self, embedder: Embedder, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the cached vectors of these texts."""
        found: dict[str, Vectors] = {}
        damaged: list[str] = []

        def read_rows(file: sqlite3.Connection) -> None:
            for text in texts:
                held = file.execute("SELECT row FROM vectors WHERE key = ?", (_digest(embedder.identity, text),))
                row = next(held, None)
                vector = None if row is None else _row_of_bytes(row[0])
                if vector is not None and _is_usable(vector, embedder.dim):
                    found[text] = vector
                elif row is not None:
                    damaged.append(text)

        if self._path.exists():
            self._use(read_rows)
        if damaged:
            what = "vectors in %s are damaged (not finite, zero, or of another length), and made again"
            _log.warning(f"%d {what}; the first is of %.80r", len(damaged), self._path.name, damaged[0])
        return found

    def keep(self, embedder: Embedder, rows: Mapping[str, Vectors]) -> None:
        """Write these vectors in one transaction, without those that no text can have."""
        usable = {text: row for text, row in rows.items() if _is_usable(row, embedder.dim)}
        if len(usable) < len(rows):
            first = next(text for text in rows if text not in usable)
            what = (
                "%d of %d vectors are not stored in %s (not finite, zero, or of another length); the first is of %.80r"
            )
            _log.info(what, len(rows) - len(usable), len(rows), self._path.name, first)
        if not usable:
            return
        written = [(_digest(embedder.identity, text), _row_bytes(row)) for text, row in usable.items()]

        def write(file: sqlite3.Connection) -> None:
            file.execute("PRAGMA synchronous = OFF")  # a loss of power costs only another embedding
            file.execute(_TABLE)
            file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", written)
            last = file.execute("SELECT max(rowid) FROM vectors").fetchone()[0] or 0
            file.execute("DELETE FROM vectors WHERE rowid <= ?", (last - _MOST_ON_DISK,))
            file.commit()

        self._use(write)

    def _use(self, work: Callable[[sqlite3.Connection], None]) -> None:
        try:
            with closing(sqlite3.connect(self._path, timeout=0.1)) as file:
                _check(file)
                work(file)
        except sqlite3.OperationalError as error:  # no room, or locked
            _log.info("the vectors in %s are not used: %s", self._path.name, error)
        except (sqlite3.DatabaseError, UnicodeError) as error:
            _log.warning("the vectors in %s cannot be read (%s): they are made again", self._path.name, error)
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def _check(file: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError unless the file is empty or has the table: a folder may come from anywhere."""
    guard(file)
    is_new = not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new and (problem := wrong_schema(file, _STORED)):
        raise sqlite3.DatabaseError(problem)


def embed_with_cache(embedder: Embedder, embed: Embed, texts: Sequence[str], file: VectorFile | None = None) -> Vectors:
    """Return one row per text; embed each distinct unknown text once.

    `file` is used only with a slow embedder (`offload`): a fast one is quicker than a disk.
    """
    if not texts:
        return np.zeros((0, embedder.dim), dtype=np.float32)
    distinct = list(dict.fromkeys(texts))
    recent = _recent(embedder)
    known = recent.known(distinct)
    slow = file if embedder.offload else None
    if slow and len(known) < len(distinct):
        stored = slow.known(embedder, [text for text in distinct if text not in known])
        recent.keep(stored)
        known |= stored
    new = [text for text in distinct if text not in known]
    if new:
        made = dict(zip(new, embed(new), strict=True))
        recent.keep(made)
        if slow:
            slow.keep(embedder, made)
        known |= made
    return np.stack([known[text] for text in texts])


def _is_usable(vector: Vectors, dim: int) -> bool:
    """Whether it may be the vector of a text: of this length, finite, and with a direction."""
    if vector.shape != (dim,) or not np.isfinite(vector).all():
        return False
    return bool(vector.any())


def _digest(identity: str, text: str) -> bytes:
    return hashlib.sha256(f"{identity}\0{text}".encode(errors="surrogatepass")).digest()[:16]


def _row_bytes(vector: Vectors) -> bytes:
    held = vector.astype("<f4").tobytes()
    return crc32(held).to_bytes(4, "little") + held


def _row_of_bytes(row: object) -> Vectors | None:
    is_whole = isinstance(row, bytes) and len(row) % 4 == 0 and row[:4] == crc32(row[4:]).to_bytes(4, "little")
    return np.frombuffer(row, dtype="<f4", offset=4) if isinstance(row, bytes) and is_whole else None
