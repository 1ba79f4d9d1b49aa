"""Several objects of one flow: none is dropped, taken for another, or dealt with twice."""

from asyncio import gather
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.conversation import MOST_FLOWS
from jazz_select.errors import CannotDo
from jazz_select.routing import Allow, Ask, SqliteClaims, Tool, ToolCall
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.text import json_line
from tests.agents import make_agent
from tests.unit.agent.test_wishes import KIM, SAM, Bank, calls, reads
from tests.unit.agent.turns import obj
from tests.unit.selector.shop import metadata

NO_FAILURES: Final[Mapping[str, Exception]] = MappingProxyType({})
LEE = {"to": "Lee", "amount": 30}
BOTH = reads("send_money", values={"send_money": [SAM, KIM]})
WISHED = "50 to Sam and 20 to Kim"


class Desk(Bank):
    """A bank whose chains and approval a test chooses; its tools fail as `fails` says, and log their ids."""

    def __init__(
        self, approve: Any = None, fails: Mapping[str, Exception] = NO_FAILURES, claims: Any = None, **chains: list[str]
    ) -> None:
        super().__init__()
        self.ids: dict[str, list[str]] = {}
        self.fails, self.chains = fails, chains
        self.options = {name: each for name, each in (("approve", approve), ("claims", claims)) if each is not None}

    def agent(self, *readings: Any) -> Agent:
        registry = FlowRegistry(min_examples=0)
        inputs = {
            "pay": {"to": "string", "amount": "integer"},
            "note": {"to": "string"},
            "cancel": {"order": "string"},
            "look": {"order": "string"},
        }
        effects = {"pay": {"destructive": True}, "cancel": {"destructive": True}, "look": {"read_only": True}}
        tools = [self.tool(name, inputs[name], **effects.get(name, {})) for name in inputs]
        chains = {"send_money": ["pay"], "cancel_order": ["cancel"], **self.chains}
        for name, chain in chains.items():
            Flow(
                name=name,
                description=f"What {name} does.",
                condition=f"The user wants {name}.",
                examples=[],
                tools=chain,
                chain=chain,
                registry=registry,
            )
        model = ScriptedModel(*map(json_line, readings))
        selector = FlowSelector(model, registry, ListMemory(metadata(*chains)), "support", top_k=len(chains))
        return make_agent(selector, tools, **self.options)

    def tool(self, name: str, inputs: dict[str, str], choices: Any = (), **options: Any) -> Tool:
        def call(call_id: str, **given: Any) -> dict[str, Any]:
            done = " ".join([name, *map(str, given.values())])
            self.ids.setdefault(done, []).append(call_id)
            if done in self.fails:
                raise self.fails[done]
            self.log.append(done)
            return {f"{name}_done": True}

        return Tool(name=name, input_schema=obj(**inputs), function=call, **options)


def small_sums_pass(call: ToolCall) -> Allow | Ask:
    return Allow() if call.arguments["amount"] < 40 else Ask("it is much")


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_what_a_hook_lets_pass_beside_a_question_is_done_once_and_told(answer: str) -> None:
    desk = Desk(approve=small_sums_pass)
    first, second = await desk.talk([BOTH], WISHED, answer)
    assert (first.status, desk.log[0]) == ("confirming", "pay Kim 20")
    assert first.text.startswith("Send money is done.")
    assert "To come" not in first.text
    assert desk.log[1:] == (["pay Sam 50"] if answer == "yes" else [])
    assert second.conversation.flows == ()


async def test_what_was_done_for_another_object_beside_a_question_is_not_done_again() -> None:
    desk = Desk(tell=["note", "pay"])
    wishes = reads("tell", values={"tell": [SAM, {"to": "Kim"}]})
    *_, last = await desk.talk([wishes], "50 to Sam and some to Kim", "yes", "20", "yes")
    assert (last.status, desk.log) == ("done", ["note Kim", "note Sam", "pay Sam 50", "pay Kim 20"])


async def test_what_cannot_be_done_for_another_object_is_told_before_the_question() -> None:
    desk = Desk(fails={"look 60143": CannotDo("60143 is unknown.")}, drop=["look", "cancel"])
    wishes = reads("drop", values={"drop": [{"order": "60142"}, {"order": "60143"}]})
    first, second = await desk.talk([wishes], "drop 60142 and 60143", "yes")
    assert first.text.startswith("60143 is unknown.")
    assert first.text.endswith("yes or no?")
    assert (second.status, desk.log) == ("done", ["look 60142", "cancel 60142"])
    assert len(desk.ids["look 60143"]) == 1


IN_BETWEEN = reads("cancel_order", values={"cancel_order": [{"order": "60142"}, {"order": "7"}, {"order": "60143"}]})


@pytest.mark.parametrize(("answer", "made"), [("yes", ["cancel 60142", "cancel 60143"]), ("no", [])])
async def test_an_answer_is_for_all_that_the_question_lists_and_for_nothing_else(answer: str, made: list[str]) -> None:
    desk = Desk()
    first, second = await desk.talk([IN_BETWEEN], "cancel 60142, that one, and 60143", answer)
    assert "To come: Cancel order.\n" in first.text  # of which nobody knows the number yet
    assert desk.log == made
    assert [dict(each.answers) for each in second.conversation.flows] == [{}]


async def test_what_is_left_after_a_failure_is_asked_about_by_itself() -> None:
    desk = Desk(fails={"pay Sam 50": RuntimeError("down")})
    _, second, third = await desk.talk([BOTH], WISHED, "yes", "yes")
    assert second.status == "confirming"
    assert second.text.endswith("Pay (to: Kim, amount: 20). Shall I go on, yes or no?")
    assert (third.status, desk.log) == ("done", ["pay Kim 20"])


async def test_what_was_done_after_a_yes_is_not_asked_about_again() -> None:
    desk = Desk(tell=["pay", "look"])
    wishes = reads("tell", values={"tell": [{**SAM, "order": "60142"}, KIM]})
    aside = reads("cancel_order", values={"order": "60143"})
    *_, third, last = await desk.talk([wishes, aside], f"{WISHED}, see 60142", "yes", "first cancel 60143", "yes")
    assert third.text.endswith("Cancel (order: 60143). Shall I go on, yes or no?")
    assert last.text.endswith("Back to: Tell. To go on, I need: order.")
    assert desk.log == ["pay Sam 50", "look 60142", "pay Kim 20", "cancel 60143"]


async def test_each_call_is_made_under_the_id_that_the_question_had_for_it() -> None:
    desk = Desk(tell=["pay", "note", "pay"])
    first, second = await desk.talk([reads("tell", values={"tell": [SAM, KIM]})], WISHED, "yes")
    asked = first.conversation.pending
    assert asked is not None
    assert second.status == "done"
    assert [desk.ids["pay Sam 50"][0], desk.ids["pay Kim 20"][0]] == [each.id for each in asked.calls]
    made = [each for ids in desk.ids.values() for each in ids]
    assert len(made) == len(set(made)) == 6


async def test_what_was_refused_and_is_wished_for_again_is_a_call_of_its_own(tmp_path: Path) -> None:
    desk = Desk(claims=SqliteClaims(tmp_path / "claims.db"))
    again = reads("send_money", values={"send_money": [SAM, KIM]}, confirm={"is": "no", "quote": "no"})
    first, second, third = await desk.talk([BOTH, again], WISHED, "no, I meant 50 to Sam, and 20 to Kim", "yes")
    before, after = first.conversation.pending, second.conversation.pending
    assert before is not None
    assert after is not None
    assert {each.id for each in before.calls}.isdisjoint({each.id for each in after.calls})
    assert (third.status, sorted(desk.log)) == ("done", ["pay Kim 20", "pay Sam 50"])


ONE_MORE = [
    pytest.param("and also 30 to Lee", id="also"),
    pytest.param("30 to Lee too", id="too"),
    pytest.param("30 to Lee as well, please", id="as well"),
    pytest.param("auch 30 an Lee bitte", id="de"),
    pytest.param("et aussi 30 à Lee", id="fr"),
    pytest.param("y también 30 a Lee", id="es"),
    pytest.param("anche 30 a Lee", id="it"),
    pytest.param("и ещё 30 на Lee тоже", id="ru"),
    pytest.param("Leeにも30送ってください", id="ja"),
]


@pytest.mark.spec("018.2")
@pytest.mark.parametrize("message", ONE_MORE)
@pytest.mark.parametrize("flows", [("send_money",), ()], ids=["chosen", "by its values"])
async def test_one_more_object_that_is_said_to_be_one_corrects_none(message: str, flows: tuple[str, ...]) -> None:
    desk = Desk()
    more = reads(*flows, values=LEE)
    _, second, last = await desk.talk([reads("send_money", values=SAM), more], "50 to Sam", message, "yes")
    assert "instead of" not in second.text
    assert (last.status, desk.log) == ("done", ["pay Sam 50", "pay Lee 30"])


CORRECTIONS = [
    pytest.param("that's too much, 30 to Lee", {"to": "Lee", "amount": 30}, ["pay Lee 30"], id="too much"),
    pytest.param("I meant 30 to Lee, too bad", LEE, ["pay Lee 30"], id="meant"),
    pytest.param("also make it 20", {"amount": 20}, ["pay Sam 20"], id="a number alone"),
    pytest.param("30 an Lee", LEE, ["pay Lee 30"], id="nothing said"),
]


@pytest.mark.parametrize(("message", "values", "log"), CORRECTIONS)
async def test_a_correction_is_no_further_wish(message: str, values: Any, log: list[str]) -> None:
    desk = Desk()
    readings = [reads("send_money", values=SAM), reads("send_money", values=values)]
    *_, last = await desk.talk(readings, "50 to Sam", message, "yes")
    assert (last.status, desk.log) == ("done", log)


SAM_60, KIM_30 = {"to": "Sam", "amount": 60}, {"to": "Kim", "amount": 30}
REFUSALS = [
    pytest.param("no, only 50 to Sam", [SAM], ["pay Sam 50"], id="only one"),
    pytest.param("no, only 20 to Kim", [KIM], ["pay Kim 20"], id="only the other"),
    pytest.param("no, only 60 to Sam", [SAM_60], ["pay Sam 60"], id="only one, corrected"),
    pytest.param("no, only 30 to Kim", [KIM_30], ["pay Kim 30"], id="only the other, corrected"),
    pytest.param("no, 30 to Kim", [KIM_30], ["pay Kim 30", "pay Sam 50"], id="the other corrected"),
    pytest.param("no, 60 to Sam and 30 to Kim", [SAM_60, KIM_30], ["pay Kim 30", "pay Sam 60"], id="both corrected"),
    pytest.param("no, only 50 to Sam and 30 to Lee", [SAM, LEE], ["pay Lee 30", "pay Sam 50"], id="one, and another"),
]


@pytest.mark.spec("018.3")
@pytest.mark.parametrize(("message", "named", "log"), REFUSALS)
async def test_a_no_that_names_some_of_several_asks_about_these_again(
    message: str, named: list[Any], log: list[str]
) -> None:
    desk = Desk()
    again = reads("send_money", values={"send_money": named}, confirm={"is": "no", "quote": "no"})
    _, second, last = await desk.talk([BOTH, again], WISHED, message, "yes")
    assert (second.status, last.status, sorted(desk.log)) == ("confirming", "done", log)
    assert ("nothing more will be done about: Send money (Sam, 50)" in second.text) == ("pay Sam" not in " ".join(log))
    assert last.conversation.flows == ()


@pytest.mark.parametrize("confirm", [{}, {"confirm": {"is": "yes", "quote": "yes"}}], ids=["no answer", "a yes"])
async def test_only_one_of_several_is_asked_about_alone(confirm: Any) -> None:
    desk = Desk()
    only = reads("send_money", values={"send_money": [KIM]}, **confirm)
    _, second, last = await desk.talk([BOTH, only], WISHED, "yes, but only 20 to Kim", "yes")
    assert (second.status, last.status, desk.log) == ("confirming", "done", ["pay Kim 20"])
    assert "Sam" in second.text.partition("\n")[0]


async def test_a_no_to_some_of_several_keeps_none_that_another_process_has_begun(tmp_path: Path) -> None:
    claims = SqliteClaims(tmp_path / "claims.db")
    desk = Desk(claims=claims)
    asked = await desk.agent(BOTH).turn(WISHED)
    await desk.agent().turn("yes", asked.conversation)
    only = reads("send_money", values={"send_money": [SAM]}, confirm={"is": "no", "quote": "no"})
    late = await desk.agent(only).turn("no, only 50 to Sam", asked.conversation)
    assert late.text.count("Pay has already been done") == 2
    assert (late.conversation.flows, desk.log) == ((), ["pay Sam 50", "pay Kim 20"])


async def test_what_is_gone_on_with_is_named_where_several_wishes_for_its_flow_were_open() -> None:
    desk = Desk()
    two = reads("send_money", values={"send_money": [{"to": "Sam"}, {"to": "Kim"}]})
    off = reads(off=["send_money"], values={"send_money": {"to": "Sam"}})
    _, second = await desk.talk([two, off], "money to Sam and to Kim", "forget Sam's")
    assert second.text.endswith("Back to: Send money (Kim). Shall I go on with: Send money (Kim)?")


async def test_a_new_wish_pushes_out_none_where_there_is_no_room() -> None:
    desk = Desk()
    orders = [str(60_100 + number) for number in range(MOST_FLOWS)]
    readings = [reads("cancel_order", values={"order": orders}), reads("send_money", values=SAM)]
    first, second, last = await desk.talk(readings, f"cancel {' '.join(orders)}", "and 50 to Sam", "yes")
    assert second.text.startswith('This part is left open: "Send money (Sam, 50)"')
    assert second.text.endswith(first.text)
    assert (last.status, sorted(desk.log)) == ("done", [f"cancel {each}" for each in orders])


CORRECTED = [
    pytest.param("make Kim's 30", [KIM_30], ["pay Sam 50", "pay Kim 30"], id="the second"),
    pytest.param("60 to Sam and 30 to Kim", [SAM_60, KIM_30], ["pay Sam 60", "pay Kim 30"], id="both"),
    pytest.param("and also 30 to Kim", [KIM_30], ["pay Kim 20", "pay Kim 30", "pay Sam 50"], id="one more"),
]


@pytest.mark.spec("018.3")
@pytest.mark.parametrize(("message", "named", "log"), CORRECTED)
@pytest.mark.parametrize("flows", [("send_money",), ()], ids=["chosen", "by its values"])
@pytest.mark.parametrize("confirm", [{}, {"confirm": {"is": "yes", "quote": "yes"}}], ids=["", "a yes that is none"])
async def test_a_correction_of_one_of_several_changes_that_one(
    message: str, named: list[Any], log: list[str], flows: tuple[str, ...], confirm: Any
) -> None:
    desk = Desk()
    again = reads(*flows, values={"send_money": named}, **confirm)
    *_, last = await desk.talk([BOTH, again], WISHED, message, "yes")
    assert last.status == "done"
    assert (sorted(desk.log) if len(log) > 2 else desk.log) == log


async def test_a_yes_to_one_and_a_no_to_the_other_is_asked_about_alone() -> None:
    desk = Desk()
    off = reads(off=["send_money"], values={"send_money": {"to": "Kim"}}, confirm={"is": "yes", "quote": "yes to Sam"})
    _, second, last = await desk.talk([BOTH, off], WISHED, "yes to Sam, no to Kim", "yes")
    assert (second.status, last.status, desk.log) == ("confirming", "done", ["pay Sam 50"])


async def test_what_was_called_off_of_a_parked_question_is_not_asked_again() -> None:
    desk = Desk()
    kim = reads(off=["send_money"], values={"send_money": {"to": "Kim"}})
    messages = (WISHED, "first cancel 60142", "and forget Kim's", "yes", "yes")
    *_, fourth, last = await desk.talk([BOTH, ASIDE, kim], *messages)
    assert fourth.text.endswith("This would be done next: Pay (to: Sam, amount: 50). Shall I go on, yes or no?")
    assert (last.status, desk.log) == ("done", ["cancel 60142", "pay Sam 50"])


TWICE = [
    pytest.param("50 to Sam twice", [SAM, SAM], id="read so"),
    pytest.param("50 to Sam, two times please", [SAM], id="said so"),
    pytest.param("schick Sam zweimal 50", [SAM], id="de"),
    pytest.param("envoie deux fois 50 à Sam", [SAM], id="fr"),
    pytest.param("50 a Sam dos veces", [SAM], id="es"),
    pytest.param("manda 50 a Sam due volte", [SAM], id="it"),
    pytest.param("отправь Sam 50 два раза", [SAM], id="ru"),
    pytest.param("Samに50を二回送って", [SAM], id="ja"),
]


@pytest.mark.spec("018.2")
@pytest.mark.parametrize(("message", "named"), TWICE)
async def test_what_is_wanted_twice_is_done_once_and_said_to_be(message: str, named: list[Any]) -> None:
    desk = Desk()
    first, last = await desk.talk([reads("send_money", values={"send_money": named})], message, "yes")
    assert first.status == "confirming"
    assert len(first.text.split("\n\n")) == 2
    assert "Send money (Sam, 50)" in first.text.partition("\n\n")[0]
    assert (last.status, desk.log) == ("done", ["pay Sam 50"])


@pytest.mark.parametrize(
    "message", ["50 to Sam", "I have asked twice now: 50 to Sam!", "50 to Sam, as I said two times"]
)
async def test_what_is_wanted_once_says_nothing_of_that(message: str) -> None:
    desk = Desk()
    (first,) = await desk.talk([reads("send_money", values=SAM)], message)
    assert first.text.startswith("This would be done next: Pay (to: Sam, amount: 50)")


async def test_a_flow_that_waits_is_told_too_that_it_is_done_once() -> None:
    desk = Desk()
    readings = [reads("send_money", values={"to": "Sam"}), reads("send_money", values={"send_money": [SAM, SAM]})]
    _, second, last = await desk.talk(readings, "money to Sam", "50, and that to Sam twice", "yes")
    assert second.text.startswith("Only once at a time: Send money (Sam, 50).")
    assert desk.log == ["pay Sam 50"]
    assert last.status == "done"


OFF_ONE = [
    pytest.param("forget Kim's", {"to": "Kim"}, ["pay Sam 50"], id="the second"),
    pytest.param("forget the one for Sam", {"to": "Sam"}, ["pay Kim 20"], id="the first"),
    pytest.param("forget the 20", {"amount": 20}, ["pay Sam 50"], id="by its amount"),
]


@pytest.mark.spec("018.2")
@pytest.mark.parametrize(("message", "values", "log"), OFF_ONE)
@pytest.mark.parametrize("confirm", ["", "yes", "no"])
async def test_one_of_several_wishes_is_called_off(message: str, values: Any, log: list[str], confirm: str) -> None:
    desk = Desk()
    answer = {"confirm": {"is": confirm, "quote": message}} if confirm else {}
    off = reads(off=["send_money"], values={"send_money": values}, **answer)
    first, second, last = await desk.talk([BOTH, off], WISHED, message, "yes")
    assert (second.status, last.status, desk.log) == ("confirming", "done", log)
    assert "All right, nothing more will be done about: Send money" in second.text
    before, after = first.conversation.pending, second.conversation.pending
    assert before is not None
    assert after is not None
    assert {each.id for each in before.calls}.isdisjoint({each.id for each in after.calls})


async def test_which_wish_is_called_off_is_asked_where_nothing_tells() -> None:
    desk = Desk()
    off, kim = reads(off=["send_money"]), reads(off=["send_money"], values={"send_money": {"to": "Kim"}})
    _, second, third, last = await desk.talk([BOTH, off, kim], WISHED, "forget the transfer", "the one to Kim", "yes")
    assert "Which of these do you mean? Send money (Sam, 50); Send money (Kim, 20)" in second.text
    assert (second.status, third.status, last.status, desk.log) == ("confirming", "confirming", "done", ["pay Sam 50"])


@pytest.mark.parametrize("message", ["forget both", "forget all of them", "vergiss beide"])
async def test_all_wishes_for_a_flow_are_called_off_where_the_message_says_so(message: str) -> None:
    desk = Desk()
    *_, last = await desk.talk([BOTH, reads(off=["send_money"])], WISHED, message)
    assert (last.conversation.flows, last.conversation.pending, desk.log) == ((), None, [])


AGAIN = [
    pytest.param([SAM, KIM], id="both"),
    pytest.param([KIM, SAM], id="in another order"),
    pytest.param([KIM], id="the second"),
    pytest.param([SAM], id="the first"),
]


@pytest.mark.parametrize("named", AGAIN)
async def test_wishes_that_are_named_again_are_the_same_wishes(named: list[Any]) -> None:
    desk = Desk()
    again = reads("send_money", values={"send_money": named})
    *_, last = await desk.talk([BOTH, again], WISHED, "I said 50 to Sam, and 20 to Kim", "yes")
    assert (last.status, desk.log) == ("done", ["pay Sam 50", "pay Kim 20"])


@pytest.mark.parametrize("named", [SAM, KIM])
async def test_a_yes_to_one_of_both_with_its_values_changes_neither(named: Any) -> None:
    desk = Desk()
    one = reads("send_money", values=named, confirm={"is": "yes", "quote": "yes"})
    first, second = await desk.talk([BOTH, one], WISHED, f"yes, to {named['to']}")
    assert (second.status, second.text, desk.log) == ("confirming", first.text, [])


@pytest.mark.parametrize("named", [[SAM, KIM, LEE], [KIM, LEE], [LEE, SAM]])
async def test_one_more_object_takes_no_place(named: list[Any]) -> None:
    desk = Desk()
    more = reads("send_money", values={"send_money": named})
    *_, last = await desk.talk([BOTH, more], WISHED, "50 to Sam, 20 to Kim and 30 to Lee, I mean", "yes")
    assert (last.status, sorted(desk.log)) == ("done", ["pay Kim 20", "pay Lee 30", "pay Sam 50"])


async def test_a_correction_to_an_amount_of_another_object_is_one() -> None:
    desk = Desk()
    *_, last = await desk.talk([BOTH, reads("send_money", values={"amount": 20})], WISHED, "make it 20", "yes")
    assert (last.status, desk.log) == ("done", ["pay Sam 20", "pay Kim 20"])


async def test_a_yes_to_one_of_both_by_its_name_alone_changes_neither() -> None:
    desk = Desk()
    one = reads("send_money", values={"to": "Kim"}, confirm={"is": "yes", "quote": "yes"})
    first, second = await desk.talk([BOTH, one], WISHED, "yes, to Kim")
    assert (second.status, second.text, desk.log) == ("confirming", first.text, [])


ASIDE = reads("cancel_order", values={"order": "60142"})


async def test_another_object_takes_no_place_of_a_parked_one() -> None:
    desk = Desk()
    readings = [reads("send_money", values=SAM), ASIDE, reads("send_money", values=KIM)]
    messages = ("50 to Sam", "first cancel 60142", "and before that 20 to Kim", "yes", "yes", "yes")
    *_, last = await desk.talk(readings, *messages)
    assert (last.status, desk.log) == ("done", ["pay Kim 20", "cancel 60142", "pay Sam 50"])


async def test_another_object_takes_no_place_of_a_queued_one() -> None:
    desk = Desk()
    readings = [reads("cancel_order", "send_money", values={"send_money": SAM}), reads("send_money", values=KIM)]
    messages = ("cancel something, and 50 to Sam", "rather first 20 to Kim", "yes")
    *_, last = await desk.talk(readings, *messages)
    assert desk.log == ["pay Kim 20", "pay Sam 50"]
    assert [each.name for each in last.conversation.flows] == ["cancel_order"]


async def test_another_object_is_no_retry_of_one_that_failed() -> None:
    desk = Desk(fails={"pay Sam 50": RuntimeError("down")})
    readings = [reads("send_money", values=SAM), reads("send_money", values=KIM)]
    *_, third, last = await desk.talk(readings, "50 to Sam", "yes", "then 20 to Kim", "yes")
    assert "Sam" not in third.text
    assert (last.status, desk.log) == ("done", ["pay Kim 20"])
    assert [dict(each.answers) for each in last.conversation.failed] == [SAM]


async def test_what_is_said_for_a_parked_flow_is_not_asked_again() -> None:
    desk = Desk()
    readings = [reads("send_money", values={"amount": 50}), ASIDE, reads("send_money", values={"to": "Kim"})]
    *_, last = await desk.talk(readings, "send 50", "first cancel 60142", "no, go on with the money, to Kim", "yes")
    assert desk.log == ["pay Kim 50"]
    assert last.status == "confirming"


async def test_what_there_is_no_room_for_beside_the_same_flow_is_said_and_drops_nothing() -> None:
    desk = Desk()
    orders = [str(60_100 + number) for number in range(MOST_FLOWS + 3)]
    first, more = orders[:MOST_FLOWS], orders[2:]
    readings = [reads("cancel_order", values={"order": each}) for each in (first, more)]
    _, second, last = await desk.talk(readings, f"cancel {' '.join(first)}", f"and {' '.join(more)}", "yes")
    left = second.text.partition("\n")[0]
    assert left.startswith("This part is left open: ")
    assert all(each in left for each in orders[MOST_FLOWS:])
    assert (last.status, sorted(desk.log)) == ("done", [f"cancel {each}" for each in first])


THREE = reads("send_money", values={"send_money": [SAM, KIM, LEE]})
NO_YES_TO_ALL = [
    "both?",
    "all of them?",
    "yes, 2.",
    "yes two",
    "ok, one",
    "go ahead with one",
    "ja, zwei",
    "oui, une",
    "yes, to Sam",
    "yes, the second",
]


@pytest.mark.parametrize("answer", NO_YES_TO_ALL)
async def test_a_question_or_a_number_is_no_yes_to_several(answer: str) -> None:
    desk = Desk()
    *_, last = await desk.talk([BOTH, {}], WISHED, answer)
    assert (last.status, desk.log) == ("confirming", [])


@pytest.mark.parametrize("answer", ["both", "yes, both", "yes both", "beide", "les deux", "the two of them"])
async def test_a_yes_to_two_is_none_to_three(answer: str) -> None:
    desk = Desk()
    *_, last = await desk.talk([THREE, {}], f"{WISHED} and 30 to Lee", answer)
    assert (last.status, desk.log) == ("confirming", [])


@pytest.mark.parametrize("answer", ["all of them", "all three", "yes, all three", "yes", "alle drei", "tous les trois"])
async def test_a_yes_to_all_three_is_one(answer: str) -> None:
    desk = Desk()
    *_, last = await desk.talk([THREE], f"{WISHED} and 30 to Lee", answer)
    assert (last.status, desk.log) == ("done", ["pay Sam 50", "pay Kim 20", "pay Lee 30"])


async def test_a_yes_to_one_is_none_to_both_though_it_has_words_of_their_flow() -> None:
    desk = Desk(pay_money=["pay"])
    wishes = reads("pay_money", values={"pay_money": [{"to": "Money Ltd", "amount": 50}, KIM]})
    *_, last = await desk.talk([wishes, {}], "50 to Money Ltd and 20 to Kim", "yes, pay money")
    assert (last.status, desk.log) == ("confirming", [])


@pytest.mark.parametrize("named", [[{}, KIM], [KIM, {}]])
async def test_an_object_of_which_nothing_was_said_hides_no_other(named: list[Any]) -> None:
    desk = Desk()
    first, *_ = await desk.talk([reads("send_money", values={"send_money": named})], "money to somebody, 20 to Kim")
    assert sorted(dict(each.answers).get("to", "") for each in first.conversation.flows) == ["", "Kim"]


async def test_a_no_that_comes_too_late_for_both_says_so_of_both(tmp_path: Path) -> None:
    claims = SqliteClaims(tmp_path / "claims.db")
    desk = Desk(claims=claims)
    asked = await desk.agent(BOTH).turn(WISHED)
    await desk.agent().turn("yes", asked.conversation)
    late = await desk.agent().turn("no", asked.conversation)
    assert desk.log == ["pay Sam 50", "pay Kim 20"]
    assert late.text.count("Pay has already been done") == 2
    assert "nothing more will be done about" not in late.text
    assert late.conversation.flows == ()


async def test_a_yes_in_two_processes_makes_each_call_once(tmp_path: Path) -> None:
    claims = SqliteClaims(tmp_path / "claims.db")
    desk = Desk(claims=claims)
    asked = (await desk.agent(BOTH).turn(WISHED)).conversation.to_json()
    agents = [desk.agent() for _ in range(3)]
    await gather(*(each.turn("yes", Conversation.from_json(asked)) for each in agents))
    assert sorted(desk.log) == ["pay Kim 20", "pay Sam 50"]


ORDERS = reads("cancel_order", values={"order": ["60142", "60143"]})


@pytest.mark.parametrize(
    ("answer", "made"),
    [
        pytest.param("cancel 60142 and 60143", ["cancel 60142", "cancel 60143"], id="both again"),
        pytest.param("and 60143 as well", ["cancel 60142", "cancel 60143"], id="the second again"),
        pytest.param("no, 60143", ["cancel 60143"], id="only the second"),
        pytest.param("no, 60144", ["cancel 60144", "cancel 60143"], id="another one instead"),
    ],
)
async def test_an_object_that_is_named_by_its_number_is_dealt_with_once(answer: str, made: list[str]) -> None:
    desk = Desk()
    again = reads("cancel_order", values={"order": ["60142", "60143"] if answer.startswith("cancel") else ["60143"]})
    *_, last = await desk.talk([ORDERS, again], "cancel 60142 and 60143", answer, "yes")
    assert (last.status, desk.log) == ("done", made)


async def test_what_failed_beside_a_question_is_told() -> None:
    desk = Desk(fails={"look 60142": RuntimeError("down")}, tell=["note", "look"])
    wishes = reads("cancel_order", "tell", values={"order": "60142", "tell": {"to": "Kim"}})
    (first,) = await desk.talk([wishes], "cancel 60142 and tell Kim")
    assert first.text.startswith("Tell was started but could not be finished. Already done: Note.")
    assert first.text.endswith("yes or no?")


MAIL = ("mail", {"order": "60142"})


@pytest.mark.parametrize(
    ("wish", "told", "log"),
    [
        pytest.param("show my balance", "Show balance is done.", ["mail 60142", "balance"], id="said"),
        pytest.param("close it", 'This part is left open: "close it"', ["mail 60142"], id="not said"),
    ],
)
async def test_a_wish_that_is_handed_over_beside_a_question_is_not_dropped(
    wish: str, told: str, log: list[str]
) -> None:
    bank = Bank(by_model=["send_invoice"])
    mailed = calls("It is on its way.", MAIL, ("another_wish", {"wish": wish}), ("finish_procedure", {}))
    wishes = reads("cancel_order", "send_invoice", values={"order": "60142"})
    message = "cancel 60142, mail its invoice and show my balance"
    (first,) = await bank.talk([wishes, mailed, reads("show_balance")], message)
    assert (first.status, bank.log) == ("confirming", log)
    assert told in first.text
    assert "I need: ." not in first.text
    assert first.text.endswith("yes or no?")
