"""One question to a decision model whose answer counts where it is sure enough; else somebody else is asked."""

import logging
from dataclasses import dataclass
from typing import Final

from jazz_select.chat.decisions import DeciderLike, DecisionClient, decision_client_for
from jazz_select.errors import ConfigError
from jazz_select.questions import Question
from jazz_select.text import describe_error, name_shown
from jazz_select.threads import Deadline

SURE: Final = 0.95
"""How likely an answer has to be, where nothing else is said."""
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
        if not (isinstance(above, int | float) and 0.5 < above <= 1):  # noqa: PLR2004  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"decider_above is a probability above .5, up to 1, not {above!r:.80}"
            raise ConfigError(msg)
        self.name = client.name
        self.above = above
        self._client = client
        self._timeout_s = timeout_s

    async def decide(self, state: str, question: Question) -> Decided:
        """What the model is sure of about `state`; what goes wrong is noted, and never raised."""
        try:
            reply = await self._client.ask(state, {_NAME: question}, Deadline.after(self._timeout_s))
        except Exception as error:  # noqa: BLE001 - whatever a model fails with, somebody else is asked
            _log.info("model=<%s>, error=<%s> | passed over", self.name, type(error).__name__)
            return Decided(note=f"the decider was passed over: {describe_error(error)}")
        label, probability = reply.best(_NAME)
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
