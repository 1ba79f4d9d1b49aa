"""What an engine stores: points, notes, and the layout that identifies their embedder."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from time import monotonic
from typing import Any, cast
from uuid import UUID

from jazz_select.json_values import is_object
from jazz_select.ports import FlowPoint, FlowStore, HybridQuery, Key, SparseVector

_FORMAT = 3
"""Part of each layout's key: what another version keeps in another way is never read as this one's."""
_FORMATS = range(1, _FORMAT + 1)
"""Those of all versions so far."""
_KEY = re.compile("[0-9a-f]{12}")
_DESCRIPTION = re.compile(r"embedder (.+) \(([0-9]{1,9})(?: and ([0-9]{1,9}))? dimensions\) and (.+)", re.DOTALL)
"""A layout as a stored point names it."""
_LONGEST_DESCRIPTION = 4_000
DENSE = "flow"
SECOND = "flow2"
SPARSE = "bm25"
AGENT = "agent_id"
FINGERPRINT = "fingerprint"
LAYOUT = "layout"
NOTE = "note"
NOTE_OF = "note_of"
SYNCED = "synced"
"""Marks a flow that a sync wrote. Without a note, the sync was cut short or the index lost something."""
_TEXTS = ("flow_id", "flow_name", "flow_type", "description", "condition")
_LONGEST = 1_000_000
"""Maximum length of a stored text that is read; no sync writes more."""
_PRIORITY = 2
_MOST_KEPT = 4_096


class Kept:
    """A cache of the payloads read since the last write.

    Take `current()` before reading, and a new one after a write: a read that overlaps a write fills the old cache.
    """

    def __init__(self, fresh_s: float = inf) -> None:
        """Expire after this many seconds, where others may write too."""
        self._fresh_s, self._since = fresh_s, monotonic()
        self.agents = set[str]()
        """Agents whose payloads are cached."""
        self.known = dict[Key, dict[str, Any]]()

    def current(self) -> "Kept":
        """Return this cache while it is fresh, else an empty one."""
        is_fresh = len(self.known) <= _MOST_KEPT and monotonic() - self._since <= self._fresh_s
        return self if is_fresh else Kept(self._fresh_s)

    def cached_payloads(self, keys: Iterable[Key]) -> dict[Key, dict[str, Any]]:
        """Return the cached payloads among these keys."""
        known = self.known
        return {key: known[key] for key in keys if key in known}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What two sets of vectors must share to be compared.

    A store keeps each layout in a place of its own, so vectors of two embedders never mix. Changing the embedder moves
    one agent at a time to another layout.
    """

    embedder: str
    dim: int
    lexical: str
    second_dim: int = 0
    """Length of a second vector; 0 without one."""

    @property
    def key(self) -> str:
        """Short, stable, safe in file and collection names."""
        return self._key_in(_FORMAT)

    def _key_in(self, version: int) -> str:
        dims = f"{self.dim}+{self.second_dim}" if self.second_dim else f"{self.dim}"
        text = f"{version}|{self.embedder}|{dims}|{self.lexical}"
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]

    @property
    def keys(self) -> frozenset[str]:
        """The keys of this layout in the formats of all versions so far."""
        return frozenset(map(self._key_in, _FORMATS))

    def __str__(self) -> str:
        dims = f"{self.dim} and {self.second_dim}" if self.second_dim else f"{self.dim}"
        return f"embedder {self.embedder} ({dims} dimensions) and {self.lexical}"

    @property
    def dense(self) -> dict[str, int]:
        """The lengths of a flow's dense vectors, by name."""
        return {DENSE: self.dim} | ({SECOND: self.second_dim} if self.second_dim else {})


def is_layout_key(name: str) -> bool:
    """Whether a layout's key may have this form: names that only begin or end like one are of somebody else."""
    return _KEY.fullmatch(name) is not None


def is_of_layout(payload: object, key: str) -> bool:
    """Whether a stored point says that it is of the layout that this key names.

    A place may have the name of a layout and hold what others put there, such as a restored backup of another place.
    """
    stored = payload if is_object(payload) else dict[str, object]()
    named = stored.get(LAYOUT)
    return isinstance(named, str) and key in _keys_of(named)


@lru_cache(1_024)
def _keys_of(description: str) -> frozenset[str]:
    """Return the keys of the layout with this description; none if it describes no layout."""
    found = _DESCRIPTION.fullmatch(description) if len(description) <= _LONGEST_DESCRIPTION else None
    if found is None:
        return frozenset()
    embedder, dim, second, lexical = found.groups()
    return Layout(embedder=embedder, dim=int(dim), lexical=lexical, second_dim=int(second or 0)).keys


def point_key(agent_id: str, flow_id: str) -> Key:
    """Return the key of a flow of an agent, as a number of 63 bits.

    A client makes a Python object of each id; numbers are twenty times cheaper than UUIDs. Among a million flows, two
    share a key with probability 5e-8.
    """
    return _key("flow", agent_id, flow_id)


def local_key(point: object) -> Key:
    """Return the key of a server's point id: ours are numbers; a foreign UUID becomes a negative one."""
    return point if isinstance(point, int) else -1 - UUID(str(point)).int


def point_id(key: Key) -> int | str:
    """Return the server's id of the point of this key."""
    return key if key >= 0 else str(UUID(int=-1 - key))


def note_key(agent_id: str) -> Key:
    """Return the key of an agent's note."""
    return _key("note", agent_id)


@lru_cache(_MOST_KEPT)
def _key(*parts: str) -> Key:
    """Hash the parts, each after its length, so that different parts never give the same bytes."""
    digest = hashlib.sha256()
    for part in parts:
        written = part.encode(errors="surrogatepass")
        digest.update(len(written).to_bytes(8))
        digest.update(written)
    return int.from_bytes(digest.digest()[:8]) >> 1


def note_in(payload: object, agent_id: str) -> dict[str, Any] | None:
    """Return this agent's note in a stored payload; None without one, empty if it is unreadable."""
    if not is_object(payload):
        return None
    found = payload
    if found.get(NOTE_OF) != agent_id:
        return None
    note = found.get(NOTE)
    return cast("dict[str, Any]", note) if isinstance(note, dict) else {}


def fault_in(payload: object, agent_id: str) -> str:
    """Describe what is wrong with a stored flow of this agent; empty if it is readable.

    An index that others write to may hold anything, such as another version's flows.
    """
    stored = payload if is_object(payload) else dict[str, Any]()
    if not stored.get("flow_id"):
        return "its flow_id is missing"
    if stored.get(AGENT, agent_id) != agent_id:
        return "it is another agent's"
    get = stored.get
    for field in _TEXTS:
        text = get(field, "")
        if type(text) is str and len(text) <= _LONGEST and text.isascii():
            continue  # the common case, checked fast: this runs for each candidate of each recall
        if problem := _fault_in_text(text):
            return f"its {field} {problem}"
    effects = get("desired_effects", ())
    if type(effects) is not list and (not isinstance(effects, Sequence) or isinstance(effects, str)):
        return "its desired_effects are no list"
    for effect in cast("Sequence[object]", effects):
        if problem := _fault_in_text(effect):
            return f"one of its desired_effects {problem}"
    return "" if _is_priority(stored.get("priority", (0, 0))) else "its priority is not two whole numbers"


def fault_at(store: FlowStore, agent_id: str, key: Key, payload: object) -> str:
    """Like `fault_in`, and check that the flow is stored at its own key."""
    fault = fault_in(payload, agent_id)
    if fault:
        return fault
    own = store.key(agent_id, cast("Mapping[str, str]", payload)["flow_id"])
    return "" if own == key else "it lies where another flow belongs"


def _fault_in_text(text: object) -> str:
    if not isinstance(text, str):
        return "is no text"
    if len(text) > _LONGEST:
        return f"has more than {_LONGEST:,} characters"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "is no valid Unicode"
    return ""


def _is_priority(given: object) -> bool:
    numbers = cast("Sequence[Any]", given) if type(given) is list or isinstance(given, Sequence) else ()
    return len(numbers) == _PRIORITY and all(type(each) is int for each in numbers)


def sparse_terms(vectors: object) -> tuple[int, ...]:
    """Return the token ids of a stored flow's vectors, as either client returns them."""
    sparse = vectors.get(SPARSE) if is_object(vectors) else None
    return tuple(getattr(sparse, "indices", ()))


def arms_of(query: HybridQuery) -> Iterator[tuple[str, Sequence[float] | SparseVector]]:
    """Yield the vectors of a query with the names of the stored ones to compare with; dense first."""
    if query.dense is not None:
        yield SECOND if query.of_second else DENSE, query.dense
    if query.sparse is not None:
        yield SPARSE, query.sparse


def stored_payload(point: FlowPoint, layout: str) -> dict[str, Any]:
    """Return the payload that comes back with a hit."""
    return {**point.payload, AGENT: point.agent_id, FINGERPRINT: point.fingerprint, LAYOUT: layout}


def dense_vectors(point: FlowPoint) -> dict[str, list[float]]:
    """Return a flow's dense vectors by name."""
    both = ((DENSE, point.dense), (SECOND, point.second))
    return {name: list(vector) for name, vector in both if vector is not None}
