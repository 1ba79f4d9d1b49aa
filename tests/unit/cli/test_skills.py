"""The commands on a folder of skills: as on one of flows."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from jazz_select import FlowSelector, ProceduralMemory, sync_registry
from jazz_select.build import load_registry
from jazz_select.evaluation import load_overlay
from jazz_select.outcomes import Source
from jazz_select.service.agents import AgentSource
from jazz_select.service.source_files import look
from jazz_select.settings import Settings
from tests.skills import write_refunds, write_skill
from tests.unit.chat.loopback import Provider
from tests.unit.cli.conftest import MODEL_STRING, Jazz
from tests.unit.evaluation.repository import Repository, repository
from tests.vectors import EMBEDDER

PARCELS = ["the courier is absent", "courier went missing", "no courier so far", "courier location please"]


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jazz:
    monkeypatch.chdir(tmp_path)
    made = Jazz(tmp_path, {"JAZZ_EMBEDDER": EMBEDDER, "COLUMNS": "200"})
    write_refunds(made.flows)
    write_skill(made.flows, "track-parcels", body="# Track\n\nWhere a parcel is, and when it comes.")
    write_skill(made.flows, "close-accounts", body="# Close\n\nA user leaves, and all data is to be gone.")
    return made


@pytest.mark.spec("020.1")
def test_check_names_what_is_left_out_and_checks_the_others(skills: Jazz) -> None:
    found = skills("check", str(skills.flows), "--embedder", EMBEDDER)
    assert "ERRORS" not in found.stdout
    assert "bare-skill" in found.stdout
    write_skill(skills.flows, "broken", "name: other\ndescription: d")
    found = skills("check", str(skills.flows), code=1)
    assert "flows/broken/SKILL.md: broken: name is other, and its folder" in found.stdout
    assert "in 3 flows of" in found.stdout


@pytest.mark.spec("020.1")
def test_eval_judges_and_select_finds_skills(skills: Jazz) -> None:
    cases = [
        {"request": "pay me back for the vase that has arrived", "expect": "process-refunds"},
        {"request": "where is my parcel", "expect": "track-parcels"},
        {"request": "delete all my data, I am leaving", "expect": "close-accounts"},
    ]
    (skills.folder / "cases.yaml").write_text(yaml.safe_dump(cases), "utf-8")
    found = skills.json(dict, "eval", "cases.yaml")
    assert (found["requests"], found["recall_at_1"]) == (3, 1.0)
    skills("sync")
    chosen = json.loads(skills("select", "money back for my order, it has arrived", "--json").stdout)
    assert chosen["chosen"][0]["flow_name"] == "process-refunds"


async def correct(skills: Jazz) -> None:
    """Keep a log of requests that recall may not find, each with what was right for it."""
    registry = load_registry(str(skills.flows))
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "support", registry)
        async with FlowSelector(None, registry, memory, "support", log=skills.folder / "log.db") as selector:
            for request in PARCELS:
                result = await selector.select(request)
                await selector.feedback(result, right="track-parcels", source=Source(kind="person", name="ada"))


@pytest.mark.spec("020.1")
def test_learn_adds_examples_beside_the_skills(skills: Jazz) -> None:
    asyncio.run(correct(skills))
    skills("learn", "log.db")
    skills("learn", "--promote")
    overlay = load_overlay(skills.folder / "learned.yaml").version("live")
    assert overlay is not None
    assert overlay.count >= 1
    skills("sync", "--learned", "learned.yaml")
    chosen = json.loads(skills("select", PARCELS[0], "--json").stdout)
    assert chosen["chosen"][0]["flow_name"] == "track-parcels"


@pytest.mark.spec("020.1")
def test_suggest_writes_examples_for_skills_without_any(skills: Jazz, provider: Provider) -> None:
    provider.says(json.dumps({"examples": ["where on earth is my parcel now", "when does the parcel come"]}))
    skills("suggest", "--flow", "track-parcels", "--llm", MODEL_STRING, "--output", "out.yaml")
    told = yaml.safe_load((skills.folder / "out.yaml").read_text("utf-8"))["suggestions"]
    assert {each["text"] for each in told["track-parcels"]["examples"]} == {
        "where on earth is my parcel now",
        "when does the parcel come",
    }


@pytest.mark.programs
@pytest.mark.spec("020.1")
def test_diff_shows_what_an_edit_of_a_skill_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: Repository = repository(tmp_path / "repo")
    write_refunds(made.folder / "skills")
    write_skill(made.folder / "skills", "track-parcels")
    made.git("add", ".")
    made.git("commit", "-qm", "skills")
    fields = "name: track-parcels\ndescription: Pays money back for an order that has arrived.\nlicense: MIT"
    write_skill(made.folder / "skills", "track-parcels", fields)
    (made.folder / "cases.yaml").write_text("- {request: where is my parcel, expect: track-parcels}\n", "utf-8")
    monkeypatch.chdir(made.folder)
    jazz = Jazz(made.folder, {"JAZZ_EMBEDDER": EMBEDDER, "JAZZ_FLOWS": "skills"})
    found = json.loads(jazz("diff", "--cases", "cases.yaml", "--json", code=0).stdout)
    assert found["after"]["flows"] == found["before"]["flows"] == 2
    assert "track-parcels (description)" in jazz("diff", "--cases", "cases.yaml").stdout


@pytest.mark.programs
@pytest.mark.spec("020.1")
def test_diff_compares_two_folders_of_skills_and_no_package_from_elsewhere(
    skills: Jazz, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = skills.folder / "later"
    write_skill(later, "track-parcels")
    write_skill(later, "close-accounts")
    (skills.folder / "hollow").mkdir()
    found = json.loads(skills("diff", "./flows", "./later", "--json").stdout)
    assert (found["before"]["flows"], found["after"]["flows"]) == (3, 2)
    assert "the folder './hollow' holds no flows" in skills("diff", "./later", "./hollow", code=2).stderr
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write_skill(elsewhere / "wares", "sell-wares")
    (elsewhere / "wares" / "__init__.py").write_text("", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    told = skills("diff", "./later", ".", "--flows", "wares", code=2).stderr
    assert "wares/sell-wares/SKILL.md, which is not of this version" in told


@pytest.mark.spec("020.1")
def test_what_is_served_has_the_tools_of_its_skills(skills: Jazz) -> None:
    source = AgentSource(settings=Settings(flows=str(skills.flows)))
    assert list(source.read().tools) == ["read_skill_file"]
    source = AgentSource(settings=Settings(flows=str(skills.flows), skill_scripts=True))
    assert list(source.read().tools) == ["read_skill_file", "process-refunds_total"]
    seen = look(source.places)
    assert len(seen) == 4, "each SKILL.md, and the script"
    write_skill(skills.flows, "track-parcels", body="# Another")
    assert look(source.places) != seen
