"""Evaluations: what is counted, over how many, by which policy, and how it is shown."""

import json
from xml.etree import ElementTree as ET

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.evaluation import (
    Case,
    CaseProblem,
    Cases,
    Evaluation,
    Judged,
    Outcome,
    Routed,
    evaluate,
    indexed,
    junit,
    markdown_report,
)
from jazz_select.evaluation.index import AGENT
from jazz_select.evaluation.route import RouteOptions
from jazz_select.selector.policy import Policy
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.testing import HashEmbedder, ScriptedDecider, ScriptedModel
from jazz_select.values import Decision, Reason, Tier, Usage

TAKEN, ASKED, NONE = Outcome.TAKEN, Outcome.ASKED, Outcome.NONE


def judged(
    expect: str,
    ranking: str,
    *,
    offered: int = 3,
    outcome: Outcome = ASKED,
    chosen: str | None = None,
    sure: float | None = None,
    case: Case | None = None,
) -> Judged:
    """Names are letters."""
    choice = None
    if chosen is not None:
        flows = [
            Flow(
                name=name, description="d", condition="c", desired_effects=["e"], registry=FlowRegistry(min_examples=0)
            )
            for name in chosen
        ]
        decision = Decision(tier=Tier.GUIDED, reason=Reason.LLM, attempts=1)
        choice = FlowSelectionResult(chosen_flows=[*flows], decision=decision)
    return Judged(
        case=case or Case(request=f"{expect} of {ranking}", expect=tuple(expect)),
        route=Routed(
            request="x",
            ranking=tuple(ranking),
            offered=min(offered, len(ranking)),
            confidences=(sure,) * min(offered, len(ranking)),
            p_none=None if sure is None else 1 - sure,
            outcome=outcome,
        ),
        chosen=choice,
    )


def evaluation(*cases: Judged, problems: tuple[CaseProblem, ...] = ()) -> Evaluation:
    return Evaluation(
        judged=cases, routing=RouteOptions(), agent_id="a", embedder="e", flows=4, model="m", problems=problems
    )


SIX = (
    judged("a", "abcd", outcome=TAKEN, sure=0.9),
    judged("b", "abcd", sure=0.4),
    judged("d", "abcd", case=Case(request="and that?", expect=("d",), episodes=("earlier",), tags=("t",))),
    judged("ab", "acbd"),
    judged("", "abcd", outcome=NONE),
    judged("", "bacd", outcome=TAKEN),
)


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("name", "value", "cases"),
    [
        pytest.param("R@1", (1 + 0 + 0 + 1 / 2) / 4, 4, id="the first place, or two of two intents"),
        pytest.param("R@3", (1 + 1 + 0 + 1) / 4, 4, id="the first three"),
        pytest.param("R@5", 1, 4, id="all"),
        pytest.param("R@k", 3 / 4, 4, id="as far as candidates go"),
        pytest.param("MRR", (1 + 1 / 2 + 1 / 4 + 1) / 4, 4, id="ranks"),
        pytest.param("coverage", 3 / 4, 4, id="all right ones among the candidates"),
        pytest.param("size", 3, 4, id="candidates"),
        pytest.param("exact", 2 / 6, 6, id="what is taken, none included"),
        pytest.param("unasked", 3 / 6, 6, id="settled without a model"),
        pytest.param("unasked-right", 2 / 3, 3, id="and rightly"),
        pytest.param("none-precision", 1, 1, id="none was said once, rightly"),
        pytest.param("none-recall", 1 / 2, 2, id="of two"),
        pytest.param("none-F1", 2 / 3, 2, id="both"),
        pytest.param("AUROC", 1, 2, id="the right one is surer"),
        pytest.param("ECE", (1.3 - 1) / 2, 2, id="surer than right"),
        pytest.param("several:R@1", 1 / 2, 1, id="several intents"),
        pytest.param("follow-ups:R@1", 0, 1, id="follow-ups"),
        pytest.param("tag:t:R@3", 0, 1, id="a tag"),
    ],
)  # fmt: skip
def test_measures_and_what_they_are_over(name: str, value: float, cases: int) -> None:
    measure = evaluation(*SIX).measures[name]
    assert (measure.value, measure.cases) == (pytest.approx(value), cases)


@pytest.mark.spec("007.2")
def test_flows_and_confusions() -> None:
    found = evaluation(*SIX)
    flows = {each.name: each for each in found.by_flow}
    assert [each.name for each in found.by_flow] == ["d", "b", "a"], "worst first"
    assert (flows["b"].cases, flows["b"].recall_at_1, flows["b"].coverage) == (2, 0, 1)
    assert dict(flows["b"].taken_by) == {"a": 1, "c": 1}
    assert (flows["a"].takes, flows["b"].takes) == (2, 1), "from b and d; from none"
    assert ("", "b", 1) in [(each.expected, each.first, each.count) for each in found.confusions]
    assert [miss.rank for miss in found.misses] == [4, 3, 2], "deepest first"


@pytest.mark.spec("007.2")
def test_nothing_is_divided_by_nothing() -> None:
    only_none = evaluation(judged("", "abc", outcome=NONE))
    assert (only_none.measures["R@1"].value, only_none.measures["none-recall"].value) == (None, 1)
    nothing_found = evaluation(judged("a", "", outcome=NONE))
    assert (nothing_found.measures["R@1"].value, nothing_found.measures["size"].value) == (0, 0)
    for each in (only_none, nothing_found, evaluation()):
        assert json.loads(json.dumps(each.to_dict())) == each.to_dict(), "plain JSON types"
        assert "<table" in each._repr_html_()  # pyright: ignore[reportPrivateUsage] - what a notebook calls
        assert markdown_report(each)
        ET.fromstring(junit(each))  # noqa: S314 - our own


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        pytest.param(judged("a", "abc"), "right", id="first"),
        pytest.param(judged("a", "bac"), "wrong", id="second"),
        pytest.param(judged("ab", "bac"), "right", id="two are the first two"),
        pytest.param(judged("a", "abc", outcome=NONE), "wrong", id="first, and abstained from"),
        pytest.param(judged("", "abc"), "open", id="none is for a model to say"),
        pytest.param(judged("", "abc", outcome=TAKEN), "wrong", id="something is taken where none is right"),
        pytest.param(judged("", "abc", outcome=NONE), "right", id="abstained rightly"),
        pytest.param(judged("a", "bac", chosen="a"), "right", id="a model corrects"),
        pytest.param(judged("ab", "bac", chosen="a"), "wrong", id="a model leaves one out"),
        pytest.param(judged("", "bac", chosen=""), "right", id="a model says none"),
    ],
)
def test_each_case_is_a_test_in_junit(case: Judged, verdict: str) -> None:
    assert case.verdict == verdict
    suite = ET.fromstring(junit(evaluation(case), name="shop")).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    told = {child.tag for test in suite.iter("testcase") for child in test}
    assert told == {"right": set[str](), "wrong": {"failure"}, "open": {"skipped"}}[verdict]
    assert suite.get("failures") == str(int(verdict == "wrong"))


HOSTILE = "<script>|`x`\x00\x1b[2J\n| @all [a](http://b) &amp;"


def test_hostile_texts_stay_texts_in_every_report() -> None:
    bad = CaseProblem(file=HOSTILE, entry=3, line=1, problem=HOSTILE)
    case = judged("a", "bc", case=Case(request=HOSTILE, expect=("a",), id=HOSTILE, tags=(HOSTILE,), why=HOSTILE))
    found = evaluation(case, problems=(bad,))
    root = ET.fromstring(junit(found, name=HOSTILE))  # noqa: S314 - our own
    assert (root.get("errors"), len(list(root.iter("testcase")))) == ("1", 2)
    page = markdown_report(found, failed=[HOSTILE])
    assert "<script>" not in page
    assert "[a](" not in page
    assert " @all" not in page
    assert "\x1b" not in page
    assert "<script>" not in found._repr_html_()  # pyright: ignore[reportPrivateUsage] - what a notebook calls


def shop() -> FlowRegistry:
    made = FlowRegistry(min_examples=0)
    for name, examples in {
        "refund": ["money back please", "refund my order", "i want a refund"],
        "track": ["where is my parcel", "track my order", "has it shipped"],
        "invoice": ["send the invoice", "i need a bill", "a receipt for taxes"],
    }.items():
        Flow(name=name, description=f"All about {name}.", examples=examples, registry=made)
    return made


REQUESTS = (
    Case(request="refund my order now", expect=("refund",)),
    Case(request="where is the parcel, and send the invoice", expect=("track", "invoice")),
    Case(request="what is the capital of Peru", expect=()),
)


@pytest.mark.spec("007.2")
async def test_a_model_is_judged_by_what_it_chooses() -> None:
    registry = shop()
    replies = {"refund": '["refund"]', "parcel": '["track", "invoice"]', "Peru": "[]"}
    model = ScriptedModel(*replies.values())
    done: list[tuple[int, int]] = []
    async with indexed(registry, embedder=HashEmbedder()) as memory:
        found = await evaluate(
            Cases(cases=REQUESTS, problems=(CaseProblem(file="f", entry=4, line=None, problem="p"),)),
            registry,
            routing=RouteOptions(top_k=3),
            model=model,
            memory=memory,
            agent_id=AGENT,
            progress=lambda count, total: done.append((count, total)),
        )
        silent = ScriptedModel("[]", "[]", "[]")
        selector = FlowSelector(silent, registry, memory, AGENT, policy=Policy(on_empty="none"))
        other = await evaluate(REQUESTS, registry, selector=selector, memory=memory, agent_id=AGENT)
        with pytest.raises(ConfigError, match="either a model or a selector"):
            await evaluate(REQUESTS, registry, selector=selector, model=model)
    assert found.choices is not None
    assert (found.choices.asked, found.choices.calls, sum(found.choices.reasons.values())) == (3, 3, 3)
    assert found.choices.exact == sum(each.verdict == "right" for each in found.judged)
    assert done[-1] == (3, 3)
    assert [each.entry for each in found.problems] == [4]
    assert (other.none.answered, other.measures["none-precision"].value) == (3, pytest.approx(1 / 3))


@pytest.mark.spec("009.2")
async def test_each_stage_is_judged_by_what_it_decided() -> None:
    registry = shop()
    decider = ScriptedDecider("1", "none", sure=0.6, usage=Usage(input_tokens=50))
    model = ScriptedModel('["refund"]', '["track", "invoice"]', "[]")
    async with indexed(registry, embedder=HashEmbedder()) as memory:
        routing = RouteOptions(top_k=3, policy=Policy(max_error=0.4, on_empty="none"))
        found = await evaluate(
            REQUESTS, registry, routing=routing, model=model, decider=decider, memory=memory, agent_id=AGENT
        )
        alone = await evaluate(REQUESTS, registry, routing=routing, memory=memory, agent_id=AGENT)
    recall, decided, chat = found.stages
    assert [each.name for each in found.stages] == ["recall", "decider", "chat"]
    assert (recall.asked, recall.decided, recall.accuracy) == (3, 0, None)
    # Two of the three are put to it: the one with two wishes is the chat model's.
    assert (decided.asked, decided.decided, decided.input_tokens) == (3, 0, 100)
    assert (chat.asked, chat.decided, chat.share) == (3, 3, 1.0)
    assert chat.right == sum(each.exact for each in found.judged)
    assert [each["name"] for each in found.to_dict()["stages"]] == ["recall", "decider", "chat"]
    assert alone.stages == []
    assert found.choices is not None
    assert (found.choices.asked, found.choices.calls) == (3, 5), "those of the decision model count as well"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"cases": ()}, "there are no cases", id="no case"),
        pytest.param({"registry": FlowRegistry()}, "there are no flows", id="no flow"),
        pytest.param({"at": 1.5}, "at must be a share", id="accuracy"),
    ],
)
async def test_arguments_that_cannot_work(options: dict[str, object], told: str) -> None:
    given: dict[str, object] = {"cases": REQUESTS, "registry": shop(), "embedder": HashEmbedder(), **options}
    with pytest.raises(ConfigError, match=told):
        await evaluate(**given)  # pyright: ignore[reportArgumentType]
