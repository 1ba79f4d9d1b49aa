"""What was learned, in a file of its own beside the flows: numbered versions, one of them live, one on trial.

Nothing of it is ever written into an author's code. A version is whole: it holds all learned examples, not a change to
another one, so that any of them can be made the live one again. The file is YAML, for people to read and to correct.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from jazz_select.arguments import read_as
from jazz_select.errors import ConfigError, FlowError
from jazz_select.evaluation.cases import Case, read_entries
from jazz_select.evaluation.whole_files import locked, write_whole
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.memory.encoder import indexable

FORMAT = 1
_KEPT, _MOST_TEXTS = 10, 40_000
"""Versions that a file holds, the live one and the one on trial among them, and the texts in them together: a file of
more values than these make is not read."""
"""How long another process is waited for that changes the file, in seconds."""
_HEAD = """\
# What jazz-select has learned from corrections: examples beside those that the flows have of their own.
# `live` is the number of the version that `sync --learned` indexes, `shadow` of the one on trial; 0 is none.
# Texts are what users wrote. Take out what should not be there, then sync again.
"""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HeldCase(_Frozen):
    """A correction that is no example: held out to judge by, or one that would do harm as an example."""

    request: str = Field(min_length=1, max_length=8_000)
    expect: tuple[str, ...]
    why: str = ""
    ids: str = ""
    """Of the log's entries that it comes from, with blanks between."""

    def as_case(self) -> Case:
        """As labelled requests are read from a file."""
        return Case(request=self.request, expect=self.expect, why=self.why)


class Gain(_Frozen):
    """What a version was worth when it was made: shares of requests whose first candidate is right."""

    requests: int = Field(ge=0)
    before: float
    after: float
    low: float
    high: float


class Version(_Frozen):
    """All that was learned up to a moment; its number is from 1."""

    number: int = Field(ge=1)
    at: str
    after: int = Field(default=0, ge=0)
    """The version that it goes on from; 0 where it is the first."""
    gain: Gain | None = None
    examples: Mapping[str, Mapping[str, str]] = Field(default_factory=dict[str, dict[str, str]])
    """By name of the flow: each text, with the ids of the log's entries that it comes from, blanks between."""
    cases: tuple[HeldCase, ...] = ()

    @property
    def count(self) -> int:
        """How many examples there are."""
        return sum(map(len, self.examples.values()))

    @property
    def texts(self) -> int:
        """How much of a file it takes."""
        return self.count + 4 * len(self.cases)


class Overlay(_Frozen):
    """All versions, and which of them counts. Changing it makes another one; `save` keeps it.

    Attributes:
        live: The number of the version that is indexed; 0 for none.
        shadow: The number of the one on trial; 0 for none.
        was_live: Numbers that were live before, the latest last: where `rolled_back` goes.
        versions: The versions, oldest first.
    """

    format: Literal[1] = FORMAT
    live: int = Field(default=0, ge=0)
    shadow: int = Field(default=0, ge=0)
    was_live: tuple[int, ...] = ()
    versions: tuple[Version, ...] = ()

    def version(self, which: Literal["live", "shadow"] | int = "live") -> Version | None:
        """The version that counts, the one on trial, or the one of a number; None where there is none."""
        number = which if isinstance(which, int) else self.live if which == "live" else self.shadow
        return next((each for each in self.versions if each.number == number), None)

    def tried(self, version: Version) -> "Overlay":
        """With a new version, on trial."""
        numbered = version.model_copy(update={"number": 1 + max((each.number for each in self.versions), default=0)})
        shadow = numbered.number
        needed = {self.live, shadow, *self.was_live[-1:]}
        versions = (*self.versions, numbered)
        spare = [each.number for each in versions if each.number not in needed]
        room = _MOST_TEXTS - sum(each.texts for each in versions)
        gone = set[int]()
        for each in versions:  # the oldest first
            if each.number in spare and (len(versions) - len(gone) > _KEPT or room < 0):
                gone.add(each.number)
                room += each.texts
        kept = tuple(each for each in versions if each.number not in gone)
        was_live = tuple(each for each in self.was_live if each not in gone)
        return self.model_copy(update={"versions": kept, "shadow": shadow, "was_live": was_live})

    def promoted(self) -> "Overlay":
        """With the version on trial live.

        Raises:
            ConfigError: None is on trial.
        """
        if self.version("shadow") is None:
            msg = "no version is on trial: jazz-select learn LOG makes one where there is something to learn"
            raise ConfigError(msg)
        return self.model_copy(update={"live": self.shadow, "shadow": 0, "was_live": (*self.was_live, self.live)})

    def rolled_back(self) -> "Overlay":
        """With the version live that was so before.

        Raises:
            ConfigError: There was none.
        """
        if not self.was_live:
            raise ConfigError("no version was live before this one, so there is nothing to roll back to")
        return self.model_copy(update={"live": self.was_live[-1], "was_live": self.was_live[:-1]})

    def save(self, file: Path) -> None:
        """Write it, whole or not at all.

        Raises:
            ConfigError: The file cannot be written.
        """
        import yaml

        texts = sum(each.texts for each in self.versions)
        if texts > _MOST_TEXTS:
            msg = f"{texts} learned texts are more than one file holds: learn fewer a flow (--most), or split the agent"
            raise ConfigError(msg)
        text = _HEAD + yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=110)
        try:
            write_whole(file, text.encode())
        except OSError as error:
            raise ConfigError(f"cannot write what was learned to {file}: {error.strerror or error}") from error


def changed_overlay(file: Path, change: Callable[[Overlay], Overlay], *, must_exist: bool = False) -> Overlay:
    """Change what a file holds as it is now, one process at a time, and return what it holds then.

    Args:
        file: Where it is kept; a lock of its name, hidden, stays beside it.
        change: From what is there to what shall be; where that is the same object, nothing is written.
        must_exist: Whether the file has to be there.

    Raises:
        ConfigError: The file cannot be read or written, or another process does not let go of it within ten seconds;
            and whatever `change` raises.
    """
    with locked(file):
        before = load_overlay(file, must_exist=must_exist)
        after = change(before)
        if after is not before:
            after.save(file)
        return after


def load_overlay(file: Path, *, must_exist: bool = False) -> Overlay:
    """What a file holds; where there is no file, nothing was learned yet.

    Raises:
        ConfigError: It cannot be read, something in it is wrong, or it is not there and has to be.
    """
    if not file.exists() and not must_exist:
        return Overlay()
    entries = read_entries(file, "learned examples")
    overlay = read_as(Overlay, {} if entries is None else entries, str(file))
    numbers = [each.number for each in overlay.versions]
    if twice := [number for number in numbers if numbers.count(number) > 1]:
        raise ConfigError(f"{file}: versions: two of them have the number {twice[0]}: take one out")
    for name, told in (("live", (overlay.live,)), ("shadow", (overlay.shadow,)), ("was_live", overlay.was_live)):
        if gone := [number for number in told if number and number not in numbers]:
            raise ConfigError(f"{file}: {name}: there is no version {gone[0]} in it: take the number out; 0 is none")
    return overlay


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """A catalogue with what was learned.

    Attributes:
        registry: Copies of the flows, with more examples; the originals are as they were.
        notes: What could not be used, and why.
    """

    registry: FlowRegistry
    notes: tuple[str, ...] = ()


def taught(registry: Mapping[str, BaseFlow], version: Version | None) -> Taught:
    """The flows with what a version teaches them; examples that a flow has by now are left out.

    Args:
        registry: The flows, which are not changed.
        version: What was learned; the flows as they are where None.

    Raises:
        FlowValidationError: A flow cannot be registered again as it is.
    """
    learned: Mapping[str, Mapping[str, str]] = {} if version is None else version.examples
    made, notes = FlowRegistry(min_examples=0), list[str]()
    for flow in registry.values():
        again = copy(flow)
        known = {spelled(each) for each in flow.examples}
        more = [text for text in learned.get(flow.name, ()) if text.strip() and spelled(text) not in known]
        if more:
            try:
                again.examples = (*flow.examples, *more)
            except AttributeError:
                notes.append(f"flow {flow.name!r} makes its own examples, so nothing learned is added to them")
        try:
            made.register(again)
        except FlowError:
            if not more:
                raise
            notes.append(f"what was learned for flow {flow.name!r} cannot be used, and is left out")
            made.register(copy(flow))
    made.min_examples = registry.min_examples if isinstance(registry, FlowRegistry) else 0
    there = {flow.name for flow in made.values()}
    gone = sorted(name for name in learned if name not in there)
    notes += [f"{len(learned[name])} learned examples are for {name!r}, and there is no such flow" for name in gone]
    return Taught(registry=made, notes=tuple(notes))


def spelled(text: str) -> str:
    """What two spellings of a request have in common."""
    return " ".join(text.casefold().split())


def yaml_text(text: str) -> str:
    """A text as the file holds it: on one line, without what YAML would read as something else."""
    return " ".join(indexable(text).split())


def now() -> str:
    """The time as a version notes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
