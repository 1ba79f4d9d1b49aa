"""What goes wrong: one line on stderr that says what to do, nothing on stdout, exit code 2."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from examples.demo import app as demo_app
from jazz_select import ProceduralMemory
from tests.unit.cli.conftest import Jazz
from tests.unit.cli.shop import TRACK, write_flows


@pytest.fixture(scope="module")
def configured() -> dict[str, str]:
    """Nothing: hints name what was set."""
    return {}


CASES = [
    pytest.param(["sync", "--flows", "/no/such/place"], {}, "no such file or folder", id="missing flows"),
    pytest.param(["sync", "--flows", "no_such_package.flows"], {}, "no_such_package", id="missing package"),
    pytest.param(["sync", "--embedder", "wishful"], {}, "no such embedder: 'wishful'. Use auto", id="embedder"),
    pytest.param(["sync", "--agent-id", ""], {}, "--agent-id: ", id="blank agent"),
    pytest.param(["sync", "--index", "a", "--url", "http://b"], {}, "either --index or --url", id="index and url"),
    pytest.param(["sync", "--index", "{flows}"], {}, "Pass an empty folder", id="a folder that is no index"),
    pytest.param(["select", "hi", "--context", "authenticated"], {}, "is not KEY=VALUE", id="context without ="),
    pytest.param(["select", "hi", "--context", "=true"], {}, "is not KEY=VALUE", id="context without a key"),
    pytest.param(["select", "hi", "--llm", "gpt-5"], {}, '"provider:model"', id="model without a provider"),
    pytest.param(["select", "hi", "--on-empty", "top2"], {}, "--on-empty: ", id="on-empty"),
    pytest.param(["select", "hi", "--top-k", "1000"], {}, "--top-k: ", id="top-k out of bounds"),
    pytest.param(
        ["select", "hi", "--top-k", "some"], {}, "as an integer, or Input should be 'auto'", id="top-k in words"
    ),
    pytest.param(
        ["select", "hi"],
        {"JAZZ_MAX_ERROR": "1%"},
        "got '1%'; write a share from 0 to 1, such as 0.01",
        id="a share in percent",
    ),
    pytest.param(
        ["select", "hi"], {"JAZZ_ASK_USER": "maybe"}, "got 'maybe'; write true or false", id="neither true nor false"
    ),
    pytest.param(["select", "hi", "--llm", "nobody:nothing"], {}, "nobody:nothing", id="unknown provider"),
    pytest.param(["select", "hi"], {"JAZZ_TOP_K": "many"}, "JAZZ_TOP_K: ", id="environment"),
    pytest.param(
        ["select", "hi", "--agent-id", "nobody"], {}, "run jazz-select sync --flows", id="agent without flows"
    ),
    pytest.param(["select", "hi", "--agent-id", "nobody"], {}, "(--agent-id names another one)", id="another agent"),
    pytest.param(["select", "", "--agent-id", "nobody"], {}, "--agent-id nobody --index", id="and nothing asked"),
    pytest.param(["select", "hi", "--index", "{folder}/new"], {}, "/new first", id="no index"),
    pytest.param(["list", "--index", "{folder}/new"], {}, "/new first", id="list without an index"),
    pytest.param(["eval", "{folder}/none.yaml"], {}, "cannot read the requests", id="no labelled requests"),
]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(("args", "env", "message"), CASES)
def test_one_line_that_says_what_to_do(
    shared: Jazz, args: list[str], env: dict[str, str], message: str, *, as_json: bool
) -> None:
    if as_json:
        args = [*args, "--json"]
    filled = [arg.format(folder=shared.folder, flows=shared.flows) for arg in args]
    result = shared(*filled, code=2, **env)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert result.stderr.count("--top-k: ") < 2  # one source is named once, however many types it may be of
    assert not (shared.folder / "new").exists()


def test_debug_shows_where_it_came_from(shared: Jazz) -> None:
    result = shared("--debug", "sync", "--embedder", "wishful", code=2)
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: no such embedder")


@pytest.mark.parametrize(
    ("options", "repeated"),
    [
        pytest.param([], "", id="defaults"),
        pytest.param(["--agent-id", "support", "--index", ".jazz/index"], "", id="defaults by name"),
        pytest.param(["--flows", "shop"], " --flows shop", id="flows"),
        pytest.param(
            ["--index", "my index", "--agent-id", "Ada's"],
            " --agent-id 'Ada'\"'\"'s' --index 'my index'",
            id="quoted for the shell",
        ),
        pytest.param(["--embedder", "fastembed:x"], " --embedder fastembed:x", id="embedder"),
    ],
)
def test_the_sync_that_is_missing_is_told_with_the_options_in_use(
    jazz: Jazz, monkeypatch: pytest.MonkeyPatch, options: list[str], repeated: str
) -> None:
    (jazz.folder / "shop").mkdir()
    write_flows(jazz.folder / "shop", TRACK)
    monkeypatch.chdir(jazz.folder)
    result = jazz("select", "hi", *options, code=2, JAZZ_FLOWS=None, JAZZ_INDEX=None)
    assert result.stderr.endswith(f": run jazz-select sync{repeated} first\n")


def test_what_comes_from_the_environment_is_repeated_as_well(jazz: Jazz) -> None:
    stderr = jazz("list", code=2, JAZZ_AGENT_ID="other").stderr
    assert f"run jazz-select sync --flows {jazz.flows} --agent-id other --index {jazz.index} first" in stderr


@pytest.mark.parametrize("command", [["sync"], ["select", "hi"], ["list"]], ids=lambda args: args[0])
def test_an_index_that_is_open_elsewhere(shared: Jazz, command: list[str]) -> None:
    memory = asyncio.run(ProceduralMemory.open(shared.index))
    try:
        result = shared(*command, code=2)
    finally:
        asyncio.run(memory.close())
    assert "is already open" in result.stderr
    assert result.stdout == ""
    shared(*command)


def test_an_index_of_another_embedder(shared: Jazz) -> None:
    # The language belongs to what the flows were indexed with, just like the embedder.
    for command in (["select", "hi"], ["list"]):
        result = shared(*command, code=2, JAZZ_LANGUAGE="german")
        assert "were indexed with" in result.stderr


def test_a_server_that_does_not_answer(shared: Jazz) -> None:
    result = shared("select", "hi", "--url", "http://127.0.0.1:9", code=2)
    assert "http://127.0.0.1:9" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- {request: hi, expect: [refund_ordr]}",
            "entry 1 (line 1): expect: there is no flow named 'refund_ordr' in {flows} (--flows",
        ),
        ("# hi\n- {request: hi}", "entry 1 (line 2): expect: is missing; write none"),
        (
            "- {request: hi, expect: [], expected: []}",
            "entry 1 (line 1): expected: is no field of a case; did you mean 'expect'?",
        ),
        ("- {request: hi, expect: {a: b}}", "entry 1 (line 1): expect: must be a list of texts"),
        ("- {request: '', expect: []}", "entry 1 (line 1): request: is empty"),
        ("- request: [", "is no YAML"),
        ("[" * 1_000, "cannot read the requests in {file}: it nests lists or mappings more than 100 deep"),
        ("- &a [x, x, x]\n" + "- [" + "*a, " * 40_000 + "]", "{file}: it holds more than 100000 values"),
        ("#" * (5 << 20), "cannot read the requests in {file}: it is larger than 4 MiB"),
        ("- {request: hi, request: ho, expect: []}", "'request' stands twice"),
        ("[]\n---\n[]", "it holds 2 documents"),
        ("[]", "holds no requests"),
        ("", "requests.yaml holds no requests"),
        ("just words", "requests.yaml must hold a list of cases"),
    ],
)
def test_labelled_requests_that_are_wrong(shared: Jazz, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "requests.yaml"
    file.write_text(text, encoding="utf-8")
    demo = replace(shared, program=demo_app)
    for told in (
        shared("eval", str(file), code=2).stderr,
        demo("--requests", str(file), "--index", str(tmp_path / "index"), code=2).stderr,
    ):
        assert message.format(flows=shared.flows, file=file) in told
        assert len(told) < 1_000
