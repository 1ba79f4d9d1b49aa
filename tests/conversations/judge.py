"""Whether a conversation came out as it should: effects, entities, claims, wishes; and that its cassette is whole."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from jazz_select.agent import TurnResult
from jazz_select.evaluation.conversations import is_said
from jazz_select.text import beginning
from tests.conversations.effects import Tables, compared, diff
from tests.conversations.play import Played, PlayedTurn
from tests.conversations.script import Changes, Expected, ProblemKind, Row

_NUMBER: Final = re.compile(r"(?:[A-Z]{1,3}-?)?\d{4,}")
"""What numbers of orders, returns and so on look like; those of articles are shorter."""
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_ID: Final = re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b")
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: what kind of thing, in which turn (0: the whole), and what."""

    kind: ProblemKind
    turn: int
    text: str

    def __str__(self) -> str:
        where = f"turn {self.turn}" if self.turn else "the whole"
        return f"{self.kind}, {where}: {self.text}"


def problems(played: Played) -> list[Problem]:
    """All that is wrong with a conversation; none where it is as it should be."""
    tape, script = played.tape, played.script
    found: list[Problem] = []
    if played.crash:
        found.append(Problem("crash", len(played.turns) + 1, played.crash))
    if tape.stopped is not None:
        return [*found, Problem("cassette", tape.turn, tape.describe_missing(tape.stopped))]
    found += [Problem("cassette", each.turn, f"a record was never asked for: {each.title}") for each in tape.left]
    for turn in played.turns:
        found += _of_turn(played, turn)
    if played.turns and not played.crash:
        wanted = script.expect
        found += _effects(0, played.before, played.after, wanted.effects or {})
        found += _said(0, "\n\n".join(turn.result.text for turn in played.turns), wanted)
        found += _outcome(0, played.turns[-1].result, [kind for turn in played.turns for kind in turn.kinds], wanted)
        if wanted.entities is not None:
            for turn in played.turns:
                found += _entities(turn, wanted.entities, played)
    return found


def _of_turn(played: Played, turn: PlayedTurn) -> Iterator[Problem]:
    wanted, number, text = turn.turn.expect, turn.number, turn.result.text
    if wanted.effects is not None:
        yield from _effects(number, turn.before, turn.after, wanted.effects)
    yield from _said(number, text, wanted)
    yield from _outcome(number, turn.result, turn.kinds, wanted)
    if wanted.entities is not None:
        yield from _entities(turn, wanted.entities, played)
    inside = sorted({name for name in played.names if re.search(rf"\b{name}\b", text)} | set(_ID.findall(text)))
    if inside:
        yield Problem("claim", number, f"names of the inside are told: {', '.join(inside)}")
    if turn.result.error is not None and wanted.status != "failed":
        yield Problem("wish", number, f"the turn has an error: {turn.result.error}")


def _outcome(number: int, result: TurnResult, kinds: list[str], wanted: Expected) -> Iterator[Problem]:
    """Where it stands, and how often a model was asked."""
    if wanted.status is not None and result.status != wanted.status:
        why = f" ({result.reason})" if result.reason else ""
        yield Problem("wish", number, f"the status is {result.status}{why}, not {wanted.status}")
    running = [*result.flows, *(flow.name for flow in result.conversation.flows)]
    if wanted.flow is not None and (running if wanted.flow == "none" else wanted.flow not in running):
        yield Problem("wish", number, f"the flows are {running or 'none'}, not {wanted.flow}")
    chosen = kinds.count("read")
    if wanted.model_calls_for_choice is not None and chosen != wanted.model_calls_for_choice:
        text = f"a model was asked {chosen} times which flow is meant, not {wanted.model_calls_for_choice} times"
        yield Problem("calls", number, text)
    if wanted.model_calls is not None and len(kinds) > wanted.model_calls:
        text = f"a model was asked {len(kinds)} times, for {', '.join(kinds)}; not {wanted.model_calls} times"
        yield Problem("calls", number, text)


def _effects(number: int, before: Tables, after: Tables, wanted: Mapping[str, Changes]) -> Iterator[Problem]:
    more, lacking = compared(diff(before, after), wanted)
    for effect in more:
        yield Problem("effect", number, f"not wished: {effect}")
    for text in lacking:
        yield Problem("wish", number, f"did not happen: {text}")


def _said(number: int, text: str, wanted: Expected) -> Iterator[Problem]:
    for words in wanted.says:
        if not is_said(words, text):
            yield Problem("wish", number, f"{words!r} is not said in {beginning(text, _SHOWN)!r}")
    for words in wanted.never_says:
        if is_said(words, text):
            yield Problem("claim", number, f"{words!r} is said in {beginning(text, _SHOWN)!r}")


def _entities(turn: PlayedTurn, meant: Sequence[str], played: Played) -> Iterator[Problem]:
    """Calls about something or somebody else than is meant: known to the shop before, or given as an order's number."""
    if not turn.calls:
        return  # the tables, of hundreds of rows, are compared for calls alone
    known = {_key(row) for rows in played.before.values() for row in rows} - {""}
    said = (played.script.context, *(each.turn.context for each in played.turns))
    customer = {email for context in said for email in map(str, context.values()) if _EMAIL.fullmatch(email)}
    allowed = related(set(meant), (played.before, played.after)) | customer
    for tool, arguments in turn.calls:
        for name, text in _texts(arguments):
            found = (
                {text} if name == "order_number" and text else {*_NUMBER.findall(text), *_EMAIL.findall(text)} & known
            )
            for each in sorted(found - allowed):
                yield Problem("entity", turn.number, f"{tool} was called with {name}={text!r}: {each} is not meant")


def related(meant: set[str], moments: Sequence[Tables]) -> set[str]:
    """What is meant, with what belongs to it (an order's return, the refund of that), and what these rows name.

    What they name has nothing that belongs to it: an order names its customer, whose other orders are not meant.
    """
    rows = [(_key(row), {*_named(row)}) for tables in moments for each in tables.values() for row in each]
    found, before = {each for each in meant if _NUMBER.fullmatch(each)}, set[str]()
    while found != before:
        before = set(found)
        found |= {key for key, named in rows if not found.isdisjoint(named)} - {""}
    return meant.union(found, *(named for key, named in rows if key in found))


def _key(row: Row) -> str:
    """What a row is known by: its first column, where that is a number as orders have one, or an address."""
    first = next(iter(row.values()), None)
    return next(_named({"": first}), "")


def _named(row: Row) -> Iterator[str]:
    """The numbers and addresses in a row. Amounts are none: they are kept as numbers, and what is known by as text."""
    for value in row.values():
        if isinstance(value, str) and _names(value):
            yield value


@cache
def _names(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text) or _EMAIL.fullmatch(text))


def _texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text in arguments, with the name it goes by."""
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, Any]", value).items():
            yield from _texts(inner, key)
    elif isinstance(value, list | tuple):
        for inner in cast("list[Any]", value):
            yield from _texts(inner, name)
    elif isinstance(value, str) or name == "order_number":
        yield name, str(value)
