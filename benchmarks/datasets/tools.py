"""Tool catalogues: MetaTool, BFCL, Seal-Tools, LiveMCPBench. Entries are tools, without examples unless asked for."""

import random
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from benchmarks.datasets.base import DataFormatError, Dataset, Entry, Files, Request, sampled, shuffled

METATOOL_SAMPLE = 2_000
"""Single-tool requests used by default, of 20,614."""


def metatool_single(data: Path, *, seed: int, limit: int | None = METATOOL_SAMPLE, examples: int = 0) -> Dataset:
    """One tool per request; each tool with so many of the requests that a model wrote for it.

    The requests already carry the names of plugin_des.json, for plain plugins and for the
    47 aggregated tools (such as FinanceTool) alike: the texts of the latter are the ones of
    big_tool_des.json. So names map one to one, and no other file is needed.
    """
    files = Files(data, "metatool")
    flows, written = _plugins(data, files, seed, examples)
    rows = files.csv("all_clean_data.csv")
    kept = sampled(rows, limit, seed)
    return Dataset(
        name="metatool-single" + (f"-{examples}" if examples else ""),
        flows=flows,
        requests=tuple(Request(text=row["Query"], gold=frozenset({row["Tool"]})) for row in kept),
        seed=seed,
        sha256=files.sha256 + written,
        notes={"requests left out by sampling": len(rows) - len(kept)},
    )


def metatool_multi(data: Path, *, seed: int, examples: int = 0) -> Dataset:
    """Two tools per request; each tool with so many of the requests that a model wrote for it."""
    files = Files(data, "metatool")
    flows, written = _plugins(data, files, seed, examples)
    rows = cast("list[dict[str, Any]]", files.json("multi_tool_query_golden.json"))
    return Dataset(
        name="metatool-multi" + (f"-{examples}" if examples else ""),
        flows=flows,
        requests=tuple(Request(text=row["query"], gold=frozenset(row["tool"])) for row in rows),
        seed=seed,
        sha256=files.sha256 + written,
    )


def bfcl_live(data: Path, *, seed: int) -> Dataset:
    """Real users' requests over one pool of every function that the file offers to any of them.

    The file offers each request a few functions of its own, and different requests use one
    name for differently worded functions. An entry of the pool is a name; where its wordings
    differ, the one with which it is offered most often is kept, the first among equals. Gold is
    the name in possible_answer. `outside` holds live_irrelevance: none of the functions
    offered *there* fits; that nothing in this pool does is likely, not sure.
    """
    files = Files(data, "bfcl")
    rows = files.json_lines("BFCL_v4_live_multiple.json")
    answers = {row["id"]: row["ground_truth"] for row in files.json_lines("possible_answer/BFCL_v4_live_multiple.json")}
    irrelevant = files.json_lines("BFCL_v4_live_irrelevance.json")
    wordings: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        for function in row["function"]:
            wordings[function["name"]][function["description"], _properties(function["parameters"])] += 1
    unanswered = [row["id"] for row in rows if row["id"] not in answers]
    if unanswered:
        msg = f"bfcl: possible_answer lacks {len(unanswered)} requests, first {unanswered[0]}"
        raise DataFormatError(msg)
    pool = [
        Entry(name=name, description=description, parameters=parameters)
        for name, offered in wordings.items()
        for description, parameters in [max(offered, key=lambda wording: offered[wording])]
    ]
    return Dataset(
        name="bfcl-live",
        flows=shuffled(pool, seed),
        requests=tuple(
            Request(text=_last_user_text(row), gold=frozenset(name for call in answers[row["id"]] for name in call))
            for row in rows
        ),
        outside=tuple(text for row in irrelevant if (text := _last_user_text(row))),
        seed=seed,
        sha256=files.sha256,
        notes={"names offered with differing wordings": sum(len(offered) > 1 for offered in wordings.values())},
    )


def sealtools(data: Path, *, seed: int, split: Literal["dev", "test_in_domain"] = "test_in_domain") -> Dataset:
    """Generated requests, up to six tools each, over 4,076 tools."""
    files = Files(data, "sealtools")
    tools = files.json_lines("tool.jsonl")
    rows = files.json_lines(f"{split}.jsonl")
    return Dataset(
        name="sealtools" if split == "test_in_domain" else f"sealtools-{split}",
        flows=shuffled(
            (
                Entry(
                    name=tool["api_name"],
                    description=tool["api_description"],
                    parameters=tuple(
                        (name, about.get("description", "")) for name, about in tool["parameters"].items()
                    ),
                )
                for tool in tools
            ),
            seed,
        ),
        requests=tuple(
            Request(text=row["query"], gold=frozenset(call["api"] for call in row["calling"])) for row in rows
        ),
        seed=seed,
        sha256=files.sha256,
    )


def livemcpbench(data: Path, *, seed: int, has_owner: bool = True, by_step: bool = False) -> Dataset:
    """People's tasks over the tools of 70 public MCP servers; each task needs up to six tools.

    A task names tools without their server, so an entry of the pool is a name: of the 13 names that several servers
    have, the first listed tool is kept, and 510 of 527 are left. Names that no server lists are left out of the
    answers, and so is a task without another.

    Args:
        data: The folder of all data sets.
        seed: Orders the tools.
        has_owner: Whether a tool says whose it is: the key and the title of its server.
        by_step: Whether requests are the annotated steps of the tasks that have as many steps as tools, each with the
            tool in its place; otherwise the whole tasks, in the words of who asked.
    """
    files = Files(data, "livemcpbench")
    flows: dict[str, Entry] = {}
    listed = 0
    for package in cast("list[dict[str, Any]]", files.json("tools.json")):
        for server, about in package["tools"].items():
            for tool in about["tools"]:
                listed += 1
                entry = Entry(
                    name=tool["name"],
                    description=str(tool.get("description") or ""),
                    parameters=_properties(tool["inputSchema"]),
                    provider=server if has_owner else "",
                    provider_title=str(package["name"]) if has_owner else "",
                )
                flows.setdefault(entry.name, entry)
    requests: list[Request] = []
    unknown = 0
    for task in cast("list[dict[str, Any]]", files.json("all_annotations.json")):
        named = _numbered(task["Annotator Metadata"]["Tools"])
        steps = _numbered(task["Annotator Metadata"]["Steps"])
        known = frozenset(named) & flows.keys()
        unknown += len(named) - sum(name in flows for name in named)
        if not by_step and known:
            requests.append(Request(text=task["Question"], gold=known))
        elif by_step and len(steps) == len(named):
            pairs = zip(steps, named, strict=True)
            requests += [Request(text=step, gold=frozenset({name})) for step, name in pairs if name in flows]
    return Dataset(
        name="livemcpbench" + ("-steps" if by_step else "") + ("" if has_owner else "-alone"),
        flows=shuffled(flows.values(), seed),
        requests=tuple(requests),
        seed=seed,
        sha256=files.sha256,
        notes={"tools of a name that was listed before": listed - len(flows), "tools that no server lists": unknown},
    )


def _numbered(text: str) -> list[str]:
    """The lines of a numbered list, without their numbers."""
    lines = [re.sub(r"^\s*\d+\.\s*", "", line).strip() for line in text.split("\n")]
    return [line for line in lines if line]


def _plugins(data: Path, files: Files, seed: int, examples: int) -> tuple[tuple[Entry, ...], str]:
    """The tools, each with `examples` of its written requests as the seed draws them; and their file's fingerprint."""
    descriptions = cast("dict[str, str]", files.json("plugin_des.json"))
    requests: Mapping[str, list[str]] = {}
    fingerprint = ""
    if examples:
        written = Files(data, "metatool_examples")
        requests = cast("dict[str, list[str]]", written.json("examples.json"))
        fingerprint = written.sha256
    rng = random.Random(seed)
    drawn = {name: tuple(rng.sample(texts, min(examples, len(texts)))) for name, texts in sorted(requests.items())}
    entries = (Entry(name=name, description=text, examples=drawn.get(name, ())) for name, text in descriptions.items())
    return shuffled(entries, seed), fingerprint


def _properties(parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    properties = cast("Mapping[str, Mapping[str, Any]]", parameters.get("properties", {}))
    return tuple((name, str(about.get("description", ""))) for name, about in properties.items())


def _last_user_text(row: Mapping[str, Any]) -> str:
    """What the user said last; a request with a conversation before it is routed by its last words."""
    messages = [message for turn in row["question"] for message in turn]
    return next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")
