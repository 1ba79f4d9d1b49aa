"""One request tried: both retrievers, the fusion, the decision, what a model is shown and what it said."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.retrieval import SelectRequest
from jazz_select.selector.select import FlowSelector
from jazz_select.service.panel.bodies import TryBody
from jazz_select.service.running import Generation, RunningCatalogue
from jazz_select.telemetry import Span, Trace
from jazz_select.text import as_text, estimate_tokens
from jazz_select.values import Candidate, Message, Reply

_OPTIONS: Final = ("top_k", "coverage", "skip_llm_above", "abstain_below")
Seen = Literal["sent", "unsent", ""]
"""Whether a prompt was sent to the model, is what would have been sent, or there is none."""


async def tried(catalogue: RunningCatalogue, body: TryBody) -> dict[str, Any]:
    """Select for a request as the panel's sliders say, and tell all there is to tell of it. It is not logged.

    Raises:
        ConfigError: Something in it cannot be used.
        StoreError: The memory failed.
        EmbeddingError: The embedder failed.
    """
    live = catalogue.live
    given = {name: getattr(body, name) for name in _OPTIONS}
    options: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    selector = catalogue.selector(live.registry, **options, log=None)
    with Trace() as trace:
        if body.ask or not selector.has_model:
            result = await selector.select(body.request, episode_summaries=body.episodes, context=body.context)
        else:
            asked = SelectRequest(body.request, episode_summaries=body.episodes)
            (result,) = await selector.select_many([asked], context=body.context, ask=False)
    messages = _sent(trace.spans)
    seen: Seen = "sent" if messages else ""
    if not messages and len(result.candidates) > 1:
        messages = await _would_send(catalogue, live, body, result)
        seen = "unsent" if messages else ""
    return {
        "request": body.request,
        "explained": as_text(result.explain()),
        "decision": result.decision.to_dict(),
        "candidates": [_candidate(each, live, result.decision.chosen_ids) for each in result.decision.candidates],
        "chosen": [
            {"name": flow.name, "title": flow.display_name, "prompt": as_text(prompt)}
            for flow, prompt in zip(result.chosen_flows, result.chosen_prompts, strict=True)
        ],
        "unresolved": list(map(as_text, result.unresolved_ids)),
        "prompt": {
            "seen": seen,
            "messages": messages,
            "tokens": sum(estimate_tokens(each["content"]) for each in messages),
        },
        "trace": [span.as_json() for span in trace.spans],
        "generation": live.number,
    }


def _candidate(candidate: Candidate, live: Generation, chosen: Sequence[str]) -> Mapping[str, Any]:
    flow = live.registry.get(candidate.flow_id)
    return {
        "id": as_text(candidate.flow_id),
        "name": as_text(candidate.flow_name or candidate.flow_id),
        "title": flow.display_name if flow is not None else "",
        "description": as_text(candidate.description),
        "condition": as_text(candidate.condition),
        "score": candidate.score,
        "ranks": dict(candidate.ranks),
        "scores": dict(candidate.scores),
        "confidence": candidate.confidence,
        "is_live": flow is not None,
        "is_chosen": candidate.flow_id in chosen,
    }


def _sent(spans: Sequence[Span]) -> list[dict[str, str]]:
    """The messages of the last call of a model."""
    asked = [each for each in spans if each.kind == "chat" and each.content.get("messages")]
    return list(asked[-1].content["messages"]) if asked else []


class _Overhearing:
    """Stands where a model does, keeps what it is shown, and says that nothing fits."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []

    async def complete(self, messages: Sequence[Message]) -> Reply:
        self.messages = [{"role": each.role, "content": as_text(each.content)} for each in messages]
        return Reply(text="[]")


async def _would_send(
    catalogue: RunningCatalogue, live: Generation, body: TryBody, result: FlowSelectionResult
) -> list[dict[str, str]]:
    """What a model would be shown of these candidates, by the selector that would show it."""
    model = _Overhearing()
    selector = FlowSelector(model, live.registry, None, catalogue.agent_id, on_empty="none", max_reasks=0)
    await selector.select(body.request, list(result.candidates), body.episodes, context=body.context)
    return model.messages
