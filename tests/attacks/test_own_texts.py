"""Our own texts, in the manner of public suites: no prompt changes its shape, and who obeys one destroys nothing."""

import re

import pytest

from tests.attacks.doors import DOORS, assert_unharmed, what_it_would_do
from tests.attacks.places import LIBRARY, PLACES, PROMPTS, assert_unforged
from tests.attacks.texts import own


@pytest.mark.spec("005.8")
@pytest.mark.parametrize("place", PLACES)
def test_no_text_changes_the_shape_of_a_prompt(place: str) -> None:
    for attack in own():
        assert_unforged(place, attack.text)


@pytest.mark.spec("005.1")
@pytest.mark.parametrize("door", DOORS)
def test_a_model_that_obeys_a_text_destroys_nothing_unasked(door: str) -> None:
    for attack in own():
        assert_unharmed(door, attack)


@pytest.mark.parametrize("door", DOORS)
def test_where_everything_may_pass_it_would(door: str) -> None:
    assert what_it_would_do(door, own()[0])


def test_every_module_that_makes_a_message_has_a_place_that_tries_it() -> None:
    making = {
        path.relative_to(LIBRARY).as_posix()
        for path in LIBRARY.rglob("*.py")
        if re.search(r"\bMessage\(role=", path.read_text("utf-8"))
    }
    assert making == set(PROMPTS), "name the module in PROMPTS, with a place that puts text into what it makes"
    assert set(filter(None, PROMPTS.values())) <= set(PLACES)
