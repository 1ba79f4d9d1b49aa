"""The catalogue as pages: flows, a map of where they lie, which are confused, and what a check finds."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jazz_select.errors import FlowValidationError
from jazz_select.evaluation.checks.checking import check
from jazz_select.evaluation.checks.findings import Findings, Places
from jazz_select.evaluation.checks.nearness import Field, Neighbours
from jazz_select.evaluation.rules import FILE, judging
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.composite import flow_data
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import Encoder
from jazz_select.ports import Vectors
from jazz_select.selector.result import prompt_of
from jazz_select.service.api.operations import chain_as_data
from jazz_select.service.panel.runs import PanelFiles
from jazz_select.service.running import Generation, RunningCatalogue
from jazz_select.service.source_files import SeenFiles, look
from jazz_select.text import describe_error
from jazz_select.threads import compute, run_unbounded

Floats = npt.NDArray[np.float64]
_NEAREST: Final = 6
_MOST_SHOWN: Final = 3
"""Examples that are told of each pair that is confused."""
_ROUNDS, _MOST_REFINED = 120, 600
"""Rounds of refinement of a map; a larger catalogue's stays as the projection has it, and its stress is not known."""
HOW_MAPPED: Final = (
    "Each flow is where its own texts lead requests: the mean of the vectors of its examples and description, by the "
    "embedder of the index. Distance on the map stands for 1 − cosine of those: their first two principal components, "
    "refined by stress majorization (SMACOF), the same for the same catalogue. Stress says how far the map is off: "
    "the error of all distances, as a share of them."
)
HOW_CONFUSED: Final = (
    "Every example is asked as a request while its flow does without it. A row is the flow that it belongs to, a "
    "column the flow that came first instead. Meaning and words are weighed as a check weighs them, without what a "
    "sync fits to the catalogue: read which flows are taken for each other, not how often requests go astray."
)


def landscape(flows: Sequence[BaseFlow], encoder: Encoder) -> dict[str, Any]:
    """Compute the map and the matrix of flows; takes as long as embedding all of their texts.

    It is made once for each generation of a catalogue: `points`, each flow with its place, from -1 to 1 both ways;
    `stress`, how far the map is off, 0 for not at all; `nearest`, flow to those that lie nearest, with the cosine and
    how often either's examples lead to the other; `confusions`, each pair of which one is first for an example of the
    other, most often first; `asked`, how many examples were asked, 0 where there are too few to tell anything; and
    `right`, for how many of them their own flow was first.
    """
    drawn = [flow for flow in flows if (flow.examples or flow.description) and not flow.only_called]
    if not drawn:
        return {"points": [], "stress": None, "nearest": {}, "confusions": [], "asked": 0, "right": 0}
    field = Field(drawn, encoder)
    vectors = unit_rows(field.prototypes)
    places, stress = positions(vectors)
    points: list[dict[str, Any]] = []
    for flow, (x, y) in zip(drawn, places, strict=True):
        points.append(
            {
                "name": flow.name,
                "title": flow.display_name,
                "type": flow.type,
                "examples": len(flow.examples),
                "x": round(float(x), 4),
                "y": round(float(y), 4),
            }
        )
    neighbours = field.neighbours
    confusions: list[dict[str, Any]] = []
    asked = right = 0
    if neighbours is not None:
        confusions = _list_confusions(neighbours)
        asked = len(neighbours.whose)
        right = int((_first(neighbours) == neighbours.whose).sum())
    return {
        "points": points,
        "stress": None if stress is None else round(stress, 4),
        "nearest": _nearest([flow.name for flow in drawn], vectors, confusions),
        "confusions": confusions,
        "asked": asked,
        "right": right,
    }


def positions(vectors: Vectors) -> tuple[Floats, float | None]:
    """Place unit vectors in two dimensions, each coordinate from -1 to 1; return the places and their stress."""
    count = len(vectors)
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    found = centred @ axes[:, ::-1][:, :2]  # `eigh` returns the largest component last
    found *= np.where(found[np.abs(found).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)  # the same way up each time
    stress = None
    if 1 < count <= _MOST_REFINED:
        distances = 1.0 - np.clip((vectors @ vectors.T).astype(np.float64), -1.0, 1.0)
        np.fill_diagonal(distances, 0.0)
        # SMACOF: each round moves every place to where the others pull it, which never raises the stress.
        for _ in range(_ROUNDS):
            pull = -distances / np.maximum(_distances(found), 1e-9)
            np.fill_diagonal(pull, 0.0)
            np.fill_diagonal(pull, -pull.sum(axis=1))
            found = pull @ found / count
        error = ((_distances(found) - distances) ** 2).sum()
        stress = float(np.sqrt(error / max(float((distances**2).sum()), 1e-12)))
    found = found - (found.max(axis=0) + found.min(axis=0)) / 2
    return found / max(float(np.abs(found).max()), 1e-9), stress


def _distances(places: Floats) -> Floats:
    return np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))


def _first(asked: Neighbours) -> npt.NDArray[np.int_]:
    return asked.scores.argmax(axis=1)


def _list_confusions(asked: Neighbours) -> list[dict[str, Any]]:
    pairs: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for example, (own, first) in enumerate(zip(asked.whose, _first(asked), strict=True)):
        if own != first:
            flow = asked.flows[int(own)]
            pairs[int(own), int(first)].append(flow.examples[asked.numbers[example]])
    confusions: list[dict[str, Any]] = []
    for (own, first), texts in pairs.items():
        confusions.append(
            {
                "expected": asked.flows[own].name,
                "first": asked.flows[first].name,
                "count": len(texts),
                "of": int((asked.whose == own).sum()),
                "examples": [text[:300] for text in texts[:_MOST_SHOWN]],
            }
        )
    return sorted(confusions, key=lambda each: (-each["count"], each["expected"], each["first"]))


def _nearest(
    names: Sequence[str], vectors: Vectors, confusions: Sequence[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    counts: Counter[frozenset[str]] = Counter()
    for each in confusions:
        counts[frozenset((each["expected"], each["first"]))] += each["count"]
    found: dict[str, list[dict[str, Any]]] = {}
    for place, name in enumerate(names):
        cosines = vectors @ vectors[place]
        # Ask for one more, since the flow itself is among them; with equal texts it may not come first.
        nearest = [int(other) for other in np.argsort(-cosines)[: _NEAREST + 1] if other != place]
        rows: list[dict[str, Any]] = []
        for other in nearest[:_NEAREST]:
            pair = frozenset((name, names[other]))
            rows.append({"name": names[other], "cosine": round(float(cosines[other]), 4), "confused": counts[pair]})
        found[name] = rows
    return found


_WORST: Final = ("error", "warning", "note")
_SUGGESTED, _SHORT = 3, 80
_IN_SHORT: Final = ("name", "type", "owner", "description", "condition", "aliases", "tools", "has_guard")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueSurvey:
    """What is known of one generation of a catalogue."""

    number: int
    files: SeenFiles
    """What it was judged by, as it lay there."""
    land: dict[str, Any]
    findings: Findings


class SurveyCache:
    """Looks a catalogue over when somebody asks, beside the loop, anew when it or a file has changed."""

    def __init__(self, catalogue: RunningCatalogue, files: PanelFiles) -> None:
        self._catalogue, self._files = catalogue, files
        self._one_at_a_time = asyncio.Lock()
        self._known: CatalogueSurvey | None = None

    async def get(self) -> CatalogueSurvey:
        """Return what is known of the catalogue as it is now; concurrent callers wait for the same answer."""
        async with self._one_at_a_time:
            live, known = self._catalogue.live, self._known
            cases = tuple(self._files.known.values())
            files = [*cases, FILE]
            if self._catalogue.settings.learned is not None:
                files.append(self._catalogue.settings.learned)
            seen = await compute(look, files)
            if known is None or (known.number, known.files) != (live.number, seen):
                known = self._known = await compute(_survey_catalogue, self._catalogue, live, cases, seen)
            return known


def _survey_catalogue(
    catalogue: RunningCatalogue, live: Generation, cases: tuple[Path, ...], files: SeenFiles
) -> CatalogueSurvey:
    encoder, settings = catalogue.memory.encoder, catalogue.settings
    land = landscape(list(live.registry.values()), encoder)  # first: it knows the vectors that a sync has kept
    how = judging(settings)
    findings = check(
        live.registry,
        tools=live.tools or None,
        cases=cases,
        # The same one is not loaded again.
        embedder=encoder.embedder if how.embedder == settings.embedder else how.embedder,
        language=settings.language,
        ignore=how.ignore,
        learned=catalogue.learned_now(),
        policy=live.selector.policy,
        has_decider=live.selector.has_decider,
    )
    return CatalogueSurvey(number=live.number, files=files, land=land, findings=findings)


def flow_rows(live: Generation, chosen: Mapping[str, int]) -> list[dict[str, Any]]:
    """Describe each flow in a row, by name, with its folder, its owner and how often it was chosen."""
    rows: list[dict[str, Any]] = []
    for flow in sorted(live.registry.values(), key=lambda each: each.name):
        row: dict[str, Any] = {
            "folder": Path(flow.origin.file).parent.name if flow.origin.file else "",
            "chosen": chosen.get(flow.name, 0),
        }
        row |= {name: getattr(flow, name) for name in _IN_SHORT}
        row["title"] = flow.display_name
        row["examples"] = len(flow.examples)
        row["unconnected"] = list(flow.lacks(live.tools)) if live.tools else []
        rows.append(row)
    return rows


def suggest_requests(live: Generation) -> list[str]:
    """Suggest first requests: short examples across the catalogue, of flows with a chain if there are enough."""
    flows = sorted(live.registry.values(), key=lambda each: each.name)
    running = [flow for flow in flows if flow.chain]
    among = running if len(running) >= _SUGGESTED else flows
    found: dict[str, None] = {}
    for flow in among:
        short = next((text for text in flow.examples if len(text) <= _SHORT), "")
        if short:
            found[short] = None
    # Take them evenly spaced, so that they come from different parts of the catalogue.
    requests = list(found)
    return requests[:: max(1, len(requests) // _SUGGESTED)][:_SUGGESTED]


async def flow_details(live: Generation, flow: BaseFlow) -> dict[str, Any]:
    """Describe one flow in full, without the results of a survey."""
    whole_prompt = await run_unbounded(flow.build_prompt, name="jazz-select-build_prompt")
    place = await compute(Places().locate, flow)
    try:
        chain = chain_as_data(flow)
    except FlowValidationError as error:
        chain = [{"problem": describe_error(error)}]
    tools: list[dict[str, Any]] = []
    for name in flow.tools:
        tool = live.tools.get(name)
        tools.append(
            {
                "name": name,
                "description": tool.description if tool is not None else "",
                "is_connected": tool is not None,
                "is_optional": name in flow.optional_tools,
                "destructive": tool is not None and tool.destructive,
            }
        )
    return {
        **flow_data(flow),
        "title": flow.display_name,
        "chain": chain,
        "reply": flow.reply,
        "has_guard": flow.has_guard,
        "parts": [part.name for part in flow.subflows],
        "tools": tools,
        "prompt": await prompt_of(flow),
        "whole_prompt": str(whole_prompt),
        "file": place.file,
        "line": place.line,
    }


def map_data(surveyed: CatalogueSurvey) -> dict[str, Any]:
    """Return the map and the matrix, with how each is made."""
    land = surveyed.land
    findings = (*surveyed.findings.found, *surveyed.findings.accepted)
    worst: dict[str, str] = {}
    for severity in reversed(_WORST):  # the worst comes last, and replaces the others
        worst |= dict.fromkeys(_flows_with_severity(surveyed.findings, severity), severity)
    return {
        "generation": surveyed.number,
        **land,
        "points": [{**each, "worst": worst.get(each["name"], "")} for each in land["points"]],
        "twins": [each.to_dict() for each in findings if each.code == "near-twins"],
        "how_mapped": HOW_MAPPED,
        "how_confused": HOW_CONFUSED,
        "embedder": surveyed.findings.embedder,
    }


def recall_by_flow(land: Mapping[str, Any]) -> dict[str, float]:
    """Return by flow the share of its examples that lead to it, each asked while left out of the flow."""
    missed, asked = Counter[str](), dict[str, int]()
    for each in land["confusions"]:
        missed[each["expected"]] += each["count"]
        asked[each["expected"]] = each["of"]
    shares: dict[str, float] = {}
    for point in land["points"]:
        # A flow's only example cannot be left out: nothing else would lead to the flow.
        if point["examples"] > 1 and land["asked"]:
            shares[point["name"]] = 1.0
    for name, count in asked.items():
        shares[name] = round(1 - missed[name] / count, 4)
    return shares


def findings_by_flow(findings: Findings) -> dict[str, dict[str, int]]:
    """Count by flow the findings of each severity that name it."""
    by_flow: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for severity in _WORST:
        for name, count in Counter(_flows_with_severity(findings, severity)).items():
            by_flow[name][severity] = count
    return dict(by_flow)


def _flows_with_severity(findings: Findings, severity: str) -> list[str]:
    return [name for each in findings.found if each.severity == severity for name in each.flows]
