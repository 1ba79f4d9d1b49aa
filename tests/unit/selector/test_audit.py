"""The audit within a selection: who is asked all the same, asked once more, and what a broken promise changes."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.outcomes import OutcomeLog, Source
from jazz_select.outcomes.audit import is_audited
from jazz_select.outcomes.entries import RecallAnswer
from jazz_select.ports import Reply
from jazz_select.selector.select import FlowSelector as Selector
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.stages import Thresholds
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Reason, RecallResult
from tests.unit.selector.shop import CANCEL, REFUND, metadata, shop

THRESHOLDS = Thresholds(confidences=(0.99, 0.8, 0.5), errors=(0.0, 0.01, 0.2), requests=500, ask_again=0.7)


class Taught(ListMemory):
    """Recall that learned from a log, with this confidence in the first flow."""

    def __init__(self, sure: float = 0.9, thresholds: Thresholds | None = THRESHOLDS) -> None:
        rest = (1 - sure) / 3
        super().__init__({**each, "confidence": own} for each, own in zip(metadata(), (sure, rest, rest), strict=True))
        self.thresholds = thresholds

    async def recall(self, *args: Any, **options: Any) -> RecallResult:
        found = RecallResult(await super().recall(*args, **options), p_none=0.0)
        found.thresholds = self.thresholds
        return found


@pytest.fixture
def log(tmp_path: Path) -> OutcomeLog:
    return OutcomeLog(tmp_path / "outcomes.db")


def says(*ids: str) -> str:
    return json.dumps(list(ids))


def selector(memory: ListMemory, model: Any, log: OutcomeLog | None = None, *, share: float = 1.0) -> Selector:
    options = ModelOptions(audit_share=share)
    return FlowSelector(model, shop(), memory, "a", policy="recommended", model_options=options, log=log)


@pytest.mark.spec("016.3")
@pytest.mark.parametrize(
    ("sure", "reason"), [(0.8, Reason.CONFIDENT), (0.79, Reason.LLM)], ids=["within the budget", "below"]
)
async def test_what_was_learned_says_how_sure_is_sure_enough(sure: float, reason: Reason) -> None:
    model = ScriptedModel(says(REFUND))
    found = await selector(Taught(sure), model).select("money back")
    assert found.decision.reason is reason
    assert found.names == ["refund_order"]


@pytest.mark.spec("016.4")
async def test_half_of_the_share_is_asked_by_hash_and_half_by_flow(log: OutcomeLog) -> None:
    model = ScriptedModel(*[says(REFUND)] * 300)
    asks = selector(Taught(), model, log, share=0.04)
    entries = [(text := f"money back {number}", (await asks.select(text)).logged) for number in range(200)]
    kept = {each.id: each for each in log.read()}
    expected, silent = set[str](), 0
    for text, entry in entries:
        silent += 1
        if is_audited(text, entry, 0.02) or silent == 13:
            expected.add(entry)
            silent = 0
    assert {entry for entry, each in kept.items() if each.asked} == expected
    assert all(each.sure for each in kept.values())
    assert 200 // 13 <= len(expected) < 50
    assert len(model.calls) == len(expected)


@pytest.mark.spec("016.4")
async def test_another_process_goes_on_with_the_count_of_a_flow(log: OutcomeLog) -> None:
    first, second = (selector(Taught(), ScriptedModel(*[says(REFUND)] * 30), log, share=0.01) for _ in range(2))
    for number in range(30):
        await first.select(f"money back {number}")
    asked = [each.asked for each in log.read()]
    in_a_row = next((place for place, each in enumerate(reversed(asked)) if each), len(asked))
    await second.select("money back at once")
    assert second.audit is not None
    audited = [*log.read()][-1].asked  # by chance, one in a hundred
    assert second.audit.silent.get("refund_order", 0) == (0 if audited else in_a_row)
    for _ in range(50 - in_a_row):
        await second.select("money back")
    assert any(each.asked for each in [*log.read()][-51:]), "the fiftieth in a row is asked"


async def test_of_requests_that_come_together_one_is_audited_by_flow(log: OutcomeLog) -> None:
    asks = selector(Taught(), ScriptedModel(*[says(REFUND)] * 30), log, share=0.04)
    for number in range(12):
        await asks.select(f"money back {number}")
    before = sum(each.asked for each in log.read())
    await asyncio.gather(*[asks.select(f"at once {number}") for number in range(5)])
    assert sum(each.asked for each in log.read()) - before < 5


@pytest.mark.spec("016.4")
async def test_without_a_log_nothing_is_audited_and_a_share_has_a_floor() -> None:
    model = ScriptedModel()
    found = await selector(Taught(), model).select("money back")
    assert (found.decision.reason, model.calls) == (Reason.CONFIDENT, [])
    with pytest.raises(ConfigError, match=r"audit_share .*0\.01 to 1"):
        ModelOptions(audit_share=0.001)


@pytest.mark.spec("016.3")
@pytest.mark.parametrize(
    ("second", "names", "differs"),
    [(REFUND, ["refund_order"], False), (CANCEL, ["cancel_order"], True)],
    ids=["it then agrees", "it differs again"],
)
async def test_a_model_that_differs_is_asked_once_more_in_another_order(
    log: OutcomeLog, second: str, names: list[str], *, differs: bool
) -> None:
    model = ScriptedModel(says(CANCEL), says(second))
    asks = selector(Taught(), model, log)
    found = await asks.select("money back")
    assert found.names == names
    first, again = (each[-1].content for each in model.calls)
    assert first.index("refund_order") < first.index("cancel_order")
    assert again.index("cancel_order") < again.index("refund_order")
    (stage,) = (each for each in found.decision.stages if each.name == "chat")
    assert stage.calls == 2
    assert "asked once more" in stage.why
    assert asks.audit is not None
    assert (asks.audit.whole.audited, asks.audit.whole.differed) == (1, int(differs))


@pytest.mark.spec("016.3")
async def test_a_model_is_asked_once_where_recall_is_not_sure(log: OutcomeLog) -> None:
    model = ScriptedModel(says(CANCEL))
    found = await selector(Taught(0.6), model, log).select("money back")
    assert (found.names, len(model.calls)) == (["cancel_order"], 1)
    (entry,) = log.read()
    assert not entry.sure


async def test_a_second_question_that_fails_leaves_the_first_answer(log: OutcomeLog) -> None:
    model = ScriptedModel(says(CANCEL), RuntimeError("gone"), RuntimeError("gone"), RuntimeError("gone"))
    found = await selector(Taught(), model, log).select("money back")
    assert found.names == ["cancel_order"]


@pytest.mark.spec("016.4")
async def test_drift_closes_the_threshold_and_evidence_opens_it(log: OutcomeLog) -> None:
    meaning = [CANCEL]

    async def model(_: Any) -> Reply:
        return Reply(text=says(*meaning))

    asks, other = selector(Taught(), model, log), selector(Taught(), model, log, share=0.01)
    for _ in range(2):
        await asks.select("money back")
    assert asks.audit is not None
    assert asks.audit.threshold("refund_order") > 0.9
    assert [each.kind for each in log.moves("a")] == ["raised"]
    assert "threshold was raised for refund_order" in str(asks.audit)
    found = await other.select("money back")
    assert found.decision.reason is Reason.LLM, "another selector of the same log asks, too"
    assert "promise broken" in found.decision.stages[0].why
    meaning[:] = [REFUND]
    for _ in range(110):
        await other.select("money back")
    assert [each.kind for each in log.moves("a")] == ["raised", "lowered"]
    alone = [await other.select("money back") for _ in range(5)]
    assert Reason.CONFIDENT in {each.decision.reason for each in alone}, "one in a hundred is audited"


class Varying(Taught):
    """Recall that is sure of some requests, and not of those that say "maybe"."""

    def __init__(self) -> None:
        super().__init__(0.98)
        self.unsure = Taught(0.79)

    async def recall(self, query: str, *args: Any, **options: Any) -> RecallResult:
        if "maybe" in query:
            return await self.unsure.recall(query, *args, **options)
        return await super().recall(query, *args, **options)


@pytest.mark.spec("016.4")
async def test_a_flow_that_models_differ_about_is_asked_until_they_agree(log: OutcomeLog) -> None:
    meaning = [REFUND]

    async def model(_: Any) -> Reply:
        return Reply(text=says(*meaning))

    asks = selector(Varying(), model, log, share=0.01)
    alone = [await asks.select(f"money back {number}") for number in range(5)]
    assert Reason.CONFIDENT in {each.decision.reason for each in alone}, "one in a hundred is audited"
    meaning[:] = [CANCEL]
    for number in range(3):
        await asks.select(f"money back, maybe {number}")
    assert asks.audit is not None
    assert asks.audit.suspected == ("refund_order",)
    meaning[:] = [REFUND]
    asked = await asks.select("money back")
    assert asked.decision.reason is Reason.LLM
    assert "models differed about this flow of late" in asked.decision.stages[0].why
    for number in range(3):
        await asks.select(f"money back again {number}")
    assert asks.audit.suspected == ()
    alone = [await asks.select(f"money back at last {number}") for number in range(5)]
    assert Reason.CONFIDENT in {each.decision.reason for each in alone}


class Held(OutcomeLog):
    """A log that is read while `open` is set, and counts how often, and by how many at once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open = threading.Event()
        self.open.set()
        self.reads = self.now = self.most_at_once = 0

    def recall_answers(self, agent_id: str, *, last: int, least: float, among: int) -> tuple[RecallAnswer, ...]:
        self.reads += 1
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        found = super().recall_answers(agent_id, last=last, least=least, among=among)
        self.open.wait()
        self.now -= 1
        return found


@pytest.mark.spec("016.4")
async def test_those_who_measure_at_once_measure_together(log: OutcomeLog) -> None:
    held, model = Held(log.path), ScriptedModel(*[says(CANCEL)] * 20)
    asks = selector(Taught(), model, held)
    await asks.measure()
    held.open.clear()
    selecting = asyncio.gather(*[asks.select(f"money back {number}") for number in range(10)])
    while len(model.calls) < 20:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    held.open.set()
    await selecting
    assert asks.audit is not None
    assert asks.audit.whole.audited == 10, "the last measure has read every answer"
    assert asks.audit.threshold("refund_order") > 0.9
    assert held.most_at_once == 1
    assert held.reads < 11
    assert [each.kind for each in log.moves("a")] == ["raised"]


@pytest.mark.spec("016.4")
async def test_persons_who_correct_what_was_decided_alone_close_it_at_once(log: OutcomeLog) -> None:
    asks = selector(Taught(), ScriptedModel(says(REFUND)), log, share=0.01)
    entries = [(await asks.select(f"money back {number}")) for number in range(2)]
    for each in entries:
        await asks.feedback(each, right="cancel_order", source=Source(kind="person", name="ada"))
    assert asks.audit is not None
    assert asks.audit.threshold("refund_order") > 0.9


async def test_without_evidence_nothing_is_measured(log: OutcomeLog) -> None:
    asks = selector(Taught(thresholds=None), ScriptedModel(says(REFUND)), log)
    await asks.select("money back")
    assert asks.audit is None
    assert [each.sure for each in log.read()] == [False]
