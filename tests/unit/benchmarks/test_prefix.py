"""What prompts have in common with those before them: how it is counted, that both ways come to the same, tables."""

from typing import Any

import pytest

from benchmarks import __main__ as everything
from benchmarks import prefix, report
from benchmarks.report_prefix import cost, prefix_cost_table, prefix_table
from jazz_select.values import Message
from tests.vectors import NEEDS_STATIC


def asked(turn: int, kind: str, text: str) -> prefix.Asked:
    return prefix.Asked(turn, kind, tuple(text))


def test_what_two_prompts_have_in_common_is_what_both_begin_with() -> None:
    pairs = [("", ""), ("abc", ""), ("abc", "abc"), ("abc", "abd"), ("abc", "abcd"), ("xbc", "abc")]
    assert [prefix.common(one, other) for one, other in pairs] == [0, 0, 3, 2, 3, 0]


@pytest.mark.parametrize(
    ("tokens", "served"), [(0, 0), (1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152), (5_000, 4_992)]
)
def test_a_provider_serves_steps_from_a_least_length_on(tokens: int, served: int) -> None:
    assert prefix.served(tokens) == served


def test_the_first_of_a_turn_is_compared_with_the_turn_before_and_every_one_with_all_before() -> None:
    measure = prefix.Measure()
    measure.add(
        [
            asked(1, "choose", "aaaa"),
            asked(1, "call", "cccc"),
            asked(1, "call", "cccccc"),
            asked(2, "choose", "aaab"),
            asked(3, "call", "ccccccdd"),
        ]
    )
    measure.add([asked(1, "choose", "aaaa")])
    choose, call = measure.turns["choose"], measure.turns["call"]
    assert (choose.prompts, choose.tokens, choose.prefix) == (1, 4, 3)
    assert (call.prompts, call.tokens, call.prefix) == (1, 8, 6)
    assert (measure.whole.prompts, measure.whole.tokens, measure.whole.prefix) == (6, 30, 4 + 3 + 6)
    assert [row["kind"] for row in measure.rows("desk", "fresh")] == ["call", "choose", "all"]


def test_a_prompt_where_no_flow_fits_is_a_kind_of_its_own() -> None:
    messages = [Message(role="system", content="No procedure fits this message."), Message(role="user", content="hi")]
    assert prefix.Asked.of(1, "call", messages).kind == "talk"
    assert prefix.Asked.of(1, "call", messages[1:]).kind == "call"


ROW: dict[str, Any] = {
    "source": "desk",
    "kind": "read",
    "narrowing": "fresh",
    "conversations": 3,
    "prompts": 10,
    "tokens": 12_000,
    "prefix": 3_000,
    "served": 2_000,
}


def test_the_tables_say_what_is_in_common_and_what_it_costs() -> None:
    grown = ROW | {"narrowing": "growing", "tokens": 20_000, "prefix": 15_000, "served": 14_000}
    whole = [row | {"kind": "all"} for row in (grown, ROW)]
    assert prefix_table([grown, ROW, *whole]).splitlines()[2:] == [
        "| desk | reading the message | fresh | 10 | 1,200 | 25.0 % | 900 |",
        "| desk | reading the message | growing | 10 | 2,000 | 75.0 % | 500 |",
    ]
    assert prefix_cost_table([grown, ROW, *whole]).splitlines()[2:] == [
        "| desk | fresh | 3 | 10 | 1,200 | 25.0 % | 16.7 % | 1,100 | 1,050 | 1,020 |",
        "| desk | growing | 3 | 10 | 2,000 | 75.0 % | 70.0 % | 1,300 | 950 | 740 |",
    ]
    assert cost(ROW, 1) == 1_200


def test_it_is_asked_with_all_others_and_has_its_tables() -> None:
    assert everything.prefix is prefix
    tables = {marker for marker, (question, _) in report.TABLES.items() if question == "prefix"}
    assert tables == {"prefix", "prefix-cost", "prefix-provenance"}


@NEEDS_STATIC
@pytest.mark.spec("009.3")
async def test_whole_conversations_come_to_the_same_with_more_of_each_prompt_in_common() -> None:
    names = ("lamp-and-rug", "refund-wanted", "lost-phone")
    fresh, growing = await prefix.desk("fresh", names), await prefix.desk("growing", names)
    assert fresh.whole.prompts == growing.whole.prompts > 10
    for kind in ("read", "call"):
        before, after = fresh.turns[kind], growing.turns[kind]
        assert after.prompts == before.prompts
        assert after.prefix / after.tokens > 0.55 > before.prefix / before.tokens
        assert after.tokens - after.prefix < before.tokens - before.prefix, "less is read anew, though it is longer"


@NEEDS_STATIC
@pytest.mark.spec("009.3")
async def test_so_do_those_that_are_written() -> None:
    fresh, growing = await prefix.clinic("fresh", most=4), await prefix.clinic("growing", most=4)
    assert fresh.conversations == growing.conversations > 0
    assert growing.whole.prefix / growing.whole.tokens > fresh.whole.prefix / fresh.whole.tokens
