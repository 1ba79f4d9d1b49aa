"""The requests that two versions of a catalogue are compared on, each version as data, and parts of a change undone."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import orjson

from jazz_select.evaluation.guard_code import guard_digest
from jazz_select.evaluation.route import Outcome, Query, Routed
from jazz_select.flow.base import BaseFlow, Flow, FlowRegistry, flows_digest
from jazz_select.json_values import is_array, plain
from jazz_select.selector.policy import Policy
from jazz_select.selector.prompt import candidate_of
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.text import estimate_tokens
from jazz_select.values import Message, RecallResult

if TYPE_CHECKING:
    from jazz_select.evaluation.cases import Case  # the process of a side reads none, and need not wait for it


class Source(StrEnum):
    """The source of a request; the first one that has it counts."""

    CASE = "case"
    """A labelled request."""
    LOGGED = "logged"
    """A user's request."""
    EXAMPLE = "example"
    """An example of a flow of either version."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A request that both versions are asked, with its right flows; None if unknown.

    These are the labels of a case, empty if nothing fits, or the flows that have the text as an example.
    """

    asked: Query
    source: Source
    expect: tuple[str, ...] | None = None

    @property
    def request(self) -> str:
        """The request."""
        return self.asked.request

    @property
    def episodes(self) -> tuple[str, ...]:
        """Summaries of its earlier turns."""
        return self.asked.episodes

    @cached_property
    def key(self) -> str:
        """An identifier of the request and its context, equal in every process."""
        return query_key(self.asked)


def query_key(asked: Query) -> str:
    """Return the key of a request: its text, earlier turns and context."""
    content = dumps([asked.request, asked.episodes, plain(asked.context)])
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def questions(
    cases: "Iterable[Case]", logged: Iterable[str | Query], *sides: Mapping[str, Mapping[str, Any]]
) -> tuple[Probe, ...]:
    """Return the cases, the requests of users, and the examples of each side's flows: each request once."""
    asked = [Probe(asked=Query.from_case(case), source=Source.CASE, expect=case.expect) for case in cases]
    for each in logged:
        query = each if isinstance(each, Query) else Query(request=each)
        asked.append(Probe(asked=query, source=Source.LOGGED))
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for flows in sides:
        for name, fields in flows.items():
            for example in fields.get("examples") or ():
                owners[str(example)].add(name)
    for example in sorted(owners):
        expect = tuple(sorted(owners[example]))
        asked.append(Probe(asked=Query(request=example), source=Source.EXAMPLE, expect=expect))
    # The first source of a request counts: a case before the log, and the log before an example.
    found: dict[str, Probe] = {}
    for question in asked:
        if question.asked.request.strip() or question.asked.episodes:
            found.setdefault(question.key, question)
    return tuple(found.values())


GUARD = "guard"
"""The field with a digest of the guard's code; empty without a guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideState:
    """One version of a catalogue; estimated prompt tokens are 0 for requests that ask no model."""

    label: str
    flows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    routes: Mapping[str, Routed] = field(default_factory=dict[str, Routed])
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()


def describe_flows(registry: Mapping[str, BaseFlow]) -> dict[str, dict[str, Any]]:
    """Return the fields of each flow, by its name, as plain JSON types."""
    described: dict[str, dict[str, Any]] = {}
    for flow in sorted(registry.values(), key=lambda each: each.name):
        own = flow.outline()
        parts: list[str] = []
        for part in own.parts:
            parts.append(f"{part.name}: {part.when}" if part.when else part.name)
        fields = flow.fields() | {"parts": parts, GUARD: guard_digest(flow)}
        described[flow.name] = {name: plain(value) for name, value in fields.items()}
    return described


def snapshot_digest(registry: Mapping[str, BaseFlow], sources: str = "") -> str:
    """Return a digest of all that decides routes: the flows and, if any has a guard, the code digest `sources`."""
    digest = flows_digest(registry.values())
    if not any(flow.has_guard for flow in registry.values()):
        return digest
    return hashlib.sha256(f"{digest} guards {sources}".encode(errors="surrogatepass")).hexdigest()


ROUTING_FIELDS: Final = ("description", "condition", "desired_effects", "examples", "aliases", "priority")
"""Fields that affect routing and can be set."""
Fields = Mapping[str, Any]
Undone = Mapping[str, Fields | None]
"""By a flow's name in the later version: fields to set, or None to remove it; a new name adds a flow."""


def undo_parts(registry: Mapping[str, BaseFlow], parts: Undone) -> FlowRegistry:
    """Return a catalogue with parts of a change undone; the given flows are not changed."""
    made = FlowRegistry(min_examples=0)
    for flow in registry.values():
        fields = parts.get(flow.name, {})
        if fields is None:
            continue
        changed = copy(flow) if fields else flow
        for name, value in fields.items():
            if name == GUARD:
                # The former code is not there, so its result is forced.
                changed.available = lambda _, opened=value: opened  # pyright: ignore[reportAttributeAccessIssue]
            else:
                setattr(changed, name, tuple(value) if is_array(value) else value)
        made.register(changed)
    known = {flow.name for flow in registry.values()}
    for name, fields in parts.items():
        if name not in known and fields is not None:
            own = {field: fields[field] for field in ROUTING_FIELDS if field in fields}
            Flow(name=name, registry=made, **own)
    return made


async def prompt_tokens(registry: Mapping[str, BaseFlow], routed: Sequence[tuple[Query, Routed]]) -> list[int]:
    """Return the estimated tokens of the prompt for each routed request; 0 if no model is asked.

    The prompts are those of a `FlowSelector` with a model that counts them and chooses nothing.
    """
    tokens = 0

    async def count(messages: Sequence[Message]) -> str:
        nonlocal tokens
        tokens += sum(estimate_tokens(each.content) for each in messages)
        return "[]"

    selector = FlowSelector(
        count, registry, policy=Policy(on_empty="none"), model_options=ModelOptions(max_reasks=0), timeout_s=None
    )
    by_name = {flow.name: flow for flow in registry.values()}
    counted: list[int] = []
    for asked, route in routed:
        tokens = 0
        offered = [by_name[name] for name in route.candidates if name in by_name]
        if route.outcome is Outcome.ASKED and offered:
            # `sized` has a single candidate shown to the model, too.
            shown = RecallResult((candidate_of(flow).as_metadata() for flow in offered), sized="as the route has it")
            await selector.select(asked.request, shown, asked.episodes, context=asked.context)
        counted.append(tokens)
    return counted


def dumps(value: object) -> bytes:
    """Return JSON values and dataclasses as one line of JSON; texts may contain surrogates."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # lone surrogates
        return json.dumps(value, default=asdict, sort_keys=True).encode()
