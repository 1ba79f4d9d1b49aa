"""`jazz-select check`: everything that is wrong with a catalogue, the worst first."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from rich.console import Console
from rich.text import Text

from jazz_select.cli.session import look_here, require_folder
from jazz_select.cli.show import milliseconds
from jazz_select.cli.terminal import emit, printable, stderr, stdout, styled, waiting, write_file
from jazz_select.errors import ConfigError
from jazz_select.evaluation.checks.checking import check
from jazz_select.evaluation.checks.findings import KINDS, Evidence, Finding, Findings, Severity
from jazz_select.evaluation.checks.sarif import sarif
from jazz_select.evaluation.rules import FILE, judging
from jazz_select.text import counted

if TYPE_CHECKING:
    from jazz_select.settings import Settings

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_SHOWN, _EVIDENCE = 20, 3
"""Findings of one kind that are shown, and texts of each; the JSON has all."""
NEVER = "never"


def run(  # noqa: PLR0913 - one per option
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
            language=how.language,
            only=_codes(only),
            ignore=(*how.ignore, *_codes(ignore)),
            learned=how.learned,
        )
    if sarif_file is not None:
        report = orjson.dumps(sarif(findings), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        write_file(sarif_file, report.decode(), option="--sarif")
    if as_json:
        emit(findings.to_dict())
    else:
        _show(stdout(), findings, settings.flows)
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


def _show(console: Console, findings: Findings, source: str) -> None:
    for severity, of_one in groupby(findings.found, key=lambda each: each.severity):
        console.print(Text(f"\n{severity.value.upper()}S", style=_STYLES[severity]))
        for code, group in groupby(of_one, key=lambda each: each.code):
            every = list(group)
            console.print()
            console.print(Text.assemble((f"{code} ", "bold"), (KINDS[code].about, "dim")))
            for each in every[:_SHOWN]:
                _show_one(console, each)
            if len(every) > _SHOWN:
                console.print(styled(f"  … and {len(every) - _SHOWN} more; --json and --only {code} have all", "dim"))
    console.print()
    console.print(_summary(findings, source), soft_wrap=True)
    for note in findings.notes:
        stderr().print(styled(f"note: {note}", "yellow"), soft_wrap=True)


def _show_one(console: Console, finding: Finding) -> None:
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
    head = styled(f"{told}{accepted}", _STYLES[worst] if worst else "bold green")
    rest = f"in {counted(findings.flows, 'flow')}{beside} of {source} ({milliseconds(findings.took_s)}{by})"
    if findings.accepted:
        rest += f"; what is accepted stands in {FILE} and in --ignore"
    return head + " " + styled(rest, "dim")
