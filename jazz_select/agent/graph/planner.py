"""A model as the one who plans: one call, and its reply read as leniently, and trusted as little, as any."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, cast

import orjson

from jazz_select.agent.graph.state import FINISH, ActionDecision, StateT
from jazz_select.arguments import Count, checked
from jazz_select.chat.client import ChatClient, ChatReply, Inquiry, client_for
from jazz_select.chat.json_reader import after_thoughts, decoded, ends_as_json, repaired, unquoted, values_in
from jazz_select.chat.models import ModelLike
from jazz_select.errors import ConfigError, PlanError
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.text import in_one_line, name_shown
from jazz_select.threads import Deadline
from jazz_select.values import Message

LONGEST: Final = 65_536
"""A longer reply is not read."""
_LONGEST_REASON: Final = 1_000
_FENCE: Final = "`"
_SEPARATORS = re.compile(r"[\W_]+")
_ARGUMENTS: Final = ("arguments", "args", "parameters")


class ModelPlanner(Generic[StateT]):
    """A `Plan` for a `Router`: one call to a model, one decision. Whatever goes wrong is raised, and ends the turn.

    It is one call unless `max_retries` or `max_reasks` allow for more.

    One object may be used by many turns at once.
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
        """Take whom to ask, what, and what may be answered.

        Args:
            model: A chat model, an async function `(messages) -> str`, a model string or a pydantic-ai `Model`, as
                `FlowSelector` takes it; or a `ChatClient`, which keeps its own retries and places.
            prompt: What a model is told of the state. What users and tools said is data there, so keep it apart.
            actions: The names that may be decided on, and what each does; `finish` is there already.
            timeout_s: How long a decision may take, in seconds, retries and asking again included; None for as long as
                it likes.
            max_retries: How often a call that failed for a passing reason is made again.
            max_reasks: How often the model is told that its reply is no decision.

        Raises:
            ConfigError: An argument cannot work.
        """
        missing = "a planner needs a model; for a turn without one, let `acquire` decide on everything"
        self._client = client_for(model, max_retries=max_retries, missing=missing)
        if isinstance(actions, str):
            raise ConfigError(f"actions are a collection of names, not the one text {actions!r:.80}")
        told: dict[str, str] = dict.fromkeys(actions, "")
        if isinstance(actions, Mapping):
            told |= cast("Mapping[str, str]", actions)
        told.setdefault(FINISH, "end the turn")
        self._prompt = prompt
        self._actions = tuple(told)
        self._schema = plan_schema(self._actions)
        self._told = plan_instruction(told)
        self._timeout_s = timeout_s
        self._max_reasks = max_reasks

    async def __call__(self, state: StateT) -> ActionDecision:
        """What the model decides on.

        Raises:
            ModelTimeoutError: It took too long.
            ModelUnavailableError: The model failed lately, and is left alone for a while.
            PlanError: Its reply is no decision.

        Whatever else a model raises passes as it is, once retries are used up or make no sense.
        """
        messages = tuple(self._prompt(state))
        if not self._client.takes_schema:
            messages = _with_instruction(messages, self._told)
        named = ", ".join(map(name_shown, self._actions))
        question = Inquiry(messages, self._schema, f"one JSON object with one of: {named}")
        _, decision = await self._client.ask_until_usable(
            lambda: question,
            Deadline.after(self._timeout_s),
            read=self._read,
            problem=lambda _, read: read.problem if isinstance(read, PlanError) else "",
            max_reasks=self._max_reasks,
        )
        if isinstance(decision, PlanError):
            raise decision
        return decision

    def _read(self, answer: ChatReply) -> ActionDecision | PlanError:
        try:
            return read_decision(answer.text, self._actions, finished=not answer.truncated)
        except PlanError as error:
            return error


def plan_schema(actions: Sequence[str]) -> dict[str, Any]:
    """A JSON schema that admits a decision on one of these actions."""
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
    """The same in words, for a model that takes no schema."""
    lines = ((name_shown(name), in_one_line(" ".join(said.split()))) for name, said in actions.items())
    listed = "\n".join(f"- {name}: {said}" if said else f"- {name}" for name, said in lines)
    return (
        'Answer with one JSON object, {"action": "...", "arguments": {...}, "reason": "..."}, and nothing else. '
        f"The actions are:\n{listed}"
    )


def read_decision(text: object, actions: Collection[str], *, finished: bool = True) -> ActionDecision:
    """The one decision that a reply holds: as JSON, in fences or prose, or repaired unless it was cut off. Bounded.

    Raises:
        PlanError: It holds none, several that differ, or one on what is no action.
    """
    problem = ""
    found: list[dict[str, Any]] = []
    if not isinstance(text, str):
        problem = "it is no text"
    elif len(text) > LONGEST:
        problem = f"it is longer than {LONGEST} characters"
    else:
        after = after_thoughts(text)
        found = _decisions(after.strip(), finished=finished)
        if not found and after != text:
            found = _decisions(text.strip(), finished=finished)
        if not found:
            problem = "there is no JSON object with an action in it" if finished else "it was cut off"
        elif any(each != found[0] for each in found):
            problem = f"there are {len(found)} decisions in it, and they differ"
    if problem:
        raise PlanError(problem)
    fields = found[0]
    return ActionDecision(
        action=_named(fields["action"], actions), arguments=_arguments(fields), reason=_reason(fields.get("reason"))
    )


def _decisions(text: str, *, finished: bool) -> list[dict[str, Any]]:
    text, _ = unquoted(text)
    found = [each for item in values_in(text) if (each := _decision(item))]
    if found or not finished or not (ends_as_json(text) or text.endswith(_FENCE)):
        return found
    mended = _decision(repaired(text))
    return [mended] if mended else []


def _decision(value: object) -> dict[str, Any] | None:
    """Its fields by their names in small letters, if it has an action; a list of one is that one."""
    if isinstance(value, list) and len(cast("list[object]", value)) == 1:
        value = cast("list[object]", value)[0]
    if not isinstance(value, Mapping):
        return None
    fields = {str(name).strip().lower(): each for name, each in cast("Mapping[object, Any]", value).items()}
    return fields if "action" in fields else None


def _named(action: object, actions: Collection[str]) -> str:
    """The action of this name, whatever its case and separators."""
    if isinstance(action, str):
        if action in actions:
            return action
        alike = [name for name in actions if _SEPARATORS.sub("", name).lower() == _SEPARATORS.sub("", action).lower()]
        if len(alike) == 1:
            return alike[0]
    raise PlanError(f"{action!r:.80} is none of the actions {', '.join(actions)}")


def _arguments(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON values that can be written again: no lone surrogates, nothing too deep."""
    given: object = next((fields[name] for name in _ARGUMENTS if fields.get(name) is not None), None)
    if isinstance(given, str):
        given = decoded(given) if given.strip() else None
    if given is not None and not isinstance(given, dict):
        raise PlanError("its arguments are no JSON object")
    try:
        return orjson.loads(orjson.dumps(given or {}))
    except (TypeError, ValueError, RecursionError) as error:
        raise PlanError(f"its arguments cannot be kept: {error}") from error


def _reason(value: object) -> str:
    return " ".join(value.split())[:_LONGEST_REASON].encode(errors="replace").decode() if isinstance(value, str) else ""


def _with_instruction(messages: Sequence[Message], told: str) -> tuple[Message, ...]:
    """At the end of the system prompt, or as one."""
    first = messages[0] if messages else None
    if first is None or first.role != "system":
        return (Message(role="system", content=told), *messages)
    return (Message(role="system", content=f"{first.content}\n\n{told}"), *messages[1:])
