"""One question to a decision model whose answer counts where it is sure enough; else somebody else is asked."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from jazz_select.arguments import Constraint, check_argument
from jazz_select.chat.decisions import DeciderLike, DecisionClient, decision_client_for
from jazz_select.questions import Question
from jazz_select.text import describe_error, name_shown
from jazz_select.threads import Deadline

SURE: Final = 0.95
"""How likely an answer has to be, where nothing else is said."""
_ABOVE: Final = Annotated[float, Constraint("a probability above .5, up to 1", gt=0.5, le=1)]
_NAME: Final = "question"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a decision model made of a question.

    Attributes:
        label: The option that it is sure of; empty where it is of none, or could not be asked.
        probability: How likely its likeliest option is; None where it could not be asked.
        note: Why its answer does not count; empty where it does.
    """

    label: str = ""
    probability: float | None = None
    note: str = ""


class Decider:
    """A decision model, and how sure it has to be. What it fails with is a note, since somebody else can be asked.

    Attributes:
        name: What the model is called.
        above: The least probability that counts.
    """

    def __init__(self, client: DecisionClient, *, above: float = SURE, timeout_s: float | None = 5.0) -> None:
        """Take whom to ask, how sure it has to be, and how many seconds one answer may take, retries included.

        Raises:
            ConfigError: `above` is no probability beyond even odds.
        """
        check_argument("decider_above", above, _ABOVE)
        self.name = client.name
        self.above = above
        self._client = client
        self._timeout_s = timeout_s

    async def decide(self, state: str, question: Question) -> Decided:
        """What the model is sure of about `state`; what goes wrong is noted, and never raised."""
        (decided,) = await self._asked(state, {_NAME: question}, Deadline.after(self._timeout_s))
        return decided

    async def decide_each(self, state: str, questions: Sequence[Question]) -> list[Decided]:
        """What it is sure of to each of several questions, in order: in one call, or as few as its provider takes.

        Where a call fails, or its answer to one of its questions cannot be used, none of these questions is answered.
        """
        if len(questions) < 2:  # noqa: PLR2004 - one, or none
            return [await self.decide(state, each) for each in questions]
        named = {f"{_NAME}_{number}": each for number, each in enumerate(questions, start=1)}
        names, most = list(named), self._client.most_questions or len(named)
        parts = [{name: named[name] for name in names[start : start + most]} for start in range(0, len(names), most)]
        deadline = Deadline.after(self._timeout_s)
        return [each for part in parts for each in await self._asked(state, part, deadline)]

    async def _asked(self, state: str, questions: Mapping[str, Question], deadline: Deadline) -> list[Decided]:
        try:
            reply = await self._client.ask(state, questions, deadline)
        except Exception as error:  # noqa: BLE001 - whatever a model fails with, somebody else is asked
            _log.info("model=<%s>, error=<%s> | passed over", self.name, type(error).__name__)
            return [Decided(note=f"the decider was passed over: {describe_error(error)}")] * len(questions)
        return [self._sure(*reply.best(name)) for name in questions]

    def _sure(self, label: str, probability: float) -> Decided:
        if probability < self.above:
            told = f"{name_shown(label)} at {probability:.2f}, where {self.above:g} is wanted"
            return Decided(probability=probability, note=f"the decider {self.name} is not sure: {told}")
        return Decided(label=label, probability=probability)

    async def aclose(self) -> None:
        """Close the connections of a model that was made for this decider alone."""
        await self._client.aclose()


def decider_of(decider: DeciderLike | Decider | None, *, above: float = SURE) -> Decider | None:
    """A decider of whatever a caller has as one; one that is a `Decider` already is itself.

    Raises:
        ConfigError: It is no decision model, or `above` no probability.
    """
    if isinstance(decider, Decider):
        return decider
    client = decision_client_for(decider)
    return None if client is None else Decider(client, above=above)
