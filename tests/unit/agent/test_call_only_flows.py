"""Flows that run only when others call them: never found, offered or begun by themselves, and called off with these."""

from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector, Input, ProceduralMemory, sync_registry
from jazz_select.agent import Agent, Conversation, TurnResult
from jazz_select.errors import ConfigError
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.talks import chooses
from tests.unit.agent.turns import obj
from tests.unit.selector.shop import metadata
from tests.vectors import EMBEDDER, NEEDS_STATIC

pytestmark = pytest.mark.spec("019.7")
CODES = obj(code="string", pin="string")
SIGN_IN = ["sign me in", "log in please", "I want to log in", "let me in", "sign in"]
PAY = ["pay my bill", "I want to pay", "settle the invoice", "pay what I owe", "make a payment"]


class Desk:
    """Two flows that call a third, and what their tools were called with."""

    def __init__(self, *, only_called: bool = True, destroys: bool = False) -> None:
        self.log: list[str] = []
        self.registry = FlowRegistry(min_examples=0)
        Flow(
            name="log_in",
            title="Signing in",
            examples=SIGN_IN,
            inputs=[Input("code", "Which code?"), Input("pin", "Which PIN?")],
            tools=["check"],
            chain=["check"],
            only_called=only_called,
            registry=self.registry,
        )
        for name in ("pay", "ask"):
            Flow(
                name=name,
                examples=PAY if name == "pay" else ["what do I owe"],
                inputs=[Input("bill", "Which bill?")],
                calls=["log_in"],
                tools=[f"do_{name}"],
                chain=[f"do_{name}"],
                registry=self.registry,
            )
        self.tools = [
            Tool(name="check", input_schema=CODES, function=self.sign_in, destructive=destroys),
            Tool(name="do_pay", input_schema=obj(bill="string"), function=self.pay),
            Tool(name="do_ask", input_schema=obj(bill="string"), function=self.ask),
        ]

    def pay(self, bill: str) -> None:
        self.log.append(f"pay {bill}")

    def ask(self, bill: str) -> None:
        self.log.append(f"ask {bill}")

    def sign_in(self, code: str, pin: str) -> dict[str, str]:
        self.log.append(f"check {code} {pin}")
        return {"member": "ada"}

    def agent(self, *found: str, model: Any = None, **options: Any) -> Agent:
        memory = ListMemory(metadata(*found))
        selector = FlowSelector(None, self.registry, memory, "desk", policy=TAKE_FIRST)
        return make_agent(selector, self.tools, model, **{"approval": "never", **options})


async def talk(made: Agent, *messages: str) -> list[TurnResult]:
    kept: Conversation | None = None
    results: list[TurnResult] = []
    for message in messages:
        results.append(await made.turn(message, kept))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


@NEEDS_STATIC
async def test_it_is_not_indexed_and_not_known_by_its_examples() -> None:
    desk = Desk()
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        report = await sync_registry(memory, "desk", desk.registry)
        assert sorted(report.created) == ["ask", "pay"]
        selector = FlowSelector(None, desk.registry, memory, "desk")
        for request in (*SIGN_IN, "log_in", "Signing in"):
            found = await selector.select(request)
            assert "log_in" not in [*found.names, *(each.flow_name for each in found.decision.candidates)], request
            assert not [note for note in found.decision.notes if "log_in" in note], "nothing has to be done about it"


async def test_a_memory_that_has_it_all_the_same_does_not_offer_it() -> None:
    desk = Desk()
    selector = FlowSelector(None, desk.registry, ListMemory(metadata("log_in", "pay")), "desk", policy=TAKE_FIRST)
    assert (await selector.select("let me in")).names == ["pay"]
    given = await selector.select("let me in", metadata("log_in", "pay"))
    assert given.names == ["pay"]


async def test_to_select_it_alone_is_refused() -> None:
    desk = Desk()
    selector = FlowSelector(None, desk.registry, ListMemory(metadata("pay")), "desk")
    own = desk.registry.by_name("log_in")
    assert own is not None
    with pytest.raises(ConfigError, match=r"only=\['log_in'\] names flows that run only when another flow calls them"):
        await selector.select("let me in", only=[own.id])


async def test_no_model_is_offered_it() -> None:
    model = ScriptedModel('["pay"]', repeat=True)
    desk = Desk()
    selector = FlowSelector(model, desk.registry, ListMemory(metadata("log_in", "pay", "ask")), "desk")
    await selector.select("let me in")
    assert "log_in" not in str(model.calls)


async def test_it_runs_where_it_is_called_without_a_word_of_its_own() -> None:
    desk = Desk()
    results = await talk(desk.agent("pay"), "pay", "4711", "P-99", "B-7")
    assert [each.text for each in results] == ["Which code?", "Which PIN?", "Which bill?", "Pay is done."]
    assert desk.log == ["check 4711 P-99", "pay B-7"]


async def test_called_off_in_it_takes_the_caller_with_it() -> None:
    desk = Desk()
    *_, off = await talk(desk.agent("pay"), "pay", "4711", "cancel")
    assert (off.text, off.conversation.flows, desk.log) == ("All right, nothing more will be done about: Pay.", (), [])


OFF: list[Any] = [
    pytest.param(True, id="only called"),
    pytest.param(False, id="called, and to be found by itself"),
]


@pytest.mark.parametrize("only_called", OFF)
async def test_the_caller_called_off_takes_what_it_called_with_it(only_called: bool) -> None:
    desk = Desk(only_called=only_called)
    model = ScriptedModel(chooses("pay"), chooses(off=["pay"]))
    _, off = await talk(desk.agent("pay", "ask", model=model), "pay the bill now", "no bill today, thanks, forget that")
    assert off.text == "All right, nothing more will be done about: Pay."
    assert off.conversation.flows == ()


async def test_what_another_flow_still_needs_stays() -> None:
    desk = Desk()
    model = ScriptedModel(chooses("pay", "ask"), chooses(off=["pay"]), repeat=True)
    first, off = await talk(desk.agent("pay", "ask", model=model), "pay it and tell me what I owe", "do not pay it")
    assert [each.name for each in first.conversation.flows][-1] == "log_in"
    assert [each.name for each in off.conversation.flows] == ["ask", "log_in"]


async def test_what_was_wished_for_by_itself_stays_too() -> None:
    desk = Desk(only_called=False)
    model = ScriptedModel(chooses("log_in"), chooses("pay"), chooses(off=["pay"]), repeat=True)
    *_, off = await talk(desk.agent("log_in", "pay", model=model), "sign in", "pay it", "do not pay it")
    assert [each.name for each in off.conversation.flows] == ["log_in"]


async def test_the_call_that_waits_in_it_is_forgotten() -> None:
    desk = Desk(destroys=True)
    asked, off, later = await _called_off_at_a_yes(desk)
    assert (asked.status, off.conversation.pending, off.conversation.flows) == ("confirming", None, ())
    assert (later.conversation.pending, desk.log) == (None, [])


async def _called_off_at_a_yes(desk: Desk) -> list[TurnResult]:
    model = ScriptedModel(chooses("pay", values={"code": "4711", "pin": "P-99"}), chooses(off=["pay"]), repeat=True)
    made = desk.agent("pay", "ask", model=model, approval="destructive")
    return await talk(made, "pay it with code 4711 and PIN P-99", "forget about paying, it can be left", "yes")
