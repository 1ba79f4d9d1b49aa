"""Requests that are known word for word: an example, a title or an alias of exactly one flow needs no model."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from jazz_select import BaseFlow, Flow, FlowRegistry, FlowSelector
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.selector.known_requests import folded_request
from jazz_select.selector.policy import PRESETS, Policy
from jazz_select.selector.prompt import ConversationContext, UnderWay
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.values import Decision, Reason, Tier, flow_id
from tests.unit.selector.shop import EXCHANGE, REFUND, Guarded, metadata

pytestmark = pytest.mark.spec("016.2")
NAMES = ("refund_order", "exchange_order", "cancel_order")
SHARED = "something is wrong with my order"


def catalogue(kind: type[BaseFlow] = Flow) -> FlowRegistry:
    """Three flows of the shop with texts of their own, and one that two of them share."""
    registry = FlowRegistry(min_examples=0)
    texts: dict[str, dict[str, Any]] = {
        "refund_order": {
            "examples": ["I want my money back", "Geld zurück für die Bestellung", "I'd like café money", SHARED],
            "title": "Give money back",
            "aliases": ["chargeback"],
        },
        "exchange_order": {"examples": ["swap it for another size", "换一个尺码"], "title": "Swap", "aliases": []},
        "cancel_order": {
            "examples": ["stop the delivery", "मेरा खाता खाली करो", SHARED],
            "title": "Call it off",
            "aliases": ["storno"],
        },
    }
    for name in NAMES:
        made = kind if name == "refund_order" else Flow
        made(
            name=name,
            description=f"What {name} does.",
            condition=f"The user wants {name}.",
            desired_effects=[f"{name} is done"],
            registry=registry,
            **texts[name],
        )
    return registry


def recalled(*names: str) -> ListMemory:
    """A memory that never has the right flow first, and does not know how sure it is."""
    return ListMemory(metadata(*names or ("exchange_order", "cancel_order", "refund_order")))


async def choose(request: str, **options: Any) -> tuple[Decision, ScriptedModel]:
    """The decision, and the model, which would choose the first candidate."""
    model = ScriptedModel('["1"]', repeat=True)
    made = FlowSelector(model, catalogue(), recalled(), "shop", **options)
    return (await made.select(request)).decision, model


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        pytest.param("I want my money back", "refund_order", id="example"),
        pytest.param("chargeback", "refund_order", id="alias"),
        pytest.param("Give money back", "refund_order", id="title"),
        pytest.param("refund_order", "refund_order", id="name"),
        pytest.param("refund order", "refund_order", id="name in words"),
        pytest.param("i WANT my MONEY back", "refund_order", id="case"),
        pytest.param("I want my money back!!!", "refund_order", id="punctuation"),
        pytest.param("  «I want, my money - back…»  ", "refund_order", id="punctuation within"),
        pytest.param("\tI want\n my   money\u00a0back ", "refund_order", id="white space"),
        pytest.param("I\u2019d like cafe\u0301 money", "refund_order", id="Unicode forms and apostrophes"),
        pytest.param("\uff33\uff34\uff2f\uff32\uff2e\uff2f", "cancel_order", id="full width"),
        pytest.param("GELD ZURU\u0308CK FÜR DIE BESTELLUNG", "refund_order", id="umlauts"),
        pytest.param("换一个尺码。", "exchange_order", id="Chinese"),
        pytest.param("Hello, I want my money back please. Thank you very much!", "refund_order", id="in English"),
        pytest.param("Guten Tag, Geld zurück für die Bestellung bitte, vielen Dank", "refund_order", id="in German"),
        pytest.param("Hola, storno por favor, gracias", "cancel_order", id="in Spanish"),
        pytest.param("bonjour, storno s'il vous plaît, merci", "cancel_order", id="in French"),
        pytest.param("stop the delivery 🙏", "cancel_order", id="emoji"),
        pytest.param("stop ❤\ufe0f the delivery", "cancel_order", id="an emoji that says how it is drawn"),
        pytest.param("मेरा खाता खाली करो!", "cancel_order", id="Hindi"),
    ],
)  # fmt: skip
async def test_what_is_known_is_not_asked(request_: str, name: str) -> None:
    for policy in (*PRESETS.values(), Policy(max_error=0.0)):
        decision, model = await choose(request_, policy=policy)
        assert (decision.reason, decision.chosen_ids) == (Reason.EXAMPLE, (flow_id(name),))
        assert decision.tier is Tier.DETERMINISTIC
        assert model.calls == []
        assert [(each.name, each.outcome) for each in decision.stages] == [("recall", "decided"), ("chat", "skipped")]
        assert "it is known as a request for" in decision.stages[0].why


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(SHARED, id="two flows have it"),
        pytest.param(f"{SHARED.upper()}, please", id="two flows have it, folded"),
        pytest.param("I want my money back for 5 apples", id="more is said"),
        pytest.param("I do not want my money back", id="denied"),
        pytest.param("money back", id="less is said"),
        pytest.param("I want my mony back", id="misspelt"),
        pytest.param("please", id="a courtesy"),
        pytest.param("मेरा खाता खोलें करो", id="other vowels"),
        pytest.param("chargeback and storno", id="two of them"),
        pytest.param("I want my money back " * 200, id="too long"),
    ],
)
async def test_what_is_not_known_is_asked(request_: str) -> None:
    decision, model = await choose(request_)
    assert (decision.reason, len(model.calls)) == (Reason.LLM, 1)


async def test_a_decision_model_is_not_asked_either() -> None:
    decider = ScriptedDecider("1", repeat=True)
    made = FlowSelector(None, catalogue(), recalled(), "shop", decider=decider, policy="recommended")
    decision = (await made.select("storno")).decision
    assert (decision.reason, decider.calls) == (Reason.EXAMPLE, [])


async def test_without_any_model_it_is_known_too() -> None:
    made = FlowSelector(None, catalogue(), recalled(), "shop")
    found = await made.select("I want my money back")
    assert (found.names, found.decision.reason) == (["refund_order"], Reason.EXAMPLE)


async def test_a_flow_that_only_others_call_is_known_by_nothing_and_hides_no_other() -> None:
    registry = FlowRegistry(min_examples=0)
    Flow(name="log_in", title="Sign me in", only_called=True, registry=registry)
    for made in catalogue().values():
        Flow(
            name=made.name,
            description=made.description,
            condition=made.condition,
            desired_effects=made.desired_effects,
            title=made.title,
            registry=registry,
        )
    selector = FlowSelector(ScriptedModel('["1"]', repeat=True), registry, recalled(), "shop")
    known, unknown = await selector.select("Call it off"), await selector.select("Sign me in")
    assert (known.names, known.decision.reason) == (["cancel_order"], Reason.EXAMPLE)
    assert unknown.decision.reason is Reason.LLM


async def test_a_known_flow_that_recall_did_not_find_joins_the_candidates() -> None:
    made = FlowSelector(ScriptedModel(), catalogue(), recalled("exchange_order", "cancel_order"), "shop")
    found = await made.select("chargeback")
    assert (found.names, found.decision.reason) == (["refund_order"], Reason.EXAMPLE)
    assert [each.flow_name for each in found.decision.candidates] == ["exchange_order", "cancel_order", "refund_order"]


@pytest.mark.parametrize("found", [("refund_order", "cancel_order"), ("exchange_order", "cancel_order")], ids=" ".join)
@pytest.mark.parametrize("guest", [True, False], ids=["guest", "member"])
async def test_a_known_flow_is_not_chosen_if_its_guard_is_closed(found: Sequence[str], *, guest: bool) -> None:
    model = ScriptedModel('["1"]', repeat=True)
    made = FlowSelector(model, catalogue(Guarded), recalled(*found), "shop")
    result = await made.select("I want my money back", context={"member": not guest})
    assert ("refund_order" in result.names) is not guest
    assert (result.decision.reason is Reason.EXAMPLE) is not guest


async def test_a_guard_that_closes_meanwhile_is_asked_after_the_choice() -> None:
    answers = iter([True, False])
    made = FlowSelector(ScriptedModel(), catalogue(Guarded), recalled("refund_order", "cancel_order"), "shop")
    result = await made.select("chargeback", context={"member": lambda: next(answers)})
    assert (result.names, result.decision.reason) == ([], Reason.NONE)


@pytest.mark.parametrize("together", [False, True], ids=["select", "select_many"])
async def test_a_known_flow_may_leave_while_its_guard_runs(*, together: bool) -> None:
    registry = catalogue(Guarded)
    asked = count(1)

    def leave() -> bool:
        # Recall asks the guard first, and then it is asked of the flow that is known.
        if next(asked) == 2:
            registry.unregister(REFUND)
        return True

    model = ScriptedModel('["2"]', repeat=True)
    made = FlowSelector(model, registry, recalled("exchange_order", "cancel_order"), "shop")
    if together:
        (result,) = await made.select_many(["chargeback"], context={"member": leave})
    else:
        result = await made.select("chargeback", context={"member": leave})
    assert (result.names, result.decision.reason) == (["cancel_order"], Reason.LLM)


async def test_the_registry_is_read_as_it_is_now() -> None:
    """Flows that are added, changed or removed later are known as they are by then."""
    registry, model = catalogue(), ScriptedModel('["1"]', repeat=True)
    made = FlowSelector(model, registry, recalled(), "shop")

    async def reason(request: str) -> Reason:
        return (await made.select(request)).decision.reason

    assert [await reason("storno"), await reason("undo it")] == [Reason.EXAMPLE, Reason.LLM]
    cancel = registry[flow_id("cancel_order")]
    cancel.examples = ["undo it"]
    registry.unregister(flow_id("refund_order"))
    Flow(
        name="gift_wrap",
        description="Wraps it.",
        condition="The user wants a gift.",
        desired_effects=["it is wrapped"],
        examples=["make it a gift"],
        aliases=["storno"],
        registry=registry,
    )
    assert await reason("undo it") is Reason.EXAMPLE, "a new example"
    assert await reason("chargeback") is Reason.LLM, "of a flow that was removed"
    assert await reason("storno") is Reason.LLM, "two flows have it by now"
    assert await reason("make it a gift") is Reason.EXAMPLE, "of a new flow"


async def test_an_example_that_a_flow_no_longer_has_is_not_known() -> None:
    registry, model = catalogue(), ScriptedModel('["1"]', repeat=True)
    made = FlowSelector(model, registry, recalled(), "shop")
    assert (await made.select("stop the delivery")).decision.reason is Reason.EXAMPLE
    registry[flow_id("cancel_order")].examples = ["undo it"]
    assert (await made.select("stop the delivery")).decision.reason is Reason.LLM


async def test_a_plain_mapping_of_flows_is_read_as_it_is_now() -> None:
    flows: dict[str, BaseFlow] = dict(catalogue())
    made = FlowSelector(ScriptedModel('["1"]', repeat=True), flows, recalled(), "shop")
    assert (await made.select("storno")).decision.reason is Reason.EXAMPLE
    del flows[flow_id("cancel_order")]
    assert (await made.select("storno")).decision.reason is Reason.LLM


async def test_several_requests_at_once() -> None:
    model = ScriptedModel('["1"]', repeat=True)
    made = FlowSelector(model, catalogue(), recalled(), "shop")
    asked = ["Chargeback!", SHARED, "swap", SelectRequest("storno", only=[EXCHANGE, REFUND])]
    found = await made.select_many(asked)
    assert [each.decision.reason for each in found] == [Reason.EXAMPLE, Reason.LLM, Reason.EXAMPLE, Reason.LLM]
    preview = await made.select_many(asked[:2], ask=False)
    assert [each.decision.reason for each in preview] == [Reason.EXAMPLE, Reason.UNASKED]


async def test_among_given_candidates_the_known_one_is_chosen_if_it_is_there() -> None:
    model = ScriptedModel('["1"]', repeat=True)
    made = FlowSelector(model, catalogue())
    there = await made.select("storno", metadata("exchange_order", "cancel_order"))
    assert (there.names, there.decision.reason) == (["cancel_order"], Reason.EXAMPLE)
    elsewhere = await made.select("storno", metadata("exchange_order", "refund_order"))
    assert elsewhere.decision.reason is Reason.LLM
    assert "cancel_order" not in [each.flow_name for each in elsewhere.decision.candidates], "the caller chose them"


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param({"under_way": [UnderWay(flow_id=EXCHANGE, waits_for="the size")]}, id="a flow under way"),
        pytest.param({"confirms": "Shall I exchange it?"}, id="a question that waits"),
    ],
)
async def test_with_a_flow_under_way_the_model_reads_it(situation: Mapping[str, Any]) -> None:
    """In the middle of a conversation the same words may belong to what is under way."""
    model = ScriptedModel('["2"]', repeat=True)
    made = FlowSelector(model, catalogue(), recalled(), "shop", policy="recommended")
    decision = (await made.select("storno", situation=ConversationContext(**situation))).decision
    assert (decision.reason, len(model.calls)) == (Reason.LLM, 1)
    fresh = (await made.select("storno", situation=ConversationContext())).decision
    assert (fresh.reason, len(model.calls)) == (Reason.EXAMPLE, 1), "with nothing under way it is known"


async def test_what_is_quoted_is_not_what_is_asked() -> None:
    decision, _ = await choose("storno\n\n> I want my money back\n> as I wrote yesterday")
    assert (decision.reason, decision.chosen_ids) == (Reason.EXAMPLE, (flow_id("cancel_order"),))


@pytest.mark.parametrize("text", ["I want to learn C++", "I want to learn C#", "send 10 %", "send 10 €"])
def test_a_sign_that_changes_the_meaning_is_part_of_the_request(text: str) -> None:
    bare = text.rstrip("+#%€ ")
    assert folded_request(text) != folded_request(bare)
    assert folded_request(f"Hi! {text.upper()}, please...") == folded_request(text)
