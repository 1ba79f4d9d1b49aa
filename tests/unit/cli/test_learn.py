"""`jazz-select learn` and `jazz-select drift`: on a log that a selector kept."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from jazz_select import FlowSelector, ProceduralMemory, sync_registry
from jazz_select.build import load_registry
from jazz_select.evaluation import Learned, Overlay, Version, changed_overlay, learn, load_overlay
from jazz_select.evaluation.index import AGENT
from jazz_select.outcomes import OutcomeLog, Source
from tests.unit.cli.conftest import Jazz
from tests.vectors import EMBEDDER

SAID = {
    "refund_order": ["reimburse the kettle", "reimburse the purchase", "please reimburse it all", "[bold]reimburse[/]"],
    "track_order": ["the courier is absent", "courier went missing", "no courier so far", "courier location please"],
}


ADA, WEB = Source(kind="person", name="ada"), Source(kind="user", name="c-1", key="web")


async def kept(
    folder: Path, flows: Path, *, hostile: bool = False, corrected: bool = True, source: Source = ADA
) -> Path:
    """A log of requests, each with what was right for it."""
    path, registry = folder / "outcomes.db", load_registry(str(flows))
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "support", registry)
        async with FlowSelector(None, registry, memory, "support", log=path) as selector:
            for name, requests in SAID.items():
                for request in requests:
                    result = await selector.select(f"{request}\x1b[31m" if hostile else request)
                    if corrected:
                        await selector.feedback(result, right=name, source=source)
            await selector.select("sing a song")
    return path


@pytest.fixture
def log(jazz: Jazz) -> Path:
    return asyncio.run(kept(jazz.folder, jazz.flows))


def run(jazz: Jazz, *args: str, code: int = 0) -> Any:
    return jazz(*args, code=code, JAZZ_EMBEDDER=EMBEDDER, JAZZ_LEARNED=str(jazz.folder / "learned.yaml"), COLUMNS="200")


@pytest.mark.spec("007.5")
def test_learn_try_promote_sync_and_roll_back(jazz: Jazz, log: Path) -> None:
    file = jazz.folder / "learned.yaml"
    learned = run(jazz, "learn", str(log))
    assert "examples learned for" in learned.stdout
    assert "led to" in learned.stdout
    assert "person ada" in learned.stdout
    assert "learned.yaml, unless" in " ".join(run(jazz, "learn", "--help").stdout.replace("│", " ").split())
    assert "right first" in learned.stdout
    overlay = load_overlay(file)
    assert (overlay.live, overlay.shadow) == (0, 1)
    run(jazz, "sync", code=0)
    trial = orjson.loads(run(jazz, "learn", str(log), "--shadow", "--json").stdout)
    assert (trial["version"], trial["live"], trial["requests"]) == (1, 0, 9)
    assert "would have changed" in run(jazz, "learn", str(log), "--shadow").stdout
    promoted = run(jazz, "learn", "--promote").stdout
    assert f"version 1 ({load_overlay(file).versions[0].count} examples) is live; " in promoted
    assert "before: what the authors wrote. Your flows are unchanged." in promoted
    synced = orjson.loads(run(jazz, "sync", "--json").stdout)
    assert set(synced["updated"]) == set(load_overlay(file).versions[0].examples)
    assert orjson.loads(run(jazz, "learn", "--roll-back", "--json").stdout) == {"live": 0, "shadow": 0}
    assert run(jazz, "select", "refund my order").stdout
    assert orjson.loads(run(jazz, "sync", "--json").stdout)["updated"] == synced["updated"]


LISTS = ("learned", "waiting", "overruled", "taken_back", "unlearnable")


def ids_by_list(document: Any) -> dict[str, list[str]]:
    """The entries in each list of a `learn --json`."""
    return {name: sorted(entry for each in document[name] for entry in each["ids"]) for name in LISTS}


@pytest.mark.spec("007.5")
@pytest.mark.parametrize("told", [True, False], ids=["with the log", "without"])
def test_what_is_rolled_back_is_taken_back_in_the_log(jazz: Jazz, log: Path, *, told: bool) -> None:
    first = ids_by_list(orjson.loads(run(jazz, "learn", str(log), "--json").stdout))
    run(jazz, "learn", "--promote")
    where = [str(log), "--by", "ada"] if told else []
    shown = " ".join(run(jazz, "learn", *where, "--roll-back").output.split())
    again = orjson.loads(run(jazz, "learn", str(log), "--json").stdout)
    lists = ids_by_list(again)
    everything = sorted(entry for ids in first.values() for entry in ids)
    assert sorted(entry for ids in lists.values() for entry in ids) == everything, "each in exactly one list"
    if not told:
        assert "the log was not updated" in shown
        assert (lists, again["version"] is None) == (first, False)
        return
    assert f"{len(first['learned'])} requests marked in the log" in shown
    assert again["version"] is None
    assert (lists["learned"], set(lists["taken_back"]) >= set(first["learned"])) == ([], True)
    with OutcomeLog(log) as kept_log:
        kept_log.correct(lists["taken_back"][0], ["refund_order"], source=Source(kind="person", name="ada"))
    assert "1 example learned" in run(jazz, "learn", str(log)).stdout, "a person may say it anew"


def test_a_log_that_is_not_there_rolls_nothing_back(jazz: Jazz, log: Path) -> None:
    run(jazz, "learn", str(log))
    run(jazz, "learn", "--promote")
    assert "it is not there" in run(jazz, "learn", str(log) + "x", "--roll-back", code=2).stderr
    assert load_overlay(jazz.folder / "learned.yaml").live == 1


@pytest.mark.spec("007.5")
def test_a_sync_that_leaves_out_what_was_learned_says_so(
    jazz: Jazz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    version = Version(number=1, at="x", examples={"track_order": {"zzyzx qwerty": "id"}})
    tried = Overlay().start_trial(version)
    tried.save(Path("learned.yaml"))
    assert "learned" not in jazz("sync").output, "nothing is live"
    tried.promote().save(Path("learned.yaml"))
    for args in (["sync"], ["sync", "--json"]):
        shown = jazz(*args)
        assert "learned.yaml has 1 learned examples live" in " ".join(shown.output.split())
    assert "without them" not in jazz("sync", "--learned", "learned.yaml").output
    told = " ".join(jazz("select", "refund my order").output.split())
    assert "changed since the last sync" in told
    assert "indexes the flows without them" in told, "what it tells to run would unlearn"
    Path("learned.yaml").write_text("live: 4")
    assert "there is no version 4" in jazz("sync").output


@pytest.mark.spec("007.5")
def test_what_is_promoted_while_it_learns_stays_live(jazz: Jazz, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = jazz.folder / "learned.yaml"
    other = Version(number=1, at="x", examples={"track_order": {"zzyzx qwerty": "id"}})
    Overlay().start_trial(other).save(file)

    async def meanwhile(*args: Any, **options: Any) -> Learned:
        found = await learn(*args, **options)
        changed_overlay(file, Overlay.promote)
        return found

    with monkeypatch.context() as patched:
        patched.setattr("jazz_select.cli.learn_commands.learn", meanwhile)
        assert "became live meanwhile: learn again" in run(jazz, "learn", str(log), code=2).stderr
    assert load_overlay(file).shadow == 0, "what was learned beside another version is on no trial"
    run(jazz, "learn", str(log))
    kept = load_overlay(file)
    assert (kept.live, kept.shadow) == (1, 2)
    shadow = kept.version("shadow")
    assert shadow is not None
    assert shadow.after == 1
    assert "zzyzx qwerty" in shadow.examples["track_order"]


def test_what_is_learned_already_is_said_to_be(jazz: Jazz, log: Path) -> None:
    run(jazz, "learn", str(log))
    run(jazz, "learn", "--promote")
    again = run(jazz, "learn", str(log), "--json")
    document = orjson.loads(again.stdout)
    assert document["version"] is None
    assert document["nothing"]
    assert "nothing was learned: " in run(jazz, "learn", str(log)).stdout


@pytest.mark.spec("016.12")
def test_a_run_that_learned_nothing_leaves_a_state_that_the_next_commands_accept(jazz: Jazz) -> None:
    log = str(asyncio.run(kept(jazz.folder, jazz.flows, corrected=False)))
    missing = run(jazz, "learn", log, "--shadow", code=2).stderr
    assert "jazz-select learn LOG --learned" in " ".join(missing.split())
    assert "nothing was learned: " in run(jazz, "learn", log).stdout
    state = {"live": 0, "shadow": 0}
    assert "no version is on trial" in run(jazz, "learn", log, "--shadow").stdout
    assert orjson.loads(run(jazz, "learn", log, "--shadow", "--json").stdout) == state
    assert "what the authors wrote is live" in run(jazz, "learn", "--promote").stdout
    assert orjson.loads(run(jazz, "learn", "--promote", "--json").stdout) == state
    run(jazz, "sync")
    run(jazz, "check", "--fail-on", "never")
    run(jazz, "drift", log)


def ids_of(log: Path) -> dict[str, str]:
    """The ids of the corrected requests."""
    return {each.request: each.id for each in OutcomeLog.existing(log).read(corrected=True)}


@pytest.mark.spec("007.9", "016.3")
def test_what_users_said_waits_until_somebody_accepts_it(jazz: Jazz) -> None:
    log = asyncio.run(kept(jazz.folder, jazz.flows, source=WEB))
    first = run(jazz, "learn", str(log)).stdout
    assert "nothing was learned: of what is not learned already, 8 waiting for witnesses or a person" in first
    assert "1 of 2 independent witnesses" in first
    ids = ids_of(log)
    shown = ids["reimburse the kettle"][:8]
    assert shown in first
    told = orjson.loads(
        run(
            jazz, "learn", str(log), "--accept", shown, "--accept", ids["courier went missing"], "--by", "bob", "--json"
        ).stdout
    )
    assert {each["request"]: each["right"] for each in told["learned"]} == {
        "reimburse the kettle": ["refund_order"],
        "courier went missing": ["track_order"],
    }
    assert len(told["waiting"]) == 6
    entry = OutcomeLog.existing(log).get(ids["courier went missing"])
    assert entry is not None
    assert entry.corrected_by == Source(kind="person", name="bob")
    run(jazz, "learn", "--promote")
    undone = run(jazz, "learn", str(log), "--undo", shown)
    assert "1 taken out" in undone.stdout
    assert "by person command line" in undone.stdout
    run(jazz, "learn", "--promote")
    overlay = load_overlay(jazz.folder / "learned.yaml")
    live = overlay.version("live")
    assert live is not None
    assert live.examples == {"track_order": {"courier went missing": ids["courier went missing"]}}
    assert "nothing was learned" in run(jazz, "learn", str(log)).stdout, "what was taken back is not learned again"


@pytest.mark.spec("007.9")
def test_what_the_log_no_longer_has_can_be_taken_back(jazz: Jazz) -> None:
    log = str(asyncio.run(kept(jazz.folder, jazz.flows, corrected=False)))
    version = Version(number=1, at="x", examples={"track_order": {"zzyzx qwerty": "abcdefgh1 abcdefgh2"}})
    Overlay().start_trial(version).promote().save(jazz.folder / "learned.yaml")
    told = orjson.loads(run(jazz, "learn", log, "--undo", "abcdefgh2", "--json").stdout)
    assert (told["version"], told["taken_out"]) == (2, 1)


@pytest.mark.spec("007.9")
def test_what_it_costs_is_shown(jazz: Jazz) -> None:
    log = asyncio.run(kept(jazz.folder, jazz.flows))
    cases = jazz.folder / "cases.yaml"
    texts = ("reimburse this toaster", "the courier of my toaster", "reimburse that courier")
    asked = [{"request": text, "expect": ["track_order"]} for text in texts]
    cases.write_text(yaml.safe_dump(asked))
    shown = run(jazz, "learn", str(log), "--cases", str(cases)).stdout
    assert "8 examples learned for 2 flows; right first" in shown
    assert "would move" in shown
    assert "away from what is right" in shown


def test_labelled_requests_are_not_learned(jazz: Jazz, log: Path) -> None:
    cases = jazz.folder / "cases.yaml"
    cases.write_text(yaml.safe_dump([{"request": text, "expect": ["track_order"]} for text in SAID["refund_order"]]))
    document = orjson.loads(run(jazz, "learn", str(log), "--cases", str(cases), "--json").stdout)
    assert [each["right"] for each in document["learned"]] == [["track_order"]] * 4
    assert {each["why"] for each in document["unlearnable"]} == {"it is among the labelled requests"}


def test_what_users_wrote_does_not_act_on_the_terminal(jazz: Jazz) -> None:
    log = asyncio.run(kept(jazz.folder, jazz.flows, hostile=True))
    for args in (["learn", str(log)], ["learn", str(log), "--shadow"], ["drift", str(log)]):
        shown = run(jazz, *args)
        assert "\x1b" not in shown.output
        if args == ["learn", str(log)]:
            assert "[bold]reimburse[/]" in shown.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["learn"], "name the log to learn from", id="no log"),
        pytest.param(["learn", "nowhere.db"], "it is not there", id="a log that is not there"),
        pytest.param(["learn", "--promote"], "learned.yaml", id="nothing to promote"),
        pytest.param(["learn", "--promote", "--roll-back"], "pass one of", id="two at once"),
        pytest.param(["learn", "x.db", "--shadow", "--accept", "x"], "pass one of", id="a trial of what is accepted"),
        pytest.param(["drift", "nowhere.db"], "it is not there", id="drift of nothing"),
    ],
)
def test_misuse_is_told_in_one_line(jazz: Jazz, args: list[str], said: str) -> None:
    result = run(jazz, *args, code=2)
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_of_an_agent_without_entries_nothing_is_learned(jazz: Jazz, log: Path) -> None:
    learned = run(jazz, "learn", str(log), "--agent-id", AGENT)
    assert "the log has no corrections" in learned.stdout
    said = " ".join(learned.stderr.split())
    assert f"has no correction of agent {AGENT}, but" in said
    assert "of support: --agent-id support" in said
    assert "no entries for this agent" in run(jazz, "drift", str(log), "--agent-id", AGENT, code=2).stderr


@pytest.mark.spec("007.6")
def test_drift_shows_windows_flows_and_what_cannot_be_told(jazz: Jazz, log: Path) -> None:
    shown = run(jazz, "drift", str(log), "--days", "2", "--fail-on-alarm")
    assert "nothing to look at" in shown.stdout
    assert "right, as people said" in shown.stdout
    assert "no requests in the 2 days before" in shown.stderr
    document = orjson.loads(run(jazz, "drift", str(log), "--json").stdout)
    assert document["now"]["requests"] == 9
    assert document["before"]["requests"] == 0
    assert document["alarms"] == []


@pytest.mark.parametrize(("option", "said"), [("--accept", "nobody said"), ("--undo", "no corrected entry")])
def test_an_id_that_nobody_knows_is_refused(jazz: Jazz, log: Path, option: str, said: str) -> None:
    assert said in run(jazz, "learn", str(log), option, "nobody-knows-it", code=2).stderr
    assert not (jazz.folder / "learned.yaml").exists()


@pytest.mark.programs
@pytest.mark.spec("007.3", "007.4")
def test_what_users_asked_is_compared_and_suggested_from(jazz: Jazz, log: Path) -> None:
    after = jazz.folder / "after"
    after.mkdir()
    text = next(jazz.flows.glob("*.yaml")).read_text("utf-8")
    (after / "flows.yaml").write_text(text.replace("refund_order", "give_back"), "utf-8")
    found = orjson.loads(
        jazz("diff", str(jazz.flows), str(after), "--log", str(log), "--json", JAZZ_EMBEDDER=EMBEDDER).stdout
    )
    logged = [each["request"] for each in found["changes"] if each["source"] == "logged"]
    assert "sing a song" in logged or found["before"]["requests"] > len(SAID) * 4
    other = jazz("diff", str(jazz.flows), str(after), "--log", str(log), "--agent-id", "other", JAZZ_EMBEDDER=EMBEDDER)
    assert "has no request of agent other" in other.stderr
    told = jazz("suggest", "--log", str(log), "--flow", "refund_order", "--json", JAZZ_EMBEDDER=EMBEDDER)
    texts = [each["text"] for each in orjson.loads(told.stdout)["suggestions"]]
    assert "reimburse the kettle" in texts
    gone = jazz("suggest", "--log", str(jazz.folder / "gone.db"), code=2, JAZZ_EMBEDDER=EMBEDDER)
    assert "it is not there" in gone.stderr
