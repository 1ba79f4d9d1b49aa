"""What is made of public requests: slips, mails, follow-ups; and their tables."""

from random import Random

import pytest

from benchmarks.datasets.base import Dataset, Entry, Request
from benchmarks.followups import WRITTEN, Asked, kinds, mail, mistyped, own_kinds
from benchmarks.languages import WRITTEN as LANGUAGES
from benchmarks.report_people import followups_table, languages_table
from jazz_select.memory.requests import HOLLOW
from tests.tables import read_table

SAID = read_table(WRITTEN)


@pytest.mark.parametrize("errors", [0, 1, 2])
def test_a_mistyped_text_is_nearly_the_same(errors: int) -> None:
    text = "what is the balance of my account"
    made = mistyped(text, Random(3), errors)
    assert (made == text) is (errors == 0)
    assert abs(len(made) - len(text)) <= errors
    assert made == mistyped(text, Random(3), errors)
    assert mistyped("42", Random(0), 2) == "42"


def test_a_mail_holds_its_request_and_is_long() -> None:
    made = mail("what is my balance", SAID["mail"], Random(0))
    assert "What is my balance." in made
    assert len(made.split()) > 200


def test_no_vague_request_stands_in_what_recall_compares_with() -> None:
    assert not {each.casefold() for each in SAID["vague"]} & {each.casefold() for each in HOLLOW}


def test_every_kind_keeps_what_is_right() -> None:
    flows = (Entry(name="pay", description="pay a bill", examples=("pay it",)),)
    asked = tuple(Request(text=f"pay bill {number}", gold=frozenset({"pay"})) for number in range(5))
    made = kinds(Dataset(name="one", flows=flows, requests=asked, seed=1, sha256="0"), SAID, 4)
    assert {kind: len(its) for kind, its in made.items()} == dict.fromkeys(made, 4)
    assert {"vague", "clear", "in a mail", "mistyped twice"} <= set(made)
    assert all(one.gold == {"pay"} for its in made.values() for one in its)


def test_a_query_by_each_way() -> None:
    one = Asked(said="and now", after="A lamp broke.", gold=frozenset())
    assert [one.query(way) for way in ("none", "concatenated", "weighed")] == [
        ("and now", ""),
        ("and now A lamp broke.", ""),
        ("and now A lamp broke.", "and now"),
    ]


def test_what_was_written_is_enough() -> None:
    assert all(len(its) >= 20 for its in own_kinds(SAID).values())
    assert all(len(told["requests"]) >= 20 for told in read_table(LANGUAGES).values())


def test_tables() -> None:
    cuts = {"R@1": 0.5, "R@3": 0.75, "R@5": 0.8, "R@8": 1.0}
    row = {"dataset": "one", "kind": "vague", "embedder": "static", "seed": 1, "numbers": {"none": cuts}, "ms": 1.0}
    assert "| one | vague | static | 1 | 50.0 / 75.0 / 100.0 |  |  | 1.00 |" in followups_table([row])
    told = {"language": "german", "embedder": "static", "requests": 22, "numbers": cuts, "ms": 2.0}
    assert "| german | 22 | static | 50.0 | 75.0 | 100.0 | 2.00 |" in languages_table([told])
