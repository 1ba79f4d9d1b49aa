"""Several calls of one reply of a model that need a yes: one question, one answer to all, and none that is dropped."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from jazz_select.agent import Agent, Approval, Conversation
from jazz_select.errors import ToolOutcomeUnknownError
from jazz_select.routing import Allow, Ask, Deny, SqliteClaims, Tool, ToolCall
from jazz_select.testing import ScriptedModel
from jazz_select.values import NativeCall, Reply
from tests.agents import make_agent
from tests.unit.agent.turns import obj, selector_of, shop_of

pytestmark = pytest.mark.spec("018.12")
SAM, KIM = {"to": "Sam", "amount": 50}, {"to": "Kim", "amount": 20}
BOTH = "1. Transfer (to: Sam, amount: 50); 2. Transfer (to: Kim, amount: 20)"
QUESTION = f"This would be done next: {BOTH}. Shall I do all of this, yes or no?"


class Bank:
    """Money that goes to people, and receipts that are mailed."""

    def __init__(self, *, fails_for: str = "", hangs_up_for: str = "", gives: str = "receipt") -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.gives = gives
        self.fails_for = fails_for
        self.hangs_up_for = hangs_up_for

    def tools(self) -> list[Tool]:
        def transfer(**given: Any) -> dict[str, str]:
            if given["to"] == self.fails_for:
                msg = "the account is closed"
                raise OSError(msg)
            self.log.append(("transfer", given))
            if given["to"] == self.hangs_up_for:
                raise ToolOutcomeUnknownError("transfer", "the bank did not answer")
            return {self.gives: f"R-{given['to']}"}

        def mail_receipt(**given: Any) -> dict[str, bool]:
            self.log.append(("mail_receipt", given))
            return {"mailed": True}

        def balance() -> dict[str, int]:
            self.log.append(("balance", {}))
            return {"cents": 7_000}

        return [
            Tool(name="transfer", input_schema=obj(to="string", amount="integer"), function=transfer, destructive=True),
            Tool(
                name="mail_receipt",
                input_schema=obj(receipt="string", by="string"),
                function=mail_receipt,
                destructive=True,
            ),
            Tool(name="balance", function=balance, read_only=True),
        ]

    @property
    def transfers(self) -> list[dict[str, Any]]:
        return [given for name, given in self.log if name == "transfer"]


def calls(*given: tuple[str, dict[str, Any]], text: str = "") -> str:
    told: dict[str, Any] = {"text": text} if text else {}
    return json.dumps({**told, "tool_calls": [{"tool": tool, "arguments": each} for tool, each in given]})


def transfers(*given: dict[str, Any], text: str = "") -> str:
    return calls(*(("transfer", each) for each in given), text=text)


def agent_of(bank: Bank, model: Any, *, flow: bool = True, **options: Any) -> Agent:
    registry = shop_of(("pay_people", ()))
    pays = registry.by_name("pay_people")
    assert pays is not None
    vars(pays).update(tools=("transfer", "mail_receipt", "balance"))
    return make_agent(selector_of(registry, "pay_people"), bank.tools(), model, open_tools="all", **options)


async def talk(agent: Agent, *messages: str, after: Conversation | None = None) -> list[Any]:
    """The results of these turns; between any two the conversation is a text, as if in another process."""
    results: list[Any] = []
    kept = after or Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


def native(*given: dict[str, Any]) -> Reply:
    made = tuple(NativeCall(name="transfer", arguments=each, id=f"c{n}") for n, each in enumerate(given))
    return Reply(text="", tool_calls=made)


FORMS: dict[str, Any] = {
    "in a flow": (("pay_people",), (), False),
    "without a flow": (("something quite else",), ("[]",), False),
    "in a flow, natively": (("pay_people",), (), True),
}


@pytest.mark.parametrize("form", FORMS)
async def test_one_yes_is_for_all_calls_of_a_reply(form: str) -> None:
    (first, before, is_native), bank = FORMS[form], Bank()
    replies = [*before, native(SAM, KIM) if is_native else transfers(SAM, KIM), "Both are paid."]
    model = ScriptedModel(*replies, takes_tools=is_native)
    asked, done = await talk(agent_of(bank, model), *first, "yes, please")
    assert (asked.status, asked.text) == ("confirming", QUESTION)
    assert (done.text, bank.transfers) == ("Both are paid.", [SAM, KIM])
    assert done.conversation.pending is None
    told = "\n".join(each.content for each in model.calls[-1])
    assert ("R-Sam" in told, "R-Kim" in told) == (True, True)


@pytest.mark.parametrize("form", ["in a flow", "without a flow"])
async def test_a_no_makes_none_of_them(form: str) -> None:
    (first, before, _), bank = FORMS[form], Bank()
    model = ScriptedModel(*before, transfers(SAM, KIM), "[]", "What else?")
    _, off, after = await talk(agent_of(bank, model), *first, "no, thanks", "yes")
    assert (bank.log, off.conversation.pending, after.conversation.pending) == ([], None, None)
    told = f"All right, this will not be done: {BOTH.replace('1. ', '').replace('2. ', '')}."
    assert off.text == ("All right, nothing more will be done about: Pay people." if form == "in a flow" else told)


PARTIAL = (
    "yes, only the first",
    "yes, the first one",
    "yes, to Sam",
    "yes, Sam",
    "yes, transfer 50 to Sam",
    "yes, just one of them",
    "yes, 20",
    "yes to 1",
    "yes, but not to Kim",
    "yes, for her",
    "yes, that one",
    "Ja, an ihn",
)


@pytest.mark.parametrize("message", PARTIAL)
async def test_a_yes_to_some_of_them_is_none(message: str) -> None:
    bank = Bank()
    model = ScriptedModel(transfers(SAM, KIM), '{"flows": [], "off": [], "values": {}}', "Which of them?")
    (asked,) = await talk(agent_of(bank, model), "pay_people")
    (again,) = await talk(agent_of(bank, model), message, after=asked.conversation)
    assert (again.status, bank.transfers) == ("confirming", [])
    assert len(again.conversation.pending.calls) == 2


@pytest.mark.parametrize(
    "message",
    [
        "yes",
        "Ja, bitte.",
        "ok, Sam and Kim",
        "yes, transfer Sam 50, Kim 20",
        "yes, transfer it",
        "both of them, please",
    ],
)
async def test_a_yes_that_leaves_none_of_them_out_is_for_all(message: str) -> None:
    bank = Bank()
    await talk(agent_of(bank, ScriptedModel(transfers(SAM, KIM), "Both are paid.")), "pay_people", message)
    assert bank.transfers == [SAM, KIM]


async def test_the_model_that_reads_the_message_cannot_make_a_yes_to_one_a_yes_to_all() -> None:
    bank = Bank()
    says = "yes, transfer 50 to Sam"
    read = json.dumps({"flows": [], "off": [], "values": {}, "confirm": {"is": "yes", "quote": says}})
    model = ScriptedModel(transfers(SAM, KIM), read, "Which of them?")
    _, again = await talk(agent_of(bank, model), "pay_people", says)
    assert (again.status, bank.transfers) == ("confirming", [])


async def test_what_fails_is_told_and_the_others_are_made() -> None:
    bank = Bank(fails_for="Sam")
    model = ScriptedModel(transfers(SAM, KIM), "Kim is paid, Sam could not be.")
    _, done = await talk(agent_of(bank, model), "pay_people", "yes")
    assert bank.transfers == [KIM]
    told = model.calls[-1][-1].content
    assert ("the account is closed" in told, "R-Kim" in told) == (True, True)
    assert [each.failed for each in done.conversation.calls] == [True, False]


async def test_the_same_call_twice_in_a_reply_is_asked_about_and_made_once() -> None:
    bank = Bank()
    model = ScriptedModel(transfers(SAM, SAM), "Paid.")
    asked, _ = await talk(agent_of(bank, model), "pay_people", "yes")
    assert asked.text == "This would be done next: Transfer (to: Sam, amount: 50). Shall I go on, yes or no?"
    assert bank.transfers == [SAM]


async def test_a_call_that_only_reads_runs_at_once_beside_them() -> None:
    bank = Bank()
    model = ScriptedModel(calls(("transfer", SAM), ("balance", {}), ("transfer", KIM)), "Done.")
    asked, _ = await talk(agent_of(bank, model), "pay_people", "yes")
    assert asked.text == QUESTION
    assert [name for name, _ in bank.log] == ["balance", "transfer", "transfer"]


async def test_what_was_done_before_is_said_of_that_call_alone() -> None:
    bank = Bank()
    model = ScriptedModel(transfers(SAM), "Paid. What else?", transfers(SAM, KIM), "Paid again.")
    *_, again, _ = await talk(agent_of(bank, model), "pay_people", "yes", "and both of them now", "yes")
    assert again.text == (
        "This has already been done and would be done again: 1. Transfer (to: Sam, amount: 50)."
        " This would be done next: 2. Transfer (to: Kim, amount: 20). Shall I do all of this, yes or no?"
    )
    assert bank.transfers == [SAM, SAM, KIM]


async def test_with_other_arguments_in_the_yes_turn_only_the_changed_one_is_asked_about_again() -> None:
    bank = Bank()
    model = ScriptedModel(transfers(SAM, KIM), "Done.")
    (asked,) = await talk(agent_of(bank, model), "pay_people")
    pending = asked.conversation.pending
    changed = pending.more[0].model_copy(update={"arguments": {**KIM, "amount": 2_000}})
    kept = asked.conversation.model_copy(update={"pending": pending.model_copy(update={"more": (changed,)})})
    (again,) = await talk(agent_of(bank, model), "yes", after=kept)
    assert (again.status, bank.transfers) == ("confirming", [SAM])
    assert again.text == (
        "Done: Transfer.\n\nThis would be done next: Transfer (to: Kim, amount: 2000). Shall I go on, yes or no?"
    )


async def test_more_than_can_be_shown_is_refused_and_told() -> None:
    bank, long = Bank(), "S" * 1_900
    many = [{"to": f"{long}{number}", "amount": number} for number in range(4)]
    model = ScriptedModel(transfers(*many), "Three are paid, one is not.")
    asked, _ = await talk(agent_of(bank, model), "pay_people", "yes")
    assert (asked.status, asked.text.count(long[:100] * 19)) == ("confirming", asked.text.count("Transfer ("))
    assert len(bank.transfers) == len(asked.conversation.pending.calls) == 3
    assert "Not done: Transfer" in asked.text


# --- calls that use what another one of the reply returns -----------------------------------------

MAILED = {"receipt": "R-Sam", "by": "post"}


def mailing(receipt: Any) -> str:
    steps = [
        {"id": "pay", "tool": "transfer", "arguments": SAM},
        {"id": "mail", "tool": "mail_receipt", "arguments": {"receipt": receipt, "by": "post"}},
    ]
    return json.dumps({"tool_calls": steps})


@pytest.mark.spec("018.5")
async def test_a_call_that_uses_what_another_returns_is_announced_and_needs_no_second_yes() -> None:
    bank = Bank()
    model = ScriptedModel(mailing({"$ref": "pay#/receipt"}), "Paid, and the receipt is in the mail.")
    asked, done = await talk(agent_of(bank, model), "pay_people", "yes")
    assert asked.text == (
        "This would be done next: 1. Transfer (to: Sam, amount: 50); 2. Mail receipt (by: post), from the result of:"
        " Transfer. Shall I do all of this, yes or no?"
    )
    assert (done.conversation.pending, bank.log) == (None, [("transfer", SAM), ("mail_receipt", MAILED)])


@pytest.mark.spec("018.5")
async def test_an_announced_call_is_not_made_where_the_other_one_failed() -> None:
    bank = Bank(fails_for="Sam")
    model = ScriptedModel(mailing({"$ref": "pay#/receipt"}), "Neither could be done.")
    _, ended = await talk(agent_of(bank, model), "pay_people", "yes")
    assert (bank.log, ended.conversation.pending) == ([], None)
    assert "it uses the output of s1, which failed" in model.calls[-1][-1].content


@pytest.mark.spec("018.5")
@pytest.mark.parametrize("made_up", [{"receipt": "R-9", "by": "post"}, {"receipt": "R-Sam", "by": "pigeon"}])
async def test_a_model_cannot_make_an_announced_call_with_what_was_neither_shown_nor_returned(
    made_up: dict[str, str],
) -> None:
    bank = Bank(gives="number")  # and no receipt, so that the announced call cannot be made
    model = ScriptedModel(mailing({"$ref": "pay#/receipt"}), calls(("mail_receipt", made_up)))
    _, again = await talk(agent_of(bank, model), "pay_people", "yes")
    assert (again.status, bank.log) == ("confirming", [("transfer", SAM)])
    assert f"Mail receipt (receipt: {made_up['receipt']}, by: {made_up['by']})" in again.text


@pytest.mark.spec("018.5")
async def test_a_model_that_gives_an_announced_call_other_words_is_asked_about() -> None:
    bank = Bank(gives="number")
    whole = mailing({"$ref": "pay#"})
    model = ScriptedModel(whole, calls(("mail_receipt", {"receipt": "R-Sam", "by": "pigeon"})))
    _, again = await talk(agent_of(bank, model), "pay_people", "yes")
    assert (again.status, bank.log) == ("confirming", [("transfer", SAM)])


@pytest.mark.spec("018.5")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"digest": "0"}, id="another tool"),
        pytest.param({"path": "0/other"}, id="another place"),
        pytest.param({"uses": ("nobody's",)}, id="of a call that nobody made"),
    ],
)
async def test_an_announcement_that_was_changed_covers_nothing(changes: dict[str, Any]) -> None:
    bank = Bank()
    model = ScriptedModel(mailing({"$ref": "pay#/receipt"}), "Done.")
    (asked,) = await talk(agent_of(bank, model), "pay_people")
    pending = asked.conversation.pending
    more = tuple(each.model_copy(update=changes) for each in pending.more)
    kept = asked.conversation.model_copy(update={"pending": pending.model_copy(update={"more": more})})
    (again,) = await talk(agent_of(bank, model), "yes", after=kept)
    assert (again.status, bank.log) == ("confirming", [("transfer", SAM)])


# --- between two processes ------------------------------------------------------------------------


async def test_a_yes_in_two_processes_makes_each_call_once(tmp_path: Any) -> None:
    bank = Bank()

    def process() -> Agent:
        claims = SqliteClaims(tmp_path / "claims")
        return agent_of(
            bank, ScriptedModel(transfers(SAM, KIM), "Paid.", repeat=True), approval=Approval(claims=claims)
        )

    (asked,) = await talk(process(), "pay_people")
    for _ in range(2):
        agent = agent_of(bank, ScriptedModel("Paid."), approval=Approval(claims=SqliteClaims(tmp_path / "claims")))
        await agent.turn("yes", asked.conversation)
    assert bank.transfers == [SAM, KIM]


async def test_a_no_withdraws_each_of_them_from_a_yes_elsewhere(tmp_path: Any) -> None:
    bank = Bank()

    def process(*replies: str) -> Agent:
        return agent_of(bank, ScriptedModel(*replies), approval=Approval(claims=SqliteClaims(tmp_path / "claims")))

    (asked,) = await talk(process(transfers(SAM, KIM)), "pay_people")
    await process().turn("no", asked.conversation)
    late = await process("It was called off.").turn("yes", asked.conversation)
    assert (bank.log, late.conversation.pending) == ([], None)


async def test_a_no_that_comes_too_late_says_which_are_made(tmp_path: Any) -> None:
    bank = Bank()

    def process(*replies: str) -> Agent:
        return agent_of(bank, ScriptedModel(*replies), approval=Approval(claims=SqliteClaims(tmp_path / "claims")))

    (asked,) = await talk(process("[]", transfers(SAM, KIM)), "something quite else")
    await process("Paid.").turn("yes", asked.conversation)
    off = await process().turn("no", asked.conversation)
    assert off.text.count("It is too late for that: Transfer has already been done.") == 2
    assert bank.transfers == [SAM, KIM]


# --- what is told of calls that are not made ------------------------------------------------------


def denies_kim(call: ToolCall) -> Allow | Ask | Deny:
    if call.arguments.get("to") == "Kim":
        return Deny("Kim is on a list")
    return Ask() if call.destructive else Allow()


def allows_all_but_kim(call: ToolCall) -> Allow | Deny:
    return Deny("Kim is on a list") if call.arguments.get("to") == "Kim" else Allow()


async def test_what_is_denied_beside_what_is_asked_about_is_told() -> None:
    bank = Bank()
    model = ScriptedModel(transfers(SAM, KIM), "Sam is paid.")
    asked, _ = await talk(agent_of(bank, model, approve=denies_kim), "pay_people", "yes")
    assert asked.text.startswith("Not done: Transfer (to: Kim, amount: 20).")
    assert "This would be done next: Transfer (to: Sam, amount: 50)." in asked.text
    assert bank.transfers == [SAM]


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        pytest.param(
            (transfers(KIM), "It is done: Kim has the money."),
            "Not done: Transfer (to: Kim, amount: 20).",
            id="a lie",
        ),
        pytest.param(
            (transfers(KIM), "Erledigt, Kim hat das Geld."),
            "Not done: Transfer (to: Kim, amount: 20).",
            id="a lie in German",
        ),
        pytest.param(
            (transfers(KIM), "Kim has the money. Shall I pay anybody else?"),
            "Not done: Transfer (to: Kim, amount: 20).\n\nShall I pay anybody else?",
            id="a lie and a question",
        ),
        pytest.param(
            (transfers(SAM, KIM), "Both have their money."),
            "Done: Transfer (to: Sam, amount: 50). Not done: Transfer (to: Kim, amount: 20).",
            id="half a lie",
        ),
        pytest.param(
            (transfers(KIM), "I cannot pay Kim: please ask the bank."),
            "Not done: Transfer (to: Kim, amount: 20).\n\nI cannot pay Kim: please ask the bank.",
            id="the truth",
        ),
        pytest.param(
            (transfers(KIM), transfers(SAM), "Sam has the money."),
            "Done: Transfer (to: Sam, amount: 50). Not done: Transfer (to: Kim, amount: 20).",
            id="another one instead",
        ),
        pytest.param(
            (calls(("transfer", {"to": "Sam"})), transfers(SAM), "Sam has the money."),
            "Sam has the money.",
            id="a mistake that was mended",
        ),
        pytest.param((transfers(SAM), "Sam has the money."), "Sam has the money.", id="nothing was denied"),
    ],
)
@pytest.mark.parametrize("form", ["in a flow", "without a flow"])
async def test_no_text_says_done_of_what_was_denied(form: str, replies: Sequence[str], text: str) -> None:
    (first, before, _), bank = FORMS[form], Bank()
    (result,) = await talk(agent_of(bank, ScriptedModel(*before, *replies), approve=allows_all_but_kim), *first)
    assert result.text == text


UNKNOWN = "Transfer was started, and its outcome is unknown: it may have been done."


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        pytest.param((transfers(KIM), "Kim has the money."), UNKNOWN, id="a lie"),
        pytest.param(
            (transfers(KIM), "It is not known whether Kim has it."),
            "It is not known whether Kim has it.",
            id="the truth",
        ),
        pytest.param(
            (transfers(SAM), transfers(KIM), "Both have their money."),
            f"Done: Transfer (to: Sam, amount: 50). {UNKNOWN}",
            id="half a lie",
        ),
        pytest.param((transfers(KIM), transfers(KIM), "Kim has the money."), UNKNOWN, id="a repetition"),
        pytest.param(
            (transfers(KIM),) * 3,
            f"{UNKNOWN}\n\nThis is not finished yet. Left to do: Pay people. Shall I go on?",
            id="repetitions up to the limit",
        ),
    ],
)
async def test_no_text_says_done_or_not_done_of_what_nobody_knows(replies: Sequence[str], text: str) -> None:
    bank = Bank(hangs_up_for="Kim")
    agent = agent_of(bank, ScriptedModel(*replies), approval="never", chain_limit=3)
    (result,) = await talk(agent, "pay_people")
    assert result.text == text
    assert bank.transfers.count(KIM) == 1


async def test_what_a_limit_leaves_undone_is_told() -> None:
    bank = Bank()
    model = ScriptedModel(calls(("balance", {})), transfers(SAM, text="Sam is paid."))
    (result,) = await talk(agent_of(bank, model, approval="never", chain_limit=2), "pay_people")
    undone, left = result.text.split("\n\n")
    assert (undone, bank.transfers) == ("Not done: Transfer (to: Sam, amount: 50).", [])
    assert left == "This is not finished yet. Left to do: Pay people. Shall I go on?"


async def test_a_text_that_is_withdrawn_was_not_streamed_as_it_stands() -> None:
    bank, heard = Bank(), list[str]()

    def listen(event: Any) -> None:
        heard.append(type(event).__name__)

    agent = agent_of(bank, ScriptedModel(transfers(KIM), "Kim has the money."), approve=allows_all_but_kim)
    result = await agent.turn("pay_people", on_event=listen)
    assert result.text == "Not done: Transfer (to: Kim, amount: 20)."
    assert heard[-2:] == ["FormatRestarted", "Finished"]
