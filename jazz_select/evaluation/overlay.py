"""Learned examples in a file beside the flows: numbered versions, one of them live and one on trial.

An author's code is never changed. Each version holds all learned examples, so any of them can be made live again. The
file is YAML, for people to read and to correct.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator

from jazz_select.arguments import read_as
from jazz_select.data_files import LARGEST, MOST_VALUES
from jazz_select.errors import ConfigError, FlowError
from jazz_select.evaluation.cases import read_entries
from jazz_select.evaluation.whole_files import file_lock, write_readable
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.memory.encoder import indexable
from jazz_select.text import nfc

FORMAT = 1
_KEPT: Final = 10
"""Most versions in a file, including the live one and the one on trial."""
_ROOM: Final = 0.8
"""How much of what a file may hold is filled with versions that nobody needs."""
_OF_A_VERSION, _BYTES_A_VALUE = 30, 16
"""The values of a version beside its texts, and the bytes of a value beside its letters."""
_ADVICE: Final = "take texts out of it, or split the agent"
_HEAD = """\
# What jazz-select has learned from corrections: examples beside those that the flows have of their own.
# `live` is the number of the version that `sync --learned` indexes, `shadow` of the one on trial; 0 is none.
# Texts are what users wrote. Take out what should not be there (learn LOG --undo ID), then sync again.
"""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Gain(_Frozen):
    """The shares of gate requests with a right first flow before and after a version, and the change's interval."""

    requests: int = Field(ge=0)
    before: float
    after: float
    low: float
    high: float


class Version(_Frozen):
    """Everything learned up to a moment; numbered from 1."""

    number: int = Field(ge=1)
    at: str
    after: int = Field(default=0, ge=0)
    """The number of the preceding version; 0 for the first."""
    gain: Gain | None = None
    examples: Mapping[str, Mapping[str, str]] = Field(default_factory=dict[str, dict[str, str]])
    """Learned texts by flow name, each with the ids of its log entries, separated by blanks."""

    @field_validator("examples")
    @classmethod
    def _of_each_flow(cls, given: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
        """Join what was learned for one name in two spellings of Unicode."""
        made: dict[str, dict[str, str]] = {}
        for name, texts in given.items():
            made.setdefault(nfc(name), {}).update(texts)
        return made

    @property
    def count(self) -> int:
        """Number of examples."""
        return sum(map(len, self.examples.values()))

    @property
    def share(self) -> float:
        """About how much it takes of the values or of the bytes that can be read of a file, whichever is more."""
        learned: list[str] = []
        for texts in self.examples.values():
            for text, ids in texts.items():
                learned += [text, ids]
        values = _OF_A_VERSION + 2 * len(self.examples) + len(learned)
        letters = sum(len(text.encode()) for text in learned)
        return max(values / MOST_VALUES, (letters + _BYTES_A_VALUE * values) / LARGEST)


def examples_of(version: Version | None) -> Mapping[str, Mapping[str, str]]:
    """Return the learned texts of a version by flow name, each with its ids; none of None."""
    return {} if version is None else version.examples


class Overlay(_Frozen):
    """All versions, oldest first, with the numbers of the live one and the one on trial (0 for none).

    `was_live` has the numbers of earlier live versions, the latest last, for `roll_back`. Methods return a changed
    copy; `save` writes it.
    """

    format: Literal[1] = FORMAT
    live: int = Field(default=0, ge=0)
    shadow: int = Field(default=0, ge=0)
    was_live: tuple[int, ...] = ()
    versions: tuple[Version, ...] = ()

    def version(self, which: Literal["live", "shadow"] | int = "live") -> Version | None:
        """Return the live version, the one on trial, or the one of a number; None if there is none."""
        if which == "live":
            number = self.live
        elif which == "shadow":
            number = self.shadow
        else:
            number = which
        return next((each for each in self.versions if each.number == number), None)

    def start_trial(self, version: Version) -> "Overlay":
        """Add a version, and put it on trial."""
        highest = max((each.number for each in self.versions), default=0)
        numbered = version.model_copy(update={"number": highest + 1})
        shadow = numbered.number
        needed = {self.live, shadow, *self.was_live[-1:]}  # the last of `was_live` is what `roll_back` returns to
        versions = (*self.versions, numbered)
        share = sum(each.share for each in versions)
        removed: set[int] = set()
        for each in versions:  # the oldest first
            is_too_much = len(versions) - len(removed) > _KEPT or share > _ROOM
            if is_too_much and each.number not in needed:
                removed.add(each.number)
                share -= each.share
        kept = tuple(each for each in versions if each.number not in removed)
        was_live = tuple(number for number in self.was_live if number not in removed)
        return self.model_copy(update={"versions": kept, "shadow": shadow, "was_live": was_live})

    def promote(self) -> "Overlay":
        """Make the version on trial live.

        Raises:
            ConfigError: No version is on trial.
        """
        if self.version("shadow") is None:
            msg = "no version is on trial: jazz-select learn LOG makes one where there is something to learn"
            raise ConfigError(msg)
        return self.model_copy(update={"live": self.shadow, "shadow": 0, "was_live": (*self.was_live, self.live)})

    def roll_back(self) -> "Overlay":
        """Make the version live that was live before.

        Raises:
            ConfigError: There is none.
        """
        if not self.was_live:
            raise ConfigError("no version was live before this one, so there is nothing to roll back to")
        return self.model_copy(update={"live": self.was_live[-1], "was_live": self.was_live[:-1]})

    def save(self, file: Path) -> None:
        """Replace the file atomically.

        Raises:
            ConfigError: The file cannot be written.
            UnreadableFileError: There is more to learn than one file can hold and be read again.
        """
        import yaml

        def check_written(aside: Path) -> None:
            if load_overlay(aside, must_exist=True) != self:
                raise ConfigError("something in it is another text when it is read")

        text = _HEAD + yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=110)
        try:
            write_readable(file, text.encode(), check_written, advice=_ADVICE)
        except OSError as error:
            raise ConfigError(f"cannot write what was learned to {file}: {error.strerror or error}") from error


def changed_overlay(file: Path, change: Callable[[Overlay], Overlay], *, must_exist: bool = False) -> Overlay:
    """Change a file's current content under a lock, and return the new content.

    If `change` returns the same object, nothing is written. A hidden lock file stays beside the file.

    Raises:
        ConfigError: The file cannot be read or written, or another process holds the lock for ten seconds. Errors of
            `change` pass through.
    """
    with file_lock(file):
        before = load_overlay(file, must_exist=must_exist)
        after = change(before)
        if after is not before:
            after.save(file)
        return after


def load_overlay(file: Path, *, must_exist: bool = False) -> Overlay:
    """Return the content of a file; empty if the file does not exist.

    Raises:
        ConfigError: The file is unreadable or invalid, or is missing although it must exist.
    """
    if not file.exists():
        if not must_exist:
            return Overlay()
        raise ConfigError(f"there is no file {file}: jazz-select learn LOG --learned {file} makes it")
    entries = read_entries(file, "learned examples")
    overlay = read_as(Overlay, {} if entries is None else entries, str(file))
    numbers = [each.number for each in overlay.versions]
    for number in numbers:
        if numbers.count(number) > 1:
            raise ConfigError(f"{file}: versions: two of them have the number {number}: take one out")
    for name, chosen in (("live", (overlay.live,)), ("shadow", (overlay.shadow,)), ("was_live", overlay.was_live)):
        for number in chosen:
            if number and number not in numbers:
                raise ConfigError(f"{file}: {name}: there is no version {number} in it: take the number out; 0 is none")
    return overlay


class OverlayStore(Protocol):
    """Where what was learned is kept, for a service. Methods block."""

    @property
    def name(self) -> str:
        """What messages and the panel call it, such as the path of its file."""
        ...

    @property
    def is_begun(self) -> bool:
        """Whether anything was ever learned there."""
        ...

    def load(self) -> Overlay:
        """Return what is there now; empty where nothing was learned yet.

        Raises:
            ConfigError: It cannot be read.
        """
        ...

    def change(self, change: Callable[[Overlay], Overlay]) -> Overlay:
        """Change what is there under a lock, and return it anew.

        If `change` returns the same object, nothing is written.

        Raises:
            ConfigError: It cannot be read or written. Errors of `change` pass through.
        """
        ...


@dataclass(frozen=True, slots=True)
class OverlayFile:
    """An `OverlayStore` in a file beside the flows."""

    file: Path

    @property
    def name(self) -> str:
        """The path."""
        return self.file.as_posix()

    @property
    def is_begun(self) -> bool:
        """Whether the file is there: `learn` creates it with the first example."""
        return self.file.exists()

    def load(self) -> Overlay:
        """Return the content of the file."""
        return load_overlay(self.file)

    def change(self, change: Callable[[Overlay], Overlay]) -> Overlay:
        """Change the content of the file."""
        return changed_overlay(self.file, change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """Copies of the flows with learned examples, and notes on what could not be used."""

    registry: FlowRegistry
    notes: tuple[str, ...] = ()


def taught(registry: Mapping[str, BaseFlow], version: Version | None) -> Taught:
    """Return the flows with a version's examples, without those that a flow has already; given flows stay unchanged.

    Raises:
        FlowValidationError: A flow cannot be registered again as it is.
    """
    learned = examples_of(version)
    made = FlowRegistry(min_examples=0)
    notes: list[str] = []
    for flow in registry.values():
        duplicate = copy(flow)
        known = {spelling_key(each) for each in flow.examples}
        more = [text for text in learned.get(flow.name, ()) if text.strip() and spelling_key(text) not in known]
        if more and takes_examples(flow):
            duplicate.examples = (*flow.examples, *more)
        elif more:
            notes.append(f"flow {flow.name!r} makes its own examples, so nothing learned is added to them")
        try:
            made.register(duplicate)
        except FlowError:
            if not more:
                raise
            # A flow that cannot take what was learned must not keep the others from it.
            notes.append(f"what was learned for flow {flow.name!r} cannot be used, and is left out")
            made.register(copy(flow))
    if isinstance(registry, FlowRegistry):
        made.min_examples = registry.min_examples
    missing = learned.keys() - {flow.name for flow in made.values()}
    for name in sorted(missing):
        notes.append(f"{len(learned[name])} learned examples are for {name!r}, and there is no such flow")
    return Taught(registry=made, notes=tuple(notes))


def takes_examples(flow: BaseFlow) -> bool:
    """Whether examples can be added to a flow: not to one that makes its own."""
    try:
        copy(flow).examples = tuple(flow.examples)
    except AttributeError:
        return False
    return True


def spelling_key(text: str) -> str:
    """Return a key that spellings of one request share."""
    return " ".join(nfc(text).casefold().split())


def yaml_text(text: str) -> str:
    """Return a text on one line, without characters that YAML does not preserve."""
    return " ".join(indexable(text).split())


def now() -> str:
    """Return the current time as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")
