"""The effect of learning on a catalogue: the gate that a change must pass, and the version on trial."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, fields
from math import comb, sqrt
from typing import Final, Literal

from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.metrics import Z95
from jazz_select.evaluation.overlay import Gain, Overlay, spelled, takes_examples, taught
from jazz_select.evaluation.route import Outcome, Query, Routed, RouteOptions, led
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.outcomes.log import Logged
from jazz_select.ports import Embedder
from jazz_select.stages import is_none_suspected
from jazz_select.travel import JsonData

_LEAST_EXAMPLES: Final = 3
"""A flow with fewer examples spares none for the gate."""
_MOST_OWN: Final = 1_000
_NOISE: Final = 0.05
"""Significance level below which a flow's losses count."""
_NO_FLOW: Final = ""
"""Stands for the flow of out-of-scope requests in counts."""
Part = Literal["held", "case", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A request of the gate, its source, and its right flows, one of which must be first; empty for out of scope."""

    asked: Query
    right: frozenset[str]
    part: Part

    def is_right(self, route: Routed) -> bool:
        """Whether a route is right, as far as recall alone can tell.

        An out-of-scope request is right if nothing is chosen, or if a model is asked and recall suspects none fits.
        """
        if self.right:
            return route.first in self.right
        return route.outcome is Outcome.NONE or (route.outcome is Outcome.ASKED and is_none_suspected(route.p_none))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The effect of a change on the gate: positions of lost and won requests, and why it must not land, if it must."""

    gain: Gain
    lost: tuple[int, ...] = ()
    won: tuple[int, ...] = ()
    why: str = ""


def gate_cases(cases: Sequence[Case], part: Part) -> list[Gated]:
    """Return labelled requests as requests of the gate."""
    return [Gated(asked=Query.of(case), right=frozenset(case.expect), part=part) for case in cases]


def spared(registry: Mapping[str, BaseFlow], authored: Mapping[str, BaseFlow]) -> tuple[FlowRegistry, list[Gated]]:
    """Return the catalogue with one author's example taken out of each flow, and these examples as gate requests.

    An indexed example would find itself. The example is chosen by a hash of its text.
    """
    own: dict[str, str] = {}
    for flow in authored.values():
        if len(flow.examples) >= _LEAST_EXAMPLES and takes_examples(flow):
            own[flow.id] = min(flow.examples, key=lambda each: _hash(f"{flow.name} {each}"))
    if len(own) > _MOST_OWN:
        own = {each: own[each] for each in sorted(own, key=_hash)[:_MOST_OWN]}
    made = FlowRegistry(min_examples=0)
    for flow in registry.values():
        again = copy(flow)
        if flow.id in own:
            again.examples = tuple(each for each in flow.examples if each != own[flow.id])
        made.register(again)
    judged = [
        Gated(asked=Query(request=text), right=frozenset({authored[each].name}), part="own")
        for each, text in own.items()
    ]
    return made, judged


def verdict(judged: Sequence[Gated], before: Sequence[Routed], after: Sequence[Routed]) -> Verdict:
    """Compare the routes of the same requests before and after a change.

    The change must not land if fewer requests are right in all or among the given labelled ones, or if a flow loses
    more than it wins beyond noise (a sign test at .05). Out-of-scope requests are judged apart, in the same way, and
    are not part of the gain. The interval of the gain is that of paired shares (Wald, as in McNemar's test).
    """
    was = [each.is_right(route) for each, route in zip(judged, before, strict=True)]
    now = [each.is_right(route) for each, route in zip(judged, after, strict=True)]
    lost = tuple(place for place, (old, new) in enumerate(zip(was, now, strict=True)) if old and not new)
    won = tuple(place for place, (old, new) in enumerate(zip(was, now, strict=True)) if new and not old)
    fits = [place for place, each in enumerate(judged) if each.right]
    changed = [sum(bool(judged[place].right) for place in places) for places in (won, lost)]
    gain = _gain(len(fits), sum(was[place] for place in fits), *changed)
    return Verdict(gain=gain, lost=lost, won=won, why=_why_not(judged, won, lost))


def _why_not(judged: Sequence[Gated], won: Sequence[int], lost: Sequence[int]) -> str:
    def counted(wanted: Callable[[Gated], bool]) -> list[int]:
        return [sum(wanted(judged[place]) for place in places) for places in (lost, won)]

    less, more = counted(lambda each: bool(each.right))
    if less > more:
        return f"of {sum(bool(each.right) for each in judged)} requests {less} would be lost and {more} won"
    less, more = counted(lambda each: each.part == "case" and bool(each.right))
    if less > more:
        return f"of the labelled requests {less} would be lost and {more} won"
    less, more = counted(lambda each: each.part == "case" and not each.right)
    if less > more:
        return f"of the labelled requests that no flow is for, {less} would seem to be for one, and {more} no more"
    for name in sorted({name for place in lost for name in judged[place].right or {_NO_FLOW}}):
        less, more = counted(lambda each, name=name: name in (each.right or {_NO_FLOW}))
        if less > more and _chance(less, more) < _NOISE:
            return f"{name or 'what no flow is for'} would lose {less} requests and win {more}"
    return ""


def _chance(lost: int, won: int) -> float:
    """Return P(at least this many losses among the changed requests) if losses and wins are equally likely."""
    changed = lost + won
    return sum(comb(changed, each) for each in range(lost, changed + 1)) / 2**changed


def _gain(requests: int, right: int, won: int, lost: int) -> Gain:
    if not requests:
        return Gain(requests=0, before=0.0, after=0.0, low=0.0, high=0.0)
    change = (won - lost) / requests
    error = sqrt(max(0.0, (won + lost) / requests - change**2) / requests)
    return Gain(
        requests=requests,
        before=round(right / requests, 4),
        after=round((right + won - lost) / requests, 4),
        low=round(change - Z95 * error, 4),
        high=round(change + Z95 * error, 4),
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


_MOST_REQUESTS: Final = 20_000
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A request whose first flow differs on trial; if the version learned it, it says nothing about others."""

    request: str
    before: str
    after: str
    right: tuple[str, ...] | None = None
    learned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(JsonData, Framed):
    """The effect that a version on trial would have had.

    Attributes:
        live: The number of the live version; 0 for the catalogue as written.
        mended: Number of these whose first flow was wrong and is now right, as people said.
        broken: Number of these whose first flow was right and is now wrong.
        unseen_mended: `mended` without what the version has learned.
        changes: The first hundred changes.
    """

    version: int
    live: int
    requests: int
    changed: int = 0
    mended: int = 0
    broken: int = 0
    unseen_mended: int = 0
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        new = f"{self.unseen_mended} of them not learned from"
        became = f"{self.mended} to what was corrected ({new}), {self.broken} away from what was right"
        return f"version {self.version} would have changed {self.changed} of {self.requests} requests: {became}"

    def _frame(self) -> Frame:
        return [asdict(each) for each in self.changes], [each.name for each in fields(Change)]


async def compared(
    registry: Mapping[str, BaseFlow],
    entries: Iterable[Logged],
    overlay: Overlay,
    *,
    embedder: str | Embedder = "auto",
    language: str = "english",
    routing: RouteOptions | None = None,
) -> Trial:
    """Compare the live version with the one on trial over the requests of a log. No model is asked.

    At most the last 20,000 entries are used; those since the trial began say most. The other arguments are those of
    `learn`.

    Raises:
        ConfigError: No version is on trial, or the log has no texts.
        EmbeddingError: The embedder failed.
    """
    version = overlay.version("shadow")
    if version is None:
        raise ConfigError("no version is on trial: jazz-select learn LOG makes one where there is something to learn")
    logged = [each for each in entries if each.request.strip()][-_MOST_REQUESTS:]
    if not logged:
        raise ConfigError("the log has no requests to compare by: it is empty, or its texts were redacted")
    sides: list[list[Routed]] = []
    notes: list[str] = []
    asked = [Query(request=each.request) for each in logged]
    for side in (overlay.version("live"), version):
        flows = taught(registry, side)
        notes += flows.notes
        sides.append(await led(flows.registry, asked, routing, embedder=embedder, language=language))
    learned = {spelled(text) for texts in version.examples.values() for text in texts}
    changes = [
        Change(
            request=each.request,
            before=before.first,
            after=after.first,
            right=each.right if each.is_corrected_by_human else None,
            learned=spelled(each.request) in learned,
        )
        for each, before, after in zip(logged, *sides, strict=True)
        if before.first != after.first
    ]
    mended = [each for each in changes if each.right and each.after in each.right and each.before not in each.right]
    broken = [each for each in changes if each.right and each.before in each.right and each.after not in each.right]
    return Trial(
        version=version.number,
        live=overlay.live,
        requests=len(logged),
        changed=len(changes),
        mended=len(mended),
        broken=len(broken),
        unseen_mended=sum(not each.learned for each in mended),
        changes=tuple(changes[:_SHOWN]),
        notes=tuple(dict.fromkeys(notes)),
    )
