"""Whatever a model answers: reading it never raises, and nothing outside the offered set is ever run."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazz_select.selector.chat_stage import judge_reply
from jazz_select.selector.reply import read_reply
from jazz_select.values import Candidate, Reason, flow_id
from tests.depth import examples

NAMES = ("refund_order", "exchange_order", "cancel_order", "help", "退款", "2")
OFFERED = [Candidate(flow_id=flow_id(name), flow_name=name) for name in NAMES]
IDS = [candidate.flow_id for candidate in OFFERED]
LIVE = {*IDS[1:], flow_id("not_offered")}

words = (
    st.sampled_from([*IDS, *NAMES, flow_id("not_offered"), "RefundOrder", "ghost", "1", "#3", "none", ""]) | st.text()
)
leaves = words | st.integers() | st.floats() | st.booleans() | st.none()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.dictionaries(words | st.sampled_from(["ids", "id", "name", "flows"]), inner),
    max_leaves=12,
)
crumbs = st.lists(
    words | st.sampled_from([*"[]{}\",':\\`\n ", "```json\n", "<think>", "</think>", "not ", " and ", "\ud800", "\x00"])
).map("".join)
prose = st.tuples(st.text(), values.map(json.dumps), st.text()).map(" ".join)
replies = crumbs | values.map(json.dumps) | prose | st.text() | st.binary() | values


@given(reply=replies)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_reply_raises_or_runs_what_was_not_offered(reply: object) -> None:
    reading = read_reply(reply, OFFERED)
    assert (reading.status == "ids") == bool(reading.ids)
    assert len(set(reading.ids)) == len(reading.ids)
    choice = judge_reply(reading, OFFERED, LIVE, on_empty="none")
    assert set(choice.chosen_ids) <= set(IDS) & LIVE
    assert set(reading.ids) <= set(choice.chosen_ids) | set(choice.unresolved)
    assert not set(choice.chosen_ids) & set(choice.unresolved)
    assert bool(choice.chosen_ids) == (choice.reason is not Reason.NONE)


@given(reply=st.binary())
def test_bytes_read_as_text_never_raise(reply: bytes) -> None:
    for encoding in ("utf-8", "latin-1"):
        read_reply(reply.decode(encoding, errors="surrogateescape"), OFFERED)


@given(chosen=st.lists(st.sampled_from(IDS), unique=True, min_size=1), data=st.data())
def test_an_honest_choice_is_read_however_it_is_wrapped(chosen: list[str], data: st.DataObject) -> None:
    items = [data.draw(st.sampled_from([i, {"id": i}, {"flow_id": i, "why": "x"}, [i], i.upper()])) for i in chosen]
    body = json.dumps(data.draw(st.sampled_from([items, [items], {"ids": items}, {"result": {"flows": items}}])))
    before = data.draw(st.sampled_from(["", "Here: ", "```json\n", "<think>[]</think>", "I would say\n```\n"]))
    after = data.draw(st.sampled_from(["", "\n```", "\nbecause it fits.", " "]))
    assert read_reply(before + body + after, OFFERED).ids == tuple(chosen)
