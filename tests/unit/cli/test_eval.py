"""`jazz-select eval` on labelled requests, and `jazz-select list`."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from jazz_select.evaluation.index import CACHE
from tests.unit.chat.decision_protocols import SYSTEM_ONE
from tests.unit.chat.loopback import Provider
from tests.unit.cli import shapes
from tests.unit.cli.conftest import MODEL_STRING, Jazz
from tests.unit.cli.shop import REFUND, TRACK, write_flows

CASES: list[dict[str, Any]] = [
    {"request": "give me my money back", "expect": "refund_order", "tags": ["money"]},
    {"request": "close my account", "expect": ["close_account"]},
    {"request": "close my account", "expect": ["close_account"], "context": {"authenticated": True}},
    {"request": "what is the capital of Peru", "expect": "none", "id": "peru"},
]
KEPT = {
    "agent_id", "embedder", "requests", "unlabelled", "recall_at_1", "recall_at_3", "mrr", "p50_s", "misses", "choices"
}  # fmt: skip
"""Keys that a major version keeps."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)  # where indexes are cached


def written(folder: Path, cases: list[dict[str, Any]], name: str = "cases.yaml") -> str:
    file = folder / name
    file.write_text(yaml.safe_dump(cases), encoding="utf-8")
    return str(file)


@pytest.fixture
def labelled(tmp_path: Path) -> str:
    return written(tmp_path, CASES)


def asked(jazz: Jazz, *args: str, **env: str | None) -> Any:
    return jazz.json(dict, "eval", *args, **env)


@pytest.mark.spec("007.2")
def test_the_flows_are_judged_as_they_are_written(jazz: Jazz, labelled: str) -> None:
    found = asked(jazz, labelled)
    assert not jazz.index.exists(), "nothing was synced"
    assert len(list((CACHE / "indexes").iterdir())) == 1
    assert found.keys() >= KEPT
    assert (found["requests"], found["unlabelled"], found["choices"]) == (4, 1, None)
    assert found["recall_at_1"] == pytest.approx(2 / 3)
    assert [(miss["expect"], miss["rank"]) for miss in found["misses"]] == [(["close_account"], None)]
    assert found["measures"]["R@1"]["cases"] == 3
    assert [group["name"] for group in found["groups"]] == ["all", "one", "tag:money"]
    write_flows(jazz.flows, REFUND.replace("refund_order", "pay_back"), TRACK)
    told = jazz("eval", labelled, code=1)
    assert "entry 1 (line 1): expect: there is no flow named 'refund_order'" in told.stderr
    assert re.search(r"^ ?all +3 ", told.stdout, re.MULTILINE), "the others are judged"


@pytest.mark.spec("016.5")
def test_what_was_decided_alone_stands_beside_what_was_expected(jazz: Jazz, labelled: str) -> None:
    told = asked(jazz, labelled)["forecast"]
    assert (told["max_error"], told["measured"]["requests"], told["logged"]) == (0.01, 4, None)
    shown = " ".join(jazz("eval", labelled).stdout.split())
    assert "alone Examples, titles and aliases are decided without a model" in shown
    assert "On these cases: " in shown
    assert "Decided alone: " in jazz("eval", labelled, "--config", "format=markdown").stdout
    assert 'name="decided alone"' in jazz("eval", labelled, "--config", "format=junit").stdout


@pytest.mark.spec("007.2")
def test_the_index_that_is_there_is_judged_where_it_is_named(shared: Jazz, labelled: str) -> None:
    found = asked(shared, labelled, "--index", str(shared.index))
    assert (found["agent_id"], found["recall_at_1"]) == ("support", pytest.approx(2 / 3))
    assert not CACHE.exists()
    text = shared("eval", labelled, "--index", str(shared.index)).stdout
    assert f"flows {shared.flows}, agent support, index {shared.index}" in text
    assert "has no flows in the index" in shared("eval", labelled, "--index", str(shared.folder / "no"), code=2).stderr


def test_the_table_fits_and_every_value_says_of_how_many(shared: Jazz, labelled: str) -> None:
    text = shared("eval", labelled).stdout
    assert max(len(line) for line in text.splitlines() if str(shared.folder) not in line) <= 80
    assert "66.7%" in text
    assert text.count(" miss ") == 1
    words = " ".join(text.split())
    assert '1 case expects none; without a model the answer is never "none"' in words
    assert "as they are written" in words
    assert "too few examples" in words, "the confidence of so small a catalogue is not known, and said not to be"


@pytest.mark.spec("007.2")
def test_top_k_and_policy_are_those_of_the_deployment(shared: Jazz, labelled: str) -> None:
    found = asked(shared, labelled, "--top-k", "1", "--config", "k=2", "--policy", "default", JAZZ_ON_ERROR="none")
    assert found["routing"] == {
        "top_k": 1,
        "rrf_k": 10,
        "policy": {"max_error": None, "on_empty": "top1", "on_error": "none", "ask_user": False},
    }
    assert found["measures"]["size"]["value"] == 1
    assert found["measures"]["unasked"]["value"] == 1, "there is nothing to choose among one"
    assert found["measures"]["R@2"]["value"] >= found["measures"]["R@k"]["value"] == found["recall_at_1"]


def test_eval_counts_the_choices_of_a_model(shared: Jazz, labelled: str, provider: Provider) -> None:
    provider.says("[]")
    found = asked(shared, labelled, "--llm", MODEL_STRING)
    assert found["recall_at_1"] == pytest.approx(2 / 3)
    choices = found["choices"]
    assert (choices["model"], choices["exact"], choices["failed"], choices["asked"]) == (MODEL_STRING, 2, 0, 3)
    assert choices["reasons"] == {"example": 1, "none": 3}
    assert choices["input_tokens"] > 0
    assert found["none"] == {"cases": 1, "answered": 3, "right": 1}
    shares = {name: found["measures"][f"none-{name}"]["value"] for name in ("precision", "recall", "F1")}
    assert shares == {"precision": pytest.approx(1 / 3), "recall": 1.0, "F1": 0.5}
    provider.fails(500)
    words = " ".join(shared("eval", labelled, "--llm", MODEL_STRING).stdout.split())
    assert "chose exactly the expected flows for 2 of 4, 3 calls failed" in words


@pytest.mark.spec("009.2")
@pytest.mark.parametrize("deployed", [False, True], ids=["as written", "deployed"])
def test_eval_asks_a_decision_model_without_a_budget_too(
    shared: Jazz, labelled: str, provider: Provider, *, deployed: bool
) -> None:
    index = ("--index", str(shared.index)) if deployed else ()
    provider.gives = lambda labels: {label: float(label == "none") for label in labels}
    found = asked(shared, labelled, *index, JAZZ_DECIDER=SYSTEM_ONE.model)
    assert set(provider.paths) == {SYSTEM_ONE.path}
    assert "decider" in [each["name"] for each in found["stages"]]
    assert found["choices"]["model"] == SYSTEM_ONE.model


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("floors", "code", "told"),
    [
        pytest.param(["R@1=.5", "MRR=60%"], 0, "", id="reached"),
        pytest.param(["r@1=.5,mrr=.9"], 1, "MRR is 0.667 of 3 cases, below 0.9", id="one is not"),
        pytest.param(["tag:money:R@1=1", "size=1"], 1, "size is 2.333 of 3 cases, above 1", id="a ceiling"),
        pytest.param(["none-AUROC=.9"], 1, "none-AUROC is not known: no case measures it", id="of nothing"),
        pytest.param(["recal=.5"], 2, "there is no measure recal ", id="misspelt"),
        pytest.param(["nonef1=.5"], 2, "(did you mean 'none-F1'?); there are R@1, R@3, R@5", id="nearly right"),
        pytest.param(["R@1"], 2, "write for example R@1=.8", id="no value"),
        pytest.param(["R@1=much"], 2, "'much' is no number such as .8 or 80%", id="no number"),
    ],
)
def test_floors(shared: Jazz, labelled: str, floors: list[str], code: int, told: str) -> None:
    options = [part for each in floors for part in ("--fail-under", each)]
    result = shared("eval", labelled, *options, code=code)
    assert told in result.stderr
    assert (result.stdout == "") == (code == 2)


@pytest.mark.spec("007.2")
def test_what_is_wrong_with_a_file_is_told_and_the_rest_judged(shared: Jazz, tmp_path: Path) -> None:
    more = [{"request": "x", "expect": "gone"}, {"request": "y"}, {"request": "z", "expect": "none", "context": "{"}]
    file = written(tmp_path, [*CASES, *more])
    result = shared("eval", file, "--json", code=1)
    found = json.loads(result.stdout)
    assert found["requests"] == 4
    assert [(each["entry"], each["left_out"]) for each in found["problems"]] == [(5, True), (6, True), (7, True)]
    assert result.stderr.count("left out: ") == 3
    only_wrong = shared("eval", written(tmp_path, more), code=2)
    assert "(the first of 3 problems)" in only_wrong.stderr
    twice = shared("eval", written(tmp_path, [*CASES, CASES[0]]))
    assert "note: " in twice.stderr


@pytest.mark.spec("007.2")
def test_formats_to_a_file_and_to_the_terminal(shared: Jazz, labelled: str, tmp_path: Path) -> None:
    printed = ET.fromstring(shared("eval", labelled, "--config", "format=junit").stdout)  # noqa: S314 - our own
    assert [case.get("name") for case in printed.iter("testcase")][-1] == "peru"
    assert (printed.get("tests"), printed.get("failures")) == ("4", "1")
    for name, begins in {"out.xml": "<?xml", "out.md": "### 4 requests", "out.json": "{", "out.txt": " "}.items():
        file = tmp_path / name
        assert "66.7%" in shared("eval", labelled, "--output", str(file)).stdout
        assert file.read_text("utf-8").startswith(begins)
    assert "66.7%" in (tmp_path / "out.txt").read_text("utf-8")
    assert json.loads((tmp_path / "out.json").read_text("utf-8"))["requests"] == 4
    assert "cannot be written" in shared("eval", labelled, "-o", str(tmp_path / "no" / "such" / "x.md"), code=2).stderr
    other = " ".join(shared("eval", labelled, "--config", "format=xml", code=2).stderr.split())
    assert "--config format: must be 'table', 'json', 'junit' or 'markdown', got 'xml'" in other
    assert "pass one of them" in shared("eval", labelled, "--config", "format=junit", "--json", code=2).stderr


def test_tags_pick_cases(shared: Jazz, labelled: str) -> None:
    assert asked(shared, labelled, "--tag", "money")["requests"] == 1
    assert (
        "has no case with the tag monye: there are money" in shared("eval", labelled, "--tag", "monye", code=2).stderr
    )


def test_every_flow_is_shown_on_request(shared: Jazz, labelled: str) -> None:
    shown = [
        line for line in shared("eval", labelled, "--config", "by_flow=true").stdout.splitlines() if " 100.0% " in line
    ]
    assert [line.split()[0] for line in shown if "refund" in line] == ["refund_order"]


def test_the_schema_is_printed_without_a_file(jazz: Jazz) -> None:
    schema = json.loads(jazz("schema", "cases").stdout)
    assert schema["items"]["required"] == ["request", "expect"]


def test_texts_of_others_stay_texts(shared: Jazz, tmp_path: Path) -> None:
    hostile = "[red]close[/red] \x1b[31m my | account <b>\n"
    file = written(tmp_path, [{"request": hostile, "expect": "close_account", "id": "[bold]i"}])
    text = shared("eval", file).stdout
    assert "\x1b" not in text
    assert "[red]close[/red]" in text
    assert "[bold]i" in text
    shown = shared("eval", file, "--config", "format=markdown").stdout
    assert "<b>" not in shown
    ET.fromstring(shared("eval", file, "--config", "format=junit").stdout)  # noqa: S314 - our own


def test_list_shows_what_is_in_the_index(shared: Jazz) -> None:
    listing = shared.json(shapes.Listing, "list")
    assert [flow["flow_name"] for flow in listing["flows"]] == ["close_account", "refund_order", "track_order"]
    text = shared("list").stdout
    assert "Refund a delivered order." in text
    assert "3 flows: agent support" in text


def test_an_agent_without_flows_has_an_empty_list(shared: Jazz) -> None:
    result = shared("list", "--agent-id", "nobody", "--json")
    assert '"flows": []' in result.stdout
    assert "run jazz-select sync --flows" in result.stderr


FACTORY = """
from jazz_select import Agent, FlowSelector

class Nobody(FlowSelector):
    async def select(self, *asked, **options):
        return await super().select("", **options)

async def make_agent(selector):
    return Agent(Nobody(None, selector.flow_registry))

def nothing(selector):
    return selector
"""


@pytest.mark.spec("014.1")
def test_the_selector_of_the_teams_own_agent_is_judged(jazz: Jazz, labelled: str, tmp_path: Path) -> None:
    (tmp_path / "judged_agent.py").write_text(FACTORY, "utf-8")
    choices = asked(jazz, labelled, "--agent", "judged_agent:make_agent")["choices"]
    assert (choices["exact"], choices["reasons"]) == (1, {"none": 4}), choices
    told = jazz("eval", labelled, "--agent", "judged_agent:nothing", code=2)
    assert "must give an Agent, got" in " ".join(told.stderr.split())
    told = jazz("eval", labelled, "--agent", "judged_agent:not_there", code=2)
    assert "has no attribute" in " ".join(told.stderr.split())
