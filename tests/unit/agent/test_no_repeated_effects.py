"""What has run is not run again: not for a thank-you, not after a failure, not beside what waits."""

from typing import Any

import pytest

from jazz_select import ParallelFlow
from jazz_select.agent import Conversation
from jazz_select.errors import ModelError
from jazz_select.routing import CHOOSE, GuidedDecisionPoint, Tool
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.testing import ScriptedModel
from tests.unit.agent.turns import ADA, BEN, REFUND, Made, agent_of, destroyer, obj, shop_of


@pytest.mark.parametrize(("message", "status"), [("thanks", "done"), ("yes please", "open"), ("great!", "open")])
async def test_what_is_done_is_not_done_again_for_a_thank_you(made: Made, message: str, status: str) -> None:
    agent = made()
    first = await agent.turn(REFUND, context=ADA)
    second = await agent.turn(message, first.conversation)
    assert (second.status, second.flows) == (status, [])


async def test_a_chain_that_ended_open_is_not_run_again(made: Made) -> None:
    agent = made()
    first = await agent.turn("Process a refund for my last order", context={**BEN, "order_number": "60127"})
    assert (first.status, first.runs[0].known["credit_code"]) == ("open", "C-40001")
    assert first.text == "This is about: Refund of an order."
    second = await agent.turn("Process a refund for my last order", first.conversation)
    assert (second.flows, second.runs[0].records) == (["refund_order"], ())


async def test_what_has_run_is_not_run_again_whatever_waits_beside_it() -> None:
    registry = shop_of(("pay", ("charge", "nothing_here")), ("ask", ("note",)))
    found = registry.by_name("pay")
    assert found is not None
    vars(found).update(chain=("charge", CHOOSE), optional_tools=("nothing_here",))
    ParallelFlow(
        name="both", description="d", condition="c", flows=["pay", "ask"], examples=[], registry=registry, tools=["fee"]
    )
    both = registry.by_name("both")
    assert both is not None
    vars(both).update(chain=("fee",))
    ran: list[str] = []

    def tool(name: str, **wanted: str) -> Tool:
        def run(**given: Any) -> None:
            ran.append(name)

        return Tool(name=name, input_schema=obj(**wanted), function=run)

    agent = agent_of(registry, [tool("charge"), tool("fee"), tool("note", number="string")])
    result = await agent.turn("both")
    for message in ("hm", "well", "N-1"):
        result = await agent.turn(message, Conversation.from_json(result.conversation.to_json()))
    assert sorted(ran) == ["charge", "fee", "note"]


async def test_a_model_that_fails_after_a_charge_does_not_charge_again() -> None:
    registry = shop_of(("both", ("charge",)))
    found = registry.by_name("both")
    assert found is not None
    vars(found).update(tools=("charge",), chain=("charge", CHOOSE))
    ran: list[str] = []

    def charge() -> dict[str, str]:
        ran.append("charge")
        return {"receipt": "R-1"}

    model = ScriptedModel(ModelError("m", "gone", retryable=False), "All done.")
    agent = agent_of(registry, [charge], model=model)
    first = await agent.turn("both")
    assert (first.status, ran) == ("failed", ["charge"])
    second = await agent.turn("please try again", first.conversation)
    assert (second.status, second.text, ran) == ("active", "All done.", ["charge"])
    assert "R-1" in model.calls[-1][0].content
    assert "is not to be repeated" in model.calls[-1][0].content


async def test_what_failed_after_something_was_destroyed_goes_on_where_it_failed() -> None:
    registry = shop_of(("both", ("charge", "ship")))
    ran: list[str] = []
    shipping: list[Exception] = [ValueError("no van")]

    def charge() -> None:
        ran.append("charge")

    def ship() -> None:
        if shipping:
            raise shipping.pop()
        ran.append("ship")

    agent = agent_of(registry, [tool_from_function(charge, destructive=True), ship])
    first = await agent.turn("both")
    assert (first.status, ran, first.conversation.flows) == ("failed", ["charge"], ())
    second = await agent.turn("both", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, ran) == ("done", ["charge", "ship"])
    third = await agent.turn("both", second.conversation)
    assert ran == ["charge", "ship", "charge", "ship"], third.reason


async def test_what_failed_twice_is_still_not_paid_twice() -> None:
    log: list[str] = []

    def ship() -> None:
        raise ValueError

    agent = agent_of(shop_of(("both", ("charge", "ship"))), [destroyer("charge", log), ship])
    conversation = Conversation()
    for _ in range(4):
        conversation = (await agent.turn("both", conversation)).conversation
    assert log == ["charge"]


async def test_a_choice_is_not_made_again_while_what_was_chosen_waits() -> None:
    registry = shop_of(("both", ("charge", "mail", "ship")))
    found = registry.by_name("both")
    assert found is not None
    point = GuidedDecisionPoint(after_step="charge", candidate_tools=["mail", "ship"])
    vars(found).update(chain=("charge", point))
    log: list[str] = []
    asked: list[str] = []

    class Once:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str:
            asked.append(prompt)
            return "ship"

    def charge() -> dict[str, str]:
        log.append("charge")
        return {"receipt": "R-1"}

    tools = [
        charge,
        destroyer("mail", log, receipt="string"),
        destroyer("ship", log, receipt="string", address="string"),
    ]
    agent = agent_of(registry, tools, decision_callback=Once())
    first = await agent.turn("both")
    assert (first.status, first.runs[0].asks) == ("waiting", ("address",))
    second = await agent.turn("A-5", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log, len(asked)) == ("done", ["charge", "ship R-1 A-5"], 1)


async def test_a_tool_that_ran_and_gave_nonsense_has_run() -> None:
    log: list[str] = []

    def charge() -> object:
        log.append("charge")
        return print

    tool = Tool(name="charge", function=charge, destructive=True)
    agent = agent_of(shop_of(("both", ("charge",))), [tool])
    first = await agent.turn("both")
    assert (first.status, log) == ("failed", ["charge"])
    second = await agent.turn("both", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["charge"])


async def test_what_destroys_and_failed_is_only_done_again_where_that_is_agreed_to() -> None:
    log: list[str] = []

    def charge() -> None:
        log.append("charge")
        if len(log) == 1:
            raise TimeoutError

    agent = agent_of(shop_of(("both", ("charge",))), [tool_from_function(charge, destructive=True)])
    first = await agent.turn("both")
    second = await agent.turn("both", Conversation.from_json(first.conversation.to_json()))
    asked = "This failed before, may have been done all the same, and would be tried again: Charge."
    assert (second.status, log) == ("confirming", ["charge"])
    assert second.text == f"{asked} Shall I go on, yes or no?"
    third = await agent.turn("yes", second.conversation)
    assert (third.status, log) == ("done", ["charge", "charge"])


async def test_what_was_done_before_it_was_called_off_is_told_and_not_done_again() -> None:
    log: list[str] = []
    registry = shop_of(("both", ("charge", "ship")))
    found = registry.by_name("both")
    assert found is not None
    vars(found).update(chain=("charge", CHOOSE), optional_tools=("ship",))
    agent = agent_of(registry, [destroyer("charge", log)])
    first = await agent.turn("both")
    assert (first.status, log) == ("open", ["charge"])
    second = await agent.turn("never mind", first.conversation)
    assert second.text.endswith("Already done: Charge.")
    await agent.turn("both", Conversation.from_json(second.conversation.to_json()))
    assert log == ["charge"]


async def test_flows_in_which_something_was_destroyed_are_never_dropped() -> None:
    names = [f"flow_{number}" for number in range(12)]
    registry = shop_of(*((name, ("charge",)) for name in names))
    for name in names:
        found = registry.by_name(name)
        assert found is not None
        vars(found)["chain"] = ("charge", CHOOSE)
    log: list[str] = []
    conversation = Conversation()
    for name in [*names, *names]:
        agent = agent_of(registry, [destroyer("charge", log)], name)
        conversation = (await agent.turn(name.replace("_", " "), conversation)).conversation
    assert len(log) == 12
