"""What moved a request is what leads it back when it alone is taken back."""

import asyncio
import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from jazz_select.evaluation import Case, Difference, Query, comment, diff
from jazz_select.evaluation.changes.difference import ChangeKind, Effect, FlowChanges, RouteChange, Totals
from jazz_select.evaluation.changes.reasons import reasons
from jazz_select.evaluation.changes.snapshots import Source, Undone
from jazz_select.evaluation.route import Routed
from tests.tables import read_table
from tests.unit.evaluation.repository import repository
from tests.vectors import EMBEDDER, NEEDS_STATIC

HERE = Path(__file__).parent / "catalogues"
Flows = dict[str, dict[str, Any]]
CLEAN: Flows = {flow["name"]: flow for flow in read_table(HERE / "airline.yaml")}
LURE = "credit my mother's points at the gate"
ASKED = [
    *("please drop the seats", "void the booking", "cancel my seats please", "drop my reservation and void it"),
    *("void and drop the whole reservation", "credit my grandfather", "points for my mother", "a heavier suitcase"),
    *("the luggage is gone", "where can my bag be", "kilos", "vegan", "food without nuts please", "on board"),
]
pytestmark = [NEEDS_STATIC, pytest.mark.programs]
TOTALS = Totals(flows=2, requests=1, labelled=0, right=0.0, asked=0, taken=0, none=0, counted=0, prompt_tokens=0)


def changed() -> Flows:
    """An example, a description with its condition, a flow that is gone, one that is new, two more examples."""
    flows = deepcopy(CLEAN)
    flows["flight_status"]["examples"] += ["cancel the booking, void the reservation and drop the seats"]
    flows["special_meal"] |= {"description": "Seats, luggage and animals on board.", "condition": "Anything on board."}
    del flows["lost_bag"]
    flows["bags"] = {
        "name": "bags",
        "description": "Everything about luggage.",
        "condition": "It is about a suitcase.",
        "desired_effects": ["The suitcase is dealt with"],
        "examples": ["another suitcase", "one more bag", "extra luggage please", "baggage to Rome", "kilos of luggage"],
    }
    flows["wheelchair"]["examples"] += ["miles for my grandfather", LURE]
    return flows


def between(folder: Path, base: Flows, head: Flows, **more: Any) -> Difference:
    repo = repository(folder)
    file = repo.folder / "flows" / "all.json"
    file.write_bytes(orjson.dumps(list(base.values())))
    repo.commit()
    file.write_bytes(orjson.dumps(list(head.values())))
    return asyncio.run(diff("HEAD", embedder=EMBEDDER, here=repo.folder, requests=ASKED, **more))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Difference:
    return between(tmp_path_factory.mktemp("reasons"), CLEAN, changed())


@pytest.mark.spec("007.8")
def test_nearly_each_moved_request_has_a_reason(found: Difference) -> None:
    assert len(found.moved) > 8
    assert sum(bool(each.why) for each in found.moved) >= 0.9 * len(found.moved)
    assert any("under wheelchair" in what for what in found.why)
    assert any("lost_bag was removed" in what or "bags is new" in what for what in found.why)


@pytest.mark.spec("007.8")
def test_taking_the_reason_back_leads_requests_back(found: Difference, tmp_path: Path) -> None:
    cause = f"‘{LURE}’ under wheelchair"
    those = {each.request for each in found.moved if each.why == cause}
    assert those
    head = changed()
    head["wheelchair"]["examples"].remove(LURE)
    without = {each.request for each in between(tmp_path / "without", CLEAN, head).moved}
    assert not those & without


@pytest.mark.spec("007.8")
def test_one_edit_of_a_reviewer_is_one_reason(tmp_path: Path) -> None:
    """An example that goes to another flow, and a flow that is split in two, each of which takes its requests."""
    head = deepcopy(CLEAN)
    text = "trace the baggage that did not arrive"
    head["lost_bag"]["examples"].remove(text)
    head["add_bag"]["examples"].append(text)
    old = head.pop("delay_money")
    late = ["we landed five hours late, what do I get?", "you owe me 250 euros for the delay", "paid for being late"]
    costs = ["pay me for the hotel that I needed", "what am I entitled to after a night at the airport?", "hotel costs"]
    head["late_money"] = {
        **old,
        "name": "late_money",
        "examples": [*late, "money for a delay", "euros for late planes"],
    }
    head["hotel_money"] = {**old, "name": "hotel_money", "examples": [*costs, "a night's hotel", "pay my room"]}
    found = between(tmp_path, CLEAN, head)
    whys = {each.request: each.why for each in found.moved}
    assert whys[text] == f"‘{text}’ went from lost_bag to add_bag"
    assert any("delay_money was removed, and" in each or "_money is new, and" in each for each in whys.values())
    assert not any(each.startswith("perhaps") for each in whys.values())


@pytest.mark.spec("007.8")
def test_a_reviewer_reads_what_takes_how_many(found: Difference) -> None:
    text = comment(found)
    assert "**Why requests move:**" in text
    assert len(text.encode()) <= 10_000
    rows = sum(" | example | " in line or " | logged | " in line for line in text.splitlines())
    left = re.search(r"… and (\d+) more, which there is no room for", text)
    others = len(found.changes) - len(found.moved) - len(found.shuffled)
    assert rows + (int(left[1]) if left else 0) == len(found.moved) + others
    assert f"{len(found.moved)} of" in found.summary
    assert f"{others} more change" in found.summary


@pytest.mark.spec("007.8")
def test_cases_that_are_wrong_fail_a_comparison(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    cases.write_text("- {request: is my plane late, expect: [flight_status]}\n- {reqest: x}\n", "utf-8")
    judged = between(tmp_path / "repo", CLEAN, CLEAN, cases=[cases, Case(request="my bag", expect=("lost_bag",))])
    assert not judged.passed
    assert [each.gate for each in judged.failures] == ["cases"]


@pytest.mark.spec("007.8")
@pytest.mark.parametrize(
    ("taker", "why"),
    [
        pytest.param(["p", "x"], "‘w’ under a, and ‘x’ went from a to b", id="two of one flow's examples"),
        pytest.param(["p", "x", "q"], "several of these changes together", id="three"),
    ],
)
async def test_changes_that_lead_back_together_are_all_of_each(taker: list[str], why: str) -> None:
    """An example went to another flow, and its former one gained one: only all as they were lead back."""
    before = {"a": {"examples": ["x", "y"]}, "b": {"examples": ["p"]}}
    after = {"a": {"examples": ["y", "w"]}, "b": {"examples": taker}}
    was, now = (Routed(request="x", ranking=(name,), offered=1) for name in ("a", "b"))
    moved = RouteChange(
        asked=Query(request="x"),
        source=Source.EXAMPLE,
        before=was,
        after=now,
        kinds=(ChangeKind.FIRST,),
        effect=Effect.NONE,
    )
    flows = FlowChanges(added=(), removed=(), renamed={}, changed={"a": ("examples",), "b": ("examples",)})
    found = Difference(base="", head="", flows=flows, changes=(moved,), confusions=(), before=TOTALS, after=TOTALS)

    async def ask(parts: Undone, asked: Sequence[Query], /, *, refit: bool) -> Sequence[str]:
        there = {name: {**fields, **(parts.get(name) or {})} for name, fields in after.items()}
        return ["a" if there == before else "b" for _ in asked]

    assert await reasons(found, before, after, ask) == {0: why}
