"""Guards: flows that say themselves whether they may be offered in a context. A guard that fails closes its flow."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, NamedTuple

from jazz_select.flow.base import BaseFlow
from jazz_select.text import in_log
from jazz_select.threads import run_with_timeout

_log = logging.getLogger(__name__)
_LATE = "it gave no answer in the time of the turn"
_NAMED = 5


class Unavailable(NamedTuple):
    """The ids of flows that may not be offered, and what there is to say about them."""

    ids: frozenset[str]
    notes: tuple[str, ...]
    shut: Mapping[str, tuple[str, str]] = MappingProxyType({})
    """Those whose guards do not agree: id to name, and what the guard failed with, if it did."""

    def among(self, ids: Collection[str]) -> "Unavailable":
        """As if nobody but these had been asked."""
        return _unavailable({flow_id: told for flow_id, told in self.shut.items() if flow_id in ids})


class Availability:
    """The guarded flows of a registry, asked before retrieval and again after the choice.

    Which flows are guarded is found out once per version of the registry; a mapping
    without a version is looked through each time.
    """

    def __init__(self, registry: Mapping[str, BaseFlow]) -> None:
        self._registry = registry
        self._seen: tuple[object, tuple[BaseFlow, ...]] = (None, ())
        self._compared: tuple[object, object, str] = (None, None, "")

    async def closed(self, context: Mapping[str, Any], *, only: Collection[str] | None = None) -> Unavailable:
        """The flows that are not available in `context`, and all but those of the ids in `only`, where it is given."""
        closed = await _closed(self._guarded(), context)
        return closed if only is None else closed._replace(ids=closed.ids | (set(self._registry) - set(only)))

    def unindexed(self, indexed: Collection[str] | None) -> str:
        """A note on the flows that recall cannot find, since they are not among `indexed`; empty where there are none.

        Compared once per version of the registry, for as long as it is the same collection.
        """
        if indexed is None:
            return ""
        version: object = getattr(self._registry, "version", None)
        seen, among, note = self._compared
        if version is None or version != seen or among is not indexed:
            missing = [flow.name for flow_id, flow in self._registry.items() if flow_id not in indexed]
            note = _not_synced(missing) if missing else ""
            self._compared = version, indexed, note
        return note

    @staticmethod
    async def closed_among(flows: Iterable[BaseFlow], context: Mapping[str, Any]) -> Unavailable:
        """Those of `flows` that are not available in `context`. Their guards are asked in a thread: they may block."""
        return await _closed([flow for flow in flows if flow.has_guard], context)

    def _guarded(self) -> tuple[BaseFlow, ...]:
        version: object = getattr(self._registry, "version", None)
        seen, flows = self._seen
        if version is None or version != seen:
            flows = tuple(flow for flow in self._registry.values() if flow.has_guard)
            self._seen = version, flows
        return flows


async def _closed(guarded: Sequence[BaseFlow], context: Mapping[str, Any]) -> Unavailable:
    """Those of these guarded flows that are not available, as `closed_among`."""
    if not guarded:
        return _unavailable({})
    said: dict[str, str | None] = {}

    def ask() -> None:
        for flow in guarded:
            said[flow.id] = _problem(flow, context)

    with suppress(TimeoutError):
        await run_with_timeout(ask, limit_s=None, name="jazz-select-available")
    problems = {flow.id: said.get(flow.id, _LATE) for flow in guarded}
    return _unavailable({flow.id: (flow.name, told) for flow in guarded if (told := problems[flow.id]) is not None})


def _unavailable(shut: Mapping[str, tuple[str, str]]) -> Unavailable:
    """What there is to say of these."""
    unavailable = ", ".join(sorted(name for name, problem in shut.values() if not problem))
    notes = [f"not available in this context: {unavailable}"] if unavailable else []
    notes += [
        f"the guard of {name} failed, so it counts as not available: {problem}"
        for name, problem in shut.values()
        if problem
    ]
    return Unavailable(frozenset(shut), tuple(notes), shut)


def _not_synced(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    are = "is" if len(names) == 1 else "are"
    return (
        f"registered, and cannot be found until sync_registry (jazz-select sync) is run, {are} "
        f"{', '.join(sorted(names)[:_NAMED])}{more}"
    )


def _problem(flow: BaseFlow, context: Mapping[str, Any]) -> str | None:
    """None if the flow is available, an empty text if it is not, else what its guard failed with."""
    try:
        answer: object = flow.available(context)
        if not isawaitable(answer):
            return None if answer else ""
        getattr(answer, "close", lambda: None)()  # a coroutine nobody will await would warn about it
        problem = "available() is async; declare it with `def`"
    except Exception as error:  # noqa: BLE001 - an author's guard may raise anything; failing open would run what it guards
        problem = f"{type(error).__name__}: {error}"
    _log.warning("flow=<%s>, problem=<%s> | guard failed, flow counts as not available", flow.name, in_log(problem))
    return problem
