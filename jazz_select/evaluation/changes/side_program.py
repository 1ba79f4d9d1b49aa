"""The program of one side of a comparison: load the flows, describe them, and route requests.

Two versions of a Python catalogue use the same module names, so each needs its own process. Each message is a line of
JSON: first a job, answered with a description of the flows, then requests, answered with their routes.
"""

import asyncio
import gc
import json
import os
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from jazz_select.errors import FlowError, FlowLoadError, JazzSelectError
from jazz_select.evaluation.changes.side_run import Job
from jazz_select.evaluation.changes.sides import Side, files_digest
from jazz_select.evaluation.changes.snapshots import describe_flows, dumps, prompt_tokens, snapshot_digest, undo_parts
from jazz_select.evaluation.index import AGENT, indexed
from jazz_select.evaluation.overlay import Version, taught
from jazz_select.evaluation.route import Query, routes
from jazz_select.flow.base import BaseFlow, Flow, FlowRegistry
from jazz_select.flow.flow_loading import load_flows
from jazz_select.flow.imports import NOT_THERE
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.serialization import value_of
from jazz_select.values import flow_id

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_PASSED_OVER = frozenset({"__pycache__", ".git", ".jazz"})
_SELDOM = 50_000
"""Threshold of allocations for the garbage collector."""


_Answer = Callable[[Mapping[str, Any]], None]


def installed(paths: Sequence[str]) -> list[str]:
    """Return the import paths of the standard library and of installed packages."""
    own = Path(sysconfig.get_path("stdlib")).resolve()
    return [each for each in paths if Path(each).name in _INSTALLED or Path(each).resolve().is_relative_to(own)]


class InstalledFirst:
    """An import finder that prefers installed packages to modules of the judged tree, except the flows themselves.

    A `calendar.py` or a `yaml.py` in the tree must not change the program that judges it.
    """

    def __init__(self, flows: str, paths: Sequence[str]) -> None:
        self._flows = {*Path(flows).parts, *flows.split(".")}
        self._paths = installed(paths)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find an installed module, as `importlib.abc.MetaPathFinder` does."""
        if path is not None or name in self._flows:
            return None
        found = PathFinder.find_spec(name, self._paths, target)
        if found is None or found.loader is None:  # without a loader it is a namespace package, a mere folder
            return None
        return found


def sources_digest(root: Path, flows: str) -> str:
    """Return a digest of the code that guards may use: the files of the flows, and modules imported from `root`."""
    place = root / flows
    own = root.resolve()
    files = {place.resolve()}
    if place.is_dir():
        files = {each.resolve() for each in place.rglob("*") if each.is_file()}
    for module in tuple(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            files.add(Path(file).resolve())
    kept: list[Path] = []
    for file in sorted(files):
        if not file.is_relative_to(own) or not file.is_file():
            continue
        if _PASSED_OVER.isdisjoint(file.relative_to(own).parts):
            kept.append(file)
    return files_digest(kept, own)


def answer_job() -> None:
    """Read a job from stdin and answer it on stdout. What the flows print goes to stderr."""
    gc.set_threshold(_SELDOM, 50, 50)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(message: Mapping[str, Any]) -> None:
        answers.write(dumps(message) + b"\n")
        answers.flush()

    try:
        job = value_of(Job, json.loads(sys.stdin.buffer.readline()))
        os.chdir(job.side.root)
        index = job.side.index
        asyncio.run(_as_written(job, answer) if index is None else _answer_deployed(job, index, answer))
    except JazzSelectError as error:
        answer({"error": str(error)})


async def _as_written(job: Job, answer: _Answer) -> None:
    root, flows = job.side.root, job.side.flows
    own = installed(sys.path)
    others = [path for path in sys.path if path not in own]
    sys.meta_path.insert(0, InstalledFirst(flows, sys.path))
    sys.path[:] = [*own, str(root), *others]
    registry = FlowRegistry()
    try:
        load_flows(flows, registry)
    except FlowLoadError as error:
        # If this version has no flows there, that is no error: the change adds or removes them all.
        is_name = all(part.isidentifier() for part in flows.split("."))
        if (root / flows).exists() or (is_name and error.problem != NOT_THERE):
            raise
    _check_homes(job.side, registry)
    notes: tuple[str, ...] = ()
    if job.learned is not None:
        made = taught(registry, Version.model_validate(job.learned))
        registry, notes = made.registry, made.notes
    gc.freeze()  # these objects stay until the end
    digest = snapshot_digest(registry, sources_digest(root, flows))
    answer({"flows": describe_flows(registry), "digest": digest, "notes": notes})
    how: dict[str, Any] = {"embedder": job.embedder, "language": job.language, "beside": job.beside}
    line = sys.stdin.buffer.readline()
    if not line:
        return
    async with indexed(registry, **how) as memory:
        while line:
            wanted = json.loads(line)
            if "undone" in wanted:
                answer({"firsts": await _route_without(job, registry, memory, wanted)})
            else:
                answer(await _route_requests(job, registry, memory, AGENT, wanted))
            line = sys.stdin.buffer.readline()


async def _route_without(
    job: Job, registry: FlowRegistry, memory: ProceduralMemory, wanted: Mapping[str, Any]
) -> Sequence[str]:
    """Return the first flow for each request with parts of the change undone; none if no valid catalogue is left.

    The index is edited for it, with recall fitted anew or as it is, and put back.
    """
    try:
        made = undo_parts(registry, wanted["undone"])
    except FlowError:
        return ()
    now = {flow.name: flow for flow in registry.values()}
    then = {flow.name: flow for flow in made.values()}
    # `undo_parts` copies only what it changes, so that all else is the same object.
    different = [name for name in {**now, **then} if now.get(name) is not then.get(name)]

    async def put(flows: Mapping[str, BaseFlow]) -> None:
        if wanted["refit"]:
            await memory.sync(AGENT, flows.values(), allow_delete=True)
            return
        for name in different:
            if name in flows:
                await memory.memorize(flows[name], AGENT)
            else:
                await memory.delete_flow(flow_id(name), AGENT)

    await put(then)
    found = await routes(made, memory, AGENT, _queries(wanted), job.routing)
    await put(now)
    return [each.first for each in found]


def _check_homes(side: Side, registry: FlowRegistry) -> None:
    """Reject flows imported from elsewhere, since these would be the same in both versions."""
    if side.commit is None and (side.root / side.flows).exists():
        return  # a folder may link to wherever its owner likes
    for flow in registry.values():
        file = flow.origin.file
        if file and not Path(file).resolve().is_relative_to(side.root.resolve()):
            problem = f"it was imported from {file}, which is not of this version; name the folder (--flows src/…)"
            raise FlowLoadError(side.flows, problem)


async def _answer_deployed(job: Job, index: Path, answer: _Answer) -> None:
    async with await ProceduralMemory.open(index, embedder=job.embedder, language=job.language) as memory:
        registry = FlowRegistry(min_examples=0)
        for stored in await memory.list_flows(job.agent_id):
            Flow(
                name=stored["flow_name"],
                description=stored["description"],
                condition=stored["condition"],
                desired_effects=stored["desired_effects"],
                priority=tuple(stored["priority"]),
                registry=registry,
            )
        stored_fields = {"name", "description", "condition", "desired_effects", "priority"}
        flows: dict[str, dict[str, Any]] = {}
        for name, fields in describe_flows(registry).items():
            flows[name] = {field: fields[field] for field in stored_fields}
        answer({"flows": flows, "digest": ""})
        line = sys.stdin.buffer.readline()
        if line:
            routed = await _route_requests(job, registry, memory, job.agent_id, json.loads(line))
            # An index holds no examples, so nobody can tell whether a request is one.
            answer({**routed, "routes": [replace(each, is_known=None) for each in routed["routes"]]})


def _queries(wanted: Mapping[str, Any]) -> list[Query]:
    return [Query(**each | {"episodes": tuple(each["episodes"])}) for each in wanted["asked"]]


async def _route_requests(
    job: Job, registry: FlowRegistry, memory: ProceduralMemory, agent_id: str, wanted: Mapping[str, Any]
) -> dict[str, Any]:
    asked = _queries(wanted)
    found = await routes(registry, memory, agent_id, asked, job.routing)
    counted = [(asked[place], found[place]) for place in map(int, wanted["counted"])]
    tokens = await prompt_tokens(registry, counted)
    return {"routes": found, "tokens": tokens}
