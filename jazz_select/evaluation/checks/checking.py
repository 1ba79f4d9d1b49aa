"""`check`: all findings of a catalogue, in order of harm."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from jazz_select.arguments import check_argument
from jazz_select.errors import ConfigError, FlowError, FlowLoadError, FlowValidationError, JazzSelectError
from jazz_select.evaluation.cases import Case, each_case, entries_of, repeats
from jazz_select.evaluation.checks.alone import expected_alone
from jazz_select.evaluation.checks.findings import (
    KINDS,
    NOWHERE,
    Evidence,
    Finding,
    Findings,
    Place,
    Places,
    relative_path,
    worst_first,
)
from jazz_select.evaluation.checks.guard_checks import guards
from jazz_select.evaluation.checks.nearness import Field, Neighbours, against_recall, nearness
from jazz_select.evaluation.checks.safety import UNSAFE, safety
from jazz_select.evaluation.checks.structure import has_definition, of_faults, structure
from jazz_select.evaluation.checks.wording import Examples, wording
from jazz_select.evaluation.overlay import Overlay, load_overlay, taught
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.flow_loading import survey
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.ports import Embedder
from jazz_select.routing.tools.skill_tools import with_skill_tools
from jazz_select.routing.tools.sources import toolbox_of
from jazz_select.routing.tools.tool_loading import load_tools
from jazz_select.selector.forecast import Forecast, logged_alone
from jazz_select.selector.policy import PolicyLike, policy_of
from jazz_select.text import beginning, misspelt

if TYPE_CHECKING:
    from jazz_select.outcomes import OutcomeLog
    from jazz_select.routing.tools.sources import ToolsLike
    from jazz_select.routing.tools.tool import Tool

_SHOWN = 80
Placed = tuple[Case, Place]
"""A case and its place."""


def read(given: Iterable[Case | str | Path]) -> tuple[list[Placed], list[Finding]]:
    """Return the valid cases, given directly or in files, and findings for the others."""
    cases: list[Placed] = []
    wrong: list[Finding] = []
    for each in given:
        if isinstance(each, Case):
            cases.append((each, NOWHERE))
            continue
        file = Path(each)
        name = relative_path(str(file))
        try:
            entries = entries_of(file)
        except ConfigError as error:
            remedy = "Mend the file; none of its cases was compared with the examples."
            wrong.append(Finding(code="unreadable-file", at=Place(name), what=str(error), remedy=remedy))
            continue
        for problem in entries.problems:
            wrong.append(Finding(code="invalid-case", at=Place(name), what=problem, remedy=_FORM))
        for entry, outcome in each_case(entries):
            at = Place(name, entry.line or 0)
            if isinstance(outcome, Case):
                cases.append((outcome, at))
            else:
                what = f"A case is wrong: {'; '.join(outcome)}."
                wrong.append(Finding(code="invalid-case", at=at, what=what, remedy=_FORM))
    return cases, wrong


_FORM = "A case has request: and expect:, the names of the flows that are right, or none where no flow fits."


def leaks(
    cases: Sequence[Placed], flows: Sequence[BaseFlow], broken: Iterable[str], places: Places
) -> Iterator[Finding]:
    """Yield the findings of cases against a catalogue; a case may expect `broken` flows, which did not load."""
    known = {flow.name for flow in flows} | set(broken)
    for case, at in cases:
        for name in dict.fromkeys(case.expect):
            if name in known:
                continue
            what = f"{_quote_request(case)} expects {misspelt(name, sorted(known))}, and there is no such flow."
            remedy = "Correct the name, or load the flows that the cases are about."
            evidence = (Evidence(text=case.request, other=name),)
            yield Finding(code="invalid-case", at=at, what=what, remedy=remedy, evidence=evidence)
    yield from _find_repeated(cases)
    yield from _find_leaked(cases, flows, places)


def _quote_request(case: Case) -> str:
    return f"“{beginning(case.request, _SHOWN)}”"


def _find_repeated(cases: Sequence[Placed]) -> Iterator[Finding]:
    """Yield cases with the request of an earlier one and other labels, or with its id."""
    for place, before, field in repeats([case for case, _ in cases]):
        (case, at), (earlier, there) = cases[place], cases[before]
        if field == "expect":
            label = ", ".join(case.expect) or "no flow"
            earlier_label = ", ".join(earlier.expect) or "no flow"
            where = f"in line {there.line} of {there.file}" if there.line else "earlier"
            what = f"{_quote_request(case)} expects {label} here, and {earlier_label} {where}."
            remedy = "Decide which, or have the request say what decides."
            flows = tuple(sorted({*earlier.expect, *case.expect}))
            evidence = (Evidence(text=case.request),)
            yield Finding(code="contradicting-cases", flows=flows, at=at, what=what, remedy=remedy, evidence=evidence)
        elif field == "id":
            both = f"{_quote_request(case)} and {_quote_request(earlier)}"
            where = f" ({there})" if there.file else ""
            what = f"Two cases have the id {beginning(case.id, _SHOWN)!r}: {both}{where}."
            remedy = "Give each an id of its own: reports and tests are known by it."
            evidence = (Evidence(text=case.request, beside=earlier.request),)
            yield Finding(code="duplicate-id", at=at, what=what, remedy=remedy, evidence=evidence)


def _find_contradicted(cases: Sequence[Placed], field: Field, asked: Neighbours) -> Iterator[Finding]:
    judged: list[Placed] = []
    for case, at in cases:
        # With earlier messages it is not the request that is embedded here.
        if case.expect and not case.episodes and all(map(field.holds, case.expect)):
            judged.append((case, at))
    requests = [case.request for case, _ in judged]
    labels = [case.expect for case, _ in judged]
    for place, first in against_recall(field, asked, requests, labels):
        case, at = judged[place]
        what = f"{_quote_request(case)} expects {', '.join(case.expect)}, and recall has {first} first by far."
        remedy = "Correct the label, or give the flow that is right examples that say so."
        evidence = (Evidence(text=case.request, flow=case.expect[0], other=first),)
        names = tuple(sorted({*case.expect, first}))
        yield Finding(code="contradicted-label", flows=names, at=at, what=what, remedy=remedy, evidence=evidence)


def _find_leaked(cases: Sequence[Placed], flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    examples = Examples(flows)
    for case, case_place in cases:
        if case.episodes:  # earlier messages make it another request
            continue
        leaked = examples.same.find(case.request)
        found = leaked or examples.near.find(case.request)
        if not found:
            continue
        spot = examples.spots[found[0]]
        place, name = places.locate(*spot), spot.flow.name
        if leaked:
            code, relation = "leaked-case", "is an example"
        else:
            code, relation = "near-leak", f"asks what {spot.quoted} does, an example"
        where = f" ({place})" if place.line else ""
        what = f"{_quote_request(case)} is asked as a case, and {relation} of {name}{where}."
        remedy = "Take it out of one of the two: what a catalogue was shown measures nothing."
        at = case_place if case_place.file else place
        evidence = (Evidence(text=case.request, beside=spot.text, other=name),)
        yield Finding(code=code, flows=(name,), at=at, what=what, remedy=remedy, evidence=evidence)


BY_MEANING = frozenset(
    {
        *("near-twins", "misplaced-example", "unreachable-flow", "broad-example", "greedy-flow", "contradicting-text"),
        "contradicted-label",
    }
)
"""The kinds that need embeddings."""


def check(  # noqa: PLR0913, PLR0914 - one step for each group of checks
    source: str | Path | Mapping[str, BaseFlow],
    *,
    tools: "ToolsLike | str | Path | None" = None,
    cases: Iterable[Case | str | Path] | str | Path = (),
    embedder: str | Embedder = "auto",
    language: str = "english",
    min_examples: int = 5,
    only: Collection[str] = (),
    ignore: Iterable[str] = (),
    learned: Overlay | Path | None = None,
    allow_modules: Collection[str] = (),
    policy: PolicyLike = "recommended",
    has_decider: bool = False,
    log: "OutcomeLog | None" = None,
    agent_id: str = "support",
) -> Findings:
    """Find the problems of a catalogue, and tell what it can decide without a chat model.

    No index is needed, and nothing is written. A flow that cannot be loaded is a finding; the others are checked all
    the same. `forecast` of the result is no finding.

    Args:
        source: As for `load_flows`, or a registry.
        tools: The tools, or a source for `load_tools`; with None, flows may name any.
        cases: Labelled requests, or files of them; they must not be examples too.
        embedder: As for `ProceduralMemory.open`; preferably the deployment's.
        language: As for `ProceduralMemory.open`.
        min_examples: Distinct examples that a flow needs. With 0, for catalogues of bare tools, none is required, and
            a flow is thin compared with the others.
        only: Codes of the kinds to report; all of `KINDS` by default.
        ignore: Accepted findings: a code, or a code with flows, such as `near-twins:exchange_item,refund_order`. An
            entry without a finding is reported as `unused-ignore`, unless it names only flows of other catalogues.
        learned: What was learned, or the file that `learn` writes; the flows are checked with its live version.
        allow_modules: As for `load_tools`.
        policy: The policy that the forecast is for; the deployment's.
        has_decider: Whether a decision model follows, which takes a part of the error budget.
        log: A log of outcomes, for the share that was decided alone in it.
        agent_id: The agent whose entries of the log count.

    Raises:
        FlowLoadError: The source does not exist.
        ConfigError: A code, the embedder, the language or the policy is unknown, or `learned` cannot be read.
        EmbeddingError: The embedder failed.
        OutcomeLogError: The log cannot be read.
    """
    began = perf_counter()
    check_argument("policy", policy, PolicyLike)
    accepted = [_parse_accepted(each) for each in dict.fromkeys(ignore)]
    wanted = frozenset(map(_code, only)) or frozenset(KINDS)
    places = Places()
    catalogue = _load_catalogue(source, min_examples, learned)
    flows, faults = list(catalogue.registry.values()), catalogue.faults
    notes = list(catalogue.notes)
    placed, found = read([cases] if isinstance(cases, str | Path) else cases)
    found += of_faults(faults, places)
    box, wrong = _toolbox(tools, allow_modules)
    if box is not None:
        box = with_skill_tools(box, flows, scripts=True)
    found += (*wrong, *structure(flows, box, places))
    selectable = [flow for flow in flows if not flow.only_called]
    found += wording(selectable, min_examples=min_examples, places=places)
    if wanted & UNSAFE:
        found += safety(flows, places)
    broken = {fault.flow for fault in faults if isinstance(fault, FlowValidationError)}
    found += leaks(placed, flows, broken, places)
    if tools is None:
        notes += _unchecked_tools(flows)
    whole = [flow for flow in selectable if has_definition(flow)]
    guarded = [flow for flow in flows if has_definition(flow)]
    found += guards(guarded, [case.context for case, _ in placed if case.context], places)
    encoder = Encoder(open_embedder(embedder), Lexical(language)) if wanted & BY_MEANING else None
    estimate: Forecast | None = None
    if encoder is not None:
        field = Field(whole, encoder) if whole else None
        if field is not None:
            estimate = expected_alone(
                whole,
                field.rows,
                encoder,
                policy_of(policy),
                shares_budget=has_decider,
                cases=[case for case, _ in placed],
                logged=None if log is None else logged_alone(log, agent_id),
            )
        if field is None or field.neighbours is None:
            notes.append("the similarity of flows was not checked: there are too few flows and examples to compare")
        else:
            found += nearness(field, field.neighbours, places)
            found += _find_contradicted(placed, field, field.neighbours)
    # An `ignore` entry that names only flows of other catalogues does not count as unused here.
    here = {flow.name for flow in flows} | broken
    concerned = [(code, names) for code, names in accepted if not names or names & here]
    shown, hidden = _split_accepted(worst_first(_without_echoes(found)), concerned, wanted)
    return Findings(
        found=shown,
        accepted=hidden,
        flows=len(flows),
        cases=len(placed),
        embedder="" if encoder is None else encoder.embedder.identity,
        notes=tuple(notes),
        forecast=estimate,
        took_s=perf_counter() - began,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Catalogue:
    """The flows that could be loaded, and what is wrong with the others."""

    registry: Mapping[str, BaseFlow]
    """It has to live as long as its flows are checked: they look up their parts in it, and do not keep it alive."""
    faults: Sequence[FlowError]
    notes: Sequence[str]


def _load_catalogue(
    source: str | Path | Mapping[str, BaseFlow], min_examples: int, learned: Overlay | Path | None
) -> _Catalogue:
    registry: Mapping[str, BaseFlow]
    faults: Sequence[FlowError] = ()
    if isinstance(source, str | Path):
        surveyed = survey(source, min_examples=min_examples)
        registry, faults = surveyed.registry, surveyed.faults
    else:
        registry = source
    notes: Sequence[str] = ()
    if learned is not None:
        overlay = learned if isinstance(learned, Overlay) else load_overlay(learned, must_exist=True)
        made = taught(registry, overlay.version("live"))
        registry, notes = made.registry, made.notes
    if not registry and not faults:
        raise FlowLoadError(str(source), "there are no flows in it; define one, or point to another place")
    return _Catalogue(registry=registry, faults=faults, notes=notes)


def _toolbox(
    tools: "ToolsLike | str | Path | None", allow_modules: Collection[str]
) -> tuple["Mapping[str, Tool] | None", list[Finding]]:
    """Return the tools by name; None and a finding if their source cannot be read."""
    if tools is None:
        return None, []
    try:
        if isinstance(tools, str | Path):
            return load_tools(tools, allow_modules=allow_modules), []
        return toolbox_of(tools), []
    except JazzSelectError as error:
        remedy = "Mend it; until then nobody checks whether the tools that flows name exist."
        found: list[Finding] = []
        for each in (error, *error.others):
            what = f"The tools cannot be loaded: {each}"
            found.append(Finding(code="unreadable-file", what=what, remedy=remedy))
        return None, found


def _unchecked_tools(flows: Sequence[BaseFlow]) -> list[str]:
    count = sum(bool(set(flow.own_tools) - set(flow.optional_tools)) for flow in flows)
    if not count:
        return []
    which = "1 flow names" if count == 1 else f"{count} flows name"
    return [f"it was not checked whether the tools that {which} exist: pass tools=… (--tools)"]


def _without_echoes(found: Sequence[Finding]) -> list[Finding]:
    """Drop findings that repeat another one, such as thin examples of a flow that did not load."""
    invalid: set[tuple[tuple[str, ...], Place]] = set()
    copies: set[tuple[frozenset[str], str]] = set()
    for each in found:
        if each.code == "invalid-flow":
            invalid.add((each.flows, each.at))
        elif each.code in {"shared-example", "near-copies"}:
            for evidence in each.evidence:
                copies.add((frozenset(each.flows), evidence.text))
                copies.add((frozenset(each.flows), evidence.beside))
    kept: list[Finding] = []
    for each in found:
        if each.code in {"thin-examples", "broken-chain"} and (each.flows, each.at) in invalid:
            continue
        # If two flows share an example, it is necessarily misplaced in one of them: that was reported already.
        if each.code == "misplaced-example" and (frozenset(each.flows), each.evidence[0].text) in copies:
            continue
        kept.append(each)
    return kept


def _split_accepted(
    found: Sequence[Finding], accepted: Sequence[tuple[str, frozenset[str]]], wanted: Collection[str]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings to show and the accepted ones; entries of `ignore` without a finding are shown."""
    shown: list[Finding] = []
    hidden: list[Finding] = []
    used: set[tuple[str, frozenset[str]]] = set()
    for each in found:
        if each.code not in wanted:
            continue
        # An entry is the kind alone, or the kind and the flows; either accepts the finding.
        entries = {(each.code, frozenset[str]()), (each.code, frozenset(each.flows))}.intersection(accepted)
        used.update(entries)
        if entries:
            hidden.append(each)
        else:
            shown.append(each)
    for code, flows in accepted:
        if (code, flows) not in used and code in wanted and "unused-ignore" in wanted:
            key = f"{code}:{','.join(sorted(flows))}" if flows else code
            what = f"`ignore` has {key}, and there is no such finding."
            remedy = "Take it out of `ignore`, so that it hides nothing later."
            shown.append(Finding(code="unused-ignore", flows=tuple(sorted(flows)), what=what, remedy=remedy))
    return tuple(shown), tuple(hidden)


def _parse_accepted(given: str) -> tuple[str, frozenset[str]]:
    code, colon, flows = given.partition(":")
    names = frozenset(name.strip() for name in flows.split(",") if name.strip())
    if colon and not names:
        msg = f"{given!r:.80} names no flow after the colon; write a code, or a code with flows: near-twins:one,other"
        raise ConfigError(msg)
    return _code(code), names


def _code(given: str) -> str:
    code = given.strip()
    if code not in KINDS:
        raise ConfigError(f"there is no kind of finding {misspelt(code, list(KINDS))}; there are {', '.join(KINDS)}")
    return code
