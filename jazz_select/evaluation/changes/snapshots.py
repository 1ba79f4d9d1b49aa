"""What two versions of a catalogue are both asked, and what each says: as data, which a process can tell another."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from jazz_select.evaluation.guard_code import guard_digest
from jazz_select.evaluation.route import Outcome, Policy, Query, Routed, led
from jazz_select.flow.base import BaseFlow, flows_digest
from jazz_select.json_values import plain
from jazz_select.ports import Embedder
from jazz_select.selector.candidates_stage import candidate_of
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.text import estimate_tokens
from jazz_select.values import Message, RecallResult, Reply

if TYPE_CHECKING:
    from jazz_select.evaluation.cases import Case  # the process of a side reads none, and need not wait for it


class Source(StrEnum):
    """Where a request comes from; the first of these that knows it says so."""

    CASE = "case"
    """Somebody said which flows are right."""
    LOGGED = "logged"
    """A user asked it."""
    EXAMPLE = "example"
    """An author wrote it, for a flow of either version."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A request that both versions are asked.

    Attributes:
        asked: The request, as it is put to a selector.
        source: Where it comes from.
        expect: The flows that are right: of a case its labels, none of them where nothing fits; of an example the flows
            that have it; None where nobody said.
    """

    asked: Query
    source: Source
    expect: tuple[str, ...] | None = None

    @cached_property
    def key(self) -> str:
        """The same for the same request with the same context, in every process."""
        return query_key(self.asked)


def query_key(asked: Query) -> str:
    """What a request is kept under: text, earlier turns and context count, and nothing else."""
    told = dumps([asked.request, asked.episodes, plain(asked.context)])
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def questions(
    cases: "Iterable[Case]", logged: Iterable[str | Query], *sides: Mapping[str, Mapping[str, Any]]
) -> tuple[Probe, ...]:
    """Everything that is asked, each request once, in the order of its sources.

    Args:
        cases: Labelled requests.
        logged: What users asked, with what was said before and what guards saw where that is known.
        sides: The flows of each version, by name, with their fields.
    """
    asked = [Probe(asked=Query.of(case), source=Source.CASE, expect=case.expect) for case in cases]
    for each in logged:
        told = each if isinstance(each, Query) else Query(request=each)
        asked.append(Probe(asked=told, source=Source.LOGGED))
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for flows in sides:
        for name, fields in flows.items():
            for example in fields.get("examples") or ():
                owners[str(example)].add(name)
    for example in sorted(owners):
        expect = tuple(sorted(owners[example]))
        asked.append(Probe(asked=Query(request=example), source=Source.EXAMPLE, expect=expect))
    found: dict[str, Probe] = {}
    for question in asked:
        if question.asked.request.strip() or question.asked.episodes:
            found.setdefault(question.key, question)
    return tuple(found.values())


GUARD = "guard"
"""The field that says whether a flow asks `available`, and by which code: a digest, since code is no data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideState:
    """One version of a catalogue.

    Attributes:
        label: Which version, in words.
        flows: What each flow says, by its name: field to value.
        routes: Where each request leads, by `Probe.key`.
        tokens: About how many tokens the prompt of a model would take, of those requests for which that was found out;
            0 where no model is asked.
        notes: What there is to know of how it was made.
    """

    label: str
    flows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    routes: Mapping[str, Routed] = field(default_factory=dict[str, Routed])
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()


def describe_flows(registry: Mapping[str, BaseFlow]) -> dict[str, dict[str, Any]]:
    """What each flow says, by its name, as plain JSON types."""
    told: dict[str, dict[str, Any]] = {}
    for flow in sorted(registry.values(), key=lambda each: each.name):
        own = flow.outline()
        parts = [f"{part.name}: {part.when}" if part.when else part.name for part in own.parts]
        fields = flow.fields() | {"parts": parts, GUARD: guard_digest(flow)}
        told[flow.name] = {name: plain(value) for name, value in fields.items()}
    return told


def snapshot_digest(registry: Mapping[str, BaseFlow], sources: str = "") -> str:
    """Of all that decides where requests lead: what flows say and, where any has a guard, the code in `sources`."""
    said = flows_digest(registry.values())
    if not any(flow.has_guard for flow in registry.values()):
        return said
    return hashlib.sha256(f"{said} guards {sources}".encode(errors="surrogatepass")).hexdigest()


async def snapshot(  # noqa: PLR0913 - options with a name
    registry: Mapping[str, BaseFlow],
    asked: Sequence[Probe],
    *,
    label: str = "",
    policy: Policy | None = None,
    embedder: str | Embedder = "auto",
    language: str = "english",
    cache: Path | None = None,
) -> SideState:
    """A catalogue in this process, as data.

    Args:
        registry: The flows.
        asked: The requests, as `questions` makes them: both versions have to be asked the same.
        label: Which version it is, in words.
        policy: How the deployment selects.
        embedder: As for `ProceduralMemory.open`.
        language: Likewise.
        cache: A folder where the index is kept for the next time.

    Raises:
        EmbeddingError: The embedder failed.
        ConfigError: There is no such embedder or language.
    """
    found: list[Routed] = []
    if registry and asked:
        requests = [each.asked for each in asked]
        found = await led(registry, requests, policy, embedder=embedder, language=language, cache=cache)
    by_key = {each.key: route for each, route in zip(asked, found, strict=False)}
    return SideState(label=label, flows=describe_flows(registry), routes=by_key)


async def prompt_tokens(registry: Mapping[str, BaseFlow], routed: Sequence[tuple[Query, Routed]]) -> list[int]:
    """About how many tokens the prompt for each of these requests takes, given its route; 0 where no model is asked.

    The prompts are those of a `FlowSelector` with a model that counts them and chooses nothing.
    """
    counter = _Counter()
    selector = FlowSelector(
        counter, registry, on_empty="none", model_options=ModelOptions(max_reasks=0), timeout_s=None
    )
    by_name = {flow.name: flow for flow in registry.values()}
    counted: list[int] = []
    for asked, route in routed:
        counter.tokens = 0
        offered = [by_name[name] for name in route.candidates if name in by_name]
        if route.outcome is Outcome.ASKED and offered:
            # With a size of its own, as recall gives one: then a single candidate is shown to the model as well.
            shown = RecallResult((candidate_of(flow).as_metadata() for flow in offered), sized="as the route has it")
            await selector.select(asked.request, shown, asked.episodes, context=asked.context)
        counted.append(counter.tokens)
    return counted


class _Counter:
    """A model that counts what it is asked."""

    def __init__(self) -> None:
        self.tokens = 0

    async def complete(self, messages: Sequence[Message]) -> Reply:
        self.tokens += sum(estimate_tokens(each.content) for each in messages)
        return Reply(text="[]")


def dumps(value: object) -> bytes:
    """JSON values and dataclasses as one line of JSON, whatever texts are in it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # halves of surrogate pairs, which a flow or a request may have
        return json.dumps(value, default=asdict, sort_keys=True).encode()


def loads(line: bytes) -> Any:
    """What `dumps` wrote."""
    try:
        return orjson.loads(line)
    except ValueError:
        return json.loads(line)
