"""A conversation as a value: what was said, which flows are under way, and what to go on with."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from jazz_select.agent.flows.slots import folded_message
from jazz_select.agent.flows.tentative import is_tentative
from jazz_select.agent.pending_call import PendingCall
from jazz_select.errors import ConfigError, SnapshotError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import plain_bytes
from jazz_select.routing.names.words import stems
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.text import as_text, cut, nfkc
from jazz_select.values import Message, Reason

VERSION: Final = 1
MOST_MESSAGES: Final = 40
LONGEST_HEARD: Final = 32_000
"""Characters of a message that an agent reads; `LONGEST_MESSAGE` of it are kept for later turns."""
LONGEST_MESSAGE: Final = 8_000
LONGEST_STORED: Final = 2_000_000
_MOST_ERRORS: Final = 100
MOST_EPISODES: Final = 5
MOST_FLOWS: Final = 8
_EPISODE: Final = 300
SHIFT_ABOVE = 0.5


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_UNSURE = (Reason.SEMANTIC, Reason.FALLBACK_EMPTY, Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR, Reason.SINGLE)
_RELATED, _NEAR, _NEARER = 0.26, 0.36, 0.45
"""How near recall has to find a request to the only flow: the less, the more of its words are the flow's."""
_NEARLY_ALL, _SEVERAL = 0.8, 3
_SHORTEST_WORD, _SHORTEST_STEM, _LONGEST_ENDING = 3, 4, 3
_COMMON: Final = _words("""
    able about after again all also and any anybody anyone anything are ask been before being but can could did does
    doing done each else ever every everything for from get getting give going good got great had has have hello
    help her here hers hey him his how its just kind know last let like look made make many may maybe mean mine more
    most much must need new nice nobody not nothing now off old once one only other our out over own perhaps please
    put say see shall she should show some somebody someone something soon still such sure take tell thank thanks
    that the their them then there these they thing think this those time today too tried try two under until use
    very via want wanted was way well were what when where which while who whom whose why will with won would yes
    yet you your yours aber alle als also auch auf aus bei bin bis bitte danke das dass dein dem den der des dich
    die dies diese dir doch ein eine einen einem einer gibt guten haben habe hat hast ich ihr ihre immer ist jetzt
    kann kannst kein keine mein meine meinen meiner mich mir mit möchte nach nicht noch nur oder schon sehr sein
    sich sie sind tag über und uns unser vom von vor war warum was weil wenn wer werden wie will wir wird wo zum zur
    como con cuando del donde ella ellos esta este esto estoy gracias hacer hay hola las los mas más muy para pero
    por porque puede puedes puedo que qué quiero quién ser sin sobre son soy sus también tengo tiene una uno unos
    usted aux avec avez bonjour cela ces cette comment dans des elle est être fait faire ils les leur mais mes merci
    mon nos notre nous par pas peut peux plus pour pouvez puis quand quel quelle qui quoi sans ses son sont sur tes
    tout très une veux vos votre vous voudrais alla anche ancora che chi ciao come cosa della delle devo dove era
    fare grazie gli hai hanno loro mia mio molto nel nella non per perché posso può puoi quale quando questa questo
    sei sono suo tua tuo una voglio vorrei без был вам вас все всё где для его если есть как когда кто меня мне
    можно мой моя надо нас нет они она оно привет при спасибо так там тебя тоже только тут уже хочу что чтобы это
    этот
""")
"""Words that stand in requests for anything."""
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
    """

    tool: str
    output: str
    final: bool = False
    failed: bool = False
    call: str = ""


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
    """

    status: Literal["done", "active", "open", "waiting", "failed"]
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    branch: int | None = None
    tool: str = ""
    last: str = ""
    facts: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    lost: tuple[str, ...] = ()
    ran: tuple[Ran, ...] = ()
    final: bool = False


class OpenFlow(_Frozen):
    """A flow that was begun, or is to be.

    Attributes:
        name: Of the flow.
        status: `queued` until it is begun, `waiting` where it asked for something, `failed`, else `active`. Only an
            active one takes whatever is said next; the others go on where they are answered, chosen or agreed to.
        asks: What it waits for: names of facts; none where it waits for a yes.
        named: What the user named and nothing takes, as the last question said.
        agreed: What of that the user has agreed to leave out.
        doubt: Tools that destroy something and failed: they may have been done all the same.
        changed: The steps to come, as the last question said, where they are not those of when it was begun.
        taken: Such steps to come that the user has agreed to.
        answers: What the user said when it asked.
        parts: How far each part has come, by its place: "0" is the flow itself, "0.1" its second part.
        request: What the user wanted when it was chosen.
        turn: In which turn that was.
    """

    name: str
    status: Literal["queued", "active", "waiting", "failed"] = "active"
    asks: tuple[str, ...] = ()
    answers: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    parts: Mapping[str, Part] = Field(default_factory=dict[str, Part])
    named: tuple[str, ...] = ()
    agreed: tuple[str, ...] = ()
    doubt: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    request: str = ""
    turn: int = 0

    @property
    def final(self) -> tuple[str, ...]:
        """The tools that destroy something and have run in it."""
        return tuple(dict.fromkeys(ran.tool for part in self.parts.values() for ran in part.ran if ran.final))

    @property
    def lost(self) -> tuple[str, ...]:
        """What its tools returned and could not be kept, by name."""
        return tuple(dict.fromkeys(name for part in self.parts.values() for name in part.lost))

    @property
    def is_final(self) -> bool:
        """Whether something was destroyed in it: then it is never forgotten."""
        return any(part.final for part in self.parts.values())


class Conversation(_Frozen):
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
        version: Of this format.
    """

    id: str = ""
    messages: Annotated[tuple[Said, ...], FailFast()] = ()
    flows: Annotated[tuple[OpenFlow, ...], FailFast()] = ()
    failed: Annotated[tuple[OpenFlow, ...], FailFast()] = ()
    episodes: Annotated[tuple[str, ...], FailFast()] = ()
    pending: PendingCall | None = None
    done: Annotated[tuple[str, ...], FailFast()] = ()
    turns: int = 0
    version: int = VERSION

    @property
    def active(self) -> OpenFlow | None:
        """The flow that is under way."""
        return self.flows[-1] if self.flows else None

    @property
    def parked(self) -> tuple[OpenFlow, ...]:
        """Those that are to come back, the next one last."""
        return self.flows[:-1]

    def to_json(self) -> str:
        """As a JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Conversation":
        """Read one.

        Raises:
            SnapshotError: It is none, or of a version that is not known here.
        """
        if len(text) > LONGEST_STORED:
            problem = f"it is longer than {LONGEST_STORED} characters, which no conversation is"
            raise SnapshotError(problem)
        if text.lstrip()[:1] in ("[", b"["):
            problem = "the text: it is a list, and a conversation is an object"
            raise SnapshotError(problem)
        try:
            found = cls.model_validate_json(text)
        except ValidationError as error:
            if error.error_count() > _MOST_ERRORS:
                problem = f"{error.error_count()} things in it are wrong, so it is no conversation"
                raise SnapshotError(problem) from None
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            missing = tuple(".".join(map(str, each["loc"])) for each in errors)
            problem = f"{missing[0] or 'the text'}: {errors[0]['msg']}"
            raise SnapshotError(problem, missing=missing) from error
        if found.version != VERSION:
            problem = f"the conversation is of version {found.version}, and this is version {VERSION}"
            raise SnapshotError(problem, missing=("version",))
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
            ConfigError: It has another.
        """
        if self.id and conversation_id and self.id != conversation_id:
            msg = f"the conversation is {self.id!r:.80}, not {conversation_id!r:.80}: leave conversation_id out"
            raise ConfigError(msg)
        return self if self.id else self.model_copy(update={"id": conversation_id or uuid4().hex})

    def next_turn(self, message: str) -> str:
        """What the next turn is known by: the same wherever the conversation is gone on with from here.

        The message counts only where nothing was said before: then nothing else tells two turns apart.
        """
        said = [[each.role, each.content] for each in self.messages]
        return sha256(plain_bytes([self.id, self.turns, said or message])).hexdigest()

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
    ) -> "Conversation":
        """The conversation after one more turn."""
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
            }
        )


def heard(message: str) -> str:
    """What a user says, as it is read: in Unicode, in one form, and cut where one can see it."""
    return cut(nfkc(as_text(cut(message, LONGEST_HEARD))), LONGEST_HEARD)


def bounded(text: str) -> str:
    """A text as it can be kept: storable, and cut where one can see it."""
    return as_text(cut(text, LONGEST_MESSAGE))


def _short(text: str) -> str:
    """What a user said, in short; what in it sounds like the agent's own part of an episode is told as said."""
    return cut(_AGENT_RAN.sub("[said: the agent ran]", " ".join(text.split())), _EPISODE)


def is_decisive(result: FlowSelectionResult, message: str, *, above: float, destroys: bool = False) -> bool:
    """Whether to act on a selection: a model chose, recall is sure enough, or a flow was named.

    Without a model the nearest flow is taken for whatever is said, "yes" and "thanks" among it. Where a catalogue is
    too small for recall to know how sure it is, only a flow's name, alias or example, word for word, is sure; and a
    request for the only flow that there is, where its own words and its similarity speak for it. What a request denies,
    supposes or only asks about is never sure where it would destroy something.

    Args:
        result: What was selected.
        message: What the user said.
        above: How sure recall has to be, both that some flow is right and that this one is; 0 for the nearest flow.
        destroys: Whether what was selected destroys something.
    """
    decision = result.decision
    if not result.chosen_flows:
        return False
    if decision.reason not in _UNSURE:
        return True
    first = result.chosen_flows[0]
    if folded_message(message) in {
        folded_message(text.replace("_", " ")) for text in (first.name, *first.aliases, *first.examples)
    }:
        return True
    if destroys and is_tentative(message):
        return False
    known = [each for each in (decision.in_scope, decision.confidence) if each is not None]
    if len(known) < 2:  # noqa: PLR2004 - both of them
        return above <= 0 or (above <= 1 and len(decision.candidates) == 1 and _speaks_for(first, result, message))
    return all(each >= above for each in known)


def _speaks_for(flow: BaseFlow, result: FlowSelectionResult, message: str) -> bool:
    """Whether a request is for the only flow there is, and not about something else, or nothing.

    A word of it has to be one of the flow's, whatever recall finds. How near that has to be besides goes by the words:
    least where half of them are the flow's, one of these out of its name, description or condition, or where nearly
    all of several are out of its examples.
    """
    asked = _telling(message)
    core = _telling(" ".join((flow.name, *flow.aliases, flow.description, flow.condition, *flow.desired_effects)))
    shown = _telling(" ".join(flow.examples))
    named = [word for word in asked if _is_among(word, core)]
    heard = len(named) + sum(_is_among(word, shown) for word in asked if word not in named)
    if not heard:
        return False
    near = result.decision.candidates[0].scores.get("dense")
    told = heard * 2 >= len(asked) if named else heard >= max(len(asked) * _NEARLY_ALL, _SEVERAL)
    if near is None:
        return told
    return near >= (_RELATED if told else _NEAR if named else _NEARER) or heard == len(asked) >= _SEVERAL


def _telling(text: str) -> frozenset[str]:
    """The words that may tell what a text is about."""
    return frozenset(word for word in stems(text) if len(word) >= _SHORTEST_WORD and word not in _COMMON)


def _is_among(word: str, words: frozenset[str]) -> bool:
    """Whether it is one of these, or one in another form: `reimburse` and `reimbursed`."""
    return word in words or any(
        min(len(word), len(each)) >= _SHORTEST_STEM
        and abs(len(word) - len(each)) <= _LONGEST_ENDING
        and (word.startswith(each) or each.startswith(word))
        for each in words
    )


def after_selection(
    flows: Sequence[OpenFlow], failed: Sequence[OpenFlow], chosen: Sequence[str], *, request: str, turn: int
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
        known.get(name) or OpenFlow(name=name, status="queued", request=bounded(request), turn=turn) for name in wanted
    ]
    return (*rest, *reversed(fresh))
