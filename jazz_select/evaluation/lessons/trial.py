"""A version on trial: where it would have led the requests of a log, beside the version that is live."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from jazz_select.errors import ConfigError
from jazz_select.evaluation.index import AGENT, indexed
from jazz_select.evaluation.lessons.overlay import Overlay, spelled, taught
from jazz_select.evaluation.route import Asked, Policy, Route, routes
from jazz_select.evaluation.tables import dataframe, html_table
from jazz_select.flow.base import BaseFlow
from jazz_select.outcomes.file import Logged
from jazz_select.ports import Embedder

_MOST_REQUESTS: Final = 20_000
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A request that the version on trial leads elsewhere.

    Attributes:
        request: The text.
        before: The flow that the live version has first.
        after: The flow that the one on trial has first.
        right: What a person said was right; None where nobody did.
        learned: Whether the version on trial has it as an example: then it says nothing of other requests.
    """

    request: str
    before: str
    after: str
    right: tuple[str, ...] | None = None
    learned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a version on trial would have changed.

    Attributes:
        version: Its number.
        live: The number of the one that is live; 0 where that is what the authors wrote.
        requests: Requests of the log that were asked of both.
        changed: How many have another flow first.
        mended: Of these, requests whose first flow is right now, as people said, and was not before.
        broken: Of these, requests whose first flow was right, and is not any more.
        unseen_mended: `mended` without what the version has learned.
        changes: The first hundred changes.
        notes: What could not be used.
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
        """One line."""
        new = f"{self.unseen_mended} of them not learned from"
        became = f"{self.mended} to what was corrected ({new}), {self.broken} away from what was right"
        return f"version {self.version} would have changed {self.changed} of {self.requests} requests: {became}"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def to_dataframe(self) -> Any:
        """The changes as a `pandas.DataFrame`, one a row.

        Raises:
            ConfigError: pandas is not installed.
        """
        return dataframe([asdict(each) for each in self.changes], [each.name for each in fields(Change)])

    def _repr_html_(self) -> str:
        """For a notebook."""
        rows = [(each.request, each.before, each.after, each.right, each.learned) for each in self.changes]
        return html_table(("request", "live", "on trial", "said to be right", "learned"), rows, str(self))


async def compared(
    registry: Mapping[str, BaseFlow],
    entries: Iterable[Logged],
    overlay: Overlay,
    *,
    embedder: str | Embedder = "auto",
    language: str = "english",
    policy: Policy | None = None,
) -> Trial:
    """Ask the requests of a log of the live version and of the one on trial. No model is asked.

    Args:
        registry: The flows, as their authors wrote them.
        entries: Such as `OutcomeLog.read` gives them; those since a trial began say most. At most the last 20,000.
        overlay: What was learned.
        embedder: As for `ProceduralMemory.open`.
        language: Likewise.
        policy: How the deployment selects.

    Raises:
        ConfigError: No version is on trial, or the log has no texts.
        EmbeddingError: The embedder failed.
    """
    version = overlay.version("shadow")
    if version is None:
        msg = "no version is on trial: jazz-select learn LOG makes one where there is something to learn"
        raise ConfigError(msg)
    logged = [each for each in entries if each.request.strip()][-_MOST_REQUESTS:]
    if not logged:
        msg = "the log has no requests to compare by: it is empty, or texts are not kept (text=False)"
        raise ConfigError(msg)
    sides: list[list[Route]] = []
    notes: list[str] = []
    asked = [Asked(request=each.request) for each in logged]
    for side in (overlay.version("live"), version):
        flows = taught(registry, side)
        notes += flows.notes
        async with indexed(flows.registry, embedder=embedder, language=language) as memory:
            sides.append(await routes(flows.registry, memory, AGENT, asked, policy))
    learned = {spelled(text) for texts in version.examples.values() for text in texts}
    changes = [
        Change(
            request=each.request,
            before=before.first,
            after=after.first,
            right=each.right if each.source == "user" else None,
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
