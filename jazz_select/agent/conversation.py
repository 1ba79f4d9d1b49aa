"""What an agent keeps between turns: a value that goes to JSON and back."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jazz_select.errors import SnapshotError
from jazz_select.values import Message

VERSION: Final = 1
MOST_MESSAGES: Final = 40
MOST_EPISODES: Final = 5
MOST_FLOWS: Final = 8
_EPISODE: Final = 300

FlowStatus = Literal["queued", "active", "waiting"]


class Said(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant"]
    content: str

    def message(self) -> Message:
        """As a model takes it."""
        return Message(role=self.role, content=self.content)


class OpenFlow(BaseModel):
    """A flow that was begun, or is to be.

    Attributes:
        name: Of the flow.
        status: `queued` until it is begun, `waiting` where it asked for something, else `active`.
        asks: What it waits for: names of facts.
        done: Names of the parts that need not be run again.
        facts: What is known within it; another flow does not get to see it.
        request: What the user wanted when it was chosen.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    status: FlowStatus = "active"
    asks: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    facts: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    request: str = ""


class Conversation(BaseModel):
    """A conversation so far.

    Attributes:
        messages: What was said; the last forty.
        flows: The flows that are open, the active one last: a stack, so that what was parked comes back.
        facts: What the caller made known.
        episodes: Summaries of the last turns, which widen the next request.
        done: The flows that were done in the last turns: what is said next may still be about them.
        turns: How many there were.
        version: Of this format.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[Said, ...] = ()
    flows: tuple[OpenFlow, ...] = ()
    facts: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    episodes: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    turns: int = 0
    version: int = VERSION

    @property
    def active(self) -> OpenFlow | None:
        """The flow that is under way."""
        return self.flows[-1] if self.flows else None

    @property
    def parked(self) -> tuple[OpenFlow, ...]:
        """Those that are to come back, the next one last."""
        return self.flows[:-1]

    def to_json(self) -> str:
        """As a JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Conversation":
        """Read one.

        Raises:
            SnapshotError: It is none, or of a version that is not known here.
        """
        try:
            found = cls.model_validate_json(text)
        except ValidationError as error:
            missing = tuple(".".join(map(str, each["loc"])) for each in error.errors())
            problem = f"{missing[0] or 'the text'}: {error.errors()[0]['msg']}"
            raise SnapshotError(problem, missing=missing) from error
        if found.version != VERSION:
            problem = f"the conversation is of version {found.version}, and this is version {VERSION}"
            raise SnapshotError(problem, missing=("version",))
        return found

    @classmethod
    def of(cls, history: "Conversation | Sequence[Message] | None") -> "Conversation":
        """A conversation from what a caller has of it."""
        if isinstance(history, Conversation):
            return history
        said = tuple(
            Said(role=each.role, content=each.content) for each in history or () if each.role in ("user", "assistant")
        )
        earlier = [f"The user said: {_short(each.content)}" for each in said if each.role == "user"]
        return cls(messages=said[-MOST_MESSAGES:], episodes=tuple(earlier[-MOST_EPISODES:]))

    def after(
        self,
        message: str,
        text: str,
        *,
        flows: Sequence[OpenFlow],
        facts: Mapping[str, Any],
        ran: Sequence[str],
        done: Sequence[str] = (),
    ) -> "Conversation":
        """The conversation after one more turn."""
        answer = (Said(role="assistant", content=text),) if text else ()
        said = (*self.messages, Said(role="user", content=message), *answer)
        episode = f"The user said: {_short(message)}" + (f" The agent ran {', '.join(ran)}." if ran else "")
        return self.model_copy(
            update={
                "messages": said[-MOST_MESSAGES:],
                "flows": tuple(flows)[-MOST_FLOWS:],
                "facts": dict(facts),
                "episodes": (*self.episodes, episode)[-MOST_EPISODES:],
                "done": (*self.done, *done)[-MOST_EPISODES:],
                "turns": self.turns + 1,
            }
        )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EPISODE else f"{line[:_EPISODE]}…"
