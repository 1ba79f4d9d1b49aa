"""docker-compose.yml, without Docker: checked against the compose schema, read closely, and its health check run."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
STORES = sorted(name for name in SERVICES if name.startswith("qdrant"))
CLUSTER = ["qdrant-1", "qdrant-2", "qdrant-3"]
REPLICAS = ["replica-1", "replica-2", "replica-3"]
WHOLE = sorted([*CLUSTER, *REPLICAS, "index", "postgres", "proxy"])

each_service = pytest.mark.parametrize("name", STORES)


def schema_check(file: Path) -> subprocess.CompletedProcess[str]:
    """Check a file against the compose schema that check-jsonschema ships."""
    program = shutil.which("check-jsonschema", path=Path(sys.executable).parent)
    assert program, "check-jsonschema belongs to the extra 'test'"
    return subprocess.run(
        [program, "--builtin-schema", "vendor.compose-spec", str(file)], capture_output=True, text=True, check=False
    )


def test_the_file_fits_the_compose_schema() -> None:
    done = schema_check(FILE)
    assert done.returncode == 0, done.stdout


def test_the_schema_check_can_fail(tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(FILE.read_text("utf-8").replace("restart:", "restrat:"), "utf-8")
    done = schema_check(broken)
    assert done.returncode == 1
    assert "restrat" in done.stdout


def has_compose() -> bool:
    docker = shutil.which("docker")
    return (
        bool(docker)
        and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not has_compose(), reason="no docker compose on this machine; the schema is checked all the same")
@pytest.mark.parametrize(
    ("profile", "services"), [("single", ["qdrant"]), ("nodes", CLUSTER), ("cluster", WHOLE), ("app", ["app"])]
)
def test_compose_itself_resolves_each_profile(profile: str, services: list[str]) -> None:
    command = ["docker", "compose", "--file", str(FILE), "--profile", profile, "config", "--services"]
    environment = {**os.environ, "JAZZ_API_KEY": "k", "JAZZ_SERVE_KEY": "k", "JAZZ_DATABASE_PASSWORD": "k"}  # noqa: TID251
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == services


@pytest.mark.spec("021.4")
def test_the_profiles_are_one_server_three_nodes_and_a_whole_cluster() -> None:
    by_profile = {
        profile: sorted(n for n, s in SERVICES.items() if profile in s["profiles"])
        for profile in ("app", "single", "nodes", "cluster")
    }
    assert by_profile == {"app": ["app"], "single": ["qdrant"], "nodes": CLUSTER, "cluster": WHOLE}


@pytest.mark.spec("021.4")
@pytest.mark.parametrize("name", REPLICAS)
def test_a_replica_owns_nothing_and_shows_no_secret(name: str) -> None:
    replica = SERVICES[name]
    options = replica["command"]
    assert "--database=postgresql://jazz@postgres/jazz" in options
    assert "--url=http://index:6333" in options
    assert "environment" not in replica, "whoever may inspect a container reads its variables"
    assert set(replica["secrets"]) == {"serve_key", "database_password", "qdrant_key"}
    assert [each for each in replica["volumes"] if not each.endswith(":ro")] == []
    assert replica["read_only"] is True
    assert replica["depends_on"].keys() >= {"postgres", "index"}


@pytest.mark.spec("021.4")
def test_the_proxy_leads_to_every_replica_and_repeats_no_turn() -> None:
    config = (ROOT / "examples" / "deploy" / "nginx.conf").read_text("utf-8")
    for name in REPLICAS:
        assert config.count(f"server {name}:8420") == 2
    index = (ROOT / "examples" / "deploy" / "nginx-index.conf").read_text("utf-8")
    for name in CLUSTER:
        assert f"server {name}:6333" in index
        assert f"server {name}:6334" in index
    assert "non_idempotent" not in config.replace("#", "")
    assert SERVICES["proxy"]["ports"] == ["127.0.0.1:8420:8420"]
    assert SERVICES["postgres"].get("ports") is None, "the database is reached by replicas alone"
    assert "POSTGRES_PASSWORD" not in SERVICES["postgres"]["environment"]


@each_service
def test_every_service_is_pinned_keyed_watched_and_private(name: str) -> None:
    service = SERVICES[name]
    image, tag = service["image"].split(":")
    assert image == "qdrant/qdrant"
    assert tag.removeprefix("v").replace(".", "").isdigit(), "a moving tag is no pin"
    assert service["environment"]["QDRANT__SERVICE__API_KEY"].startswith("${JAZZ_API_KEY:?"), "no server without a key"
    assert service["healthcheck"]["test"][0] == "CMD"
    assert [port.rpartition(":")[2] for port in service["ports"]] == ["6333", "6334"], "REST and gRPC, nothing else"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["volumes"] == [f"{name}:/qdrant/storage"]
    assert name in COMPOSE["volumes"]


def test_the_service_is_read_only_private_and_keyed() -> None:
    app = SERVICES["app"]
    assert app["profiles"] == ["app"]
    assert app["read_only"] is True
    assert app["cap_drop"] == ["ALL"]
    assert app["ports"] == ["127.0.0.1:8420:8420"]
    assert app["secrets"] == ["serve_key"]
    assert COMPOSE["secrets"]["serve_key"] == {"environment": "JAZZ_SERVE_KEY"}
    assert "environment" not in app, "whoever may inspect a container reads its variables"
    assert [each.partition(":")[0] for each in app["volumes"] if not each.startswith(".")] == ["jazz-select"]


def test_within_a_profile_no_two_services_want_one_port() -> None:
    ports = [port for name in CLUSTER for port in SERVICES[name]["ports"]]
    assert len(ports) == len(set(ports))


def test_server_and_client_are_no_more_than_one_minor_version_apart() -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split())
    client = pins["qdrant-client"].split(".")
    for service in map(SERVICES.__getitem__, STORES):
        server = service["image"].rsplit(":v", maxsplit=1)[1].split(".")
        assert server[0] == client[0]
        assert abs(int(server[1]) - int(client[1])) <= 1


@pytest.mark.parametrize("name", CLUSTER)
def test_every_node_of_the_cluster_says_where_it_is_and_whom_it_joins(name: str) -> None:
    service = SERVICES[name]
    program, *flags = service["command"]
    options = dict(zip(flags[::2], flags[1::2], strict=True))
    assert program == "./qdrant"
    assert service["environment"]["QDRANT__CLUSTER__ENABLED"] == "true"
    assert options["--uri"] == f"http://{name}:6335"
    if name == "qdrant-1":
        assert "--bootstrap" not in options
    else:
        assert options["--bootstrap"] == "http://qdrant-1:6335"
        assert service["depends_on"] == {"qdrant-1": {"condition": "service_healthy"}}


@contextmanager
def answering(status: int) -> Generator[int]:
    """A server on this machine that answers `/readyz` with this status; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def probe(port: int) -> int:
    """Run the health check as the container would, against this port."""
    words: list[str] = SERVICES["qdrant"]["healthcheck"]["test"][1:]
    words = [word.replace("$$", "$").replace("6333", str(port)) for word in words]
    return subprocess.run(words, capture_output=True, timeout=10, check=False).returncode


@pytest.mark.skipif(shutil.which("bash") is None, reason="the image has bash, this machine has not")
@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (401, False)])
def test_the_health_check_asks_whether_the_server_is_ready(status: int, healthy: bool) -> None:
    with answering(status) as port:
        assert (probe(port) == 0) is healthy


@pytest.mark.skipif(shutil.which("bash") is None, reason="the image has bash, this machine has not")
def test_the_health_check_fails_where_nobody_listens() -> None:
    with answering(200) as port:
        pass
    assert probe(port) != 0
