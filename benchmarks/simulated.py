"""Models that are right as often as published ones, and as sure: what a cascade would do with them, without a call.

They are told which flow is right, and err by a seeded draw of each request's text. Where recall errs too they err more
often, and then mostly with the flow that recall would have taken: mistakes of models that read the same words come
together, and a cascade lives by how seldom they do.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jazz_select.questions import ChoiceQuestion, DecisionReply, Question
from jazz_select.selector.decision_stage import NONE
from jazz_select.text import estimate_tokens
from jazz_select.values import Message, Reply, Usage

PUBLISHED = {"banking77": 0.79, "clinc150": 0.89}
"""How often decision models choose rightly among the flows of these sets, without an example."""
SURE_SHARE, SURE_RIGHT = 0.62, 0.914
"""Of how many requests they say .95 or more, and how many of those are right."""
CHAT_RIGHT = 0.95
HARDER = 0.6
"""How often they are right where recall is wrong, as a share of how often they are right elsewhere."""
SAME_MISTAKE = 0.7
"""Of their mistakes where recall is wrong, those that are recall's."""
_OFFERED = re.compile(r'<flow id="(\d+)" name="([^"]*)"')


@dataclass(slots=True)
class Now:
    """The request that is asked about, which flow is right, and what recall puts first."""

    text: str = ""
    right: str = ""
    first: str = ""


@dataclass(slots=True)
class Spent:
    """What a model was asked."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    chosen: list[str] = field(default_factory=list[str])


def _drawn(now: Now, names: Sequence[str], accuracy: float, recall_right: float, rng: random.Random) -> str:
    """Which of these is chosen; the right one with `accuracy` over all requests."""
    easy = accuracy / (recall_right + HARDER * (1 - recall_right))
    hard = now.first != now.right
    if now.right in names and rng.random() < (HARDER * easy if hard else easy):
        return now.right
    wrong = [each for each in names if each != now.right]
    if hard and now.first in wrong and rng.random() < SAME_MISTAKE:
        return now.first
    return rng.choice(wrong) if wrong else names[0]


class SimulatedDecider:
    """A decision model of a published accuracy and overconfidence."""

    most_options = 255

    def __init__(self, now: Now, *, accuracy: float, recall_right: float, seed: int, knows_none: bool = False) -> None:
        """Take where the request stands, how often it is right, how often recall is, and whether it may say none."""
        self._now, self._accuracy, self._recall_right, self._seed = now, accuracy, recall_right, seed
        self._knows_none = knows_none
        self.spent = Spent()

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        """The drawn option with a drawn probability, the rest over the others."""
        ((name, question),) = questions.items()
        if not isinstance(question, ChoiceQuestion):
            msg = "only choices are simulated"
            raise TypeError(msg)
        rng = random.Random(f"{self._seed}:decider:{self._now.text}")
        labels = {meaning.partition(". ")[0]: label for label, meaning in question.options.items() if label != NONE}
        if self._knows_none:
            labels[NONE] = NONE
        chosen = _drawn(self._now, list(labels), self._accuracy, self._recall_right, rng)
        right = chosen == self._now.right
        # P(sure | right) and P(sure | wrong), so that SURE_SHARE are sure and SURE_RIGHT of those are right.
        sure_right = SURE_SHARE * SURE_RIGHT / self._accuracy
        sure_wrong = SURE_SHARE * (1 - SURE_RIGHT) / (1 - self._accuracy)
        sure = rng.random() < (sure_right if right else sure_wrong)
        top = rng.uniform(0.95, 0.999) if sure else rng.uniform(0.5, 0.95)
        rest = (1 - top) / (len(question.options) - 1)
        chances = {label: top if label == labels[chosen] else rest for label in question.options}
        tokens = estimate_tokens(state) + sum(map(estimate_tokens, question.options.values()))
        self.spent.calls += 1
        self.spent.input_tokens += tokens
        return DecisionReply({name: chances}, Usage(input_tokens=tokens), "simulated")


class SimulatedChat:
    """A chat model that is right so often."""

    def __init__(self, now: Now, *, recall_right: float, seed: int) -> None:
        """Take where the request stands, and how often recall is right."""
        self._now, self._recall_right, self._seed = now, recall_right, seed
        self.spent = Spent()

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """The ordinal of the flow that is drawn."""
        offered = {name: number for number, name in _OFFERED.findall(messages[-1].content)}
        rng = random.Random(f"{self._seed}:chat:{self._now.text}")
        chosen = _drawn(self._now, list(offered), CHAT_RIGHT, self._recall_right, rng)
        text = f'["{offered[chosen]}"]'
        usage = Usage(
            input_tokens=sum(estimate_tokens(each.content) for each in messages), output_tokens=estimate_tokens(text)
        )
        self.spent.calls += 1
        self.spent.input_tokens += usage.input_tokens
        self.spent.output_tokens += usage.output_tokens
        return Reply(text=text, usage=usage, model="simulated")
