"""`jazz-select suggest`: a file for review, and nothing else that changes."""

from pathlib import Path

import orjson
import pytest
import yaml

from jazz_select.outcomes import OutcomeLog
from jazz_select.values import Decision, Reason, Tier
from tests.unit.chat.loopback import Provider
from tests.unit.cli.conftest import MODEL_STRING, Jazz

LABELLED = """
- {request: please reimburse me for the broken vase, expect: [refund_order]}
- {request: "[red]the sofa is ugly, give me the money", expect: [refund_order]}
- {request: is the parcel still on its way, expect: [track_order]}
- {request: one thing and another, expect: [refund_order, track_order]}
- {request: "yes, that one", expect: [track_order], episodes: [We asked which parcel.]}
"""


@pytest.fixture
def shop(jazz: Jazz, monkeypatch: pytest.MonkeyPatch) -> Jazz:
    monkeypatch.chdir(jazz.folder)
    (jazz.folder / "labelled.yaml").write_text(LABELLED, encoding="utf-8")
    with OutcomeLog(jazz.folder / "outcomes.db") as log:
        for each in yaml.safe_load(LABELLED):
            alone = "episodes" not in each
            entry = log.record(
                each["request"], Decision(tier=Tier.OPEN, reason=Reason.NONE), agent_id="support", alone=alone
            )
            log.correct(entry, each["expect"])
    return jazz


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.spec("007.4")
def test_suggestions_go_into_a_file_for_review_and_nowhere_else(shop: Jazz) -> None:
    before = files(shop.flows)
    options = ["--flow", "refund_order", "--log", "outcomes.db", "--output", "out/suggestions.yaml"]
    result = shop("suggest", *options)
    assert "[red]the sofa is ugly" in result.stdout
    assert "written to out/suggestions.yaml" in " ".join(result.stderr.split())
    told = yaml.safe_load((shop.folder / "out" / "suggestions.yaml").read_text("utf-8"))["suggestions"]
    assert set(told) == {"refund_order"}
    assert {each["text"] for each in told["refund_order"]["examples"]} == {
        "please reimburse me for the broken vase",
        "[red]the sofa is ugly, give me the money",
    }
    assert {name: text for name, text in files(shop.flows).items() if name in before} == before
    assert "is there already" in shop("suggest", *options, code=2).stderr


def test_cases_never_become_examples(shop: Jazz) -> None:
    found = shop("suggest", "--flow", "refund_order", "--log", "outcomes.db", "--cases", "labelled.yaml", "--json")
    told = orjson.loads(found.stdout)
    assert told["suggestions"] == []
    assert told["dropped"]["a case"] == 3


def test_a_model_writes_where_one_is_named(shop: Jazz, provider: Provider) -> None:
    provider.says('{"examples": ["send the money for my broken lamp back", "where is the parcel, please tell me"]}')
    found = shop("suggest", "--flow", "refund_order", "--llm", MODEL_STRING, "--json")
    told = orjson.loads(found.stdout)
    assert [(each["source"], each["part"]) for each in told["suggestions"]] in (
        [("model", "example")],
        [("model", "example")] * 2,
    )
    provider.fails(400)
    shown = shop("suggest", "--flow", "refund_order", "--llm", MODEL_STRING)
    assert "no examples were written for refund_order" in " ".join(shown.stderr.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--flow", "refund_ordr"], "did you mean", id="a flow that is misspelt"),
        pytest.param(["--log", "none.db"], "none.db", id="a file that is not there"),
        pytest.param(["--output", "flows"], "is there already", id="a folder to write to"),
    ],
)
def test_what_cannot_work_is_misuse(shop: Jazz, options: list[str], said: str) -> None:
    assert said in " ".join(shop("suggest", *options, code=2).stderr.split())


@pytest.mark.spec("007.4")
def test_a_teams_rules_count(shop: Jazz) -> None:
    project = shop.folder / "pyproject.toml"
    told = orjson.loads(shop("suggest", "--json", JAZZ_EMBEDDER=None).stdout)["wanting"]
    assert told
    kinds = ["thin-examples", "unreachable-flow", "near-twins", "same-condition", "vague-condition"]
    project.write_text(f"[tool.jazz-select.check]\nignore = {kinds}\n", encoding="utf-8")
    assert orjson.loads(shop("suggest", "--json", JAZZ_EMBEDDER=None).stdout)["wanting"] == {}
    project.write_text('[tool.jazz-select.check]\nembedder = "none"\n', encoding="utf-8")
    assert "no such embedder" in shop("suggest", code=2, JAZZ_EMBEDDER=None).stderr


def test_a_catalogue_that_wants_nothing_is_said_to_want_nothing(shop: Jazz) -> None:
    flows = Path(__file__).parents[3] / "examples" / "clinic" / "flows.yaml"
    found = shop("suggest", "--flows", str(flows), "--embedder", "static")
    assert "nothing to suggest: no flow is thin or collides (--flow NAME names one)" in " ".join(found.stdout.split())
