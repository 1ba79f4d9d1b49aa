"""A conversation as a file: who the customer is, what is said, and what has to come of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from jazz_select.agent.turn import TurnStatus
from jazz_select.data_files import documents_of
from jazz_select.errors import DataFileError

SCRIPTS: Final = Path(__file__).parent / "scripts"
Row = Mapping[str, Any]


class _Strict(BaseModel):
    """A slip of the pen in a file is an error, and not a check that is never made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Changes(_Strict):
    """What becomes of one table. Each row is named by some of its columns; all of a row's changed ones are named."""

    added: tuple[Row, ...] = ()
    changed: tuple[Row, ...] = ()
    removed: tuple[Row, ...] = ()


class Expected(_Strict):
    """What has to come of a turn, or of the whole conversation.

    Attributes:
        effects: What changes in the shop, and nothing else does; by default nothing in the whole conversation.
        says: Words, or a pattern between slashes, that must be said; of the conversation: in any turn.
        never_says: Likewise, what must not be in it, in any turn.
        status: The turn's.
        flow: A flow that ran in the turn or is under way after it; "none" for no flow at all.
        entities: The only numbers of orders, returns and so on that calls may have as arguments, with what belongs to
            them; and of customers' addresses only theirs, those of the context, and what is listed.
        model_calls: How often a model is asked, at most.
        model_calls_for_choice: How often it is asked which flow is meant, exactly.
    """

    effects: Mapping[str, Changes] | None = None
    says: tuple[str, ...] = ()
    never_says: tuple[str, ...] = ()
    status: TurnStatus | None = None
    flow: str | None = None
    entities: tuple[str, ...] | None = None
    model_calls: int | None = Field(default=None, ge=0)
    model_calls_for_choice: int | None = Field(default=None, ge=0)

    @field_validator("says", "never_says", "entities", mode="before")
    @classmethod
    def _texts(cls, given: object) -> object:
        """A number is what it is written as: YAML reads 60112 as one."""
        return [str(each) for each in cast("list[object]", given)] if isinstance(given, list) else given


class Turn(_Strict):
    """What the customer says, and what has to come of it."""

    customer: str
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """What the caller knows from this turn on, beside what it knew before."""
    restarted: bool = False
    """Whether the agent was made anew before it, with the conversation read from where it was stored."""
    expect: Expected = Expected()


class Script(_Strict):
    """One conversation.

    Attributes:
        file: Where it stands.
        title: What it shows.
        tags: What kind of conversation it is: its language, early facts, correction, rude, …
        facts: What stands: today, company, support, …
        context: What the caller knows in each turn, such as the customer's email.
        turns: What the customer says.
        expect: What has to come of the whole.
    """

    file: Path
    title: str
    tags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    turns: tuple[Turn, ...] = Field(min_length=1)
    expect: Expected = Expected()

    @field_validator("turns", mode="before")
    @classmethod
    def _plain_turns(cls, given: object) -> object:
        """A turn of which nothing is expected is a text."""
        if not isinstance(given, list):
            return given
        return [{"customer": each} if isinstance(each, str) else each for each in cast("list[object]", given)]

    @property
    def name(self) -> str:
        """What it is called by."""
        return self.file.stem

    @property
    def cassette(self) -> Path:
        """Where the replies of the model are."""
        return self.file.parent.parent / "cassettes" / f"{self.name}.json"


def read(path: Path) -> Script:
    """The conversation of a file; raises ValueError, which names the file, where it is none."""
    try:
        return Script.model_validate({"file": path, **documents_of(path)[0].value})
    except (ValueError, TypeError, LookupError, DataFileError) as error:
        msg = f"{path.name} is no conversation: {error}"
        raise ValueError(msg) from error


def scripts(*names: str, folder: Path = SCRIPTS) -> list[Script]:
    """All conversations of a folder, or those of these names; raises ValueError where one is not there."""
    known = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    unknown = sorted(set(names) - known.keys())
    if unknown:
        msg = f"there is no conversation {', '.join(unknown)}; there are {', '.join(known)}"
        raise ValueError(msg)
    return [read(known[name]) for name in (names or known)]


ProblemKind = Literal["effect", "entity", "claim", "wish", "calls", "cassette", "crash"]
