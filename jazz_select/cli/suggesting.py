"""`jazz-select suggest`: what a catalogue lacks, into a file for review."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from jazz_select.cli.session import catalogue
from jazz_select.cli.show import milliseconds
from jazz_select.cli.terminal import emit, hint, stdout, styled, waiting, write_file
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, load_cases
from jazz_select.evaluation.checks.suggesting import Labelled, Part, Suggestion, Suggestions, suggest
from jazz_select.evaluation.rules import judging
from jazz_select.outcomes import OutcomeLog, labels
from jazz_select.text import counted

if TYPE_CHECKING:
    from jazz_select.settings import Settings

_STYLES = {Part.EXAMPLE: "green", Part.NEGATIVE: "yellow", Part.CONDITION: "cyan"}


def run(  # noqa: PLR0913 - one per option
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
    _show(stdout(), found)
    if output is not None:
        hint(f"written to {output}; copy what is right into the flows")


def _logged(cases: Sequence[Case]) -> list[Labelled]:
    """Those that are asked for one flow, and say by themselves which."""
    return [
        Labelled(request=case.request, flow=case.expect[0])
        for case in cases
        if len(case.expect) == 1 and not case.episodes
    ]


def _show(console: Console, found: Suggestions) -> None:
    made = {name: list(group) for name, group in groupby(found.suggested, key=lambda each: each.flow)}
    for name in dict.fromkeys((*found.wanting, *made)):
        console.print()
        console.print(styled(name, "bold"))
        for why in found.wanting.get(name, ()):
            console.print(Text("  ") + styled(why, "dim", limit=500), soft_wrap=True)
        for each in made.get(name, ()):
            _show_one(console, each)
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


def _show_one(console: Console, each: Suggestion) -> None:
    head = Text.assemble(
        ("  + ", "dim"), (f"{each.part.value} ", _STYLES[each.part]), (f"({each.source.value}) ", "dim")
    )
    console.print(head + styled(each.text, limit=700), soft_wrap=True)
    if each.part is not Part.EXAMPLE:
        console.print(Text("    ") + styled(each.why, "dim", limit=500), soft_wrap=True)
