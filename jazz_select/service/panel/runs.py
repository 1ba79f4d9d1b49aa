"""Runs: what `eval` and `diff` found, kept as JSON files in a folder, and made anew while the service runs."""

import asyncio
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

import orjson

from jazz_select.errors import ConfigError, JazzSelectError
from jazz_select.evaluation.cases import read_cases
from jazz_select.evaluation.changes.comparison import diff
from jazz_select.evaluation.lessons.drifting import DAY_S, drift
from jazz_select.evaluation.measures.evaluating import evaluate
from jazz_select.evaluation.route import Policy
from jazz_select.outcomes.entries import Logged
from jazz_select.service.panel.bodies import RunBody
from jazz_select.service.panel.files import PanelFiles, is_file_name, replaced
from jazz_select.service.running import RunningCatalogue
from jazz_select.text import describe_error

_LARGEST: Final = 32 << 20
_MOST_LISTED, _MOST_COMMITS, _MOST_DAYS = 100, 15, 3_660
_SUMMARIES: Final = ("requests", "flows", "recall_at_1", "recall_at_3", "mrr", "model", "summary", "passed")


@dataclass(slots=True, kw_only=True)
class Under:
    """A run that is being made."""

    id: str
    kind: str
    began: float = field(default_factory=time.time)
    done: int = 0
    total: int = 0
    task: "asyncio.Task[None] | None" = None


class Runs:
    """Makes runs, one at a time for each catalogue, and reads those that were kept."""

    def __init__(self) -> None:
        self._under: WeakKeyDictionary[RunningCatalogue, Under] = WeakKeyDictionary()
        self._failed: WeakKeyDictionary[RunningCatalogue, tuple[str, str]] = WeakKeyDictionary()

    def begin(self, catalogue: RunningCatalogue, files: PanelFiles, body: RunBody) -> str:
        """Begin to judge, beside what is answered meanwhile, and return the id that it will be kept by.

        Raises:
            ConfigError: Another run is being made, or what it is to be judged by is not there.
        """
        if (other := self._under.get(catalogue)) is not None:
            msg = f"the run {other.id} is being made: wait until it is done"
            raise ConfigError(msg)
        made = f"{body.kind}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid4().hex[:4]}"
        run = Under(id=made, kind=body.kind)
        work = self._eval if body.kind == "eval" else self._diff
        if body.kind == "eval":
            files.case_file(body.cases)
        self._under[catalogue] = run
        run.task = asyncio.create_task(self._kept(catalogue, files, run, partial(work, catalogue, files, body, run)))
        return made

    def under_way(self, catalogue: RunningCatalogue) -> dict[str, Any] | None:
        """How far the run that is being made has come, if one is."""
        run = self._under.get(catalogue)
        if run is None:
            return None
        return {"id": run.id, "kind": run.kind, "began": run.began, "done": run.done, "total": run.total}

    def failed(self, catalogue: RunningCatalogue, run: str) -> str:
        """Why the last run that failed did so; empty where it is another one."""
        name, why = self._failed.get(catalogue, ("", ""))
        return why if name == run else ""

    async def _kept(self, catalogue: RunningCatalogue, files: PanelFiles, run: Under, work: Any) -> None:
        try:
            found: dict[str, Any] = await work()
            file = files.runs / f"{run.id}.json"
            text = orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2)
            await asyncio.to_thread(replaced, file, text)
        except JazzSelectError as error:
            self._failed[catalogue] = (run.id, describe_error(error))
        finally:
            self._under.pop(catalogue, None)

    async def _eval(
        self, catalogue: RunningCatalogue, files: PanelFiles, body: RunBody, run: Under
    ) -> Mapping[str, Any]:
        live = catalogue.live
        file = files.case_file(body.cases)
        cases = await asyncio.to_thread(read_cases, file, live.registry, flows=catalogue.settings.flows)
        run.total = len(cases)

        def progress(done: int, total: int) -> None:
            run.done, run.total = done, total

        asks = body.ask and live.selector.has_model
        found = await evaluate(
            cases,
            live.registry,
            policy=Policy.of(catalogue.settings),
            selector=catalogue.selector(live.registry, log=None) if asks else None,
            memory=catalogue.memory,
            agent_id=catalogue.agent_id,
            progress=progress,
        )
        told = await asyncio.to_thread(found.to_dict)
        return {**told, "kind": "eval", "cases": body.cases, "at": run.began, "generation": live.number}

    async def _diff(
        self, catalogue: RunningCatalogue, files: PanelFiles, body: RunBody, run: Under
    ) -> Mapping[str, Any]:
        settings = catalogue.settings
        if body.base not in [each["commit"] for each in await commits(settings.flows)]:
            msg = f"there is no commit {body.base!r:.60} among those that the panel lists"
            raise ConfigError(msg)
        found = await diff(
            body.base,
            flows=settings.flows,
            cases=tuple(files.known.values()),
            policy=Policy.of(settings),
            embedder=settings.embedder,
            language=settings.language,
            agent_id=catalogue.agent_id,
            learned=settings.learned,
        )
        told = await asyncio.to_thread(found.to_dict)
        return {**told, "kind": "diff", "at": run.began}


async def commits(flows: str) -> list[dict[str, str]]:
    """The last commits that changed the flows, the newest first; none where they are in no git repository."""
    command = ["git", "log", f"-{_MOST_COMMITS}", "--format=%h%x1f%cI%x1f%s", "--", flows]
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, errors="replace", check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [line.split("\x1f") for line in done.stdout.splitlines() if line.count("\x1f") == 2]  # noqa: PLR2004
    return [{"commit": commit, "at": at, "subject": subject[:200]} for commit, at, subject in rows]


def kept(files: PanelFiles) -> list[dict[str, Any]]:
    """The runs of the folder, the newest first; what is no run is passed over. Blocking."""
    if not files.runs.is_dir():
        return []
    found = [file for file in files.runs.glob("*.json") if is_file_name(file.name) and file.is_file()]
    newest = sorted(found, key=lambda file: file.stat().st_mtime, reverse=True)[:_MOST_LISTED]
    told: list[dict[str, Any]] = []
    for file in newest:
        try:
            run = _read(file)
        except ConfigError:
            continue
        told.append(
            {
                "id": file.stem,
                "kind": run["kind"],
                "at": run.get("at") or file.stat().st_mtime,
                "cases": run.get("cases", ""),
                "base": run.get("base", ""),
                "head": run.get("head", ""),
                **{name: run[name] for name in _SUMMARIES if name in run},
                "changes": len(run["changes"]) if run["kind"] == "diff" else None,
            }
        )
    return told


def one(files: PanelFiles, run: str) -> dict[str, Any] | None:
    """A run whole, or None where there is none of that id. Blocking.

    Raises:
        ConfigError: It cannot be read, or is none.
    """
    file = files.runs / f"{run}.json"
    if not is_file_name(file.name) or not file.is_file():
        return None
    found = _read(file)
    return {**found, "id": run, "at": found.get("at") or file.stat().st_mtime}


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _LARGEST:
            msg = f"{file.name} is larger than {_LARGEST >> 20} MiB"
            raise ConfigError(msg)
        found: object = orjson.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        msg = f"cannot read the run {file.name}: {error}"
        raise ConfigError(msg) from error
    run = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if "kind" not in run:
        run["kind"] = "diff" if "changes" in run else "eval"
    wanted = ("changes", "before", "after") if run["kind"] == "diff" else ("measures", "misses", "by_flow")
    if any(not isinstance(run.get(name), list | dict) for name in wanted):
        msg = f"{file.name} holds no result of eval or diff"
        raise ConfigError(msg)
    return run


async def drifted(catalogue: RunningCatalogue, days: float) -> dict[str, Any] | None:
    """The last days of the log against as many before; None where there is no log, or nothing in it.

    Raises:
        ConfigError: `days` makes no sense.
        OutcomeLogError: It cannot be read.
    """
    log = catalogue.log
    if log is None:
        return None

    def entries() -> list[Logged]:
        last = max((each.at for each in log.read(agent_id=catalogue.agent_id)), default=None)
        since = None if last is None else last - 2 * days * DAY_S
        return list(log.read(agent_id=catalogue.agent_id, since=since))

    if not 0 < days < _MOST_DAYS:  # also where it is no number at all
        msg = "days is a number of days above 0, such as 7"
        raise ConfigError(msg)
    found = await asyncio.to_thread(entries)
    if not found:
        return None
    embedder = catalogue.memory.encoder.embedder
    return (await drift(found, catalogue.live.registry, days=days, embedder=embedder)).to_dict()
