"""`jazz-select sync`: what changes is said by name."""

import sys

import pytest

from jazz_select.cli import wire
from tests.unit.cli.conftest import Jazz
from tests.unit.cli.shop import INVOICE, REFUND, TRACK, write_flows

NAMES = ("close_account", "refund_order", "track_order")


def changes(report: dict[str, list[str]]) -> dict[str, set[str]]:
    return {key: set(report[key]) for key in ("created", "updated", "deleted", "unchanged") if report[key]}


def test_each_flow_is_created_once_then_left_alone_then_what_changed_is_told(jazz: Jazz) -> None:
    everything = {"close_account", "refund_order", "track_order"}
    assert changes(jazz.json(wire.Sync, "sync")) == {"created": everything}
    assert changes(jazz.json(wire.Sync, "sync")) == {"unchanged": everything}
    write_flows(jazz.flows, REFUND.replace("Refund a", "Pay back a"), INVOICE)
    assert changes(jazz.json(wire.Sync, "sync")) == {
        "created": {"invoice_copy"},
        "updated": {"refund_order"},
        "deleted": {"track_order"},
        "unchanged": {"close_account"},
    }


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
    report = jazz.json(wire.Sync, "sync", "--dry-run")
    assert report["dry_run"] is True
    assert len(report["created"]) == 3
    assert not jazz.index.exists()
    jazz("sync")
    write_flows(jazz.flows, TRACK)
    assert "Nothing was written" in jazz("sync", "--dry-run").stdout
    assert jazz.json(wire.Sync, "sync", "--dry-run")["deleted"] == ["refund_order"]
    assert len(jazz.json(wire.Listing, "list")["flows"]) == 3


def test_agents_do_not_meet(jazz: Jazz) -> None:
    jazz("sync")
    write_flows(jazz.flows, INVOICE)
    assert set(jazz.json(wire.Sync, "sync", "--agent", "other")["created"]) == {"close_account", "invoice_copy"}
    assert len(jazz.json(wire.Listing, "list")["flows"]) == 3


def test_options_win_over_the_environment(jazz: Jazz) -> None:
    jazz("sync", "--index", str(jazz.folder / "elsewhere"), "--agent", "mine", JAZZ_AGENT_ID="theirs")
    assert not jazz.index.exists()
    listing = jazz.json(wire.Listing, "list", JAZZ_INDEX=str(jazz.folder / "elsewhere"), JAZZ_AGENT_ID="mine")
    assert listing["agent_id"] == "mine"
    assert len(listing["flows"]) == 3


def test_an_index_that_is_named_wins_over_a_server_in_the_environment(jazz: Jazz) -> None:
    jazz("sync", "--index", str(jazz.index), JAZZ_URL="http://127.0.0.1:9")
    assert jazz.index.exists()


def test_by_default_the_flows_are_those_of_the_folder_here(jazz: Jazz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(jazz.folder)
    assert set(jazz.json(wire.Sync, "sync", JAZZ_FLOWS=None)["created"]) == set(NAMES)


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
    assert {flow["flow_name"] for flow in jazz.json(wire.Listing, "list")["flows"]} == set(NAMES)


@pytest.mark.parametrize("where", ["flows", "flows.account"])
def test_a_package_is_found_in_the_working_directory(jazz: Jazz, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    package = jazz.folder / "shop_of_the_test"
    (package / "flows").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "flows" / "__init__.py").write_text("")
    (package / "flows" / "account.py").write_text((jazz.flows / "account.py").read_text("utf-8"), encoding="utf-8")
    monkeypatch.chdir(jazz.folder)
    assert jazz.json(wire.Sync, "sync", "--flows", f"shop_of_the_test.{where}")["created"] == ["close_account"]
