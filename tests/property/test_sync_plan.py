"""The algebra of a sync: whatever the catalogue and the index hold, one pass brings them together."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from jazz_select.memory.sync import SyncPlan, plan_sync

MARKS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(("1", "2", "3")))


def _applied(plan: SyncPlan, wanted: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    after = {**stored, **{each: wanted[each] for each in plan.write}}
    return {each: mark for each, mark in after.items() if each not in plan.delete}


@given(MARKS, MARKS)
def test_after_a_plan_nothing_is_left_to_do(wanted: dict[str, str], stored: dict[str, str]) -> None:
    plan = plan_sync(wanted, stored)
    assert plan.is_empty == (wanted == stored)
    after = _applied(plan, wanted, stored)
    assert after == wanted
    assert plan_sync(wanted, after).is_empty


@given(MARKS, MARKS)
def test_every_flow_has_one_fate(wanted: dict[str, str], stored: dict[str, str]) -> None:
    plan = plan_sync(wanted, stored)
    fates = (*plan.create, *plan.update, *plan.delete, *plan.skip)
    assert sorted(fates) == sorted({*wanted, *stored})


@given(MARKS, MARKS, st.integers(0, 8))
def test_an_interrupted_plan_is_finished_by_the_next(wanted: dict[str, str], stored: dict[str, str], done: int) -> None:
    plan = plan_sync(wanted, stored)
    cut = {**stored, **{each: wanted[each] for each in plan.write[:done]}}
    assert set(stored) & set(wanted) <= set(cut), "a flow that stays is never absent on the way"
    assert _applied(plan_sync(wanted, cut), wanted, cut) == wanted
