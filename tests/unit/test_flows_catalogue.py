"""The support pack in flows/: what every new user reads first has to be right."""

import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jazz_select import BaseFlow, ConditionalFlow, FlowRegistry, ParallelFlow, SequentialFlow
from jazz_select.flow.flow_loading import load_flows
from tests.tables import read_table

ROOT = Path(__file__).parents[2]
SEASONAL = {"gift_wrapping", "holiday_cutoff", "holiday_returns"}
COMPOSITES = {"recover_login": ConditionalFlow, "move_house": ParallelFlow, "secure_account": SequentialFlow}
NEAR_TWINS = [
    {
        "refund_order",
        "exchange_item",
        "cancel_order",
        "return_label",
        "damaged_item_claim",
        "wrong_item_received",
        "warranty_claim",
    },
    {"change_order_address", "change_account_address", "move_house"},
    {"track_order", "late_delivery", "lost_parcel", "reschedule_delivery"},
    {"reset_password", "unlock_account", "replace_second_factor", "recover_login", "secure_account"},
    {"duplicate_charge", "unknown_charge", "invoice_copy"},
    {"pause_subscription", "cancel_subscription", "change_subscription"},
]


class Case(NamedTuple):
    """One labelled request of a file under examples/."""

    request: str
    expect: tuple[str, ...]
    episodes: tuple[str, ...]
    context: dict[str, Any]
    why: str


def read_cases(name: str) -> list[Case]:
    entries = read_table(ROOT / "examples" / name)
    assert all(set(entry) <= {"request", "expect", "episodes", "context", "why"} for entry in entries)
    return [
        Case(
            request=entry["request"],
            expect=tuple(entry["expect"]),
            episodes=tuple(entry.get("episodes", ())),
            context=entry.get("context", {}),
            why=entry.get("why", ""),
        )
        for entry in entries
    ]


REQUESTS = read_cases("requests.yaml")
EVAL = read_cases("eval.yaml")


def folded(text: str) -> str:
    """The words alone, so that a comma or a capital does not make two sentences different."""
    return " ".join(re.findall(r"\w+", text.casefold()))


@pytest.fixture(scope="module")
def pack() -> FlowRegistry:
    registry = FlowRegistry()
    load_flows(str(ROOT / "flows"), registry)
    return registry


def flow_of(pack: FlowRegistry, name: str) -> BaseFlow:
    flow = pack.by_name(name)
    assert flow is not None, f"no flow named {name!r}"
    return flow


def test_the_pack_loads_whole_into_a_registry_of_its_own(pack: FlowRegistry) -> None:
    names = {flow.name for flow in pack.values()}
    assert len(names) >= 36
    assert SEASONAL | set(COMPOSITES) <= names
    for group in NEAR_TWINS:
        assert group <= names


def test_only_flows_are_loaded(pack: FlowRegistry) -> None:
    """The demo's requests lie elsewhere, and the guards' module holds none."""
    sources = {re.split(r"[ .(]", flow.place.removeprefix("flows."))[0] for flow in pack.values()}
    assert "guards" not in sources
    assert not list((ROOT / "flows").glob("*requests*"))


@pytest.mark.spec("003.18")
def test_every_flow_is_written_out(pack: FlowRegistry) -> None:
    for flow in pack.values():
        assert 5 <= len(flow.examples) <= 8, flow.name
        assert flow.desired_effects, flow.name
        assert 2 <= len(flow.steps) <= 6, flow.name
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", flow.name)
        for text in (flow.description, flow.condition, *flow.desired_effects, *flow.steps, *flow.examples):
            assert text == text.strip(), flow.name
            assert text, flow.name


@pytest.mark.parametrize("field", ["description", "condition"])
def test_no_two_flows_say_the_same(pack: FlowRegistry, field: str) -> None:
    texts = Counter(folded(getattr(flow, field)) for flow in pack.values())
    assert [text for text, count in texts.items() if count > 1] == []


def test_conditions_say_who_and_what(pack: FlowRegistry) -> None:
    """A condition is what a model decides by, so a few words will not do."""
    assert [flow.name for flow in pack.values() if len(flow.condition.split()) < 10] == []


def test_no_example_occurs_twice_in_the_catalogue(pack: FlowRegistry) -> None:
    texts = Counter(folded(example) for flow in pack.values() for example in flow.examples)
    assert [text for text, count in texts.items() if count > 1] == []


def test_examples_come_in_many_voices(pack: FlowRegistry) -> None:
    """Short and long ones in every flow, and in most of them someone who does not type with care."""
    for flow in pack.values():
        lengths = sorted(len(example.split()) for example in flow.examples)
        assert lengths[0] <= 9, flow.name
        assert lengths[-1] >= 11, flow.name
        assert any(example[0].islower() for example in flow.examples) or flow.name in SEASONAL, flow.name


def test_tools_are_named_like_functions_and_used_in_the_steps(pack: FlowRegistry) -> None:
    for flow in pack.values():
        assert all(re.fullmatch(r"[a-z]+(_[a-z]+)+", tool) for tool in flow.own_tools), flow.name
        assert len(set(flow.own_tools)) == len(flow.own_tools), flow.name
        steps = " ".join(flow.steps)
        assert [tool for tool in flow.own_tools if tool not in steps] == [], flow.name


def test_steps_call_no_tool_that_the_flow_does_not_have(pack: FlowRegistry) -> None:
    tools = {tool for flow in pack.values() for tool in flow.tools}
    for flow in pack.values():
        called = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", " ".join(flow.steps)))
        assert called & tools <= set(flow.own_tools), flow.name
        assert called - tools == set(), flow.name


def test_aliases_belong_to_one_flow(pack: FlowRegistry) -> None:
    names = {folded(flow.name.replace("_", " ")) for flow in pack.values()}
    aliases = Counter(folded(alias) for flow in pack.values() for alias in flow.aliases)
    assert [alias for alias, count in aliases.items() if count > 1 or alias in names] == []


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites_are_made_of_live_flows(pack: FlowRegistry, name: str) -> None:
    flow = flow_of(pack, name)
    assert isinstance(flow, COMPOSITES[name])
    assert len(flow.subflows) >= 2
    for part in flow.subflows:
        assert pack[part.id] is part


GUARDS = [
    pytest.param(name, context, open_, id=f"{name}-{label}")
    for names, context, open_, label in [
        ("pause_subscription cancel_subscription change_subscription", {"authenticated": False}, False, "guest"),
        ("pause_subscription cancel_subscription change_subscription", {"authenticated": True}, True, "signed in"),
        ("change_account_address close_account move_house", {"authenticated": False}, False, "guest"),
        ("change_account_address close_account move_house", {"authenticated": True}, True, "signed in"),
        ("unlock_account recover_login", {"authenticated": True}, False, "signed in"),
        ("unlock_account recover_login", {"authenticated": False}, True, "guest"),
        ("unlock_account recover_login", {"authenticated": None}, True, "not known"),
        ("reschedule_delivery", {"region": "GB"}, True, "served"),
        ("reschedule_delivery", {"region": " de "}, True, "served, sloppy"),
        ("reschedule_delivery", {"region": "NO"}, False, "not served"),
        ("reschedule_delivery", {"region": ""}, True, "blank"),
        ("reschedule_delivery", {"region": 44}, True, "not a region"),
        ("handover_to_human", {"now": datetime.fromisoformat("2025-06-11T10:30")}, True, "wednesday morning"),
        ("handover_to_human", {"now": "2025-06-11T08:00:00"}, True, "opening"),
        ("handover_to_human", {"now": "2025-06-11T07:59:59"}, False, "before opening"),
        ("handover_to_human", {"now": "2025-06-14T19:59:00+02:00"}, True, "saturday, last minute"),
        ("handover_to_human", {"now": "2025-06-14T20:00:00"}, False, "closing"),
        ("handover_to_human", {"now": "2025-06-15T12:00:00"}, False, "sunday"),
        ("handover_to_human", {"now": "noon"}, True, "not a time"),
        ("handover_to_human", {"now": 12}, True, "a number"),
        ("schedule_callback", {"now": "2025-06-15T23:00:00"}, True, "always"),
        ("refund_order track_order reset_password", {"authenticated": False, "region": "NO"}, True, "unguarded"),
    ]
    for name in names.split()
]


@pytest.mark.parametrize(("name", "context", "open_"), GUARDS)
def test_guards_close_a_flow_on_what_is_known(
    pack: FlowRegistry, name: str, context: dict[str, Any], *, open_: bool
) -> None:
    assert flow_of(pack, name).available(context) is open_


def test_without_a_context_every_flow_is_open(pack: FlowRegistry) -> None:
    assert [flow.name for flow in pack.values() if not flow.available({})] == []


@pytest.mark.parametrize("cases", [pytest.param(REQUESTS, id="requests"), pytest.param(EVAL, id="eval")])
def test_labels_name_flows_that_are_open_then(pack: FlowRegistry, cases: list[Case]) -> None:
    for case in cases:
        assert case.request.strip()
        assert len(set(case.expect)) == len(case.expect), case.request
        for name in case.expect:
            assert flow_of(pack, name).available(case.context), (case.request, name)


def test_the_demo_asks_nothing_twice_in_one_situation() -> None:
    asked = Counter((case.request, str(case.context), case.episodes) for case in REQUESTS + EVAL)
    assert [request for request, count in asked.items() if count > 1] == []


def test_the_guard_decides_between_the_demos_equal_requests(pack: FlowRegistry) -> None:
    """`Let me talk to someone` goes to a person by day and to a callback by night."""
    twins = [case for case in REQUESTS if case.request == "Let me talk to someone"]
    assert [case.expect for case in twins] == [("handover_to_human",), ("schedule_callback",)]
    assert [flow_of(pack, "handover_to_human").available(case.context) for case in twins] == [True, False]


def test_the_demo_shows_each_kind_of_request() -> None:
    assert 12 <= len(REQUESTS) <= 16
    assert all(case.why for case in REQUESTS)
    assert sum(not case.expect for case in REQUESTS) >= 1
    assert sum(len(case.expect) > 1 for case in REQUESTS) >= 1
    assert sum(bool(case.episodes) for case in REQUESTS) >= 2
    assert sum(bool(case.context) for case in REQUESTS) >= 2


def test_the_evaluation_set_holds_three_requests_for_each_flow(pack: FlowRegistry) -> None:
    counts = Counter(name for case in EVAL for name in case.expect)
    assert counts == dict.fromkeys((flow.name for flow in pack.values()), 3)


def test_no_labelled_request_is_an_example_in_other_clothes(pack: FlowRegistry) -> None:
    """A held-out request that shares most of its words with an example would measure memory, not recall."""
    examples = [set(folded(example).split()) for flow in pack.values() for example in flow.examples]
    for case in EVAL:
        words = set(folded(case.request).split())
        nearest = max(len(words & example) / len(words | example) for example in examples)
        assert nearest < 0.6, case.request


@pytest.mark.spec("010.8")
def test_each_flow_has_a_title_in_words_of_its_own(pack: FlowRegistry) -> None:
    titles = [flow.title for flow in pack.values()]
    assert len(set(titles)) == len(pack) == 40
    assert not [title for title in titles if "_" in title or title != title.strip() or not title[:1].isupper()]
