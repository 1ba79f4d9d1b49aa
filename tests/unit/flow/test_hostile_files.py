"""Files of flows that were written to break whoever reads them: a typed error in a few words, or what they say."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jazz_select import FlowRegistry, ProceduralMemory, Tool, load_flows, sync_registry
from jazz_select.errors import FlowLoadError, FlowValidationError, UnconnectedToolsError
from jazz_select.testing import HashEmbedder

FLOW = """
name: x
description: d
condition: c
desired_effects: [e]
examples: [a, b, c, d, e]
"""
FIELDS: dict[str, Any] = {
    "name": "x",
    "description": "d",
    "condition": "c",
    "desired_effects": ["e"],
    "examples": list("abcde"),
}
_MANY = 30_000


def in_yaml(text: str) -> tuple[str, bytes]:
    return "flows.yaml", text.encode()


def in_json(**fields: Any) -> tuple[str, bytes]:
    return "flows.json", json.dumps(FIELDS | fields).encode()


LOAD: dict[str, tuple[tuple[str, bytes], str]] = {
    "a truth that is none": (in_yaml(f"{FLOW}steps: [!!bool x]"), "line 7: str 'x' is no bool; put quotes"),
    "a date that is none": (in_yaml(f"{FLOW}steps: [!!timestamp x]"), "line 7: str 'x' is no timestamp"),
    "a date without quotes": (in_yaml(f"{FLOW}steps: [2001-99-99]"), "line 7: .* is no timestamp; put quotes"),
    "a number of nothing": (in_yaml(f"{FLOW}steps: [!!int '']"), "is no int"),
    "half a number of nothing": (in_yaml(f"{FLOW}steps: [!!float '']"), "is no float"),
    "a text for a mapping": (in_yaml("!!map x"), "line 1: expected a mapping"),
    "a list for a mapping": (in_yaml("!!map [a]"), "line 1: expected a mapping"),
    "an alias of nothing": (in_yaml("name: *nothing"), "line 1: found undefined alias"),
    "an alias of itself": (in_yaml("&a [*a]"), "more than 100000 values"),
    "a tag of four megabytes": (in_yaml("!" * 4_000_000), "could not determine a constructor"),
    "half a character in a key": (("flows.json", b'{"name": "x", "\\ud800": 1}'), "x"),
    "two marks of order": (("flows.json", b"\xef\xbb\xbf\xef\xbb\xbf{}"), "BOM"),
    "a number of 5,000 digits": (("flows.json", b'{"name": ' + b"9" * 5_000 + b"}"), "put quotes around it"),
    "sixteen bits a character": (("flows.yaml", FLOW.encode("utf-16")), "not UTF-8"),
    "a nought byte": (in_yaml(f"{FLOW}steps: ['\0']"), "control characters are not allowed"),
}


@pytest.mark.spec("005.18")
@pytest.mark.parametrize(("file", "words"), LOAD.values(), ids=LOAD)
def test_what_cannot_be_read_is_refused_in_a_few_words(tmp_path: Path, file: tuple[str, bytes], words: str) -> None:
    (tmp_path / file[0]).write_bytes(file[1])
    with pytest.raises((FlowLoadError, FlowValidationError), match=words) as caught:
        load_flows(tmp_path, FlowRegistry())
    assert len(str(caught.value)) < 1_000
    assert file[0] in str(caught.value)


WRONG: dict[str, tuple[tuple[str, bytes], str, str]] = {
    "a name that turns": (in_json(name="refund\u202eredro"), "name", "turn the direction"),
    "a name that is not seen": (in_json(name="\u200b\u2060"), "name", "nothing in it that can be seen"),
    "a name of an escape": (in_json(name="a\x1b[31m"), "name", "control characters"),
    "a name with a nought byte": (in_json(name="a\0b"), "name", "control characters"),
    "a name of four megabytes": (in_yaml(f"name: {'x' * 4_000_000}"), "description", "is empty"),
    "half a character in a reply": (in_json(reply="\ud800"), "reply", "half of a surrogate pair"),
    "half a character in a choice": (
        in_json(tools=["a", "b"], chain=[{"after_step": "a", "candidate_tools": ["b"], "decision_prompt": "\ud800"}]),
        "chain",
        "half of a surrogate pair",
    ),
    "half a character in a branch": (
        in_json(type="conditional", branches=[{"when": "\ud800", "flow": "y"}]),
        "branches[0]",
        "half of a surrogate pair",
    ),
    "a key of nothing": (in_yaml(f"{FLOW}'': 1"), "''", "is no field of a flow"),
    "an example 80,000 times": (in_json(examples=["e"] * 80_000), "examples", "repeats 'e'"),
    "a tool like none of very many": (
        in_json(tools=[f"tool_{number}" for number in range(_MANY)], chain=["tool"]),
        "chain[0]",
        "'tool' is not among the flow's tools",
    ),
    "a tool like a very long one": (
        in_json(tools=["ab" * 200_000], chain=["ba" * 200_000]),
        "chain[0]",
        "is not among the flow's tools; add it",
    ),
    "a circle of one": (
        in_json(type="sequential", flows=["x"], condition="", desired_effects=[]),
        "flows",
        "x → x is a circle",
    ),
    "a branch to itself": (
        in_json(type="conditional", branches=[{"when": "w", "flow": "x"}]),
        "flows",
        "x → x is a circle",
    ),
}


@pytest.mark.spec("005.18")
@pytest.mark.parametrize(("file", "field", "words"), WRONG.values(), ids=WRONG)
def test_a_flow_that_is_wrong_is_refused_in_a_few_words(
    tmp_path: Path, file: tuple[str, bytes], field: str, words: str
) -> None:
    (tmp_path / file[0]).write_bytes(file[1])
    with pytest.raises(FlowValidationError, match=words) as caught:
        load_flows(tmp_path, FlowRegistry())
    assert caught.value.field == field
    assert len(str(caught.value)) < 1_000


RIGHT: dict[str, tuple[str, bytes]] = {
    "a mark of order": ("flows.yaml", b"\xef\xbb\xbf" + FLOW.encode()),
    "a mark of order in JSON": ("flows.json", b"\xef\xbb\xbf" + in_json()[1]),
    "other ends of lines": ("flows.yaml", FLOW.encode().replace(b"\n", b"\r\n")),
    "a chain of its own name": in_yaml(f"{FLOW}tools: [x]\nchain: [x]"),
    "a chain of very many": in_json(
        tools=[f"tool_{number}" for number in range(_MANY)], chain=[f"tool_{number}" for number in range(_MANY)]
    ),
    "letters that join": in_json(name="x", aliases=["می\u200cخواهم"]),
}


@pytest.mark.parametrize(("name", "content"), RIGHT.values(), ids=RIGHT)
def test_what_is_only_strange_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (flow,) = load_flows(tmp_path, FlowRegistry())
    assert flow.name == "x"


def test_a_folder_is_read_once_however_many_links_lead_to_it(tmp_path: Path) -> None:
    folders = [tmp_path / f"part_{number}" for number in range(12)]
    for folder in folders:
        folder.mkdir()
        (folder / "flows.yaml").write_text(FLOW.replace("name: x", f"name: {folder.name}"))
    for folder in folders:
        for other in folders:  # as many ways through them as there are orders
            (folder / f"to_{other.name}").symlink_to(other)
    assert len(load_flows(tmp_path, FlowRegistry())) == len(folders)


def test_a_link_to_very_many_folders_is_told_of(tmp_path: Path) -> None:
    for number in range(1_001):
        (tmp_path / "elsewhere" / f"part_{number}").mkdir(parents=True)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "flows.yaml").write_text(FLOW)
    (tmp_path / "flows" / "all").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FlowLoadError, match="more than 1000 folders in it, by links perhaps"):
        load_flows(tmp_path / "flows", FlowRegistry())


def _to_itself(folder: Path) -> Path:
    (folder / "flows.yaml").symlink_to(folder / "flows.yaml")
    return folder


def _to_a_device(folder: Path) -> Path:
    (folder / "flows.yaml").symlink_to("/dev/zero")
    return folder


def _too_long(folder: Path) -> Path:
    return folder / ("x" * 5_000)


def _nought(folder: Path) -> Path:
    return folder / "a\0b"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files here")
@pytest.mark.parametrize("place", [_to_itself, _to_a_device, _too_long, _nought])
def test_a_place_that_is_none_is_a_typed_error(tmp_path: Path, place: Any) -> None:
    with pytest.raises(FlowLoadError):
        load_flows(place(tmp_path), FlowRegistry())


@pytest.mark.skipif(not Path("/proc/self/mounts").is_file(), reason="there are no files without a size here")
def test_a_file_that_says_nothing_of_its_size_is_read_no_further_than_others(tmp_path: Path) -> None:
    (tmp_path / "flows.json").symlink_to("/proc/kallsyms")
    with pytest.raises(FlowLoadError):
        load_flows(tmp_path, FlowRegistry())


async def test_very_many_tools_that_do_not_exist_are_told_of_in_a_moment(tmp_path: Path) -> None:
    (tmp_path / "flows.json").write_bytes(in_json(tools=[f"tool_{number}" for number in range(_MANY)])[1])
    registry = FlowRegistry()
    load_flows(tmp_path, registry)
    tools = [Tool(name=f"other_{number}") for number in range(200)]
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder(32)) as memory:
        with pytest.raises(UnconnectedToolsError, match=f"tool_9 and {_MANY - 10} more") as caught:
            await sync_registry(memory, "a", registry, tools=tools)
    assert len(str(caught.value)) < 1_000
