"""Tools with their schemas, and the calls that answer a request: BFCL, Seal-Tools, and LiveMCPBench without answers."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.datasets.base import Files, shuffled
from jazz_select.routing.tools.tool import Tool

_BFCL_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_SEAL_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_OUTPUT = re.compile(r"API_call_(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An argument that is an output of an earlier call."""

    argument: str
    producer: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldCall:
    """One call of an answer.

    Attributes:
        tool: What is called.
        arguments: The values that the request itself gives.
        links: The arguments that an earlier call gives.
    """

    tool: str
    arguments: Mapping[str, Any]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Tools, and per request the calls that answer it, in order."""

    name: str
    tools: tuple[Tool, ...]
    answers: tuple[tuple[GoldCall, ...], ...] = ()
    sha256: str = ""
    by_name: Mapping[str, Tool] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {tool.name: tool for tool in self.tools})


def livemcpbench(data: Path, *, seed: int) -> Catalogue:
    """The tools of 70 public MCP servers as they are listed, each with its server; of one name, the first listed."""
    files = Files(data, "livemcpbench")
    found: dict[str, Tool] = {}
    for package in cast("list[dict[str, Any]]", files.json("tools.json")):
        for server, about in package["tools"].items():
            for listed in about["tools"]:
                tool = Tool(
                    name=listed["name"],
                    description=str(listed.get("description") or ""),
                    input_schema=listed["inputSchema"],
                    provider=server,
                    provider_title=str(package["name"]),
                )
                found.setdefault(tool.name, tool)
    return Catalogue(name="livemcpbench", tools=shuffled(found.values(), seed), sha256=files.sha256)


def bfcl(data: Path, *, seed: int) -> Catalogue:
    """Every function that either live file offers; of one name with several schemas, the most frequent.

    What a call returns is not in the files. Of an answer, the arguments that may be left out are left out, and of the
    accepted values the first one is taken.
    """
    files = Files(data, "bfcl")
    rows = files.json_lines("BFCL_v4_live_multiple.json")
    answers = files.json_lines("possible_answer/BFCL_v4_live_multiple.json")
    offered: dict[str, Counter[str]] = defaultdict(Counter)
    for row in [*rows, *files.json_lines("BFCL_v4_live_irrelevance.json")]:
        for function in row["function"]:
            offered[function["name"]][json.dumps([function["description"], function["parameters"]])] += 1
    tools: list[Tool] = []
    for name, wordings in offered.items():
        description, parameters = json.loads(wordings.most_common(1)[0][0])
        tools.append(Tool(name=name, description=description, input_schema=_json_schema(parameters)))
    return Catalogue(
        name="bfcl",
        tools=shuffled(tools, seed),
        answers=tuple(
            tuple(
                GoldCall(tool=name, arguments=_given(options))
                for call in row["ground_truth"]
                for name, options in call.items()
            )
            for row in answers
        ),
        sha256=files.sha256,
    )


def sealtools(data: Path, *, seed: int) -> Catalogue:
    """4,076 generated tools with what they return, and the answers of both splits with several calls.

    Every call of the answers returns all fields of its tool, so all of them count as certain.
    """
    files = Files(data, "sealtools")
    tools = [
        Tool(
            name=row["api_name"],
            description=row["api_description"],
            input_schema=_object(row["parameters"], row["required"]),
            output_schema=_object(row["responses"], list(row["responses"])),
        )
        for row in files.json_lines("tool.jsonl")
    ]
    returned = {tool.name: list(cast("Mapping[str, Any]", tool.output_schema)["properties"]) for tool in tools}
    rows = [row for split in ("dev", "test_in_domain") for row in files.json_lines(f"{split}.jsonl")]
    answers = [_linked(row["calling"], returned) for row in rows]
    return Catalogue(
        name="sealtools",
        tools=shuffled(tools, seed),
        answers=tuple(calls for calls in answers if len(calls) > 1),
        sha256=files.sha256,
    )


def _linked(calls: list[dict[str, Any]], returned: Mapping[str, list[str]]) -> tuple[GoldCall, ...]:
    """`API_call_3` is the fourth field that the calls return, counted over all of them."""
    places = [(call["api"], output) for call in calls for output in returned[call["api"]]]
    found: list[GoldCall] = []
    before = 0
    for call in calls:
        arguments: dict[str, Any] = {}
        links: list[Link] = []
        for name, value in call["parameters"].items():
            numbers = [int(each) for each in _OUTPUT.findall(value)] if isinstance(value, str) else []
            earlier = [places[number] for number in numbers if number < before]
            links += [Link(argument=name, producer=producer, output=output) for producer, output in earlier]
            if not numbers:
                arguments[name] = value
        found.append(GoldCall(tool=call["api"], arguments=arguments, links=tuple(links)))
        before += len(returned[call["api"]])
    return tuple(found)


def _object(properties: Mapping[str, Mapping[str, Any]], required: list[str]) -> dict[str, Any]:
    parts = {
        name: {"type": _SEAL_TYPES[about["type"]], "description": about["description"]}
        for name, about in properties.items()
    }
    return {"type": "object", "properties": parts, "required": required}


def _json_schema(part: Any) -> Any:
    """BFCL writes Python's names of types."""
    if not isinstance(part, Mapping):
        return part
    schema = dict(cast("Mapping[str, Any]", part))
    kind = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = _BFCL_TYPES.get(kind, kind)
        if kind == "any":
            del schema["type"]
    if isinstance(schema.get("properties"), Mapping):
        schema["properties"] = {name: _json_schema(each) for name, each in schema["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            schema[keyword] = _json_schema(schema[keyword])
    return schema


def _given(options: Mapping[str, list[Any]]) -> dict[str, Any]:
    """An argument that may be left out has "" among its values."""
    return {name: values[0] for name, values in options.items() if values and "" not in values}
