"""Which flow is meant: asked in a turn where the selector leaves it to the user, and heard in the next."""

from typing import Any

import pytest

from jazz_select import ConditionalFlow, FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation, TurnResult
from jazz_select.errors import SnapshotError
from jazz_select.routing import Tool
from jazz_select.selector.policy import Policy
from jazz_select.stages import UserQuestion
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.texts import Texts
from jazz_select.values import Reason, RecallResult, flow_id
from tests.agents import make_agent
from tests.unit.agent.turns import destroyer, obj, shop_of, tools_for
from tests.unit.selector.shop import Guarded, metadata

pytestmark = pytest.mark.spec("009.2")
NAMES = ("refund_order", "exchange_order", "cancel_order")
VAGUE = "something with my order"
KEY = "signs conversations"
TEXT = "Which of these do you mean?\n1. Refund order: refund_order is done\n2. Exchange order: exchange_order is done"


class Found(ListMemory):
    """Recalls with these probabilities, which a test may change between turns."""

    def __init__(self, *sure: float, p_none: float | None = 0.012) -> None:
        self.p_none = p_none
        super().__init__()
        self.be(*sure)

    def be(self, *sure: float) -> None:
        """How sure it is of each flow from now on; of those for which nothing is said it finds none."""
        found = zip(metadata(*NAMES), sure, strict=False)
        self._items = sorted(
            ({**each, "confidence": chance} for each, chance in found), key=lambda each: -each["confidence"]
        )

    async def recall(self, *args: Any, **options: Any) -> RecallResult:
        await super().recall(*args, **options)
        return RecallResult(self._items, p_none=self.p_none)


def shop() -> FlowRegistry:
    """Flows with a step each; the refund wants an address, and the exchange destroys nothing."""
    return shop_of(*((name, (f"do_{name}",)) for name in NAMES))


def agent(
    memory: ListMemory, log: list[str], *, model: Any = None, llm: Any = None, wants: str = "", **options: Any
) -> Agent:
    selector = FlowSelector(llm, shop(), memory, "support", policy=Policy(max_error=0.01, ask_user=True))
    tools = tools_for("do_exchange_order", "do_cancel_order", "do_refund_order", log=log, wants=wants)
    given: dict[str, Any] = {"approval": "never"} | options
    return make_agent(selector, tools, model, **given)


async def said(made: Agent, *messages: str, kept: Conversation | None = None, **options: Any) -> list[TurnResult]:
    """The results of these turns; between any two the conversation is a signed text."""
    results: list[TurnResult] = []
    for message in messages:
        results.append(await made.turn(message, kept, **options))
        kept = Conversation.from_json(results[-1].conversation.to_json(secret=KEY), secret=KEY)
    return results


def names(question: UserQuestion | None) -> list[str]:
    return [] if question is None else [each.flow_name for each in question.options]


# --- the question --------------------------------------------------------------


async def test_a_turn_asks_which_flow_is_meant() -> None:
    log: list[str] = []
    (result,) = await said(agent(Found(0.5, 0.45), log), VAGUE)
    assert (result.status, result.text, result.flows, log) == ("waiting", TEXT, [], [])
    assert names(result.question) == ["refund_order", "exchange_order"]
    assert result.question is not None
    assert (result.question.text, result.question.request) == (TEXT, VAGUE)
    assert result.selection is not None
    assert result.selection.decision.question == result.question
    assert result.conversation.messages[-1].content == TEXT


async def test_what_is_asked_travels_with_the_result_and_the_conversation() -> None:
    (result,) = await said(agent(Found(0.5, 0.45), []), VAGUE)
    for again in (TurnResult.from_json(result.to_json()), TurnResult.from_json(result.to_json(secret=KEY))):
        assert (again.question, again.status) == (result.question, "waiting")
    assert Conversation.from_json(result.conversation.to_json()) == result.conversation


async def test_without_ask_user_nothing_is_asked_and_nothing_more_is_kept() -> None:
    selector = FlowSelector(None, shop(), Found(0.5, 0.45), "support", policy=Policy(max_error=0.01))
    made = Agent(selector, tools_for("do_exchange_order", "do_cancel_order", "do_refund_order", log=[]))
    result = await made.turn(VAGUE)
    assert (result.status, result.text, result.question) == ("waiting", "Shall I go on with: Refund order?", None)
    assert result.conversation.question is None


async def test_thanks_are_no_request() -> None:
    (result,) = await said(agent(Found(0.5, 0.45), []), "thank you!")
    assert (result.status, result.question, result.reason) == ("open", None, "no flow fits")


# --- the answer ----------------------------------------------------------------


@pytest.mark.parametrize("answer", ["2", "the second one", "Exchange order", "I want to exchange it", "exchange_order"])
async def test_an_answer_that_names_one_begins_it(answer: str) -> None:
    log: list[str] = []
    memory = Found(0.5, 0.45)
    made = agent(memory, log)
    _, result = await said(made, VAGUE, answer)
    assert (result.status, result.flows, log) == ("done", ["exchange_order"], ["do_exchange_order"])
    assert len(memory.calls) == 1, "nothing has to be recalled"
    assert result.selection is not None
    assert result.selection.decision.reason is Reason.USER
    assert (result.question, result.conversation.question) == (None, None)


async def test_the_flow_is_begun_with_what_was_wanted_first() -> None:
    made = agent(Found(0.5, 0.45), [], wants="email")
    _, asks = await said(made, VAGUE, "1")
    assert (asks.status, asks.text) == ("waiting", "To go on, I need: email.")
    assert asks.conversation.flows[-1].request == VAGUE
    _, _, done = await said(made, VAGUE, "1", "ada@example.org")
    assert (done.status, done.flows) == ("done", ["refund_order"])


async def test_what_would_destroy_something_is_still_asked_about() -> None:
    log: list[str] = []
    selector = FlowSelector(
        None, shop(), Found(0.1, 0.45, 0.5), "support", policy=Policy(max_error=0.01, ask_user=True)
    )
    tools = [destroyer(f"do_{name}", log) for name in NAMES]
    _, confirms, done = await said(Agent(selector, tools), VAGUE, "cancel order", "yes")
    assert (confirms.status, done.status, log) == ("confirming", "done", ["do_cancel_order"])


OFFERS = "I found nothing here that fits this. I can help with: Refund order, Exchange order, Cancel order."


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        ("none of these", "open", OFFERS),
        ("neither", "open", OFFERS),
        ("never mind", "done", "All right, none of these will be done."),
        ("no", "done", "All right, none of these will be done."),
    ],
)
async def test_none_of_them_ends_it(answer: str, status: str, text: str) -> None:
    log: list[str] = []
    memory = Found(0.5, 0.45)
    made = agent(memory, log)
    _, ended = await said(made, VAGUE, answer)
    assert (ended.status, ended.text, ended.question, log) == (status, text, None, [])
    memory.be(0.995)
    *_, later = await said(made, VAGUE, answer, "refund it")
    assert later.flows == ["refund_order"]


@pytest.mark.parametrize("answer", ["cancel", "Stop.", "cancel, please", "abbruch", "стоп"])
async def test_a_word_that_calls_off_ends_it_though_an_option_has_that_word(answer: str) -> None:
    log: list[str] = []
    made = agent(Found(0.01, 0.45, 0.5), log)
    asks, ended = await said(made, VAGUE, answer)
    assert (ended.status, ended.text, log) == ("done", Texts().in_language_of([answer])["none_of_these"], [])
    for names_it in ("cancel order", "the cancel one"):
        (named,) = await said(made, names_it, kept=asks.conversation)
        assert named.flows == ["cancel_order"]


async def test_a_number_that_no_option_has_is_asked_about_once_more_and_once_alone() -> None:
    memory = Found(0.5, 0.45)
    made = agent(memory, [])
    _, again = await said(made, VAGUE, "7")
    assert (again.status, again.text) == ("waiting", f"There is no number 7 here: please say 1 or 2.\n{TEXT}")
    assert len(memory.calls) == 1
    (third,) = await said(made, "7", kept=again.conversation)
    assert len(memory.calls) > 1, "only the second time something is looked for"
    assert third.question is None
    assert "asked before" in third.reason
    (named,) = await said(made, "2", kept=again.conversation)
    assert named.flows == ["exchange_order"]


async def test_a_model_that_chooses_is_not_asked_about_a_number_that_no_option_has() -> None:
    llm = ScriptedModel('["1", "2"]')
    _, again = await said(agent(Found(0.5, 0.45, 0.3), [], llm=llm), VAGUE, "number 4 please")
    assert (again.status, names(again.question), len(llm.calls)) == ("waiting", ["refund_order", "exchange_order"], 1)


async def test_what_names_no_one_of_them_is_asked_about_once_more_and_then_left_open() -> None:
    log: list[str] = []
    memory = Found(0.5, 0.45)
    made = agent(memory, log)
    _, again = await said(made, VAGUE, "refund order? no, the exchange thing")
    assert (again.status, again.text) == ("waiting", f"Please name one of them: 1 or 2.\n{TEXT}")
    memory.be(0.999)
    (third,) = await said(made, "not the first", kept=again.conversation)
    assert (third.question, third.flows, log) == (None, [], [])
    assert "asked before" in third.reason
    (named,) = await said(made, "the second, please, for card L-9", kept=again.conversation)
    assert named.flows == ["exchange_order"]


async def test_something_else_is_a_new_request_read_with_what_was_wanted_before() -> None:
    log: list[str] = []
    memory = Found(0.5, 0.45, p_none=0.0011)
    made = agent(memory, log)
    (first,) = await said(made, VAGUE)
    memory.be(0.2, 0.1, 0.995)
    (other,) = await said(made, "please stop the delivery", kept=first.conversation)
    assert other.flows == ["cancel_order"]
    memory.be(0.5, 0.4, 0.45)
    await said(made, "the blue one", kept=first.conversation)
    assert any(VAGUE in str(call) and "the blue one" in str(call) for call in memory.calls)


async def test_the_same_is_not_asked_twice_in_a_row() -> None:
    memory = Found(0.5, 0.45)
    made = agent(memory, [])
    results = await said(made, VAGUE, "well, hm, you know", "I told you already")
    assert [each.status for each in results] == ["waiting", "open", "waiting"]
    assert "asked before" in results[1].reason
    (first,) = await said(made, VAGUE)
    memory.be(0.4, 0.4, 0.45)
    (other,) = await said(made, "well, hm, you know", kept=first.conversation)
    assert sorted(names(other.question)) == sorted(NAMES), "about other flows it may ask"


async def test_a_model_of_the_agent_answers_where_it_is_not_asked_again() -> None:
    model = ScriptedModel("Let me put it differently.", "Then what is it?")
    made = agent(Found(0.5, 0.45), [], model=model)
    asks, again = await said(made, VAGUE, "well, hm, you know")
    assert (asks.text, again.text) == (TEXT, "Let me put it differently.")
    (none,) = await said(made, "none of these", kept=asks.conversation)
    assert (none.status, none.text) == ("done", "Then what is it?")


# --- with a model that chooses -------------------------------------------------


async def test_a_model_that_does_not_decide_leaves_it_to_the_user() -> None:
    log: list[str] = []
    llm = ScriptedModel('["1", "2"]')
    made = agent(Found(0.5, 0.45, 0.3), log, llm=llm)
    asks, named = await said(made, VAGUE, "2")
    assert (asks.status, named.flows, len(llm.calls)) == ("waiting", ["exchange_order"], 1)


async def test_a_model_hears_what_names_none_of_them() -> None:
    log: list[str] = []
    llm = ScriptedModel('["1", "2"]', '["cancel_order"]')
    asks, other = await said(agent(Found(0.5, 0.45, 0.3), log, llm=llm), VAGUE, "please stop the delivery")
    assert (asks.status, other.flows, log) == ("waiting", ["cancel_order"], ["do_cancel_order"])


# --- beside flows that are under way -------------------------------------------


async def waiting_for_an_address(memory: Found, log: list[str]) -> tuple[Agent, Conversation]:
    """An agent, and a conversation in which the refund waits for an address."""
    made = agent(memory, log, wants="email")
    memory.be(0.995)
    (first,) = await said(made, "refund it")
    assert first.text == "To go on, I need: email."
    return made, first.conversation


async def test_what_waits_is_answered_whatever_recall_finds() -> None:
    log: list[str] = []
    memory = Found()
    made, kept = await waiting_for_an_address(memory, log)
    memory.be(0.01, 0.45, 0.5)
    (result,) = await said(made, "ada@example.org", kept=kept)
    assert (result.status, log) == ("done", ["do_refund_order"])


async def test_beside_what_waits_another_wish_is_asked_about_and_both_can_be_answered() -> None:
    log: list[str] = []
    memory = Found()
    made, kept = await waiting_for_an_address(memory, log)
    memory.be(0.01, 0.45, 0.5)
    (both,) = await said(made, "and what about the other parcel", kept=kept)
    assert both.status == "waiting"
    assert both.text.startswith("Which of these do you mean?\n1. Cancel order")
    assert both.text.endswith("\n\nTo go on, I need: email.")
    (other,) = await said(made, "Cancel order", kept=both.conversation)
    assert (other.flows, other.resumed) == (["cancel_order"], "refund_order")
    assert other.text.endswith("Back to: Refund order. To go on, I need: email.")
    (first,) = await said(made, "ada@example.org", kept=both.conversation)
    assert (first.flows, first.question, log) == (["refund_order"], None, ["do_cancel_order", "do_refund_order"])
    (none,) = await said(made, "none of these", kept=both.conversation)
    assert (none.text, none.question) == ("To go on, I need: email.", None)
    (off,) = await said(made, "never mind", kept=both.conversation)
    assert (off.text, off.conversation.flows) == ("All right, nothing more will be done about: Refund order.", ())


async def test_beside_what_waits_a_number_is_asked_about_once_more_too() -> None:
    memory = Found()
    made, kept = await waiting_for_an_address(memory, [])
    memory.be(0.01, 0.45, 0.5)
    _, again = await said(made, "and what about the other parcel", "7", kept=kept)
    assert again.text.startswith("There is no number 7 here: please say 1 or 2.\nWhich of these do you mean?")
    assert again.text.endswith("\n\nTo go on, I need: email.")


@pytest.mark.parametrize(
    ("sure", "p_none"), [((0.5, 0.45), 0.012), ((0.01, 0.45, 0.5), 0.31), ((0.01, 0.45, 0.5), None)]
)
async def test_what_may_be_about_the_flow_under_way_is_that_flows(
    sure: tuple[float, ...], p_none: float | None
) -> None:
    memory = Found()
    made, kept = await waiting_for_an_address(memory, [])
    memory.be(*sure)
    memory.p_none = p_none
    (result,) = await said(made, "why do you want to know?", kept=kept)
    assert (result.text, result.question) == ("To go on, I need: email.", None)


async def test_a_call_that_waits_for_a_yes_is_asked_about_last_and_only_a_yes_to_it_makes_it() -> None:
    log: list[str] = []
    memory = Found(0.1, 0.1, 0.995, p_none=0.0011)
    selector = FlowSelector(None, shop(), memory, "support", policy=Policy(max_error=0.01, ask_user=True))
    tools: list[Tool] = [
        destroyer("do_cancel_order", log),
        Tool(name="do_refund_order", input_schema=obj(), function=lambda: log.append("refund")),
        Tool(name="do_exchange_order", input_schema=obj(), function=lambda: log.append("exchange")),
    ]
    made = Agent(selector, tools)
    _, confirms = await said(made, "stop the delivery", "yes")
    memory.be(0.5, 0.45, 0.01)
    (both,) = await said(made, "and what about the other parcel", kept=confirms.conversation)
    assert (both.status, names(both.question)) == ("confirming", ["refund_order", "exchange_order"])
    assert both.text.endswith("Shall I go on, yes or no?")
    (other,) = await said(made, "2", kept=both.conversation)
    assert (log, other.status, other.resumed) == (["exchange"], "confirming", "cancel_order")
    (yes,) = await said(made, "yes", kept=both.conversation)
    assert (yes.flows, log) == (["cancel_order"], ["exchange", "do_cancel_order"])


async def test_a_flow_that_a_model_goes_on_with_hears_what_is_about_it() -> None:
    memory = Found(0.995)
    registry = shop_of(("refund_order", ()), ("exchange_order", ()), ("cancel_order", ()))
    for flow in registry.values():
        vars(flow).update(steps=("Talk about it.",))
    selector = FlowSelector(None, registry, memory, "support", policy=Policy(max_error=0.01, ask_user=True))
    made = Agent(selector, [Tool(name="look")], ScriptedModel("How much was it?", "I see."))
    (first,) = await said(made, "refund it")
    memory.be(0.5, 0.45)
    (on,) = await said(made, "something with the price", kept=first.conversation)
    assert (on.text, on.question) == ("I see.", None)


# --- what is gone, closed or tampered with -------------------------------------


async def test_guards_are_asked_once_more_and_what_is_gone_is_not_begun() -> None:
    flows = FlowRegistry(min_examples=0)
    for name in NAMES[:2]:
        Guarded(name=name, registry=flows)
    selector = FlowSelector(None, flows, ListMemory(metadata(*NAMES[:2])), "support", policy=Policy(ask_user=True))
    made = Agent(selector)
    (asks,) = await said(made, VAGUE, context={"member": True})
    assert asks.status == "waiting"
    (closed,) = await said(made, "1", kept=asks.conversation, context={"member": False})
    assert (closed.status, closed.conversation.flows) == ("open", ())
    other = Agent(FlowSelector(None, shop_of(("other", ())), ListMemory(), "support"))
    (gone,) = await said(other, "1", kept=asks.conversation)
    assert (gone.status, gone.conversation.flows) == ("open", ())


OPTION = {"flow_id": flow_id("refund_order"), "flow_name": "refund_order", "title": "", "says": ""}
OPTIONS = [OPTION, OPTION]
LONG = OPTION | {"title": "y" * 9_000}


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        pytest.param({"options": [OPTION]}, "question.*2 to 3", id="one option"),
        pytest.param({"options": [OPTION] * 4}, "question.*2 to 3", id="four options"),
        pytest.param({"options": [OPTION, OPTION | {"flow_name": ""}]}, "question", id="no name"),
        pytest.param({"options": [OPTION, OPTION | {"flow_id": "x"}]}, "question", id="another flow's id"),
        pytest.param({"options": [OPTION, LONG]}, "question", id="too long"),
        pytest.param({"options": OPTIONS, "request": "z" * 9_000}, "question", id="too long a request"),
        pytest.param({"options": OPTIONS, "odd": 1}, "question", id="what it does not have"),
        pytest.param("which?", "question", id="no object"),
    ],
)
def test_what_is_no_question_is_refused(question: Any, problem: str) -> None:
    whole: dict[str, Any] = {"text": "Which?", "options": OPTIONS, "request": "", "again": False, "more": False}

    def read(asked: Any) -> Conversation:
        text = Conversation.model_construct(question=asked).model_dump_json(warnings=False)
        return Conversation.from_json(text)

    assert read(whole).question is not None
    with pytest.raises(SnapshotError, match=problem):
        read(question if isinstance(question, str) else whole | question)


async def test_one_that_was_signed_is_not_changed_unseen() -> None:
    (asks,) = await said(agent(Found(0.5, 0.45), []), VAGUE)
    text = asks.conversation.to_json(secret=KEY)
    with pytest.raises(SnapshotError):
        Conversation.from_json(text.replace("exchange_order", "cancel_order"), secret=KEY)


async def test_what_is_kept_of_a_question_is_bounded() -> None:
    (asks,) = await said(agent(Found(0.5, 0.45), []), "\ud800 order " + "x" * 100_000)
    assert asks.conversation.question is not None
    assert len(asks.conversation.question.request) < 3_000
    assert len(asks.conversation.to_json()) < 60_000


# --- a branch ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "ran"), [('["1"]', "do_first"), ("[]", "do_second"), ('["1", "2"]', "do_first")], ids=str
)
async def test_between_the_branches_of_a_flow_the_model_decides_and_nobody_is_asked(reply: str, ran: str) -> None:
    log: list[str] = []
    registry = shop_of(("first", ("do_first",)), ("other", ("do_first",)), ("second", ("do_second",)))
    ConditionalFlow(
        name="both",
        description="d",
        condition="c",
        branches=[("it is the first", "first"), ("it is another", "other")],
        otherwise="second",
        examples=[],
        registry=registry,
    )
    memory = ListMemory([*metadata("both", confidence=0.9), *metadata("first", "other", confidence=0.9)])
    selector = FlowSelector(ScriptedModel('["both"]', reply), registry, memory, "support", policy=Policy(ask_user=True))
    result = await Agent(selector, tools_for("do_first", "do_second", log=log)).turn("both")
    assert (result.flows, log) == (["both"], [ran])
