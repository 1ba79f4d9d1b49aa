"""The result answers the reader's next question."""

import dataclasses
import json
from pathlib import Path

import pytest

from jazz_select import FlowSelectionResult, FlowSelector
from jazz_select.errors import ModelError
from jazz_select.testing import ScriptedModel
from jazz_select.values import Latency, Reason, Tier
from tests.unit.selector.shop import CANCEL, REFUND, STALE, metadata, shop


@pytest.mark.spec("003.13")
def test_its_fields_are_the_published_ones_and_stay_as_they_are() -> None:
    result = FlowSelectionResult()
    names = ["chosen_flows", "chosen_prompts", "combined_prompt", "unresolved_ids", "candidates", "decision"]
    assert [field.name for field in dataclasses.fields(result)] == [*names, "logged"], "what was added comes after"
    assert (result.decision.tier, result.decision.reason) == (Tier.OPEN, Reason.NONE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.combined_prompt = "x"  # pyright: ignore[reportAttributeAccessIssue]


async def test_it_explains_itself() -> None:
    first = {"ranks": {"dense": 1, "bm25": 2}, "scores": {"dense": 0.8125}, "confidence": 0.75}
    found = [metadata("refund_order")[0] | first, *metadata("cancel_order")]
    text = (await FlowSelector(ScriptedModel(f'["{CANCEL}", "ghost"]'), shop()).select("x", found)).explain()
    assert text.splitlines()[:4] == [
        "cancel_order: chosen by the model (guided, llm)",
        " 1. refund_order  score 1.0000  dense #1 (0.812)  bm25 #2  confidence 0.75",
        " 2. cancel_order  score 1.0000  <- chosen",
        "cannot be run: ghost",
    ]
    assert text.splitlines()[-1].startswith("took: ")


async def test_it_explains_a_failure() -> None:
    model = ScriptedModel(ModelError("m", "busy", retryable=True), repeat=True)
    text = (await FlowSelector(model, shop()).select("x" * 9000, metadata())).explain()
    assert "refund_order: the top candidate, as the model failed (deterministic, fallback_error)" in text
    assert "error: ModelError: the model m failed: busy" in text
    assert "note: the request was cut" in text


async def test_it_explains_nothing() -> None:
    text = (await FlowSelector(None, shop()).select(" ")).explain()
    assert text.startswith("no flow: nothing to run (open, none)\ntook: ")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_words(reason: Reason) -> None:
    decision = dataclasses.replace(FlowSelectionResult().decision, reason=reason)
    assert reason in FlowSelectionResult(decision=decision).explain()


@pytest.mark.parametrize(
    ("names", "reply", "passed_over"),
    [
        pytest.param(["gift_wrap", "refund_order"], None, ["gift_wrap"], id="stale and first"),
        pytest.param(["refund_order", "gift_wrap"], None, [], id="stale and last"),
        pytest.param(["gift_wrap", "refund_order"], f'["{STALE}", "{REFUND}"]', ["gift_wrap"], id="chosen by a model"),
        pytest.param(["gift_wrap", "refund_order"], f'["{REFUND}"]', [], id="not wanted by a model"),
        pytest.param(["gift_wrap"], None, [], id="nothing else"),
    ],
)
async def test_a_stale_candidate_that_was_passed_over_is_named(
    names: list[str], reply: str | None, passed_over: list[str]
) -> None:
    model = None if reply is None else ScriptedModel(reply)
    result = await FlowSelector(model, shop()).select("x", metadata(*names))
    assert result.passed_over == passed_over
    line = "passed over, as it is not in the registry: gift_wrap"
    assert (line in result.explain().splitlines()) is bool(passed_over)


@pytest.mark.spec("008.6")
@pytest.mark.parametrize(
    "odd",
    [float("nan"), 10**30, "half \ud83d of it", {1: {"set"}}, Path("here"), Latency(), OSError("gone")],
    ids=lambda odd: type(odd).__name__,
)
async def test_its_text_says_what_its_data_says(odd: object) -> None:
    result = await FlowSelector(ScriptedModel(f'["{CANCEL}"]'), shop()).select("cancel it", metadata())
    result.candidates[0] = {**result.candidates[0], "more": odd}
    result.unresolved_ids.append("an \ud83d id")
    assert json.loads(result.to_json()) == result.to_dict()
