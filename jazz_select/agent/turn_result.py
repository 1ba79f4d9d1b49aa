"""The result of a turn: the text for the user, how it came about, and the conversation to continue with."""

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
    """The result of one turn.

    Attributes:
        status: `done`; `active` if a flow continues in the next turn; `open` if the caller has to continue, with
            `prompt`; `waiting` for missing inputs, or for which flow is meant (`question`); `confirming` if a call
            waits for the user's yes; `failed`; `blocked` by a guard, or if a flow cannot be done here; `handed_over` to
            a person, with the reason in `reason` and the findings in `conversation`.
        text: What to tell the user; with a schema, the JSON text of `value`. Tool outputs appear only through a flow's
            `reply`, a schema or a model. Empty if the caller has to write it: `open`, or `blocked` without words.
        value: The answer in the requested schema; None if none was requested or it could not be given.
        conversation: Input of the next turn.
        runs: The flows that ran, in order.
        selection: How they were selected; None if nothing had to be.
        prompt: The prompts of the flows under way, the active one first.
        resumed: The parked flow that is under way again.
        incomplete: Whether a limit cut the answer short.
        reason: Why the turn ended so, if that is not plain: for logs, not for users.
        notes: Degradations: facts of an open flow that could not be kept in `conversation`, by name; and that nothing
            keeps two processes from continuing with the same approved call.
        chain: What a model and its tools did, if one did.
        error: What went wrong; a FormatError keeps the chain, so that formatting alone can be retried.
        trace: Spans of every step, decision and call.
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
        """Return plain JSON values, always with all keys in the same order.

        Values that are no JSON become text; an error becomes its text and fields, without its cause. `conversation` is
        an opaque text to store and send back.

        Args:
            secret: Signs the conversation, as `Conversation.to_json` does, against changes by whoever holds it.

        Raises:
            ConfigError: The secret is empty or of the wrong type.
            FlowValidationError: A nested part of a selected flow has left its registry since.
        """
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        data["conversation"] = self.conversation.to_json(secret=secret)
        data["selection"] = None if self.selection is None else self.selection.to_dict()
        data["trace"] = self.trace.as_json()
        return cast("dict[str, Any]", plain(data))

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        registry: Mapping[str, BaseFlow] | None = None,
        secret: Secret | None = None,
    ) -> "TurnResult":
        """Read what `to_dict` returned.

        Args:
            data: The data.
            registry: The live flows, as of `FlowSelectionResult.from_dict`.
            secret: Verifies the conversation's signature. Without it the content is trusted; a signature is kept for
                the conversation's next `to_json`.

        Raises:
            ConfigError: The data is no turn result.
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
        """Return `to_dict` as JSON text."""
        return json_bytes(self.to_dict(secret=secret)).decode()

    @classmethod
    def from_json(
        cls,
        text: str | bytes,
        *,
        registry: Mapping[str, BaseFlow] | None = None,
        secret: Secret | None = None,
    ) -> "TurnResult":
        """Read what `to_json` returned; see `from_dict`.

        Raises:
            ConfigError: The text is no turn result.
            SnapshotError: The conversation is not signed with this secret.
        """
        return cls.from_dict(read_json(text, cls.__name__), registry=registry, secret=secret)

    def _repr_html_(self) -> str:
        """Return the notebook form."""
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
        """Pickle as data, except `value`, whose class is the caller's, and the selection, whose flows may be live."""
        return _unpickled, (replace(self, value=None, selection=None).to_dict(), self.value, self.selection)

    def __copy__(self) -> "TurnResult":
        return replace(self)

    @property
    def flows(self) -> list[str]:
        """The names of the flows that ran."""
        return [run.flow for run in self.runs]

    @property
    def question(self) -> UserQuestion | None:
        """The question which flow is meant, with its options as data, for buttons; None if the turn asks none.

        `text` contains the question; the next turn's message is read as its answer.
        """
        return self.conversation.question

    @property
    def model_calls(self) -> int:
        """Number of chat model calls."""
        return sum(span.kind == "chat" for span in self.trace)

    @property
    def usage(self) -> Usage:
        """The total token usage of chat and decision models, as far as reported."""
        chats = [span.attributes for span in self.trace if span.kind in {"chat", "decide"}]
        return Usage(
            input_tokens=sum(each.get("input_tokens", 0) for each in chats),
            output_tokens=sum(each.get("output_tokens", 0) for each in chats),
        )


def _unpickled(data: Mapping[str, Any], value: object, selection: FlowSelectionResult | None) -> TurnResult:
    return replace(TurnResult.from_dict(data), value=value, selection=selection)
