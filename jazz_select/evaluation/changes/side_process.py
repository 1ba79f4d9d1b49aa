"""One side of a comparison, in a process of its own: it loads its flows, says what they are, and routes requests.

Python catalogues are imported under their own names, so two versions of one cannot live in one process. This program
reads a job from stdin, answers with what the flows say, and then, as often as it reads which requests are wanted, with
their routes; then it may read another job, where no code of either version is run.
A frame is eight bytes of length and so many bytes: pickled on the way in, JSON on the way out.
"""

import asyncio
import gc
import hashlib
import json
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from jazz_select.errors import FlowLoadError, JazzSelectError
from jazz_select.evaluation.changes.side_imports import ImportsOfSide
from jazz_select.evaluation.changes.snapshots import catalogue_digest, prompt_tokens, route_to_dict, routed, told_by
from jazz_select.evaluation.index import AGENT, indexed
from jazz_select.evaluation.route import Asked, Policy
from jazz_select.flow.base import Flow, FlowRegistry
from jazz_select.flow.imports import NOT_THERE
from jazz_select.flow.loading import load_flows
from jazz_select.text import describe_error

if TYPE_CHECKING:
    from jazz_select.evaluation.lessons.overlay import Version
    from jazz_select.memory.procedural import ProceduralMemory

LENGTH = 8
"""Bytes before a message that say how long it is."""
_NEEDED = ("jazz_select.memory.procedural", "jazz_select.memory.engines.edge")
"""What an index takes, and flows by themselves do not."""
_PASSED_OVER = frozenset({"__pycache__", ".git", ".jazz"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a side is made of.

    Attributes:
        root: The folder that is to be the working directory.
        flows: What to load, seen from there; a name where it is a package.
        apart: Whether every flow has to come from below `root`.
        index: The folder of a deployed index instead, whose flows are taken as they lie there.
        agent_id: Whose flows of it.
        policy: How the deployment selects.
        embedder: As for `ProceduralMemory.open`.
        language: Likewise.
        cache: Where indexes are kept; None for nowhere.
        beside: As for `indexed`: who starts a side sees to what is left when it ends.
        learned: What flows that are files are taught before they are judged.
    """

    root: Path = Path()
    flows: str = ""
    apart: bool = False
    index: Path | None = None
    agent_id: str = AGENT
    policy: Policy
    embedder: str = "auto"
    language: str = "english"
    cache: Path | None = None
    beside: Path | None = None
    learned: "Version | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which routes are wanted.

    Attributes:
        asked: The requests.
        counted: Those for which the tokens of a prompt are wanted too.
    """

    asked: tuple[Asked, ...]
    counted: tuple[Asked, ...] = ()


_Answer = Callable[[Mapping[str, Any]], None]
_Read = Callable[[], Job | Wanted | None]


def sources_digest(root: Path, flows: str) -> str:
    """Of the code that guards may be made of: all files of the flows, and the modules that came from `root`."""
    place = root / flows
    files = {each for each in place.rglob("*") if each.is_file()} if place.is_dir() else {place}
    own = root.resolve()
    for module in tuple(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).resolve().is_relative_to(own):
            files.add(Path(file).resolve())
    digest = hashlib.sha256()
    seen = {each.resolve() for each in files}
    for file in sorted(seen):
        if file.is_relative_to(own) and file.is_file() and not _PASSED_OVER & set(file.relative_to(own).parts):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(own).as_posix()} {content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def read_frame(stream: BinaryIO) -> bytes:
    """The next frame; empty at the end."""
    length = int.from_bytes(stream.read(LENGTH), "big")
    return stream.read(length)


def frame(content: bytes) -> bytes:
    """Bytes with their length before them."""
    return len(content).to_bytes(LENGTH, "big") + content


def main() -> None:
    """Do one job, or one after the other; what their flows print goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions = sys.stdin.buffer
    for each in _NEEDED:  # now, since what starts a process ahead may still be loading as well
        import_module(each)

    def answer(told: Mapping[str, Any]) -> None:
        answers.write(frame(_written(told)))
        answers.flush()

    def read() -> Job | Wanted | None:
        content = read_frame(questions)
        return pickle.loads(content) if content else None  # noqa: S301 - from the process that started this one

    try:
        job = read()
        while isinstance(job, Job):
            job = _done(job, answer, read)
    except JazzSelectError as error:
        answer({"error": str(error), "kind": type(error).__name__})


def _done(job: Job, answer: _Answer, read: _Read) -> Job | Wanted | None:
    """Do a job for as long as something is wanted of it; returns what comes instead."""
    os.chdir(job.root)
    if job.index is not None:
        return asyncio.run(_deployed(job, job.index, answer, read))
    sys.meta_path.insert(0, ImportsOfSide(job.root, job.flows))
    sys.path.append(str(job.root))
    return asyncio.run(_as_written(job, answer, read))


async def _as_written(job: Job, answer: _Answer, read: _Read) -> Job | Wanted | None:
    registry = FlowRegistry()
    try:
        load_flows(job.flows, registry)
    except FlowLoadError as error:
        if (job.root / job.flows).exists() or (_is_name(job.flows) and error.problem != NOT_THERE):
            raise
    _check_homes(job, registry)
    notes: tuple[str, ...] = ()
    if job.learned is not None:
        from jazz_select.evaluation.lessons.overlay import taught

        made = taught(registry, job.learned)
        registry, notes = made.registry, made.notes
    gc.freeze()  # what is there now stays until the end
    digest = catalogue_digest(registry, sources_digest(job.root, job.flows))
    answer({"flows": told_by(registry), "digest": digest, "notes": notes})
    wanted = read()
    if not isinstance(wanted, Wanted):
        return wanted
    if not registry:
        answer({"routes": {}, "tokens": {}})
        return None
    how = {"embedder": job.embedder, "language": job.language}
    async with indexed(registry, **how, cache=job.cache, beside=job.beside) as memory:
        while isinstance(wanted, Wanted):
            answer(await _routes(job, registry, memory, AGENT, wanted))
            wanted = read()
    return wanted


def _is_name(flows: str) -> bool:
    return all(part.isidentifier() for part in flows.split("."))


def _check_homes(job: Job, registry: FlowRegistry) -> None:
    """A package that is installed elsewhere would be the same for every version, and nothing would seem to change.

    Raises:
        FlowLoadError: A flow comes from outside the folder.
    """
    for flow in registry.values():
        file = flow.origin.file
        if job.apart and file and not Path(file).resolve().is_relative_to(job.root.resolve()):
            problem = f"it was imported from {file}, which is not of this version; name the folder (--flows src/…)"
            raise FlowLoadError(job.flows, problem)


async def _deployed(job: Job, index: Path, answer: _Answer, read: _Read) -> Job | Wanted | None:
    from jazz_select.memory.procedural import ProceduralMemory  # as in `evaluation.index`

    async with await ProceduralMemory.open(index, embedder=job.embedder, language=job.language) as memory:
        registry = FlowRegistry(min_examples=0)
        for told in await memory.list_flows(job.agent_id):
            Flow(
                name=told["flow_name"],
                description=told["description"],
                condition=told["condition"],
                desired_effects=told["desired_effects"],
                priority=tuple(told["priority"]),
                registry=registry,
            )
        known = {"name", "description", "condition", "desired_effects", "priority"}
        flows = {name: {each: fields[each] for each in known} for name, fields in told_by(registry).items()}
        answer({"flows": flows, "digest": ""})
        wanted = read()
        while isinstance(wanted, Wanted):
            # An index has no examples, which prompts show: what they would take cannot be told.
            uncounted = Wanted(asked=wanted.asked)
            answer(await _routes(job, registry, memory, job.agent_id, uncounted))
            wanted = read()
        return wanted


async def _routes(
    job: Job, registry: FlowRegistry, memory: "ProceduralMemory", agent_id: str, wanted: Wanted
) -> dict[str, Any]:
    found = await routed(registry, memory, agent_id, wanted.asked, job.policy)
    tokens = await prompt_tokens(registry, wanted.counted, found)
    return {"routes": {key: route_to_dict(route) for key, route in found.items()}, "tokens": tokens}


def _written(told: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(told)
    except (TypeError, ValueError):  # halves of surrogate pairs, which a flow or a request may have
        return json.dumps(told).encode()


def crash_message(code: int | None, said: str) -> str:
    """What to say of a process that ended without an answer."""
    last = [line for line in said.strip().splitlines() if line.strip()][-1:] or [f"exit code {code}"]
    return describe_error(RuntimeError(last[0])).removeprefix("RuntimeError: ")
