"""The catalogue as pages: every flow, one flow with all there is to it, the map, and what a check finds."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from jazz_select.errors import FlowValidationError
from jazz_select.evaluation.checks.checking import check
from jazz_select.evaluation.checks.findings import Findings
from jazz_select.evaluation.checks.places import Places
from jazz_select.evaluation.rules import FILE, judging
from jazz_select.flow.base import BaseFlow
from jazz_select.routing.decisions.points import GuidedDecisionPoint
from jazz_select.routing.run_context import chain_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.result import prompt_of
from jazz_select.service.panel.landscape import HOW_CONFUSED, HOW_MAPPED, Landscape, landscape
from jazz_select.service.running import Generation, RunningCatalogue
from jazz_select.text import as_text, describe_error
from jazz_select.threads import called

_WORST: Final = ("error", "warning", "note")
_SUGGESTED, _SHORT = 3, 80
_Stamp = tuple[tuple[str, int, int], ...]
"""Files that a survey is made of, each with when it was changed and how large it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """What is known of one generation of a catalogue."""

    number: int
    stamp: _Stamp
    land: Landscape
    findings: Findings


class Surveys:
    """Looks each catalogue over when somebody asks, beside the loop, anew when it or a file has changed."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[RunningCatalogue, Surveyed] = WeakKeyDictionary()
        self._one_at_a_time: WeakKeyDictionary[RunningCatalogue, asyncio.Lock] = WeakKeyDictionary()

    async def of(self, catalogue: RunningCatalogue, cases: Mapping[str, Path]) -> Surveyed:
        """What is known of the catalogue as it is now; whoever asks meanwhile waits for the same answer.

        Raises:
            ConfigError: What the team says of judging, or a file that it is judged by, cannot be read.
            EmbeddingError: The embedder failed.
        """
        lock = self._one_at_a_time.setdefault(catalogue, asyncio.Lock())
        async with lock:
            live = catalogue.live
            known = self._kept.get(catalogue)
            learned = catalogue.settings.learned
            judged_by = (*cases.values(), FILE, *(() if learned is None else (learned,)))
            stamp = await asyncio.to_thread(_stamp, judged_by)
            if known is None or (known.number, known.stamp) != (live.number, stamp):
                known = await asyncio.to_thread(_surveyed, catalogue, live, tuple(cases.values()), stamp)
                self._kept[catalogue] = known
            return known


def _stamp(files: tuple[Path, ...]) -> _Stamp:
    found: list[tuple[str, int, int]] = []
    for file in files:
        try:
            told = file.stat()
        except OSError:  # not there, or not to be seen: when it is, that is a change
            continue
        found.append((file.as_posix(), told.st_mtime_ns, told.st_size))
    return tuple(found)


def _surveyed(catalogue: RunningCatalogue, live: Generation, cases: tuple[Path, ...], stamp: _Stamp) -> Surveyed:
    encoder, settings = catalogue.memory.encoder, catalogue.settings
    how = judging(settings)
    findings = check(
        live.registry,
        tools=live.tools or None,
        cases=cases,
        # The same one is not loaded again.
        embedder=encoder.embedder if how.embedder == settings.embedder else how.embedder,
        language=how.language,
        ignore=how.ignore,
        learned=how.learned,
    )
    land = landscape(list(live.registry.values()), encoder)
    return Surveyed(number=live.number, stamp=stamp, land=land, findings=findings)


def listed(live: Generation) -> list[dict[str, Any]]:
    """Every flow in a line or two, by name. Nothing is embedded."""
    return [
        {
            "name": as_text(flow.name),
            "title": as_text(flow.display_name),
            "type": as_text(flow.type),
            "description": as_text(flow.description),
            "condition": as_text(flow.condition),
            "aliases": list(map(as_text, flow.aliases)),
            "tools": list(map(as_text, flow.tools)),
            "examples": len(flow.examples),
            "has_guard": flow.has_guard,
            "unconnected": list(map(as_text, flow.lacks(live.tools))) if live.tools else [],
        }
        for flow in sorted(live.registry.values(), key=lambda each: each.name)
    ]


def suggested(live: Generation) -> list[str]:
    """Requests to begin with: short examples from across the catalogue, of flows with a chain if those are enough."""
    flows = sorted(live.registry.values(), key=lambda each: each.name)
    running = [flow for flow in flows if flow.chain]
    among = running if len(running) >= _SUGGESTED else flows
    short = (next((text for text in flow.examples if len(text) <= _SHORT), "") for flow in among)
    found = list(dict.fromkeys(as_text(text) for text in short if text))
    return found[:: max(1, len(found) // _SUGGESTED)][:_SUGGESTED]


async def shown(live: Generation, flow: BaseFlow) -> dict[str, Any]:
    """All there is to one flow, but for what a survey says of it.

    Raises:
        FlowValidationError: A part of it cannot be found.
    """
    whole = await called(flow.build_prompt, name="jazz-select-build_prompt")
    place = await asyncio.to_thread(Places().of, flow)
    return {
        "name": as_text(flow.name),
        "title": as_text(flow.display_name),
        "type": as_text(flow.type),
        "description": as_text(flow.description),
        "condition": as_text(flow.condition),
        "desired_effects": list(map(as_text, flow.desired_effects)),
        "examples": list(map(as_text, flow.examples)),
        "aliases": list(map(as_text, flow.aliases)),
        "steps": list(map(as_text, flow.steps)),
        "chain": _chain(flow),
        "reply": as_text(flow.reply),
        "priority": list(flow.priority),
        "manual": flow.manual,
        "has_guard": flow.has_guard,
        "parts": [as_text(part.name) for part in flow.subflows],
        "tools": [_tool(name, live.tools.get(name), optional=name in flow.optional_tools) for name in flow.tools],
        "prompt": as_text(await prompt_of(flow)),
        "whole_prompt": as_text(str(whole)),
        "file": as_text(place.file),
        "line": place.line,
        "checksum": flow.compute_checksum(),
    }


def _chain(flow: BaseFlow) -> list[dict[str, Any]]:
    """Its steps in order: `tool` where one is set, else among which `tools` the next is chosen."""
    try:
        steps = chain_of(flow)
    except FlowValidationError as error:
        return [{"problem": describe_error(error)}]
    told: list[dict[str, Any]] = []
    for step in steps:
        if isinstance(step, str):
            told.append({"tool": as_text(step)})
        elif isinstance(step, GuidedDecisionPoint):
            fallback = None if step.fallback_tool is None else as_text(step.fallback_tool)
            told.append({"tools": list(map(as_text, step.candidate_tools)), "fallback": fallback})
        else:
            told.append({"tools": [], "fallback": None})
    return told


def _tool(name: str, tool: Tool | None, *, optional: bool) -> dict[str, Any]:
    return {
        "name": as_text(name),
        "title": as_text(tool.title) if tool is not None else "",
        "description": as_text(tool.description) if tool is not None else "",
        "is_connected": tool is not None,
        "is_optional": optional,
        "destructive": tool is not None and tool.destructive,
    }


def mapped(surveyed: Surveyed) -> dict[str, Any]:
    """The map and the matrix, with how each is made."""
    land = surveyed.land
    twins = [each.to_dict() for each in surveyed.findings.found if each.code == "near-twins"]
    accepted = [each.to_dict() for each in surveyed.findings.accepted if each.code == "near-twins"]
    worst = {name: severity for severity in reversed(_WORST) for name in _named(surveyed.findings, severity)}
    return {
        "generation": surveyed.number,
        "points": [{**each, "worst": worst.get(each["name"], "")} for each in land.points],
        "nearest": land.nearest,
        "twins": [*twins, *accepted],
        "confusions": list(land.confusions),
        "asked": land.asked,
        "right": land.right,
        "stress": land.stress,
        "how_mapped": HOW_MAPPED,
        "how_confused": HOW_CONFUSED,
        "embedder": surveyed.findings.embedder,
    }


def counted(findings: Findings) -> dict[str, dict[str, int]]:
    """Flow to how many findings of each severity name it."""
    found = {severity: Counter(_named(findings, severity)) for severity in _WORST}
    names = {name for counts in found.values() for name in counts}
    return {name: {severity: found[severity][name] for severity in _WORST if found[severity][name]} for name in names}


def _named(findings: Findings, severity: str) -> list[str]:
    return [as_text(name) for each in findings.found if each.severity == severity for name in each.flows]
