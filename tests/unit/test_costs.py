"""What others write costs a bounded sum, after expansion: names, messages, errors, templates and replies.

Costs are counted in calls, characters and bytes, never in seconds.
"""

import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.agent.reading.value_checks import check_inputs
from jazz_select.consent import read_consent
from jazz_select.errors import ConfigError, FlowValidationError
from jazz_select.flow.flow_loading import load_flows
from jazz_select.flow.inputs import Input
from jazz_select.json_values import error_data
from jazz_select.routing import FlowExecutor, Tool, resolve
from jazz_select.selector.policy import Policy
from jazz_select.testing import ListMemory
from jazz_select.text import (
    LONGEST_NORMALIZED,
    clean_beginning,
    describe_error,
    describe_value,
    in_log,
    near,
    nfkc,
    one_line,
    whole_characters,
)
from jazz_select.texts import Texts
from jazz_select.words import MOST_COMPARED, folded_name
from tests.agents import make_agent
from tests.unit.test_bounds import steps

pytestmark = [pytest.mark.spec("013.1"), pytest.mark.spec("005.18")]
MIB = 1 << 20
LONGEST_EXPANSION = "\ufdfa"
"""One character that NFKC makes eighteen of."""
EXPANDING = (LONGEST_EXPANSION, "\ufdfb", "\u3300", "\u33af", "\U0001d160", "\u0e33", "\ufb03", "\u3200", "\u1e69")


def peak(work: Callable[[], object]) -> int:
    """The most bytes that work holds at once beyond what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- halves of characters ---------------------------------------------------------


@given(st.text(st.sampled_from("ab\ud83d\ude00\udc00\udbff\U0001f600\u00e9")))
@example("\ud83d\ud83d\ude00\ude00")
def test_halves_are_joined_and_lone_ones_replaced_as_a_codec_does(text: str) -> None:
    assert whole_characters(text) == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# --- NFKC ------------------------------------------------------------------------


@pytest.mark.parametrize("char", EXPANDING, ids=ascii)
@pytest.mark.parametrize("count", [1, 33, 1_000, 32_000, LONGEST_NORMALIZED + 1, 1_000_000])
def test_a_text_grows_by_no_more_than_its_own_length_in_another_spelling(char: str, count: int) -> None:
    for text in (char * count, f"a {char}" * (count // 3 + 1)):
        assert len(nfkc(text)) <= 3 * len(text) + 32


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("\ufdfa", normalize("NFKC", "\ufdfa"), id="one that becomes eighteen"),
        pytest.param("Muhammad \ufdfa, \ufdfb", normalize("NFKC", "Muhammad \ufdfa, \ufdfb"), id="two in a sentence"),
        pytest.param("\u2462\u33a1 " * 500, "3m2 " * 500, id="usual signs"),
        pytest.param("\u2167 " * 300, "\u2167 " * 300, id="more than half of it numerals"),
        pytest.param("\ufdfa" * 99 + "\uff41", "\ufdfa" * 99 + "a", id="the rest is folded beside those that stay"),
    ],
)
def test_a_text_of_people_is_folded_as_unicode_says(text: str, plain: str) -> None:
    assert nfkc(text) == plain


@given(st.text(max_size=60))
@example("\u1100\u1161\u11a8 e\u0301 \ufdfa")
def test_a_short_text_is_folded_as_unicode_says_or_left_longer_signs(text: str) -> None:
    plain = normalize("NFKC", text)
    found = nfkc(text)
    assert found == plain or len(plain) > 2 * len(text) + 32
    assert normalize("NFKC", found) == plain
    assert nfkc(found) in (found, plain)


# --- names -----------------------------------------------------------------------


def _echo(**given: Any) -> dict[str, Any]:
    return given


def _search() -> Tool:
    takes = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return Tool(name="search", input_schema=takes, function=_echo)


NAMES: Mapping[str, Callable[[int], str]] = {
    "each becomes eighteen": lambda number: LONGEST_EXPANSION * 344 + str(number),
    "short ones that become eighteen": lambda number: LONGEST_EXPANSION * 60 + chr(0x4E00 + number),
    "letters": lambda number: "a_B" * 114 + str(number),
    "other scripts": lambda number: "".join(chr(0x4E00 + (number * 7 + each) % 20_000) for each in range(340)),
}


@pytest.mark.parametrize("named", NAMES.values(), ids=NAMES)
async def test_a_context_has_names_that_can_be_compared(named: Callable[[int], str]) -> None:
    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="find_it", description="Find it", examples=["find it"], tools=["search"], registry=registry)
    vars(flow)["chain"] = ("search",)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name}])
    agent = make_agent(FlowSelector(None, registry, memory, "a", policy=Policy(on_empty="top1")), [_search()])
    many = {named(number): "x" for number in range(990)}
    with (
        steps() as called,
        pytest.raises(ConfigError, match=rf"names of more than {MOST_COMPARED} characters") as raised,
    ):
        await agent.turn("find it", context=many)
    assert called["normalize"] == 0
    assert len(str(raised.value)) < 300
    few = dict(list(many.items())[: MOST_COMPARED // 400])
    assert (await agent.turn("find it", context={**few, "query": "x"})).status == "done"


@pytest.mark.parametrize("named", NAMES.values(), ids=NAMES)
async def test_what_a_tool_returns_is_compared_by_name_as_far_as_a_context_is(named: Callable[[int], str]) -> None:
    returned = {named(number): "x" for number in range(4_000)}

    def give(**_: Any) -> dict[str, str]:
        return {"Query": "found", **returned, "id": "exactly"}

    first = Tool(name="first", function=give)
    executor = FlowExecutor([first, _search()])
    with steps() as called:
        result = await executor.run(["first", "search"], {})
    assert called["_fold_name"] + called["translate"] < 10_000
    assert result.records[-1].arguments == {"query": "found"}


@pytest.mark.parametrize("name", [LONGEST_EXPANSION * 200, "x" * 201, "\u4e00" * 100_000], ids=len)
def test_a_name_that_is_too_long_to_be_read_is_only_itself(name: str) -> None:
    assert len(folded_name(name)) <= max(len(name), 3 * len(name) if len(name) <= 200 else 0)
    tools = [Tool(name=f"{name[:400]}{number}") for number in range(50)]
    with steps() as called:
        assert resolve(name, tools).tool is None
    assert called["normalize"] < 10_000


def test_thousands_of_foreign_names_are_compared_a_dozen_at_a_time() -> None:
    names = [f"{number:b}".rjust(80, "0") for number in range(2_000)]
    with steps() as called:
        assert near("0" * 80, names) == ["0" * 80]
    assert called["ratio"] < 50


# --- errors and values -------------------------------------------------------------


@pytest.mark.parametrize("text", ["a ", "\x00", "\n", "é", "\ud800", " "], ids=ascii)
@pytest.mark.parametrize("door", [describe_error, in_log, one_line, describe_value], ids=lambda door: door.__name__)
def test_an_error_of_megabytes_is_cut_before_it_is_cleaned(door: Callable[[Any], str], text: str) -> None:
    long = text * (12 * MIB // len(text.encode(errors="replace")))
    error = ValueError(long)
    found: list[str] = []
    assert peak(lambda: found.append(door(error if door is describe_error else long))) < MIB
    assert len(found[0]) < 4_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("it is gone", "ValueError: it is gone"),
        ("a\n\u202eb", "ValueError: a b"),
        ("x" * 501, "ValueError: " + "x" * 500 + "…"),
        ("\n" * 20_000 + "late", "ValueError: …"),
    ],
)
def test_a_cut_error_says_that_it_was_cut(text: str, said: str) -> None:
    assert describe_error(ValueError(text)) == said


@pytest.mark.parametrize("text", ["a ", "\x00", "a\x00"], ids=ascii)
def test_the_text_of_a_foreign_error_travels_cut(text: str) -> None:
    data = error_data(ValueError(text * (4 * MIB)))
    assert len(data["message"]) == 10_001
    assert data["message"].endswith("…")
    ours = ConfigError("x" * 20_000)
    assert error_data(ours)["message"] == str(ours)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\x00b\r\nc", "a" + "b\nc"),
        ("a" * 11, "a" * 10 + "…"),
        ("\x00" * 12_000_000 + "late", "…"),
        ("\x00" * 100 + "a" * 100 + "\x00" * 12_000_000, "a" * 10 + "…"),
    ],
    ids=["short", "long", "nothing visible", "a little"],
)
def test_a_text_is_cut_before_it_is_cleaned(text: str, kept: str) -> None:
    found: list[str] = []
    assert peak(lambda: found.append(clean_beginning(text, 10))) < MIB
    assert found == [kept]


@pytest.mark.parametrize("text", ["yes, " * 790, " - " * 1_300, "yes and " * 490, "no, " * 990 + "?"], ids=len)
def test_a_message_of_many_additions_is_read_in_so_many_steps(text: str) -> None:
    read_consent(text[:20])  # the tables of its language are read once
    with steps() as called:
        assert read_consent(text).answer == "neither"
    assert called["startswith"] + called["casefold"] < 10_000


# --- templates -------------------------------------------------------------------


WIDE = {
    "a width of a billion": "{value:>1500000000}",
    "a width as a field": "{value:>{value}}",
    "a precision of a billion": "{value:.1500000000}",
    "digits of a billion": "{value:01500000000}",
    "many widths": "{value:>999}" * 80,
}


@pytest.mark.parametrize("template", WIDE.values(), ids=WIDE)
def test_a_template_of_an_author_formats_within_bounds(template: str) -> None:
    with pytest.raises(ConfigError, match=r"problem of the input 'day' (formats \{value\}|must widen)"):
        Input(name="day", problem=template)
    with pytest.raises(ConfigError, match=r"texts: wrong_value"):
        Texts({"wrong_value": template + "{input}"})


@pytest.mark.parametrize("template", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("field", ["reply", "problem"])
def test_a_file_with_such_a_template_is_refused_with_its_place(tmp_path: Any, field: str, template: str) -> None:
    entry = f'reply: "{template}"' if field == "reply" else f'inputs: [{{name: day, problem: "{template}"}}]'
    (tmp_path / "flows.yaml").write_text(
        f"name: n\ndescription: Say d\ncondition: c\nchain: [x]\ntools: [x]\n{entry}\n", encoding="utf-8"
    )
    with pytest.raises(FlowValidationError, match=r"(?s)flows\.yaml.*(formats|must widen)"):
        load_flows(tmp_path, FlowRegistry(min_examples=0))


async def test_a_problem_is_filled_as_its_author_wrote_it() -> None:
    day = Input(name="day", problem="{value:>12} is no day, {{really}}", check=lambda _: False)
    flow = Flow(name="n", description="d", inputs=[day], registry=FlowRegistry(min_examples=0))
    checked = await check_inputs(flow, {"day": "Blursday"}, {})
    assert checked.wrong == {"day": "    Blursday is no day, {really}"}
