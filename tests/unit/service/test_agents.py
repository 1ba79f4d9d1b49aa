"""`agents.yaml` and keys: each key that an entry names opens its agent, and what is no key is refused."""

from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from jazz_select.errors import ConfigError
from jazz_select.service.agents import ServedAgents, hash_key, key_digest, key_of_file, load_agents
from jazz_select.service.opened import open_service
from jazz_select.settings import Settings

pytestmark = pytest.mark.spec("008.2")
KEY = "a-key-of-twenty-four-abc"


def test_every_key_of_an_entry_counts(tmp_path: Path) -> None:
    files = ["first.key", "second.key"]
    for number, name in enumerate(files):
        (tmp_path / name).write_text(f"  {KEY}{number}\n", "utf-8")
    digests = [sha256(name.encode()).hexdigest() for name in ("one", "two", "three")]
    entry = {"flows": "flows", "key_file": files, "key_sha256": digests}
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump({"agents": {"shop": entry}}), "utf-8")
    (source,) = load_agents(tmp_path / "agents.yaml", Settings())
    assert source.keys == (*digests, hash_key(f"{KEY}0"), hash_key(f"{KEY}1"))


@pytest.mark.parametrize("entry", [{"tools": "tools.yaml"}, {"mcp_servers": "servers.json"}], ids=str)
def test_an_entry_may_have_tools_alone(tmp_path: Path, entry: dict[str, str]) -> None:
    (tmp_path / "tools.yaml").write_text("tools: [{name: look_up}]", "utf-8")
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump({"agents": {"shop": entry}}), "utf-8")
    (source,) = load_agents(tmp_path / "agents.yaml", Settings())
    found = source.read()
    assert (len(found.registry), list(found.tools)) == (0, ["look_up"] if "tools" in entry else [])
    assert not [place for place in source.places if place == source.settings.flows]


@pytest.mark.spec("016.11")
async def test_an_entry_may_name_the_examples_of_its_tools(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text("tools: [{name: look_up}]", "utf-8")
    entry = {"tools": "tools.yaml", "tool_examples": "kept/examples.yaml"}
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump({"agents": {"shop": entry}}), "utf-8")
    base = Settings(index=tmp_path / "index", embedder="static", serve_state=tmp_path)
    async with open_service(base, load_agents(tmp_path / "agents.yaml", base)) as served:
        assert [each.tool_examples for each in served.values()] == [tmp_path / "kept" / "examples.yaml"]


def test_an_entry_with_nothing_to_serve_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump({"agents": {"shop": {"log": "log.db"}}}), "utf-8")
    with pytest.raises(ConfigError, match="needs flows, or tools or mcp_servers without them"):
        load_agents(tmp_path / "agents.yaml", Settings())


@pytest.mark.parametrize(
    "key",
    [KEY[:15], f"{KEY} {KEY}", f"{KEY}é", f"{KEY}\x7f", f"{KEY}\x00", f"{KEY}\t{KEY}", f"{KEY}\nx", ""],
    ids=ascii,
)
def test_what_cannot_be_sent_as_a_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match="a key has at least 16 characters, of ASCII, without blanks"):
        key_digest(key, "JAZZ_SERVE_KEY")
    (tmp_path / "a.key").write_bytes(key.encode())
    with pytest.raises(ConfigError, match=r"a\.key: a key has at least 16 characters"):
        key_of_file(tmp_path / "a.key")


def test_sixteen_characters_are_a_key() -> None:
    assert key_digest(KEY[:16], "JAZZ_SERVE_KEY") == hash_key(KEY[:16])


def test_a_key_that_cannot_be_printed_opens_nothing() -> None:
    assert ServedAgents({}).of_key("\ud800" * 16) is None
