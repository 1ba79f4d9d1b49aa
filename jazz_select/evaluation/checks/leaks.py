"""Labelled requests beside a catalogue: wrong ones, contradicting ones, and those that stand among the examples."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, each_case, entries_of
from jazz_select.evaluation.checks.findings import Evidence, Finding, Places, shown
from jazz_select.evaluation.checks.wording import Sames
from jazz_select.flow.base import BaseFlow
from jazz_select.text import beginning, describe_error, meant

_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A case, and where it stands; empty and 0 where it came from no file."""

    case: Case
    file: str = ""
    line: int = 0


def read(given: Iterable[Case | str | Path]) -> tuple[list[Placed], list[Finding]]:
    """The cases that can be read, of files and as they are, and what is wrong with the others."""
    cases: list[Placed] = []
    wrong: list[Finding] = []
    for each in given:
        if isinstance(each, Case):
            cases.append(Placed(case=each))
            continue
        file = Path(each)
        name = shown(str(file))
        try:
            entries = entries_of(file)
        except ConfigError as error:
            remedy = "Mend the file; none of its cases was compared with the examples."
            wrong.append(Finding(code="unreadable-file", file=name, what=str(error), remedy=remedy))
            continue
        wrong += [Finding(code="invalid-case", file=name, what=each, remedy=_FORM) for each in entries.problems]
        for entry, outcome in each_case(entries):
            line = entry.line or 0
            if isinstance(outcome, Case):
                cases.append(Placed(case=outcome, file=name, line=line))
                continue
            told = "; ".join(outcome)
            wrong.append(
                Finding(code="invalid-case", file=name, line=line, what=f"A case is wrong: {told}.", remedy=_FORM)
            )
    return cases, wrong


_FORM = "A case has request: and expect:, the names of the flows that are right, or none where no flow fits."


def leaks(
    cases: Sequence[Placed], flows: Sequence[BaseFlow], broken: Iterable[str], places: Places
) -> Iterator[Finding]:
    """What is wrong with cases beside these flows.

    Args:
        cases: The labelled requests.
        flows: The catalogue.
        broken: Names of flows that did not load; a case may expect them.
        places: Where things stand.
    """
    known = {flow.name for flow in flows} | set(broken)
    for each in cases:
        for name in dict.fromkeys(each.case.expect):
            if name not in known:
                yield Finding(
                    code="invalid-case",
                    file=each.file,
                    line=each.line,
                    what=f"“{beginning(each.case.request, _SHOWN)}” expects {meant(name, sorted(known))}, and there is "
                    "no such flow.",
                    remedy="Correct the name, or load the flows that the cases are about.",
                    evidence=(Evidence(text=each.case.request, other=name),),
                )
    yield from _contradicting(cases)
    yield from _leaked(cases, flows, places)


def _contradicting(cases: Sequence[Placed]) -> Iterator[Finding]:
    first: dict[tuple[str, tuple[str, ...], str], Placed] = {}
    for each in cases:
        text = " ".join(each.case.request.split()).casefold()
        key = (text, each.case.episodes, describe_error(ValueError(repr(sorted(each.case.context.items(), key=str)))))
        earlier = first.setdefault(key, each)
        if set(earlier.case.expect) != set(each.case.expect):
            yield Finding(
                code="contradicting-cases",
                flows=tuple(sorted({*earlier.case.expect, *each.case.expect})),
                file=each.file,
                line=each.line,
                what=f"“{beginning(each.case.request, _SHOWN)}” expects {_names(each)} here, and {_names(earlier)} "
                f"{f'in line {earlier.line} of {earlier.file}' if earlier.line else 'earlier'}.",
                remedy="Decide which, or have the request say what decides.",
                evidence=(Evidence(text=each.case.request),),
            )


def _names(placed: Placed) -> str:
    return ", ".join(placed.case.expect) or "no flow"


def _leaked(cases: Sequence[Placed], flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    whose = [(flow, number) for flow in flows for number in range(len(flow.examples))]
    sames = Sames((flow.examples[number] for flow, number in whose), numbers=False)
    for each in cases:
        if each.case.episodes:  # what was said before makes it another request
            continue
        for at in sames.of(each.case.request)[:1]:
            flow, number = whose[at]
            place = places.of(flow, "examples", number)
            stands = f" ({place.file}:{place.line})" if place.line else ""
            yield Finding(
                code="leaked-case",
                flows=(flow.name,),
                file=each.file or place.file,
                line=each.line if each.file else place.line,
                what=f"“{beginning(each.case.request, _SHOWN)}” is asked as a case, and is an example of "
                f"{flow.name}{stands}.",
                remedy="Take it out of one of the two: what a catalogue was shown measures nothing.",
                evidence=(Evidence(text=each.case.request, beside=flow.examples[number], other=flow.name),),
            )
