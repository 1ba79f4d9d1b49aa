"""A scripted decision model, bad answers for it, and the contract of the port."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any, Final, TypeAlias, cast

from jazz_select.chat.decisions import why_no_distribution
from jazz_select.ports import DecisionModel
from jazz_select.questions import ChoiceQuestion, DecisionReply, Question, YesNoQuestion, labels_of
from jazz_select.testing.contracts import awaited, check_cancellation, require, require_kind, require_usage
from jazz_select.values import Usage

Probabilities: TypeAlias = Mapping[str, Mapping[str, float]]
"""By question, then by option."""
ScriptedDecision: TypeAlias = (
    DecisionReply | Probabilities | str | BaseException | Callable[[str, Mapping[str, Question]], Any]
)

_STATE = "Hello! <b>My parcel</b> & I are apart: it never came. 你好 🎷"
_QUESTIONS: Mapping[str, Question] = {
    "route": ChoiceQuestion(
        {"refund": "gives money back", "track": "says where a parcel is", "none": "anything else"},
        asked="Which of these does the customer want?",
    ),
    "angry?": YesNoQuestion("Is the customer angry?", yes="rude, or swearing", no="anything milder"),
}


def likely(question: Question, label: str, probability: float = 0.97) -> dict[str, float]:
    """Return this probability for one option, with the rest spread evenly over the others.

    Raises:
        AssertionError: The question has no such option.
    """
    labels = labels_of(question)
    require(label in labels, f"the question {question.asked!r} has no option {label!r}; it has {', '.join(labels)}")
    rest = (1 - probability) / (len(labels) - 1) if len(labels) > 1 else 0.0
    return {each: probability if each == label else rest for each in labels}


class ScriptedDecider:
    """A `DecisionModel` that gives these answers, one per call, and records its calls.

    Each answer is one of

    - probabilities, by question and option;
    - an option: it gets `sure`, in each question that has it, and the others share the rest; a question without it is
      answered with its first option, barely above 1 / n;
    - a `DecisionReply`, returned as it is; an exception, raised; or a function of the state and the questions that
      returns any of these.

    `calls` holds the state and the questions of each call, failed ones included.

    ```python
    decider = ScriptedDecider("refund_order", ModelError("d", "busy", retryable=True), LIES["even"], sure=0.99)
    ```
    """

    def __init__(
        self,
        *answers: ScriptedDecision,
        repeat: bool = False,
        sure: float = 0.97,
        delay_s: float = 0.0,
        most_options: int | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Create the model.

        Args:
            answers: The answers, in order.
            repeat: Repeat the last answer at the end of the script, instead of failing.
            sure: The probability of an option given alone.
            delay_s: Seconds that each call takes, for tests of timeouts and cancellation.
            most_options: The most options of a question.
            usage: The tokens reported for each call.

        Raises:
            ValueError: There is no answer to repeat.
        """
        if repeat and not answers:
            raise ValueError("ScriptedDecider(repeat=True) needs an answer to repeat")
        self.calls: list[tuple[str, Mapping[str, Question]]] = []
        self._answers = answers
        self._repeat = repeat
        self._sure = sure
        self._delay_s = delay_s
        self.most_options = most_options
        self._usage = usage

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        """Return the next answer.

        Raises:
            AssertionError: The script has ended.
        """
        self.calls.append((state, dict(questions)))
        asked = len(self.calls)
        if asked > len(self._answers) and not self._repeat:
            has = f"{len(self._answers)} answers"
            raise AssertionError(f"ScriptedDecider was asked {asked} times and has {has}; add one or pass repeat=True")
        answer: Any = self._answers[min(asked, len(self._answers)) - 1]
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if callable(answer):
            answer = answer(state, questions)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, DecisionReply):
            return answer
        if isinstance(answer, str):
            answer = {name: self._chosen(each, answer) for name, each in questions.items()}
        return DecisionReply(cast("Probabilities", answer), self._usage, "scripted")

    def _chosen(self, question: Question, label: str) -> dict[str, float]:
        labels = labels_of(question)
        if label in labels:
            return likely(question, label, self._sure)
        return likely(question, labels[0], 1 / len(labels) + 0.01)


def _each(give: Callable[[Sequence[str]], Mapping[str, Any]]) -> Callable[[str, Mapping[str, Question]], DecisionReply]:
    def answer(_: str, questions: Mapping[str, Question]) -> DecisionReply:
        return DecisionReply({name: give(labels_of(each)) for name, each in questions.items()}, None, "liar")

    return answer


LIES: Final[Mapping[str, Callable[[str, Mapping[str, Question]], DecisionReply]]] = {
    "ones": _each(lambda labels: dict.fromkeys(labels, 1.0)),
    "even": _each(lambda labels: dict.fromkeys(labels, 1 / len(labels))),
    "nan": _each(lambda labels: dict.fromkeys(labels, nan)),
    "infinite": _each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: float("inf")}),
    "negative": _each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: 1.5, labels[1]: -0.5}),
    "unsummed": _each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: 0.6}),
    "too few options": _each(lambda labels: {labels[0]: 1.0}),
    "unknown option": _each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: 0.5, "another": 0.5}),
    "texts": _each(lambda labels: dict.fromkeys(labels, "very likely")),
    "no question": lambda _, __: DecisionReply({}, None, "liar"),
    "another question": lambda _, questions: DecisionReply({**_first(questions), "x": {"a": 1.0}}, None, "liar"),
    "nothing": lambda _, __: cast("DecisionReply", None),
}
"""Invalid answers of a decision model, for `ScriptedDecider`. Even odds are a valid answer to a yes/no."""


def _first(questions: Mapping[str, Question]) -> Probabilities:
    return {name: likely(each, labels_of(each)[0]) for name, each in questions.items()}


async def check_decision_model(model: DecisionModel) -> None:
    """Check a decision model. It is called five times, so a scripted one needs `repeat=True`.

    It answers a choice and a yes/no with a probability for each option, leaves the questions unchanged, can be called
    concurrently, lets `asyncio.CancelledError` through, and reports how many options it takes. Its decisions do not
    matter, except that it must tell the options of a choice apart.

    Raises:
        AssertionError: It violates the contract.
    """
    most = cast("object", model.most_options)
    allowed = most is None or (isinstance(most, int) and not isinstance(most, bool) and most > 1)
    require(allowed, f"most_options must be None, or how many options a question may have, not {most!r}")
    questions = dict(_QUESTIONS)
    _check_reply(await _decide(model, questions), questions)
    require(questions == _QUESTIONS, "decide() must leave the questions as they are")
    one = {"angry?": _QUESTIONS["angry?"]}
    for reply, asked in zip(
        await asyncio.gather(_decide(model, questions), _decide(model, one), _decide(model, questions)),
        (questions, one, questions),
        strict=True,
    ):
        _check_reply(reply, asked)
    await check_cancellation(lambda: _decide(model, questions), "decide", lambda reply: _check_reply(reply, questions))


async def _decide(model: DecisionModel, questions: Mapping[str, Question]) -> object:
    return await awaited(model.decide(_STATE, questions), "decide")


def _check_reply(reply: object, questions: Mapping[str, Question]) -> None:
    said = require_kind(reply, DecisionReply, "decide() must return a DecisionReply")
    given = cast(
        "Mapping[Any, Any]", require_kind(said.probabilities, Mapping, "DecisionReply.probabilities must be a mapping")
    )
    require(set(given) == set(questions), f"decide() was asked {sorted(questions)}, and answered {list(given)}")
    for name, question in questions.items():
        problem = why_no_distribution(given[name], labels_of(question), even=isinstance(question, YesNoQuestion))
        require(not problem, f"the answer to {name!r} is no distribution: {problem}")
    require_kind(said.model, str, "DecisionReply.model must be a str")
    require_usage(said.usage, "DecisionReply.usage")
