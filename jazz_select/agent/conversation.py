"""A conversation as a value: messages, open flows, the call that waits for a yes, and what the next turn needs."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import time
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, FailFast, Field, PrivateAttr, WrapValidator, model_validator

from jazz_select.arguments import Seconds, check_argument
from jazz_select.consent import NEITHER, Consent, is_every, names_some, read_with_reason
from jazz_select.errors import ConfigError, SnapshotError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import (
    Secret,
    canonical_bytes,
    exactly,
    is_object,
    plain,
    shortened_json,
    signed,
    storable,
    storable_text,
    unquoted_json,
    unsigned,
)
from jazz_select.phrases import Asked
from jazz_select.routing.plans.plan import Missing, PlanStep, references_in, with_outputs, with_steps_named
from jazz_select.routing.question import Before, describe_call, escape_invisible, question, question_together
from jazz_select.routing.records import CallSource, ToolCall
from jazz_select.routing.schemas.fields import RESULT
from jazz_select.routing.tool_call import identity_of
from jazz_select.routing.tools.context_inputs import without_filled
from jazz_select.selector.asking import FEWEST, MOST
from jazz_select.selector.prompt import MOST_SHOWN, FirstShown
from jazz_select.serialization import saved_value
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.text import as_text, beginning, cut, estimate_tokens, join_sentences, json_line, nfkc, one_line, titled
from jazz_select.texts import say
from jazz_select.values import Message, flow_id
from jazz_select.words import folded_name, stems

_LONGEST_REASON: Final = 1_000
_ONLY_SOME: Final = "it names only some of the calls"


class PendingCall(BaseModel):
    """A call that is made only after the user's yes.

    Attributes:
        id: Identifier of the call in every process, from the question to the call.
        tool: The tool.
        arguments: The arguments as JSON values, complete, as the user was shown them.
        destructive: Whether the tool is destructive.
        flow: The flow that wants the call; empty if a model does, without a flow.
        path: The part of that flow (`part_paths`): "0" is the flow itself.
        door: Whether the flow's steps or a model's chain made the call.
        reason: Why it needs approval: for logs, not for users.
        before: Whether the same call was made before in this flow: `done`, or failed with an unknown outcome
            (`unknown`).
        title: The tool's title for users; its name in words if empty.
        words: What the call would do, as the tool says (`Tool.confirm`).
        identity: What a yes refers to: the connected tool, the arguments and the words (`ToolCall.identity`). A call
            stored without it is asked about again.
        filled: The names of the arguments that the caller's context filled; no model is shown these.
        then: Later calls that change something, as far as the flow's chain is known. A yes covers those with an
            `identity` and those that are announced; the others are only named.
        more: Further calls that are asked about together with this one, of the same reply of a model or of other wishes
            for the same flow: one yes is for all, and one no refuses all.
        named: How the user named what it is about, where its words and arguments do not show that.
        uses: Ids of calls of the same question. Such an announced call has no `identity`: it takes the arguments that
            are not known yet from the outputs of these calls. A model's call has references to them in its arguments.
        digest: Of an announced call, the digest of its tool.
        closing: What the model tells the user once all of the question is made, which then completes its flow. An
            output stands in it as `{s1#/path}`, by the place of its call in the question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = ""
    tool: str
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    destructive: bool = False
    flow: str = ""
    path: str = ""
    door: CallSource = "executor"
    reason: str = ""
    before: Before = ""
    title: str = ""
    words: str = ""
    identity: str = ""
    filled: tuple[str, ...] = ()
    then: tuple["PendingCall", ...] = ()
    more: tuple["PendingCall", ...] = ()
    named: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    digest: str = ""
    closing: str = ""

    @classmethod
    def from_call(cls, call: ToolCall, *, flow: str, path: str, reason: str = "", before: Before = "") -> "PendingCall":
        """Return what is stored of a call that needs approval."""
        arguments: dict[str, Any] = {}
        for name, value in call.arguments.items():
            # `exactly` shows what a value's text may hide; `storable` leaves what every store can hold.
            complete = json.loads(json.dumps(value, default=exactly))
            arguments[as_text(name)] = storable(complete)
        return cls(
            id=call.id,
            tool=call.tool,
            arguments=arguments,
            destructive=call.destructive,
            flow=flow,
            path=path,
            door=call.door,
            reason=cut(reason, _LONGEST_REASON),
            before=before,
            title=one_line(call.title),
            words=call.words,
            identity=call.identity,
            filled=tuple(map(as_text, call.filled)),
        )

    @property
    def given_arguments(self) -> dict[str, Any]:
        """The arguments without those that the caller's context filled."""
        return without_filled(self.arguments, self.filled)

    @property
    def display_name(self) -> str:
        """The tool's title for users."""
        return self.title or titled(self.tool)

    @property
    def calls(self) -> tuple["PendingCall", ...]:
        """The calls that are asked about together, this one first."""
        return (self, *self.more)

    @property
    def asked(self) -> Asked:
        """What a yes refers to; an answer may repeat its words."""
        calls = (*self.calls, *self.then)
        words = " ".join(f"{each.tool} {each.title} {each.words}" for each in calls)
        arguments: dict[str, Any] = {}
        for number, each in enumerate(calls, 1):
            for name, value in each.arguments.items():
                same = name not in arguments or arguments[name] == value
                # No number in the name: a yes may not name one.
                arguments[name if same else f"{name}{'_' * number}"] = value
        return Asked(words=f"{words} {self.flow}", arguments=arguments)

    def answer_in(self, message: str, *, quote: str | None = None) -> tuple[Consent, str]:
        """Return the answer of a message to the question, and why a yes in it does not count.

        A yes to only some of the calls is none. The reason is empty if a yes counts, or if there is none.
        """
        if self.more and is_every(message, len(self.calls)):
            return Consent("yes"), ""
        said, why = read_with_reason(message, self.asked, quote=quote)
        if said.answer != "yes":
            return said, why
        return (NEITHER, _ONLY_SOME) if self._names_only_some(message) else (said, "")

    def _names_only_some(self, message: str) -> bool:
        """Whether a message names some of several calls alone, by their tools, arguments or numbers, or "for her"."""
        words_of_calls: list[set[str]] = []
        for call in self.calls:
            arguments = map(str, call.given_arguments.values())
            words_of_calls.append(set(stems(" ".join((call.tool, *arguments)))))
        common = words_of_calls[0].intersection(*words_of_calls[1:])
        telling = set(stems(message)) - common  # a word of all calls tells none of them apart
        named = [not telling.isdisjoint(words) for words in words_of_calls]
        if any(named) and not all(named):
            return True
        return bool(self.more) and names_some(message, len(words_of_calls))

    def question(self) -> str:
        """Return the question for the user."""
        titles = {call.id: call.display_name for call in (*self.calls, *self.then)}
        about: list[str] = []
        if self.named:
            things = [escape_invisible(json_line(name)) for name in self.named]
            about.append(say("as_named", things=", ".join(things)))
        if self.then:
            later = [call.describe(titles) for call in self.then]
            about.append(say("after_that", calls="; ".join(later)))
        about_text = join_sentences(*about)
        if self.more:
            together: list[tuple[Before, str]] = [(call.before, call.describe(titles)) for call in self.calls]
            return question_together(together, about=about_text)
        return question(self.display_name, self.words, self.arguments, before=self.before, about=about_text)

    def describe(self, titles: Mapping[str, str]) -> str:
        """Return the call in words; `titles` are those of the calls of its question, by id."""
        call = describe_call(self.display_name, self.words, self.known_arguments)
        sources = ", ".join(dict.fromkeys(escape_invisible(titles[each]) for each in self.uses if each in titles))
        return say("with_returned", call=call, sources=sources) if sources else call

    @property
    def known_arguments(self) -> Mapping[str, Any]:
        """The arguments that are known: without those that refer to what another call returns."""
        if not self.uses or self.door != "chain":
            return self.arguments
        known: dict[str, Any] = {}
        for name, value in self.arguments.items():
            references, _ = references_in({name: value})
            if not references:
                known[name] = value
        return known

    def question_for_models(self) -> str:
        """Return the question without the arguments that the caller's context filled."""
        then = tuple(call.without_context() for call in self.then)
        more = tuple(call.without_context() for call in self.more)
        return self.without_context().model_copy(update={"then": then, "more": more}).question()

    def without_context(self) -> "PendingCall":
        """Return it without the arguments that the caller's context filled."""
        return self.model_copy(update={"arguments": self.given_arguments})

    def steps(self) -> list[PlanStep]:
        """Return the calls that are asked about together as steps, by which one may use what another returns."""
        names = {call.id: f"s{number}" for number, call in enumerate(self.calls, 1)}
        steps: list[PlanStep] = []
        for call in self.calls:
            arguments = call.given_arguments
            if call.uses:
                arguments = with_steps_named(arguments, names)
            steps.append(PlanStep(id=names[call.id], tool=call.tool, arguments=arguments))
        return steps

    def is_same(self, other: "PendingCall") -> bool:
        """Whether a yes to this call is a yes to the other: same place, same identity."""
        place = (self.flow, self.path, self.door, self.identity)
        return bool(self.identity) and place == (other.flow, other.path, other.door, other.identity)

    def is_completed_by(self, call: ToolCall, outputs: Mapping[str, Any]) -> bool:
        """Whether a call is this announced one, with nothing in it that was neither shown nor returned.

        The tool has to be the announced one, unchanged. Each argument has to be as shown, or what a call that this one
        uses returned by that name; `outputs` are those that were approved and made, by id.
        """
        if not self.uses or call.identity != identity_of(self.digest, call.arguments, call.words):
            return False
        if not all(name in outputs for name in self.uses):
            return False
        own = PendingCall.from_call(call, flow=self.flow, path=self.path).arguments
        if self.door == "chain":
            return self._is_with_outputs(own, outputs)
        for name, value in self.arguments.items():
            if name not in own or own[name] != value:
                return False
        added = {name: value for name, value in own.items() if name not in self.arguments}
        return self._are_returned(added, outputs)

    def _are_returned(self, arguments: Mapping[str, Any], outputs: Mapping[str, Any]) -> bool:
        """Whether the calls that this one uses returned each of these arguments, by its name."""
        returned: dict[str, Any] = {}
        for call_id in self.uses:
            output = outputs[call_id]
            fields = output if is_object(output) else {RESULT: output}
            for name, value in fields.items():
                returned[folded_name(name)] = value
        for name, value in arguments.items():
            key = folded_name(name)
            if key not in returned or storable(returned[key]) != value:
                return False
        return True

    def _is_with_outputs(self, own: Mapping[str, Any], outputs: Mapping[str, Any]) -> bool:
        """Whether the arguments of a model's call are those shown, with outputs in place of the references to them."""
        lost: list[str] = []
        expected = with_outputs(self.arguments, lambda name: outputs.get(name, Missing("it was not made")), lost)
        return not lost and _without_none(storable(expected)) == _without_none(own)


VERSION: Final = 2
MOST_MESSAGES: Final = 40
LONGEST_REQUEST: Final = 32_000
"""Characters of a message that an agent reads; it stores `LONGEST_MESSAGE` of them for later turns."""
LONGEST_MESSAGE: Final = 8_000
LONGEST_STORED: Final = 2_000_000
MOST_EPISODES: Final = 5
MOST_FLOWS: Final = 8
MOST_CALLS: Final = 40
LONGEST_CALLS: Final = 240_000
"""Characters of the results of all stored calls; it is more than prompts show of them."""
MOST_LOOK_UPS: Final = 12
_EPISODE: Final = 300
RESULT_TOKENS: Final = 6_000
"""Most tokens of a result that is kept whole: it has room beside what is told of the call itself."""
LONGEST_RESULT: Final = 24_000
"""Most characters of a result that is kept whole; blanks are no tokens."""
ONE_OF: Final = "one of "
"""Prefix of the name of a decision step of a chain; the candidate tools follow."""
LeftOut = Literal["", "part", "all"]
FlowKey = tuple[str, int, int]
"""What tells an open flow from another wish for the same flow: its name, the turn, and which one of that turn."""
FlowStatus = Literal["done", "active", "open", "waiting", "failed", "blocked"]
_AGENT_RAN: Final = re.compile(r"\bthe agent ran\b", re.IGNORECASE)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class Said(_Frozen):
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    content: str

    def message(self) -> Message:
        """Return it as a message to a model."""
        return Message(role=self.role, content=self.content)


class PastCall(_Frozen):
    """A call that was made, as a model sees it.

    Attributes:
        output: The output as JSON text, or the reason of a failure.
        left_out: What of the output is not kept, because it is too long.
        final: Whether the tool is destructive.
        call: Fingerprint of a call that must not be repeated without an approval.
        arguments: The arguments, long values cut.
        turn: The turn of the call, from 1; 0 during that turn.
    """

    tool: str
    output: str
    final: bool = False
    failed: bool = False
    call: str = ""
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    turn: int = Field(default=0, ge=0)
    left_out: LeftOut = ""


def kept_result(output: object) -> tuple[str, LeftOut]:
    """Return a tool's result as JSON text to store, and what of it is left out because it is too long.

    A text that holds a JSON object or list is kept as that: quoted, it costs more and is hard to read.
    """
    value = unquoted_json(output)
    text = storable_text(value)
    first = text[:LONGEST_RESULT]
    # Counted as prompts show it, with blanks behind its marks.
    tokens = estimate_tokens(first.replace(":", ": ").replace(",", ", "))
    if first == text and tokens <= RESULT_TOKENS:
        return text, ""
    most = min(LONGEST_RESULT, len(first) * RESULT_TOKENS // tokens)
    if isinstance(value, str):
        return storable_text(beginning(value, most)), "part"
    part = shortened_json(value, most)
    if part is None:
        return "", "all"
    return part, "part"


def stored_calls(calls: Sequence[PastCall]) -> tuple[PastCall, ...]:
    """Return the last calls as a conversation stores them; of too many long results the oldest are left out."""
    room, stored = LONGEST_CALLS, list[PastCall]()
    # The newest first, so that they get the room.
    for call in reversed(calls[-MOST_CALLS:]):
        room -= len(call.output)
        has_room = room >= 0 or call.failed
        stored.append(call if has_room else call.model_copy(update={"output": "", "left_out": "all"}))
    return tuple(reversed(stored))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The progress of a flow or a part of one, as it is stored.

    Attributes:
        status: `done`; `active` if a model continues it in later turns; `open` if somebody else must; `waiting` for
            inputs or an approval; `failed` if a step failed; `blocked` if it cannot be done here, because an
            `optional` tool is not connected, the flow is manual, or a tool or a check refused it (`CannotDo`).
        done: Names of the finished steps of its own chain; they never run again.
        left: Names of the remaining steps.
        branch: Path of the branch that a conditional flow took.
        tool: The tool that was chosen and waits to be called; the choice is not repeated.
        last: The last tool that succeeded.
        own: What its own tools returned, in this turn and before. Only later parts of a sequence see it.
        lost: Names of outputs that could not be stored: too large, too many, or not JSON.
        ran: The calls made: stored are the last ten, and all destructive ones, of their results the beginning.
        final: Whether it called a destructive tool.
        refusal: Why it is `blocked`, in the words of a tool or a check for the user (`CannotDo`); else empty.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    status: FlowStatus
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    branch: str = ""
    tool: str = ""
    last: str = ""
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lost: tuple[str, ...] = ()
    ran: tuple[PastCall, ...] = ()
    final: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """The choices of an input, as a tool listed them.

    Attributes:
        entries: Each value with its label for users.
        is_whole: Whether these are all. Of a long list only the first are stored.
        call: Fingerprint of the call that listed them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    entries: tuple[tuple[Any, str], ...] = ()
    is_whole: bool = True
    call: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in order."""
        return tuple(label for _, label in self.entries)


def asked_now(flow: BaseFlow | None, asks: Sequence[str], wrong: Mapping[str, str]) -> tuple[str, ...]:
    """Return the inputs that one question asks for: all, or one at a time; those refused together at once."""
    if flow is None or not flow.asks_one:
        return tuple(asks)
    refused = [name for name in asks if name in wrong]
    if len(refused) > 1:
        return tuple(refused)
    return tuple(asks[:1])


_EARLIER_NAMES: Final = {
    "doubt": "uncertain_tools",
    "unheard": "calls_of_unknown_outcome",
    "taken": "approved_changes",
}
"""Fields of a stored flow by their earlier names."""


class OpenFlow(_Frozen):
    """A flow that was started or is queued.

    Attributes:
        status: `queued` before it begins, `waiting` if it asked for something, `failed`, else `active`. An active flow
            receives any next message; the others continue when they are answered, chosen or approved.
        asks: Names of the inputs that it waits for; empty if it waits for a yes.
        uncertain_tools: Destructive tools that failed and may have had their effect.
        calls_of_unknown_outcome: Ids of calls of idempotent tools with an unknown outcome, by place; an identical retry
            reuses the id.
        changed: The remaining steps as last shown to the user, if they changed since the flow began.
        approved_changes: Changed remaining steps that the user has approved.
        answers: The user's answers by input.
        parts: Progress by path (`part_paths`): "0" is the flow itself. That of a removed part stays recorded.
        request: The message for which it was chosen.
        turn: The turn of that message.
        nth: Which of the wishes of that message for the same flow it is, from 0.
        pending: The call that a parked flow needs a yes for, or that the question of another wish for the same flow
            lists; asked again when the flow resumes.
        choices: For an ambiguous input, the candidate values; a single one is proposed, and none was rejected.
        options: For an input whose choices a tool lists, these.
        caller: Name of the flow that called it; empty if it was wished for.
        logged: Id of its selection in the log of outcomes, if there is one.
        wrong: For a refused input, the reason in words for the user.
        refusal: Why it cannot be done with its answers, as a check tells the user (`CannotDo`); it ends when it runs.
        anew: Whether it waits for a yes to restart, because steps with effects used a value that was corrected.
        every: Whether it is wanted for all that there are: then a model runs it, and not its chain, which is for one.
    """

    name: str
    status: Literal["queued", "active", "waiting", "failed"] = "active"
    asks: tuple[str, ...] = ()
    answers: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    parts: Mapping[str, Part] = Field(default_factory=dict[str, Part])
    uncertain_tools: tuple[str, ...] = ()
    calls_of_unknown_outcome: Mapping[str, str] = Field(default_factory=dict[str, str])
    changed: tuple[str, ...] = ()
    approved_changes: tuple[str, ...] = ()
    request: str = ""
    turn: int = 0
    nth: int = Field(default=0, ge=0)
    pending: PendingCall | None = None
    choices: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict[str, tuple[Any, ...]])
    options: Mapping[str, InputOptions] = Field(default_factory=dict[str, InputOptions])
    caller: str = ""
    logged: str = ""
    wrong: Mapping[str, str] = Field(default_factory=dict[str, str])
    refusal: str = ""
    anew: bool = False
    every: bool = False

    @model_validator(mode="before")
    @classmethod
    def _migrate(cls, saved: object) -> object:
        """Read a flow that was saved under earlier names, or when each counted its own turns without progress."""
        if not is_object(saved):
            return saved
        current: dict[str, Any] = {}
        for name, value in saved.items():
            if name != "nowhere":
                current[_EARLIER_NAMES.get(name, name)] = value
        return current

    @property
    def key(self) -> FlowKey:
        """What tells it from another wish for the same flow."""
        return self.name, self.turn, self.nth

    def has(self, values: Mapping[str, Any]) -> bool:
        """Whether it has all of these values; False if there are none."""
        return bool(values) and self.count_shared(values) == len(values)

    def count_shared(self, values: Mapping[str, Any]) -> int:
        """Return how many of these values it has."""
        shared = 0
        for name, value in values.items():
            if name in self.answers and self.answers[name] == value:
                shared += 1
        return shared

    def is_for_another(self, values: Mapping[str, Any]) -> bool:
        """Whether it has other values than these for an input."""
        known = [name for name in values if name in self.answers]
        return any(self.answers[name] != values[name] for name in known)

    @property
    def past_calls(self) -> tuple["PastCall", ...]:
        """All calls made in it."""
        return tuple(ran for part in self.parts.values() for ran in part.ran)

    @property
    def final(self) -> tuple[str, ...]:
        """Names of the destructive tools that ran in it."""
        return tuple(dict.fromkeys(ran.tool for ran in self.past_calls if ran.final))

    @property
    def lost_outputs(self) -> tuple[str, ...]:
        """Names of outputs that could not be stored."""
        return tuple(dict.fromkeys(name for part in self.parts.values() for name in part.lost))

    @property
    def is_final(self) -> bool:
        """Whether a destructive tool ran in it; then it is never dropped."""
        return any(part.final for part in self.parts.values())


def stored_question(question: UserQuestion) -> UserQuestion:
    """Return a question as a conversation stores it: texts bounded, and each id that of its flow's name."""
    options: list[UserOption] = []
    for option in question.options:
        title, says = bound_text(option.title), bound_text(option.says)
        options.append(replace(option, flow_id=flow_id(option.flow_name), title=title, says=says))
    text, request = bound_text(question.text), bound_text(question.request)
    return replace(question, text=text, options=tuple(options), request=request)


def _as_stored(given: object, read: Callable[[object], UserQuestion | None]) -> UserQuestion | None:
    """Read a stored question; anybody may have written it, so all but what `stored_question` returns is refused."""
    question = read(given)
    if question is None or question is given:
        return question
    named = all(0 < len(each.flow_name) <= LONGEST_MESSAGE for each in question.options)
    if not named or not FEWEST <= len(question.options) <= MOST or plain(stored_question(question)) != given:
        raise ValueError(f"it is no question about {FEWEST} to {MOST} flows as a conversation stores it")
    return question


class Conversation(_Frozen):  # noqa: PLW1641 - pydantic makes its hash, as of all that is frozen
    """A conversation so far. Whoever can write it controls what the agent does next: store it like a session.

    Attributes:
        messages: The last forty messages.
        flows: Stack of open flows, the active one last; parked flows below it resume later.
        failed: Flows that failed after a destructive call, or were handed over to a person when they failed; if asked
            for again, they resume where they failed.
        episodes: Summaries of the last turns, added to the next request for recall.
        ran: The flows that ran in each of the last turns.
        pending: The call that the last turn asked the user to approve; a yes allows it once.
        done: Flows completed in the last turns; the next message may still be about them.
        calls: The last forty calls of tools, by flows and models, with what they returned.
        shown: What models were shown, and since which turn, with append-only prompts.
        question: The last turn's question which flow is meant; the next message is first read as its answer.
        look_ups: Read-only tools that were offered when no flow fitted; they stay offered.
        called: Results of flows that other flows call, by flow; each such flow runs once.
        returned: Names of these results that tools returned, by flow; the others were given.
        not_understood: Number of turns in a row in which nothing was understood or a value was refused.
        expires: Unix time in seconds until which it can be continued; 0 for no limit.
    """

    id: str = ""
    messages: Annotated[tuple[Said, ...], FailFast()] = ()
    flows: Annotated[tuple[OpenFlow, ...], FailFast()] = ()
    failed: Annotated[tuple[OpenFlow, ...], FailFast()] = ()
    episodes: Annotated[tuple[str, ...], FailFast()] = ()
    ran: Annotated[tuple[tuple[str, ...], ...], FailFast()] = ()
    pending: PendingCall | None = None
    done: Annotated[tuple[str, ...], FailFast()] = ()
    turns: int = Field(default=0, ge=0)
    calls: Annotated[tuple[PastCall, ...], FailFast()] = ()
    shown: Annotated[tuple[FirstShown, ...], FailFast(), Field(max_length=MOST_SHOWN)] = ()
    question: Annotated[UserQuestion | None, WrapValidator(_as_stored)] = None
    look_ups: Annotated[tuple[str, ...], FailFast(), Field(max_length=MOST_LOOK_UPS)] = ()
    called: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict[str, Mapping[str, Any]])
    returned: Mapping[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    not_understood: int = Field(default=0, ge=0)
    expires: float = Field(default=0.0, ge=0.0)
    version: int = VERSION
    _as_signed: str = PrivateAttr(default="")
    """The signed text that it was read from, if the secret is not known here."""

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal; the signature does not count."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy. A changed copy drops the signed text."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            copied._as_signed = ""  # noqa: SLF001 - one of these
        return copied

    @property
    def signed_text(self) -> str:
        """The signed text that it was read from, if the secret is not known here; else empty."""
        return self._as_signed

    @property
    def active(self) -> OpenFlow | None:
        """The flow on top of the stack."""
        return self.flows[-1] if self.flows else None

    def to_json(self, *, secret: Secret | None = None, valid_s: float | None = None) -> str:
        """Return it as JSON, signed if there is a secret, so that changes are detected.

        Without a secret, an unchanged conversation from a signed text returns that text.

        Args:
            secret: The secret, or several; the first signs.
            valid_s: Seconds for which it can be read again; by default until `expires`. Without a signature, anyone can
                change that.

        Raises:
            ConfigError: A secret is invalid or too short, or `valid_s` is not positive.
        """
        if valid_s is not None:
            check_argument("valid_s", valid_s, Seconds)
            return self.model_copy(update={"expires": time() + valid_s}).to_json(secret=secret)
        if secret is None and self._as_signed:
            return self._as_signed
        return signed(self.model_dump_json(), secret, "conversation")

    @classmethod
    def from_json(cls, text: str | bytes, *, secret: Secret | None = None) -> "Conversation":
        """Read a conversation.

        Args:
            text: The result of `to_json`.
            secret: The secret, or several of which one fits. A text without a valid signature is refused. Without a
                secret the text is trusted: store it where users cannot write.

        Raises:
            ConfigError: A secret is invalid or too short.
            SnapshotError: The text is not a conversation, has an unknown version, is not signed with this secret, or
                has expired.
        """
        given, text = text, unsigned(text, secret, "conversation", longest=LONGEST_STORED)
        found = saved_value(cls, text, VERSION)
        if found.expires and found.expires < time():
            raise SnapshotError("it has expired: begin a new conversation")
        if secret is None and text is not given:
            found._as_signed = given if isinstance(given, str) else bytes(given).decode()  # noqa: SLF001 - likewise
        return found

    @classmethod
    def from_history(cls, history: "Conversation | Sequence[Message] | None") -> "Conversation":
        """Return a conversation from a caller's history.

        Raises:
            ConfigError: It is neither a conversation nor a list of messages.
        """
        if isinstance(history, Conversation):
            return history
        given: Any = history or ()
        if not isinstance(given, Sequence) or not all(isinstance(each, Message) for each in given):  # pyright: ignore[reportUnknownVariableType] - callers without a type checker
            msg = (
                "history must be a Conversation (Conversation.from_json reads a stored one) or a list of Messages, "
                f"got {type(history).__name__}"
            )
            raise ConfigError(msg)
        messages = [message for message in history or () if message.role in ("user", "assistant")]
        requests = [message for message in messages if message.role == "user"]
        # Only what is kept is bounded: of a long history most is left out.
        stored: list[Said] = []
        for message in messages[-MOST_MESSAGES:]:
            role = "user" if message.role == "user" else "assistant"
            stored.append(Said(role=role, content=bound_text(message.content)))
        episodes = [user_episode(bound_text(message.content)) for message in requests[-MOST_EPISODES:]]
        return cls(messages=tuple(stored), episodes=tuple(episodes), turns=len(requests))

    def with_id(self, conversation_id: str) -> "Conversation":
        """Return it with an id: its own, else this one, else a random one.

        Raises:
            ConfigError: It has another id, or is a list of messages, whose turns cannot be told apart.
        """
        if conversation_id and self.messages and not self.id:
            raise ConfigError(
                "conversation_id is for what begins, or goes on with a Conversation: a list of messages may be cut"
                " anywhere, so that two of its turns look alike; keep the result's conversation instead"
            )
        if self.id and conversation_id and self.id != conversation_id:
            msg = f"the conversation is {self.id!r:.80}, not {conversation_id!r:.80}: leave conversation_id out"
            raise ConfigError(msg)
        if self.id:
            return self
        return self.model_copy(update={"id": conversation_id or uuid4().hex})

    def next_turn(self, agent_id: str, message: str) -> str:
        """Return the key of the next turn, a SHA-256 digest that is the same in every process of this agent.

        The message counts only in the first turn, where nothing else distinguishes two turns.
        """
        messages = [[stored.role, stored.content] for stored in self.messages]
        return sha256(canonical_bytes([agent_id, self.id, self.turns, messages or message])).hexdigest()

    @property
    def message_turns(self) -> tuple[int, ...]:
        """The turn of each stored message, from 1."""
        turns: list[int] = []
        turn = self.turns
        # Counted from the end: the oldest messages may be gone.
        for stored in reversed(self.messages):
            turns.append(turn)
            if stored.role == "user":
                turn -= 1
        return tuple(reversed(turns))


_BEFORE_POWER: Final = re.compile("(?<=[0-9])(?=[²³¹⁰⁴-⁹])")
_BEFORE_FRACTION: Final = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")


def normalized_message(message: str) -> str:
    """Return a user's message as valid text in Unicode's NFKC form, visibly cut if too long.

    NFKC would make 52 of "5²" and 21⁄2 of "2½", so that a mark is put between.
    """
    # Cut before it is read, which bounds the work, and after it, since a letter may become several.
    text = as_text(cut(message, LONGEST_REQUEST))
    text = _BEFORE_FRACTION.sub(" ", _BEFORE_POWER.sub("^", text))
    return cut(nfkc(text), LONGEST_REQUEST)


def bound_text(text: str) -> str:
    """Return a storable text, visibly cut if too long."""
    return as_text(cut(text, LONGEST_MESSAGE))


def user_episode(text: str) -> str:
    """Return an episode of a user's message, and mark a phrase in it that would pass for the agent's part."""
    return "The user said: " + cut(_AGENT_RAN.sub("[said: the agent ran]", " ".join(text.split())), _EPISODE)


def part_paths(flow: BaseFlow, path: str) -> list[str]:
    """Return the path of each part of the flow at a path: the part's name, as a JSON pointer has it, behind its own.

    So a part keeps its progress wherever its author moves it. A part that occurs again has "~~" behind its name.
    """
    names = [part.name.replace("~", "~0").replace("/", "~1") for part in flow.subflows]
    return [f"{path}/{name}{'~~' * names[:place].count(name)}" for place, name in enumerate(names)]
