"""A conversation as a value: what was said, which flows are under way, and what to go on with."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from time import time
from typing import Annotated, Any, Final, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, FailFast, Field, PrivateAttr, ValidationError

from jazz_select.agent.pending_call import PendingCall
from jazz_select.arguments import Seconds, check_argument
from jazz_select.errors import ConfigError, SnapshotError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import Secret, plain_bytes, signed, unsigned
from jazz_select.selector.asking import FEWEST, MOST
from jazz_select.selector.growing import MOST_SHOWN
from jazz_select.selector.prompt import FirstShown
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.text import as_text, cut, nfkc
from jazz_select.values import Message, flow_id

VERSION: Final = 1
MOST_MESSAGES: Final = 40
LONGEST_HEARD: Final = 32_000
"""Characters of a message that an agent reads; `LONGEST_MESSAGE` of it are kept for later turns."""
LONGEST_MESSAGE: Final = 8_000
LONGEST_STORED: Final = 2_000_000
_MOST_ERRORS: Final = 100
MOST_EPISODES: Final = 5
MOST_FLOWS: Final = 8
MOST_CALLS: Final = 20
MOST_LOOK_UPS: Final = 12
_EPISODE: Final = 300
_AGENT_RAN: Final = re.compile(r"\bthe agent ran\b", re.IGNORECASE)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Said(_Frozen):
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    content: str

    def message(self) -> Message:
        """As a model takes it."""
        return Message(role=self.role, content=self.content)


class Ran(_Frozen):
    """A tool that was run, as a model is told of it.

    Attributes:
        tool: Its name.
        output: What it returned, or why it failed.
        final: Whether it destroys something.
        failed: Whether it failed.
        call: The fingerprint of the call, where it is not to be made again unasked.
        arguments: What it was called with, long values cut.
        turn: In which turn that was, from 1; 0 while that turn runs.
    """

    tool: str
    output: str
    final: bool = False
    failed: bool = False
    call: str = ""
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    turn: int = Field(default=0, ge=0)


class Part(_Frozen):
    """How far a flow, or a part of one, has come.

    Attributes:
        status: As of `FlowRun`.
        done: The steps of its own chain that are done, and never run again.
        left: Those that were still to come.
        branch: Which branch a conditional flow took.
        tool: The tool that a choice fell on and that still waits; the choice is not made again.
        last: The tool that ran last.
        facts: What its tools returned. No other part sees it, but those that come after it in a sequence.
        lost: Names of what they returned that could not be kept: too large, too many, or no JSON.
        ran: The tools that were run: the last ten, and all that destroy something.
        final: Whether one of them destroys something.
        flow: Whose part it is: by that it is known again where an author puts the parts in another order.
    """

    status: Literal["done", "active", "open", "waiting", "failed", "blocked"]
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    branch: int | None = Field(default=None, ge=0)
    tool: str = ""
    last: str = ""
    facts: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    lost: tuple[str, ...] = ()
    ran: tuple[Ran, ...] = ()
    final: bool = False
    flow: str = ""


class OpenFlow(_Frozen):
    """A flow that was begun, or is to be.

    Attributes:
        name: Of the flow.
        status: `queued` until it is begun, `waiting` where it asked for something, `failed`, else `active`. Only an
            active one takes whatever is said next; the others go on where they are answered, chosen or agreed to.
        asks: What it waits for: names of facts; none where it waits for a yes.
        doubt: Tools that destroy something and failed: they may have been done all the same.
        unheard: The ids of calls that nobody heard the end of, where the tool is `idempotent`, by their places: made
            again just as they were, they are made by the same id.
        changed: The steps to come, as the last question said, where they are not those of when it was begun.
        taken: Such steps to come that the user has agreed to.
        answers: What the user said when it asked.
        parts: How far each part has come, by its place: "0" is the flow itself, "0.1" its second part.
        request: What the user wanted when it was chosen.
        turn: In which turn that was.
        pending: The call that it waits for a yes to, while it is parked: asked for again when the flow comes back.
        choices: Of what it asks for, the values that were said and of which one is meant.
        logged: The entry of the selection that chose it, where the selector keeps a log of outcomes.
        wrong: Of what it asks for, why what was said is not right, in words for the user.
        anew: Whether it waits for a yes to begin anew, since what was corrected was used by what had effects.
        nowhere: How many turns in a row have asked the same and got no further.
    """

    name: str
    status: Literal["queued", "active", "waiting", "failed"] = "active"
    asks: tuple[str, ...] = ()
    answers: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    parts: Mapping[str, Part] = Field(default_factory=dict[str, Part])
    doubt: tuple[str, ...] = ()
    unheard: Mapping[str, str] = Field(default_factory=dict[str, str])
    changed: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    request: str = ""
    turn: int = 0
    pending: PendingCall | None = None
    choices: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict[str, tuple[Any, ...]])
    logged: str = ""
    wrong: Mapping[str, str] = Field(default_factory=dict[str, str])
    anew: bool = False
    nowhere: int = Field(default=0, ge=0)

    @property
    def ran(self) -> tuple["Ran", ...]:
        """The calls that were made in it."""
        return tuple(ran for part in self.parts.values() for ran in part.ran)

    @property
    def final(self) -> tuple[str, ...]:
        """The tools that destroy something and have run in it."""
        return tuple(dict.fromkeys(ran.tool for ran in self.ran if ran.final))

    @property
    def lost(self) -> tuple[str, ...]:
        """What its tools returned and could not be kept, by name."""
        return tuple(dict.fromkeys(name for part in self.parts.values() for name in part.lost))

    @property
    def is_final(self) -> bool:
        """Whether something was destroyed in it: then it is never forgotten."""
        return any(part.final for part in self.parts.values())


class AskedFlow(_Frozen):
    """One of the flows that the user was asked to choose from: its name, what people call it, what tells it apart."""

    name: str = Field(min_length=1, max_length=LONGEST_MESSAGE)
    title: str = Field(default="", max_length=LONGEST_MESSAGE)
    says: str = Field(default="", max_length=LONGEST_MESSAGE)


class AskedFlows(_Frozen):
    """Which flow is meant, as the last turn asked.

    Attributes:
        text: The question.
        options: The flows, in the order of the question.
        request: What the user wanted: the flow that the answer names is begun with it.
        again: Whether it was asked for the second time, since no option had the number that was given.
        more: Whether something else than these may be meant as well.
    """

    text: str = Field(default="", max_length=LONGEST_MESSAGE)
    options: Annotated[tuple[AskedFlow, ...], FailFast(), Field(min_length=FEWEST, max_length=MOST)]
    request: str = Field(default="", max_length=LONGEST_MESSAGE)
    again: bool = False
    more: bool = False

    @classmethod
    def of(cls, question: UserQuestion) -> Self:
        """What is kept of a question."""
        options = tuple(
            AskedFlow(name=each.flow_name, title=bounded(each.title), says=bounded(each.says))
            for each in question.options
        )
        return cls(
            text=bounded(question.text),
            options=options,
            request=bounded(question.request),
            again=question.again,
            more=question.more,
        )

    def as_question(self) -> UserQuestion:
        """The question, as `FlowSelector.select(answer, asked=…)` takes it."""
        options = tuple(
            UserOption(flow_id=flow_id(each.name), flow_name=each.name, title=each.title, says=each.says)
            for each in self.options
        )
        return UserQuestion(text=self.text, options=options, request=self.request, again=self.again, more=self.more)


class Conversation(_Frozen):  # noqa: PLW1641 - pydantic makes its hash, as of all that is frozen
    """A conversation so far. Who can write it can make an agent go on with anything: keep it where you keep sessions.

    Attributes:
        id: What it is known by, from its first turn on.
        messages: What was said; the last forty.
        flows: The flows that are open, the active one last: a stack, so that what was parked comes back.
        failed: Flows that failed after something was destroyed: asked for again, they go on where they failed.
        episodes: Summaries of the last turns, which widen the next request.
        pending: The call that the last turn asked for, and that a yes to it lets pass, once.
        done: The flows that were done in the last turns: what is said next may still be about them.
        turns: How many there were.
        calls: The calls of tools that were made in it, by flows and by models; the last twenty.
        shown: What models were shown in it, and since when, where prompts only grow.
        question: Which flow is meant, where the last turn asked that: the next message is heard as its answer first.
        look_ups: The tools that only read and were offered where no flow fitted: they stay offered.
        called: What was found by flows that others call, by flow: each is run once.
        expires: Until when it can be gone on with, in seconds since 1970; 0 for ever.
        version: Of this format.
    """

    id: str = ""
    messages: Annotated[tuple[Said, ...], FailFast()] = ()
    flows: Annotated[tuple[OpenFlow, ...], FailFast()] = ()
    failed: Annotated[tuple[OpenFlow, ...], FailFast()] = ()
    episodes: Annotated[tuple[str, ...], FailFast()] = ()
    pending: PendingCall | None = None
    done: Annotated[tuple[str, ...], FailFast()] = ()
    turns: int = Field(default=0, ge=0)
    calls: Annotated[tuple[Ran, ...], FailFast()] = ()
    shown: Annotated[tuple[FirstShown, ...], FailFast(), Field(max_length=MOST_SHOWN)] = ()
    question: AskedFlows | None = None
    look_ups: Annotated[tuple[str, ...], FailFast(), Field(max_length=MOST_LOOK_UPS)] = ()
    called: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict[str, Mapping[str, Any]])
    expires: float = Field(default=0.0, ge=0.0)
    version: int = VERSION
    _as_signed: str = PrivateAttr(default="")
    """The text that it was read from, where that was signed with a secret that is not known here."""

    def __eq__(self, other: object) -> bool:
        """Whether they say the same, whoever signed what they were read from."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; one that says something else is not what was signed."""
        made = super().model_copy(update=update, deep=deep)
        if update:
            made._as_signed = ""  # noqa: SLF001 - one of these
        return made

    @property
    def signed_text(self) -> str:
        """The text that it was read from, where that is signed and the secret is not known here; else empty."""
        return self._as_signed

    @property
    def active(self) -> OpenFlow | None:
        """The flow that is under way."""
        return self.flows[-1] if self.flows else None

    @property
    def parked(self) -> tuple[OpenFlow, ...]:
        """Those that are to come back, the next one last."""
        return self.flows[:-1]

    def to_json(self, *, secret: Secret | None = None, valid_s: float | None = None) -> str:
        """As a JSON text; signed, where there is a secret, so that nobody else changes it unseen.

        Of several secrets the first signs. Without one, a conversation that was read from a signed text is that text:
        who cannot sign passes it on as it came.

        Args:
            secret: What it is signed with.
            valid_s: For how many seconds it can be read again; by default as long as it says (`expires`). Only a secret
                keeps others from changing that.

        Raises:
            ConfigError: A secret is too short, or none; or no time is left.
        """
        if valid_s is not None:
            check_argument("valid_s", valid_s, Seconds)
            return self.model_copy(update={"expires": time() + valid_s}).to_json(secret=secret)
        if secret is None and self._as_signed:
            return self._as_signed
        # Where nothing was kept of it, it is left out: then an earlier version of this library reads it, too.
        empty = {name for name in ("shown", "question", "look_ups", "called", "expires") if not getattr(self, name)}
        return signed(self.model_dump_json(exclude=empty), secret, "conversation")

    @classmethod
    def from_json(cls, text: str | bytes, *, secret: Secret | None = None) -> "Conversation":
        """Read one.

        Args:
            text: What `to_json` gave.
            secret: What it was signed with, or several, of which one is it: one that is not, or was changed since, is
                refused. Without a secret whatever stands in it is believed: keep it where users cannot write.

        Raises:
            ConfigError: A secret is too short, or none.
            SnapshotError: It is none, of a version that is not known here, not signed with this secret, or expired.
        """
        given, text = text, unsigned(text, secret, "conversation", longest=LONGEST_STORED)
        if text.lstrip()[:1] in ("[", b"["):
            raise SnapshotError("the text: it is a list, and a conversation is an object")
        try:
            found = cls.model_validate_json(text)
        except ValidationError as error:
            if error.error_count() > _MOST_ERRORS:
                raise SnapshotError(f"{error.error_count()} things in it are wrong, so it is no conversation") from None
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            missing = tuple(".".join(map(str, each["loc"])) for each in errors)
            problem = f"{missing[0] or 'the text'}: {errors[0]['msg']}"
            if errors[0]["type"] == "extra_forbidden":
                problem += "; another version of this library may have saved it: begin a new conversation"
            raise SnapshotError(problem, missing=missing) from error
        if found.expires and found.expires < time():
            raise SnapshotError("it has expired: begin a new conversation")
        if found.version != VERSION:
            problem = f"the conversation is of version {found.version}, and this is version {VERSION}"
            raise SnapshotError(problem, missing=("version",))
        if secret is None and text is not given:
            found._as_signed = given if isinstance(given, str) else bytes(given).decode()  # noqa: SLF001 - likewise
        return found

    @classmethod
    def of(cls, history: "Conversation | Sequence[Message] | None") -> "Conversation":
        """A conversation from what a caller has of it.

        Raises:
            ConfigError: It is neither.
        """
        if isinstance(history, Conversation):
            return history
        given: Any = history or ()
        if not isinstance(given, Sequence) or not all(isinstance(each, Message) for each in given):  # pyright: ignore[reportUnknownVariableType] - callers without a type checker
            msg = "history is a Conversation (Conversation.from_json reads a stored one) or a list of Messages"
            raise ConfigError(msg)
        kept = [each for each in history or () if each.role in ("user", "assistant")]
        asked = [each for each in kept if each.role == "user"]
        said = tuple(
            Said(role="user" if each.role == "user" else "assistant", content=bounded(each.content))
            for each in kept[-MOST_MESSAGES:]
        )
        earlier = [f"The user said: {_short(bounded(each.content))}" for each in asked[-MOST_EPISODES:]]
        return cls(messages=said, episodes=tuple(earlier), turns=len(asked))

    def named(self, conversation_id: str) -> "Conversation":
        """With an id: its own, else this one, else a new one.

        Raises:
            ConfigError: It has another, or is a list of messages, of which nothing tells one turn from another.
        """
        if conversation_id and self.messages and not self.id:
            raise ConfigError(
                "conversation_id is for what begins, or goes on with a Conversation: a list of messages may be cut"
                " anywhere, so that two of its turns look alike; keep the result's conversation instead"
            )
        if self.id and conversation_id and self.id != conversation_id:
            msg = f"the conversation is {self.id!r:.80}, not {conversation_id!r:.80}: leave conversation_id out"
            raise ConfigError(msg)
        return self if self.id else self.model_copy(update={"id": conversation_id or uuid4().hex})

    def next_turn(self, agent_id: str, message: str) -> str:
        """What the next turn is known by: the same wherever this agent goes on with the conversation from here.

        The message counts only where nothing was said before: then nothing else tells two turns apart.
        """
        said = [[each.role, each.content] for each in self.messages]
        return sha256(plain_bytes([agent_id, self.id, self.turns, said or message])).hexdigest()

    @property
    def said_in(self) -> tuple[int, ...]:
        """The turn of each message that is kept, from 1."""
        turns: list[int] = []
        turn = self.turns
        for each in reversed(self.messages):
            turns.append(turn)
            turn -= each.role == "user"
        return tuple(reversed(turns))

    def since(self, turn: int) -> tuple[str, ...]:
        """What the user has said from that turn on, as far as it is kept."""
        said = [each.content for each in self.messages if each.role == "user"]
        return tuple(said[max(len(said) - (self.turns - turn), 0) :])

    def after(  # noqa: PLR0913 - what a turn leaves, by name
        self,
        message: str,
        text: str,
        *,
        flows: Sequence[OpenFlow],
        failed: Sequence[OpenFlow] = (),
        ran: Sequence[str] = (),
        done: Sequence[str] = (),
        pending: PendingCall | None = None,
        calls: Sequence[Ran] = (),
        shown: Sequence[FirstShown] = (),
        question: UserQuestion | None = None,
        look_ups: Sequence[str] = (),
        called: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "Conversation":
        """The conversation after one more turn."""
        made = [each.model_copy(update={"turn": self.turns + 1}) for each in calls]
        answer = (Said(role="assistant", content=bounded(text)),) if text else ()
        said = (*self.messages, Said(role="user", content=bounded(message)), *answer)
        episode = f"The user said: {_short(message)}" + (f" The agent ran {', '.join(ran)}." if ran else "")
        return self.model_copy(
            update={
                "messages": said[-MOST_MESSAGES:],
                "flows": tuple(
                    each for place, each in enumerate(flows) if len(flows) - place <= MOST_FLOWS or each.is_final
                ),
                "failed": tuple(failed),
                "episodes": (*self.episodes, episode)[-MOST_EPISODES:],
                "pending": pending,
                "done": (*self.done, *done)[-MOST_EPISODES:],
                "turns": self.turns + 1,
                "calls": (*self.calls, *made)[-MOST_CALLS:],
                "shown": tuple(shown),
                "question": None if question is None else AskedFlows.of(question),
                "look_ups": tuple(dict.fromkeys((*look_ups, *self.look_ups)))[:MOST_LOOK_UPS],
                "called": {**self.called, **(called or {})},
            }
        )


def normalized_message(message: str) -> str:
    """What a user says, as it is read: in Unicode, in one form, and cut where one can see it."""
    return cut(nfkc(as_text(cut(message, LONGEST_HEARD))), LONGEST_HEARD)


def bounded(text: str) -> str:
    """A text as it can be kept: storable, and cut where one can see it."""
    return as_text(cut(text, LONGEST_MESSAGE))


def _short(text: str) -> str:
    """What a user said, in short; what in it sounds like the agent's own part of an episode is told as said."""
    return cut(_AGENT_RAN.sub("[said: the agent ran]", " ".join(text.split())), _EPISODE)


def after_selection(
    flows: Sequence[OpenFlow],
    failed: Sequence[OpenFlow],
    chosen: Sequence[str],
    *,
    request: str,
    turn: int,
    logged: str = "",
) -> tuple[OpenFlow, ...]:
    """The stack once a request has decisively chosen these flows, the one to run now on top.

    The first of them comes first and the others wait for their turn below it. One that was parked comes back as it was,
    and so does one that failed. What was active is parked below those, unless it is among them: then it stays.
    """
    if not chosen:
        return tuple(flows)
    active = flows[-1].name if flows else ""
    wanted = list(dict.fromkeys(chosen))
    if active in wanted:
        wanted.remove(active)
        wanted.insert(0, active)
    known = {flow.name: flow for flow in (*failed, *flows)}
    rest = [flow for flow in flows if flow.name not in wanted]
    fresh = [
        known.get(name) or OpenFlow(name=name, status="queued", request=bounded(request), turn=turn, logged=logged)
        for name in wanted
    ]
    return (*rest, *reversed(fresh))


def parts_in_flow(parts: Mapping[str, Part], flow: BaseFlow) -> dict[str, Part]:
    """How far each part has come, at the place that it has in the flow now.

    A part is known by its flow's name, whatever its author put before it since. One that has no place any more is kept
    at a place behind all others, where nothing runs: what was done in it stays told, and it may come back.
    """
    found: dict[str, Part] = {}
    if "0" in parts:
        _place(parts, "0", flow, "0", found)
    return found


def _place(parts: Mapping[str, Part], old: str, flow: BaseFlow | None, new: str, found: dict[str, Part]) -> None:
    """Put the part of one place, and those in it, to another."""
    within = (path.rpartition(".") for path in parts)
    names = [part.name for part in flow.subflows] if flow is not None else []
    was = {int(place): parts[f"{own}.{place}"].flow for own, _, place in within if own == old and place.isdecimal()}
    was = {place: name or "".join(names[place : place + 1]) for place, name in was.items()}
    unplaced = dict(enumerate(names))
    moved: dict[int, int] = {}
    for place, name in sorted(was.items(), key=lambda each: (names[each[0] : each[0] + 1] != [each[1]], each[0])):
        same = [each for each, other in unplaced.items() if other == name]
        if same:
            moved[place] = place if place in same else same[0]
            del unplaced[moved[place]]
    behind = max(len(names), *(each + 1 for each in was)) if was else 0
    for place in was:
        to = moved.get(place, behind + place)
        part = flow.subflows[to] if flow is not None and place in moved else None
        _place(parts, f"{old}.{place}", part, f"{new}.{to}", found)
    own = parts[old]
    if own.branch is not None and own.branch in was:
        own = own.model_copy(update={"branch": moved.get(own.branch)})
    found[new] = own
