"""What may be added to a catalogue: suggestions as values, and as a file in which a person reviews them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml

from jazz_select.evaluation.checks.findings import Evidence
from jazz_select.evaluation.tables import dataframe, html_table
from jazz_select.text import as_text, in_one_line

_HEAD = """\
# Suggestions, for a person to review: nothing in this file is used by anything. Copy what is right into the flows,
# and leave the rest. `source` says what each rests on: log, a request that somebody sent; model, written by a model
# and filtered; catalogue, put together from what the flows say already.
"""


class Part(StrEnum):
    """What of a flow a suggestion is for."""

    EXAMPLE = "example"
    """A request to add to its examples."""
    NEGATIVE = "negative"
    """A request that comes first to it and is another flow's: its condition, or the other's examples, should say so."""
    CONDITION = "condition"
    """A sharper text for its condition."""


class Basis(StrEnum):
    """What a suggestion rests on."""

    LOG = "log"
    MODEL = "model"
    CATALOGUE = "catalogue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A request that somebody sent, and the flow that was right for it.

    Attributes:
        request: The text.
        flow: The flow's name.
        sure: How sure that is, from 0 to 1: 1 where a person said so.
        first: The flow that came first, where the log says so; else it is found out.
    """

    request: str
    flow: str
    sure: float = 1.0
    first: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One thing that may be added.

    Attributes:
        part: What it is for.
        flow: The name of the flow.
        text: What is suggested.
        source: What it rests on.
        why: The same in a sentence.
        other: The flow that it is to be told from, or whose request it is.
        evidence: The requests that led to it.
    """

    part: Part
    flow: str
    text: str
    source: Basis
    why: str
    other: str = ""
    evidence: tuple[Evidence, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "part": self.part.value,
            "flow": as_text(self.flow),
            "text": as_text(self.text),
            "source": self.source.value,
            "why": as_text(self.why),
            "other": as_text(self.other),
            "evidence": [as_text(each.text) for each in self.evidence],
        }


@dataclass(frozen=True, kw_only=True)
class Suggestions:
    """All that is suggested.

    Attributes:
        suggested: Flow by flow, in the order of the catalogue.
        wanting: Why each flow was looked at, by name.
        dropped: How many texts were not taken, by reason.
        notes: What could not be done, and why.
        took_s: In seconds.
    """

    suggested: tuple[Suggestion, ...] = ()
    wanting: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)

    def of(self, flow: str, part: Part | str) -> tuple[Suggestion, ...]:
        """Those of one part of one flow."""
        return tuple(each for each in self.suggested if each.flow == flow and each.part == Part(part))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; times in seconds."""
        return {
            "suggestions": [each.to_dict() for each in self.suggested],
            "wanting": {as_text(name): [as_text(why) for why in whys] for name, whys in self.wanting.items()},
            "dropped": dict(self.dropped),
            "notes": [as_text(note) for note in self.notes],
            "took_s": self.took_s,
        }

    def to_dataframe(self) -> Any:
        """One row a suggestion, as a pandas DataFrame.

        Raises:
            ConfigError: pandas is not installed.
        """
        rows = [each.to_dict() for each in self.suggested]
        return dataframe(rows, ["flow", "part", "text", "source", "why", "other", "evidence"])

    def to_yaml(self) -> str:
        """A file for review, flow by flow. It is no file of flows, and `load_flows` refuses it."""
        told: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for name, whys in self.wanting.items():
            told[as_text(name)]["wanting"] = [in_one_line(as_text(why)) for why in whys]
        for each in self.suggested:
            entry = {"text": in_one_line(as_text(each.text)), "source": each.source.value, "why": as_text(each.why)}
            entry |= {"other": as_text(each.other)} if each.other else {}
            entry |= {"evidence": [in_one_line(as_text(one.text)) for one in each.evidence]} if each.evidence else {}
            told[as_text(each.flow)].setdefault(f"{each.part.value}s", []).append(entry)
        dumped: str = yaml.safe_dump({"suggestions": dict(told)}, allow_unicode=True, sort_keys=False, width=120)
        return _HEAD + dumped

    def _repr_html_(self) -> str:
        rows = [(each.flow, each.part.value, each.text, each.source.value, each.why) for each in self.suggested]
        return html_table(("flow", "part", "text", "source", "why"), rows)
