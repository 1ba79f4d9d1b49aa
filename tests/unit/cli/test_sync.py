"""`jazz-select sync`: what changes is said by name."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.unit.cli import shapes
from tests.unit.cli.conftest import Jazz
from tests.unit.cli.shop import INVOICE, REFUND, TRACK, write_flows
from tests.vectors import EMBEDDER

NAMES = ("close_account", "refund_order", "track_order")


def changes(report: dict[str, list[str]]) -> dict[str, set[str]]:
    return {key: set(report[key]) for key in ("created", "updated", "deleted", "unchanged") if report[key]}


def test_each_flow_is_created_once_then_left_alone_then_what_changed_is_told(jazz: Jazz) -> None:
    everything = {"close_account", "refund_order", "track_order"}
    assert changes(jazz.json(shapes.Sync, "sync")) == {"created": everything}
    assert changes(jazz.json(shapes.Sync, "sync")) == {"unchanged": everything}
    write_flows(jazz.flows, REFUND.replace("Refund a", "Pay back a"), INVOICE)
    assert changes(jazz.json(shapes.Sync, "sync")) == {
        "created": {"invoice_copy"},
        "updated": {"refund_order"},
        "deleted": {"track_order"},
        "unchanged": {"close_account"},
    }


@pytest.mark.spec("016.5")
def test_a_sync_tells_what_is_decided_without_a_model(jazz: Jazz) -> None:
    told = jazz.json(shapes.Sync, "sync")["forecast"]
    assert told["max_error"] == 0.01
    assert "Examples, titles and aliases are decided without a model" in told["says"]
    assert jazz.json(shapes.Sync, "sync", "--dry-run")["forecast"] is None
    without_budget = jazz.json(shapes.Sync, "sync", JAZZ_POLICY="default")["forecast"]
    assert "no error budget is set" in without_budget["says"]


def test_the_summary_counts_and_names(jazz: Jazz) -> None:
    jazz("sync")
    write_flows(jazz.flows, REFUND, INVOICE)
    lines = [line.rstrip().split(maxsplit=2) for line in jazz("sync").stdout.splitlines()]
    assert lines[:4] == [
        ["created", "1", "invoice_copy"],
        ["updated", "0"],
        ["deleted", "1", "track_order"],
        ["unchanged", "2"],
    ]


def test_a_dry_run_says_the_same_and_writes_nothing(jazz: Jazz) -> None:
    report = jazz.json(shapes.Sync, "sync", "--dry-run")
    assert report["dry_run"] is True
    assert len(report["created"]) == 3
    assert not jazz.index.exists()
    jazz("sync")
    write_flows(jazz.flows, TRACK)
    assert "Nothing was written" in jazz("sync", "--dry-run").stdout
    assert jazz.json(shapes.Sync, "sync", "--dry-run")["deleted"] == ["refund_order"]
    assert len(jazz.json(shapes.Listing, "list")["flows"]) == 3


def test_agents_do_not_meet(jazz: Jazz) -> None:
    jazz("sync")
    write_flows(jazz.flows, INVOICE)
    assert set(jazz.json(shapes.Sync, "sync", "--agent-id", "other")["created"]) == {"close_account", "invoice_copy"}
    assert len(jazz.json(shapes.Listing, "list")["flows"]) == 3


def test_options_win_over_the_environment(jazz: Jazz) -> None:
    jazz("sync", "--index", str(jazz.folder / "elsewhere"), "--agent-id", "mine", JAZZ_AGENT_ID="theirs")
    assert not jazz.index.exists()
    listing = jazz.json(shapes.Listing, "list", JAZZ_INDEX=str(jazz.folder / "elsewhere"), JAZZ_AGENT_ID="mine")
    assert listing["agent_id"] == "mine"
    assert len(listing["flows"]) == 3


def test_an_index_that_is_named_wins_over_a_server_in_the_environment(jazz: Jazz) -> None:
    jazz("sync", "--index", str(jazz.index), JAZZ_URL="http://127.0.0.1:9")
    assert jazz.index.exists()


def test_by_default_the_flows_are_those_of_the_folder_here(jazz: Jazz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(jazz.folder)
    assert set(jazz.json(shapes.Sync, "sync", JAZZ_FLOWS=None)["created"]) == set(NAMES)


@pytest.mark.parametrize("command", [["sync"], ["select", "my money back"], ["graph"]], ids=lambda args: args[0])
def test_no_folder_here_is_never_a_package_from_elsewhere(
    jazz: Jazz, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    jazz("sync")
    other = jazz.folder / "importable"
    other.mkdir()
    write_flows(other / "flows", INVOICE)
    (other / "flows" / "__init__.py").write_text("TOOLS = [len]", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(other), *sys.path])
    (jazz.folder / "empty").mkdir()
    monkeypatch.chdir(jazz.folder / "empty")
    result = jazz(*command, code=2, JAZZ_FLOWS=None)
    assert "there is no folder flows here; name " in result.stderr
    assert command == ["graph"] or "name your flows with --flows or JAZZ_FLOWS" in result.stderr
    assert {flow["flow_name"] for flow in jazz.json(shapes.Listing, "list")["flows"]} == set(NAMES)


@pytest.mark.parametrize("where", ["flows", "flows.account"])
def test_a_package_is_found_in_the_working_directory(jazz: Jazz, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    package = jazz.folder / "shop_of_the_test"
    (package / "flows").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "flows" / "__init__.py").write_text("")
    (package / "flows" / "account.py").write_text((jazz.flows / "account.py").read_text("utf-8"), encoding="utf-8")
    monkeypatch.chdir(jazz.folder)
    assert jazz.json(shapes.Sync, "sync", "--flows", f"shop_of_the_test.{where}")["created"] == ["close_account"]


def many(number: int) -> list[str]:
    return [TRACK.replace("track_order", f"track_{each}") for each in range(number)]


@pytest.fixture
def another_catalogue(jazz: Jazz) -> Jazz:
    """Twelve flows are synced, and the folder has two others now."""
    write_flows(jazz.flows, *many(12))
    jazz("sync")
    write_flows(jazz.flows, REFUND)
    return jazz


@pytest.mark.spec("005.17")
def test_without_a_terminal_most_flows_are_not_deleted_unless_told_so(another_catalogue: Jazz) -> None:
    jazz = another_catalogue
    assert len(jazz.json(shapes.Sync, "sync", "--dry-run")["deleted"]) == 12, "the plan can be seen first"
    for more in ((), ("--json",)):
        result = jazz("sync", *more, stdin="y\n", code=2)
        assert "would delete 12 of the 13 flows of agent 'support': track_0, track_1, track_10, " in result.stderr
        assert "jazz-select sync --yes" in result.stderr
        assert len(jazz.json(shapes.Listing, "list")["flows"]) == 13
    report = jazz.json(shapes.Sync, "sync", "--yes")
    assert (len(report["deleted"]), report["created"]) == (12, ["refund_order"])


@pytest.mark.spec("005.17")
@pytest.mark.parametrize(
    ("others", "code"), [pytest.param(5, 0, id="five are deleted"), pytest.param(6, 2, id="six are not, unasked")]
)
@pytest.mark.parametrize(
    ("more", "told"), [((), "deleted what is not in "), (("--dry-run",), "would delete what is not in ")]
)
def test_what_one_file_leaves_out_is_deleted_and_named(
    jazz: Jazz, others: int, code: int, more: Sequence[str], told: str
) -> None:
    write_flows(jazz.flows, *many(others))
    (jazz.flows / "account.py").unlink()
    jazz("sync")
    one = jazz.folder / "one.yaml"
    write_flows(one.parent / "own", REFUND)
    next((one.parent / "own").glob("*.yaml")).rename(one)
    code = 0 if more else code
    result = jazz("sync", "--flows", str(one), *more, code=code)
    named = result.stderr if code else result.stdout
    assert all(f"track_{number}" in named for number in range(others))
    assert code or f"{told}{one}" in " ".join(result.stderr.split())
    kept = {flow["flow_name"] for flow in jazz.json(shapes.Listing, "list")["flows"]}
    assert kept == ({f"track_{number}" for number in range(others)} if code or more else {"refund_order"})


def _at_a_terminal(jazz: Jazz, answer: str, arguments: Sequence[str]) -> int:
    """The exit code of the command, with a terminal at which somebody types."""
    import pty  # not on Windows

    ours, theirs = pty.openpty()
    where = ["--index", str(jazz.index), "--flows", str(jazz.flows), "--embedder", EMBEDDER]
    command = [sys.executable, "-c", "from jazz_select.cli import app; app()", *arguments, *where]
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said = b""
    while b"[y/N]" not in said:  # an OSError where the process ends without asking
        said += os.read(ours, 1_000)
    os.write(ours, answer.encode() + b"\n")
    code = process.wait()
    os.close(ours)
    return code


ANSWERS = {
    "yes": ("Yes", 0, 2),
    "no": ("n", 2, 13),
    "nothing": ("", 2, 13),
    "more than a yes": ("yes. Then show me the weather", 2, 13),
}


@pytest.mark.programs
@pytest.mark.spec("005.17")
@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize(("answer", "code", "left"), ANSWERS.values(), ids=ANSWERS)
def test_at_a_terminal_it_asks(another_catalogue: Jazz, answer: str, code: int, left: int) -> None:
    jazz = another_catalogue
    assert _at_a_terminal(jazz, answer, ["sync"]) == code
    assert len(jazz.json(shapes.Listing, "list")["flows"]) == left


@pytest.mark.spec("005.17")
def test_tools_that_do_not_exist_are_found(jazz: Jazz) -> None:
    write_flows(jazz.flows, REFUND.rstrip() + "\n    tools: [look_up, issue_refund]\n    chain: [look_up]\n")
    (jazz.folder / "tools.py").write_text("def look_up(): ...\n\n\nTOOLS = [look_up]\n", encoding="utf-8")
    assert "whether the tools that a flow names exist was not checked" in jazz("sync", "--dry-run").stderr
    assert len(jazz.json(shapes.Sync, "sync", "--dry-run")["notes"]) == 1
    result = jazz("sync", "--tools", str(jazz.folder / "tools.py"), code=2)
    assert "names tools that are not connected: refund_order: issue_refund" in result.stderr
    both = "def look_up(): ...\ndef issue_refund(): ...\nTOOLS = [look_up, issue_refund]\n"
    (jazz.folder / "both.py").write_text(both, encoding="utf-8")
    assert jazz.json(shapes.Sync, "sync", "--tools", str(jazz.folder / "both.py"))["notes"] == []
