"""The effect of learning on a catalogue: what a change costs of known requests, and the version on trial."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, fields
from math import sqrt
from typing import Final

from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.metrics import Z95
from jazz_select.evaluation.overlay import Gain, Overlay, Version, spelling_key, takes_examples, taught
from jazz_select.evaluation.route import Outcome, Query, Routed, RouteOptions, route_with_temp_index
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.outcomes.entries import Logged
from jazz_select.ports import Embedder
from jazz_select.serialization import JsonData
from jazz_select.stages import is_none_suspected
from jazz_select.text import count_of

_LEAST_EXAMPLES: Final = 3
"""A flow with fewer examples spares none to judge by."""
_MOST_OWN: Final = 1_000
_LEAST_JUDGED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A request whose first flow differs; if the version learned it, it says nothing about others."""

    request: str
    before: str
    after: str
    right: tuple[str, ...] | None = None
    learned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a change costs of the requests that are known: labelled ones, and an example of each flow.

    Attributes:
        gain: Shares that lead to a right flow before and after.
        lost: Requests that were right, and are no more.
        won: Requests that were not right, and are.
        moved: All whose first flow differs, those among them.
    """

    gain: Gain
    lost: tuple[Change, ...] = ()
    won: tuple[Change, ...] = ()
    moved: tuple[Change, ...] = ()

    def __str__(self) -> str:
        gain = self.gain
        change = gain.after - gain.before
        return (
            f"right first {gain.before:.1%} → {gain.after:.1%} of {count_of(gain.requests, 'known request')} "
            f"({100 * change:+.1f} points, {100 * gain.low:+.1f} to {100 * gain.high:+.1f}); "
            f"{count_of(len(self.moved), 'request')} would move, {len(self.lost)} away from what is right"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A request, and the flows of which one must be first for it; none for one out of scope."""

    asked: Query
    right: frozenset[str]

    def is_right(self, route: Routed) -> bool:
        """Whether a route is right, as far as recall alone can tell.

        An out-of-scope request is right if nothing is chosen, or if a model is asked and recall suspects none fits.
        """
        if self.right:
            return route.first in self.right
        if route.outcome is Outcome.ASKED:
            return is_none_suspected(route.p_none)
        return route.outcome is Outcome.NONE


class Scales:
    """Weighs versions of what is learned by the requests that are known.

    An added example refits all of recall, so each version is indexed anew. Labelled requests are asked of the catalogue
    as it would be shipped, and one example of each flow of a catalogue without these examples, since an indexed example
    would find itself.
    """

    def __init__(
        self,
        authored: Mapping[str, BaseFlow],
        cases: Sequence[Case],
        *,
        routing: RouteOptions | None,
        embedder: Embedder,
        language: str,
    ) -> None:
        """Take the flows as their authors wrote them, labelled requests, and how the deployment selects."""
        self._authored = authored
        self._hold_out_examples, self._own = _hold_out_examples(authored)
        self._labelled = [Known(asked=Query.from_case(case), right=frozenset(case.expect)) for case in cases]
        self._routing = routing
        self._index = {"embedder": embedder, "language": language}
        self._judged = [*self._labelled, *self._own]

    @property
    def are_enough(self) -> bool:
        """Whether there are at least three requests for flows to judge by."""
        return sum(bool(each.right) for each in self._judged) >= _LEAST_JUDGED

    async def routes(self, version: Version | None) -> list[Routed]:
        """Return where the known requests lead with a version."""
        sides = ((self._authored, self._labelled), (self._hold_out_examples, self._own))
        found: list[Routed] = []
        for flows, judged in sides:
            if not judged:
                continue
            asked = [each.asked for each in judged]
            registry = taught(flows, version).registry
            found += await route_with_temp_index(registry, asked, self._routing, **self._index)
        return found

    def cost(self, before: Sequence[Routed], after: Sequence[Routed]) -> Cost:
        """Return what differs between two routes of the known requests.

        Requests out of scope are not part of the gain. Its interval is that of paired shares (Wald, as in McNemar's
        test).
        """
        lost: list[Change] = []
        won: list[Change] = []
        moved: list[Change] = []
        labelled = right_before = won_labelled = lost_labelled = 0
        for known, old, new in zip(self._judged, before, after, strict=True):
            was_right, is_right = known.is_right(old), known.is_right(new)
            is_won = is_right and not was_right
            is_lost = was_right and not is_right
            if known.right:
                labelled += 1
                right_before += was_right
                won_labelled += is_won
                lost_labelled += is_lost
            is_moved = old.first != new.first
            if not (is_lost or is_won or is_moved):
                continue
            right = tuple(sorted(known.right))
            change = Change(request=known.asked.request, before=old.first, after=new.first, right=right)
            if is_lost:
                lost.append(change)
            if is_won:
                won.append(change)
            if is_moved:
                moved.append(change)
        gain = _gain(labelled, right_before, won_labelled, lost_labelled)
        return Cost(gain=gain, lost=tuple(lost), won=tuple(won), moved=tuple(moved))


def _hold_out_examples(authored: Mapping[str, BaseFlow]) -> tuple[FlowRegistry, list[Known]]:
    """Return the catalogue with one example taken out of each flow, chosen by a hash, and these as known requests."""
    # Sample by a hash, so that every run takes the same cases.
    own: dict[str, str] = {}
    for flow in authored.values():
        if len(flow.examples) >= _LEAST_EXAMPLES and takes_examples(flow):
            own[flow.id] = min(flow.examples, key=lambda each: _hash(f"{flow.name} {each}"))
    if len(own) > _MOST_OWN:
        own = {name: own[name] for name in sorted(own, key=_hash)[:_MOST_OWN]}
    made = FlowRegistry(min_examples=0)
    for flow in authored.values():
        duplicate = copy(flow)
        if flow.id in own:
            duplicate.examples = tuple(text for text in flow.examples if text != own[flow.id])
        made.register(duplicate)
    known = [Known(asked=Query(request=text), right=frozenset({authored[name].name})) for name, text in own.items()]
    return made, known


def _gain(requests: int, right: int, won: int, lost: int) -> Gain:
    if not requests:
        return Gain(requests=0, before=0.0, after=0.0, low=0.0, high=0.0)
    change = (won - lost) / requests
    # A request changes by +1, -1 or 0: its variance is the mean of the squares less the square of the mean.
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
        sides.append(await route_with_temp_index(flows.registry, asked, routing, embedder=embedder, language=language))
    learned: set[str] = set()
    for texts in version.examples.values():
        learned.update(map(spelling_key, texts))
    changes: list[Change] = []
    mended = broken = unseen_mended = 0
    for entry, before, after in zip(logged, *sides, strict=True):
        if before.first == after.first:
            continue
        right = entry.right if entry.is_corrected_by_human else None
        is_learned = spelling_key(entry.request) in learned
        was_right = before.first in (right or ())
        is_right = after.first in (right or ())
        mended += is_right and not was_right
        unseen_mended += is_right and not was_right and not is_learned
        broken += was_right and not is_right
        changes.append(
            Change(request=entry.request, before=before.first, after=after.first, right=right, learned=is_learned)
        )
    return Trial(
        version=version.number,
        live=overlay.live,
        requests=len(logged),
        changed=len(changes),
        mended=mended,
        broken=broken,
        unseen_mended=unseen_mended,
        changes=tuple(changes[:_SHOWN]),
        notes=tuple(dict.fromkeys(notes)),
    )
