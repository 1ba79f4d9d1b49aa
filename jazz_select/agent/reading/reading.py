"""What a message says, as one frozen value: answers, values, wishes, and what is left of it."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from jazz_select.agent.conversation import FlowKey
from jazz_select.agent.reading.grounding import NO_VALUES, Grounded
from jazz_select.errors import JazzSelectError
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.stages import UserQuestion

Source = Literal["rule", "recall", "model"]
"""Who read a message: a rule or a decision model's answer to one question, recall, or a chat model."""
PickedOption = Literal["", "one", "none", "off", "beyond"]
"""How a message answers which flow is meant: one of them, none of them, none and nothing else ("off"), a number that
no option has ("beyond"), or not at all."""


class Wish(NamedTuple):
    """A flow that the user asks for, with what the message says of its inputs.

    The same flow may be wished for several times, each time for another object.
    """

    flow: str
    grounded: Grounded = NO_VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one message says.

    Attributes:
        source: Who read it.
        answer: What it says to the call that waits for a yes; or, without one, to whether the waiting flow goes on.
            "unclear" if a model found a yes that does not count.
        no_yes: Why a yes in it does not count, in words; empty if there is none, or it counts.
        waits: Whether it only asks for time.
        thanks: Whether it only thanks, and nothing is open.
        repeats: Whether it only asks for the question again that waits.
        proposal: What it says to the value that the agent proposed for an input of the waiting flow.
        picked: Its answer to which flow is meant.
        said: What it says of the inputs of the waiting flow.
        wishes: The flows that it asks for, in order. If the waiting flow is among them, the message goes on with it.
        is_sure: Whether the wishes are certain enough to begin.
        is_held: Whether a wish may change something, and nobody has read whether it is meant.
        called_off: The open flows that the user calls off.
        off_unclear: Names of flows of which the user calls off one, where several are open and nothing tells which.
        is_only: Whether nothing is meant but what it names: "only 50 to Sam".
        is_more: Whether what it names is said to be one more: "also 30 to Lee".
        for_model: Whether the model that is at work on the flow hears it.
        is_first: Whether that model is the first to read it, and may hand it back.
        rest: The words beside the answer for which no flow was found.
        question: The question which flow is meant, as the selector suggests.
        is_elsewhere: Whether that question is about other flows than the one under way.
        not_asked: Why that question must not be asked; empty if it may.
        is_understood: Whether anybody understood the message.
        wanted: The user's earlier request, if the message only answers which flow is meant.
        selection: The selection that it comes from.
        notes: Degradations, and what was read and did not count.
        error: Why no flow could be looked for.
        problem: The same in words.
    """

    source: Source = "rule"
    answer: Literal["", "yes", "no", "unclear"] = ""
    no_yes: str = ""
    waits: bool = False
    thanks: bool = False
    repeats: bool = False
    proposal: Literal["", "yes", "no"] = ""
    picked: PickedOption = ""
    grounded: Grounded = NO_VALUES
    wishes: tuple[Wish, ...] = ()
    is_sure: bool = False
    is_held: bool = False
    called_off: tuple[FlowKey, ...] = ()
    off_unclear: tuple[str, ...] = ()
    is_only: bool = False
    is_more: bool = False
    for_model: bool = False
    is_first: bool = False
    rest: str = ""
    question: UserQuestion | None = None
    is_elsewhere: bool = False
    not_asked: str = ""
    is_understood: bool = True
    wanted: str = ""
    selection: FlowSelectionResult | None = None
    notes: tuple[str, ...] = ()
    error: JazzSelectError | None = None
    problem: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the flows that it asks for, without duplicates."""
        return list(dict.fromkeys(each.flow for each in self.wishes))

    @property
    def says_values(self) -> bool:
        """Whether it says anything of the inputs of the waiting flow."""
        return self.grounded != NO_VALUES


class Able(NamedTuple):
    """What the agent can do with a message: whether a model `reads` it, and whether one `answers` it."""

    reads: bool = False
    answers: bool = False
