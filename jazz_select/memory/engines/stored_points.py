"""What an engine stores: points, and the layout that says with which embedder they were made."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from time import monotonic
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from jazz_select.ports import FlowPoint, FlowStore, HybridQuery, Key, SparseVector

_FORMAT = 3
"""1 built keys from names with a mark between them, so that one name could imitate another; in 2 the engine counted how
rare a word is, each shard and each engine by itself."""
DENSE = "flow"
SECOND = "flow2"
SPARSE = "bm25"
AGENT = "agent_id"
FINGERPRINT = "fingerprint"
LAYOUT = "layout"
NOTE = "note"
NOTE_OF = "note_of"
SYNCED = "synced"
"""Of a flow that a sync wrote: there is a note then, or the sync was cut short, or the index has lost something."""
_TEXTS = ("flow_id", "flow_name", "flow_type", "description", "condition")
_LONGEST = 1_000_000
"""Characters of one text of a flow that are read: more was never written by a sync of anything that people wrote."""
_PRIORITY = 2
_MOST_KEPT = 4_096


class Kept:
    """Payloads by key that were read since the last write: the same few flows are asked for again and again.

    Take `current()` before reading, and a new one after a write: where something is written meanwhile, what was read
    goes with what it was added to.
    """

    def __init__(self, fresh_s: float = inf) -> None:
        """Forget them after this many seconds, where others may write too."""
        self._fresh_s, self._since = fresh_s, monotonic()
        self.agents = set[str]()
        """Those of whom some were read."""
        self.known = dict[Key, dict[str, Any]]()

    def current(self) -> "Kept":
        """Itself while these may be used, else an empty one."""
        is_fresh = len(self.known) <= _MOST_KEPT and monotonic() - self._since <= self._fresh_s
        return self if is_fresh else Kept(self._fresh_s)

    def of(self, keys: Iterable[Key]) -> dict[Key, dict[str, Any]]:
        """Those of these keys that are kept."""
        known = self.known
        return {key: known[key] for key in keys if key in known}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What two sets of vectors must share to be compared.

    Each layout has a place of its own in a store, so vectors of two embedders never mix:
    changing the embedder means moving to another layout, one agent at a time.
    """

    embedder: str
    dim: int
    lexical: str
    second_dim: int = 0
    """Of a second vector beside the first; 0 where flows have one alone."""

    @property
    def key(self) -> str:
        """Short, stable, safe in file and collection names."""
        dims = f"{self.dim}+{self.second_dim}" if self.second_dim else f"{self.dim}"
        text = f"{_FORMAT}|{self.embedder}|{dims}|{self.lexical}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        """As a person reads it in an error message."""
        dims = f"{self.dim} and {self.second_dim}" if self.second_dim else f"{self.dim}"
        return f"embedder {self.embedder} ({dims} dimensions) and {self.lexical}"

    @property
    def dense(self) -> dict[str, int]:
        """The dense vectors of a flow by name, with their lengths."""
        return {DENSE: self.dim} | ({SECOND: self.second_dim} if self.second_dim else {})


def point_key(agent_id: str, flow_id: str) -> Key:
    """One point per agent and flow: agents may have flows of the same name.

    A number, not a UUID, since a client makes a Python object of each id it returns, and numbers are twenty times
    cheaper. Of 63 bits: two of a million flows share one with a probability of about 5e-8.
    """
    return _key("flow", agent_id, flow_id)


def local_key(point: object) -> Key:
    """Ours are numbers; a UUID is somebody else's, and becomes a number that none of ours is."""
    return point if isinstance(point, int) else -1 - UUID(str(point)).int


def point_id(key: Key) -> int | str:
    """What a server calls the point of this key."""
    return key if key >= 0 else str(UUID(int=-1 - key))


def note_key(agent_id: str) -> Key:
    """The point that holds an agent's note."""
    return _key("note", agent_id)


def note_keys(agent_id: str) -> tuple[Key, ...]:
    """Where a note may lie, that of format 1 included; what lies there may be a flow of somebody else."""
    return note_key(agent_id), uuid5(NAMESPACE_URL, f"note\x1f{agent_id}").int >> 65


@lru_cache(_MOST_KEPT)
def _key(*parts: str) -> Key:
    """Each part with its length before it, so that no parts can be written as others."""
    digest = hashlib.sha256()
    for part in parts:
        written = part.encode(errors="surrogatepass")
        digest.update(len(written).to_bytes(8))
        digest.update(written)
    return int.from_bytes(digest.digest()[:8]) >> 1


def note_in(payload: object, agent_id: str) -> dict[str, Any] | None:
    """The note of this agent in what is stored where its note lies.

    None where nothing of it is there; empty, as a note of no version, where it is there and cannot be read.
    """
    if not isinstance(payload, Mapping):
        return None
    found = cast("Mapping[str, Any]", payload)
    if found.get(NOTE_OF) != agent_id:
        return None
    note = found.get(NOTE)
    return cast("dict[str, Any]", note) if isinstance(note, dict) else {}


def fault_in(payload: object, agent_id: str) -> str:
    """What is wrong with a stored flow of this agent, in words; empty where it can be read.

    An index that others write to may hold anything: what another version wrote, and what is no flow at all.
    """
    stored = cast("Mapping[str, Any]", payload) if isinstance(payload, Mapping) else dict[str, Any]()
    if not stored.get("flow_id"):
        return "its flow_id is missing"
    if stored.get(AGENT, agent_id) != agent_id:
        return "it is another agent's"
    get = stored.get
    for field in _TEXTS:
        text = get(field, "")
        if type(text) is str and len(text) <= _LONGEST and text.isascii():
            continue  # as nearly all are, of each candidate of each recall
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
    """As `fault_in`, for what lies at this key of a store: a flow lies at its own."""
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


def arms_of(query: HybridQuery) -> Iterator[tuple[str, Sequence[float] | SparseVector]]:
    """The vectors of a query, each with the name of those it is compared with; dense first."""
    if query.dense is not None:
        yield SECOND if query.of_second else DENSE, query.dense
    if query.sparse is not None:
        yield SPARSE, query.sparse


def stored_payload(point: FlowPoint, layout: str) -> dict[str, Any]:
    """All that comes back with a hit."""
    return {**point.payload, AGENT: point.agent_id, FINGERPRINT: point.fingerprint, LAYOUT: layout}


def dense_vectors(point: FlowPoint) -> dict[str, list[float]]:
    """The dense vectors that a flow has, by name."""
    both = ((DENSE, point.dense), (SECOND, point.second))
    return {name: list(vector) for name, vector in both if vector is not None}
