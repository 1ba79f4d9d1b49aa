"""What `check` and `evaluate` tell of the share decided alone: as a sync tells it, beside what was measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector, Policy, ProceduralMemory, sync_registry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import Case, RouteOptions, check, evaluate, junit, markdown_report
from jazz_select.outcomes import OutcomeLog
from jazz_select.selector.forecast import forecast
from jazz_select.testing import HashEmbedder, ScriptedDecider
from jazz_select.values import Candidate, Decision, Reason, Source, Tier

pytestmark = pytest.mark.spec("016.5")
THINGS = (
    *("invoice", "parcel", "password", "address", "voucher", "newsletter"),
    *("warranty", "complaint", "shelf", "lamp", "sofa", "table"),
)
DEEDS = ("show", "send", "change", "delete", "find", "copy")
EMBEDDER = HashEmbedder(256)
BOLD = Policy(max_error=0.2, on_empty="none")


@pytest.fixture(scope="module")
def registry() -> FlowRegistry:
    made = FlowRegistry(min_examples=0)
    for thing in THINGS:
        texts = [f"{deed} my {thing} now" for deed in DEEDS]
        Flow(name=thing, description=thing, condition=thing, desired_effects=["e"], examples=texts, registry=made)
    return made


CASES = (
    Case(request="please send my parcel now", expect=("parcel",)),
    Case(request="change my parcel", expect=("voucher",)),
    Case(request="copy the password now", expect=("password",)),
    Case(request="please delete my sofa", expect=("sofa",)),
    Case(request="is it going to rain", expect=()),
)


async def test_a_check_tells_what_a_sync_would(registry: FlowRegistry) -> None:
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "a", registry)
        answers, caveat = await memory.leave_one_out_confidence("a")
    of_sync = forecast(answers, BOLD, list(registry.values()), caveat=caveat)
    assert of_sync.share_alone
    assert check(registry, embedder=EMBEDDER, policy=BOLD).forecast == of_sync
    shared = check(registry, embedder=EMBEDDER, policy=Policy(max_error=0.4, on_empty="none"), has_decider=True)
    assert shared.forecast is not None
    assert shared.forecast.share_alone == of_sync.share_alone, "a decision model takes half of the budget"


def test_it_is_no_finding_and_is_only_told_where_something_was_embedded(registry: FlowRegistry) -> None:
    found = check(registry, embedder=EMBEDDER, policy="cautious")
    assert found.forecast is not None
    assert found.forecast.share_alone == 0
    told = found.to_dict()["forecast"]
    assert "all else is for a model: within an error budget of 0.2% recall decides" in told["says"]
    assert not [each for each in found.found if "alone" in each.what]
    assert check(registry, only=["placeholder"]).forecast is None
    unknown: Any = "bold"
    with pytest.raises(ConfigError, match="policy must be a Policy, or the name of one: 'default', 'recommended' or"):
        check(registry, policy=unknown)


def test_a_check_takes_its_cases_for_evidence(registry: FlowRegistry) -> None:
    told = check(registry, embedder=EMBEDDER, policy=BOLD, cases=CASES).forecast
    assert told is not None
    assert told.labelled == 4, "what is known word for word says nothing of confidence"


async def test_what_was_measured_stands_beside_what_was_expected(registry: FlowRegistry) -> None:
    found = await evaluate(CASES, registry, embedder=EMBEDDER, routing=RouteOptions(policy=BOLD))
    told = found.forecast
    assert told is not None
    assert told.measured is not None
    assert told.share_alone == check(registry, embedder=EMBEDDER, policy=BOLD).to_dict()["forecast"]["share_alone"]
    taken = [each for each in found.judged if each.route.outcome.value == "taken"]
    wrong = [each.case.request for each in taken if each.route.first not in each.case.expect]
    assert (told.measured.requests, told.measured.alone, told.measured.known) == (5, len(taken), 1)
    assert wrong == ["change my parcel"]
    assert (told.measured.judged, told.measured.wrong) == (len(taken), 1)
    assert f"On these cases: {len(taken)} of 5 requests" in str(told)
    assert "1 of them known word for word; 1 was wrong." in str(told)


async def test_every_report_of_an_evaluation_tells_it(registry: FlowRegistry) -> None:
    found = await evaluate(CASES, registry, embedder=EMBEDDER, routing=RouteOptions(policy=BOLD))
    says = str(found.forecast)
    assert found.to_dict()["forecast"]["says"] == says
    assert "Decided alone: Examples, titles and aliases are decided without a model" in markdown_report(found)
    assert f'<property name="decided alone" value="{says}" />' in junit(found)


async def test_with_a_selector_its_own_policy_and_choices_count(registry: FlowRegistry) -> None:
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "a", registry)
        decider = ScriptedDecider("1", sure=0.999)
        async with FlowSelector(
            None, registry, memory, "a", decider=decider, policy=Policy(max_error=0.02, on_empty="none")
        ) as selector:
            found = await evaluate(CASES, registry, memory=memory, agent_id="a", selector=selector)
    told = found.forecast
    assert told is not None
    assert told.measured is not None
    assert told.max_error == 0.02
    reasons = [each.chosen.decision.reason for each in found.judged if each.chosen is not None]
    alone = [each for each in reasons if each in {Reason.EXAMPLE, Reason.CONFIDENT}]
    assert told.measured.alone == len(alone) < len(CASES), "what the decision model chose is not recall's"


def decided(reason: Reason, *, confidence: float = 0.9, asked: int = 0) -> Decision:
    offered = (Candidate(flow_id="1", flow_name="parcel", confidence=confidence),)
    tier = Tier.GUIDED if asked else Tier.DETERMINISTIC
    return Decision(tier=tier, reason=reason, candidates=offered, p_none=0.1, attempts=asked)


@pytest.fixture
def log(tmp_path: Path) -> OutcomeLog:
    """Nine selections of agent a, four of them by recall alone, and one of another agent."""
    made = OutcomeLog(tmp_path / "outcomes.db")
    said: Sequence[tuple[Decision, str | None]] = (
        (decided(Reason.EXAMPLE), None),
        (decided(Reason.CONFIDENT), "parcel"),
        (decided(Reason.CONFIDENT), "lamp"),
        (decided(Reason.SINGLE), None),
        (decided(Reason.SINGLE, asked=1), None),
        (decided(Reason.SEMANTIC), "parcel"),
        (decided(Reason.LLM, asked=1), None),
        (decided(Reason.NONE), None),
        (decided(Reason.ASK), None),
    )
    for place, (decision, right) in enumerate(said):
        entry = made.record(f"request {place}", decision, agent_id="a", chosen=["parcel"])
        if right is not None:
            made.correct(entry, [right], source=Source(kind="person", name="ada"))
    hinted = made.record("request 9", decided(Reason.CONFIDENT), agent_id="b", chosen=["parcel"])
    made.hint(hinted, [])
    made.flush()
    return made


async def test_what_a_log_says_was_decided_alone_is_counted(registry: FlowRegistry, log: OutcomeLog) -> None:
    by_check = check(registry, embedder=EMBEDDER, policy=BOLD, log=log, agent_id="a").forecast
    by_eval = (await evaluate(CASES, registry, embedder=EMBEDDER, log=log, log_agent_id="a")).forecast
    for told in (by_check, by_eval):
        assert told is not None
        assert told.logged is not None
        counts = told.logged
        assert (counts.requests, counts.alone, counts.known, counts.judged, counts.wrong) == (9, 4, 1, 2, 1)
        says = "In the log: 4 of 9 requests (44.4%) decided alone, 1 of them known word for word; of 2 that were judged"
        assert f"{says} 1 was wrong." in str(told)
    assert by_check is not None
    assert by_check.labelled == 3, "entries that people judged are evidence, whoever chose"
    other = check(registry, embedder=EMBEDDER, policy=BOLD, log=log, agent_id="b").forecast
    assert other is not None
    assert other.logged is not None
    assert (other.logged.alone, other.logged.judged, other.labelled) == (1, 0, 0), "an agent's hint is no judgement"
    nobody = check(registry, embedder=EMBEDDER, policy=BOLD, log=log, agent_id="c").forecast
    assert nobody is not None
    assert nobody.logged is None
