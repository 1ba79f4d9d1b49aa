"""`jazz-select check` and `suggest`: what is wrong with a catalogue, the worst first, and what it lacks."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import typer
from rich.console import RenderableType
from rich.text import Text

from jazz_select.cli.session import catalogue, existing_log, logged_entries, look_for_flows, tools_beside
from jazz_select.cli.terminal import fill_template, hint, line, milliseconds, spinner, styled, tell, write_file
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, load_cases
from jazz_select.evaluation.checks.checking import check
from jazz_select.evaluation.checks.findings import KINDS, Finding, Findings, Severity
from jazz_select.evaluation.checks.sarif import sarif
from jazz_select.evaluation.checks.suggesting import Suggestions, Target, suggest
from jazz_select.evaluation.rules import FILE, judging
from jazz_select.json_values import indented_json
from jazz_select.selector.policy import policy_of_settings
from jazz_select.text import count_of

if TYPE_CHECKING:
    from jazz_select.cli.main import CheckCommand, SuggestCommand
    from jazz_select.settings import Settings

_SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_SHOWN, _EVIDENCE = 20, 3
"""Findings of one kind that are shown, and texts of each; the JSON has all."""


def check_flows(settings: "Settings", given: "CheckCommand") -> None:
    """Check, and report; exit code 1 from the level on that fails it."""
    how = judging(settings)
    look_for_flows(settings, by="as the argument, with --flows or JAZZ_FLOWS")
    with spinner("checking"):
        findings = check(
            settings.flows,
            tools=tools_beside(settings.flows, given.tools),
            cases=given.cases or (),
            embedder=how.embedder,
            language=settings.language,
            only=_codes(given.only or ()),
            ignore=(*how.ignore, *_codes(given.ignore or ())),
            learned=settings.learned_by_now,
            allow_modules=settings.allowed_modules,
            policy=policy_of_settings(settings),
            has_decider=settings.decider not in {None, "", "none"},
            log=None if given.log is None else existing_log(given.log, settings),
            agent_id=settings.agent_id,
        )
    if given.sarif is not None:
        write_file(given.sarif, f"{indented_json(sarif(findings))}\n", option="--sarif")
    tell(findings.to_dict(), _findings(findings, settings.flows), findings.notes, json=given.json, prefix="note: ")
    level = given.fail_on or how.fail_on
    if level != "never" and findings.at_least(level):
        raise typer.Exit(1)


def _codes(given: Sequence[str]) -> tuple[str, ...]:
    """Split options that hold several codes; the commas within a code with flows stay."""
    codes: list[str] = []
    for text in given:
        parts = [text] if ":" in text else text.split(",")
        codes += [part.strip() for part in parts if part.strip()]
    return tuple(codes)


def _findings(findings: Findings, source: str) -> Iterator[RenderableType]:
    for severity, of_one in groupby(findings.found, key=lambda each: each.severity):
        yield Text(f"\n{severity.value.upper()}S", style=_SEVERITIES[severity])
        for code, group in groupby(of_one, key=lambda each: each.code):
            every = list(group)
            yield fill_template("\n[bold]{code}[/] [dim]{about}[/]", {"code": code, "about": KINDS[code].about})
            for each in every[:_SHOWN]:
                yield from _finding(each)
            if len(every) > _SHOWN:
                yield styled(f"… and {len(every) - _SHOWN} more; --json and --only {code} have all", "dim")
    yield ""
    yield _summary(findings, source)
    if findings.forecast is not None:
        yield line(str(findings.forecast), limit=2_000)


def _finding(finding: Finding) -> Iterator[Text]:
    head = "  [cyan]{place}:[/] {what}" if finding.place else "  {what}"
    yield line(fill_template(head, finding, limit=500))
    yield line(fill_template("    [dim]→ {remedy}[/]", finding, limit=500))
    # Evidence without a cosine is quoted in the finding itself.
    measured = [each for each in finding.evidence if each.cosine is not None]
    for each in measured[:_EVIDENCE]:
        own = "" if each.own_cosine is None else "{flow} {own_cosine:.2f}, "
        yield line(fill_template(f"      “{{text}}”  [dim]{own}{{other}} {{cosine:.2f}}[/]", each, limit=120))


def _summary(findings: Findings, source: str) -> Text:
    counts = [count_of(count, name) for name, count in findings.counts.items() if count]
    summary = ", ".join(counts) or "nothing wrong"
    if findings.accepted:
        summary += f", {len(findings.accepted)} accepted"
    style = _SEVERITIES[findings.found[0].severity] if findings.found else "bold green"
    head = styled(summary, style)
    cases = f" and {count_of(findings.cases, 'case')}" if findings.cases else ""
    embedder = f", embedder {findings.embedder}" if findings.embedder else ""
    rest = f"in {count_of(findings.flows, 'flow')}{cases} of {source} ({milliseconds(findings.took_s)}{embedder})"
    if findings.accepted:
        rest += f"; what is accepted stands in {FILE} and in --ignore"
    return line(head, styled(rest, "dim", limit=1_000))


_PARTS = {Target.EXAMPLE: "green", Target.NEGATIVE: "yellow", Target.CONDITION: "cyan"}


def suggest_texts(settings: "Settings", given: "SuggestCommand") -> None:
    """Suggest, and write or show it."""
    output = given.output
    if output is not None and output.exists():
        msg = f"--output {output} is there already, perhaps with somebody's remarks; delete it, or name another file"
        raise ConfigError(msg)
    how = judging(settings)
    registry = catalogue(settings, learned=settings.learned_by_now)
    held_out: list[Case] = []
    for file in given.cases or ():
        held_out += load_cases(file, registry, flows=settings.flows)
    logged = [] if given.log is None else logged_entries(given.log, settings)
    with spinner("looking for suggestions"):
        found = asyncio.run(
            suggest(
                registry,
                logged,
                model=settings.llm,
                cases=held_out,
                flows=given.flow or (),
                most=given.most,
                embedder=how.embedder,
                language=settings.language,
                ignore=how.ignore,
            )
        )
    if output is not None:
        write_file(output, found.to_yaml(), option="--output")
    tell(found.to_dict(), _suggestions(found), found.notes, json=given.json, prefix="note: ")
    if output is not None and not given.json:
        hint(f"written to {output}; copy what is right into the flows")


def _suggestions(found: Suggestions) -> Iterator[RenderableType]:
    made = {name: list(group) for name, group in groupby(found.suggested, key=lambda each: each.flow)}
    for name in dict.fromkeys((*found.wanting, *made)):
        yield ""
        yield styled(name, "bold")
        for why in found.wanting.get(name, ()):
            yield line(fill_template("  [dim]{why}[/]", {"why": why}, limit=500))
        for each in made.get(name, ()):
            head = f"  [dim]+[/] [{_PARTS[each.part]}]{{part}}[/] [dim]({{source}})[/] {{text}}"
            yield line(fill_template(head, each, limit=700))
            if each.part is not Target.EXAMPLE:
                yield line(fill_template("    [dim]{why}[/]", each, limit=500))
    counts = Counter(each.part for each in found.suggested)
    summary = ", ".join(count_of(counts[part], part.value) for part in Target if counts[part])
    flows = f"for {count_of(len(found.wanting), 'flow')} ({milliseconds(found.took_s)})"
    yield ""
    if found.wanting:
        yield line(styled(summary or "nothing to suggest", "bold"), styled(flows, "dim"))
    else:
        yield line(
            styled("nothing to suggest: no flow is thin or collides", "bold"), styled("(--flow NAME names one)", "dim")
        )
    if found.dropped:
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(found.dropped.items()))
        yield line(f"not taken: {dropped}", style="dim")
