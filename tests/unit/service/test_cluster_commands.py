"""Commands of a cluster as processes: a sync publishes, a replica with these files comes up, another one does not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
