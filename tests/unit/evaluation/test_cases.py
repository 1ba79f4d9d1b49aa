"""Files of cases: every format says the same, and what is wrong is told by file, entry and line."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jazz_select import Flow, FlowRegistry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import Case, case_schema, load_cases, read_cases

ROOT = Path(__file__).parents[3]


def registry_of(*names: str) -> FlowRegistry:
    made = FlowRegistry(min_examples=0)
    for name in names:
        aliases = ["money_back"] if name == "refund" else []
        Flow(name=name, description=f"All about {name}.", aliases=aliases, registry=made)
    return made


REGISTRY = registry_of("refund", "track", "invoice")
WANTED = (
    Case(request="give me my money back", expect=("refund",), id="r1", tags=("billing", "angry"), why="plain"),
    Case(request="where is it, and a bill, please", expect=("track", "invoice"), context={"level": 2}),
    Case(request="and that one?", expect=("track",), episodes=("A parcel; late.", "It was a book.")),
    Case(request="what is the capital of Peru", expect=()),
)
YAML = """
- request: give me my money back
  expect: refund
  id: r1
  tags: [billing, angry]
  why: plain
- {request: "where is it, and a bill, please", expect: [track, invoice], context: {level: 2}}
- {request: "and that one?", expect: track, episodes: [A parcel; late., It was a book.]}
- {request: what is the capital of Peru, expect: none}
"""
CSV = """request,expect,id,tags,why,episodes,context
give me my money back,refund,r1,billing;angry,plain,,
"where is it, and a bill, please",track|invoice,,,,,"{""level"": 2}"
and that one?,track,,,,A parcel; late.|It was a book.,
what is the capital of Peru,none,,,,,
"""
PLAIN = [
    {name: value for name, value in case.model_dump(mode="json").items() if value or name == "expect"}
    for case in WANTED
]


def as_semicolons() -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=";").writerows(csv.reader(io.StringIO(CSV)))
    return "\ufeff" + out.getvalue()  # as spreadsheets write it


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("cases.yaml", YAML, id="yaml"),
        pytest.param("cases.yml", yaml.safe_dump(PLAIN), id="yaml, lists written out"),
        pytest.param("cases.json", json.dumps(PLAIN), id="json"),
        pytest.param("cases.jsonl", "\n".join(map(json.dumps, PLAIN)) + "\n\n", id="a line each"),
        pytest.param("cases.csv", CSV, id="csv"),
        pytest.param("cases.csv", as_semicolons(), id="csv of a spreadsheet, with semicolons and a mark"),
        pytest.param("cases.tsv", CSV.replace(",", "\t").replace("it\t and a bill\t ", "it, and a bill, "), id="tsv"),
    ],
)
def test_every_format_holds_the_same(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert load_cases(file, REGISTRY) == WANTED
    assert read_cases(file, REGISTRY).problems == ()


@pytest.mark.parametrize(
    ("label", "expect"),
    [
        pytest.param("refund", ("refund",), id="a name"),
        pytest.param("[refund]", ("refund",), id="a list of one"),
        pytest.param("[refund, track, refund]", ("refund", "track"), id="a name twice is meant once"),
        pytest.param("[]", (), id="an empty list"),
        pytest.param("none", (), id="none"),
        pytest.param("None", (), id="none with a capital"),
        pytest.param("'-'", (), id="a dash"),
    ],
)
def test_a_label_is_written_as_people_write_it(tmp_path: Path, label: str, expect: tuple[str, ...]) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(f"- {{request: hi, expect: {label}}}\n", encoding="utf-8")
    assert load_cases(file, REGISTRY)[0].expect == expect


def test_a_flow_that_is_called_none_is_named_in_a_list(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text("- {request: hi, expect: [none]}", encoding="utf-8")
    assert load_cases(file, registry_of("none"))[0].expect == ("none",)


GOOD = "- {request: hi, expect: [refund]}\n"


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("- {request: x, expect: refnd}", "expect: there is no flow named 'refnd' in shop "
                     "(--flows loads others); did you mean 'refund'?", id="a flow that is gone"),
        pytest.param("- {request: x, expect: money_back}", "it is an alias of 'refund': write that", id="an alias"),
        pytest.param('- {request: x, expect: "a; b"}', "several names are written as a list", id="names in one text"),
        pytest.param("- {request: x}", "entry 2 (line 2): expect: is missing; write none", id="no label"),
        pytest.param("- {request: x, expect: }", "expect: is empty; write the name of a flow", id="empty label"),
        pytest.param("- {request: x, expect: [1]}", "expect.0: must be a text, got int 1; put quotes", id="a number"),
        pytest.param("- {request: x, expect: 7}", "expect: must be a list of texts, got int 7", id="no list"),
        pytest.param("- {request: x, expect: [''] }", "expect.0: is empty", id="an empty name"),
        pytest.param("- {request: '  ', expect: refund}", "request: is blank", id="a blank request"),
        pytest.param("- {expect: refund}", "request: is missing", id="no request"),
        pytest.param("- {request: x, expect: refund, tag: a}", "tag: is no field of a case; did you mean 'tags'?",
                     id="a misspelt field"),
        pytest.param("- {request: x, expect: refund, zzz: a}", "zzz: is no field of a case; there are context",
                     id="a field of something else"),
        pytest.param("- {request: x, expect: refund, context: yes}", "context: must be a mapping", id="context"),
        pytest.param("- just words", "(line 2): a case must be a mapping with request: and expect:", id="a text"),
        pytest.param("- {turns: []}", "jazz-select converse judges", id="a conversation"),
        pytest.param("- {request: HI, expect: track}", "entry 2 (line 2): expect: the same request expects refund in "
                     "entry 1 (line 1), and track here", id="two labels for one request"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_and_the_rest_is_read(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(f"{GOOD}{text}\n- {{request: bill, expect: invoice}}\n", encoding="utf-8")
    found = read_cases(file, REGISTRY, flows="shop")
    (problem,) = found.errors
    assert told in str(problem)
    assert str(problem).startswith(f"{file}, entry 2 (line 2): ")
    assert len(str(problem)) < 1_000
    assert (problem.to_dict()["entry"], problem.to_dict()["left_out"]) == (2, True)
    torn = "neither is judged" in str(problem)
    assert [case.request for case in found] == (["bill"] if torn else ["hi", "bill"])
    with pytest.raises(ConfigError) as raised:
        load_cases(file, REGISTRY, flows="shop")
    assert str(raised.value) == str(problem)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(GOOD + "- {request: x, expect: gone}\n- {request: y}\n", encoding="utf-8")
    assert [each.entry for each in read_cases(file, REGISTRY).problems] == [2, 3]
    with pytest.raises(ConfigError, match=r"entry 2 .* \(and 1 more problem\)$"):
        load_cases(file, REGISTRY)


def test_what_is_there_twice_is_noted_and_judged(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    text = "- {request: hi, expect: refund, id: 1}\n- {request: Hi, expect: refund}\n"
    text += "- {request: x, expect: track, id: 1}\n"
    file.write_text(text + "- {request: hi, expect: track, context: {known: true}}\n", encoding="utf-8")
    found = read_cases(file, REGISTRY)
    assert (len(found), found.errors) == (4, ())
    notes = [str(each).partition(": ")[2] for each in found.problems]
    assert notes == ["request: it is that of entry 1, and counts twice", "id: '1' is that of entry 1"]
    assert len(load_cases(file, REGISTRY)) == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("request,expect\nx,gone\n", "entry 1 (line 2): expect: there is no flow named 'gone'", id="gone"),
        pytest.param('request,expect\n"a\nb",refund\nx,gone\n', "entry 2 (line 4): expect", id="lines within a cell"),
        pytest.param("request,expect,context\nx,refund,{a: 1}\n", "context: must be a mapping", id="context"),
        pytest.param("request,expect,context\nx,refund,[1]\n", "context: must be a mapping", id="a list as context"),
        pytest.param("request,expect\nx,refund,y\n", "row: has 3 cells under 2 columns; put quotes", id="a comma"),
        pytest.param("request,expect\nx,\n", "expect: is empty; write", id="an empty label"),
        pytest.param("request,expect,expects\nx,refund,a\n", "column 'expects': is no field of a case; did you mean "
                     "'expect'?", id="another column"),
        pytest.param("text,label\nx,refund\n", "has no column 'request': its first line names text, label", id="head"),
        pytest.param("request,expect,expect\nx,refund,\n", "has two columns 'expect'", id="a column twice"),
        pytest.param('request,expect\n"x,refund\n', "is no CSV, line 2", id="an open quote"),
        pytest.param("", "holds no requests: its first line has to name the columns", id="nothing"),
        pytest.param("request,expect\n\n", "holds no requests", id="columns alone"),
    ],
)  # fmt: skip
def test_a_csv_that_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "cases.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_cases(file, REGISTRY)
    assert told in str(raised.value)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param("cases.json", "{", "is no JSON: Expecting", id="broken"),
        pytest.param("cases.jsonl", '{"request": "x", "expect": "refund"}\n{', "is no JSON Lines, line 2", id="a line"),
        pytest.param("cases.ndjson", "\n\n", "holds no requests", id="no line"),
        pytest.param("cases.json", '{"request": "x"}', "must hold a list of cases", id="one mapping"),
        pytest.param("cases.json", "[" * 100_000, "nested too deeply", id="too deep"),
        pytest.param("cases.json", '[{"request": "x", "request": "y"}]', "'request' stands twice", id="a key twice"),
        pytest.param("cases.json", "[]", "holds no requests", id="an empty list"),
        pytest.param("cases.json", "", "holds no requests", id="an empty file"),
        pytest.param("cases.yaml", "a: 1", "must hold a list of cases", id="a mapping"),
        pytest.param("cases.yaml", "- [", "is no YAML", id="no YAML"),
        pytest.param("cases.yaml", "- {request: a, expect: refund}\n" * 40_000, "or write it as .json or .csv, which "
                     "may hold 100,000 cases", id="too many for YAML"),
        pytest.param("cases.csv", "request,expect\n" + "x,refund\n" * 100_001, "more than 100,000 cases", id="many"),
        pytest.param("cases.csv", "x" * (33 << 20), "is larger than 32 MiB", id="too large"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, text: str, told: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_cases(file, REGISTRY)
    assert told in str(raised.value)
    assert len(str(raised.value)) < 1_000


def test_files_that_are_none(tmp_path: Path) -> None:
    for name in ("gone.csv", "gone.yaml", "."):
        with pytest.raises(ConfigError, match="cannot read the requests"):
            read_cases(tmp_path / name, REGISTRY)
    file = tmp_path / "latin.csv"
    file.write_bytes("request,expect\ncaf\xe9,refund\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="line 2 is not UTF-8"):
        read_cases(file, REGISTRY)


def test_a_large_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    cases = [{"request": f"request {number}", "expect": "refund"} for number in range(20_000)]
    file.write_text(json.dumps(cases), encoding="utf-8")
    assert len(read_cases(file, REGISTRY)) == 20_000


@given(st.text(max_size=60), st.sampled_from(["cases.csv", "cases.json", "cases.jsonl", "cases.yaml"]))
def test_whatever_a_file_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: str
) -> None:
    file = tmp_path_factory.mktemp("any") / name
    file.write_text("request,expect\n" + text if name.endswith("csv") else text, encoding="utf-8", errors="replace")
    try:
        found = read_cases(file, REGISTRY)
    except ConfigError:
        return
    assert all(set(case.expect) <= {"refund", "track", "invoice"} for case in found)


@pytest.mark.parametrize("file", ["examples/eval.yaml", "examples/requests.yaml", "examples/clinic/cases.yaml"])
def test_the_schema_takes_what_is_read(file: str) -> None:
    validator = Draft202012Validator(case_schema())
    validator.validate(yaml.safe_load((ROOT / file).read_text("utf-8")))  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize(
    "entry",
    [
        {"request": "x"},
        {"request": "x", "expect": [1]},
        {"request": "", "expect": []},
        {"request": "x", "expect": [], "y": 1},
    ],
)
def test_the_schema_refuses_what_is_refused(entry: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(case_schema())
    assert not Draft202012Validator(case_schema()).is_valid([entry])  # pyright: ignore[reportUnknownMemberType]
    with pytest.raises(ValueError, match="Case"):
        Case.model_validate(entry)
