"""Commands of a cluster as processes: a sync publishes, a replica with these files comes up, another one does not."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep

import httpx
import pytest

from tests.postgres_server import PASSWORD, why_not
from tests.replicas import Cluster

pytestmark = [pytest.mark.programs, pytest.mark.timeout(300)]
_RUN = "from jazz_select.cli import app; app()"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(reason)
    with Cluster(tmp_path) as made:
        yield made


def _sync(cluster: Cluster, flows: Path) -> "subprocess.CompletedProcess[str]":
    variables = {
        **os.environ,  # noqa: TID251 - of a program that is started
        "JAZZ_DATABASE": cluster.database_url,
        "JAZZ_GRPC_PORT": str(cluster.qdrant.grpc_port),
        "JAZZ_AGENT_ID": "shop",
    }
    arguments = ["sync", "--flows", str(flows), "--url", cluster.qdrant.url, "--embedder", "static", "--json"]
    return subprocess.run(
        [sys.executable, "-c", _RUN, *arguments], env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.spec("021.2")
def test_what_a_sync_publishes_is_what_replicas_have_to_have(cluster: Cluster, tmp_path: Path) -> None:
    done = _sync(cluster, tmp_path / "flows")
    assert done.returncode == 0, done.stderr
    assert '"created": [' in done.stdout
    other = cluster.write_flows(tmp_path / "other", cluster.flows.replace("close my account", "shut my account"))
    begun = [cluster.begin(), cluster.begin(flows=other)]
    replica = cluster.await_address(begun[0])
    assert replica.get("/readyz").json() == {"status": "ready"}
    begun[1].communicate(timeout=120)
    assert begun[1].returncode == 2, "it does not come up"
    said = (tmp_path / "replica-2.log").read_text()
    assert "this replica has other flows of agent 'shop' than version 1 of the catalogue" in said
    assert "run jazz-select sync" in said.replace("\n", " ")
    asked = {"message": "close my account", "context": {"email": "ada@example.org"}}
    assert replica.post("/v1/turn", asked).json()["status"] == "confirming"
    for log in tmp_path.glob("*.log"):
        assert PASSWORD not in log.read_text()
        assert "p%40ss" not in log.read_text()


_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
_PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


def _until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(100):
        if holds():
            return
        sleep(0.1)
    pytest.fail(what)


@pytest.mark.spec("021.1")
def test_what_a_panel_teaches_all_have_and_what_it_collects_stays_with_its_replica(
    cluster: Cluster, tmp_path: Path
) -> None:
    begun = [
        cluster.begin("--config", "panel=true", JAZZ_SERVE_STATE=str(tmp_path / name)) for name in ("one", "other")
    ]
    one, other = map(cluster.await_address, begun)
    example = {"request": "gimme the whereabouts", "right": ["track_order"], "make": "example", "by": "ada"}
    assert one.post("/v1/panel/corrections", example).status_code == 201
    case = {"request": "has my box left", "right": ["track_order"], "make": "case", "by": "ada"}
    assert one.post("/v1/panel/corrections", case).status_code == 201

    def learned_there() -> bool:
        told = other.get("/v1/panel/corrections").json()["learned"]
        return any("gimme the whereabouts" in str(each) for each in told.values())

    _until(learned_there, "the other replica does not have what was learned")
    found = [each.get("/v1/panel/corrections").json()["collected"]["count"] for each in (one, other)]
    assert found == [1, 0], "cases are files of their replica"
    selected = other.post("/v1/select", {"request": "gimme the whereabouts"}).json()
    assert [each["flow_name"] for each in selected["chosen"]] == ["track_order"]


@pytest.mark.spec("021.1")
def test_a_session_of_mcp_is_unknown_to_another_replica_and_what_needs_none_is_answered_by_any(
    cluster: Cluster,
) -> None:
    one, other = cluster.start(2, "--mcp", "http")
    accepts = {"Accept": "application/json, text/event-stream"}
    opened = httpx.post(f"{one.root}/mcp/", json=_INITIALIZE, headers=accepts)
    session = {**accepts, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    assert httpx.post(f"{one.root}/mcp/", json=_PING, headers=session).status_code == 200
    # By the protocol a client that is told 404 begins a new session.
    assert httpx.post(f"{other.root}/mcp/", json=_PING, headers=session).status_code == 404
    assert other.post("/v1/select", {"request": "where is my parcel"}).status_code == 200


@pytest.mark.spec("021.1")
def test_whoever_lists_processes_or_reads_a_log_sees_no_password(cluster: Cluster) -> None:
    (replica,) = cluster.start(1)
    command = Path(f"/proc/{replica.popen.pid}/cmdline")
    if not command.exists():
        pytest.skip("this system shows no command lines in /proc")
    cluster.postgres.stop()
    _until(lambda: replica.get("/readyz").status_code == 503, "the replica is ready without its database")
    for shown in (command.read_text(), replica.log.read_text(), replica.get("/readyz").text):
        assert PASSWORD not in shown
        assert "p%40ss" not in shown
