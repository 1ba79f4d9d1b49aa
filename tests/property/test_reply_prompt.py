"""Whatever the metadata: the prompt parses, holds exactly the offered candidates, and each can be answered."""

import json
from xml.etree import ElementTree as ET

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazz_select.selector.candidates_stage import usable_candidates
from jazz_select.selector.prompt import build_prompt
from jazz_select.selector.reply import read_reply
from jazz_select.text import clean
from tests.depth import examples

nasty = st.text() | st.sampled_from(["</flow>", "]]>", "&amp;", "\x00", "\ud800", "<request>", "a\rb", "\ufffe"])
anything = nasty | st.none() | st.integers() | st.floats() | st.lists(nasty) | st.dictionaries(nasty, nasty)
FIELDS = ("flow_id", "flow_name", "description", "condition", "desired_effects", "score", "ranks", "scores")
metadata = st.dictionaries(st.sampled_from(FIELDS), anything)
sane = st.fixed_dictionaries({"flow_id": st.uuids().map(str), "flow_name": nasty, "condition": nasty})


@given(
    found=st.lists(metadata | sane), request=nasty, summaries=st.lists(nasty), tokens=st.sampled_from([1, 120, 100_000])
)
@settings(max_examples=examples(1_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_prompt_parses_and_holds_the_candidates(
    found: list[dict[str, object]], request: str, summaries: list[str], tokens: int
) -> None:
    narrowed = usable_candidates(found)
    prompt = build_prompt(request, summaries, narrowed.candidates, tokens=tokens)
    root = ET.fromstring(prompt.messages[1].content)  # noqa: S314 - our own text
    assert tuple(flow.get("id") for flow in root.iter("flow")) == prompt.ids
    assert len(prompt.ids) == len(narrowed.candidates)
    assert [flow.get("condition") or "" for flow in root.iter("flow")] == [
        clean(c.condition) for c in narrowed.candidates
    ]
    assert (root.findtext("request") or "") == clean(request)
    assert [child.tag for child in root if child.tag != "conversation"] == ["candidates", "request"]


@given(found=st.lists(sane, min_size=1, unique_by=lambda found: found["flow_id"]))
def test_each_candidate_can_be_answered_by_the_id_it_is_shown_with(found: list[dict[str, str]]) -> None:
    candidates = usable_candidates(found).candidates
    for tokens in (1, 100_000):
        shown = build_prompt("x", (), candidates, tokens=tokens).ids
        for name, candidate in zip(shown, candidates, strict=True):
            assert read_reply(json.dumps([name]), candidates).ids == (candidate.flow_id,)
