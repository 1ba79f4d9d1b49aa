"""What a data set is once it is read, and how its files are found and fingerprinted."""

import csv
import hashlib
import io
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

SOURCES: Mapping[str, str] = {
    "clinc150": "github.com/clinc/oos-eval: data/data_full.json",
    "banking77": "github.com/PolyAI-LDN/task-specific-datasets: banking_data/train.csv and test.csv",
    "nlupp": (
        "github.com/PolyAI-LDN/task-specific-datasets: "
        "nlupp/data/ontology.json, nlupp/data/banking/fold*.json and nlupp/data/hotels/fold*.json"
    ),
    "metatool": (
        "github.com/HowieHwong/MetaTool: dataset/plugin_des.json, dataset/data/all_clean_data.csv "
        "and dataset/data/multi_tool_query_golden.json"
    ),
    "metatool_examples": "the authors of this benchmark, who had it written: examples.json",
    "bfcl": (
        "github.com/ShishirPatil/gorilla, berkeley-function-call-leaderboard/bfcl_eval/data: "
        "BFCL_v4_live_multiple.json, BFCL_v4_live_irrelevance.json and possible_answer/BFCL_v4_live_multiple.json"
    ),
    "livemcpbench": "github.com/icip-cas/LiveMCPBench: tools.json and all_annotations.json",
    "sealtools": "github.com/fairyshine/Seal-Tools: Seal-Tools_Dataset/tool.jsonl, dev.jsonl and test_in_domain.jsonl",
}


class DataMissingError(Exception):
    """A published file is not where it should be."""

    def __init__(self, path: Path, folder: str) -> None:
        self.path = path
        self.folder = folder
        super().__init__(
            f"{path} is missing. Take it from {SOURCES.get(folder, folder)}, put it into a folder {folder}/ "
            "and name the folder above it with --data or JAZZ_BENCH_DATA."
        )


class DataFormatError(Exception):
    """A published file does not hold what its format promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One flow of a catalogue, as the data set describes it."""

    name: str
    description: str
    examples: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    """Name and description of each argument, where the entry is a tool."""
    provider: str = ""
    """Whose tool it is, by a short name, where the data set says so."""
    provider_title: str = ""
    """What the owner calls itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user said, and the names of the entries that answer it."""

    text: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A catalogue, the requests to route in it, and requests that nothing in it answers."""

    name: str
    flows: tuple[Entry, ...]
    requests: tuple[Request, ...]
    outside: tuple[str, ...] = ()
    """Requests that no entry answers."""
    seed: int = 0
    sha256: str = ""
    """Fingerprint of the files that were read."""
    notes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Counts of what was dropped or merged while reading."""

    def __post_init__(self) -> None:
        names = {entry.name for entry in self.flows}
        if len(names) != len(self.flows):
            msg = f"{self.name}: two entries share a name"
            raise DataFormatError(msg)
        unknown = {name for request in self.requests for name in request.gold} - names
        if unknown:
            msg = f"{self.name}: requests name entries that are not in the catalogue: {sorted(unknown)[:5]}"
            raise DataFormatError(msg)
        if any(not request.gold for request in self.requests):
            msg = f"{self.name}: a request without an answer belongs in `outside`"
            raise DataFormatError(msg)


class Files:
    """The files of one data set: reads them and fingerprints what was read."""

    def __init__(self, data: Path, folder: str) -> None:
        self._root = data / folder
        self._folder = folder
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Fingerprint of everything read so far, in the order of reading."""
        return self._hash.hexdigest()[:16]

    def text(self, name: str) -> str:
        """The whole file."""
        path = self._root / name
        if not path.is_file():
            raise DataMissingError(path, self._folder)
        raw = path.read_bytes()
        self._hash.update(raw)
        return raw.decode("utf-8")

    def json(self, name: str) -> Any:
        """A file that is one JSON document."""
        return json.loads(self.text(name))

    def json_lines(self, name: str) -> list[dict[str, Any]]:
        """A file with one JSON object per line."""
        return [json.loads(line) for line in self.text(name).split("\n") if line.strip()]

    def csv(self, name: str) -> list[dict[str, str]]:
        """A comma separated file with a header."""
        return list(csv.DictReader(io.StringIO(self.text(name), newline="")))

    def names(self, pattern: str) -> list[str]:
        """Files that match, in a fixed order; at least one."""
        found = sorted(path.relative_to(self._root).as_posix() for path in self._root.glob(pattern))
        if not found:
            raise DataMissingError(self._root / pattern, self._folder)
        return found


def shuffled(items: Iterable[T], seed: int) -> tuple[T, ...]:
    """All items in an order that depends on the seed alone, so that no file order (gold first) can help."""
    order = list(items)
    random.Random(seed).shuffle(order)
    return tuple(order)


def sampled(items: Sequence[T], limit: int | None, seed: int) -> tuple[T, ...]:
    """At most `limit` items, drawn with the seed and kept in their order; all where `limit` is None."""
    if limit is None or limit >= len(items):
        return tuple(items)
    kept = sorted(random.Random(seed).sample(range(len(items)), limit))
    return tuple(items[index] for index in kept)
