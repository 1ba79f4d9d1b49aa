"""`jazz-select serve`: where it listens, whom it lets in, how it stops, and what is left where it is killed."""

import os
import re
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest

from jazz_select.settings import Settings
from tests.unit.cli.shop import INVOICE, REFUND, TRACK, write_flows
from tests.unit.service.processes import Process, refused, running

pytestmark = [
    pytest.mark.programs,
    pytest.mark.spec("008.1"),
    pytest.mark.skipif(os.name != "posix", reason="signals, and sockets in files"),
]
KEY = "0123456789abcdef"
ANYWHERE = "0.0.0.0"  # noqa: S104 - what is refused without a key
DIGEST = "ab" * 32
ASKED = {"request": "I want my money back"}
SLOW = """
from time import sleep
from pathlib import Path
from jazz_select import BaseFlow


class Slow(BaseFlow):
    name = "slow_flow"
    description = "Takes its time."
    condition = "Something slow is wanted."
    desired_effects = ["It is done"]
    examples = ["be slow", "take your time", "do it slowly", "no hurry at all", "go slow"]

    def available(self, context):
        if context.get("mark"):
            Path(context["mark"]).touch()
            sleep(1.5)
        return True
"""

HANGS = """
from pathlib import Path
from threading import Event

Path({mark!r}).touch()
Event().wait()
"""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in Settings.model_fields:
        monkeypatch.delenv(f"JAZZ_{name.upper()}", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the working directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_flows(tmp_path / "flows", REFUND, TRACK)
    return tmp_path


def chosen(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [each["flow_name"] for each in response.json()["chosen"]]


def once_mended(up: Process, agent: dict[str, str]) -> list[str]:
    """What a request for an invoice comes to, once the agent whose headers these are is served."""
    until = monotonic() + 30
    while True:
        answered = up.post("/v1/select", {"request": "send me the invoice"}, **agent)
        if answered.status_code != 503 or monotonic() >= until:
            return chosen(answered)
        sleep(0.05)


def test_it_says_where_it_answers_and_answers_there(folder: Path) -> None:
    with running(folder) as up:
        assert up.root.startswith("http://127.0.0.1:")
        assert chosen(up.post("/v1/select", ASKED)) == ["refund_order"]
        assert httpx.get(f"{up.root}/", follow_redirects=False).headers["location"] == "/panel/"
        second = refused(folder, "--port", "0")
        assert "is already open by" in second
        taken = refused(folder, "--port", up.root.rpartition(":")[2], "--index", str(folder / "other"))
        assert "cannot listen at 127.0.0.1" in taken
        up.popen.send_signal(signal.SIGTERM)
        assert up.ends() == 0
    assert "Traceback" not in (folder / "stderr").read_text()


def test_a_socket_in_a_file_is_for_its_owner_and_goes_with_the_process(folder: Path) -> None:
    file = folder / "serve.sock"
    for _ in range(2):  # killed the first time: what it leaves there is in nobody's way
        with running(folder, "--config", f"uds={file}") as up:
            assert up.root == f"unix:{file}"
            assert stat.S_IMODE(file.stat().st_mode) == 0o660
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(file)), base_url="http://shop") as client:
                assert chosen(client.post("/v1/select", json=ASKED)) == ["refund_order"]
            assert "another process listens there" in refused(folder, "--config", f"uds={file}")
    assert file.exists()
    with running(folder, "--config", f"uds={file}") as up:
        up.popen.send_signal(signal.SIGINT)
        assert up.ends() == 0
    assert not file.exists()


@pytest.mark.spec("008.4")
def test_what_the_panel_keeps_lies_in_the_folder_of_the_service(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = folder / "read-only"
    here.mkdir(mode=0o555)
    monkeypatch.chdir(here)
    monkeypatch.setenv("JAZZ_SERVE_STATE", str(folder / "state"))
    with running(folder) as up:
        told = up.post("/v1/panel/corrections", {"request": "Give me back what I paid", "right": ["refund_order"]})
        assert told.status_code == 201, told.text
        kept = folder / "state" / "panel" / Settings().agent_id
        assert told.json()["file"] == (kept / "cases.yaml").as_posix()
        run = up.post("/v1/panel/runs", {"kind": "eval", "cases": told.json()["file"]}).json()["id"]
        while "under_way" in httpx.get(f"{up.root}/v1/panel/runs/{run}").json():
            assert up.popen.poll() is None
        assert [each.name for each in (kept / "runs").iterdir()] == [f"{run}.json"]
    assert list(here.iterdir()) == []


@pytest.mark.spec("008.2")
def test_what_is_in_flight_is_finished_before_it_stops(folder: Path) -> None:
    (folder / "flows" / "slow.py").write_text(SLOW)
    mark = folder / "begun"
    said: list[list[str]] = []

    with running(folder, "--port", "0", "--config", "drain_s=0.3") as up:
        body = {**ASKED, "context": {"mark": str(mark)}}
        asking = threading.Thread(target=lambda: said.append(chosen(up.post("/v1/select", body))))
        asking.start()
        while not mark.exists() and asking.is_alive():
            asking.join(0.01)
        up.popen.send_signal(signal.SIGTERM)
        statuses = set(ready_until_it_ends(up))
        asking.join()
        assert up.ends() == 0
    assert said == [["refund_order"]]
    assert 503 in statuses, "who looks at /readyz sees that it will stop"


def ready_until_it_ends(up: Process) -> Iterator[int]:
    """What `/readyz` answers, as long as anybody does."""
    while True:
        try:
            yield httpx.get(f"{up.root}/readyz", timeout=10).status_code
        except httpx.TransportError:
            return


@pytest.mark.spec("008.5")
def test_a_module_that_never_comes_back_does_not_keep_it_alive(folder: Path) -> None:
    mark = folder / "hangs"
    with running(folder, "--port", "0", "--config", "reload=false", "--config", "stop_s=0.5") as up:
        (folder / "flows" / "hangs.py").write_text(HANGS.format(mark=str(mark)))
        asking = threading.Thread(target=lambda: suppressed(up))
        asking.start()
        while not mark.exists() and asking.is_alive():
            asking.join(0.01)
        assert chosen(up.post("/v1/select", ASKED)) == ["refund_order"], "what was live answers meanwhile"
        up.popen.send_signal(signal.SIGTERM)
        assert up.ends() == 0
        asking.join()
    assert mark.exists()


def suppressed(up: Process) -> None:
    """Ask for what will not be answered any more."""
    with suppress(httpx.TransportError):
        up.post("/v1/reload", None)


@pytest.mark.soak
def test_killed_under_load_it_comes_back_with_the_same_flows(folder: Path) -> None:
    failed: list[str] = []

    def load(up: Process) -> None:
        try:
            while True:
                chosen(up.post("/v1/select", ASKED))
        except httpx.TransportError as error:
            failed.append(type(error).__name__)

    with running(folder) as up:
        asking = [threading.Thread(target=load, args=(up,)) for _ in range(4)]
        for each in asking:
            each.start()
        chosen(up.post("/v1/select", ASKED))
        up.popen.kill()
        for each in asking:
            each.join()
    assert len(failed) == 4, "each client hears of it"
    with running(folder) as up:
        assert chosen(up.post("/v1/select", ASKED)) == ["refund_order"]
        listed = httpx.get(f"{up.root}/v1/flows").json()["flows"]
        assert [each["flow_name"] for each in listed] == ["close_account", "refund_order", "track_order"]
        assert httpx.post(f"{up.root}/v1/reload").json()["unchanged"] == [
            "close_account",
            "refund_order",
            "track_order",
        ]


def test_others_than_this_machine_need_a_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a key is needed" in refused(folder, "--host", ANYWHERE)
    with monkeypatch.context() as changed:
        changed.setenv("JAZZ_SERVE_KEY", "short")
        assert "at least 16 characters" in refused(folder)
    key = folder / "key"
    key.write_text(KEY * 70_000)
    assert "it is larger than 1 MiB" in refused(folder, "--key-file", str(key)).replace("\n", " ")
    key.write_text(f"{KEY}\n")
    with running(folder, "--host", ANYWHERE, "--port", "0", "--key-file", str(key)) as up:
        local = up.root.replace(ANYWHERE, "127.0.0.1")
        assert httpx.post(f"{local}/v1/select", json=ASKED).status_code == 401
        assert chosen(httpx.post(f"{local}/v1/select", json=ASKED, headers={"authorization": f"Bearer {KEY}"}))
        assert httpx.get(f"{local}/healthz").status_code == 200
    assert KEY not in (folder / "stderr").read_text()


@pytest.mark.spec("008.2")
def test_several_agents_each_with_a_key(folder: Path) -> None:
    write_flows(folder / "office", INVOICE)
    (folder / "office.key").write_text("the-key-of-the-office")
    (folder / "agents.yaml").write_text(
        "agents:\n"
        f"  shop: {{flows: flows, key_sha256: {sha256(KEY.encode()).hexdigest()}, log: shop.db}}\n"
        "  office: {flows: office, key_file: office.key}\n"
    )
    bill = {"request": "send me the invoice"}
    with running(folder, "--port", "0", "--agents", str(folder / "agents.yaml")) as up:
        shop, office = {"authorization": f"Bearer {KEY}"}, {"authorization": "Bearer the-key-of-the-office"}
        assert chosen(up.post("/v1/select", bill, **office)) == ["invoice_copy"]
        assert "invoice_copy" not in chosen(up.post("/v1/select", bill, **shop))
        assert up.post("/v1/select", ASKED, **shop).json()["logged"]
        assert not up.post("/v1/select", ASKED, **office).json()["logged"]


@pytest.mark.spec("008.5")
def test_most_flows_go_where_it_is_started_with_yes(folder: Path) -> None:
    write_flows(folder / "flows", *many_flows())
    with running(folder):
        pass
    write_flows(folder / "flows", REFUND)
    told = refused(folder, "--port", "0")
    assert "serve --config yes=true" in told
    assert told.count("this sync would delete") == 1
    with running(folder, "--port", "0", "--config", "yes=true") as up:
        assert chosen(up.post("/v1/select", ASKED)) == ["refund_order"]


def many_flows() -> list[str]:
    """More flows than are deleted without a word."""
    asked = ", ".join(f"please do thing NUMBER{way}" for way in (" now", " for me", " again", " today", " at once"))
    told = f"""
  - name: thing_NUMBER
    description: Do thing NUMBER.
    condition: The customer wants thing NUMBER.
    desired_effects: [Thing NUMBER is done]
    examples: [{asked}]
"""
    return [told.replace("NUMBER", str(number)) for number in range(12)]


@pytest.mark.spec("008.2")
def test_an_agent_whose_files_are_broken_stops_no_other(folder: Path) -> None:
    write_flows(folder / "office", "\n  - name: 7")
    (folder / "office.key").write_text("the-key-of-the-office")
    (folder / "agents.yaml").write_text(
        "agents:\n"
        f"  shop: {{flows: flows, key_sha256: {sha256(KEY.encode()).hexdigest()}}}\n"
        "  office: {flows: office, key_file: office.key}\n"
    )
    with running(folder, "--port", "0", "--agents", str(folder / "agents.yaml")) as up:
        shop, office = {"authorization": f"Bearer {KEY}"}, {"authorization": "Bearer the-key-of-the-office"}
        assert chosen(up.post("/v1/select", ASKED, **shop))
        down = up.post("/v1/select", ASKED, **office)
        assert (down.status_code, "shop.yaml" in down.json()["detail"]) == (503, True)
        write_flows(folder / "office", INVOICE)
        assert once_mended(up, office) == ["invoice_copy"]
    assert "live again: generation 1" in (folder / "stderr").read_text()


@pytest.mark.spec("008.2")
@pytest.mark.parametrize(
    ("entry", "said"),
    [("llm: nothing", "the model 'nothing' cannot be used"), ("log: flows", "flows")],
    ids=["model", "log"],
)
def test_an_agent_whose_model_or_log_cannot_be_used_stops_no_other(folder: Path, entry: str, said: str) -> None:
    (folder / "office.key").write_text("the-key-of-the-office")
    (folder / "agents.yaml").write_text(
        "agents:\n"
        f"  shop: {{flows: flows, key_sha256: {sha256(KEY.encode()).hexdigest()}}}\n"
        f"  office: {{flows: flows, key_file: office.key, {entry}}}\n"
    )
    with running(folder, "--port", "0", "--agents", str(folder / "agents.yaml")) as up:
        shop, office = {"authorization": f"Bearer {KEY}"}, {"authorization": "Bearer the-key-of-the-office"}
        assert chosen(up.post("/v1/select", ASKED, **shop))
        assert httpx.get(f"{up.root}/readyz").json() == {"status": "ready", "not_served": 1}
        for path, status in (("/v1/select", 503), ("/v1/reload", 409)):
            down = up.post(path, ASKED if path == "/v1/select" else {}, **office)
            assert (down.status_code, said in down.json()["detail"]) == (status, True)
            assert "start the service again" in down.json()["detail"]
    assert "agent office is not served until this is mended" in (folder / "stderr").read_text()


@pytest.mark.spec("008.2")
def test_an_agent_that_is_not_served_spoils_neither_mcp_nor_the_end(folder: Path) -> None:
    write_flows(folder / "office", "\n  - name: 7")
    (folder / "office.key").write_text("the-key-of-the-office")
    (folder / "agents.yaml").write_text(
        "agents:\n"
        f"  shop: {{flows: flows, key_sha256: {sha256(KEY.encode()).hexdigest()}}}\n"
        f"  desk: {{flows: flows, key_sha256: {DIGEST}, decider: nothing}}\n"
        "  office: {flows: office, key_file: office.key}\n"
    )
    with running(folder, "--port", "0", "--agents", str(folder / "agents.yaml")) as up:
        assert listed_over_mcp(up, KEY) == ["shop"]
        write_flows(folder / "office", INVOICE)
        assert once_mended(up, {"authorization": "Bearer the-key-of-the-office"}) == ["invoice_copy"]
        assert listed_over_mcp(up, "the-key-of-the-office") == ["office"], "once it is mended, it answers here, too"
        up.popen.send_signal(signal.SIGTERM)
        assert up.ends() == 0
    said = (folder / "stderr").read_text()
    assert "agent desk is not served until this is mended" in said
    assert "Traceback" not in said
    assert "could not be indexed" not in said


def listed_over_mcp(up: Process, key: str) -> list[str]:
    """The agent that answers this key at `/mcp`, as a client finds it."""
    told = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}
    heads = {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}
    answered = up.post("/mcp", body, **heads)
    assert answered.status_code == 200, answered.text
    return re.findall(r"jazz-select/(\w+)", answered.text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents: {}", "at least 1 item"),
        ("agents: {a: {flow: x}}", "agents.a.flow: Extra inputs are not permitted"),
        (
            "agents: {a: {flows: flows, flow: x}}",
            "there are flows, tools, factory, learned, evidence, log, llm, key_file",
        ),
        ("agents: {a: {flows: flows, cases: none.yaml}}", "there is no file of cases"),
        ("agents: {a: {flows: flows, max_error: 1%}}", "got '1%'; write a share from 0 to 1, such as 0.01"),
        ("agents: {a: {flows: flows, ask_user: maybe}}", "got 'maybe'; write true or false"),
        (f"agents: {{a: {{flows: flows, key_sha256: {DIGEST}, decider: nothing}}}}", "agents.yaml: agent a: the model"),
        ("agents: {a: {flows: flows, key_sha256: abc}}", "64 hexadecimal digits"),
        ("agents: {a: {flows: flows, key_file: none.key}}", "cannot be read"),
        ("agents: {a: {flows: flows}, b: {flows: flows}}", "has no key"),
        (
            f"agents: {{a: {{flows: flows, key_sha256: {DIGEST}}}, b: {{flows: flows, key_sha256: {DIGEST}}}}}",
            "one key",
        ),
        ("[", "agents.yaml is no YAML"),
        (f"agents: {{a: {{flows: flows, key_sha256: {DIGEST}}}}}\n" + "#" * (4 << 20), "it is larger than 4 MiB"),
    ],
)
def test_a_file_of_agents_that_cannot_work_is_refused(folder: Path, text: str, said: str) -> None:
    (folder / "agents.yaml").write_text(text)
    assert said in refused(folder, "--port", "0", "--agents", str(folder / "agents.yaml")).replace("\n", " ")


def test_options_that_cannot_work_are_refused(folder: Path) -> None:
    assert "there is no file of cases nope.yaml" in refused(folder, "--port", "0", "--config", "cases=nope.yaml")
    (folder / "agents.yaml").write_text("agents: {a: {flows: flows}}")
    given = ["--agents", str(folder / "agents.yaml"), "--flows", str(folder / "flows")]
    assert "its flows, tools, log" in refused(folder, "--port", "0", *given)


@pytest.mark.spec("008.2")
def test_the_panel_judges_each_agent_by_its_own_cases(folder: Path) -> None:
    (folder / "cases.yaml").write_text("cases:\n  - {request: money back please, flow: refund_order}\n")
    (folder / "agents.yaml").write_text(
        f"agents: {{shop: {{flows: flows, cases: cases.yaml, key_sha256: {sha256(KEY.encode()).hexdigest()}}}}}"
    )
    with running(folder, "--port", "0", "--agents", str(folder / "agents.yaml")) as up:
        known = httpx.get(f"{up.root}/v1/panel/state", headers={"authorization": f"Bearer {KEY}"}, timeout=40)
        assert "cases.yaml" in known.text
    said = (folder / "stderr").read_text()
    assert "3 flows have no chain of tools, and no model is there" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "def pay(amount: int) -> str:\n    return 'x'\nTOOLS = [pay, 42]\n",
            "its TOOLS: tools must be Tools or functions",
        ),
        ("TOOLS = 7\n", "its TOOLS: tools must be a list of Tools and functions"),
    ],
    ids=["one that is none", "no list"],
)
def test_tools_that_are_broken_are_not_left_out(folder: Path, text: str, said: str) -> None:
    (folder / "flows" / "tools.py").write_text(text)
    result = refused(folder, "--port", "0")
    assert said in result.replace("\n", " ")


def test_what_was_learned_need_not_be_there_yet(folder: Path) -> None:
    file = folder / "learned.yaml"
    with running(folder, "--port", "0", "--config", f"learned={file}", "--config", "reload=false") as up:
        assert "nothing was learned so far" in (folder / "stderr").read_text()
        file.write_text("format: 7")
        told = up.post("/v1/reload", None)
        assert (told.status_code, "learned.yaml" in told.json()["detail"]) == (409, True)
        file.write_text("format: 1")
        assert up.post("/v1/reload", None).status_code == 200


def test_without_tools_it_says_so(folder: Path) -> None:
    with running(folder):
        assert "there are no tools in" in (folder / "stderr").read_text()


def test_tools_beside_a_file_of_flows_are_told_of(folder: Path) -> None:
    (folder / "flows" / "tools.py").write_text("raise SystemExit('nobody named me')")
    (folder / "agents.yaml").write_text(
        f"agents: {{shop: {{flows: flows/shop.yaml, key_sha256: {sha256(KEY.encode()).hexdigest()}}}}}"
    )
    with running(folder, "--port", "0", "--agents", str(folder / "agents.yaml")):
        said = " ".join((folder / "stderr").read_text().split())
    assert "tools.py beside it is read only if it is named; `tools:` of its entry in agents.yaml names them" in said


def test_tools_may_be_told_in_yaml(folder: Path) -> None:
    (folder / "tools.yaml").write_text("tools:\n- name: find_order\n  description: Find an order.\n")
    with running(folder, "--port", "0", "--tools", str(folder / "tools.yaml")) as up:
        assert chosen(up.post("/v1/select", ASKED)) == ["refund_order"]
    assert "there are no tools" not in (folder / "stderr").read_text()


def test_conversations_go_on_after_a_restart(folder: Path) -> None:
    with running(folder) as up:
        first = up.post("/v1/turn", {"message": "I want my money back"}).json()
    with running(folder) as up:
        again = up.post("/v1/turn", {"message": "hello", "history": first["conversation"]})
        assert again.status_code == 200
    assert stat.S_IMODE((folder / "serve" / "secret").stat().st_mode) == 0o600
    assert (folder / "serve" / ".gitignore").is_file(), "no secret is committed by chance"
