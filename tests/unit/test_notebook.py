"""What a notebook shows: everything that anyone said is shown as text."""

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import Flow, FlowRegistry, FlowSelectionResult
from jazz_select.agent import Conversation
from jazz_select.agent.turn import FlowRun, TurnResult
from jazz_select.errors import ConfigError
from jazz_select.notebook import facts_html, rows_html
from jazz_select.routing.records import StepRecord
from jazz_select.stages import StageRecord, UserQuestion
from jazz_select.telemetry import Trace, span
from jazz_select.values import Candidate, Decision, Latency, Reason, RecallResult, Tier, Usage

ATTACK = "<script>alert(1)</script>\"' onload=x <img src=x onerror=y> </table>"
OURS = {"div", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"}


class Read(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.cells: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        self.cells += [data]


def shown(value: Any) -> Read:
    """It, after a look at what it is made of."""
    read = Read(value._repr_html_())
    assert read.tags <= OURS
    assert read.attributes <= {"style", "scope"}
    assert not read.open
    return read


def hostile(text: str) -> list[Any]:
    """One of each kind, with this wherever somebody else's text can be."""
    candidate = Candidate(flow_id=text, flow_name=text, description=text, ranks={text: 1}, score=0.5, confidence=0.25)
    decision = Decision(
        tier=Tier.GUIDED,
        reason=Reason.LLM,
        chosen_ids=(text,),
        candidates=(candidate,),
        raw_reply=text,
        model=text,
        error=text,
        sized=text,
        recalled_by=text,
        notes=(text,),
    )
    registry = FlowRegistry(min_examples=0)
    name = " ".join(text.split()) or "x"
    selection = FlowSelectionResult(chosen_flows=[Flow(name="x", registry=registry)], decision=decision)
    vars(selection.chosen_flows[0])["name"] = name
    step = StepRecord(step=1, tool=text, tier=Tier.OPEN, reason="", arguments={text: text}, output=text, error="")
    with Trace() as trace, span(text, "tool"):
        pass
    turn = TurnResult(
        status="done",
        text=text,
        conversation=Conversation(),
        runs=(FlowRun(flow=text, records=(step, replace(step, error=text))),),
        reason=text,
        notes=(text,),
        error=ConfigError(text),
        trace=trace,
    )
    return [decision, selection, RecallResult([candidate.as_metadata()], notes=(text,), sized=text), turn]


@pytest.mark.spec("008.6")
def test_what_anyone_said_is_shown_as_text() -> None:
    for value in hostile(ATTACK):
        read = shown(value)
        assert "<script>alert(1)</script>" in read.text
        assert "onerror=y" in read.text


@given(st.text(max_size=40))
def test_any_text_is_shown_and_is_no_markup(text: str) -> None:
    for value in hostile(text):
        shown(value)


def test_what_is_empty_is_shown_too() -> None:
    for value in (
        FlowSelectionResult(),
        RecallResult(),
        TurnResult(status="done", text="", conversation=Conversation()),
    ):
        shown(value)


def test_a_decision_is_shown_with_all_that_is_known_of_it() -> None:
    found = Candidate(flow_id="i", flow_name="n", description="d", ranks={"dense": 1, "bm25": 2}, score=0.5)
    decision = Decision(
        tier=Tier.GUIDED,
        reason=Reason.LLM,
        chosen_ids=("i",),
        candidates=(found, replace(found, flow_id="j", flow_name="", confidence=0.25)),
        model="m",
        error="e",
        sized="two are enough",
        recalled_by="words",
        raw_reply="r",
        p_none=0.036,
        question=UserQuestion(text="Which?", options=()),
        stages=(StageRecord(name="chat", outcome="decided"),),
        usage=Usage(input_tokens=3, output_tokens=4),
        latency=Latency(total_s=0.003, recall_s=0.001, choose_s=0.002),
        notes=("noted",),
    )
    facts = {
        "decided": "guided, llm",
        "P(none)": "0.036",
        "candidates": "two are enough",
        "recalled by": "words",
        "model": "m",
        "reply": "r",
        "error": "e",
        "asks": "Which?",
        "stage": "chat decided",
        "tokens": "3 in, 4 out",
        "took": "3.0 ms: recall 1.0, choice 2.0",
        "note": "noted",
    }
    names = ["flow", "description", "score", "confidence", "ranks"]
    rows = ["1", "✓", "n", "d", "0.5", "dense 1, bm25 2", "2", "j", "d", "0.5", "0.25", "dense 1, bm25 2"]
    assert shown(decision).cells == [*(cell for fact in facts.items() for cell in fact), *names, *rows]
    assert shown(FlowSelectionResult(decision=decision)).cells[:3] == ["chosen", "no flow", "decided"]


def test_of_a_decision_only_what_is_known_is_shown() -> None:
    cells = shown(Decision(tier=Tier.GUIDED, reason=Reason.UNASKED)).cells
    assert cells[:4] == ["decided", "guided, unasked", "took", "0.0 ms: recall 0.0, choice 0.0"]


def test_long_texts_are_cut_and_many_rows_counted() -> None:
    assert len(facts_html("", [("text", "x" * 1_000_000)])) < 2_000
    read = Read(rows_html(("a", "b"), [(1, 2.34567)] * 1_000))
    assert "and 900 more" in read.text
    assert "2.346" in read.text
    assert rows_html(("a",), []) == ""
    assert Read(rows_html(("a",), [], "what <it> shows")).cells == ["what <it> shows", "a"]
