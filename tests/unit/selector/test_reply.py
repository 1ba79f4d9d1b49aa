"""How replies are read: every sloppy answer that models give, and what must not be taken for one."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from jazz_select.selector.reply import ParsedReply, read_reply
from jazz_select.values import Candidate
from tests.unit.selector.shop import CANCEL, EXCHANGE, REFUND, candidates

OFFERED = candidates("refund_order", "exchange_order", "cancel_order")
EMPTY, UNREADABLE = ParsedReply(status="empty"), ParsedReply(status="unreadable")


def ids(*read: str) -> ParsedReply:
    return ParsedReply(status="ids", ids=read)


class Case(NamedTuple):
    name: str
    reply: str
    means: ParsedReply


CASES = [
    # as asked
    Case("one id", f'["{REFUND}"]', ids(REFUND)),
    Case("two ids, in their order", f'["{CANCEL}", "{REFUND}"]', ids(CANCEL, REFUND)),
    Case("duplicates collapse", f'["{CANCEL}", "{REFUND}", "{CANCEL}"]', ids(CANCEL, REFUND)),
    Case("blanks around", f'\n  [ "{REFUND}" ]\n', ids(REFUND)),
    Case("nothing fits", "[]", EMPTY),
    Case("an unknown id stays as written", f'["ghost", "{REFUND}"]', ids("ghost", REFUND)),
    Case("only unknown ids", '["ghost", "shade"]', ids("ghost", "shade")),
    # fences and wrappings
    Case("json fence", f'```json\n["{REFUND}"]\n```', ids(REFUND)),
    Case("bare fence", f'```\n["{REFUND}"]\n```', ids(REFUND)),
    Case("fence on one line", f'```json ["{REFUND}"]```', ids(REFUND)),
    Case("fence never closed", f'```JSON\n["{REFUND}"]', ids(REFUND)),
    Case("fence around a name", "```refund_order```", ids(REFUND)),
    Case("fence in prose", f'Here you go:\n```json\n["{REFUND}"]\n```\nAnything else?', ids(REFUND)),
    Case("fence around nothing", "```json\n[]\n```", EMPTY),
    Case("tags", f'<answer>["{REFUND}"]</answer>', ids(REFUND)),
    Case("thoughts", f'<think>["{CANCEL}"]? No.</think>["{REFUND}"]', ids(REFUND)),
    Case("thoughts before a bare name", f'<think>["{CANCEL}"]? No.</think>refund_order', ids(REFUND)),
    Case("json in a json string", f'"[\\"{REFUND}\\"]"', ids(REFUND)),
    # prose around the array
    Case("prose before", f'The best match is ["{REFUND}"]', ids(REFUND)),
    Case("prose after", f'["{REFUND}"] because the order has arrived.', ids(REFUND)),
    Case("who answers last", f'Candidates: ["{CANCEL}"]. My answer: ["{REFUND}"]', ids(REFUND)),
    Case("who answers first", f'["{REFUND}"]\nI left out ["{CANCEL}"].', ids(REFUND)),
    Case("answered with none at last", f'I looked at ["{CANCEL}"] but: []', EMPTY),
    Case("footnotes are no positions", f'See [1] and [2]: ["{REFUND}"] [3]', ids(REFUND)),
    Case("a year is no position", "In [2024] I would pick refund_order", ids(REFUND)),
    Case("an index is no empty array", "items[] has refund_order", ids(REFUND)),
    Case("positions in prose", "I choose [2].", ids(EXCHANGE)),
    Case("an unknown array in prose", 'I choose ["ghost"].', ids("ghost")),
    # objects
    Case("ids", f'{{"ids": ["{REFUND}", "{CANCEL}"]}}', ids(REFUND, CANCEL)),
    Case("ids, none", '{"ids": []}', EMPTY),
    Case("ids, one string", f'{{"ids": "{REFUND}"}}', ids(REFUND)),
    Case("flow_ids", f'{{"flow_ids": ["{REFUND}"]}}', ids(REFUND)),
    Case("camel case key", f'{{"selectedFlows": ["{REFUND}"]}}', ids(REFUND)),
    Case("a key nobody knows", f'{{"verdict": ["{REFUND}"]}}', UNREADABLE),
    Case("a choice by another word", f'{{"best_match": "{REFUND}", "runner_up": "{CANCEL}"}}', ids(REFUND)),
    # what a reply refuses is never run
    Case("refused ones alone", f'{{"rejected": ["{REFUND}", "{CANCEL}"]}}', UNREADABLE),
    Case("not chosen", f'{{"not_chosen": ["{REFUND}"]}}', UNREADABLE),
    Case("a null choice beside candidates", f'{{"choice": null, "candidates": ["{REFUND}"]}}', EMPTY),
    Case("chosen and rejected", f'{{"chosen_flow": "{REFUND}", "rejected": "{CANCEL}"}}', ids(REFUND)),
    Case("flags", f'[{{"id": "{CANCEL}", "fits": false}}, {{"id": "{REFUND}", "fits": true}}]', ids(REFUND)),
    Case("no match", f'{{"match": false, "id": "{REFUND}"}}', UNREADABLE),
    Case("yes and no", f'{{"{CANCEL}": "no", "{REFUND}": "yes"}}', ids(REFUND)),
    Case("scores", f'{{"{CANCEL}": 0.1, "{REFUND}": 0.9}}', UNREADABLE),
    Case("marks in prose", f"{CANCEL}: 2/10, {REFUND}: 9/10", UNREADABLE),
    Case("taken back", f'Final: ["{REFUND}"]. Not ["{CANCEL}"].', UNREADABLE),
    Case("a thought without an end", f'<think>maybe ["{CANCEL}"]', UNREADABLE),
    Case("footnotes alone", "Sources [1] [2]", UNREADABLE),
    Case("reasons beside", f'{{"reasoning": "cancel_order is wrong", "ids": ["{REFUND}"]}}', ids(REFUND)),
    Case("selected beside candidates", '{"candidates": ["cancel_order"], "selected": ["refund_order"]}', ids(REFUND)),
    Case("nested", f'{{"result": {{"flows": [{{"id": "{REFUND}"}}]}}}}', ids(REFUND)),
    Case("objects with id", f'[{{"id": "{REFUND}"}}, {{"id": "{CANCEL}"}}]', ids(REFUND, CANCEL)),
    Case("objects with flow_id", f'[{{"flow_id": "{REFUND}", "score": 1}}]', ids(REFUND)),
    Case("objects with name", '[{"name": "refund_order"}, {"flow_name": "Cancel order"}]', ids(REFUND, CANCEL)),
    Case("one object", f'{{"id": "{REFUND}", "reason": "…"}}', ids(REFUND)),
    Case("a wrong id and a right name", '{"id": "f-1", "name": "refund_order"}', ids(REFUND)),
    Case("a wrong id and no name", '{"id": "f-1"}', ids("f-1")),
    Case("names as keys", '{"refund_order": true, "cancel_order": false}', ids(REFUND)),
    Case("names under keys nobody knows", '{"first": "refund_order", "1": "cancel_order"}', UNREADABLE),
    Case("an id that is null", '{"id": null}', EMPTY),
    Case("an object about something else", '{"thoughts": "hm", "confidence": 0.4}', UNREADABLE),
    Case("an empty object", "{}", UNREADABLE),
    Case("an object in prose", f'Sure: {{"ids": ["{REFUND}"]}} done', ids(REFUND)),
    # nesting
    Case("nested lists", f'[["{REFUND}"], [["{CANCEL}"]]]', ids(REFUND, CANCEL)),
    Case("nested nothing", "[[]]", EMPTY),
    Case("deep", "[" * 200 + f'"{REFUND}"' + "]" * 200, ids(REFUND)),
    # bare strings
    Case("bare id", REFUND, ids(REFUND)),
    Case("quoted id", f'"{REFUND}"', ids(REFUND)),
    Case("bare name", "refund_order", ids(REFUND)),
    Case("name with a full stop", "`refund_order`.", ids(REFUND)),
    Case("an unknown id", "3f2a-ghost", ids("3f2a-ghost")),
    Case("an id in capitals", REFUND.upper(), ids(REFUND)),
    Case("an id without hyphens", f'["{REFUND.replace("-", "")}"]', ids(REFUND)),
    # names
    Case("name", '["refund_order"]', ids(REFUND)),
    Case("name in camel case", '["RefundOrder"]', ids(REFUND)),
    Case("name with a hyphen", '["refund-order"]', ids(REFUND)),
    Case("name in words", '["Refund Order"]', ids(REFUND)),
    Case("names in one string", '["refund_order, cancel_order"]', ids(REFUND, CANCEL)),
    Case("a name and none in one string", '["refund_order, ghost"]', ids("refund_order, ghost")),
    Case("a longer name is another", '["refund order deluxe"]', ids("refund order deluxe")),
    # positions
    Case("position", "2", ids(EXCHANGE)),
    Case("positions", "[3, 1]", ids(CANCEL, REFUND)),
    Case("position in quotes", '["2"]', ids(EXCHANGE)),
    Case("position with a sign", '["#2"]', ids(EXCHANGE)),
    Case("position in words", '["Flow 2"]', ids(EXCHANGE)),
    Case("position in words, bare", "Flow 2", ids(EXCHANGE)),
    Case("position as a fraction", "[2.0]", ids(EXCHANGE)),
    Case("no position", "[0]", ids("0")),
    Case("beyond the last", "[4, -1, 1.5]", ids("4", "-1", "1.5")),
    Case("true is no position", "[true]", UNREADABLE),
    # broken JSON
    Case("single quotes", f"['{REFUND}', '{CANCEL}']", ids(REFUND, CANCEL)),
    Case("no quotes", "[refund_order, cancel_order]", ids(REFUND, CANCEL)),
    Case("stray comma", f'["{REFUND}",]', ids(REFUND)),
    Case("no end", f'["{REFUND}", "{CANCEL}"', ids(REFUND, CANCEL)),
    Case("broken off", '["refund_order", "canc', ids(REFUND, "canc")),
    Case("broken and unknown", "['ghost']", ids("ghost")),
    Case("a lone bracket is not nothing", "[", UNREADABLE),
    Case("a lone quote is not nothing", '["', UNREADABLE),
    Case("not json, but a name", "{refund_order", ids(REFUND)),
    # prose
    Case("id in a sentence", f"I would pick {REFUND}.", ids(REFUND)),
    Case("name in a sentence", "I would pick `refund_order`.", ids(REFUND)),
    Case("name in words in a sentence", "Let us refund order 17", ids(REFUND)),
    Case("twice the same", "refund_order! Yes, refund_order.", ids(REFUND)),
    Case("a list", "1. refund_order\n2. cancel_order\n", ids(REFUND, CANCEL)),
    Case("two and no more", "refund_order and then cancel_order", ids(REFUND, CANCEL)),
    Case("part of a longer word", "prerefund_order_x is what I want", UNREADABLE),
    Case("two are weighed", "refund_order is better than cancel_order here", UNREADABLE),
    Case("one is refused", "It is not refund_order", UNREADABLE),
    Case("one is refused, shortly", "refund_order doesn't fit", UNREADABLE),
    Case("each is refused", "None of refund_order, cancel_order fits.", EMPTY),
    Case("none", "None.", EMPTY),
    Case("null", "null", EMPTY),
    Case("an array of null", "[null]", EMPTY),
    Case("an array of none", '["none"]', EMPTY),
    Case("none, and then one", f'[null, "{REFUND}"]', ids(REFUND)),
    Case("an array of a blank", '[" "]', EMPTY),
    Case("no flow", "No suitable flow was found.", EMPTY),
    Case("not any", "I don't think any of these apply.", EMPTY),
    Case("small talk", "Hello! How can I help?", UNREADABLE),
    Case("blank", "  \n", UNREADABLE),
    Case("no text at all", "", UNREADABLE),
    Case("true", "true", UNREADABLE),
    Case("control characters", "\x00\x01\x02", UNREADABLE),
]


@pytest.mark.spec("003.9")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reply(case: Case) -> None:
    assert read_reply(case.reply, OFFERED) == case.means


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('{"flows": [], "answer": " At nine. "}', "At nine."),
        ('{"answer": "At nine."}', "At nine."),
        ('Sure: {"answer": "At nine."}', "At nine."),
        ('{"flows": [], "answer": 9}', ""),
    ],
)
def test_to_a_message_that_is_for_no_flow_there_may_be_an_answer(reply: str, answer: str) -> None:
    assert read_reply(reply, OFFERED, of_message=True) == replace(EMPTY, answer=answer)


@pytest.mark.parametrize(
    ("further", "repeated"),
    [
        ("[]", {REFUND: ({"order": 2},)}),
        ('[{"order": 3}]', {}),
        ('[{"order": 3}, {"order": 4}]', {REFUND: ({"order": 4},)}),
    ],
)
def test_the_last_of_two_names_of_a_flow_says_its_wishes(further: str, repeated: dict[str, Any]) -> None:
    reply = f'{{"flows": [1], "values": {{"1": [{{"order": 1}}, {{"order": 2}}], "refund_order": {further}}}}}'
    assert read_reply(reply, OFFERED, of_message=True).repeated == repeated


@pytest.mark.parametrize("reply", [None, 1, b"[]", ["x"], {"ids": []}], ids=repr)
def test_what_is_no_text_is_unreadable(reply: Any) -> None:
    assert read_reply(reply, OFFERED) == UNREADABLE


# --- names that could mean two, and other odd offers ---------------------------


def offer(**names: str) -> list[Candidate]:
    return [Candidate(flow_id=flow_id, flow_name=name) for flow_id, name in names.items()]


ODD = [
    Case("a name that two have", '["help"]', ids("help")),
    Case("a name that two have but for its case", '["Ask"]', ids("x3")),
    Case("neither spelled like this", '["ASK"]', ids("ASK")),
    Case("a name that two have but for its case, in prose", "I choose Ask.", UNREADABLE),
    Case("an id goes before a name", '["x2"]', ids("x2")),
    Case("a numeric id goes before a position", "[3]", ids("x3")),
    Case("emoji", '["🙂"]', ids("x6")),
    Case("another script", '["退款"]', ids("x7")),
]


@pytest.mark.parametrize("case", ODD, ids=lambda case: case.name)
def test_what_could_mean_two_means_none(case: Case) -> None:
    offered = offer(x1="help", x2="help", x3="Ask", x4="ask", x5="x2", x6="🙂", x7="退款")
    assert read_reply(case.reply, offered) == case.means


def test_numeric_ids_go_before_positions() -> None:
    offered = [Candidate(flow_id="2"), Candidate(flow_id="1"), Candidate(flow_id="1001")]
    assert read_reply('[1, "2", 1001]', offered) == ids("1", "2", "1001")


def test_an_id_is_known_as_the_prompt_shows_it() -> None:
    assert read_reply('["ab"]', [Candidate(flow_id="a\x00b"), Candidate(flow_id="z")]) == ids("a\x00b")


def test_two_ids_that_the_prompt_shows_alike_are_told_apart_by_nobody() -> None:
    assert read_reply('["ab"]', [Candidate(flow_id="a\x00b"), Candidate(flow_id="a\x01b")]) == ids("ab")


def test_a_candidate_without_a_name_is_chosen_by_id() -> None:
    offered = [replace(candidate, flow_name="") for candidate in OFFERED]
    assert read_reply(f"I choose {CANCEL}.", offered) == ids(CANCEL)


def test_where_nothing_can_be_mentioned_prose_is_unreadable() -> None:
    assert read_reply("I choose 🙂 here", [Candidate(flow_id="🙂")]) == UNREADABLE


# --- bounds --------------------------------------------------------------------

MEGA = 1_000_000
HOSTILE = {
    "brackets": "[" * MEGA,
    "braces": '{"a":' * MEGA,
    "quotes": '["' * MEGA,
    "numbers": "[" + "1," * MEGA,
    "arrays": "[1] " * MEGA,
    "open arrays": "[" * 300 + "1," * MEGA,
    "single quotes": "['a'," * MEGA,
    "backslashes": '["\\' * MEGA,
    "objects": "[{" * MEGA,
    "one number": "[" + "9" * MEGA + "]",
    "names": "refund_order " * MEGA,
    "negations": "no " * MEGA,
    "thoughts": "<think>" * MEGA,
    "fences": "`" * MEGA,
    "connecting": "refund_order cancel_order " + "and " * MEGA + "x",
    "separators": "refund_order cancel_order " + "_ " * MEGA + "x",
    "spaces": " " * MEGA + "x",
    "one long word": '["' + "x" * MEGA + '"]',
}


@pytest.mark.parametrize("reply", HOSTILE.values(), ids=HOSTILE)
def test_the_work_is_bounded(reply: str) -> None:
    reading = read_reply(reply, OFFERED)
    assert sum(map(len, reading.ids)) < 20_000


def test_an_answer_at_the_end_of_a_long_reply_is_found() -> None:
    assert read_reply("Let me think. " * 100_000 + f'["{CANCEL}"]', OFFERED) == ids(CANCEL)


def test_an_answer_at_the_beginning_of_a_long_reply_is_found() -> None:
    assert read_reply(f'["{CANCEL}"]' + " That is because." * 100_000, OFFERED) == ids(CANCEL)


def test_a_flood_of_ids_is_cut_short() -> None:
    reading = read_reply(str([f"ghost-{i}" for i in range(1000)]).replace("'", '"'), OFFERED)
    assert len(reading.ids) == 64


def test_a_flood_inside_a_flood_ends() -> None:
    assert read_reply("[" + "true," * 5000 + f'"{CANCEL}"]', OFFERED) == UNREADABLE
