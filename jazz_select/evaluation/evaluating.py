"""From cases and flows to an evaluation: over an index of its own or one that is there, with a model or without."""

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
from jazz_select.evaluation.judged import Judged
from jazz_select.evaluation.route import DEPTH, Policy, Query, routes
from jazz_select.evaluation.scores import DEPTHS, Evaluation
from jazz_select.flow.base import BaseFlow
from jazz_select.ports import Embedder
from jazz_select.selector.candidates_stage import side_by_side
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory

_AT_ONCE = 8
"""Requests that a model is asked about at the same time."""


@checked
async def evaluate(  # noqa: PLR0913 - options with a name
    cases: Iterable[Case] | Cases,
    registry: Mapping[str, BaseFlow],
    *,
    policy: Policy | None = None,
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
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """How well these flows are found, on labelled requests.

    Args:
        cases: The requests with their labels, as `load_cases` or `read_cases` give them.
        registry: The flows.
        policy: How the deployment selects; the recommended way where None.
        model: Who chooses where there is something to choose; None for recall alone. Each case may cost a call.
        decider: A decision model that is asked before it, and decides from 1 - `max_error` of the policy on, or .98.
        selector: Who selects in the second stage instead of one that is made of `policy` and `model`.
        memory: An index that is there, of `agent_id`; where None one is made of the flows as they are.
        agent_id: Whose flows they are in `memory`; without one it says nothing.
        embedder: For an index of its own, as for `ProceduralMemory.open`.
        language: Likewise.
        cache: A folder where such an index is kept for the next time.
        at: The accuracy that thresholds are to keep, of what is decided without a model; above 0, at most 1.
        depths: The places, from 1 to 10, within which right flows are looked for.
        timeout_s: How long the model may take for one case, in seconds.
        progress: Called with (cases that the model was asked about, all of them).

    Raises:
        ConfigError: An argument cannot work, such as no case at all.
        StoreError: The memory failed.
        EmbeddingError: The embedder failed.
    """
    given = tuple(cases)
    models = [each for each in (model, decider) if each is not None]
    wrong = {
        "there are no cases to judge by": not given,
        "there are no flows to judge: pass a registry that has some": not registry,
        f"depths are places from 1 to {DEPTH}, not {list(depths)!r:.80}": not depths
        or not all(1 <= depth <= DEPTH for depth in depths),
        "pass either a model or a selector, which has one": models and selector is not None,
        "an index holds the flows of many agents: say of which with agent_id=…, as it was synced": memory is not None
        and agent_id is None,
    }
    for problem, is_so in wrong.items():
        if is_so:
            raise ConfigError(problem)
    policy, whose = policy or Policy(), agent_id if memory is not None and agent_id else AGENT
    index = indexed(registry, embedder=embedder, language=language, cache=cache)
    own: FlowSelector | None = None
    async with index if memory is None else nullcontext(memory) as used:
        asked = [Query.of(case) for case in given]
        found = await routes(registry, used, whose, asked, policy)
        chosen: Sequence[FlowSelectionResult | None] = [None] * len(given)
        if models:
            own = FlowSelector(model, registry, used, whose, timeout_s=timeout_s, decider=decider, **policy.options())
        selector = own or selector
        if selector is not None:
            calls = [
                partial(selector.select, each.request, episode_summaries=each.episodes, context=each.context)
                for each in asked
            ]
            async with own or nullcontext():
                chosen = await side_by_side(calls, at_once=_AT_ONCE, progress=progress)
        identity = used.embedder
    return Evaluation(
        judged=tuple(
            Judged(case=case, route=route, chosen=choice)
            for case, route, choice in zip(given, found, chosen, strict=True)
        ),
        policy=policy,
        agent_id=whose,
        embedder=identity,
        flows=len(registry),
        at=at,
        depths=tuple(sorted(set(depths))),
        model="" if selector is None else _name(model or decider or selector),
        problems=cases.problems if isinstance(cases, Cases) else (),
    )


def _name(model: object) -> str:
    """What a model is called, as far as it says."""
    said = model if isinstance(model, str) else getattr(model, "model", None) or getattr(model, "__name__", None)
    return said if isinstance(said, str) else type(model).__name__
