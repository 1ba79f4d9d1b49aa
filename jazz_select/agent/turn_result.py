"""What comes of a turn: what to say, how it came about, what to go on with; and how it travels."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, cast

from jazz_select.agent.chain.transcript import Chain
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.flows.flow_runner import FlowRun
from jazz_select.errors import JazzSelectError, SnapshotError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import Secret, json_bytes, plain
from jazz_select.notebook import facts_html, page_html, rows_html
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.stages import UserQuestion
from jazz_select.telemetry import Trace
from jazz_select.text import describe_error
from jazz_select.travel import Read, error_of, read_json, unreadable, value_of, whole_of
from jazz_select.values import Usage

TurnStatus = Literal["done", "active", "open", "waiting", "confirming", "failed", "blocked", "handed_over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """One turn: what to say, how it came about, and what to go on with.

    Attributes:
        status: `done`; `active` where a flow goes on in the next turn; `open` where the caller has to go on, with
            `prompt`; `waiting` for what it asked for, or for which flow is meant (`question`); `confirming` where a
            call waits for the user's yes, of this flow or of one that comes back;
            `failed`; `blocked`, by a guard, or where a flow cannot be done here; or `handed_over` to a person, with why
            in `reason` and what was found in `conversation`.
        text: What to tell the user; with a schema, the JSON text of `value`. What tools returned is in it only through
            a flow's `reply`, a schema or a model. Empty where it is the caller's: `open`, or `blocked` without words.
        value: The answer in the schema that was asked for; None where there was none, or it could not be given.
        conversation: To pass to the next turn.
        runs: The flows that were run, in order.
        selection: How they were found; None where there was nothing to find.
        prompt: The prompts of the flows that are under way, the active one first.
        resumed: The flow that was parked and is under way again.
        incomplete: Whether a limit cut the answer short.
        reason: Why it came out so, where that is not plain: for logs, not for users.
        notes: What was degraded: each fact of a flow under way that could not be kept in `conversation`, by name; that
            nobody keeps two processes apart that both go on with a call which the user agreed to.
        chain: What a model and its tools did, if one did.
        error: What went wrong; a FormatError keeps the chain, so that formatting alone can be tried again.
        trace: Every narrowing, decision and call.
    """

    status: TurnStatus
    text: str
    conversation: Annotated[Conversation, Read()]
    value: Any = None
    runs: tuple[FlowRun, ...] = ()
    selection: Annotated[FlowSelectionResult | None, Read()] = None
    prompt: str = ""
    resumed: str = ""
    incomplete: bool = False
    reason: str = ""
    notes: tuple[str, ...] = ()
    chain: Chain | None = None
    error: Annotated[JazzSelectError | None, Read(error_of)] = None
    trace: Annotated[Trace, Read(Trace.from_json)] = field(default_factory=Trace)

    def to_dict(self, *, secret: Secret | None = None) -> dict[str, Any]:
        """As plain JSON values, keys always all of them and in one order.

        What tools and callers gave that is no JSON comes as its text; of an error its text and its fields, without its
        cause. `conversation` is a text, to be kept and sent back as it is.

        Args:
            secret: Signs the conversation, as `Conversation.to_json` does: for whoever is not to write it.

        Raises:
            ConfigError: A secret is empty, or none.
            FlowValidationError: A part of a part of a chosen flow has left its registry since.
        """
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        told["conversation"] = self.conversation.to_json(secret=secret)
        told["selection"] = None if self.selection is None else self.selection.to_dict()
        told["trace"] = self.trace.as_json()
        return cast("dict[str, Any]", plain(told))

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        registry: Mapping[str, BaseFlow] | None = None,
        secret: Secret | None = None,
    ) -> "TurnResult":
        """What `to_dict` told.

        Args:
            data: What it told.
            registry: Where the live flows are, as of `FlowSelectionResult.from_dict`.
            secret: What the conversation is signed with; without one, whatever stands in it is believed, and a
                signature that it has is kept: its `to_json` gives the signed text again.

        Raises:
            ConfigError: It is none.
            SnapshotError: The conversation is not signed with this secret.
        """
        what = cls.__name__
        known = whole_of(data, what)
        selection = known.get("selection")
        try:
            conversation = Conversation.from_json(value_of(str, known.get("conversation"), what), secret=secret)
        except SnapshotError as error:
            if secret is not None:
                raise
            raise unreadable(what, f"conversation: {error.problem}") from error
        known["conversation"] = conversation
        known["selection"] = None if selection is None else FlowSelectionResult.from_dict(selection, registry=registry)
        return value_of(cls, {name: value for name, value in known.items() if value is not None or name != "trace"})

    def to_json(self, *, secret: Secret | None = None) -> str:
        """`to_dict` as JSON text."""
        return json_bytes(self.to_dict(secret=secret)).decode()

    @classmethod
    def from_json(
        cls,
        text: str | bytes,
        *,
        registry: Mapping[str, BaseFlow] | None = None,
        secret: Secret | None = None,
    ) -> "TurnResult":
        """What `to_json` told; see `from_dict`.

        Raises:
            ConfigError: It is none.
            SnapshotError: The conversation is not signed with this secret.
        """
        return cls.from_dict(read_json(text, cls.__name__), registry=registry, secret=secret)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        facts = [
            ("status", self.status),
            ("text", self.text),
            ("flows", ", ".join(self.flows)),
            ("reason", self.reason),
            ("error", "" if self.error is None else describe_error(self.error)),
            *(("note", note) for note in self.notes),
        ]
        steps = [
            (each.tool, each.status, each.arguments, each.error or each.output)
            for run in self.runs
            for each in run.steps
        ]
        spans = [(f"{'· ' * each.depth}{each.name}", each.kind, 1e3 * (each.duration_s or 0)) for each in self.trace]
        parts = [facts_html("turn", facts), rows_html(("tool", "", "arguments", "result"), steps)]
        return page_html(*parts, rows_html(("span", "", "ms"), spans))

    def __reduce__(self) -> tuple[Any, ...]:
        """As data, but for `value`, whose class is the caller's own, and the flows, which may be live there."""
        return _unpickled, (replace(self, value=None, selection=None).to_dict(), self.value, self.selection)

    def __copy__(self) -> "TurnResult":
        return replace(self)

    @property
    def flows(self) -> list[str]:
        """The names of the flows that were run."""
        return [run.flow for run in self.runs]

    @property
    def question(self) -> UserQuestion | None:
        """Which flow is meant, where the turn asks that: its text, and the options as data, for buttons.

        `text` has the question already, and what the next turn's message says is heard as the answer.
        """
        asked = self.conversation.question
        return None if asked is None else asked.as_question()

    @property
    def model_calls(self) -> int:
        """How often a chat model was asked."""
        return sum(span.kind == "chat" for span in self.trace)

    @property
    def usage(self) -> Usage:
        """The tokens that all calls of models took, of chat and decision models, as far as they were counted."""
        chats = [span.attributes for span in self.trace if span.kind in {"chat", "decide"}]
        return Usage(
            input_tokens=sum(each.get("input_tokens", 0) for each in chats),
            output_tokens=sum(each.get("output_tokens", 0) for each in chats),
        )


def _unpickled(data: Mapping[str, Any], value: object, selection: FlowSelectionResult | None) -> TurnResult:
    return replace(TurnResult.from_dict(data), value=value, selection=selection)
