"""A request tried, and a turn taken, with all that the panel shows of either."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.turn import TurnResult
from jazz_select.agent.turn_events import event_data
from jazz_select.json_values import Secret, plain, with_texts
from jazz_select.memory.requests import is_several
from jazz_select.selector.candidates_stage import Availability, SelectRequest
from jazz_select.selector.policy import OnEmpty, Policy, policy_of_settings
from jazz_select.selector.result import FlowSelectionResult, why_of
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.service.api.models import RequestBody
from jazz_select.service.running import Generation, RunningCatalogue
from jazz_select.telemetry import Trace
from jazz_select.text import cut, describe_error, estimate_tokens
from jazz_select.values import Candidate, Message

_ONCE: Final = ModelOptions(max_reasks=0)
_AMONG: Final = 3
"""Places of recall among which a flow that its guard withholds is named."""
LONGEST_REQUEST: Final = 8_000
"""Characters of a request, and of what was said before it."""
Seen = Literal["sent", "unsent", ""]
"""Whether a prompt was sent to the model, is what would have been sent, or there is none."""
_Text = Annotated[str, Field(max_length=LONGEST_REQUEST)]


class TryBody(RequestBody):
    """A request, and how it is to be selected. What is None is as the service does it."""

    request: _Text
    episodes: list[_Text] = Field(default=[], max_length=20)
    context: dict[str, Any] = Field(default_factory=dict[str, Any])
    top_k: Annotated[int, Field(ge=1, le=20)] | Literal["auto"] | None = None
    max_error: Annotated[float, Field(ge=0, le=1)] | None = None
    on_empty: OnEmpty | None = None
    ask: bool = False
    """Whether the model is asked where it would be: that costs a call."""


async def try_request(catalogue: RunningCatalogue, body: TryBody) -> dict[str, Any]:
    """Select for a request as the panel's sliders say, and tell all there is to tell of it. It is not logged.

    Raises:
        ConfigError: Something in it cannot be used.
        StoreError: The memory failed.
        EmbeddingError: The embedder failed.
    """
    live = catalogue.live
    policy = policy_of_settings(catalogue.settings)
    if body.max_error is not None:
        policy = replace(policy, max_error=body.max_error)
    if body.on_empty is not None:
        policy = replace(policy, on_empty=body.on_empty)
    options: dict[str, object] = {"policy": policy}
    if body.top_k is not None:
        options["top_k"] = body.top_k
    selector = catalogue.selector(live.registry, **options, log=None)
    with Trace() as trace:
        if body.ask or not selector.has_model:
            result = await selector.select(body.request, episode_summaries=body.episodes, context=body.context)
        else:
            asked = SelectRequest(body.request, episode_summaries=body.episodes)
            (result,) = await selector.select_many([asked], context=body.context, ask=False)
    messages: list[dict[str, str]] = []
    for span in trace.spans:
        if span.kind == "chat" and span.content.get("messages"):
            messages = list(span.content["messages"])  # of the last call
    seen: Seen = "sent" if messages else ""
    if not messages and len(result.candidates) > 1:
        messages = await _unsent_prompt(catalogue, live, body, result)
        seen = "unsent" if messages else ""
    chosen: list[dict[str, Any]] = []
    for flow, prompt in zip(result.chosen_flows, result.chosen_prompts, strict=True):
        chosen.append({"name": flow.name, "title": flow.display_name, "prompt": prompt})
    return {
        "request": body.request,
        "explained": result.explain(),
        "why": why_of(result.decision),
        "decision": result.decision.to_dict(),
        "candidates": [_candidate(each, live, result.decision.chosen_ids) for each in result.decision.candidates],
        "chosen": chosen,
        "unresolved": result.unresolved_ids,
        "withheld": await _withheld_flows(catalogue, live, body.request, body.context),
        "several": is_several(body.request),
        "prompt": {
            "seen": seen,
            "messages": messages,
            "tokens": sum(estimate_tokens(each["content"]) for each in messages),
        },
        "trace": [span.as_json() for span in trace.spans],
        "generation": live.number,
    }


async def _withheld_flows(
    catalogue: RunningCatalogue, live: Generation, request: str, context: Mapping[str, Any]
) -> list[str]:
    """Return the flows that would rank first, but are withheld by their guards in this context."""
    closed = (await Availability(live.registry).closed(context)).closed_by_guard
    if not closed:
        return []
    found = await catalogue.memory.recall(request, catalogue.agent_id, top_k=_AMONG)
    withheld: list[str] = []
    for each in found.read:
        if each.flow_id in closed:
            name, problem = closed[each.flow_id]
            withheld.append(f"{name} ({problem})" if problem else name)
    return withheld


def _candidate(candidate: Candidate, live: Generation, chosen: Sequence[str]) -> Mapping[str, Any]:
    flow = live.registry.get(candidate.flow_id)
    return {
        **plain(candidate),
        "name": candidate.flow_name or candidate.flow_id,
        "title": flow.display_name if flow is not None else "",
        "is_live": flow is not None,
        "is_chosen": candidate.flow_id in chosen,
    }


async def _unsent_prompt(
    catalogue: RunningCatalogue, live: Generation, body: TryBody, result: FlowSelectionResult
) -> list[dict[str, str]]:
    """Return the prompt that the model would have got: a stand-in for it writes down what it is asked."""
    prompt: list[dict[str, str]] = []

    async def model(messages: Sequence[Message]) -> str:
        prompt.extend({"role": each.role, "content": each.content} for each in messages)
        return "[]"  # no flow

    selector = FlowSelector(
        model, live.registry, None, catalogue.agent_id, policy=Policy(on_empty="none"), model_options=_ONCE
    )
    await selector.select(body.request, list(result.candidates), body.episodes, context=body.context)
    return prompt


_MOST_SPANS: Final = 400
_LONGEST: Final = 20_000
"""Characters of a text of a span that are sent; the browser need not hold more."""


def turn_event_data(event: Event, *, secret: Secret) -> Mapping[str, Any]:
    """Convert an event of a turn to data; the last one is converted for the panel's own pages."""
    if isinstance(event, Finished):
        return _result(event.answer, secret)
    return event_data(event)


def _result(result: TurnResult, secret: Secret) -> dict[str, Any]:
    conversation = result.conversation
    active, question = conversation.active, result.question
    spans = result.trace.spans
    pending: dict[str, Any] | None = None
    if conversation.pending is not None:
        call = conversation.pending
        pending = {
            **_pick_fields(call, "tool", "words", "arguments", "destructive", "flow"),
            "title": call.display_name,
            "question": call.question(),
        }
    selection: dict[str, Any] | None = None
    if result.selection is not None:
        selection = {
            **_pick_fields(result.selection, "names", "logged"),
            "explained": result.selection.explain(),
            "notes": result.selection.decision.notes,
        }
    return {
        **_pick_fields(result, "status", "text", "reason", "notes", "incomplete", "prompt"),
        "error": "" if result.error is None else describe_error(result.error),
        "runs": [_pick_fields(run, "flow", "status", "problem") for run in result.runs],
        "pending": pending,
        "waits_for": active.asks if active is not None else (),
        "choices": {} if active is None else active.choices,
        "options": [] if question is None else [option.title for option in question.options],
        "flows": [_pick_fields(flow, "name", "status") for flow in reversed(conversation.flows)],
        "selection": selection,
        "model_calls": result.model_calls,
        "input_tokens": result.usage.input_tokens,
        "output_tokens": result.usage.output_tokens,
        "trace": [with_texts(span.as_json(), _cut_text) for span in spans[:_MOST_SPANS]],
        "left_out": max(0, len(spans) - _MOST_SPANS),
        "turns": conversation.turns,
        "conversation": conversation.to_json(secret=secret),
    }


def _cut_text(text: str) -> str:
    return cut(text, _LONGEST)


def _pick_fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}
