"""What was approved is what is done: the tool, the arguments and the words of a call, from the question to the call."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field

import jazz_select
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.conversation import PendingCall
from jazz_select.routing import Allow, Ask, Tool, ToolCall
from jazz_select.routing.approval import answered_approver
from jazz_select.routing.question import describe_call, display_problem, escape_invisible
from jazz_select.routing.tool_call import call_of, call_tool
from jazz_select.texts import Sentences, speaking
from tests.unit.agent.turns import agent_of, obj, shop_of

pytestmark = pytest.mark.spec("012.1")
SCHEMA = obj(item="string", cents="integer", to="array")
GIVEN: dict[str, Any] = {"item": "lamp", "cents": 1_000, "to": ["A-1", {"name": "Ada"}]}


def said_of(item: str, **_: Any) -> str:
    return f"the {item} for 10 EUR"


def said_dearer(item: str, **_: Any) -> str:
    return f"the {item} for 9,999 EUR"


def buys(log: list[Any], **changes: Any) -> Tool:
    def buy(**given: Any) -> None:
        log.append(given)

    made = Tool(name="buy", description="Buy it.", input_schema=SCHEMA, function=buy, destructive=True, confirm=said_of)
    return replace(made, **changes)


def changed(value: Any, chance: random.Random) -> Any:
    """The value with one character, digit or member of it other than it was."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value)
        if not value or chance.random() < 0.1:
            return {**value, f"more{len(value)}": None}
        name = chance.choice(sorted(value))
        return {**value, name: changed(value[name], chance)}
    if isinstance(value, list):
        value = cast("list[Any]", value)
        place = chance.randrange(len(value) + 1)
        return [*value[:place], *([changed(value[place], chance)] if place < len(value) else [0]), *value[place + 1 :]]
    if isinstance(value, str):
        place = chance.randrange(len(value) + 1)
        other = chance.choice([each for each in "aZ0 .\u200b\u0430\U0001f600" if each != value[place : place + 1]])
        return value[:place] + other + value[place + 1 :]
    return not value if isinstance(value, bool) else 7 if value is None else value + chance.choice((1, -1, 2**40))


@pytest.mark.spec("012.2")
async def test_one_character_of_what_was_shown_or_of_the_tool_makes_it_another_call() -> None:
    chance = random.Random(12)
    base: dict[str, Any] = {
        "name": "buy",
        "title": "Buy a thing",
        "description": "Buy it.",
        "input_schema": SCHEMA,
        "arguments": GIVEN,
        "words": "the lamp for 10 EUR",
        "destructive": True,
        "idempotent": False,
    }

    async def call(fields: Mapping[str, Any]) -> ToolCall:
        given, words = fields["arguments"], fields["words"]
        own = {name: value for name, value in fields.items() if name not in {"arguments", "words"}}
        return await call_of(replace(buys([]), **own, confirm=None if not words else _saying(words)), given, door="mcp")

    asked = await call(base)
    for _ in range(10_000):
        part = chance.choice(sorted(base))
        now = changed(base[part], chance)
        if part in {"words", "title"} and now.split() == base[part].split():
            continue  # blanks more or less are told alike
        other = await call({**base, part: now})
        assert await answered_approver([asked], Allow(), lambda _: Ask())(other) == Ask(), (part, other)  # type: ignore[misc]
    assert await answered_approver([asked], Allow(), lambda _: Ask())(await call(base)) == Allow()  # type: ignore[misc]


def _saying(words: str) -> Any:
    async def saying(**_: Any) -> str:
        return words

    return saying


# --- between the question and the yes ---------------------------------------------


def at_work(tool: Tool) -> Agent:
    return agent_of(shop_of(("buy_it", ("buy",))), [tool], "buy_it", approval="destructive")


@pytest.mark.spec("012.2")
@pytest.mark.parametrize(
    "changes",
    [
        {"confirm": said_dearer},
        {"title": "Close the account"},
        {"description": "Closes a bank account."},
        {"input_schema": {**SCHEMA, "title": "another"}},
        {"idempotent": True},
    ],
    ids=["its words", "its title", "its description", "its schema", "its effects"],
)
async def test_what_is_another_call_after_a_deployment_is_asked_about_anew(changes: Any) -> None:
    log: list[Any] = []
    asks = await at_work(buys(log)).turn("buy it", context=GIVEN)
    kept = Conversation.from_json(asks.conversation.to_json())
    again = await at_work(buys(log, **changes)).turn("yes", kept, context=GIVEN)
    assert (asks.status, again.status, log) == ("confirming", "confirming", [])
    done = await at_work(buys(log, **changes)).turn("yes", again.conversation, context=GIVEN)
    assert (done.status, log) == ("done", [GIVEN])


async def test_a_call_that_was_kept_without_an_identity_is_asked_about_anew() -> None:
    log: list[Any] = []
    asks = await at_work(buys(log)).turn("buy it", context=GIVEN)
    assert asks.conversation.pending is not None
    old = asks.conversation.model_copy(
        update={"pending": asks.conversation.pending.model_copy(update={"identity": ""})}
    )
    again = await at_work(buys(log)).turn("yes", old, context=GIVEN)
    assert (again.status, log) == ("confirming", [])


@pytest.mark.spec("012.2")
async def test_what_is_changed_while_somebody_is_asked_changes_nothing() -> None:
    log: list[Any] = []
    ids: list[Any] = ["A-1"]
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        ids.extend(["A-2", "EVERYTHING"])
        call.arguments["to"].append("EVERYTHING")
        return Allow()

    made = await call_tool(buys(log), {**GIVEN, "to": ids}, door="mcp", timeout_s=1, approve=approve)
    assert log == [{**GIVEN, "to": ["A-1"]}]
    assert made.call.arguments == {**GIVEN, "to": ["A-1"]}
    assert (seen[0].words, made.status) == ("the lamp for 10 EUR", "ok")


@dataclass
class Order:
    to: list[str]
    cents: int = field(default=10, repr=False)


class OrderModel(BaseModel):
    to: list[str]
    cents: int = Field(default=10, repr=False, exclude=True)


def _sends_to_all(order: Any) -> None:
    if isinstance(order, set | bytearray):
        order.clear()
    else:
        cast("list[str]", order[0] if isinstance(order, tuple) else order.to).append("EVERYTHING")


@pytest.mark.spec("012.2")
@pytest.mark.parametrize(
    "made",
    [
        lambda: Order(["A-1"]),
        lambda: OrderModel(to=["A-1"]),
        lambda: {"A-1"},
        lambda: bytearray(b"A"),
        lambda: (["A"],),
    ],
    ids=["a dataclass", "a model", "a set", "bytes", "a list in a tuple"],
)
async def test_an_object_that_is_changed_while_somebody_is_asked_changes_nothing(made: Any) -> None:
    order, log = made(), list[Any]()

    def approve(call: ToolCall) -> Allow:
        _sends_to_all(order)
        _sends_to_all(call.arguments["order"])
        return Allow()

    tool = buys(log, confirm=None, input_schema={"type": "object"})
    outcome = await call_tool(tool, {"order": order}, door="mcp", timeout_s=1, approve=approve)
    assert (outcome.status, log, outcome.call.arguments) == ("ok", [{"order": made()}], {"order": made()})


@pytest.mark.spec("012.1")
@pytest.mark.parametrize(
    ("asked", "now"),
    [
        (None, float("nan")),
        (float("inf"), float("nan")),
        (Decimal("0.1"), Decimal("0.1000000000000000000000001")),
        (Decimal("Infinity"), None),
        (Order(["A-1"]), Order(["A-1"], cents=999_900)),
        (OrderModel(to=["A-1"]), OrderModel(to=["A-1"], cents=999_900)),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (2**70, 2**70 + 1),
        ("\ud800", "?"),
        (b"a", "a"),
        ("paypal", "p\u0430ypal"),
    ],
    ids=repr,
)
async def test_values_that_only_look_alike_make_another_call(asked: Any, now: Any) -> None:
    tool = buys([], confirm=None, input_schema={"type": "object"})
    one, other, same = [await call_of(tool, {"x": value, "y": None}, door="mcp") for value in (asked, now, asked)]
    assert one.identity == same.identity != other.identity


@pytest.mark.spec("012.3")
@pytest.mark.parametrize("order", [Order(["A-1"]), OrderModel(to=["A-1"])], ids=["a dataclass", "a model"])
async def test_what_an_object_keeps_out_of_its_own_text_is_shown(order: Any) -> None:
    tool = buys([], confirm=None, input_schema={"type": "object"})
    call = await call_of(tool, {"order": order}, door="mcp")
    shown = 'Buy (order: {"to": ["A-1"], "cents": 10})'
    assert describe_call("Buy", "", call.arguments) == shown
    assert shown in PendingCall.from_call(call, flow="", path="").question()


MOMENTS: list[tuple[str, str, str, str]] = [
    ("a day", "en", "2026-05-15", "Friday, May 15, 2026"),
    ("a day in German", "de", "2026-05-15", "Freitag, 15. Mai 2026"),
    ("a day in a language with a region", "pt-BR", "2026-05-15", "sexta-feira, 15 de maio de 2026"),
    ("a day in a language unknown to CLDR", "xx", "2026-05-15", "2026-05-15"),
    ("no day of a calendar", "en", "2026-02-30", "2026-02-30"),
    ("the last day", "en", "9999-12-31", "Friday, December 31, 9999"),
    ("a moment", "en", "2026-05-15T14:30:00", "Friday, May 15, 2026, 14:30"),
    ("a moment with an offset", "en", "2026-05-15T14:30:00+02:00", "Friday, May 15, 2026, 14:30 UTC+02:00"),
    ("a moment west of that", "en", "2026-05-15T14:30-05:30", "Friday, May 15, 2026, 14:30 UTC-05:30"),
    ("a moment in UTC", "en", "2026-05-15T14:30:00Z", "Friday, May 15, 2026, 14:30 UTC"),
    ("a moment with seconds", "en", "2026-05-15T14:30:45", "Friday, May 15, 2026, 14:30:45"),
    ("a moment with a part of a second", "en", "2026-05-15T14:30:00.25Z", "Friday, May 15, 2026, 14:30:00.25 UTC"),
    ("no moment", "en", "2026-05-15T25:00:00", "2026-05-15T25:00:00"),
    ("a time", "en", "14:30:00", "14:30"),
    ("a time with seconds", "en", "14:30:45", "14:30:45"),
    ("a number that begins like a day", "en", "2026-05-15-77", "2026-05-15-77"),
]


@pytest.mark.spec("012.3")
@pytest.mark.parametrize(("language", "given", "shown"), [pytest.param(*row[1:], id=row[0]) for row in MOMENTS])
def test_a_day_is_shown_in_words_and_nothing_of_a_moment_is_lost(language: str, given: str, shown: str) -> None:
    with speaking(Sentences({}, language)):
        assert describe_call("Book", "", {"at": given}) == f"Book (at: {shown})"


@pytest.mark.spec("012.3")
async def test_a_number_that_is_not_finite_is_not_asked_about() -> None:
    log = list[Any]()
    tool = buys(log, confirm=None, input_schema={"type": "object"})
    for given in (float("nan"), [float("inf")]):
        made = await call_tool(tool, {"cents": given}, door="mcp", timeout_s=1, approve=lambda _: Ask())
        assert (made.status, log) == ("denied", [])
        assert "cannot be shown: its arguments are no JSON: ValueError: Out of range float" in made.reason


@pytest.mark.spec("012.3")
async def test_what_is_nested_too_deep_to_be_shown_is_refused_and_never_the_same() -> None:
    def nested(leaf: str, levels: int) -> Any:
        value: Any = leaf
        for _ in range(levels):
            value = {"a": value}
        return value

    tool = buys([], confirm=None, input_schema={"type": "object"})
    one, other = [await call_of(tool, {"to": nested(leaf, 200)}, door="mcp") for leaf in ("ada", "eve")]
    assert one.identity != other.identity
    made = await call_tool(tool, {"to": nested("ada", 80)}, door="mcp", timeout_s=1, approve=lambda _: Ask())
    assert (made.status, made.reason) == (
        "denied",
        "it has to be approved, and cannot be shown: its arguments are nested deeper than 64 levels",
    )


# --- what a person sees -----------------------------------------------------------


@pytest.mark.spec("012.3")
def test_everything_of_a_question_can_be_seen_and_nothing_is_cut() -> None:
    payee, amount = "DE02120300000000202051", 129_900
    long = {"payee": payee, "note": "x" * 1_500, "amount": amount, "hidden": "a\u200b\u202eb\u00ad\U000e0061"}
    shown = describe_call("Pay", "", long)
    assert all(part in shown for part in (payee, "x" * 1_500, str(amount), r"a\u200b\u202eb\u00ad\U000e0061"))
    assert display_problem("", {"note": "x" * 2_001}).startswith("its argument 'note' takes 2007 characters")
    assert display_problem("pays 5 EUR", {"note": "x" * 100_000}) == ""
    assert "x" * 100 not in describe_call("Pay", "pays 5 EUR", {"note": "x" * 100_000})
    assert escape_invisible("नमस्ते 👍 é 漢字") == "नमस्ते 👍 é 漢字"


def test_no_other_place_decides_what_has_to_be_approved() -> None:
    root = Path(jazz_select.__file__).parent
    deciding = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"\bneeds_yes\(|\bAsk\(", path.read_text("utf-8").partition('"""')[2])
    }
    assert (
        deciding
        == {
            "routing/approval.py",
            "agent/gate.py",  # a call that was made before in a flow is asked about once more
            "integrations/toolkit.py",  # which tools may need it, before there is a call
            "service/mcp/elicitation.py",  # a question that was not answered
            "agent/agent_options.py",
            "agent/chain/responder.py",  # its documentation
        }
        & deciding
    )
    asking = [path for path in deciding if "Ask() if" in (root / path).read_text("utf-8")]
    assert asking == ["routing/approval.py"]
