"""What became of a flow, as a value, and how far that brings it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from jazz_select.agent.conversation import Part, Ran
from jazz_select.json_values import storable_fields, storable_text
from jazz_select.routing.records import StepRecord

FlowStatus = Literal["done", "active", "open", "waiting", "failed"]
_WORST: Final = {"done": 0, "active": 1, "open": 2, "waiting": 3, "failed": 4}
_MOST_RAN: Final = 10
_LONGEST_RAN: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """What became of one flow.

    Attributes:
        flow: Its name.
        type: Its type.
        path: Its place: "0", or "0.1" for the second part of that.
        status: `done`; `active` where a model goes on with it in the turns to come; `open` where somebody else has to;
            `waiting` for facts that a tool of it wants; `failed` where a step did.
        records: One for each step of its own chain, of this turn.
        facts: What is known after it: what was known before, and what its tools returned.
        own: What its own tools returned, in this turn and before.
        ran: The tools that were run, as a model is told of them.
        parts: Those of a composite.
        steps_done: How many steps of its own chain are done.
        branch: Which branch a conditional flow took.
        tool: The tool that a choice fell on and that waits.
        last: The tool that ran last.
        asks: What it waits for.
        text: What a model said, where one went on.
        problem: What is open, or went wrong, in words.
        final: Whether a tool of its own was run that destroys something.
        named: What the user named and nothing takes, where it waits for a yes to leave that out.
        begun: False where it was not even begun: nothing of it is to be kept.
    """

    flow: str
    type: str = "flow"
    path: str = "0"
    status: FlowStatus = "done"
    records: tuple[StepRecord, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ran: tuple[Ran, ...] = ()
    parts: tuple["FlowRun", ...] = ()
    steps_done: int = 0
    branch: int | None = None
    tool: str = ""
    last: str = ""
    asks: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""
    final: bool = False
    named: tuple[str, ...] = ()
    begun: bool = True

    @property
    def all(self) -> Iterator["FlowRun"]:
        """It and all in it."""
        yield self
        for part in self.parts:
            yield from part.all

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """The records of all of it, in order of the parts."""
        return tuple(record for run in self.all for record in run.records)

    @property
    def known(self) -> dict[str, Any]:
        """What tools returned anywhere in it, the later ones over the earlier."""
        return {name: value for run in self.all for name, value in run.own.items()}


def progress_of(run: FlowRun, before: Mapping[str, Part]) -> dict[str, Part]:
    """How far each part has come, to go on with."""
    found = dict(before)
    for each in run.all:
        found[each.path] = Part(
            status=each.status,
            steps=each.steps_done,
            branch=each.branch,
            tool=each.tool,
            last=each.last,
            facts=storable_fields(each.own),
            ran=tuple(ran for place, ran in enumerate(each.ran) if len(each.ran) - place <= _MOST_RAN or ran.final),
            final=each.final,
        )
    return found


def output_text(output: object) -> str:
    """An output as a model is told of it later."""
    text = storable_text(output)
    return text if len(text) <= _LONGEST_RAN else f"{text[:_LONGEST_RAN]}…"


def joined(begun: FlowRun, parts: tuple[FlowRun, ...]) -> FlowRun:
    """A composite from its parts: as far as the least of them came."""
    if not parts:
        return begun
    facts = dict(begun.facts)
    for part in parts:
        facts.update(part.facts)
    worst = max(parts, key=lambda part: _WORST[part.status])
    return replace(
        begun,
        status=worst.status,
        parts=parts,
        facts=facts,
        asks=tuple(dict.fromkeys(ask for part in parts for ask in part.asks)),
        text="\n\n".join(part.text for part in parts if part.text),
        problem=f"{worst.flow}: {worst.problem}" if worst.problem else "",
    )
