"""`check` on catalogues as people break them: every fault has its code, its line and a remedy, and hides no other."""

from pathlib import Path
from textwrap import dedent

import orjson
import pytest

from jazz_select import FlowRegistry, load_flows
from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.evaluation import KINDS, Case, Findings, Severity, check
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import HashEmbedder

ROOT = Path(__file__).parents[3]
ASKED = "[where is it, my parcel is late, has the van left, when will you deliver, nothing in the post, hurry]"
GOOD = f"""
- name: refund_order
  description: Take back what was delivered and pay for it.
  condition: Nobody wants another thing in its place; only then is money sent.
  desired_effects: [Money is on its way]
  examples: [give me my cash, I do not like this lamp, reimburse order nine, this coat goes back, no longer needed]
  tools: [look_up_order, pay_back]
- name: track_order
  description: Tell where a parcel is.
  condition: A parcel has left the house and was not handed over so far.
  desired_effects: [The place of the parcel is known]
  examples: {ASKED}
  tools: [look_up_order]
"""


def look(order_id: str) -> str:
    return order_id


PAY = Tool(name="pay_back", destructive=True)


def checked(folder: Path, text: str, *, name: str = "flows.yaml", tools: object = None, cases: object = ()) -> Findings:
    (folder / name).write_text(dedent(text), encoding="utf-8")
    return check(folder, tools=tools, cases=cases, embedder=HashEmbedder())  # pyright: ignore[reportArgumentType]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)


def edited(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


FAULTS = [
    pytest.param(
        "Tell where a parcel is.",
        "Take back what was delivered, and pay for it",
        "same-description",
        9,
        id="one description twice",
    ),
    pytest.param("name: track_order", "nmae: track_order", "invalid-flow", 8, id="a field that is none"),
    pytest.param(", has the van left, when will you deliver", "", "invalid-flow", 12, id="too few examples"),
    pytest.param("name: track_order", "name: refund_order", "duplicate-name", 8, id="one name twice"),
    pytest.param("has the van left", "Where is it?", "copied-examples", 12, id="copied but for case and marks"),
    pytest.param("has the van left", "'please, my parcel is late'", "copied-examples", 12, id="copied politely"),
    pytest.param("has the van left", "This coat goes back!", "shared-example", 12, id="the example of another flow"),
    pytest.param(
        "has the van left",
        "Thi\u0455 c\u043e\u0430t g\u043ees b\u0430ck",
        "shared-example",
        12,
        id="the example of another flow in letters that look the same",
    ),
    pytest.param("has the van left", "'...'", "placeholder", 12, id="three dots"),
    pytest.param("has the van left", "lorem ipsum dolor", "placeholder", 12, id="lorem ipsum"),
    pytest.param("Tell where a parcel is.", "TODO", "placeholder", 9, id="a description to do"),
    pytest.param(
        "A parcel has left the house and was not handed over so far.",
        "'The request is about: Tell where a parcel is.'",
        "vague-condition",
        10,
        id="the description again",
    ),
    pytest.param(
        "A parcel has left the house and was not handed over so far.",
        "The user asks about track order",
        "vague-condition",
        10,
        id="the name again",
    ),
    pytest.param(
        "A parcel has left the house and was not handed over so far.",
        "Nobody wants another thing in its place; only then is money sent.",
        "same-condition",
        10,
        id="one condition twice",
    ),
    pytest.param("The place of the parcel is known", "Tell where a parcel is", "repeated-effects", 11, id="an effect"),
    pytest.param(
        f"examples: {ASKED}",
        "examples: [parcel, track, where, delivery, post]",
        "thin-examples",
        12,
        id="words for requests",
    ),
    pytest.param(
        f"examples: {ASKED}",
        "examples: [is my parcel here today, is my parcel here now, is my parcel here soon, is my parcel here late, "
        "is my parcel here yet, is my parcel here again]",
        "thin-examples",
        12,
        id="one wording",
    ),
    pytest.param("tools: [look_up_order]", "tools: [look_up_order]\n  chain: [send]", "invalid-flow", 14, id="a chain"),
    pytest.param("name: track_order", "name: refund-order", "ambiguous-name", 8, id="two spellings of a name"),
    pytest.param(
        "name: track_order", "name: r\u0435fund_order", "ambiguous-name", 8, id="a name in letters that look the same"
    ),
    pytest.param(
        "tools: [look_up_order]",
        "tools: [look_up_order]\n  aliases: [where, Refund order]",
        "ambiguous-name",
        14,
        id="an alias",
    ),
]


@pytest.mark.spec("007.1")
@pytest.mark.parametrize(("old", "new", "code", "line"), FAULTS)
def test_each_fault_has_its_code_and_its_line(tmp_path: Path, old: str, new: str, code: str, line: int) -> None:
    found = checked(tmp_path, edited(old, new)).found
    assert [(each.code, each.place) for each in found] == [(code, f"flows.yaml:{line}")]
    (only,) = found
    assert only.what
    assert only.remedy.endswith((".", "?"))
    assert only.severity is KINDS[code].severity


def test_what_is_in_order_has_no_findings(tmp_path: Path) -> None:
    findings = checked(tmp_path, GOOD, tools={"look_up_order": look, "pay_back": PAY})
    assert findings.found == ()
    assert findings.flows == 2


FIELDS = ("descripton", "condition", "desired_effects", "examples")
BROKEN = """
- {name: one, descripton: x}
- {name: fine, description: d fine, condition: only a blue day, desired_effects: [e], examples: [a b, c d, e f, g h, i]}
- {name: two, description: d two, condition: another thing, desired_effects: [e], examples: [a1 b, c1 d]}
- {name: three, description: d, condition: a third thing, desired_effects: [e], examples: one}
"""


@pytest.mark.spec("007.1")
def test_all_that_is_broken_is_told_and_the_rest_is_judged(tmp_path: Path) -> None:
    (tmp_path / "broken.yml").write_text("flows: [}", encoding="utf-8")
    (tmp_path / "failing.py").write_text("raise RuntimeError('boom')\n", encoding="utf-8")
    (tmp_path / "written.py").write_text(
        dedent("""\
            from jazz_select import BaseFlow

            class Four(BaseFlow):
                name = "four"
                description = "d four"
                condition = ""
                desired_effects = ["e"]
                examples = ["k l", "m n", "o p", "q r", "s t"]

            class Five(BaseFlow):
                name = "five"
                description = "d five"
                condition = "on a red day"
                desired_effects = ["e"]
                examples = [
                    "k2 l",
                    "A B",
                    "o2 p", "q2 r", "s2 t",
                ]
                chain = ("nowhere",)
            """),
        encoding="utf-8",
    )
    found = checked(tmp_path, BROKEN).found
    said = [each.what for each in found if each.flows == ("one",)]
    assert [next(name for name in FIELDS if f" {name} " in what) for what in said] == list(FIELDS)
    assert list(dict.fromkeys((each.code, each.flows, each.place) for each in found)) == [
        ("unreadable-file", (), "broken.yml:1"),
        ("unreadable-file", (), "failing.py:1"),
        ("invalid-flow", ("one",), "flows.yaml:2"),
        ("invalid-flow", ("two",), "flows.yaml:4"),
        ("invalid-flow", ("three",), "flows.yaml:5"),
        ("invalid-flow", ("four",), "written.py:6"),
        ("broken-chain", ("five",), "written.py:20"),
        ("shared-example", ("fine", "five"), "written.py:17"),
    ]
    with pytest.raises(FlowLoadError):
        load_flows(str(tmp_path), FlowRegistry())


COMPOSITE = """
- name: both
  type: sequential
  description: Two things at once.
  flows: [refund_order, %s]
  examples: [a1 x, b1 y, c1 z, d1 u, e1 v]
- name: either
  type: conditional
  description: One thing of two.
  branches: [{when: the lamp is broken, flow: refund_order}, {when: "%s", flow: track_order}]
  examples: [a2 x, b2 y, c2 z, d2 u, e2 v]
"""


@pytest.mark.spec("007.1")
@pytest.mark.parametrize(
    ("part", "when", "codes"),
    [
        pytest.param("track_order", "the lamp is lost", [], id="in order"),
        pytest.param("trak_order", "the lamp is lost", [("missing-part", "both", 17)], id="a part that is not there"),
        pytest.param("both", "the lamp is lost", [("missing-part", "both", 17)], id="a circle"),
        pytest.param("track_order", "The lamp  is broken", [("dead-branch", "either", 22)], id="a branch like another"),
    ],
)
def test_composites_that_cannot_run(tmp_path: Path, part: str, when: str, codes: list[tuple[str, str, int]]) -> None:
    text = GOOD + (COMPOSITE % (part, when)).lstrip("\n")
    found = checked(tmp_path, text).found
    assert [(each.code, each.flows[0], each.at.line) for each in found] == codes


@pytest.mark.parametrize(
    ("tools", "codes"),
    [
        pytest.param({"look_up_order": look}, [("unknown-tool", "pay_back")], id="one that is not there"),
        pytest.param({"lookup_order": look, "pay_back": PAY}, [("unknown-tool", "look_up_order")] * 2, id="misspelt"),
        pytest.param(None, [], id="nobody knows"),
        pytest.param("nowhere", [("unreadable-file", "nowhere")], id="a source that is not there"),
    ],
)
def test_tools_that_do_not_exist(tmp_path: Path, tools: object, codes: list[tuple[str, str]]) -> None:
    findings = checked(tmp_path, GOOD, tools=tools)
    assert [each.code for each in findings.found] == [code for code, _ in codes]
    assert all(name in each.what for each, (_, name) in zip(findings.found, codes, strict=True))
    assert all("Did you mean lookup_order?" in each.remedy for each in findings.found if "look_up" in each.what)
    assert bool(findings.notes[:1] and "--tools" in findings.notes[0]) is (tools is None)


def test_a_reply_asks_for_a_fact_that_no_tool_gives(tmp_path: Path) -> None:
    def look_up_order(order_id: str) -> dict[str, str]:
        return {"order_id": order_id}

    text = GOOD.rstrip() + "\n  reply: Your order {order_id} is at {place}.\n"
    tools = {"look_up_order": look_up_order, "pay_back": PAY}
    found = checked(tmp_path, text, tools=tools).found
    assert [(each.code, each.at.line) for each in found if "{place}" in each.what] in ([("unknown-fact", 14)], [])


CASES = """
- {request: "Where is it??", expect: [track_order]}
- {request: unlike all of them, expect: [trak_order]}
- {request: which one, expect: [track_order]}
- {request: "which  one", expect: [refund_order]}
- {reqest: x, expect: []}
"""


@pytest.mark.spec("007.1")
def test_cases_beside_the_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "cases" / "all.yaml"
    file.parent.mkdir()
    file.write_text(CASES, encoding="utf-8")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.yaml").write_text(GOOD, encoding="utf-8")
    given = [file, tmp_path / "none.yaml", Case(request="MY PARCEL IS LATE", expect=("track_order",))]
    findings = check(tmp_path / "flows", cases=given, embedder=HashEmbedder())
    assert [(each.code, each.place) for each in findings.found] == [
        ("unreadable-file", "none.yaml"),
        ("invalid-case", "cases/all.yaml:3"),
        ("invalid-case", "cases/all.yaml:6"),
        ("contradicting-cases", "cases/all.yaml:5"),
        ("leaked-case", "cases/all.yaml:2"),
        ("leaked-case", "flows/a.yaml:12"),
    ]


def test_a_finding_can_be_accepted_and_what_is_accepted_in_vain_is_told(tmp_path: Path) -> None:
    (tmp_path / "flows.yaml").write_text(edited("has the van left", "This coat goes back!"), encoding="utf-8")
    ignore = ["shared-example:track_order, refund_order", "near-twins:track_order,b", "placeholder", "near-twins:c,d"]
    findings = check(tmp_path, embedder=HashEmbedder(), ignore=ignore)
    assert [each.key for each in findings.accepted] == ["shared-example:refund_order,track_order"]
    assert [each.code for each in findings.found] == ["unused-ignore", "unused-ignore"]
    other = check(
        tmp_path, embedder=HashEmbedder(), ignore=["shared-example:track_order,other"], only=["shared-example"]
    )
    assert [each.code for each in other.found] == ["shared-example"]


@pytest.mark.parametrize(
    ("ignore", "only", "said"),
    [
        pytest.param(["near-twin"], [], "did you mean 'near-twins'", id="a code that is misspelt"),
        pytest.param([], ["nothing"], "there are unreadable-file", id="no code"),
        pytest.param(["near-twins:"], [], "names no flow", id="no flow"),
    ],
)
def test_a_code_that_is_none_is_refused(tmp_path: Path, ignore: list[str], only: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(tmp_path, ignore=ignore, only=only)


@pytest.mark.parametrize("source", ["nowhere", "no/such/folder", "", "."])
def test_where_there_are_no_flows_there_is_nothing_to_judge(source: str) -> None:
    with pytest.raises(FlowLoadError):
        check(source, embedder=HashEmbedder())


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        pytest.param("flows.yaml", "flows: [}", "unreadable-file", id="no YAML"),
        pytest.param("flows.json", '{"name": "a\\ud800", "description": "x"}', "invalid-flow", id="half a character"),
    ],
)
def test_where_no_flow_loads_it_is_told_why(tmp_path: Path, name: str, text: str, code: str) -> None:
    found = checked(tmp_path, text, name=name)
    assert ({each.code for each in found.found}, found.flows) == ({code}, 0)


def test_findings_are_values_that_travel(tmp_path: Path) -> None:
    text = GOOD.replace("has the van left", "'[bold]</td><script>alert(1)</script>\\u202e TODO'")
    findings = checked(tmp_path, text.replace("'[bold]", '"[bold]').replace("TODO'", 'TODO"'))
    assert [each.code for each in findings.found] == ["prompt-injection", "hidden-characters", "placeholder"]
    told = orjson.loads(orjson.dumps(findings.to_dict()))
    assert told["counts"] == {"error": 1, "warning": 2, "note": 0}
    assert told["findings"][0]["evidence"][0]["cosine"] is None
    html = findings._repr_html_()  # pyright: ignore[reportPrivateUsage] - what a notebook calls
    assert "<script>" not in html
    assert "\u202e" not in html
    assert findings.at_least("warning") == findings.found
    assert findings.at_least(Severity.ERROR) == findings.found[:1]


def test_a_registry_is_judged_as_it_is() -> None:
    registry = FlowRegistry()
    load_flows(str(ROOT / "flows" / "seasonal.yaml"), registry)
    findings = check(registry, embedder=HashEmbedder())
    assert findings.flows == len(registry)
    assert [each.code for each in findings.found if each.severity is Severity.ERROR] == []
