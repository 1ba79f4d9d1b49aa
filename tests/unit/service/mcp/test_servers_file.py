"""The file of servers: what clients write is read; what cannot be used is said without saying what may be secret."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from jazz_select.errors import ConfigError
from jazz_select.service.mcp.servers_file import load_servers, servers_of

SECRET = "sk-live-0123456789"  # noqa: S105 - of nothing


def read(entries: Mapping[str, Any]) -> Any:
    return servers_of({"mcpServers": entries})


@pytest.mark.spec("008.3")
def test_what_clients_write_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TEST_KEY", SECRET)
    path = tmp_path / "servers.json"
    path.write_bytes(
        orjson.dumps(
            {
                "mcpServers": {
                    "files": {
                        "type": "stdio",
                        "command": "npx",
                        "args": ["-y", "server-files", "${MCP_TEST_KEY}"],
                        "env": {"KEY": "${MCP_TEST_KEY}", "OTHER": "${MCP_TEST_NONE:-other}"},
                        "cwd": "/srv",
                        "alwaysAllow": ["read"],
                    },
                    "My Web!": {"url": "https://example.org/mcp?key=abcdefgh", "headers": {"A": f"Bearer {SECRET}"}},
                    "my web?": {"url": "http://example.org/mcp", "timeout_s": 5, "trusted": False, "prefix": ""},
                    "off": {"command": "x", "disabled": True},
                }
            }
        )
    )
    files, web, other = load_servers(path)
    assert (files.name, files.command, files.args[-1], files.env["OTHER"]) == ("files", "npx", SECRET, "other")
    assert (files.prefix, web.prefix, other.prefix) == ("files.", "My_Web.", "")
    assert (web.name, other.name, other.trusted, other.timeout_s) == ("My_Web", "my_web_2", False, 5.0)
    for each in (files, web, other):
        assert SECRET not in repr(each)
        assert "abcdefgh" not in repr(each)
    assert files.without_secrets(f"it said {SECRET}!") == "it said [hidden]!"
    assert web.without_secrets(f"GET https://example.org/mcp?key=abcdefgh Bearer {SECRET}") == (
        "GET https://example.org/mcp?key=[hidden] [hidden]"
    )


def test_a_word_or_a_number_is_hidden_only_where_its_name_says_that_it_is_a_secret() -> None:
    (spec,) = servers_of(
        {
            "mcpServers": {
                "a": {
                    "command": "x",
                    "args": ["--mode=production", "--api-token=correcthorse"],
                    "env": {"LIMIT": "10000000", "PASSWORD": "87654321", "TYPE": "a-string", "SHORT": "s3cret"},
                }
            }
        }
    )
    assert set(spec.secrets) == {"correcthorse", "87654321", "a-string"}


def test_what_vs_code_writes_is_read_too() -> None:
    assert [each.name for each in servers_of({"servers": {"a": {"command": "x"}}})] == ["a"]


WRONG: Mapping[str, tuple[object, str]] = {
    "no mapping": ([], "there are no MCP servers"),
    "none": ({"mcpServers": {}}, "there are no MCP servers"),
    "all disabled": ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "are disabled"),
    "neither": ({"mcpServers": {"a": {}}}, "either a command"),
    "both": ({"mcpServers": {"a": {"command": "x", "url": "http://y"}}}, "either a command"),
    "of another kind": ({"mcpServers": {"a": {"command": "x", "env": {"KEY": [SECRET]}}}}, "env.KEY"),
    "no server": ({"mcpServers": {"a": SECRET}}, "the MCP server 'a': must be a mapping"),
    "another scheme": ({"mcpServers": {"a": {"url": f"file:///{SECRET}"}}}, "https://"),
    "a host that no URL may have": ({"mcpServers": {"a": {"url": f"http://{SECRET}\u2100"}}}, "its url is no URL"),
    "a variable that is not set": ({"mcpServers": {"a": {"command": "${MCP_TEST_NONE}"}}}, "no variable MCP_TEST_NONE"),
    "too many": ({"mcpServers": {str(n): {"command": "x"} for n in range(500)}}, "no more than 200"),
    "a prefix of its own making": ({"mcpServers": {"a": {"command": "x", "prefix": "a b"}}}, "prefix"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_used_is_said_without_its_values(case: str) -> None:
    value, problem = WRONG[case]
    with pytest.raises(ConfigError, match=problem) as raised:
        servers_of(value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [(None, "cannot be read"), (f'{{"mcpServers": {{"a": "{SECRET}"', "is no JSON"), (" " * (2 << 20), "larger than")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "servers.json"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=problem) as raised:
        load_servers(path)
    assert "servers.json" in str(raised.value)
    assert SECRET not in str(raised.value)
