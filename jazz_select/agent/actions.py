"""What a turn does, one frozen value each: `decide` returns them, the runner carries them out in order."""

from dataclasses import dataclass
from typing import NamedTuple

from jazz_select.agent.conversation import FlowKey
from jazz_select.agent.reading.grounding import NO_VALUES, Grounded
from jazz_select.agent.reading.reading import Wish
from jazz_select.stages import UserQuestion


@dataclass(frozen=True, slots=True)
class Grant:
    """Let the call that waits be made; everything it was shown with may follow."""


class KeptWish(NamedTuple):
    """A wish that a question lists and that stays wanted when the question is refused, with what is corrected of it."""

    key: FlowKey
    grounded: Grounded = NO_VALUES


@dataclass(frozen=True, slots=True)
class Refuse:
    """Drop the call that waits, and call its flow off, with all wishes that its question lists.

    Attributes:
        is_for_model: Whether the model that wanted the call hears the message, and its flow goes on.
        kept: The listed wishes that are asked about again, in order.
    """

    is_for_model: bool = False
    kept: tuple[KeptWish, ...] = ()


@dataclass(frozen=True, slots=True)
class Agree:
    """Go on with the waiting flow after the user's yes to that."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Store what was said of the inputs of the waiting flow, and go on with it, or ask again.

    Attributes:
        said: The values, all checked.
        goes_on: Whether the flow goes on even without a new value.
        is_understood: Whether the message was understood; if not, and nothing is stored, the user is told so.
    """

    grounded: Grounded = NO_VALUES
    goes_on: bool = False
    is_understood: bool = True


@dataclass(frozen=True, slots=True)
class Reject:
    """Drop the value that the agent proposed, and ask for the input anew."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Put these wishes on top, in order.

    Attributes:
        wishes: The flows with their values.
        after: The flow that was answered; it stays before them. Empty if none.
        is_held: Whether to ask for a yes before the first begins, and to begin none of the others.
        is_first: Whether a model at work on the first is the first to read the message.
        wanted: The words in which they were asked for, if those are not the whole message.
    """

    wishes: tuple[Wish, ...]
    after: str = ""
    is_held: bool = False
    is_first: bool = False
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class CallOff:
    """Call these open flows off.

    Attributes:
        flows: Their keys; empty for just the one on top.
        targets: The flows that the user wants in their place, if any.
    """

    flows: tuple[FlowKey, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskWhichWish:
    """Ask which of several open wishes for these flows the user calls off."""

    flows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaveOver:
    """Answer the rest of a message, for which no flow was found, or say that it is left open."""

    rest: str


@dataclass(frozen=True, slots=True)
class AskWhich:
    """Ask which flow is meant."""

    question: UserQuestion


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Ask once more what the waiting flow, or the waiting call, needs."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Let the flow on top go on; `is_first`: its model is the first to read the message. `why`, for logs."""

    is_first: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer without a flow, or `about` the one on top; `why` no flow runs."""

    why: str = ""
    about: bool = False


@dataclass(frozen=True, slots=True)
class Tell:
    """Say this text of the table, and nothing else; `why`, for logs. What waits is not asked again if it `pauses`."""

    text: str
    why: str
    pauses: bool = False


Action = (
    Grant
    | Refuse
    | Agree
    | Fill
    | Reject
    | Begin
    | CallOff
    | AskWhichWish
    | LeaveOver
    | AskWhich
    | AskAgain
    | Continue
    | Answer
    | Tell
)
