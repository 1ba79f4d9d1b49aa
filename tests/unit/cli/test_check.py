"""`jazz-select check`: exit codes, what it shows, the team's own rules, SARIF."""

from pathlib import Path

import orjson
import pytest

from jazz_select.errors import ConfigError
from jazz_select.evaluation import Gates
from jazz_select.evaluation.overlay import Overlay, Version, now
from jazz_select.evaluation.rules import Judging, rules
from jazz_select.outcomes import OutcomeLog
from jazz_select.values import Decision, Reason, Tier
from tests.unit.cli.conftest import Jazz

SHARED = """
flows:
  - name: return_lamp
    description: Take back a lamp.
    condition: A lamp has come and is to go again.
    desired_effects: [The lamp is back]
    examples: [I want my money back, this lamp goes, off with it, no lamp for me, "[bold red]take it"]
"""


@pytest.fixture
def shop(jazz: Jazz, monkeypatch: pytest.MonkeyPatch) -> Jazz:
    monkeypatch.chdir(jazz.folder)
    return jazz


def spoil(jazz: Jazz) -> None:
    (jazz.flows / "lamps.yaml").write_text(SHARED, encoding="utf-8")


@pytest.mark.spec("007.1")
def test_a_catalogue_in_order_exits_with_nothing(shop: Jazz) -> None:
    result = shop("check", "--embedder", "auto", "--only", "shared-example,invalid-flow")
    assert "nothing wrong in 3 flows" in " ".join(result.stdout.split())


@pytest.mark.spec("007.1")
def test_an_error_exits_with_one_and_says_where_and_what_to_do(shop: Jazz) -> None:
    spoil(shop)
    result = shop("check", "--only", "shared-example", code=1)
    assert "ERRORS" in result.stdout
    assert "flows/shop.yaml:" in result.stdout or "flows/lamps.yaml:" in result.stdout
    assert "→ Leave it to the flow that is right" in result.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param(["--fail-on", "never"], 0, id="never"),
        pytest.param(["--fail-on", "note"], 1, id="from notes on"),
        pytest.param(["--ignore", "shared-example"], 0, id="a kind accepted"),
        pytest.param(["--ignore", "shared-example:refund_order,return_lamp"], 0, id="one accepted"),
        pytest.param(["--ignore", "shared-example:refund_order,other"], 1, id="another accepted"),
        pytest.param(["--only", "placeholder"], 0, id="another kind"),
        pytest.param(["--fail-on", "sometimes"], 2, id="no level"),
        pytest.param(["--only", "shard-example"], 2, id="no kind"),
        pytest.param(["--flows", "flows", "flows"], 2, id="flows twice"),
        pytest.param(["nowhere"], 2, id="no flows"),
    ],
)
def test_what_fails(shop: Jazz, options: list[str], code: int) -> None:
    spoil(shop)
    only = [] if "--only" in options else ["--only", "shared-example"]
    shop("check", *only, *options, code=code)


@pytest.mark.spec("007.1")
def test_a_team_says_in_pyproject_what_it_accepts(shop: Jazz) -> None:
    spoil(shop)
    project = shop.folder / "pyproject.toml"
    project.write_text(
        '[tool.jazz-select.check]\nignore = ["shared-example:refund_order,return_lamp"]\n', encoding="utf-8"
    )
    assert "1 accepted" in shop("check", "--only", "shared-example").stdout
    project.write_text('[tool.jazz-select.check]\nfail-on = "never"\n', encoding="utf-8")
    shop("check", "--only", "shared-example")
    shop("check", "--only", "shared-example", "--fail-on", "error", code=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[tool.jazz-select]\ncheck = 1", "must be a table", id="no table"),
        pytest.param("[tool", "cannot read", id="no TOML"),
        pytest.param('[tool.jazz-select.check]\nignore = "x"', "ignore must be a list of strings", id="no list"),
        pytest.param(
            "[tool.jazz-select.check]\nignroe = []",
            "'ignroe' is no field of a table; did you mean 'ignore'?",
            id="a slip",
        ),
        pytest.param("[tool.jazz-select.check]\nembedder = 3", "embedder must be a name", id="no embedder"),
        pytest.param('[tool.jazz-select.check]\nembedder = "none"', "no such embedder", id="an embedder unknown"),
        pytest.param("[tool.jazz-select.check]\nfail-on = 3", "must be error, warning, note or never", id="no level"),
    ],
)
def test_rules_that_cannot_be_read_are_misuse(shop: Jazz, text: str, said: str) -> None:
    shop = Jazz(shop.folder)  # the environment would be heard first
    (shop.folder / "pyproject.toml").write_text(text, encoding="utf-8")
    assert said in shop("check", "--only", "invalid-flow,near-twins", code=2).stderr


def test_a_section_that_nobody_wrote_is_empty(tmp_path: Path) -> None:
    assert rules(Gates, "gates", file=tmp_path / "none.toml") == Gates()
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.jazz-select.gates]\nmin-recall-at-1 = 0.9\n", encoding="utf-8")
    assert rules(Gates, "gates", file=file) == Gates(min_recall_at_1=0.9)
    assert rules(Judging, "check", file=file) == Judging()
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        rules(Judging, "check", file=file)


@pytest.mark.spec("007.1")
def test_json_and_sarif_hold_all_of_it(shop: Jazz) -> None:
    spoil(shop)
    cases = shop.folder / "cases.yaml"
    cases.write_text('- {request: "THIS LAMP goes!", expect: [return_lamp]}\n', encoding="utf-8")
    result = shop("check", "--cases", str(cases), "--json", "--sarif", "out/check.sarif", code=1)
    told = orjson.loads(result.stdout)
    assert [each["code"] for each in told["findings"]][:1] == ["shared-example"]
    assert "leaked-case" in {each["code"] for each in told["findings"]}
    assert (told["flows"], told["cases"]) == (4, 1)
    written = orjson.loads((shop.folder / "out" / "check.sarif").read_bytes())
    assert len(written["runs"][0]["results"]) == len(told["findings"])
    assert str(shop.folder) not in orjson.dumps(written).decode()
    assert "cannot be written" in shop("check", "--sarif", "flows", "--only", "invalid-flow", code=2).stderr


def test_what_people_wrote_does_nothing_to_a_terminal(shop: Jazz) -> None:
    (shop.flows / "evil.yaml").write_text(
        '- {name: "[blink]x[/]", description: "TODO \\e[31m [red]y", condition: only here, desired_effects: [e], '
        "examples: [a b, c d, e f, g h, i j]}\n",
        encoding="utf-8",
    )
    shown = shop("check", "--only", "placeholder").stdout
    assert "[blink]x[/]" in shown
    assert "[red]y" in shown
    assert "\x1b" not in shown


def test_one_flow_is_one_flow(shop: Jazz) -> None:
    said = (
        "{name: only, description: It is alone., condition: They ask for it., desired_effects: [done], examples: [a]}"
    )
    (shop.folder / "one.yaml").write_text(said, encoding="utf-8")
    result = shop("check", "one.yaml", "--only", "invalid-flow", "--fail-on", "never")
    assert "in 1 flow of one.yaml" in " ".join(result.stdout.split())


@pytest.mark.spec("007.1")
def test_what_was_learned_is_checked_with_the_rest(shop: Jazz) -> None:
    lesson = Version(number=1, at=now(), examples={"refund_order": {"where is my parcel": ""}, "gone": {"x": ""}})
    Overlay(live=1, versions=(lesson,)).save(shop.folder / "learned.yaml")
    told = shop("check", "--json", "--fail-on", "never", JAZZ_LEARNED="learned.yaml")
    assert any("there is no such flow" in each for each in orjson.loads(told.stdout)["notes"])
    assert "no such flow" not in shop("check", "--json", "--fail-on", "never", JAZZ_LEARNED="other.yaml").stdout


def test_the_tools_beside_the_flows_are_those_that_flows_may_name(shop: Jazz) -> None:
    (shop.flows / "own_tools.py").write_text(
        "def look_up() -> str:\n    '''Look it up.'''\n    return ''\n\n\nTOOLS = [look_up]\n", "utf-8"
    )
    (shop.flows / "more.yaml").write_text(
        "- {name: weigh_parcel, description: Weigh a parcel., condition: A weight is wanted.,\n"
        "   desired_effects: [known], tools: [lok_up],\n"
        "   examples: [how heavy is it, weigh this, the weight please, grams of it, put it on scales]}\n",
        "utf-8",
    )
    found = orjson.loads(shop("check", "--only", "unknown-tool", "--json", code=1).stdout)["findings"]
    assert [(each["code"], each["flows"]) for each in found] == [("unknown-tool", ["weigh_parcel"])]
    assert "look_up" in str(found)


@pytest.mark.spec("016.5")
def test_what_is_decided_alone_is_told_and_is_no_finding(shop: Jazz) -> None:
    told = shop.json(dict, "check", "--fail-on", "error")["forecast"]
    assert told["max_error"] == 0.01
    assert "Examples, titles and aliases are decided without a model" in told["says"]
    shown = " ".join(shop("check").stdout.split())
    assert told["says"] in shown
    assert shop.json(dict, "check", JAZZ_POLICY="cautious")["forecast"]["max_error"] == 0.002
    assert shop.json(dict, "check", "--only", "placeholder")["forecast"] is None


@pytest.mark.spec("016.5")
@pytest.mark.parametrize("command", [["check"], ["sync"], ["eval", "cases.yaml"]], ids=lambda each: each[0])
def test_what_a_log_says_was_decided_alone_is_told(shop: Jazz, command: list[str]) -> None:
    (shop.folder / "cases.yaml").write_text("- {request: my money please, expect: refund_order}", encoding="utf-8")
    decided = Decision(tier=Tier.DETERMINISTIC, reason=Reason.EXAMPLE)
    with OutcomeLog(shop.folder / "outcomes.db") as log:
        for agent in ("support", "support", "sales"):
            log.record("my money", decided, agent_id=agent, chosen=["refund_order"])
        log.record("and now?", Decision(tier=Tier.GUIDED, reason=Reason.LLM, attempts=1), agent_id="support")
    counts = shop.json(dict, *command, "--log", "outcomes.db")["forecast"]["logged"]
    assert (counts["requests"], counts["alone"], counts["known"]) == (3, 2, 2)
    other = shop(*command, "--log", "outcomes.db", "--agent-id", "nobody")
    assert "outcomes.db has no request of agent nobody, but 1 request of sales" in " ".join(other.stderr.split())
    assert "nothere.db" in shop(*command, "--log", "nothere.db", code=2).stderr
