"""`evaluate`: route labelled requests over an index, ask a model if there is one, and score the results."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from jazz_select.arguments import Constraint, Seconds, checked
from jazz_select.chat.models import DecisionModelLike, ModelLike
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, Cases
from jazz_select.evaluation.index import AGENT, indexed
from jazz_select.evaluation.judged import Judged, decided_alone, evidence_of
from jazz_select.evaluation.route import DEPTH, Query, RouteOptions, routes
from jazz_select.evaluation.scores import DEPTHS, Evaluation
from jazz_select.flow.base import BaseFlow
from jazz_select.ports import Embedder
from jazz_select.selector.candidates_stage import side_by_side
from jazz_select.selector.forecast import LoggedAlone, forecast, logged_alone
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.threads import in_thread

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.outcomes import OutcomeLog

_AT_ONCE = 8
"""Concurrent calls of a model."""


@checked
async def evaluate(  # noqa: PLR0913, PLR0914 - options with a name, and a name for each thing that is measured
    cases: Iterable[Case] | Cases,
    registry: Mapping[str, BaseFlow],
    *,
    routing: RouteOptions | None = None,
    model: ModelLike | None = None,
    decider: DecisionModelLike | None = None,
    selector: FlowSelector | None = None,
    memory: "ProceduralMemory | None" = None,
    agent_id: str | None = None,
    embedder: str | Embedder = "auto",
    language: str = "english",
    cache: Path | None = None,
    at: Annotated[float, Constraint("a share above 0 and at most 1, such as .99", gt=0, le=1)] = 0.99,
    depths: Sequence[int] = DEPTHS,
    timeout_s: Seconds | None = 20.0,
    log: "OutcomeLog | None" = None,
    log_agent_id: str = "support",
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Evaluate how well flows are found on labelled requests.

    Args:
        cases: The cases of `load_cases` or `read_cases`.
        registry: The flows.
        routing: How the deployment selects; None uses the defaults.
        model: The model that chooses; None evaluates recall alone. Each case may cost a call.
        decider: A decision model, asked first; it decides from confidence 1 - `max_error` of the policy on, or .98.
        selector: A selector for the second stage, instead of one made of `routing` and `model`.
        memory: An existing index of `agent_id`; None indexes the given flows.
        agent_id: The owner of the flows in `memory`; not used without one.
        embedder: For a new index, as for `ProceduralMemory.open`.
        language: For a new index, as for `ProceduralMemory.open`.
        cache: A folder where a new index is kept.
        at: The accuracy that an error budget must keep for requests decided without a model, above 0 and at most 1.
        depths: The ranks, from 1 to 10, at which recall is measured.
        timeout_s: Timeout of the model for one case, in seconds.
        log: A log of outcomes, for the share that was decided alone in it.
        log_agent_id: The agent whose entries of the log count.
        progress: Called with (judged, all) as the model answers.

    Raises:
        ConfigError: An argument is invalid, such as an empty list of cases.
        StoreError: The memory failed.
        EmbeddingError: The embedder failed.
        OutcomeLogError: The log cannot be read.
    """
    given = tuple(cases)
    has_model = model is not None or decider is not None
    if not given:
        raise ConfigError("there are no cases to judge by")
    if not registry:
        raise ConfigError("there are no flows to judge: pass a registry that has some")
    if not depths or not all(1 <= depth <= DEPTH for depth in depths):
        raise ConfigError(f"depths must be places from 1 to {DEPTH}, got {list(depths)!r:.80}")
    if has_model and selector is not None:
        raise ConfigError("pass either a model or a selector, which has one")
    if memory is not None and agent_id is None:
        msg = "an index holds the flows of many agents: say of which with agent_id=…, as it was synced"
        raise ConfigError(msg)
    routing = routing or RouteOptions()
    owner = agent_id if memory is not None and agent_id else AGENT
    logged = LoggedAlone() if log is None else await in_thread(logged_alone, log, log_agent_id)
    if memory is None:
        opened = indexed(registry, embedder=embedder, language=language, cache=cache)
    else:
        opened = nullcontext(memory)  # the caller's, who closes it
    own: FlowSelector | None = None
    async with opened as used:
        asked = [Query.from_case(case) for case in given]
        found = await routes(registry, used, owner, asked, routing)
        chosen: Sequence[FlowSelectionResult | None] = [None] * len(given)
        if has_model:
            own = FlowSelector(
                model, registry, used, owner, timeout_s=timeout_s, decider=decider, **routing.for_selector()
            )
        selector = own or selector
        if selector is not None:
            async with own or nullcontext():
                chosen = await _select_all(selector, asked, progress)
        identity = used.embedder
        confidences, caveat = await used.leave_one_out_confidence(owner)
        thresholds = await used.thresholds(owner)
    results = zip(given, found, chosen, strict=True)
    judged = tuple(Judged(case=case, route=route, chosen=choice) for case, route, choice in results)
    estimate = forecast(
        confidences,
        routing.policy if selector is None else selector.policy,
        list(registry.values()),
        thresholds=thresholds,
        caveat=caveat,
        shares_budget=selector is not None and selector.has_decider,
        evidence=evidence_of(judged),
        measured=decided_alone(judged),
        logged=logged,
    )
    return Evaluation(
        judged=judged,
        forecast=estimate,
        routing=routing,
        agent_id=owner,
        embedder=identity,
        flows=len(registry),
        at=at,
        depths=tuple(sorted(set(depths))),
        model="" if selector is None else _name(model or decider or selector),
        problems=cases.problems if isinstance(cases, Cases) else (),
    )


async def _select_all(
    selector: FlowSelector, asked: Sequence[Query], progress: Callable[[int, int], None] | None
) -> Sequence[FlowSelectionResult]:
    calls = [
        partial(selector.select, each.request, episode_summaries=each.episodes, context=each.context) for each in asked
    ]
    return await side_by_side(calls, at_once=_AT_ONCE, progress=progress)


def _name(model: object) -> str:
    if isinstance(model, str):
        return model
    name = getattr(model, "model", None) or getattr(model, "__name__", None)
    return name if isinstance(name, str) else type(model).__name__
