"""A planner that asks a model: one call, and a reply that is read leniently and not trusted."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, cast

from jazz_select.agent.chain.prompts import with_system
from jazz_select.agent.graph.guards import FINISH, ActionDecision, StateT
from jazz_select.arguments import Count, checked
from jazz_select.chat.call_reader import REASON_KEYS, folded_fields, is_call, read_call
from jazz_select.chat.client import ChatClient, ChatReply, Inquiry, client_for
from jazz_select.chat.json_reader import ends_as_json, repair_value, unquote_reply, values_in
from jazz_select.chat.models import ModelLike
from jazz_select.chat.reasoning import without_reasoning
from jazz_select.errors import ConfigError, PlanError
from jazz_select.json_values import as_json, is_object
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.text import as_text, in_one_line, name_shown
from jazz_select.threads import Deadline
from jazz_select.values import Message
from jazz_select.words import folded_name

LONGEST: Final = 65_536
"""Characters; longer replies are refused."""
_LONGEST_REASON: Final = 1_000
_FENCE: Final = "`"


class ModelPlanner(Generic[StateT]):
    """A `Planner` for a `Router`: one model call, one decision. Every error is raised and ends the turn.

    `max_retries` and `max_reasks` allow for more calls. One object serves any number of concurrent turns.
    """

    @checked
    def __init__(
        self,
        model: ModelLike | ChatClient,
        prompt: Callable[[StateT], Sequence[Message]],
        actions: Mapping[str, str] | Collection[str],
        *,
        timeout_s: TimeLimit = 30.0,
        max_retries: Count = 0,
        max_reasks: Count = 0,
    ) -> None:
        """Take the model, the prompt and the actions.

        Args:
            model: A chat model, an async function `(messages) -> str`, a model string or a pydantic-ai `Model`, as
                `FlowSelector` takes it; or a `ChatClient`, which keeps its own retries and concurrency.
            prompt: Returns the messages for a state. Text of users and tools is data there; keep it apart from
                instructions.
            actions: Names of the actions, with a description each; `finish` is built in.
            timeout_s: Timeout of a decision in seconds, retries and reasks included; None for no limit.
            max_retries: Retries of a call after a transient failure.
            max_reasks: How often the model is told that its reply is no decision.

        Raises:
            ConfigError: An argument cannot work.
        """
        missing = "a planner needs a model; for a turn without one, let `acquire` decide on everything"
        self._client = client_for(model, max_retries=max_retries, missing=missing)
        if isinstance(actions, str):
            raise ConfigError(f"actions are a collection of names, not the one text {actions!r:.80}")
        described: dict[str, str] = dict.fromkeys(actions, "")
        if isinstance(actions, Mapping):
            described |= cast("Mapping[str, str]", actions)
        described.setdefault(FINISH, "end the turn")
        self._prompt = prompt
        self._actions = tuple(described)
        self._schema = plan_schema(self._actions)
        self._instruction = plan_instruction(described)
        self._timeout_s = timeout_s
        self._max_reasks = max_reasks

    async def __call__(self, state: StateT) -> ActionDecision:
        """Return the model's decision.

        Raises:
            ModelTimeoutError: The model took too long.
            ModelUnavailableError: The model failed recently and is not called for a while.
            PlanError: The reply is no decision.

        Other errors of the model pass unchanged, once retries are used up or make no sense.
        """
        messages = tuple(self._prompt(state))
        if not self._client.takes_schema:
            messages = tuple(with_system(messages, self._instruction))
        named = ", ".join(map(name_shown, self._actions))
        question = Inquiry(messages, self._schema, f"one JSON object with one of: {named}")
        _, decision = await self._client.ask_until_usable(
            lambda: question,
            Deadline.after(self._timeout_s),
            read=self._read_decision,
            problem=lambda _, read: read.problem if isinstance(read, PlanError) else "",
            max_reasks=self._max_reasks,
        )
        if isinstance(decision, PlanError):
            raise decision
        return decision

    def _read_decision(self, answer: ChatReply) -> ActionDecision | PlanError:
        try:
            return read_decision(answer.text, self._actions, finished=not answer.truncated)
        except PlanError as error:
            return error


def plan_schema(actions: Sequence[str]) -> dict[str, Any]:
    """Return a JSON Schema for a decision on one of these actions."""
    return {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(actions)},
            "arguments": {"type": "object"},
            "reason": {"type": "string"},
        },
        "required": ["action", "arguments", "reason"],
        "additionalProperties": False,
    }


def plan_instruction(actions: Mapping[str, str]) -> str:
    """Return the schema in words, for a model that takes none."""
    lines: list[str] = []
    for name, description in actions.items():
        explained = in_one_line(" ".join(description.split()))
        lines.append(f"- {name_shown(name)}: {explained}" if explained else f"- {name_shown(name)}")
    listed = "\n".join(lines)
    return (
        'Answer with one JSON object, {"action": "...", "arguments": {...}, "reason": "..."}, and nothing else. '
        f"The actions are:\n{listed}"
    )


def read_decision(text: object, actions: Collection[str], *, finished: bool = True) -> ActionDecision:
    """Return the one decision in a reply: as JSON, in fences or prose, or repaired if the reply is complete.

    Raises:
        PlanError: The reply holds no decision, several different ones, or an unknown action.
    """
    if not isinstance(text, str):
        raise PlanError("it is no text")
    if len(text) > LONGEST:
        raise PlanError(f"it is longer than {LONGEST} characters")
    found = _decisions(without_reasoning(text, cut_off=not finished).strip(), finished=finished)
    if not found:
        raise PlanError("there is no JSON object with an action in it" if finished else "it was cut off")
    if any(each != found[0] for each in found):
        raise PlanError(f"there are {len(found)} decisions in it, and they differ")
    written = read_call(found[0], known=REASON_KEYS)
    if not written.tool:
        raise _unknown_action(folded_fields(found[0]).get("action"), actions)
    if written.problem:
        raise PlanError(written.problem)
    return ActionDecision(
        action=_match_action(written.tool, actions),
        arguments=_arguments(written.arguments),
        reason=_reason(written.reason),
    )


def _decisions(text: str, *, finished: bool) -> list[Mapping[str, Any]]:
    text, _ = unquote_reply(text)
    found = [each for item in values_in(text) if (each := _decision(item))]
    if found or not finished or not (ends_as_json(text) or text.endswith(_FENCE)):
        return found
    mended = _decision(repair_value(text))
    return [mended] if mended else []


def _decision(value: object) -> Mapping[str, Any] | None:
    if not is_object(value):
        return None
    fields = value
    return fields if "action" in folded_fields(fields) or is_call(fields) else None


def _match_action(action: str, actions: Collection[str]) -> str:
    """Match an action's name regardless of case and separators."""
    if action in actions:
        return action
    alike = [name for name in actions if folded_name(name) == folded_name(action)]
    if len(alike) == 1:
        return alike[0]
    raise _unknown_action(action, actions)


def _unknown_action(action: object, actions: Collection[str]) -> PlanError:
    return PlanError(f"{action!r:.80} is none of the actions {', '.join(actions)}")


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as JSON values that can be stored: no lone surrogates, no excessive depth."""
    try:
        return as_json(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise PlanError(f"its arguments cannot be kept: {error}") from error


def _reason(value: str) -> str:
    return as_text(" ".join(value.split())[:_LONGEST_REASON])
