"""Test doubles: scripted and recorded models, scripted deciders, memories and claims."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from hashlib import sha256
from math import nan
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from zlib import compress, decompress

from jazz_select.questions import DecisionReply, Question, labels_of
from jazz_select.text import beginning, estimate_tokens
from jazz_select.values import Claim, Message, OfferedTool, RecallResult, Reply, Usage

_SHOWN: Final = 200
_DIFF_LINES: Final = 40
_LONG: Final = 4_000
"""Texts of a cassette from this length on are compressed: they are lists of tools, which nobody reads there."""

ScriptedReply = str | Reply | BaseException | Callable[[Sequence[Message]], str | Reply]


class _Script:
    """Answers given in order, each an exception to raise, a function of the question, or another value."""

    def __init__(self, owner: str, answers: Sequence[Any], *, repeat: bool, delay_s: float) -> None:
        if repeat and not answers:
            raise ValueError(f"{owner}(repeat=True) needs an answer to repeat")
        self._owner, self._answers, self._repeat, self._delay_s = owner, answers, repeat, delay_s

    async def answer(self, asked: int, *question: object) -> Any:
        """Return the answer to the question of this number, from 1."""
        if asked > len(self._answers) and not self._repeat:
            has = f"{len(self._answers)} answers"
            raise AssertionError(f"{self._owner} was asked {asked} times and has {has}; add one or pass repeat=True")
        answer = self._answers[min(asked, len(self._answers)) - 1]
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if callable(answer):
            answer = answer(*question)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class ScriptedModel:
    """A `ChatModel` that gives these replies, one per call, and records its calls.

    Each reply is a text, a `Reply`, an exception to raise, or a function of the messages. `calls` holds the messages of
    each call, failed ones included, `schemas` its JSON schema or None, and `tools` its tools.

    ```python
    model = ScriptedModel(ModelError("m", "busy", retryable=True), '["refund_order"]')
    ```
    """

    def __init__(
        self,
        *replies: ScriptedReply,
        repeat: bool = False,
        delay_s: float = 0.0,
        takes_schema: bool = False,
        takes_tools: bool = False,
    ) -> None:
        """Create the model.

        Args:
            replies: The replies, in order.
            repeat: Repeat the last reply at the end of the script, instead of failing.
            delay_s: Seconds that each call takes, for tests of timeouts and cancellation.
            takes_schema: Whether to accept schemas; they do not change the replies.
            takes_tools: Whether to accept tools and call them natively: `Reply(text="", tool_calls=(NativeCall(…),))`.

        Raises:
            TypeError: A reply is of another kind.
            ValueError: There is none to repeat.
        """
        for number, reply in enumerate(replies, 1):
            _check(number, reply)
        self.calls: list[tuple[Message, ...]] = []
        self.schemas: list[Mapping[str, Any] | None] = []
        self.tools: list[tuple[OfferedTool, ...]] = []
        self.takes_schema = takes_schema
        self.takes_tools = takes_tools
        self._script = _Script("ScriptedModel", replies, repeat=repeat, delay_s=delay_s)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[OfferedTool] = (),
    ) -> Reply:
        """Return the next reply.

        Raises:
            AssertionError: The script has ended.
        """
        self.calls.append(tuple(messages))
        self.schemas.append(schema)
        self.tools.append(tuple(tools))
        reply = await self._script.answer(len(self.calls), messages)
        return reply if isinstance(reply, Reply) else Reply(text=reply, model="scripted")


def _check(number: int, reply: object) -> None:
    """Raise at construction for a script that cannot be played."""
    if isinstance(reply, type):
        msg = f"reply {number} is the class {reply.__qualname__}; make it an instance, {reply.__qualname__}(…)"
        raise TypeError(msg)
    if not isinstance(reply, str | Reply | BaseException) and not callable(reply):
        hint = f"; as text it would be json.dumps({reply!r:.60})" if isinstance(reply, dict | list) else ""
        kinds = "a text, a Reply, an exception or a function of the messages"
        msg = f"reply {number} must be {kinds}, got {reply!r:.80}{hint}"
        raise TypeError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A prompt and its recorded reply.

    Attributes:
        messages: The prompt.
        reply: The reply.
        schema: The prompt's JSON schema, if any.
        turn: The turn of the conversation, if turns are counted.
        kind: The kind of prompt, such as "choose", if known.
        known_by: The part of the prompt that the reply depends on, as text; None for all of it.
    """

    messages: tuple[Message, ...]
    reply: str = ""
    schema: Mapping[str, Any] | None = None
    turn: int = 0
    kind: str = ""
    known_by: "Callable[[Recorded], str] | None" = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """The digest of the part of the prompt that the reply depends on."""
        if self.known_by is not None:
            return sha256(self.known_by(self).encode()).hexdigest()[:16]
        asked: list[Any] = [[each.role, each.content] for each in self.messages]
        return sha256(json.dumps([asked, self.schema], sort_keys=True).encode()).hexdigest()[:16]

    @property
    def tokens(self) -> int:
        """The estimated tokens of the prompt."""
        return sum(estimate_tokens(each.content) for each in self.messages)

    @property
    def text(self) -> str:
        """The prompt as readable text."""
        schema = [] if self.schema is None else ["[schema]", json.dumps(self.schema, indent=1, sort_keys=True)]
        return "\n".join([*(f"[{each.role}]\n{each.content}" for each in self.messages), *schema])

    @property
    def title(self) -> str:
        """Turn, kind, size and digest in one line."""
        turn = f"turn {self.turn}, " if self.turn else ""
        return f"{turn}{self.kind or 'prompt'}, about {self.tokens} tokens, digest {self.digest}"

    def changes(self, now: "Recorded", lines: int = _DIFF_LINES) -> str:
        """Return the difference of prompt `now` from this one, as a unified diff of at most `lines` lines."""
        if self.known_by is None:
            was, is_now = self.text.splitlines(), now.text.splitlines()
        else:
            was, is_now = self.known_by(self).splitlines(), self.known_by(now).splitlines()
        found = list(unified_diff(was, is_now, "recorded", "asked now", n=1, lineterm=""))
        more = [f"… {len(found) - lines} lines more"] if len(found) > lines else []
        return "\n".join([*(beginning(line, 4 * _SHOWN) for line in found[:lines]), *more])


class Cassette:
    """A `ChatModel` that replays recorded replies, found by the digest of the prompt.

    A prompt that occurs twice has two records, given in order. Without a record, `model` is asked and its reply
    recorded; without a model, an `AssertionError` shows how the prompt differs from the stale record. `save` writes the
    file.

    ```python
    model = Cassette("refund.json", model="openai:gpt-5-mini")  # once; then Cassette("refund.json")
    ```

    Attributes:
        asked: The prompts and replies so far.
        left: The unused records.
        missing: The prompts without a record, also where an agent carried on without a reply.
        turn: The turn of the next prompt; count it up where you have turns.
        takes_schema: Whether it accepts schemas: as given, else as the model does.
    """

    def __init__(
        self,
        path: str | Path,
        model: Any = None,
        *,
        kind: Callable[[Sequence[Message]], str] | None = None,
        takes_schema: bool | None = None,
        known_by: Callable[[Recorded], str] | None = None,
    ) -> None:
        """Open a cassette; a missing file is an empty one.

        Args:
            path: The file.
            model: The model for prompts without a record, as `FlowSelector` takes it.
            kind: The kind to record for a prompt, for people who read the file.
            takes_schema: Whether to accept schemas, whatever `model` does.
            known_by: Returns the part of a prompt that its reply depends on, as text, such as the offer and the
                message. Prompts equal in that part get the same reply. By default all of it.
        """
        self.path = Path(path)
        self.asked: list[Recorded] = []
        self._known_by = known_by
        self.left: list[Recorded] = []
        if self.path.exists():
            self.left = [replace(each, known_by=known_by) for each in _read_records(self.path)]
        self.missing: list[Recorded] = []
        self.turn = 0
        from jazz_select.chat.models import as_chat_model  # imported here because scripted models do not need it

        self._model = as_chat_model(model, argument="model")
        own: bool = getattr(self._model, "takes_schema", False) is True
        self.takes_schema = own if takes_schema is None else takes_schema
        self._kind = kind

    async def complete(self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None) -> Reply:
        """Return the recorded reply.

        Raises:
            AssertionError: There is none, and no model to ask.
        """
        kind = self._kind(messages) if self._kind is not None else ""
        question = Recorded(messages=tuple(messages), schema=schema, turn=self.turn, kind=kind, known_by=self._known_by)
        digest = question.digest
        known = next((each for each in self.left if each.digest == digest), None)
        if known is None:
            self.missing.append(question)
            return await self.unrecorded(question)
        self.left.remove(known)
        reply = self.reply_to(question, known)
        self.asked.append(replace(question, reply=reply))
        return Reply(text=reply, model="cassette")

    def reply_to(self, question: Recorded, known: Recorded) -> str:
        """Return a record's reply for this prompt. Override it to renumber a reply whose offer is in another order."""
        del question
        return known.reply

    async def unrecorded(self, question: Recorded) -> Reply:
        """Handle a prompt without a record. Override it to do something else.

        Raises:
            AssertionError: There is no model to ask.
        """
        if self._model is None:
            raise AssertionError(self.describe_missing(question))
        given = {"schema": question.schema} if getattr(self._model, "takes_schema", False) is True else {}
        reply = await self._model.complete(question.messages, **given)
        self.keep(question, reply.text or "")
        return reply

    def keep(self, question: Recorded, reply: str) -> None:
        """Record a reply, replacing the stale record."""
        stale = self.stale(question)
        if stale is not None:
            self.left.remove(stale)
        self.asked.append(replace(question, reply=reply))

    def stale(self, question: Recorded) -> Recorded | None:
        """Return the stale record of a prompt: the next one of the same turn and kind."""
        place = (question.turn, question.kind)
        return next((each for each in self.left if (each.turn, each.kind) == place), None)

    def describe_missing(self, question: Recorded) -> str:
        """Return the stale record and how it differs, or the prompt itself."""
        number, stale = len(self.asked) + 1, self.stale(question)
        if stale is None:
            return f"{self.path.name} has no record for prompt {number} ({question.title}):\n{question.text}"
        changes = stale.changes(question)
        return f"{self.path.name}: record {number} ({question.title}) is stale, its prompt has changed:\n{changes}"

    def save(self) -> None:
        """Write the used records, then the unused ones; each text once, by lines or compressed."""
        texts: dict[str, list[str] | str] = {}

        def store_text(text: str) -> str:
            name = sha256(text.encode()).hexdigest()[:8]
            texts[name] = text.split("\n") if len(text) <= _LONG else b64encode(compress(text.encode(), 9)).decode()
            return name

        records: list[dict[str, Any]] = []
        for each in (*self.asked, *self.left):
            record: dict[str, Any] = {}
            if each.turn:
                record["turn"] = each.turn
            if each.kind:
                record["kind"] = each.kind
            record |= {
                "tokens": each.tokens,
                "digest": each.digest,
                "begins": each.messages[-1].content[:_SHOWN] if each.messages else "",
                "reply": each.reply,
                "prompt": [[message.role, store_text(message.content)] for message in each.messages],
            }
            if each.schema is not None:
                record["schema"] = each.schema
            records.append(record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = json.dumps({"records": records, "texts": texts}, ensure_ascii=False, indent=1)
        self.path.write_text(written + "\n", encoding="utf-8", newline="\n")


def _read_records(path: Path) -> list[Recorded]:
    """Read the records. Compute their digests anew, so that hand-edited records are not trusted."""
    given = json.loads(path.read_text("utf-8"))
    texts = {
        name: decompress(b64decode(kept)).decode() if isinstance(kept, str) else "\n".join(kept)
        for name, kept in given["texts"].items()
    }
    return [
        Recorded(
            messages=tuple(Message(role=role, content=texts[name]) for role, name in each["prompt"]),
            reply=each["reply"],
            schema=each.get("schema"),
            turn=each.get("turn", 0),
            kind=each.get("kind", ""),
        )
        for each in given["records"]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCall:
    """One call of `ListMemory.recall`."""

    query: str
    agent_id: str
    top_k: int
    rrf_k: int
    exclude: frozenset[str]


class ListMemory:
    """A `FlowMemory` that returns these candidates for any request; `calls` records each recall."""

    def __init__(
        self,
        candidates: Iterable[Mapping[str, Any]] = (),
        *,
        notes: tuple[str, ...] = (),
        error: Exception | None = None,
    ) -> None:
        """Create the memory.

        Args:
            candidates: Metadata dicts with the keys flow_id, flow_name, …; best first.
            notes: The notes of each recall.
            error: Raised by each recall, instead of an answer.
        """
        self.candidates = [dict(candidate) for candidate in candidates]
        self.calls: list[RecallCall] = []
        self._notes = notes
        self._error = error

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> RecallResult:
        """Return the first `top_k` candidates that are not excluded."""
        call = RecallCall(query=query, agent_id=agent_id, top_k=top_k, rrf_k=rrf_k, exclude=frozenset(exclude))
        self.calls.append(call)
        if self._error is not None:
            raise self._error
        left = [dict(candidate) for candidate in self.candidates if candidate.get("flow_id") not in call.exclude]
        return RecallResult(left[:top_k], notes=self._notes)


class MemoryClaims:
    """A `ClaimStore` for tests of one process. Its claims end with it, so do not use it in production.

    Attributes:
        claims: The claims by call id.
    """

    def __init__(self) -> None:
        """Start without claims."""
        self.claims: dict[str, Claim] = {}

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        """Return None for the first caller."""
        known = self.claims.get(call_id)
        self.claims.setdefault(call_id, Claim(fingerprint=fingerprint))
        return known

    async def settle(self, call_id: str, outcome: str) -> None:
        """Keep the first outcome."""
        known = self.claims.get(call_id)
        if known is not None and known.outcome is None:
            self.claims[call_id] = replace(known, outcome=outcome)


Probabilities: TypeAlias = Mapping[str, Mapping[str, float]]
"""By question, then by option."""
ScriptedDecision: TypeAlias = (
    DecisionReply | Probabilities | str | BaseException | Callable[[str, Mapping[str, Question]], Any]
)


def likely(question: Question, label: str, probability: float = 0.97) -> dict[str, float]:
    """Return this probability for one option, with the rest spread evenly over the others.

    Raises:
        AssertionError: The question has no such option.
    """
    labels = labels_of(question)
    if label not in labels:
        raise AssertionError(f"the question {question.asked!r} has no option {label!r}; it has {', '.join(labels)}")
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
        self.calls: list[tuple[str, Mapping[str, Question]]] = []
        self._script = _Script("ScriptedDecider", answers, repeat=repeat, delay_s=delay_s)
        self._sure = sure
        self.most_options = most_options
        self._usage = usage

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        """Return the next answer.

        Raises:
            AssertionError: The script has ended.
        """
        self.calls.append((state, dict(questions)))
        answer = await self._script.answer(len(self.calls), state, questions)
        if isinstance(answer, DecisionReply):
            return answer
        if isinstance(answer, str):
            answer = {name: self._choose_label(each, answer) for name, each in questions.items()}
        return DecisionReply(cast("Probabilities", answer), self._usage, "scripted")

    def _choose_label(self, question: Question, label: str) -> dict[str, float]:
        labels = labels_of(question)
        if label in labels:
            return likely(question, label, self._sure)
        return likely(question, labels[0], 1 / len(labels) + 0.01)


def _answer_each(
    give: Callable[[Sequence[str]], Mapping[str, Any]],
) -> Callable[[str, Mapping[str, Question]], DecisionReply]:
    def answer(_: str, questions: Mapping[str, Question]) -> DecisionReply:
        return DecisionReply({name: give(labels_of(each)) for name, each in questions.items()}, None, "liar")

    return answer


LIES: Final[Mapping[str, Callable[[str, Mapping[str, Question]], DecisionReply]]] = {
    "ones": _answer_each(lambda labels: dict.fromkeys(labels, 1.0)),
    "even": _answer_each(lambda labels: dict.fromkeys(labels, 1 / len(labels))),
    "nan": _answer_each(lambda labels: dict.fromkeys(labels, nan)),
    "infinite": _answer_each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: float("inf")}),
    "negative": _answer_each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: 1.5, labels[1]: -0.5}),
    "unsummed": _answer_each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: 0.6}),
    "too few options": _answer_each(lambda labels: {labels[0]: 1.0}),
    "unknown option": _answer_each(lambda labels: {**dict.fromkeys(labels, 0.0), labels[0]: 0.5, "another": 0.5}),
    "texts": _answer_each(lambda labels: dict.fromkeys(labels, "very likely")),
    "no question": lambda _, __: DecisionReply({}, None, "liar"),
    "another question": lambda _, questions: DecisionReply({**_first(questions), "x": {"a": 1.0}}, None, "liar"),
    "nothing": lambda _, __: cast("DecisionReply", None),
}
"""Invalid answers of a decision model, for `ScriptedDecider`. Even odds are a valid answer to a yes/no."""


def _first(questions: Mapping[str, Question]) -> Probabilities:
    return {name: likely(each, labels_of(each)[0]) for name, each in questions.items()}
