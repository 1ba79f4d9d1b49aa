"""The texts of AgentDojo, each at each place and each door. `make attacks` runs this, and fetches the package first."""

import pytest

from tests.attacks.doors import DOORS, assert_unharmed
from tests.attacks.places import PLACES, assert_unforged
from tests.attacks.texts import Attack, public

TEXTS = public()
FORMS = sorted({attack.name for attack in TEXTS})
pytestmark = pytest.mark.skipif(not TEXTS, reason="the package agentdojo is not at hand: nothing of it was tried")


def of(form: str) -> list[Attack]:
    """All texts of a form; one that does not tell of its goal is the same for each."""
    return [attack for attack in TEXTS if attack.name == form]


def test_its_texts_are_read_whole() -> None:
    goals = {attack.text for attack in of("direct")}
    assert {"important_instructions", "tool_knowledge", "injecagent", "ignore_previous", "dos"} < set(FORMS)
    assert (len(FORMS), len(goals)) == (16, 46)
    assert not [attack.text for attack in TEXTS if "{" in attack.text and "{goal}" in attack.text]


@pytest.mark.spec("005.8")
@pytest.mark.parametrize("form", FORMS or ["none"])
@pytest.mark.parametrize("place", PLACES)
def test_no_text_changes_the_shape_of_a_prompt(place: str, form: str) -> None:
    for attack in of(form):
        assert_unforged(place, attack.text)


@pytest.mark.spec("005.1")
@pytest.mark.parametrize("form", FORMS or ["none"])
@pytest.mark.parametrize("door", DOORS)
def test_a_model_that_obeys_a_text_destroys_nothing_unasked(door: str, form: str) -> None:
    for attack in of(form):
        assert_unharmed(door, attack)
