"""What an agent begins without a chat model's word: what only reads, and what the user says yes to."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from jazz_select import Agent, FlowRegistry, FlowSelector
from jazz_select.agent import TurnResult
from jazz_select.errors import ModelError
from jazz_select.questions import ChoiceQuestion, Question
from jazz_select.routing import Tool
from jazz_select.selector.policy import Policy
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.texts import Texts
from jazz_select.values import RecallResult
from tests.agents import make_agent
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata, with_policy

pytestmark = pytest.mark.spec("009.2")

NAMES = ("refund_order", "exchange_order")
CLEAR = "I want my money back"
ASKS_FOR_NOTHING = {
    "thanks": ("thank you!", 0.001),
    "a number": ("12345", 0.001),
    "an address": ("ada@example.org", 0.001),
    "small talk": ("what a lovely morning", 0.5),
    "out of scope": ("tell me a joke", 0.5),
    "a denial": ("I do not want my money back", 0.001),
    "a wish withdrawn": ("please never refund anything", 0.001),
    "a supposition": ("would you pay back if it broke?", 0.001),
    "a question": ("how do I get my money back?", 0.001),
}


TOLD = [
    "thank you for refunding my order",
    "Thanks for the refund!",
    "thanks so much for the quick refund, great service",
    "danke für die Erstattung",
    "merci pour le remboursement",
    "gracias por el reembolso",
    "I already got my money back",
    "I've already refunded it. Thanks!",
    "Hi, we have already refunded the order",
    "my order was refunded",
    "you refunded the wrong order!",
    "My friend has refunded her order.",
    "please stop the refund of my order",
    "stop refunding my orders",
    "Avoid refunding my order",
    "undo the refund",
    "ignore refund my order",
    "I refuse to refund the order",
    "refunding my order is the last thing I want",
    "I'd hate for you to refund my order",
    "it would be terrible to refund my order",
    "nobody refund my order",
]


class Sure(ListMemory):
    """Recalls the refund for whatever is said, and is sure which it is."""

    def __init__(self, p_none: float | None, first: float | None = 0.99) -> None:
        some = 1 - (p_none or 0.0)
        known = (None, None) if first is None else (some * first, some * (1 - first) / 2)
        super().__init__(
            [
                each | ({} if chance is None else {"confidence": chance})
                for each, chance in zip(metadata(*NAMES), known, strict=True)
            ]
        )
        self.p_none = p_none

    async def recall(self, *args: Any, **options: Any) -> RecallResult:
        return RecallResult(await super().recall(*args, **options), p_none=self.p_none)


def refund(sure: float) -> ScriptedDecider:
    """A decision model that says so for the refund."""

    def said(_: str, questions: Mapping[str, Question]) -> Mapping[str, Mapping[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for name, question in questions.items():
            assert isinstance(question, ChoiceQuestion)
            rest = (1 - sure) / (len(question.options) - 1)
            found[name] = {
                label: sure if meaning.startswith("refund") else rest for label, meaning in question.options.items()
            }
        return found

    return ScriptedDecider(said, repeat=True)


def none_fits() -> ScriptedModel:
    return ScriptedModel("[]", repeat=True)


def down() -> ScriptedModel:
    return ScriptedModel(ModelError("m", "it is down", retryable=False), repeat=True)


BY: dict[str, Callable[[], dict[str, Any]]] = {
    "nothing": dict,
    "a budget": lambda: {"max_error": 0.05},
    "a sure decider": lambda: {"decider": refund(0.999)},
    "an unsure decider": lambda: {"decider": refund(0.4)},
    "a budget and a sure decider": lambda: {"max_error": 0.01, "decider": refund(0.9999)},
    "a budget and an unsure decider": lambda: {"max_error": 0.01, "decider": refund(0.4)},
    "a chat model": lambda: {"llm": none_fits()},
    "a chat model and a threshold": lambda: {"llm": none_fits(), "max_error": 0.1},
    "a chat model and a budget": lambda: {"llm": none_fits(), "max_error": 0.05},
    "a chat model, a budget and a decider": lambda: {
        "llm": none_fits(),
        "max_error": 0.01,
        "decider": refund(0.9999),
    },
    "a chat model that is down and a budget": lambda: {"llm": down(), "max_error": 0.05},
    "a chat model that is down and a decider": lambda: {"llm": down(), "decider": refund(0.999)},
}


def paying(log: list[str], *, destructive: bool, reads: bool) -> tuple[FlowRegistry, list[Tool]]:
    def pay_back() -> str:
        log.append("paid")
        return "paid"

    schema = {"type": "object"}
    tool = Tool(
        name="pay_back", input_schema=schema, function=pay_back, destructive=destructive, read_only=reads or None
    )
    return shop_of((NAMES[0], ("pay_back",)), (NAMES[1], ())), [tool]


async def turn(
    by: Mapping[str, Any],
    message: str,
    p_none: float | None,
    log: list[str],
    *,
    destructive: bool = False,
    reads: bool = False,
    first: float | None = 0.99,
    **options: Any,
) -> TurnResult:
    registry, tools = paying(log, destructive=destructive, reads=reads)
    given = dict(by)
    selector = FlowSelector(given.pop("llm", None), registry, Sure(p_none, first), "support", **with_policy(given))
    return await make_agent(selector, tools, **options).turn(message)


@pytest.mark.spec("011.5")
@pytest.mark.spec("005.3")
@pytest.mark.parametrize("destructive", [True, False], ids=["destroys", "writes"])
@pytest.mark.parametrize("by", BY)
async def test_whoever_is_sure_nothing_is_changed_for_a_message_that_nobody_has_read(
    by: str, *, destructive: bool
) -> None:
    """Denied, supposed, told of, or a value alone: the most that comes of it is a question."""
    for message, p_none in (*ASKS_FOR_NOTHING.values(), *((each, 0.001) for each in TOLD)):
        log: list[str] = []
        result = await turn(BY[by](), message, p_none, log, destructive=destructive)
        asked = result.text == Texts().in_language_of([message])["go_on"].format(title="Refund order")
        assert (result.flows, log) == ([], []), message
        assert result.status == ("waiting" if asked else "open"), message
        assert not (asked and by.startswith("a chat model") and "down" not in by), message


@pytest.mark.spec("011.5")
@pytest.mark.parametrize("destructive", [True, False], ids=["destroys", "writes"])
@pytest.mark.parametrize("by", [each for each in BY if not each.startswith("a chat model")])
async def test_a_request_runs_after_a_yes_and_at_once_where_nothing_is_asked_for(by: str, *, destructive: bool) -> None:
    log: list[str] = []
    assert (await turn(BY[by](), CLEAR, 0.001, log, destructive=destructive)).status == "waiting"
    result = await turn(BY[by](), CLEAR, 0.001, log, destructive=destructive, approval="never")
    assert (result.status, log) == ("done", ["paid"])


@pytest.mark.spec("011.1")
@pytest.mark.parametrize("options", [{"max_error": 0.05}, {"max_error": 0.1}])
async def test_a_chat_model_is_spared_for_what_only_reads_and_hears_the_rest(options: dict[str, Any]) -> None:
    for p_none, reads, calls in ((0.001, True, 0), (0.001, False, 1), (0.2, True, 1)):
        model, log = none_fits(), list[str]()
        await turn({"llm": model, **options}, CLEAR, p_none, log, reads=reads)
        assert (len(model.calls), log) == (calls, [] if calls else ["paid"])


STILL_MEANT = [
    "thanks, now refund my order",
    "Thanks! Please refund my order.",
    "thanks for the help, now refund my order",
    "Thank you for the shoes. Refund them.",
    "I've already returned the shoes",
    "I already told you to refund my order",
    "I already sent it back, so refund it",
    "My box was opened. Refund my order",
    "stop charging me",
    "stop and refund my order",
    "stop, refund my order",
    "you refunded half and I want the rest",
    "undo the purchase",
    "the last thing I bought has to be refunded",
    "I hate my new shoes, refund them",
]


@pytest.mark.parametrize("message", STILL_MEANT)
async def test_a_request_beside_what_is_told_still_runs(message: str) -> None:
    log: list[str] = []
    result = await turn({}, message, 0.001, log, approval="never")
    assert (result.status, log) == ("done", ["paid"])


async def test_a_chat_model_that_has_read_it_decides() -> None:
    log: list[str] = []
    by = {"llm": ScriptedModel('["1"]'), "max_error": 0.05}
    result = await turn(by, "could it be that I never got my money back?", 0.001, log)
    assert (result.status, log) == ("done", ["paid"])


async def test_no_decision_model_is_asked_what_only_the_chat_model_may_read() -> None:
    decider = refund(0.9999)
    by = {"llm": none_fits(), "max_error": 0.01, "decider": decider}
    result = await turn(by, "tell me a joke", 0.5, [])
    assert decider.calls == []
    assert result.selection is not None
    assert [f"{each.name} {each.outcome}" for each in result.selection.decision.stages] == [
        "recall handed_on",
        "decider handed_on",
        "chat none",
    ]


@pytest.mark.parametrize(("sure", "runs"), [(0.999, True), (0.4, False)], ids=["sure", "unsure"])
async def test_where_recall_knows_no_confidence_a_decider_begins_what_it_is_sure_of(sure: float, *, runs: bool) -> None:
    log: list[str] = []
    by = {"max_error": 0.3, "decider": refund(sure)}
    result = await turn(by, CLEAR, None, log, first=None, approval="never")
    assert (result.status, log) == (("done", ["paid"]) if runs else ("open", []))


async def test_the_name_of_a_flow_word_for_word_begins_it_whatever_is_sure() -> None:
    for by in ("nothing", "a budget", "a chat model and a budget", "a sure decider"):
        log: list[str] = []
        result = await turn(BY[by](), "refund order", 0.001, log)
        assert (result.status, log) == ("done", ["paid"]), by


@pytest.mark.spec("011.1")
async def test_what_recall_alone_has_begun_is_heard_by_its_model_that_may_hand_the_message_back() -> None:
    """Nobody has read the message: what else is in it is looked for, and not dropped."""
    registry = shop_of((NAMES[0], ()), (NAMES[1], ()))
    model = ScriptedModel(
        '{"tool_calls": [{"id": "s1", "tool": "another_wish", "arguments": {"wish": "swap shoes"}}]}',
        '{"flows": ["exchange_order"]}',
        "Which size?",
    )
    selector = FlowSelector(model, registry, Sure(0.001), "support", policy=Policy(max_error=0.1))
    result = await Agent(selector, [], model).turn("money for the lamp and swap shoes")
    assert "another_wish" in model.calls[0][0].content
    assert "<request>swap shoes</request>" in model.calls[1][-1].content
    assert (result.text, {each.name for each in result.conversation.flows}) == ("Which size?", {*NAMES})
