"""Clients that ask a decision model within limits, validate its distributions, and apply a threshold."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, SupportsFloat, TypeAlias, TypeGuard

from jazz_select.arguments import Constraint, check_argument
from jazz_select.chat.calls import ModelClient
from jazz_select.chat.models import DecisionModelLike, as_decision_model
from jazz_select.errors import DecisionAskError, DecisionReplyError
from jazz_select.json_values import is_object
from jazz_select.ports import DecisionModel
from jazz_select.questions import ChoiceQuestion, DecisionReply, Question, labels_of
from jazz_select.telemetry import span
from jazz_select.text import as_text, cut, describe_error, estimate_tokens, name_shown, some_of
from jazz_select.threads import Deadline
from jazz_select.values import Usage

LONGEST_STATE: Final = 100_000
"""The limit of the text to judge, in characters."""
_FEWEST: Final = 2
_ROUNDING: Final = 0.005
"""The rounding error of one probability with two decimals."""
_MOST_ROUNDING: Final = 0.5
"""The most that rounding errors may add up to; beyond it the sum says nothing."""
_FLOAT: Final = 1e-6
_FLAT: Final = "all options are equally likely, which tells nothing apart; ask another model"
_NAMED: Final = 3
_MOST_TOKENS: Final = 10**12


class DecisionClient(ModelClient[DecisionModel, DecisionReply]):
    """A client of one decision model: what `ChatClient` is for a chat model.

    A reply is untrusted data. Only one with a probability for each option of each question is returned. Whether the
    model is right and calibrated cannot be seen in one reply.
    """

    @property
    def most_options(self) -> int | None:
        """The most options of a question; None if unlimited or unknown."""
        most: object = self._model.most_options
        return most if _is_count(most) else None

    @property
    def most_questions(self) -> int | None:
        """The most questions of a call; None if unlimited or unknown."""
        most: object = getattr(self._model, "most_questions", None)
        return most if _is_count(most) and most > 0 else None

    @property
    def most_tokens(self) -> int | None:
        """The most tokens of the text and one question together; None if unlimited or unknown."""
        most: object = getattr(self._model, "most_tokens", None)
        return most if _is_count(most) and most > 0 else None

    async def ask(self, state: str, questions: Mapping[str, Question], deadline: Deadline) -> DecisionReply:
        """Ask the model about `state` within the deadline, queueing and retries included.

        Raises:
            DecisionAskError: No questions, too many or fewer than two options, an empty or too long text, or more
                tokens than the model takes. Nothing was sent.
            DecisionReplyError: The answer does not fit the questions, or gives no probabilities.
            ModelTimeoutError: The deadline passed.
            ModelUnavailableError: The breaker is open after recent failures.

        Other errors of the model pass unchanged once retries are used up or would not help.
        """
        if problem := self._why_not(state, questions):
            raise DecisionAskError(self.name, problem)
        own_questions = dict(questions)  # the caller may change its mapping while the call waits
        reply, _ = await self._run(lambda: self._decide_once(state, own_questions), deadline)
        return reply

    async def _decide_once(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        with span(self.name, "decide") as decide:
            if decide is not None:
                texts = {name: each.asked for name, each in questions.items()}
                decide.hold({"state": state, "questions": texts})
            reply = self._check_reply(await self._model.decide(state, questions), questions)
            if decide is not None:
                decide.hold({"probabilities": reply.probabilities})
                sure = {name: round(max(each.values()), 4) for name, each in reply.probabilities.items()}
                decide.note({"model": reply.model, "sure": sure})
                if reply.usage is not None:
                    usage = reply.usage
                    decide.note({"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens})
        return reply

    def _why_not(self, state: str, questions: Mapping[str, Question]) -> str:
        if not questions:
            return "there is no question"
        if not state.strip():
            return "there is no text to judge"
        if len(state) > LONGEST_STATE:
            return f"the text to judge has {len(state)} characters, and may have {LONGEST_STATE}: shorten it"
        most = self.most_options
        for name, question in questions.items():
            count = len(labels_of(question))
            if count < _FEWEST:
                return f"the question {_show_name(name)} has {count} options, and takes two at least"
            if most is not None and isinstance(question, ChoiceQuestion) and count > most:
                return f"the question {_show_name(name)} has {count} options, and this model takes {most}: offer fewer"
        return self._excess_tokens(state, questions)

    def _excess_tokens(self, state: str, questions: Mapping[str, Question]) -> str:
        """Return why the text and its longest question are too long for the model; empty if they are not."""
        most = self.most_tokens
        if most is None:
            return ""
        longest = max(estimate_tokens(_text_of(each)) for each in questions.values())
        tokens = estimate_tokens(state) + longest
        if tokens <= most:
            return ""
        return f"the text and a question have about {tokens} tokens, and this model takes {most}: shorten the text"

    def _check_reply(self, reply: object, questions: Mapping[str, Question]) -> DecisionReply:
        if not isinstance(reply, DecisionReply) or not isinstance(reply.probabilities, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a model of somebody's own may answer anything
            problem = f"it is {type(reply).__name__}, where decide() has to return a DecisionReply of a mapping"
            raise DecisionReplyError(self.name, problem)
        given: Mapping[Any, Any] = reply.probabilities
        if missing := [name for name in questions if name not in given]:
            raise DecisionReplyError(self.name, f"it lacks {_list_names(missing)}; it has to answer each question")
        if strange := [name for name in given if name not in questions]:
            raise DecisionReplyError(self.name, f"it answers what was not asked: {_list_names(strange)}")
        read: dict[str, dict[str, float]] = {}
        for name, question in questions.items():
            labels = labels_of(question)
            plain: Any = given[name]
            if is_object(plain):
                plain = dict(plain)  # the model may change its mapping later
            if problem := why_no_distribution(plain, labels, even=not isinstance(question, ChoiceQuestion)):
                raise DecisionReplyError(self.name, problem, question=name)
            read[name] = {label: float(plain[label]) for label in labels}
        usage = reply.usage
        if not isinstance(usage, Usage) or not _is_counted(usage):
            usage = None
        return DecisionReply(read, usage, as_text(reply.model) or self.name)


DeciderLike: TypeAlias = DecisionModelLike | DecisionClient
"""A decision model, or a client of one with its own limits."""


def decision_client_for(
    decider: DeciderLike | None, *, argument: str = "decider", max_retries: int = 2, max_concurrency: int = 64
) -> DecisionClient | None:
    """Return a client for a decision model, with these limits; a client keeps its own."""
    if isinstance(decider, DecisionClient):
        return decider
    model = as_decision_model(decider, argument=argument)
    if model is None:
        return None
    owned = isinstance(decider, str)
    return DecisionClient(model, max_retries=max_retries, max_concurrency=max_concurrency, owned=owned)


def why_no_distribution(given: object, labels: tuple[str, ...], *, even: bool = False) -> str:
    """Return why a value is not a distribution over these options, and what it should be; "" if it is one.

    With `even`, all may be equally likely: that is an answer to a yes/no, but not to a choice.
    """
    if not is_object(given):
        return f"it is {type(given).__name__}, where a probability for each option is wanted"
    if strange := [label for label in given if label not in labels]:
        return f"not among the options: {_list_names(strange)}"
    if missing := [label for label in labels if label not in given]:
        return f"it lacks the options {_list_names(missing)}; each wants a probability"
    if wrong := [label for label in labels if not _is_probability(given[label])]:
        shown = cut(as_text(given[wrong[0]]), 30)
        return f"the probability of {_list_names(wrong)} is {shown}; a number from 0 to 1 is wanted"
    values = [float(given[label]) for label in labels]
    is_flat = not even and all(value == values[0] for value in values)
    return _why_no_sum(values) or (_FLAT if is_flat else "")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)  # True is an int to Python


def _is_counted(usage: Usage) -> bool:
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    return all(type(each) is int and 0 <= each <= _MOST_TOKENS for each in counts)


def _is_probability(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        return False
    try:
        return 0 <= float(value) <= 1  # False for NaN
    except (ArithmeticError, ValueError, TypeError):
        return False


def _why_no_sum(values: Sequence[float]) -> str:
    if all(value == 1 for value in values):
        return "each option has probability 1; together they have to be 1"
    total = sum(values)
    # A zero may have been rounded down by half a unit; only a nonzero can have been rounded up.
    least = 1 - _FLOAT - min(_ROUNDING * len(values), _MOST_ROUNDING)
    most = 1 + _FLOAT + min(_ROUNDING * sum(value > 0 for value in values), _MOST_ROUNDING)
    if least <= total <= most:
        return ""
    return f"the probabilities sum to {total:.3f}, and have to sum to 1"


def _list_names(names: list[Any]) -> str:
    return some_of(names, _NAMED, _show_name)


def _text_of(question: Question) -> str:
    """Return what a model reads of a question."""
    if isinstance(question, ChoiceQuestion):
        return "\n".join((question.asked, *question.options, *question.options.values()))
    return f"{question.asked}\n{question.yes}\n{question.no}"


def _show_name(name: object) -> str:
    return name_shown(cut(as_text(name), 60))


SURE: Final = 0.95
"""The default threshold of an answer's probability."""
_ABOVE: Final = Annotated[float, Constraint("a probability above .5, up to 1", gt=0.5, le=1)]
_NAME: Final = "question"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeciderAnswer:
    """A decision model's answer to a question.

    Attributes:
        label: The option above the threshold; empty if there is none or the call failed.
        probability: Of the likeliest option; None if the call failed.
        note: Why the answer does not count; empty if it does.
    """

    label: str = ""
    probability: float | None = None
    note: str = ""


class Decider:
    """A decision model with a threshold. Its errors become notes, because the caller can ask another model.

    Attributes:
        name: The model's name.
        above: The threshold.
    """

    def __init__(self, client: DecisionClient, *, above: float = SURE, timeout_s: float | None = 5.0) -> None:
        """Create a decider; `timeout_s` limits one answer, retries included.

        Raises:
            ConfigError: `above` is not a probability above one half.
        """
        check_argument("decider_above", above, _ABOVE)
        self.name = client.name
        self.above = above
        self._client = client
        self._timeout_s = timeout_s

    async def decide(self, state: str, question: Question) -> DeciderAnswer:
        """Return the model's answer about `state`; errors become notes."""
        (answer,) = await self.decide_each(state, [question])
        return answer

    async def decide_each(self, state: str, questions: Sequence[Question]) -> list[DeciderAnswer]:
        """Answer several questions in order, in as few calls as the provider allows.

        If a call fails, or one of its answers cannot be used, none of its questions is answered.
        """
        named: dict[str, Question] = {}
        for number, question in enumerate(questions, start=1):
            name = f"{_NAME}_{number}" if len(questions) > 1 else _NAME
            named[name] = question
        names = list(named)
        most = self._client.most_questions or len(named) or 1
        deadline = Deadline.after(self._timeout_s)
        answers: list[DeciderAnswer] = []
        for start in range(0, len(names), most):
            part = {name: named[name] for name in names[start : start + most]}
            answers.extend(await self._ask_client(state, part, deadline))
        return answers

    async def _ask_client(
        self, state: str, questions: Mapping[str, Question], deadline: Deadline
    ) -> list[DeciderAnswer]:
        try:
            reply = await self._client.ask(state, questions, deadline)
        except Exception as error:  # noqa: BLE001 - any error of a model; another is asked
            _log.info("model=<%s>, error=<%s> | passed over", self.name, type(error).__name__)
            return [DeciderAnswer(note=f"the decider was passed over: {describe_error(error)}")] * len(questions)
        return [self._apply_threshold(*reply.best(name)) for name in questions]

    def _apply_threshold(self, label: str, probability: float) -> DeciderAnswer:
        if probability < self.above:
            likeliest = f"{name_shown(label)} at {probability:.2f}, where {self.above:g} is wanted"
            return DeciderAnswer(probability=probability, note=f"the decider {self.name} is not sure: {likeliest}")
        return DeciderAnswer(label=label, probability=probability)

    async def aclose(self) -> None:
        """Close the model's connections if the model was made for this decider."""
        await self._client.aclose()


def decider_of(decider: DeciderLike | Decider | None, *, above: float = SURE) -> Decider | None:
    """Return a decider for a decision model or client; a `Decider` is returned as it is.

    Raises:
        ConfigError: It is not a decision model, or `above` is not a probability.
    """
    if isinstance(decider, Decider):
        return decider
    client = decision_client_for(decider)
    return None if client is None else Decider(client, above=above)
