"""What the panel keeps: runs, cases and examples; written whole or not at all, and told when they cannot be."""

import asyncio
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml

from jazz_select.errors import ConfigError, UnreadableFileError
from jazz_select.evaluation.cases import load_cases, read_cases
from jazz_select.evaluation.learner import learn
from jazz_select.evaluation.overlay import load_overlay
from jazz_select.service.panel.runs import PanelFiles, files_of, is_file_name, read_run, replace_file
from jazz_select.values import Source
from tests.browser.serving import MARKUP, Service, served
from tests.unit.service.panel.test_panel_data import data, events

pytestmark = pytest.mark.spec("008.4")
BLUE = "Could I have the lamp in blue instead?"


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    with served(tmp_path) as service:
        yield service


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """One that nothing is written by."""
    with served(tmp_path_factory.mktemp("untouched")) as service:
        yield service


def correct(service: Service, request: str, *right: str, status: int = 201, **more: Any) -> Any:
    return data(service, "corrections", {"request": request, "right": right, **more}, status=status)


def finished(service: Service, run: str) -> Any:
    while "under_way" in (told := data(service, f"runs/{run}")):
        pass
    return told


def git(folder: Path, *words: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org", *words]
    subprocess.run(command, check=True)


# --- runs --------------------------------------------------------------------------------


def test_a_run_is_made_beside_what_is_answered_and_kept_as_a_file(service: Service) -> None:
    (cases,) = data(service, "runs")["cases"]
    run = data(service, "runs", {"kind": "eval", "cases": cases}, status=202)["id"]
    assert "is being made" in data(service, "runs", {"kind": "eval", "cases": cases}, status=400)["detail"]
    assert data(service, "try", {"request": BLUE})["candidates"]
    told = finished(service, run)["run"]
    assert told["requests"] == 120
    assert 0.3 < told["recall_at_1"] < 1
    assert orjson.loads((service.files.runs / f"{run}.json").read_bytes())["cases"] == cases
    (listed,) = data(service, "runs")["runs"]
    assert (listed["id"], listed["recall_at_1"]) == (run, told["recall_at_1"])


def test_results_of_the_command_line_are_shown_and_other_files_are_not(service: Service) -> None:
    folder = service.files.runs
    folder.mkdir()
    diff: dict[str, Any] = {
        "changes": [],
        "before": {},
        "after": {},
        "base": "HEAD",
        "head": ".",
        "summary": "",
        "passed": True,
    }
    (folder / "diff.json").write_bytes(orjson.dumps(diff))
    (folder / "broken.json").write_text("{", "utf-8")
    (folder / "other.json").write_text('{"measures": 7}', "utf-8")
    (folder / "list.json").write_text("[]", "utf-8")
    (service.files.runs.parent / "secret.json").write_text('{"measures": {}, "misses": [], "by_flow": []}', "utf-8")
    assert [each["id"] for each in data(service, "runs")["runs"]] == ["diff"]
    assert data(service, "runs/diff")["run"]["kind"] == "diff"
    data(service, "runs/other", status=400)
    for name in ("nobody", "..%2Fsecret", "%2E%2E%2Fsecret", ".hidden", "a" * 200):
        data(service, f"runs/{name}", status=404)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "eval", "cases": "../outcomes.db"},
        {"kind": "eval", "cases": "/etc/passwd"},
        {"kind": "eval"},
        {"kind": "other"},
    ],
    ids=repr,
)
def test_a_run_of_what_the_panel_does_not_know_is_refused(untouched: Service, body: dict[str, str]) -> None:
    assert data(untouched, "runs", body, status=400)["detail"]


def test_a_version_that_was_not_listed_is_not_compared(service: Service) -> None:
    run = data(service, "runs", {"kind": "diff", "base": "--output=x"}, status=202)["id"]
    assert "no commit" in finished(service, run)["failed"]


def test_a_run_that_fails_in_any_way_says_so(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        msg = "a fault of ours"
        raise RuntimeError(msg)

    monkeypatch.setattr(service.catalogue, "selector", fails)
    monkeypatch.setattr(service.catalogue.memory, "recall_many", fails)
    (cases,) = data(service, "runs")["cases"]
    run = data(service, "runs", {"kind": "eval", "cases": cases}, status=202)["id"]
    assert "a fault of ours" in finished(service, run)["failed"]
    assert data(service, "runs")["under_way"] is None


def test_a_run_ends_with_the_service_and_nothing_is_kept_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def never(*_: Any, **__: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("called off")

    with served(tmp_path) as service:
        monkeypatch.setattr(service.catalogue.memory, "recall_many", never)
        (cases,) = data(service, "runs")["cases"]
        data(service, "runs", {"kind": "eval", "cases": cases}, status=202)
        while not data(service, "runs")["under_way"]["total"]:
            pass
        service.stop()
        assert service.ended.wait(30)
    assert ended == ["called off"]
    assert not service.files.runs.exists()


def test_commits_are_those_of_the_repository_of_the_flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jazz_select.evaluation.changes.git_tree import commits_of

    flows = tmp_path / "shop" / "flows"
    flows.mkdir(parents=True)
    git(tmp_path / "shop", "init", "-q")
    for name in ("one", "two"):
        (flows / f"{name}.yaml").write_text("[]\n", "utf-8")
        git(tmp_path / "shop", "add", ".")
        git(tmp_path / "shop", "commit", "-qm", f"Flow {name}")
    git(tmp_path / "shop", "commit", "-qm", "Something else", "--allow-empty")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert [each.subject for each in commits_of(flows, most=5)] == ["Flow two", "Flow one"]
    assert [each.subject for each in commits_of(flows / "one.yaml", most=5)] == ["Flow one"]
    assert commits_of(elsewhere, most=5) == ()


def test_drift_is_told_of_a_log_and_of_none(service: Service) -> None:
    assert data(service, "drift") == {"has_log": True, "drift": None}
    correct(service, BLUE, "exchange_item")
    assert data(service, "drift?days=1")["drift"]["now"]["requests"] == 1
    for days in ("x", "0", "-1", "nan", "1e9"):
        assert data(service, f"drift?days={days}", status=400)["detail"]


# --- cases ---------------------------------------------------------------------------------


def test_a_case_is_appended_once_and_told_to_the_log(service: Service) -> None:
    told = correct(service, BLUE, "exchange_item", note="colours")
    assert told["is_new"]
    assert yaml.safe_load(told["text"]) == [{"request": BLUE, "expect": ["exchange_item"], "why": "colours"}]
    assert not correct(service, f"  {BLUE.upper()} ", "exchange_item")["is_new"]
    correct(service, "Is it raining on Mars?")
    cases = load_cases(service.files.collected, service.catalogue.live.registry)
    assert [case.expect for case in cases] == [("exchange_item",), ()]
    log = service.catalogue.log
    assert log is not None
    entries = {each.request: each for each in log.read()}
    assert entries[BLUE].right == ("exchange_item",)
    assert entries[BLUE].corrected_by == Source(kind="person")
    shown = data(service, "corrections")
    assert shown["collected"]["count"] == 2
    assert shown["log"]["entries"][0]["request"] == "Is it raining on Mars?"


@pytest.mark.parametrize(
    "text",
    [
        MARKUP,
        "- {request: x, expect: none}",
        'a "quoted" text: with # marks',
        "two\nlines\r\n--- and more",
        "{{ }} [] & * ! | > % @ `",
        "emoji 🎷 and \u2028 a line \u0085",
        "no",
        "1e3",
        "~",
    ],
    ids=repr,
)
def test_whatever_was_asked_comes_out_of_the_file_as_it_went_in(tmp_path: Path, text: str) -> None:
    from jazz_select.service.panel.teaching import CorrectionBody, add_case

    files = PanelFiles(collected=tmp_path / "cases.yaml", runs=tmp_path)
    for request in ("first", text, "last"):
        assert add_case({}, files, CorrectionBody(request=request), ())["is_new"]
    assert [case.request for case in load_cases(files.collected, None)] == ["first", text.strip(), "last"]


@pytest.mark.parametrize(
    ("request_", "right", "why"),
    [
        (BLUE, ("no_such_flow",), "there is no flow"),
        ("  ", (), "blank"),
        ("changed my mind after it arrived", ("refund_order",), "is an example of refund_order"),
        ("whats the status of my stuff", ("cancel_order",), "expects track_order"),
    ],
    ids=["no such flow", "blank", "an example", "another label"],
)
def test_a_case_that_would_do_harm_is_refused(
    untouched: Service, request_: str, right: tuple[str, ...], why: str
) -> None:
    assert why in correct(untouched, request_, *right, status=400)["detail"]
    assert not untouched.files.collected.exists()


def test_a_file_that_nothing_can_be_added_to_stays_as_it_is(service: Service) -> None:
    written = "[{request: one, expect: none}]\n"
    service.files.collected.write_text(written, "utf-8")
    assert "nothing can be added" in correct(service, BLUE, status=400)["detail"]
    assert service.files.collected.read_text("utf-8") == written
    assert list(service.files.collected.parent.glob(".*.cases.yaml")) == []


_FIRST = "- {request: first, expect: none}\n"
_MANY = f"- &many [{', '.join(['1'] * 990)}]\n" + "- *many\n" * 99 + f"- [{', '.join(['1'] * 890)}]\n"
FULL = {
    "bytes": (_FIRST + "#".ljust((4 << 20) - len(_FIRST) - 101, "x") + "\n", "larger than 4 MiB"),
    "values": (_FIRST + _MANY, "more than 100000 values"),
}


@pytest.mark.spec("013.5")
@pytest.mark.parametrize(("filled", "bound"), FULL.values(), ids=FULL)
def test_a_case_is_added_as_long_as_the_file_can_be_read(tmp_path: Path, filled: str, bound: str) -> None:
    from jazz_select.service.panel.teaching import CorrectionBody, add_case

    files = PanelFiles(collected=tmp_path / "cases.yaml", runs=tmp_path)
    files.collected.write_text(filled, "utf-8")
    with pytest.raises(UnreadableFileError, match=rf"cases\.yaml was left as it is.*{bound}.*`cases` of serve"):
        add_case({}, files, CorrectionBody(request="again " + "x" * 100), ())
    assert files.collected.read_text("utf-8") == filled
    assert read_cases(files.collected, None).cases[0].request == "first"
    assert list(tmp_path.glob(".cases.yaml.*")) in ([], [tmp_path / ".cases.yaml.lock"])
    files.collected.rename(tmp_path / "old.yaml")
    assert add_case({}, files, CorrectionBody(request="next"), ())["is_new"], "a new one is begun"


@pytest.mark.spec("013.5")
def test_a_run_that_could_not_be_shown_is_not_kept(tmp_path: Path) -> None:
    run: dict[str, object] = {"kind": "eval", "measures": {}, "misses": [], "by_flow": {}, "notes": ["x" * (32 << 20)]}
    with pytest.raises(UnreadableFileError, match="larger than 32 MiB; judge fewer cases"):
        replace_file(tmp_path / "eval-1.json", orjson.dumps(run), read_run, advice="judge fewer cases at once")
    assert list(tmp_path.iterdir()) == []


# --- examples --------------------------------------------------------------------------------


def test_an_example_is_live_at_once(service: Service) -> None:
    request = "The zither wants tuning"
    before = data(service, "try", {"request": request})
    told = correct(service, request, "product_advice", make="example")
    assert (told["version"], told["generation"]) == (1, 2)
    after = data(service, "try", {"request": request})
    assert after["candidates"][0]["name"] == "product_advice" != before["candidates"][0]["name"]
    assert data(service, "corrections")["learned"]["examples"] == {"product_advice": [request]}
    assert correct(service, "My zither is out of tune", "product_advice", make="example")["version"] == 2
    assert data(service, "corrections")["learned"]["count"] == 2


ZITHER = "The zither wants tuning"


def said_of(service: Service, request: str) -> Any:
    """The entry of the log with this request."""
    (found,) = (each for each in data(service, "corrections")["log"]["entries"] if each["request"] == request)
    return found


@pytest.mark.spec("007.9", "016.3")
def test_what_is_taught_is_a_named_persons_word_and_can_be_taken_back(service: Service) -> None:
    before = data(service, "try", {"request": ZITHER})["candidates"][0]["name"]
    told = correct(service, ZITHER, "product_advice", make="example", by="ada")
    logged = said_of(service, ZITHER)
    assert "product_advice" not in logged["chosen"], "it is what was selected before it was taught"
    assert (logged["id"], logged["right"]) == (told["logged"], ["product_advice"])
    assert logged["by"]["corrected"] == "person ada"
    assert told["logged"] in service.learned.read_text("utf-8"), "it is known what it was learned from"
    assert data(service, "corrections")["learned"]["can_undo"]
    undone = data(service, "corrections/undo", {"by": "bob"})
    assert (undone["version"], undone["problems"]) == (0, [])
    assert data(service, "try", {"request": ZITHER})["candidates"][0]["name"] == before
    logged = said_of(service, ZITHER)
    assert (logged["right"], logged["by"]["corrected"]) == (None, "person bob"), "so it is not learned again"


@pytest.mark.spec("007.9")
def test_what_an_example_costs_is_told_and_does_not_stop_a_person(service: Service) -> None:
    vague = {"request": "help me please", "right": ["close_account"], "make": "example"}
    found = data(service, "corrections/rehearsal", vague)
    assert found["overrules"] == ""
    gain = found["cost"]["gain"]
    assert gain["requests"] > 100
    assert len(found["cost"]["lost"]) - len(found["cost"]["won"]) == round(
        (gain["before"] - gain["after"]) * gain["requests"]
    )
    assert correct(service, "help me please", "close_account", make="example")["is_new"]


@pytest.mark.spec("007.9", "016.3")
def test_what_was_learned_for_another_flow_is_overruled_with_a_name(service: Service) -> None:
    correct(service, ZITHER, "product_advice", make="example")
    other = {"request": f"{ZITHER}!", "right": ["gift_wrapping"], "make": "example"}
    assert data(service, "corrections/rehearsal", other)["overrules"] == "product_advice"
    refused = correct(service, f"{ZITHER}!", "gift_wrapping", make="example", status=400)
    assert "product_advice has learned it already: say who you are" in refused["detail"]
    assert correct(service, f"{ZITHER}!", "gift_wrapping", make="example", by="ada")["version"] == 2
    assert data(service, "corrections")["learned"]["examples"] == {"gift_wrapping": [f"{ZITHER}!"]}


@pytest.mark.spec("007.9")
def test_one_example_is_taken_back_and_the_others_stay(service: Service) -> None:
    for request in (ZITHER, "My zither is out of tune"):
        correct(service, request, "product_advice", make="example")
    told = data(service, "corrections/undo", {"request": "the zither wants tuning"})
    assert (told["version"], told["generation"]) == (3, 4)
    assert data(service, "corrections")["learned"]["examples"] == {"product_advice": ["My zither is out of tune"]}
    assert said_of(service, ZITHER)["right"] is None
    assert said_of(service, "My zither is out of tune")["right"] == ["product_advice"]
    again = data(service, "corrections/undo", {"request": ZITHER}, status=400)
    assert "nothing like" in again["detail"]


def learned_again(service: Service) -> Any:
    """What `learn` makes of the log and of what was learned before; None if that stays as it is."""
    log = service.catalogue.log
    assert log is not None
    entries = list(log.read(corrected=True))
    learning = learn(service.catalogue.live.registry, entries, overlay=load_overlay(service.learned), embedder="static")
    return asyncio.run(learning).version


@pytest.mark.spec("007.9", "016.3")
def test_what_is_restored_is_not_unlearned_by_what_the_log_says(service: Service) -> None:
    first = correct(service, ZITHER, "product_advice", make="example", by="ada")["logged"]
    other = correct(service, f"{ZITHER}!", "gift_wrapping", make="example", by="ada")["logged"]
    data(service, "corrections/undo", {"by": "bob"})
    assert data(service, "corrections")["learned"]["examples"] == {"product_advice": [ZITHER]}
    said = {each["id"]: each["right"] for each in data(service, "corrections")["log"]["entries"]}
    assert (said[first], said[other]) == (["product_advice"], ["product_advice"])
    assert learned_again(service) is None


@pytest.mark.spec("007.9", "016.3")
def test_an_example_that_was_taken_back_and_is_restored_stays(service: Service) -> None:
    correct(service, ZITHER, "product_advice", make="example", by="ada")
    data(service, "corrections/undo", {"request": ZITHER})
    assert said_of(service, ZITHER)["right"] is None
    data(service, "corrections/undo", {"by": "bob"})
    assert data(service, "corrections")["learned"]["examples"] == {"product_advice": [ZITHER]}
    assert said_of(service, ZITHER)["right"] == ["product_advice"]
    assert learned_again(service) is None


def test_the_same_example_twice_is_kept_once_and_read_once(service: Service) -> None:
    for is_new in (True, False):
        told = correct(service, "The zither wants tuning", "product_advice", make="example")
        assert (told["is_new"], told["version"]) == (is_new, 1)
    assert data(service, "state")["generation"] == 2
    assert data(service, "corrections")["learned"]["version"] == 1


@pytest.mark.parametrize("wrong", [ConfigError("no such flows"), RuntimeError("a flow's own fault")], ids=repr)
def test_an_example_that_cannot_be_read_anew_is_kept_and_not_live(service: Service, wrong: Exception) -> None:
    read = service.catalogue.read

    def fails() -> Any:
        raise wrong

    service.catalogue.read = fails
    told = correct(service, "The zither wants tuning", "product_advice", make="example")
    service.catalogue.read = read
    (problem,) = told["problems"]
    assert problem.startswith("kept, not live: ")
    assert str(wrong) in problem
    assert "generation" not in told
    assert data(service, "corrections")["learned"]["examples"] == {"product_advice": ["The zither wants tuning"]}
    assert data(service, "state")["generation"] == 1


@pytest.mark.parametrize(
    ("request_", "right", "why"),
    [
        (BLUE, (), "choose one flow"),
        (BLUE, ("exchange_item", "refund_order"), "choose one flow"),
        ("x " * 400, ("exchange_item",), "it has more than 500 characters"),
        ("12 34", ("exchange_item",), "it has no words"),
        ("changed my mind after it arrived", ("track_order",), "example of refund_order"),
        ("whats the status of my stuff", ("track_order",), "a case of"),
    ],
    ids=["none", "several", "long", "no words", "another's", "a case"],
)
def test_an_example_that_would_do_harm_is_refused(
    untouched: Service, request_: str, right: tuple[str, ...], why: str
) -> None:
    before = untouched.learned.read_text("utf-8")
    assert why in correct(untouched, request_, *right, make="example", status=400)["detail"]
    assert untouched.learned.read_text("utf-8") == before


# --- files -------------------------------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file.txt"
    replace_file(file, b"one", Path.read_bytes, advice="")
    with pytest.raises(ConfigError, match="cannot write"):
        replace_file(file / "below", b"two", Path.read_bytes, advice="")
    assert [each.read_text("utf-8") for each in file.parent.iterdir()] == ["one"]


def test_agents_have_files_of_their_own(tmp_path: Path) -> None:
    names = ["shop", "clinic", "../shop", "sh/op", "", "shop\x00", "a" * 300]
    homes = [files_of(name, tmp_path) for name in names]
    assert len({each.runs for each in homes}) == len({each.collected for each in homes}) == len(names)
    assert all(".." not in each.runs.parts and each.runs.parents[1] == tmp_path / "panel" for each in homes)
    assert [is_file_name(name) for name in names] == [True, True, False, False, False, False, False]


def test_the_catalogue_tells_folder_owner_traffic_and_recall_of_each_flow(service: Service) -> None:
    before = {each["name"]: each["chosen"] for each in data(service, "flows")["flows"]}
    selected = httpx.post(service.url.replace("/panel/", "/v1/select"), json={"request": "Where is my parcel?"})
    flows = data(service, "flows")["flows"]
    (chosen,) = selected.json()["chosen"]
    assert {each["name"]: each["chosen"] for each in flows} == before | {
        chosen["flow_name"]: before[chosen["flow_name"]] + 1
    }
    assert all(each["folder"] for each in flows)
    assert {each["owner"] for each in flows} == {"", "seasonal desk"}
    assert data(service, "flows/gift_wrapping")["owner"] == "seasonal desk"
    recalled = data(service, "findings")["recalled"]
    assert set(recalled) <= {each["name"] for each in flows}
    assert all(0 <= share <= 1 for share in recalled.values())


def test_a_guard_that_withholds_a_flow_is_named(service: Service) -> None:
    request = {"request": "I want to close my account", "context": {"authenticated": False}}
    withheld = data(service, "try", request)["withheld"]
    assert withheld[0] == data(service, "try", {"request": request["request"]})["candidates"][0]["name"]
    assert data(service, "try", {"request": request["request"], "context": {}})["withheld"] == []
    elsewhere = {"request": "Where is my parcel?", "context": {"authenticated": False}}
    assert data(service, "try", elsewhere)["withheld"] == [], "what is not near is not named"


def test_a_turn_names_the_flows_that_guards_withheld(service: Service) -> None:
    told = events(service, {"message": "I want to close my account", "context": {"authenticated": False}})
    (notes,) = [each["selection"]["notes"] for name, each in told if name == "finished"]
    assert [note for note in notes if note.startswith("not available in this context: ")]


@pytest.mark.parametrize(
    ("request_", "several"),
    [("Cancel my order. Where is my other parcel?", True), ("Where is my parcel?", False)],
    ids=["two wishes", "one wish"],
)
def test_a_second_wish_is_hinted_at(untouched: Service, request_: str, several: bool) -> None:
    assert data(untouched, "try", {"request": request_})["several"] is several


def test_runs_tell_how_the_cases_of_each_tag_are_found(service: Service) -> None:
    service.files.runs.mkdir()
    measures: dict[str, Any] = {
        "R@1": {"value": 0.9},
        "tag:vip:R@1": {"value": 0.5},
        "tag:vip:R@3": {"value": 0.8},
        "tag:a:b:R@1": {"value": 1.0},
        "tag:empty:R@1": {"value": None},
        "tag:odd:R@1": 7,
        "one:R@1": {"value": 0.7},
    }
    run: dict[str, Any] = {"measures": measures, "misses": [], "by_flow": [], "recall_at_1": 0.9}
    (service.files.runs / "eval-1.json").write_bytes(orjson.dumps(run))
    (told,) = data(service, "runs")["runs"]
    assert told["by_tag"] == {"vip": 0.5, "a:b": 1.0}


def test_a_reload_is_seen_by_whoever_asks_how_it_stands(service: Service) -> None:
    """The shell asks again and again, and has the page drawn anew where this number has changed."""
    before = data(service, "state")["generation"]
    service.reload()
    after = data(service, "state")["generation"]
    assert after > before
    assert data(service, "flows")["generation"] == data(service, "map")["generation"] == after
