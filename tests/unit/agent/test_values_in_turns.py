"""Values in turns: a booking desk without a model, types of tools, days that count from today, and languages."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import AfterValidator, AnyUrl, BeforeValidator, Field, FutureDate, HttpUrl, PastDate
from pydantic_core import PydanticCustomError

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, Input, Policy
from jazz_select.agent import TurnResult
from jazz_select.errors import ConfigError
from jazz_select.testing import ListMemory, ScriptedModel

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 5, 13, 10, 0, tzinfo=BERLIN)


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


class Desk:
    """A tool that notes the values it gets."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def on_day(self, day: date) -> dict[str, str]:
        """Book a day."""
        self.log.append(day)
        return {"got": f"{day}"}

    def at_time(self, at: time) -> dict[str, str]:
        """Book a time."""
        self.log.append(at)
        return {"got": f"{at}"}

    def from_moment(self, start: datetime) -> dict[str, str]:
        """Book from a moment on."""
        self.log.append(start)
        return {"got": f"{start}"}

    def for_length(self, length: timedelta) -> dict[str, str]:
        """Book for a time."""
        self.log.append(length)
        return {"got": f"{length}"}

    def for_guests(self, guests: int) -> dict[str, str]:
        """Book for guests."""
        self.log.append(guests)
        return {"got": f"{guests}"}

    def with_deposit(self, deposit: Decimal) -> dict[str, str]:
        """Take a deposit."""
        self.log.append(deposit)
        return {"got": f"{deposit}"}

    def with_breakfast(self, breakfast: bool) -> dict[str, str]:
        """Book breakfast."""
        self.log.append(breakfast)
        return {"got": f"{breakfast}"}

    def for_name(self, name: str) -> dict[str, str]:
        """Book for somebody."""
        self.log.append(name)
        return {"got": name}

    def by_id(self, value: UUID) -> dict[str, str]:
        """Find by id."""
        self.log.append(value)
        return {"got": f"{value}"}

    def by_link(self, value: HttpUrl) -> dict[str, str]:
        """Find by link."""
        self.log.append(value)
        return {"got": f"{value}"}

    def by_host(self, value: IPv4Address) -> dict[str, str]:
        """Find by address."""
        self.log.append(value)
        return {"got": f"{value}"}

    def for_even(self, value: Annotated[int, AfterValidator(even)]) -> dict[str, str]:
        """Book an even number."""
        self.log.append(value)
        return {"got": f"{value}"}

    def stay(self, day: date, guests: int) -> dict[str, str]:
        """Book a stay."""
        self.log.append((day, guests))
        return {"got": f"{guests} on {day}"}


def agent_for(tool: Any, *inputs: Input, model: Any = None, **options: Any) -> Agent:
    registry = FlowRegistry(min_examples=0)
    Flow(
        name="book",
        title="Booking",
        condition="The guest wants to book.",
        inputs=list(inputs),
        tools=[tool.__name__],
        chain=[tool.__name__],
        reply="Booked: {got}.",
        registry=registry,
    )
    memory = ListMemory([{"flow_name": "book"}])
    selector = FlowSelector(model, registry, memory, "desk", policy=Policy(max_error=1))
    return Agent(selector, [tool], model, approval="never", **options)


async def talk(agent: Agent, *messages: str, **options: Any) -> list[TurnResult]:
    results: list[TurnResult] = []
    for message in messages:
        results.append(await agent.turn(message, results[-1].conversation if results else None, **options))
    return results


DIALOGUES: list[tuple[str, str, Sequence[str], Any]] = [
    ("on_day", "day", ["tomorrow"], date(2026, 5, 14)),
    ("on_day", "day", ["Friday"], date(2026, 5, 15)),
    ("on_day", "day", ["the 20th, please"], date(2026, 5, 20)),
    ("on_day", "day", ["next Friday", "the 22nd"], date(2026, 5, 22)),
    ("on_day", "day", ["around Friday", "yes"], date(2026, 5, 15)),
    ("on_day", "day", ["not Friday", "Saturday"], date(2026, 5, 16)),
    ("on_day", "day", ["Friday or Saturday", "Saturday"], date(2026, 5, 16)),
    ("on_day", "day", ["in two weeks"], date(2026, 5, 27)),
    ("at_time", "at", ["14:30"], time(14, 30)),
    ("at_time", "at", ["half past two", "14:30"], time(14, 30)),
    ("at_time", "at", ["half past two in the afternoon"], time(14, 30)),
    ("at_time", "at", ["2 pm"], time(14)),
    ("from_moment", "start", ["tomorrow at 14:30"], datetime(2026, 5, 14, 14, 30, tzinfo=BERLIN)),
    ("for_length", "length", ["an hour and a half"], timedelta(hours=1, minutes=30)),
    ("for_guests", "guests", ["four people"], 4),
    ("for_guests", "guests", ["about 4", "yes"], 4),
    ("with_deposit", "deposit", ["$1.5k"], Decimal(1500)),
    ("with_deposit", "deposit", ["not 50", "60"], Decimal(60)),
    ("with_breakfast", "breakfast", ["of course not"], False),
    ("with_breakfast", "breakfast", ["yes please"], True),
    ("for_name", "name", ["May"], "May"),
    ("for_name", "name", ["Will"], "Will"),
]


@pytest.mark.spec("019.1")
@pytest.mark.parametrize(
    ("tool", "name", "answers", "value"),
    DIALOGUES,
    ids=[f"{tool}: {' - '.join(said)}" for tool, _, said, _ in DIALOGUES],
)
async def test_a_desk_books_what_guests_say_without_a_model(
    tool: str, name: str, answers: Sequence[str], value: Any
) -> None:
    desk = Desk()
    agent = agent_for(getattr(desk, tool), Input(name, "What shall it be?"))
    results = await talk(agent, "I would like to book please", *answers, now=NOW)
    assert (results[-1].status, desk.log) == ("done", [value])
    assert all(each.status == "waiting" for each in results[:-1])


@pytest.mark.spec("019.1")
@pytest.mark.parametrize(
    ("answer", "asks"),
    [
        ("next Friday", "On which day? (Friday, May 15, 2026 or Friday, May 22, 2026)"),
        ("maybe Friday", "On which day? (Friday, May 15, 2026)"),
        ("Friday 14 May", "On which day? (Thursday, May 14, 2026)"),
        ("Friday or Saturday", "On which day?"),
    ],
)
async def test_what_is_not_accounted_for_is_asked_about_with_what_was_understood(answer: str, asks: str) -> None:
    agent = agent_for(Desk().on_day, Input("day", "On which day?"))
    assert (await talk(agent, "I would like to book please", answer, now=NOW))[-1].text == asks


@pytest.mark.spec("019.1")
async def test_a_day_is_shown_in_the_language_of_the_conversation() -> None:
    agent = agent_for(Desk().on_day, Input("day", "An welchem Tag?"))
    results = await talk(agent, "ich möchte bitte einen Tisch buchen", "nächsten Freitag", now=NOW)
    assert results[-1].text == "An welchem Tag? (Freitag, 15. Mai 2026 oder Freitag, 22. Mai 2026)"


@pytest.mark.spec("019.1")
@pytest.mark.parametrize(
    "options",
    [
        {"facts": {"today": "2026-05-13"}},
        {"facts": {"today": date(2026, 5, 13)}},
        {"facts": {"today": "Wednesday, 13 May 2026"}},
        {"facts": {"today": lambda: "2026-05-13"}},
        {"now": NOW},
        {"now": datetime(2026, 5, 12, 23, 0, tzinfo=ZoneInfo("UTC")).astimezone(BERLIN)},
    ],
    ids=["a text", "a date", "in words", "a function", "now", "now elsewhere"],
)
async def test_relative_days_count_from_today(options: Any) -> None:
    desk = Desk()
    agent = agent_for(desk.on_day, Input("day", "On which day?"))
    await talk(agent, "I would like to book please", "tomorrow", **options)
    assert desk.log == [date(2026, 5, 14)]


@pytest.mark.spec("019.1")
async def test_without_today_a_relative_day_is_asked_about() -> None:
    desk = Desk()
    agent = agent_for(desk.on_day, Input("day", "On which day?"))
    results = await talk(agent, "I would like to book please", "tomorrow", "2026-05-14")
    assert [each.status for each in results] == ["waiting", "waiting", "done"]


def by_day(value: time) -> time:
    if not time(9) <= value <= time(18):
        raise ValueError("we are open from 9 to 18")
    return value


@pytest.mark.spec("019.1")
@pytest.mark.parametrize(
    ("answers", "at"),
    [
        pytest.param(["half past two"], time(14, 30), id="one half is open"),
        pytest.param(["half past seven", "10 am"], time(10), id="neither is, so both are asked about"),
        pytest.param(["5:30"], time(17, 30), id="a clock of twelve hours"),
        pytest.param(["at ten"], time(10), id="the other half"),
    ],
)
async def test_a_time_without_its_part_of_the_day_is_the_one_that_the_type_takes(
    answers: Sequence[str], at: time
) -> None:
    desk = Desk()

    def open_hours(at: Annotated[time, AfterValidator(by_day)]) -> dict[str, str]:
        """Book by day."""
        return desk.at_time(at)

    agent = agent_for(open_hours, Input("at", "At what time?"))
    results = await talk(agent, "I would like to book please", *answers, now=NOW)
    assert (desk.log, [each.status for each in results[1:-1]]) == ([at], ["waiting"] * (len(answers) - 1))


@pytest.mark.spec("019.1", "019.3")
@pytest.mark.parametrize(
    ("answer", "asks", "log"),
    [
        ("tomorrow at 14:30", "Booked: 14:30:00 on 2026-05-14.", [(date(2026, 5, 14), time(14, 30))]),
        ("tomorrow at half past two", "When? (02:30 or 14:30)", []),
        ("Friday 14 May at noon", "On which day? (Thursday, May 14, 2026)", []),
        ("tomorrow", "When?", []),
    ],
)
async def test_a_day_with_its_time_answers_both(answer: str, asks: str, log: list[Any]) -> None:
    booked: list[Any] = []

    def meet(day: date, at: time) -> dict[str, str]:
        """Book a meeting."""
        booked.append((day, at))
        return {"got": f"{at} on {day}"}

    agent = agent_for(meet, Input("day", "On which day?"), Input("at", "When?"))
    results = await talk(agent, "I would like to book please", answer, now=NOW)
    assert (results[-1].text, booked) == (asks, log)


@pytest.mark.spec("019.1")
@pytest.mark.parametrize("zone", ["Berlin", "Mars/Olympus", 2, "../etc/passwd"])
@pytest.mark.parametrize("is_function", [False, True])
async def test_an_unknown_time_zone_is_an_error_that_names_the_fact(zone: Any, *, is_function: bool) -> None:
    agent = agent_for(Desk().on_day, Input("day", "On which day?"))
    facts = {"time_zone": (lambda: zone) if is_function else zone}
    with pytest.raises(ConfigError, match=r"the fact 'time_zone' must be a time zone .* such as 'Europe/Berlin', got"):
        await agent.turn("book", facts=facts)


@pytest.mark.spec("019.1")
async def test_a_day_with_a_time_is_in_the_zone_of_the_fact() -> None:
    desk = Desk()
    agent = agent_for(desk.from_moment, Input("start", "From when on?"), facts={"time_zone": "Asia/Tokyo"})
    await talk(agent, "I would like to book please", "2026-05-14 14:30")
    assert desk.log == [datetime(2026, 5, 14, 14, 30, tzinfo=ZoneInfo("Asia/Tokyo"))]


async def test_now_has_a_time_zone() -> None:
    agent = agent_for(Desk().on_day, Input("day", "On which day?"))
    with pytest.raises(ConfigError, match="now"):
        await agent.turn("book", now=datetime(2026, 5, 13))  # noqa: DTZ001 - it has no zone


@pytest.mark.spec("019.1")
async def test_a_day_that_a_model_reads_is_what_the_user_said() -> None:
    desk = Desk()
    model = ScriptedModel('{"flows": ["book"], "values": {"day": "2026-05-15"}}')
    agent = agent_for(desk.on_day, Input("day", "On which day?"), model=model)
    await talk(agent, "please book for me on Friday", now=NOW)
    assert desk.log == [date(2026, 5, 15)]


@pytest.mark.spec("019.1")
async def test_a_number_that_a_model_reads_without_its_magnitude_is_none() -> None:
    desk = Desk()
    model = ScriptedModel('{"flows": ["book"], "values": {"deposit": 50}}')
    agent = agent_for(desk.with_deposit, Input("deposit", "How much?"), model=model)
    results = await talk(agent, "please book with a deposit of 50k")
    assert (results[-1].status, desk.log) == ("waiting", [])


REFUSED = [
    ("by_id", "60112", "60112 cannot be used for value: it must be a valid UUID. Which one?"),
    (
        "by_link",
        "www.shop24.example",
        "www.shop24.example cannot be used for value: it must be a valid URL. Which one?",
    ),
    ("by_host", "10.0.0.300", "10.0.0.300 cannot be used for value: it must be an IP address. Which one?"),
    ("for_even", "5", "5 cannot be used for value: must be even. Which one?"),
]


@pytest.mark.spec("019.2")
@pytest.mark.parametrize(("tool", "answer", "text"), REFUSED)
async def test_a_value_that_the_tools_type_refuses_is_asked_for_again(tool: str, answer: str, text: str) -> None:
    desk = Desk()
    agent = agent_for(getattr(desk, tool), Input("value", "Which one?"))
    last = (await talk(agent, "I would like to book please", answer))[-1]
    assert (last.status, last.text, [each.name for each in last.conversation.flows]) == ("waiting", text, ["book"])


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


def custom(value: str) -> str:
    raise PydanticCustomError("no_such_tariff", "there is no such tariff")


REASONS: list[tuple[Any, str, str]] = [
    (Annotated[str, BeforeValidator(int)], "abc", ""),
    (Annotated[int, Gt(0)], "0", "it must be more than 0"),
    (Annotated[int, Ge(18)], "17", "it must be at least 18"),
    (Annotated[float, Lt(10)], "10", "it must be less than 10"),
    (Annotated[Decimal, Le(500)], "600", "it must be at most 500"),
    (Annotated[int, MultipleOf(5)], "7", "it must be a multiple of 5"),
    (Annotated[Decimal, Field(decimal_places=2)], "12.3456", "it must have at most 2 decimal places"),
    (Annotated[str, MinLen(4)], "A-1", "it must have at least 4 characters"),
    (Annotated[str, MaxLen(4)], "A-1234", "it must have at most 4 characters"),
    (Annotated[str, Field(pattern="^[A-Z]-[0-9]$")], "A-12", "it is not in the expected format"),
    (Annotated[date, Ge(date(2026, 6, 1))], "tomorrow", "it must be at least Monday, June 1, 2026"),
    (Annotated[time, Le(time(18))], "19:00", "it must be at most 18:00"),
    (Annotated[date, AfterValidator(lambda day: day)], "A-12", ""),
    (PastDate, "2999-01-01", "it must be in the past"),
    (FutureDate, "2020-01-01", "it must be in the future"),
    (Annotated[str, AfterValidator(custom)], "A-12", "there is no such tariff"),
    (AnyUrl, "A-12", "it must be a valid URL"),
]


@pytest.mark.spec("019.2")
@pytest.mark.parametrize(("kind", "answer", "why"), REASONS, ids=[f"{why}: {said}" for _, said, why in REASONS])
async def test_the_reason_of_a_refusal_is_said_by_its_kind(kind: Any, answer: str, why: str) -> None:
    def book(value: Any) -> dict[str, str]:
        """Book it."""
        return {"got": f"{value}"}

    book.__annotations__["value"] = kind
    agent = agent_for(book, Input("value", "Which one?"))
    last = (await talk(agent, "I would like to book please", answer, now=NOW))[-1]
    assert last.status == "waiting"
    assert f"value: {why}. Which one?" in last.text if why else "must" not in last.text


@pytest.mark.spec("019.2")
@pytest.mark.parametrize(
    ("message", "answer", "why"),
    [
        ("ich möchte bitte einen Tisch buchen", "0", "es muss mehr als 0 sein"),
        ("je voudrais réserver une table s'il vous plaît", "0", "il faut plus de 0"),
        ("quiero reservar una mesa por favor", "0", "debe ser más de 0"),
        ("vorrei prenotare un tavolo per favore", "0", "deve essere più di 0"),
        ("я хочу забронировать столик пожалуйста", "0", "нужно больше 0"),
        ("テーブルを予約したいのですが", "0", "0より大きくなければなりません"),
    ],
)
async def test_a_reason_is_in_the_language_of_the_conversation(message: str, answer: str, why: str) -> None:
    def book(guests: Annotated[int, Gt(0)]) -> dict[str, str]:
        """Book it."""
        return {"got": f"{guests}"}

    agent = agent_for(book, Input("guests", "?"))
    assert why in (await talk(agent, message, answer))[-1].text


@pytest.mark.spec("019.2")
async def test_a_rare_reason_is_said_in_english_conversations_only() -> None:
    def book(value: Annotated[Decimal, Field(max_digits=3)]) -> dict[str, str]:
        """Book it."""
        return {"got": f"{value}"}

    agent = agent_for(book, Input("value", "?"))
    english = (await talk(agent, "I would like to book please", "12345"))[-1].text
    german = (await talk(agent, "ich möchte bitte einen Tisch buchen", "12345"))[-1].text
    assert "no more than 3 digits" in english
    assert german == "12345 passt nicht für value. ?"


PAYMENTS: list[tuple[str, Sequence[str], Any]] = [
    ("names that are words of the table", ["Will Plus", "50", "Friday"], ("Will Plus", Decimal(50), date(2026, 5, 15))),
    ("all in one answer", ["Sam, 50, tomorrow"], ("Sam", Decimal(50), date(2026, 5, 14))),
    ("two of three in one answer", ["Sam, 1,234.50", "tomorrow"], ("Sam", Decimal("1234.5"), date(2026, 5, 14))),
    ("a name with a comma", ["Berlin, Germany", "50", "tomorrow"], ("Berlin, Germany", Decimal(50), date(2026, 5, 14))),
    ("a number that asks", ["Sam", "50k?", "yes", "tomorrow"], ("Sam", Decimal(50_000), date(2026, 5, 14))),
    ("two readings of an amount", ["Sam", "1.234", "the second", "today"], ("Sam", Decimal(1234), date(2026, 5, 13))),
    ("two readings by value", ["Sam", "1.234", "1234", "today"], ("Sam", Decimal(1234), date(2026, 5, 13))),
    ("the second of two days", ["Sam", "5", "next Friday", "the second"], ("Sam", Decimal(5), date(2026, 5, 22))),
    ("the first of two days", ["Sam", "5", "next Friday", "the first one"], ("Sam", Decimal(5), date(2026, 5, 15))),
    ("a day of two by its date", ["Sam", "5", "next Friday", "May 22"], ("Sam", Decimal(5), date(2026, 5, 22))),
    ("two in one answer", ["Sam", "$50 on Friday"], ("Sam", Decimal(50), date(2026, 5, 15))),
    ("another amount", ["Sam", "5", "no wait, 60", "today"], ("Sam", Decimal(60), date(2026, 5, 13))),
    ("another amount, politely", ["Sam", "5", "sorry, make it 60", "today"], ("Sam", Decimal(60), date(2026, 5, 13))),
    ("a number of programs", ["Sam", "1e400", "5", "today"], ("Sam", Decimal(5), date(2026, 5, 13))),
    ("a question", ["Sam", "5", "what is today?", "Friday"], ("Sam", Decimal(5), date(2026, 5, 15))),
    ("the first in German", ["Sam", "5", "nächsten Freitag", "der erste"], ("Sam", Decimal(5), date(2026, 5, 15))),
    ("the first in French", ["Sam", "5", "vendredi prochain", "le premier"], ("Sam", Decimal(5), date(2026, 5, 15))),
    (
        "a magnitude that is a word of another language",
        ["Sam", "2,5 Mio.", "today"],
        ("Sam", Decimal(2_500_000), date(2026, 5, 13)),
    ),
    ("a half in one character", ["Sam", "2½", "today"], ("Sam", Decimal("2.5"), date(2026, 5, 13))),
    ("a power", ["Sam", "5²", "5", "today"], ("Sam", Decimal(5), date(2026, 5, 13))),
    ("a day for an amount", ["Sam", "12/05", "50", "today"], ("Sam", Decimal(50), date(2026, 5, 13))),
]


@pytest.mark.spec("019.1", "019.3", "019.4")
@pytest.mark.parametrize(("answers", "paid"), [row[1:] for row in PAYMENTS], ids=[row[0] for row in PAYMENTS])
async def test_a_payment_takes_what_was_meant(answers: Sequence[str], paid: Any) -> None:
    log: list[Any] = []

    def pay(to: str, amount: Decimal, day: date) -> dict[str, str]:
        """Pay."""
        log.append((to, amount, day))
        return {"got": f"{amount}"}

    agent = agent_for(pay, Input("to", "To whom?"), Input("amount", "How much?"), Input("day", "On which day?"))
    results = await talk(agent, "I would like to book please", *answers, now=NOW)
    assert (results[-1].status, log) == ("done", [paid])


@pytest.mark.spec("019.1", "019.6")
@pytest.mark.parametrize(
    ("choices", "answer", "value"),
    [
        (("9:00", "11:00", "14:00"), "2pm", "14:00"),
        (("9:00", "11:00", "14:00"), "at two", "14:00"),
        (("9:00", "11:00", "14:00"), "eleven o'clock", "11:00"),
        (("2026-05-15", "2026-05-16"), "on Friday", "2026-05-15"),
        (("Friday 15 May", "Saturday 16 May"), "the 16th", "Saturday 16 May"),
        (("1", "2", "4"), "two", "2"),
        (("02:00", "14:00"), "two", None),
        (("9:00", "14:00"), "not 2pm", None),
        (("9:00", "14:00"), "3pm", None),
        (("10", "20"), "10 kg", None),
    ],
)
async def test_a_choice_is_named_by_its_value(choices: Any, answer: str, value: Any) -> None:
    desk = Desk()
    agent = agent_for(desk.for_name, Input("name", "When?", choices=choices))
    await talk(agent, "I would like to book please", answer, now=NOW)
    assert desk.log == ([] if value is None else [value])


@pytest.mark.spec("019.2")
async def test_a_reason_is_said_of_the_last_answer_only() -> None:
    agent = agent_for(Desk().with_deposit, Input("deposit", "How much?"))
    results = await talk(agent, "I would like to book please", "A-17", "about 50", now=NOW)
    assert [each.text for each in results[1:]] == [
        "A-17 cannot be used for deposit: it must be a number. How much?",
        "How much? (50)",
    ]


@pytest.mark.spec("019.2")
async def test_a_refused_value_is_asked_for_alone_and_the_others_are_kept() -> None:
    desk = Desk()
    registry = FlowRegistry(min_examples=0)
    Flow(
        name="book",
        condition="The guest wants to book.",
        inputs=[Input("guests", "For how many?"), Input("day", "On which day?")],
        ask="together",
        tools=["stay"],
        chain=["stay"],
        reply="Booked: {got}.",
        registry=registry,
    )
    selector = FlowSelector(None, registry, ListMemory([{"flow_name": "book"}]), "desk", policy=Policy(max_error=1))

    def stay(day: date, guests: Annotated[int, AfterValidator(even)]) -> dict[str, str]:
        """Book a stay."""
        return desk.stay(day, guests)

    agent = Agent(selector, [stay], approval="never")
    results = await talk(agent, "I would like to book please", "5, tomorrow", "6", now=NOW)
    assert results[1].text == "5 cannot be used for guests: must be even. For how many?"
    assert desk.log == [(date(2026, 5, 14), 6)]


@pytest.mark.spec("019.3")
async def test_a_bare_answer_goes_to_the_input_that_it_fits() -> None:
    desk = Desk()
    agent = agent_for(desk.stay, Input("day", "On which day?"), Input("guests", "For how many?"))
    await talk(agent, "I would like to book please", "Friday", "4", now=NOW)
    assert desk.log == [(date(2026, 5, 15), 4)]


@pytest.mark.spec("019.5")
@pytest.mark.parametrize("value", ["Los Angeles", "El Paso", "Leonardo da Vinci", "AB 1234", "Per Olsen", "Mia"])
async def test_a_value_tells_no_language(value: str) -> None:
    def pay(to: str, amount: float) -> dict[str, str]:
        """Send money."""
        return {"got": f"{amount} to {to}"}

    agent = agent_for(pay, Input("to", "To whom?"), Input("amount"))
    assert (await talk(agent, "make a transfer for me", value))[-1].text == "To go on, I need: amount."


@pytest.mark.spec("019.5")
async def test_a_sentence_changes_the_language() -> None:
    agent = agent_for(Desk().on_day, Input("day"))
    results = await talk(agent, "please book a table for me", "ich weiß das leider noch nicht genau")
    assert results[-1].text.endswith("brauche ich noch: day.") or "day" in results[-1].text
    assert not results[-1].text.startswith("I did not")
