"""`--config`: files of settings and `KEY=VALUE`, for `serve` and `eval`."""

import json
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from jazz_select.cli import app
from jazz_select.cli.config import EvalConfig, ServeConfig
from jazz_select.cli.main import EvalCommand, ServeCommand
from jazz_select.errors import ConfigError
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings

pytestmark = pytest.mark.spec("022.6")
MOST_OPTIONS = 15


@pytest.mark.parametrize("command", ["serve", "eval"])
def test_a_command_has_few_options(command: str) -> None:
    group: Any = typer.main.get_command(app)
    options = [each for each in group.commands[command].params if each.param_type_name == "option"]
    assert len(options) <= MOST_OPTIONS


SERVED: list[tuple[str, Sequence[str], dict[str, Any], str, object]] = [
    ("a default", [], {}, "port", 8420),
    ("a pair", ["port=9000"], {}, "port", 9000),
    ("an option over a pair", ["port=9000"], {"port": 9001}, "port", 9001),
    ("the last of two pairs", ["port=9000", "port=9002"], {}, "port", 9002),
    ("a boolean as people write it", ["reload=off"], {}, "reload", False),
    ("one for several", ["cases=a.yaml"], {}, "cases", (Path("a.yaml"),)),
    ("several, as JSON", ['cases=["a.yaml", "b.yaml"]'], {}, "cases", (Path("a.yaml"), Path("b.yaml"))),
    ("a name that differs in code", ["agent=shop:make"], {}, "factory", "shop:make"),
    ("a limit", ["max_body=10"], {}, "options", ServeOptions(max_body=10)),
    ("a limit that has no option of its own", ["max_streams=3"], {}, "options", ServeOptions(max_streams=3)),
    ("a limit as text", ['max_body="10"'], {}, "options", ServeOptions(max_body=10)),
    ("a value with an equals sign", ["agent=a=b"], {}, "factory", "a=b"),
    ("blanks around a name", [" port =9000"], {}, "port", 9000),
    ("null for none", ["port=9000", "port=null"], {}, "port", 8420),
    ("null for a limit", ["max_body=null"], {}, "options", ServeOptions()),
    ("a text that looks like a number", ["host=1"], {}, "host", "1"),
    ("a text that looks like a boolean", ["agent=off"], {}, "factory", "off"),
    ("a path at home", ["log=~/outcomes.db"], {}, "log", Path("~/outcomes.db").expanduser()),
    ("a socket", ["port=9000", "uds=jazz.sock"], {}, "uds", Path("jazz.sock")),
    ("a port over a socket", ["uds=jazz.sock"], {"port": 9000}, "uds", None),
    ("a later host over a socket", ["uds=jazz.sock", "host=::1"], {}, "uds", None),
    ("no MCP over HTTP", ["mcp=none"], {}, "options", ServeOptions(mcp=False)),
]


@pytest.mark.parametrize(("config", "options", "name", "value"), [pytest.param(*row[1:], id=row[0]) for row in SERVED])
def test_what_is_served(config: list[str], options: dict[str, Any], name: str, value: object) -> None:
    merged = ServeCommand(config=config, **options).merge_config()
    assert getattr(merged, name) == value


def test_a_file_is_read_as_seen_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "serve.yaml").write_text(
        "flows: flows\nlog: outcomes.db\nkey_file: [a.key, /etc/b.key]\nllm: ${A_MODEL:-none}\nmax_error: .02\n"
        "evidence: database\nport: 9000\n",
        "utf-8",
    )
    monkeypatch.setenv("A_MODEL", "openai:gpt-5-mini")
    monkeypatch.setenv("JAZZ_MAX_ERROR", "0.5")
    command = ServeCommand(config=[str(tmp_path / "serve.yaml"), "port=9001"])
    settings, merged = command.settings(), command.merge_config()
    assert (settings.flows, settings.llm, settings.max_error) == (str(tmp_path / "flows"), "openai:gpt-5-mini", 0.02)
    assert settings.evidence == Path("database")
    assert (merged.log, merged.port) == (tmp_path / "outcomes.db", 9001)
    assert merged.key_file == (tmp_path / "a.key", Path("/etc/b.key"))


def test_an_option_wins_over_a_file_for_settings(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text("agent_id: office\nllm: openai:gpt-5-mini\n", "utf-8")
    settings = ServeCommand(config=[str(tmp_path / "serve.yaml")], agent_id="shop").settings()
    assert (settings.agent_id, settings.llm) == ("shop", "openai:gpt-5-mini")


PLACES: list[tuple[str, list[str], dict[str, Any], tuple[str | None, Path]]] = [
    ("an index over a url", ["url=http://a:1"], {"index": Path("here")}, (None, Path("here"))),
    ("a url over an index", ["index=here"], {"url": "http://a:1"}, ("http://a:1", Path(".jazz/index"))),
    ("a later index", ["url=http://a:1", "index=here"], {}, (None, Path("here"))),
    ("a later url", ["index=here", "url=http://a:1"], {}, ("http://a:1", Path(".jazz/index"))),
    ("a url taken back", ["url=http://a:1", "url=null"], {}, ("http://env:1", Path(".jazz/index"))),
    ("the environment", [], {}, ("http://env:1", Path(".jazz/index"))),
]


@pytest.mark.parametrize(("config", "options", "place"), [pytest.param(*row[1:], id=row[0]) for row in PLACES])
def test_the_flows_are_indexed_where_it_was_said_last(
    config: list[str], options: dict[str, Any], place: tuple[str | None, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAZZ_URL", "http://env:1")
    settings = ServeCommand(config=config, **options).settings()
    assert (settings.url, settings.index) == place


WRITTEN: list[tuple[str, str, str, object]] = [
    ("the setting that is a boolean to YAML", "yes: true\n", "yes", True),
    ("a number in quotes", 'port: "9000"\n', "port", 9000),
    ("nothing", "host:\nport: 9000\n", "host", "127.0.0.1"),
    ("no file for several", "cases: null\n", "cases", ()),
    ("a limit from the environment", "max_body: ${A_LIMIT}\n", "options", ServeOptions(max_body=10)),
    ("a path at home", "log: ~/outcomes.db\n", "log", Path("~/outcomes.db").expanduser()),
    ("the log in the database", "log: database\n", "log", Path("database")),
    ("what is no variable", "host: ${}$A_LIMIT\n", "host", "${}$A_LIMIT"),
]


@pytest.mark.parametrize(("text", "name", "value"), [pytest.param(*row[1:], id=row[0]) for row in WRITTEN])
def test_what_is_written_in_a_file(
    text: str, name: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_LIMIT", "10")
    file = tmp_path / "a=b.yaml"
    file.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    for named in (str(file), file.name):
        assert getattr(ServeCommand(config=[named]).merge_config(), name) == value


SECRETS: list[tuple[str, str]] = [
    ("a list for a key", "serve_key: [hunter2hunter2]\n"),
    ("a mapping for a key", "api_key: {key: hunter2}\n"),
    ("a list for a database", "database: ['postgresql://me:hunter2@db/jazz']\n"),
    ("a misspelt key", "serve_kye: hunter2\n"),
    ("a file of a key", "hunter2hunter2\n"),
]


@pytest.mark.parametrize("text", [pytest.param(row[1], id=row[0]) for row in SECRETS])
def test_no_secret_of_a_file_is_shown(text: str, tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as raised:
        ServeCommand(config=[str(tmp_path / "serve.yaml")]).settings()
    shown = "".join(traceback.format_exception(raised.value))
    assert "hunter2" not in shown


EVERY_SETTING = [
    pytest.param(of, name, id=f"{of}-{name}")
    for of, kind in (("serve", ServeConfig), ("eval", EvalConfig))
    for name in sorted({*Settings.model_fields, *kind.file_names()})
]
TAKE_NO_TEXT = {"port", "reload", "reload_every", "mcp", "top_k", "policy", "ask_user", "max_body", "rate", "k", "at"}


@pytest.mark.parametrize("written", ["${A_SECRET}", "[1, '${A_SECRET}']"], ids=["alone", "in a list"])
@pytest.mark.parametrize("value", ["hunter2hunter2", "-20202020202020202"], ids=["a text", "a number"])
@pytest.mark.parametrize(("of", "name"), EVERY_SETTING)
def test_the_error_of_a_setting_names_its_variable_and_not_the_value(
    of: str, name: str, value: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", value)
    file = tmp_path / "settings.yaml"
    file.write_text(f"{name}: {written}\n", "utf-8")
    config = [str(file)]
    command = ServeCommand(config=config) if of == "serve" else EvalCommand(file=Path("cases.yaml"), config=config)
    raised: ConfigError | None = None
    try:
        command.settings()
        command.merge_config()
    except ConfigError as error:
        raised = error
    if raised is None:
        assert name not in TAKE_NO_TEXT
        return
    assert "${A_SECRET}" in str(raised)
    assert value not in "".join(traceback.format_exception(raised))


def test_a_later_value_is_shown_though_an_earlier_one_was_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_PORT", "9000")
    (tmp_path / "serve.yaml").write_text("port: ${A_PORT}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"--config port: .*, got 70000"):
        ServeCommand(config=[str(tmp_path / "serve.yaml"), "port=70000"]).merge_config()


def test_an_eval_takes_the_rest_by_config() -> None:
    command = EvalCommand(file=Path("cases.yaml"), config=["k=[2, 7]", "at=.9", "by_flow=yes", "on_empty=none"])
    merged = command.merge_config()
    assert (merged.k, merged.at, merged.by_flow) == ((2, 7), 0.9, True)
    assert command.settings().on_empty == "none"
    other = EvalCommand(file=Path("cases.yaml"), config=["tag=2024", "agent_id=42"])
    assert (other.merge_config().tag, other.settings().agent_id) == (("2024",), "42")
    assert not command.is_deployed
    assert EvalCommand(file=Path("cases.yaml"), config=["url=http://127.0.0.1:6333"]).is_deployed


WRONG: list[tuple[str, str, str]] = [
    ("an unknown key", "portt=9", "--config portt: there is no such setting; did you mean 'port'?"),
    ("no number", "port=high", "--config port: "),
    ("out of its bounds", "port=70000", "got 70000"),
    ("no choice", "mcp=pigeon", "got 'pigeon'"),
    ("a limit", "max_body=0", "--config max_body: "),
    ("a setting", "max_error=3", "--config max_error: "),
    ("a file that is not there", "none.yaml", "none.yaml"),
    ("a list", "list.yaml", "list.yaml must hold settings, such as `port: 8420`, got "),
    ("a key in a file", "misspelt.yaml", "misspelt.yaml: flwos: there is no such setting; did you mean 'flows'?"),
    ("a value in a file", "high.yaml", "high.yaml: rate: "),
    ("nothing in a file", "empty.yaml", "empty.yaml must hold settings, such as `port: 8420`, got nothing"),
    ("a name that is a number", "number.yaml", "number.yaml: 1: there is no such setting; `jazz-select schema serve`"),
    ("an index and a url", "both.yaml", "both.yaml: url: the flows are indexed at one place; keep index or url"),
    ("a number for a text", "year.yaml", "year.yaml: agent_id: Input should be a valid string; put it in quotes"),
    ("a number for a host", "host.yaml", "host.yaml: host: must be a valid string; put it in quotes, got 1"),
    ("a number for a path", "five.yaml", "five.yaml: log: must be a path, got 5"),
    ("no value", "host=", "--config host: must not be empty; leave it out for the default"),
    ("no value for a path", "hollow.yaml", "hollow.yaml: log: must not be empty"),
    ("no name", "=x", "--config must be a FILE or KEY=VALUE, such as serve.yaml or port=8420"),
    ("an address", "postgresql://me@db/jazz?a=b", "--config must be a FILE or KEY=VALUE"),
    ("the name of a variable", "JAZZ_URL=x", "--config JAZZ_URL: there is no such setting; did you mean 'url'?"),
    ("the name of an option", "key-file=x", "--config key-file: there is no such setting; did you mean 'key_file'?"),
    ("a setting of another command", "tag=x", "--config tag: there is no such setting; it is one of eval"),
    ("a variable that is not set", "unset.yaml", "the environment has no variable NOT_SET_ANYWHERE"),
]


@pytest.mark.parametrize(("config", "problem"), [pytest.param(*row[1:], id=row[0]) for row in WRONG])
def test_what_cannot_be_set_is_said(config: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.yaml").write_text("- port\n", "utf-8")
    Path("misspelt.yaml").write_text("flwos: here\n", "utf-8")
    Path("high.yaml").write_text("rate: -1\n", "utf-8")
    Path("unset.yaml").write_text("llm: ${NOT_SET_ANYWHERE}\n", "utf-8")
    Path("empty.yaml").write_text("# port: 9\n", "utf-8")
    Path("number.yaml").write_text("1: 2\n", "utf-8")
    Path("both.yaml").write_text("index: here\nurl: http://a:1\n", "utf-8")
    Path("year.yaml").write_text("agent_id: 2024\n", "utf-8")
    Path("host.yaml").write_text("host: 1\n", "utf-8")
    Path("five.yaml").write_text("log: 5\n", "utf-8")
    Path("hollow.yaml").write_text('log: ""\n', "utf-8")
    command = ServeCommand(config=[config])
    with pytest.raises(ConfigError) as raised:  # noqa: PT012 - either of them
        command.settings()
        command.merge_config()
    assert problem in str(raised.value)


@pytest.mark.parametrize("of", ["serve", "eval"])
def test_the_schema_has_every_setting(of: str) -> None:
    schema = json.loads(CliRunner().invoke(app, ["schema", of]).stdout)
    assert set(Settings.model_fields) <= set(schema["properties"])
    assert ("max_streams" in schema["properties"]) == (of == "serve")
    assert schema["additionalProperties"] is False
    assert [name for name, each in schema["properties"].items() if not each.get("description")] == []


FITS: list[tuple[str, str, str]] = [
    ("one for several", "serve", "key_file: serve.key\ncases: a.yaml\n"),
    ("several", "serve", "key_file: [a.key, b.key]\n"),
    ("a limit", "serve", "rate: 20\n"),
    ("one number for several", "eval", "k: 3\n"),
    ("several numbers", "eval", "k: [3, 5]\n"),
]


@pytest.mark.parametrize(("of", "text"), [pytest.param(*row[1:], id=row[0]) for row in FITS])
def test_an_editor_accepts_what_the_command_does(of: str, text: str) -> None:
    schema = json.loads(CliRunner().invoke(app, ["schema", of]).stdout)
    assert Draft202012Validator(schema).is_valid(yaml.safe_load(text))  # pyright: ignore[reportUnknownMemberType]
