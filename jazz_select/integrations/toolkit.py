"""What the framework adapters share: selecting flows and their tools, and calling tools under an agent's rules.

A call is validated, approved, limited in time, claimed and traced like an agent's own. Approval is requested in the
framework's own way.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast
from uuid import uuid4

from jazz_select.arguments import Constraint, checked
from jazz_select.chat.json_reader import LONGEST, parse_whole
from jazz_select.errors import CannotDo, ConfigError, MissingExtraError
from jazz_select.flow.base import BaseFlow, check_connected
from jazz_select.json_values import is_object, plain, storable_text, too_much
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import (
    Allow,
    ApprovalPolicy,
    Approve,
    Ask,
    Claims,
    Deny,
    Verdict,
    needs_yes,
    verdict_of,
)
from jazz_select.routing.claims import RecentClaims
from jazz_select.routing.question import question
from jazz_select.routing.records import StepError, ToolCall
from jazz_select.routing.tool_call import CallOutcome, call_of, call_tool, made_once
from jazz_select.routing.tools.context_inputs import NOT_USED, bind_context, bind_tools
from jazz_select.routing.tools.showing import OpenTools, selected_tools, shown_names
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool, context_keys
from jazz_select.selector.asking import adds_nothing, question_in
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.serialization import value_of
from jazz_select.stages import UserQuestion
from jazz_select.text import as_text, beginning
from jazz_select.threads import self_bounded
from jazz_select.values import Decision, Reason

_MOST_SUMMARIES: Final = 3
_MOST_KNOWN: Final = 1_000
"""The most pending approvals to remember."""
_LONGEST: Final = 1_000
OPEN: Final = "flow_question"
"""The key under which an adapter stores the open question in its framework's state."""
RUN: Final = "flow_run"
"""The key of the id of the run or conversation."""
ASKED: Final = "flow_asked"
"""The key of the pending approvals, by call id."""
_STORED: Final = frozenset({OPEN, RUN, ASKED})
"""What the adapters store in a framework's context themselves."""
_CLAIMED: Final = "{} was not run: a call with this id was started before, and this one may have been done"
_PICKED: Final = "picked"
"""The key, in the stored question, of the flow that the answer picked."""
_SURE: Final = frozenset({Reason.EXAMPLE, Reason.SINGLE, Reason.CONFIDENT, Reason.DECIDER, Reason.LLM})
"""The reasons that may replace a picked flow by another, even after a message that is only a value or thanks."""
_log = logging.getLogger(__name__)
_Tool: TypeAlias = Annotated[Tool, Constraint("a Tool, such as one of shown.tools")]
_CallId: TypeAlias = Annotated[str, Constraint("a string, the same wherever the same call may be made again")]
_Agreed: TypeAlias = Annotated[bool, Constraint("True where somebody said yes to this very call, or False")]
_ASK: Final = "Only the user can say which of these is meant. Ask this, and do nothing before the answer:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model is shown for a request.

    Attributes:
        result: The selection.
        tools: The tools to offer, by their names for models, bound to the context: the inputs that it holds are not in
            their schemas, and are filled when they are called.
        kept: What to store until the next request and pass to `select` then, as plain JSON values: the open question,
            or the flow that its answer picked, which helps to find the next one. None if there is neither.
    """

    result: FlowSelectionResult
    tools: Mapping[str, Tool]
    kept: Mapping[str, Any] | None = None

    @property
    def prompt(self) -> str:
        """The selected flows for the model's instructions, or the question for the user. Empty if nothing fits."""
        if self.result.combined_prompt:
            return self.result.combined_prompt
        question = self.result.decision.question
        return f"{_ASK}\n{question.text}" if question else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that may need approval.

    Attributes:
        call: The call, with the identity that an approval is for.
        verdict: Whether it needs approval.
    """

    call: ToolCall
    verdict: Verdict

    @property
    def about(self) -> dict[str, str]:
        """What to store and show: title, question, reason, and the identity that an approval is for."""
        return approval_request(self.call, self.verdict.reason if isinstance(self.verdict, Ask) else "")


class FlowToolkit:
    """Flows and their tools for another framework's loop. Safe for concurrent use.

    It stores no conversation: the caller keeps `Shown.kept`.

    Attributes:
        tools: Everything that is connected, by its name for models, the same for each selection.
    """

    @checked
    def __init__(  # noqa: PLR0913 - options with a name
        self,
        selector: FlowSelector,
        tools: ToolsLike,
        *,
        approval: ApprovalPolicy = "destructive",
        approve: Approve | None = None,
        claims: Claims | None = None,
        open_tools: OpenTools = "read",
        timeout_s: TimeLimit = 30.0,
    ) -> None:
        """Create a toolkit; the options are those of `Agent`.

        Args:
            selector: Finds flows.
            tools: The connected tools. Every required tool of a flow must be among them.
            approval: Which calls need approval if there is no `approve`: those of destructive tools, "always", or
                "never".
            approve: Called before each call, whatever the policy: `Allow()`, `Deny(reason)`, or `Ask(reason)`.
            claims: Records destructive calls before they are made, so that a repeated call id returns the first
                outcome. The default keeps the last thousand in this object.
            open_tools: The tools to offer where no flow fits.
            timeout_s: The time limit of one tool call; None for no limit.

        Raises:
            ConfigError: An argument cannot work.
            UnconnectedToolsError: A required tool of a flow is not connected.
            DuplicateToolError: Two tools have one name.
        """
        self._selector, self._connected = selector, toolbox_of(tools)
        check_connected(selector.flow_registry.values(), self._connected)
        self._policy: ApprovalPolicy = approval
        self._approve = approve
        self._claims: ClaimStore = RecentClaims() if claims is None else claims
        self._open_tools: OpenTools = open_tools
        self._timeout_s = timeout_s
        self._shown: dict[str, str] = {}
        self.tools: Mapping[str, Tool] = shown_names(self._connected.values())
        self._names = {tool.name: name for name, tool in self.tools.items()}

    async def select(
        self,
        said: str | Sequence[str],
        context: Mapping[str, Any] | None = None,
        *,
        asked: Mapping[str, Any] | Decision | UserQuestion | None = None,
    ) -> Shown:
        """Find the flows for the user's last message, and their tools.

        Args:
            said: The request, or all messages of the user with the request last; the three before it count.
            context: What only the caller knows, such as who the user is. Guards look at it, and it fills inputs of the
                tools, which no model is shown then.
            asked: `Shown.kept` of the request before, whether or not this one answers it; or the decision with the
                question, which this request then answers. After an answer, the title of the picked flow helps to find
                the next, and a message that is only a value or thanks stays with that flow.

        Raises:
            ConfigError: An argument is of the wrong kind.
            StoreError: The memory failed.
            EmbeddingError: The embedder failed.
        """
        messages = [said] if isinstance(said, str) else said
        if not isinstance(messages, Sequence) or isinstance(messages, bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            msg = f"said must be the request, or a list of all that the user said, the request last, got {said!r:.80}"
            raise ConfigError(msg)
        *before, request = [as_text(each) for each in messages] or [""]
        recent = before[-_MOST_SUMMARIES:]
        kept: Mapping[str, Any] = {}
        if isinstance(asked, Mapping):
            kept = asked
            question = _answered_question(kept, request)
        else:
            question = asked
        picked = _picked_flow(kept, self._selector.flow_registry) if question is None else None
        if picked is not None:
            recent = [picked.flow.display_name, *recent]
        result = await self._selector.select(request, episode_summaries=recent, context=context, asked=question)
        # "Thanks" finds nothing by itself: answer the stored question as before, which picks the same flow again.
        if picked is not None and adds_nothing(request) and result.decision.reason not in _SURE:
            result = await self._selector.select(picked.answer, context=context, asked=picked.question)
        tools = selected_tools(result.chosen_flows, self._connected, open_tools=self._open_tools)
        shown = {self._names[tool.name]: tool for tool in bind_tools(tools, context)}
        before_it = None if picked is None else picked.flow
        keeps = _to_store(result, kept, request, answer=question is not None, before=before_it)
        return Shown(result=result, tools=shown, kept=keeps)

    def bind_tool(self, name: str, context: Mapping[str, Any] | None) -> Tool:
        """Return a tool by its name for models, with the inputs that the context holds filled and hidden."""
        return bind_context(self.tools[name], context)

    async def tools_awaiting_approval(
        self, calls: Iterable[tuple[str, Mapping[str, Any]]], context: Mapping[str, Any] | None = None
    ) -> dict[str, Tool]:
        """Return the tools of those calls that need approval, so that the model is still shown them.

        Other calls that a history claims are ignored.
        """
        waiting: dict[str, Tool] = {}
        for name, arguments in calls:
            if name not in self.tools:
                continue
            tool = self.bind_tool(name, context)
            asked = await self.ask(tool, arguments)
            if isinstance(asked.verdict, Ask):
                waiting[name] = tool
        return waiting

    def may_ask(self, tool: Tool) -> bool:
        """Whether a call of this tool may need approval."""
        return self._approve is not None or needs_yes(self._policy, destructive=tool.destructive)

    @checked
    async def ask(
        self, tool: _Tool, arguments: Mapping[str, Any], call_id: str = "", *, keeps: object = None
    ) -> AskedCall:
        """Return a call with its verdict and the identity that an approval is for.

        The mapping `keeps`, if given, stores the identity by call id for another process.

        Raises:
            ConfigError: An argument is of the wrong kind.
        """
        if excess := _excess_of(arguments):
            return AskedCall(call=_without_arguments(tool), verdict=Deny(excess))
        call = await call_of(tool, arguments, door="framework", call_id=call_id)
        if call_id not in self._shown:  # keep the identity of an earlier request
            self.is_agreed(call_id, call, agreed=False)
        try:
            verdict = await verdict_of(self._approve, call, self._policy)
        except CannotDo as error:
            verdict = Deny(f"cannot be done: {error.message}")
        if isinstance(verdict, Ask) and isinstance(keeps, MutableMapping):
            kept = cast("MutableMapping[str, object]", keeps)
            # An identity that is stored already stays: it is the one that somebody may have been shown.
            kept[ASKED] = {call_id: call.identity, **_identities(kept)}
        return AskedCall(call=call, verdict=verdict)

    def is_agreed(self, call_id: str, call: ToolCall, *, agreed: bool, identity: str = "") -> bool:
        """Whether an approval is for this very call, as far as the identity under this id is known.

        Args:
            call_id: The framework's id of the call.
            call: The call as it would be made now.
            agreed: Whether the framework reports an approval.
            identity: The approved identity, if the framework stored it.
        """
        approved = {self._shown.get(call_id, call.identity), identity or call.identity}
        if call_id:
            self._shown[call_id] = call.identity
            while len(self._shown) > _MOST_KNOWN:
                self._shown.pop(next(iter(self._shown)))
        return agreed and approved == {call.identity}

    @checked
    async def call(
        self,
        tool: _Tool,
        arguments: "Mapping[str, Any] | str",  # quoted, and so not checked: what a model wrote is no caller's fault
        *,
        call_id: _CallId = "",
        agreed: _Agreed = False,
        keeps: object = None,
    ) -> CallOutcome:
        """Call a tool if it is allowed. The status `asked` means that it was not called and needs approval.

        Args:
            tool: The tool, such as one of `Shown.tools`, which are bound to the context.
            arguments: By name, or the JSON text a model wrote; text that is not an object fails the call. A value for
                what the context fills is dropped (`CallOutcome.notes`).
            call_id: The id of the call, the same if it is repeated: a destructive call runs once per id.
            agreed: Whether this very call was approved.
            keeps: The mapping in which `asked` stored the approved identity; another call needs a new approval.

        Raises:
            ConfigError: Tool, id or `agreed` is of the wrong kind. Bad arguments from a model are no error: the outcome
                is `failed`.
        """
        identity = _identities(keeps).get(call_id, "")
        values = arguments if isinstance(arguments, Mapping) else _object_in(arguments)
        problem = "its arguments are no JSON object" if values is None else _excess_of(values)
        if values is None or problem:
            error = StepError(fault="arguments", message=f"{tool.name} was not run: {problem}")
            return CallOutcome(call=_without_arguments(tool), status="failed", error=error)

        @self_bounded
        async def approve(call: ToolCall) -> Verdict:
            verdict = await verdict_of(self._approve, call, self._policy)
            if isinstance(verdict, Ask) and self.is_agreed(call_id, call, agreed=agreed, identity=identity):
                return Allow()
            return verdict  # an approval does not help against a `Deny`

        return await call_tool(
            tool,
            values,
            door="framework",
            timeout_s=self._timeout_s,
            approve=approve,
            call_id=call_id,
            claims=self._claims if call_id else None,
        )

    async def call_once(
        self, tool: Tool, arguments: Mapping[str, Any], call_id: str, make: Callable[[], Awaitable[Any]]
    ) -> CallOutcome:
        """Make a call that the framework carries out, unless it is destructive and was made before under this id.

        Args:
            tool: The tool.
            arguments: By name.
            call_id: The id of the call.
            make: Makes the call; its result is the output, and its exceptions pass.
        """
        call = await call_of(tool, arguments, door="framework", call_id=call_id)
        return await made_once(tool, call, make, self._claims)


def approval_request(call: ToolCall, reason: str) -> dict[str, str]:
    """What to store and show of a call that needs approval, worded as for an agent."""
    text = question(call.display_name, call.words, call.arguments)
    return {"title": call.title, "question": text, "reason": reason, "identity": call.identity}


def _answered_question(kept: Mapping[str, Any], request: str) -> UserQuestion | None:
    """Return the question that a request answers, or None.

    A resumed run selects again for the request that was asked about: that is no answer. One answer counts once.
    """
    own = digest_of(request.strip())
    if not request.strip() or own == kept.get("after") or kept.get("by", own) != own:
        return None
    return _question_in(kept)


class _Picked(NamedTuple):
    """The flow that an earlier answer picked, the number that picks it again, and the question."""

    flow: BaseFlow
    answer: str
    question: UserQuestion


def _picked_flow(kept: Mapping[str, Any], flows: Mapping[str, BaseFlow]) -> _Picked | None:
    flow_id = kept.get(_PICKED)
    if not flow_id:
        return None
    question = _question_in(kept)
    if question is None:
        return None
    offered = [each.flow_id for each in question.options]
    # What is stored has been outside: only what was offered, and is still there, counts.
    if flow_id not in offered or flow_id not in flows:
        return None
    return _Picked(flows[flow_id], str(offered.index(flow_id) + 1), question)


def _to_store(
    result: FlowSelectionResult, kept: Mapping[str, Any], request: str, *, answer: bool, before: BaseFlow | None
) -> dict[str, Any] | None:
    """Return what to store after a request: the question of its selection, else what was `kept` before.

    A question is marked as answered by its `answer`; the flow that it picked is stored until another one is found.
    """
    if result.decision.question is not None:
        return {"question": plain(result.decision.question), "after": digest_of(request.strip())}
    if kept and not request.strip():
        return dict(kept)
    if answer and kept:
        keeps = {name: kept[name] for name in ("question", "after") if name in kept}
        keeps["by"] = digest_of(request.strip())
        if result.decision.reason is Reason.USER and result.decision.chosen_ids:
            keeps[_PICKED] = result.decision.chosen_ids[0]
        return keeps
    if before is not None and (not result.names or before.name in result.names):
        return dict(kept)
    return None


def _question_in(kept: Mapping[str, Any]) -> UserQuestion | None:
    try:
        return question_in(value_of(UserQuestion, kept.get("question")))
    except ConfigError as error:
        _log.warning("error=<%s> | what was kept is no question: what was said is selected for anew", error)
        return None


def _excess_of(arguments: Mapping[str, Any]) -> str:
    """Return why arguments that a framework's model wrote are not read; empty if they are within a reply's limits."""
    excess = too_much(dict(arguments), LONGEST)
    return f"its arguments hold {excess}" if excess else ""


def _without_arguments(tool: Tool) -> ToolCall:
    return ToolCall(tool=tool.name, arguments={}, destructive=tool.destructive, door="framework")


def _object_in(arguments: object) -> Mapping[str, Any] | None:
    if not isinstance(arguments, str):
        return None
    value = parse_whole(arguments or "{}")  # some providers send an empty text for a call without arguments
    return value if is_object(value) else None


def context_in(given: object, tools: Iterable[Tool] = ()) -> dict[str, Any]:
    """Return a framework's own context as a mapping: deps, a runtime's context, or the context of a run.

    It is a mapping, a dataclass, a named tuple, a pydantic model, or an object with public attributes. What these
    tools declare to come from the context may be a property, too. Functions and what is None are left out, and so is
    what the adapters store there.
    """
    as_mapping: object = getattr(given, "_asdict", None)
    if callable(as_mapping) and isinstance(given, tuple):  # a named tuple
        given = as_mapping()
    if is_object(given):
        values: Mapping[Any, Any] = given
    elif given is None or isinstance(given, str | bytes | int | float | Sequence | type):
        return {}
    else:
        values = _attributes(given, tools)
    context: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(name, str) and name not in _STORED and value is not None and not callable(value):
            context[name] = value
    return context


def _attributes(given: object, tools: Iterable[Tool]) -> dict[str, Any]:
    if is_dataclass(given):
        names = [each.name for each in fields(given)]
    else:
        names = [*getattr(given, "__dict__", ())]
    from_context: set[str] = set()
    for tool in tools:
        from_context.update(context_keys(tool.name, tool.from_context).values())
    # A property is neither a field nor in `__dict__`: it is read only if a tool asks for it by name.
    ordered = dict.fromkeys((*names, *sorted(from_context)))
    return {name: getattr(given, name, None) for name in ordered if not name.startswith("_")}


def check_toolkit(given: object) -> None:
    """Raise unless the argument is a toolkit."""
    if not isinstance(given, FlowToolkit):
        raise ConfigError(
            f"toolkit must be a FlowToolkit(selector, tools) of jazz_select.integrations.toolkit, got {given!r:.80}"
        )


def stored_question(*places: object) -> Mapping[str, Any] | None:
    """Return what the last of these places stores, as a mapping's key or as an attribute."""
    for each in reversed(places):
        found = read_value(each, OPEN)
        if found and is_object(found):
            return found
    return None


def store_question(place: object, kept: Mapping[str, Any] | None) -> None:
    """Store the open question, or that there is none."""
    if (kept or read_value(place, OPEN) is not None) and not write_value(place, OPEN, kept):
        _log.warning("place=<%s> | no question is kept there: give a dict, or what has %s", type(place).__name__, OPEN)


def run_id_in(place: object, *, begins: bool = False) -> str:
    """Return the stored id of the run, making one if it begins; empty if nothing can be stored."""
    stored = read_value(place, RUN)
    if isinstance(stored, str) and stored:
        return stored
    run_id = uuid4().hex
    if begins and write_value(place, RUN, run_id):
        return run_id
    return ""


def read_value(place: object, key: str) -> object:
    """Return what a framework's context has under this key, or as this attribute; None if it has neither."""
    return place.get(key) if is_object(place) else getattr(place, key, None)


def write_value(place: object, key: str, value: object) -> bool:
    """Store a value in a framework's context; return whether that was possible."""
    try:
        if isinstance(place, MutableMapping):
            cast("MutableMapping[str, object]", place)[key] = value
        elif hasattr(place, key):
            setattr(place, key, value)
        else:
            return False
    except (AttributeError, TypeError, ValueError) as error:
        _log.warning("error=<%s> | nothing can be kept of a run: give a dict, or what %s can be set of", error, key)
        return False
    return True


def _identities(place: object) -> dict[str, str]:
    """Return the identities of pending approvals by call id, if this is a mapping that stores them."""
    stored: object = place.get(ASKED) if is_object(place) else None
    if not is_object(stored):
        return {}
    identities: dict[str, str] = {}
    for call_id, identity in stored.items():
        if isinstance(call_id, str) and isinstance(identity, str):  # pyright: ignore[reportUnnecessaryIsInstance] - the framework's user may store anything
            identities[call_id] = identity
    return identities


def digest_of(*texts: str) -> str:
    """Return a digest of texts, to compare them without storing them."""
    return sha256(json.dumps(texts).encode()).hexdigest()[:16]


def text_in(content: object) -> str:
    """Return the text of a message, or of its text parts."""
    parts = cast("Sequence[object]", content) if isinstance(content, list | tuple) else [content]
    texts: list[str] = []
    for part in parts:
        text = _text_of(part)
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


def _text_of(part: object) -> object:
    if isinstance(part, str):
        return part
    if is_object(part):
        return part.get("text")
    return getattr(part, "content", None)


def outcome_text(outcome: CallOutcome, *, own: bool = True) -> str:
    """Return the outcome of a call as text for a model: its output as JSON, or why there is none.

    With `own` false, the call may have been another caller's, and its output is left out.
    """
    text = _outcome_text(outcome, own=own)
    return f"{text}\n{NOT_USED}" if outcome.dropped else text


def _outcome_text(outcome: CallOutcome, *, own: bool) -> str:
    if outcome.replayed and not own:
        return as_text(beginning(_CLAIMED.format(outcome.call.tool), _LONGEST))
    if outcome.error is None:
        return storable_text(outcome.output)
    problem = f"not run: {outcome.reason}" if outcome.reason else outcome.error.message
    return as_text(beginning(problem, _LONGEST))


class Framework(NamedTuple):
    """A framework and its supported versions."""

    package: str
    """Its distribution name."""
    least: str
    """The first supported version."""
    below: str
    """The first version after that which has not been tried."""

    @property
    def wanted(self) -> str:
        """The version range of a requirement."""
        return f">={self.least},<{self.below}"


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "pydantic-ai": Framework("pydantic-ai-slim", "2.60", "3"),
    "langgraph": Framework("langgraph", "1.2", "2"),
    "openai-agents": Framework("openai-agents", "0.24", "0.25"),
    "fastmcp": Framework("fastmcp", "4.1", "5"),
    "langchain": Framework("langchain", "1.4", "2"),
}
"""By the extra that installs each, with the extra's own range."""


@contextmanager
def framework(extra: str) -> Generator[None, None, None]:
    """Import a framework in this block.

    Raises:
        MissingExtraError: It is missing, in an unsupported version, or lacks what the block imports.
    """
    wanted = FRAMEWORKS[extra]
    purpose = f"jazz_select.integrations.{extra.replace('-', '_')}"
    try:
        found = version(wanted.package)
    except PackageNotFoundError as error:
        raise MissingExtraError(wanted.package, extra=extra, purpose=purpose, wanted=wanted.wanted) from error
    misfit = MissingExtraError(wanted.package, extra=extra, purpose=purpose, wanted=wanted.wanted, found=found)
    if not _numbers(wanted.least) <= _numbers(found) < _numbers(wanted.below):
        raise misfit
    try:
        yield
    except ImportError as error:
        raise misfit from error


def _numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version; a pre-release (`3.0b1`) counts as its release."""
    digits = ("".join(takewhile(str.isdecimal, part)) for part in text.split("."))
    return tuple(int(each) for each in takewhile(bool, digits))
