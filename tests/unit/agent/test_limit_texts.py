"""A turn that a limit ends says so: what was done, what is left, and never nothing."""

import json
from typing import Any

import pytest

from jazz_select.texts import default_texts
from tests.unit.agent.talks import Mind, calls, chooses, shop_agent, talk

LOOKS = [calls("look_up", order_number=f"6011{number}") for number in range(9)]


@pytest.mark.spec("018.11")
async def test_eight_look_ups_one_at_a_time_in_a_flow_end_with_what_is_left() -> None:
    mind = Mind(choose=[chooses("track_it"), chooses("track_it")], call=[*LOOKS[:8], "All are shipped."])
    first, second = await talk(shop_agent(mind), "where are my nine orders?", "yes, go on")
    assert first.incomplete
    assert first.text == "This is not finished yet. Left to do: Track it. Shall I go on?"
    assert first.status == "active"
    assert (second.text, second.incomplete) == ("All are shipped.", False)


@pytest.mark.spec("018.11")
async def test_and_so_they_do_where_no_flow_fits() -> None:
    mind = Mind(choose=["[]"], call=LOOKS)
    (result,) = await talk(shop_agent(mind), "where are my nine orders?")
    assert result.incomplete
    assert result.text == 'This is not finished yet. Left to do: "where are my nine orders?". Shall I go on?'


@pytest.mark.spec("018.11")
async def test_what_was_done_and_said_until_then_is_told_with_it() -> None:
    tells = json.dumps({"tool_calls": [{"tool": "tell_why", "arguments": {"reason": "so"}}], "text": "I am at it."})
    mind = Mind(choose=["[]"], call=[tells, *LOOKS])
    (result,) = await talk(shop_agent(mind, open_tools="all"), "tell them, and look at all nine")
    said, done = result.text.split("\n\n")
    assert said == "I am at it."
    assert done.startswith("Done: Tell why. This is not finished yet. Left to do: ")


LANGUAGES: list[Any] = [pytest.param(language, id=language) for language in default_texts()]
WISHES = {
    "en": "please tell me where all of my orders are",
    "de": "bitte sagen Sie mir, wo alle meine Bestellungen sind",
    "fr": "dites-moi où sont toutes mes commandes, s'il vous plaît",
    "es": "dígame dónde están todos mis pedidos, por favor",
    "it": "mi dica dove sono tutti i miei ordini, per favore",
    "ru": "скажите, пожалуйста, где все мои заказы",
    "ja": "注文がどこにあるか全部教えてください",
}


@pytest.mark.spec("018.11")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_it_is_said_in_the_language_of_the_user(language: str) -> None:
    (result,) = await talk(shop_agent(Mind(choose=["[]"], call=LOOKS)), WISHES[language])
    said = default_texts()[language]["unfinished"].format(what=json.dumps(WISHES[language], ensure_ascii=False))
    assert result.text == said


@pytest.mark.spec("018.11")
async def test_a_question_that_waits_needs_no_further_one() -> None:
    cancels = calls("cancel_order", order_number="60112")
    mind = Mind(choose=[chooses("track_it")] * 2, call=[cancels, *LOOKS])
    asked, again = await talk(shop_agent(mind), "cancel 60112", "first look where all the others are")
    assert asked.status == again.status == "confirming"
    assert again.text.count("Shall I go on") == 1
