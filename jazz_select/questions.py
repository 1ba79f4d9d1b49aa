"""What a decision model is asked, and what it answers: typed questions about a text, a probability for each option."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from jazz_select.values import Usage

YES: Final = "yes"
NO: Final = "no"


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """Which one of several options fits.

    Attributes:
        options: What each option means, by its label; at least two.
        asked: The question, in words.
    """

    options: Mapping[str, str]
    asked: str


@dataclass(frozen=True, slots=True)
class YesNoQuestion:
    """Whether something is so; `yes` and `no` say what each answer means, where that helps."""

    asked: str
    yes: str = ""
    no: str = ""


Question: TypeAlias = ChoiceQuestion | YesNoQuestion


def labels_of(question: Question) -> tuple[str, ...]:
    """The options that an answer gives a probability to: those of a choice, or `yes` and `no`."""
    return tuple(question.options) if isinstance(question, ChoiceQuestion) else (YES, NO)


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """What a decision model answered.

    Attributes:
        probabilities: By the question's name, how likely each of its options is; they sum to one, but for rounding.
        usage: The tokens that it took, where they were counted.
        model: The model that answered, as it names itself.
    """

    probabilities: Mapping[str, Mapping[str, float]]
    usage: Usage | None = None
    model: str = ""

    def best(self, name: str) -> tuple[str, float]:
        """The likeliest option of the question `name`, and how likely it is; of two alike, the first asked.

        Raises:
            KeyError: There was no such question.
        """
        return max(self.probabilities[name].items(), key=lambda each: each[1])
