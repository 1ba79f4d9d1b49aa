"""Checks of guards: those that raise, and those that never agree.

A guard is the author's code, which already ran when the flows were loaded. It is called with contexts that record which
facts it reads, then with values for these: booleans, numbers, texts, a time, and the constants of its own code. It
counts as never agreeing only if it looks at nothing but the context.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, product
from types import CodeType
from typing import Any, Final

from jazz_select.evaluation.checks.findings import Evidence, Finding, Places, Spot
from jazz_select.evaluation.guard_code import codes_of
from jazz_select.flow.base import BaseFlow
from jazz_select.text import describe_error

_MOST_ASKED: Final = 400
"""Most calls of one guard."""
_MOST_FACTS: Final = 12
_USUAL: Final = (True, False, 1, 0, 10**6, "x", "", datetime(2030, 6, 5, 12, tzinfo=UTC), ["x"])
_PLAIN = frozenset({*dir(str), *dir(dict), *dir(list), *dir(int), "bool", "len", "str", "int", "float", "isinstance"})
"""Names that have no effect beyond their arguments."""


class _RecordingContext(dict[str, Any]):
    """A context that records which facts are read."""

    def __init__(self, known: Mapping[str, Any], asked: dict[str, None]) -> None:
        super().__init__(known)
        self._asked = asked

    def __getitem__(self, name: str) -> Any:
        self._asked[name] = None
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._asked[name] = None
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self._asked[str(name)] = None
        return super().__contains__(name)


def guards(flows: Sequence[BaseFlow], contexts: Sequence[Mapping[str, Any]], places: Places) -> Iterator[Finding]:
    """Yield the findings about guards, called with known contexts such as those of cases, and with made-up ones."""
    for flow in flows:
        if flow.has_guard:
            yield from _check_guard(flow, contexts, places)


def _check_guard(flow: BaseFlow, contexts: Sequence[Mapping[str, Any]], places: Places) -> Iterator[Finding]:
    facts: dict[str, None] = {}
    agreed = False
    failure = ""
    for context in islice(_contexts(flow, contexts, facts), _MOST_ASKED):
        try:
            agreed = bool(flow.available(_RecordingContext(context, facts)))
        except Exception as error:  # noqa: BLE001 - whatever an author's code raises is what is looked for
            is_real = not context or context in contexts  # what is made up may be of a type that nobody passes
            if is_real and not failure:
                failure = describe_error(error)
        if agreed:
            break
    spot, evidence = Spot(flow), Evidence(text=flow.name, flow=flow.name)
    if failure:
        what = f"The guard of {flow.name} raises: {failure}."
        remedy = "Have it read the context with .get: where a guard raises, its flow is withheld."
        yield places.finding("broken-guard", spot, what, remedy, evidence)
    elif not agreed and _is_closed(flow):
        what = f"The guard of {flow.name} agreed in none of many contexts, of {', '.join(facts) or 'no facts at all'}."
        remedy = "Say when the flow may be offered, or take the flow out: it is never offered."
        yield places.finding("dead-guard", spot, what, remedy, evidence)


def _contexts(
    flow: BaseFlow, contexts: Sequence[Mapping[str, Any]], facts: Mapping[str, None]
) -> Iterator[Mapping[str, Any]]:
    """Yield an empty context, the known ones, and combinations of values for every fact read so far."""
    yield {}
    yield from contexts
    # Compare by `repr`, since 1 equals True and a list has no hash.
    candidates = (*_compared_constants(codes_of(flow)), *_USUAL)
    values = list({repr(each): each for each in candidates}.values())
    known = 0
    while known < len(facts):  # a fact may be asked for only where another one is as it should be
        known = len(facts)
        names = list(facts)[:_MOST_FACTS]
        # Try equal values for all facts first: these are few, and the calls of a guard are limited.
        for value in values:
            yield dict.fromkeys(names, value)
        for combination in product(values, repeat=len(names)):
            yield dict(zip(names, combination, strict=True))


def _compared_constants(codes: Sequence[CodeType]) -> list[Any]:
    """Return the constants of some code, and for each number the one above and the one below."""
    found: list[Any] = []
    for code in codes:
        for each in code.co_consts:
            if isinstance(each, tuple | frozenset):
                found += each
            else:
                found.append(each)
    near: list[Any] = []
    for each in found:
        if isinstance(each, int | float):
            near += [each - 1, each + 1]
    return [*found, *near]


def _is_closed(flow: BaseFlow) -> bool:
    """Whether the guard looks at nothing but the context, as far as its code shows."""
    codes = codes_of(flow)
    return len(codes) == 1 and _PLAIN.issuperset(codes[0].co_names) and not codes[0].co_freevars
