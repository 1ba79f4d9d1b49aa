"""What can be no tool is refused while it is made; what is said of parameters; and calls that do not fit."""

import enum
import re
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, computed_field
from typing_extensions import Doc

from jazz_select.errors import ToolError
from jazz_select.routing import Plan, Tool, run_plan, tool_from_function
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.records import StepOutcome


async def called(tool: Tool, arguments: dict[str, Any]) -> StepOutcome:
    """What becomes of one call, at one of the doors that make calls."""
    (step,) = (await run_plan(Plan.from_steps([PlanStep(tool=tool.name, arguments=arguments)]), [tool])).steps
    return step


class Colour(enum.Enum):
    RED = "red"


class Pair(enum.Enum):
    ONE = (1, 2)


class Day(enum.Enum):
    FIRST = date(2026, 5, 1)


class Tag(enum.Enum):
    A = b"a"


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Paired(BaseModel):
    pair: Pair


class Item(BaseModel):
    sku: str
    made: date | None = None


class Totals(BaseModel):
    net: int

    @computed_field
    @property
    def gross(self) -> int:
        return self.net * 2


class Shop:
    def take(self, when: date) -> date:
        return when


# --- refused when it is made ------------------------------------------------------


class Client:
    """No schema can be made of it."""


CLIENT = Client()


def stars(*values: int) -> None: ...
def twice(**options: int) -> None: ...
def by_position(value: int, /) -> None: ...
def of_client(client: Client) -> None: ...
def a_client_by_default(client=CLIENT): ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
def any_client_by_default(client: Any = CLIENT) -> None: ...
def unknown(value: "Nowhere") -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
def unknown_within(value: "dict[str, list[Nowhere]]") -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
def gives_unknown() -> "Nowhere": ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
def gives_a_client() -> Client: ...
def yields() -> Iterator[int]:
    yield 1


async def yields_later():  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
    yield 1


def gives_an_iterator() -> AsyncIterator[int]: ...
def a_callable(done: Callable[[], None]) -> None: ...
def a_class(kind: type[int]) -> None: ...
def a_hashable(value: Hashable) -> None: ...
def lazy(values: dict[str, Iterable[int]]) -> None: ...
def keys(values: dict[tuple[int, int], str]) -> None: ...
def no_hash(values: set[Item]) -> None: ...
def lists_in_a_set(values: set[list[int]]) -> None: ...
def members(value: Literal[Colour.RED]) -> None: ...
def bytes_in_a_literal(value: Literal[b"a"]) -> None: ...
def pairs(value: Pair) -> None: ...
def days(values: list[Day | None]) -> None: ...
def tags(value: Tag) -> None: ...
def in_a_model(value: Paired) -> None: ...
def of_bytes(values: list[re.Pattern[bytes]]) -> None: ...
def by_rights(values: tuple[Rights, dict[Rights, int]]) -> None: ...
def by_number(values: dict[Literal[1, 2], str]) -> None: ...
def by_nothing(values: dict[None, str]) -> None: ...


REFUSED: list[tuple[Any, str]] = [
    (stars, r"parameter '\*values': arguments are given by name; take a list, `values: list\[str\]`"),
    (twice, r"parameter '\*\*options': no schema could say what it takes; name each, or take a dict"),
    (by_position, "parameter 'value': arguments are given by name, and it has none: take out the `/`"),
    (of_client, r"parameter 'client': .*Client.*give it beforehand: functools.partial"),
    (a_client_by_default, r"parameter 'client': its default is no JSON, .*functools.partial"),
    (any_client_by_default, r"parameter 'client': its default is no JSON"),
    (unknown, "parameter 'value': 'Nowhere', which its annotation names, cannot be found; define or import it"),
    (unknown_within, "parameter 'value': 'Nowhere'"),
    (gives_unknown, "what it returns: 'Nowhere'"),
    (gives_a_client, "what it returns: .*Client.*; return what JSON can hold"),
    (yields, "it yields, and a call has one result; return a list"),
    (yields_later, "it yields, and a call has one result"),
    (gives_an_iterator, "what it returns: .*; return what JSON can hold"),
    (a_callable, "parameter 'done': "),
    (a_class, "parameter 'kind': no JSON can be what it is annotated with"),
    (a_hashable, "parameter 'value': no JSON can be what it is annotated with"),
    (lazy, r"parameter 'values': it would be read only while the function runs; say list"),
    (keys, "parameter 'values': the keys of a JSON object are texts"),
    (no_hash, "parameter 'values': a set cannot hold what has no hash; say list"),
    (lists_in_a_set, "parameter 'values': a set cannot hold what has no hash"),
    (members, "parameter 'value': <Colour.RED: 'red'> in a Literal is not read from JSON; name the enum"),
    (bytes_in_a_literal, "parameter 'value': b'a' in a Literal is not read from JSON"),
    (pairs, r"parameter 'value': <Pair.ONE: \(1, 2\)> is not read from JSON; give the enum texts or numbers"),
    (days, r"parameter 'values': <Day.FIRST: datetime.date\(2026, 5, 1\)> is not read from JSON"),
    (tags, "parameter 'value': <Tag.A: b'a'> is not read from JSON"),
    (in_a_model, "parameter 'value': <Pair.ONE"),
    (of_bytes, "parameter 'values': no JSON can be what it is annotated with"),
    (by_rights, "parameter 'values': the keys of a JSON object are texts"),
    (by_number, "parameter 'values': the keys of a JSON object are texts"),
    (by_nothing, "parameter 'values': the keys of a JSON object are texts"),
    (Shop.take, "parameter 'self': it is a method without its object; give the method of an object"),
    (Item, "a class makes objects; give a function"),
    (lambda: 1, "a lambda has no name that could be called; give it one with name="),
    (max, "its signature cannot be read"),
    (5, "a tool is made of a function, not of 5"),
]


@pytest.mark.spec("005.12")
@pytest.mark.parametrize(
    ("function", "told"), [pytest.param(*row, id=getattr(row[0], "__name__", "five")) for row in REFUSED]
)
def test_what_could_fail_only_after_it_ran_is_refused_when_the_tool_is_made(function: Any, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        tool_from_function(function)


# --- what is said of the parameters -----------------------------------------------


def test_defaults_and_descriptions_are_told() -> None:
    unset = object()

    def book(  # noqa: PLR0917 - one of each
        when: Annotated[date, Field(description="The day.")] = date(2026, 5, 1),
        colours: frozenset[Colour] = frozenset({Colour.RED}),
        note: str = None,  # noqa: RUF013  # pyright: ignore[reportArgumentType]
        size: Annotated[int, "How large."] = 1,
        depth: Annotated[int, Field(description="How deep.")] = None,  # noqa: RUF013  # pyright: ignore[reportArgumentType]
        who: Annotated[str, Doc("For whom.")] = "me",
        hidden: date | None = unset,  # pyright: ignore[reportArgumentType]
        price: int = Field(3, ge=1, description="In cents."),
        tags: list[str] = Field(default_factory=list),  # noqa: B008
        call_id: str = "",
    ) -> list[Any]:
        """Book.

        Args:
            when: Not this.
            note: What to
                remember.
            call_id: Told to nobody.

        Returns:
            All of it.
        """
        assert depth is None
        return [when, colours, note, size, who, hidden is unset, price, tags, bool(call_id)]

    tool = tool_from_function(book)
    assert tool.description == "Book.\n\nReturns:\n    All of it."
    assert "required" not in tool.input_schema
    told = {
        name: (each.get("default"), each.get("description")) for name, each in tool.input_schema["properties"].items()
    }
    assert told == {
        "when": ("2026-05-01", "The day."),
        "colours": (["red"], None),
        "note": (None, "What to remember."),
        "size": (1, "How large."),
        "depth": (None, "How deep."),
        "who": ("me", "For whom."),
        "hidden": (None, None),
        "price": (3, "In cents."),
        "tags": (None, None),
    }
    assert "default" not in tool.input_schema["properties"]["hidden"]
    run: Any = tool.function
    assert run(note=None) == ["2026-05-01", ["red"], None, 1, "me", True, 3, [], False]


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\nArgs:\n    a: One.\n    b (int): Two: three.",
        "Do it.\n\nArguments:\n  a:\n    One.\n\n  b: Two:\n    three.\n",
        "Do it.\n\nParameters\n----------\na : str\n    One.\nb\n    Two: three.\n",
        "Do it.\n\n:param a: One.\n:param int b: Two:\n    three.\n:type a: str",
    ],
    ids=["google", "google, indented", "numpy", "sphinx"],
)
def test_each_form_of_docstring_is_read(docstring: str) -> None:
    def function(a: str, b: int) -> None: ...

    function.__doc__ = docstring
    tool = tool_from_function(function)
    told = {name: each["description"] for name, each in tool.input_schema["properties"].items()}
    assert (tool.description, told) == ("Do it.", {"a": "One.", "b": "Two: three."})


# --- calls --------------------------------------------------------------------------


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "no date": ({"when": "soon"}, "function: the arguments are not valid: when: Input should be a valid date"),
    "no item": ({"when": "2026-05-01", "items": [{}]}, "'sku' is a required property"),
    "one too many": ({"when": "2026-05-01", "more": 1}, "'more' was unexpected"),
    "too few": ({}, "function needs 'when'"),
    "beyond a float": ({"when": "2026-05-01", "weight": 10**400}, "weight: Input should be a valid number"),
    "beyond a float, within": (
        {"when": "2026-05-01", "weights": [1, -(10**400)]},
        "weights.1: Input should be a valid",
    ),
    "beyond all digits": ({"when": "2026-05-01", "weight": 10**5000}, "weight: Input should be a valid number"),
}


@pytest.mark.spec("005.12")
@pytest.mark.parametrize(("arguments", "told"), UNFIT.values(), ids=UNFIT)
async def test_what_the_function_does_not_take_is_told_and_nothing_is_called(arguments: Any, told: str) -> None:
    ran: list[object] = []

    def function(when: date, items: tuple[Item, ...] = (), weight: float = 1.0, weights: Sequence[float] = ()) -> None:
        ran.append((when, items))

    step = await called(tool_from_function(function, destructive=True), arguments)
    assert step.error is not None
    assert (step.error.fault, ran) == ("arguments", [])
    assert told in step.error.message


async def test_an_object_of_the_type_arrives_as_it_is() -> None:
    item, got = Item(sku="x"), list[Item]()

    def function(item: Item) -> None:
        got.append(item)

    run: Any = tool_from_function(function).function
    run(item=item)
    assert got[0] is item


async def test_what_needs_no_conversion_is_called_as_it_is() -> None:
    def function(name: str, sure: bool) -> int:
        return 1

    assert tool_from_function(function).function is function


async def test_what_is_said_to_be_gone_through_is_a_list() -> None:
    def count() -> Iterable[int]:
        return (number for number in range(3))

    def never_ends():  # pyright: ignore[reportUnknownParameterType]
        return (number for number in iter(int, 1))

    assert (await called(tool_from_function(count), {})).output == [0, 1, 2]
    endless = (await called(tool_from_function(never_ends), {})).error  # pyright: ignore[reportUnknownArgumentType]
    assert endless is not None
    assert endless.fault == "output"
