"""A tool of a function: typed values arrive, JSON that fits the schema comes out, or no tool is made at all."""

import asyncio
import collections
import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial, wraps
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field
from typing_extensions import TypeAliasType, TypedDict

from jazz_select.routing import Plan, Tool, run_plan, tool_from_function
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.records import StepOutcome
from jazz_select.routing.schemas.validity import Checker, invalid

T = TypeVar("T")


async def called(tool: Tool, arguments: Mapping[str, Any]) -> StepOutcome:
    """What becomes of one call, at one of the doors that make calls."""
    (step,) = (await run_plan(Plan.from_steps([PlanStep(tool=tool.name, arguments=dict(arguments))]), [tool])).steps
    return step


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Ways(enum.Flag):
    LEFT = 1
    RIGHT = 2


class Half(enum.Enum):
    ONE = 0.5


class Size(enum.StrEnum):
    S = "s"


class Item(BaseModel):
    sku: str
    made: date | None = None


class Frozen(BaseModel, frozen=True):
    sku: str


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    order_id: int = Field(alias="orderId")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    made: date
    colours: tuple[Colour, ...]


class Node(BaseModel):
    name: str
    children: "list[Node]" = []


class Box(BaseModel, Generic[T]):
    content: T


class Tags(RootModel[list[str]]): ...


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


class Totals(BaseModel):
    net: int

    @computed_field
    @property
    def gross(self) -> int:
        return self.net * 2


@dataclass
class Parcel:
    weight: Decimal
    stops: list[date]


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(TypedDict):
    city: str
    since: date


Cents = NewType("Cents", int)
Names = TypeAliasType("Names", list[str])
Colours = list[Colour]
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
ID = "8c7e1d7e-7d1c-4a58-9c7e-0d8f6f6f1d11"
BIG = 2**80

# What it is annotated with, what is sent, what arrives, and what comes out where that is something else.
TYPES: list[tuple[Any, Any, Any, Any]] = [
    (str, "a", "a", ...),
    (int, 3.0, 3, 3),
    (int, BIG, BIG, BIG),
    (float, 3, 3.0, 3.0),
    (bool, True, True, ...),
    (Any, {"a": [1]}, {"a": [1]}, ...),
    (object, [1], [1], ...),
    (bytes, "höher", "höher".encode(), ...),
    (Decimal, "1.50", Decimal("1.50"), "1.50"),
    (Decimal, 2, Decimal(2), "2"),
    (Fraction, "1/3", Fraction(1, 3), ...),
    (date, "2026-05-01", date(2026, 5, 1), ...),
    (datetime, "2026-05-01T12:00:00Z", NOON, ...),
    (time, "12:30:00", time(12, 30), ...),
    (timedelta, "PT1H", timedelta(hours=1), ...),
    (UUID, ID, UUID(ID), ...),
    (Path, "a/b.txt", Path("a/b.txt"), ...),
    (PurePosixPath, "a/b", PurePosixPath("a/b"), ...),
    (IPv4Address, "127.0.0.1", IPv4Address("127.0.0.1"), ...),
    (re.Pattern[str], "a+", re.compile("a+"), ...),
    (SecretStr, "hush", SecretStr("hush"), "**********"),
    (Colour, "red", Colour.RED, ...),
    (Level, 1, Level.LOW, ...),
    (Rights, 3, Rights.READ | Rights.WRITE, 3),
    (list[Ways | None], [3, 0, None], [Ways.LEFT | Ways.RIGHT, Ways(0), None], ...),
    (Half, 0.5, Half.ONE, ...),
    (re.Pattern, "a+", re.compile("a+"), ...),
    (Literal["a", 2], 2, 2, ...),
    (Literal[Size.S], "s", Size.S, ...),
    (Item, {"sku": "x", "made": "2026-05-01"}, Item(sku="x", made=date(2026, 5, 1)), ...),
    (Item, {"sku": "x"}, Item(sku="x"), {"sku": "x", "made": None}),
    (Aliased, {"orderId": 7}, Aliased(orderId=7), ...),
    (
        Strict,
        {"made": "2026-05-01", "colours": ["red"]},
        Strict(made=date(2026, 5, 1), colours=(Colour.RED,)),
        ...,
    ),
    (Node, {"name": "a", "children": [{"name": "b", "children": []}]}, Node(name="a", children=[Node(name="b")]), ...),
    (Box[date], {"content": "2026-05-01"}, Box[date](content=date(2026, 5, 1)), ...),
    (Tags, ["a"], Tags(["a"]), ...),
    (Totals, {"net": 1}, Totals(net=1), {"net": 1, "gross": 2}),
    (Parcel, {"weight": "1.5", "stops": ["2026-05-01"]}, Parcel(Decimal("1.5"), [date(2026, 5, 1)]), ...),
    (Point, [1, 2], Point(1, 2), ...),
    (Point, [1], Point(1), [1, 0]),
    (Address, {"city": "Oslo", "since": "2026-05-01"}, {"city": "Oslo", "since": date(2026, 5, 1)}, ...),
    (Cents, 5, 5, ...),
    (Names, ["a"], ["a"], ...),
    (list[date], ["2026-05-01"], [date(2026, 5, 1)], ...),
    (list[Item], [{"sku": "x", "made": None}], [Item(sku="x")], ...),
    (Sequence[Colour], ["blue"], [Colour.BLUE], ...),
    (Iterable[date], ["2026-05-01"], [date(2026, 5, 1)], ...),
    (set[Colour], ["red"], {Colour.RED}, ...),
    (set[Frozen], [{"sku": "x"}], {Frozen(sku="x")}, ...),
    (frozenset[int], [1], frozenset({1}), ...),
    (tuple[date, int], ["2026-05-01", 1], (date(2026, 5, 1), 1), ...),
    (tuple[Path, ...], ["a"], (Path("a"),), ...),
    (collections.deque[date], ["2026-05-01"], collections.deque([date(2026, 5, 1)]), ...),
    (dict[str, list[Item]], {"a": [{"sku": "x", "made": None}]}, {"a": [Item(sku="x")]}, ...),
    (dict[int, date], {"1": "2026-05-01"}, {1: date(2026, 5, 1)}, ...),
    (dict[Colour, int], {"red": 1}, {Colour.RED: 1}, ...),
    (collections.Counter[str], {"a": 2}, collections.Counter(a=2), ...),
    (Optional[date], None, None, ...),  # noqa: UP045 - written as many write it
    (date | None, "2026-05-01", date(2026, 5, 1), ...),
    (Cat | Dog, {"kind": "dog"}, Dog(kind="dog"), ...),
    (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat", "lives": 9}, Cat(kind="cat", lives=9), ...),
    (Annotated[int, Field(ge=1)], 1, 1, ...),
    (date | int, 5, 5, ...),
    (dict[str, Any], {"a": {"b": [None]}}, {"a": {"b": [None]}}, ...),
]


def shown(annotation: Any) -> str:
    return re.sub(
        r"\b(\w+\.)+", "", getattr(annotation, "__name__", "") if type(annotation) is type else str(annotation)
    )


@pytest.mark.spec("005.12")
@pytest.mark.parametrize(
    ("annotation", "sent", "arrives", "gives"),
    [pytest.param(*row, id=f"{number} {shown(row[0])[:40]}") for number, row in enumerate(TYPES)],
)
async def test_a_value_arrives_as_it_is_annotated_and_comes_out_as_json(
    annotation: Any, sent: object, arrives: object, gives: object
) -> None:
    seen: list[object] = []

    def function(value: object) -> object:
        seen.append(value)
        return value

    function.__annotations__ = {"value": annotation, "return": annotation}
    tool = tool_from_function(function)
    step = await called(tool, {"value": sent})
    assert (step.error, seen) == (None, [arrives])
    assert type(seen[0]) is type(arrives)
    assert step.output == (sent if gives is ... else gives)
    texts = frozenset({"format"})  # pydantic reads and writes more than the standard has
    assert Checker(tool.input_schema, unread=texts).problems({"value": sent}) == ""
    if tool.output_schema is not None:
        assert Checker(tool.output_schema, unread=texts).problems(step.output) == ""


@pytest.mark.spec("005.12")
@pytest.mark.parametrize("annotation", [..., Any, object, list[Any], dict[str, set[int]]], ids=str)
@pytest.mark.parametrize(
    ("returned", "output"),
    [
        ({"a": {1}}, {"a": [1]}),
        ([b"abc", "h\u00f6her".encode()], ["abc", "h\u00f6her"]),
        ([b"abc", b"\xff\xfe"], ["YWJj", "__4="]),
        ([Path("a")], ["a"]),
        ([Point(1)], [[1, 0]]),
        ([BIG], [BIG]),
        ([timedelta(hours=1), Colour.RED], ["PT1H", "red"]),
        ([Item(sku="x")], [{"sku": "x", "made": None}]),
        (["a\ud800"], ["a\ufffd"]),
    ],
    ids=[
        "set",
        "bytes",
        "bytes that are no text",
        "path",
        "named tuple",
        "large",
        "others",
        "model",
        "half a character",
    ],
)
async def test_what_is_not_said_exactly_comes_out_as_json_too(annotation: Any, returned: Any, output: object) -> None:
    def function() -> object:
        return returned

    function.__annotations__ = {} if annotation is ... else {"return": annotation}
    assert (await called(tool_from_function(function), {})).output == output


class Lines:
    """Lines of a shop."""

    def __init__(self) -> None:
        self.got: list[object] = []

    def take(self, when: date) -> date:
        """Take it."""
        self.got.append(when)
        return when

    async def wait(self, when: date) -> date:
        await asyncio.sleep(0)
        return self.take(when)

    @classmethod
    def of_class(cls, when: date) -> date:
        return when

    @staticmethod
    def of_nobody(when: date) -> date:
        return when


class Plain:
    """An object that is called."""

    def __call__(self, when: date) -> date:
        return when


class Late:
    async def __call__(self, when: date) -> date:
        return when


def with_client(client: Lines, when: date) -> date:
    """Use the client.

    Args:
        client: Who asks.
        when: The day.
    """
    return client.take(when)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@logged
def decorated(when: date) -> date:
    return when


async def later(when: date) -> date:
    await asyncio.sleep(0)
    return when


def gives_a_coroutine(when: date) -> Any:
    return later(when)


def keyword_only(*, when: date) -> date:
    return when


def in_text(when: "date") -> "date":
    return when


def with_local_names() -> Callable[..., Any]:
    class Slot(BaseModel):
        day: date

    def book(when: "date") -> "Slot":
        return Slot(day=when)

    return book


CALLABLES: dict[str, Callable[..., Any]] = {
    "method": Lines().take,
    "async method": Lines().wait,
    "class method": Lines.of_class,
    "static method": Lines.of_nobody,
    "object": Plain(),
    "async object": Late(),
    "partial by name": partial(with_client, client=Lines()),
    "partial by position": partial(with_client, Lines()),
    "partial of a partial": partial(partial(with_client, Lines())),
    "partial of async": partial(later),
    "decorated": decorated,
    "async": later,
    "plain that gives a coroutine": gives_a_coroutine,
    "by name only": keyword_only,
    "annotations as text": in_text,
}


@pytest.mark.spec("005.12")
@pytest.mark.parametrize("kind", CALLABLES)
async def test_whatever_can_be_called_can_be_a_tool(kind: str) -> None:
    tool = tool_from_function(CALLABLES[kind])
    assert list(tool.input_schema["properties"]) == ["when"]
    assert tool.input_schema["required"] == ["when"]
    step = await called(tool, {"when": "2026-05-01"})
    assert (step.error, step.output) == (None, "2026-05-01")


def test_an_object_is_described_by_its_call_or_its_class() -> None:
    class Spoken(Plain):
        def __call__(self, when: date) -> date:
            """Say when."""
            return when

    assert tool_from_function(Plain()).description == "An object that is called."
    assert tool_from_function(Late()).description == ""
    assert (tool_from_function(Spoken()).name, tool_from_function(Spoken()).description) == ("Spoken", "Say when.")
    assert tool_from_function(partial(with_client, Lines())).description == "Use the client."


async def test_a_name_of_the_function_around_is_found() -> None:
    step = await called(tool_from_function(with_local_names()), {"when": "2026-05-01"})
    assert step.output == {"day": "2026-05-01"}


def test_a_lambda_with_a_name_is_a_tool() -> None:
    same: Callable[[object], object] = lambda x: x  # noqa: E731 - a lambda is what this is about
    assert tool_from_function(same, name="same").name == "same"


@pytest.mark.spec("005.12")
def test_a_default_is_shown_by_the_names_that_its_schema_has() -> None:
    class Page(BaseModel):
        size: int = Field(alias="pageSize")

    def listed(page: Page = Page(pageSize=3)) -> int:  # noqa: B008 - such a default is what it is about
        return page.size

    tool = tool_from_function(listed)
    shown = tool.input_schema["properties"]["page"]["default"]
    assert shown == {"pageSize": 3}
    assert invalid(tool.input_schema, {"page": shown}) == ""


def test_tools_that_return_one_class_have_schemas_of_their_own() -> None:
    class Parcel(BaseModel):
        weight: float

    def weigh() -> Parcel:
        """Weigh the parcel."""
        return Parcel(weight=1.5)

    first, second = tool_from_function(weigh), tool_from_function(weigh)
    assert first.output_schema == second.output_schema
    changed: Any = first.output_schema
    changed["properties"]["weight"]["minimum"] = 1
    assert second.output_schema == tool_from_function(weigh).output_schema
    assert first.output_schema != second.output_schema
