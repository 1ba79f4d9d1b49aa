"""Questions to a decision model and its answers: typed questions about a text, a probability for each option."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from jazz_select.values import Usage

YES: Final = "yes"
NO: Final = "no"


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """Which of several options fits.

    Attributes:
        options: The meaning of each option, by its label; at least two.
        asked: The question, in words.
    """

    options: Mapping[str, str]
    asked: str


@dataclass(frozen=True, slots=True)
class YesNoQuestion:
    """Whether something is true; `yes` and `no` optionally say what each answer means."""

    asked: str
    yes: str = ""
    no: str = ""


Question: TypeAlias = ChoiceQuestion | YesNoQuestion


def labels_of(question: Question) -> tuple[str, ...]:
    """Return the labels that an answer gives probabilities to: a choice's options, or `yes` and `no`."""
    return tuple(question.options) if isinstance(question, ChoiceQuestion) else (YES, NO)


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """A decision model's answer.

    Attributes:
        probabilities: The probability of each option, by the question's name; they sum to one, up to rounding.
        usage: Its tokens, if counted.
        model: The model that answered, as it names itself.
    """

    probabilities: Mapping[str, Mapping[str, float]]
    usage: Usage | None = None
    model: str = ""

    def best(self, name: str) -> tuple[str, float]:
        """Return the likeliest option of the question `name` and its probability; the first of equals.

        Raises:
            KeyError: There was no such question.
        """
        return max(self.probabilities[name].items(), key=lambda each: each[1])
