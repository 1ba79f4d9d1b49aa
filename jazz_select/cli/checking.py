"""`jazz-select check` and `suggest`: what is wrong with a catalogue, the worst first, and what it lacks."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from rich.console import Console
from rich.text import Text

from jazz_select.cli.session import catalogue, look_here, require_folder
from jazz_select.cli.terminal import emit, hint, milliseconds, printable, stderr, stdout, styled, waiting, write_file
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, load_cases
from jazz_select.evaluation.checks.checking import check
from jazz_select.evaluation.checks.findings import KINDS, Evidence, Finding, Findings, Severity
from jazz_select.evaluation.checks.sarif import sarif
from jazz_select.evaluation.checks.suggesting import Labelled, Part, Suggestion, Suggestions, suggest
from jazz_select.evaluation.rules import FILE, judging
from jazz_select.outcomes import OutcomeLog, labels
from jazz_select.text import counted

if TYPE_CHECKING:
    from jazz_select.settings import Settings

_SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_SHOWN, _EVIDENCE = 20, 3
"""Findings of one kind that are shown, and texts of each; the JSON has all."""
NEVER = "never"


def run_check(  # noqa: PLR0913 - one per option
    settings: "Settings",
    *,
    tools: str | None,
    cases: Sequence[Path],
    only: Sequence[str],
    ignore: Sequence[str],
    fail_on: str | None,
    sarif_file: Path | None,
    as_json: bool,
) -> int:
    """Check, and report; returns the exit code.

    Raises:
        ConfigError: A rule or an option cannot work, or the SARIF file cannot be written.
        FlowLoadError: There are no flows.
    """
    how = judging(settings)
    said = Severity.ERROR.value if how.fail_on is None else how.fail_on
    level = _level(fail_on or said, by="--fail-on" if fail_on else f"{FILE}: fail-on")
    if "flows" not in settings.model_fields_set:
        require_folder(settings.flows, advice="name your flows, as the argument, with --flows or JAZZ_FLOWS")
    look_here()
    with waiting("checking"):
        findings = check(
            settings.flows,
            tools=tools,
            cases=cases,
            embedder=how.embedder,
            language=settings.language,
            only=_codes(only),
            ignore=(*how.ignore, *_codes(ignore)),
            learned=settings.learned_by_now,
        )
    if sarif_file is not None:
        report = orjson.dumps(sarif(findings), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        write_file(sarif_file, report.decode(), option="--sarif")
    if as_json:
        emit(findings.to_dict())
    else:
        _show_findings(stdout(), findings, settings.flows)
    return int(level is not None and bool(findings.at_least(level)))


def _codes(given: Sequence[str]) -> tuple[str, ...]:
    """Codes, of which one option may hold several; a code with flows has commas of its own."""
    return tuple(
        each.strip()
        for one in given
        for each in ([one] if ":" in one else one.split(","))
        if each.strip()
    )  # fmt: skip


def _level(given: object, *, by: str) -> Severity | None:
    """From which severity on the command fails; None for never.

    Raises:
        ConfigError: It is none.
    """
    if given == NEVER:
        return None
    if given not in [each.value for each in Severity]:
        msg = f"{by} is {', '.join(Severity)} or {NEVER}, not {given!r:.40}"
        raise ConfigError(msg)
    return Severity(given)


def _show_findings(console: Console, findings: Findings, source: str) -> None:
    for severity, of_one in groupby(findings.found, key=lambda each: each.severity):
        console.print(Text(f"\n{severity.value.upper()}S", style=_SEVERITIES[severity]))
        for code, group in groupby(of_one, key=lambda each: each.code):
            every = list(group)
            console.print()
            console.print(Text.assemble((f"{code} ", "bold"), (KINDS[code].about, "dim")))
            for each in every[:_SHOWN]:
                _show_finding(console, each)
            if len(every) > _SHOWN:
                console.print(styled(f"  … and {len(every) - _SHOWN} more; --json and --only {code} have all", "dim"))
    console.print()
    console.print(_summary(findings, source), soft_wrap=True)
    for note in findings.notes:
        stderr().print(styled(f"note: {note}", "yellow"), soft_wrap=True)


def _show_finding(console: Console, finding: Finding) -> None:
    where = printable(finding.place)
    place = Text(f"{where}: " if where else "", style="cyan")
    console.print(Text("  ") + place + styled(finding.what, limit=500), soft_wrap=True)
    console.print(Text("    → ", style="dim") + styled(finding.remedy, "dim", limit=500), soft_wrap=True)
    told = [each for each in finding.evidence if each.cosine is not None]
    for each in told[:_EVIDENCE]:
        console.print(_evidence(each), soft_wrap=True)


def _evidence(each: Evidence) -> Text:
    own = "" if each.own_cosine is None else f"{printable(each.flow)} {each.own_cosine:.2f}, "
    near = f"{own}{printable(each.other)} {each.cosine:.2f}"
    return Text("      ") + styled(f"“{each.text}”", limit=120) + Text(f"  {near}", style="dim")


def _summary(findings: Findings, source: str) -> Text:
    counts = [counted(count, name) for name, count in findings.counts.items() if count]
    told = ", ".join(counts) or "nothing wrong"
    accepted = f", {len(findings.accepted)} accepted" if findings.accepted else ""
    beside = f" and {counted(findings.cases, 'case')}" if findings.cases else ""
    by = f", embedder {findings.embedder}" if findings.embedder else ""
    worst = findings.found[0].severity if findings.found else None
    head = styled(f"{told}{accepted}", _SEVERITIES[worst] if worst else "bold green")
    rest = f"in {counted(findings.flows, 'flow')}{beside} of {source} ({milliseconds(findings.took_s)}{by})"
    if findings.accepted:
        rest += f"; what is accepted stands in {FILE} and in --ignore"
    return head + " " + styled(rest, "dim")


_PARTS = {Part.EXAMPLE: "green", Part.NEGATIVE: "yellow", Part.CONDITION: "cyan"}


def run_suggest(  # noqa: PLR0913 - one per option
    settings: "Settings",
    *,
    labelled: Sequence[Path],
    log: Path | None,
    cases: Sequence[Path],
    flows: Sequence[str],
    most: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Suggest, and write or show it.

    Raises:
        ConfigError: A file cannot be read, the output is there already, or an option cannot work.
        FlowLoadError: The flows cannot be loaded; `jazz-select check` says everything that is wrong with them.
    """
    if output is not None and output.exists():
        msg = f"--output {output} is there already, perhaps with somebody's remarks; delete it, or name another file"
        raise ConfigError(msg)
    how = judging(settings)
    registry = catalogue(settings, learned=True)
    held_out = [case for file in cases for case in load_cases(file, registry, flows=settings.flows)]
    logged = [each for file in labelled for each in _logged(load_cases(file, registry, flows=settings.flows))]
    if log is not None:
        entries = OutcomeLog.existing(log).read(agent_id=settings.agent_id)
        logged += [
            Labelled(request=each.request, flow=flow, sure=sure, first=each.first)
            for each in entries
            for _, flow, sure in labels([each])
        ]
    with waiting("looking for suggestions"):
        found = asyncio.run(
            suggest(
                registry,
                logged,
                model=settings.llm,
                cases=held_out,
                flows=flows,
                most=most,
                embedder=how.embedder,
                language=settings.language,
                ignore=how.ignore,
            )
        )
    if output is not None:
        write_file(output, found.to_yaml(), option="--output")
    if as_json:
        emit(found.to_dict())
        return
    _show_suggestions(stdout(), found)
    if output is not None:
        hint(f"written to {output}; copy what is right into the flows")


def _logged(cases: Sequence[Case]) -> list[Labelled]:
    """Those that are asked for one flow, and say by themselves which."""
    return [
        Labelled(request=case.request, flow=case.expect[0])
        for case in cases
        if len(case.expect) == 1 and not case.episodes
    ]


def _show_suggestions(console: Console, found: Suggestions) -> None:
    made = {name: list(group) for name, group in groupby(found.suggested, key=lambda each: each.flow)}
    for name in dict.fromkeys((*found.wanting, *made)):
        console.print()
        console.print(styled(name, "bold"))
        for why in found.wanting.get(name, ()):
            console.print(Text("  ") + styled(why, "dim", limit=500), soft_wrap=True)
        for each in made.get(name, ()):
            _show_suggestion(console, each)
    console.print()
    counts = {part: sum(each.part is part for each in found.suggested) for part in Part}
    told = ", ".join(counted(count, part.value) for part, count in counts.items() if count)
    looked = f"for {counted(len(found.wanting), 'flow')} ({milliseconds(found.took_s)})"
    console.print(styled(told or "nothing to suggest", "bold") + " " + styled(looked, "dim"), soft_wrap=True)
    if found.dropped:
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(found.dropped.items()))
        console.print(styled(f"not taken: {dropped}", "dim"), soft_wrap=True)
    for note in found.notes:
        hint(f"note: {note}")


def _show_suggestion(console: Console, each: Suggestion) -> None:
    head = Text.assemble(
        ("  + ", "dim"), (f"{each.part.value} ", _PARTS[each.part]), (f"({each.source.value}) ", "dim")
    )
    console.print(head + styled(each.text, limit=700), soft_wrap=True)
    if each.part is not Part.EXAMPLE:
        console.print(Text("    ") + styled(each.why, "dim", limit=500), soft_wrap=True)
