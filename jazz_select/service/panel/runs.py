"""An agent's files, and its runs: what `eval` and `diff` found, kept as JSON, and made anew while the service runs."""

import asyncio
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

import orjson
from pydantic import Field

from jazz_select.errors import ConfigError, JazzSelectError
from jazz_select.evaluation.cases import read_cases
from jazz_select.evaluation.changes.comparison import diff
from jazz_select.evaluation.changes.git_tree import commits_of, repository_of
from jazz_select.evaluation.drifting import DAY_S, drift
from jazz_select.evaluation.evaluating import evaluate
from jazz_select.evaluation.route import RouteOptions
from jazz_select.evaluation.whole_files import write_readable
from jazz_select.json_values import indented_json, is_object
from jazz_select.selector.forecast import LoggedAlone, logged_alone
from jazz_select.service.api.models import RequestBody
from jazz_select.service.running import RunningCatalogue
from jazz_select.service.source_files import source_location
from jazz_select.text import describe_error
from jazz_select.threads import compute

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
_LARGEST: Final = 32 << 20
_MOST_LISTED, _MOST_COMMITS, _MOST_DAYS = 100, 15, 3_660
_LATELY_DAYS: Final = 30
_FRESH_S, _MOST_KEPT = 10.0, 8
"""For how long what was computed of a log is told again, and of how many numbers of days."""
_SUMMARIES: Final = ("requests", "flows", "recall_at_1", "recall_at_3", "mrr", "model", "summary", "passed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFiles:
    """The files of one agent. Whoever serves several agents gives each its own.

    Attributes:
        cases: Files of labelled requests that the catalogue can be judged by; they are only read.
        collected: Where a correction becomes a case: YAML, made when the first one is saved.
        runs: A folder of results of `eval` and `diff`, as JSON; what is judged in the panel is kept there.
    """

    collected: Path
    runs: Path
    cases: tuple[Path, ...] = ()

    @property
    def known(self) -> dict[str, Path]:
        """All files of cases that are there, by the names that the panel calls them."""
        return {each.as_posix(): each for each in dict.fromkeys((*self.cases, self.collected)) if each.is_file()}

    def case_file(self, name: str) -> Path:
        """Return the file of cases of that name."""
        known = self.known
        if name not in known:
            raise ConfigError(f"there is no file of cases {name!r:.80} here; there are {', '.join(known) or 'none'}")
        return known[name]


def files_of(agent_id: str, home: Path, cases: tuple[Path, ...] = ()) -> PanelFiles:
    """Choose an agent's files below a folder that the service may write, apart from those of other agents."""
    name = agent_id if is_file_name(agent_id) else sha256(agent_id.encode(errors="surrogatepass")).hexdigest()[:32]
    own = home / "panel" / name
    return PanelFiles(collected=own / "cases.yaml", runs=own / "runs", cases=cases)


def is_file_name(name: str) -> bool:
    """Tell whether a name is a plain file name that cannot lead out of its folder."""
    return bool(_NAME.fullmatch(name)) and ".." not in name


def replace_file(file: Path, content: bytes, read: Callable[[Path], object], *, advice: str) -> None:
    """Write a file whole or not at all, and not what its reader could not read again."""
    try:
        write_readable(file, content, read, advice=advice)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error


class RunBody(RequestBody):
    """What is to be judged now."""

    kind: Literal["eval", "diff"] = "eval"
    cases: Annotated[str, Field(max_length=500)] = ""
    """The file of cases, by the name that the panel was told."""
    ask: bool = False
    base: Annotated[str, Field(max_length=100)] = ""
    """For `diff`: a commit that the panel was told of."""


class Runs:
    """Makes runs of one agent's catalogue, one at a time."""

    def __init__(self, catalogue: RunningCatalogue, files: PanelFiles) -> None:
        self._catalogue, self._files = catalogue, files
        self.under_way: dict[str, Any] | None = None
        self.failed: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self, body: RunBody) -> str:
        """Begin to judge, beside what is answered meanwhile, and return the id that it will be kept by."""
        if self.under_way is not None:
            raise ConfigError(f"the run {self.under_way['id']} is being made: wait until it is done")
        if body.kind == "eval":
            self._files.case_file(body.cases)
        began = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        run_id = f"{body.kind}-{began}-{uuid4().hex[:4]}"
        self.under_way = run = {"id": run_id, "kind": body.kind, "began": time.time(), "done": 0, "total": 0}
        self._task = asyncio.create_task(self._run_and_store(run, body))
        return run_id

    async def close(self) -> None:
        """Call off a run that is being made; nothing is kept of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run_and_store(self, run: dict[str, Any], body: RunBody) -> None:
        try:
            if body.kind == "eval":
                found = await self._eval(body, run)
            else:
                found = await self._diff(body, run)
            text = indented_json(found).encode()
            file = self._files.runs / f"{run['id']}.json"
            await compute(replace_file, file, text, read_run, advice="judge fewer cases at once")
        except Exception as error:  # noqa: BLE001 - nobody awaits it: what is not kept here is never heard of
            if not isinstance(error, JazzSelectError):
                _log.error("run=<%s> | a run failed", run["id"], exc_info=error)
            self.failed = {run["id"]: describe_error(error)}
        finally:
            self.under_way = None

    async def _eval(self, body: RunBody, run: dict[str, Any]) -> Mapping[str, Any]:
        catalogue, live = self._catalogue, self._catalogue.live
        file = self._files.case_file(body.cases)
        cases = await compute(read_cases, file, live.registry, flows=catalogue.settings.flows)
        run["total"] = len(cases)
        asks = body.ask and live.selector.has_model
        found = await evaluate(
            cases,
            live.registry,
            routing=RouteOptions.from_settings(catalogue.settings),
            selector=catalogue.selector(live.registry, log=None) if asks else None,
            memory=catalogue.memory,
            agent_id=catalogue.agent_id,
            progress=lambda done, total: run.update(done=done, total=total),
        )
        report = await compute(found.to_dict)
        return {**report, "kind": "eval", "cases": body.cases, "at": run["began"], "generation": live.number}

    async def _diff(self, body: RunBody, run: dict[str, Any]) -> Mapping[str, Any]:
        settings = self._catalogue.settings
        if body.base not in [each["commit"] for each in await commits(settings.flows)]:
            raise ConfigError(f"there is no commit {body.base!r:.60} among those that the panel lists")
        here, flows = await compute(_seen_from, settings.flows)
        found = await diff(
            body.base,
            flows=flows,
            cases=tuple(self._files.known.values()),
            routing=RouteOptions.from_settings(settings),
            embedder=settings.embedder,
            language=settings.language,
            agent_id=self._catalogue.agent_id,
            learned=await compute(self._catalogue.learned_now),
            here=here,
        )
        return {**await compute(found.to_dict), "kind": "diff", "at": run["began"]}


async def commits(flows: str) -> list[dict[str, str]]:
    """List the last commits that changed the flows, newest first; none if they are in no git repository."""
    place = source_location(flows)
    if place is None:
        return []
    found = await compute(commits_of, Path(place), most=_MOST_COMMITS)
    return [{"commit": each.short, "at": each.at, "subject": each.subject[:200]} for each in found]


def _seen_from(flows: str) -> tuple[Path | None, str]:
    """Find the repository of flows outside the one that the service runs in, and their path there.

    None, and the flows as they are called here, where they are in this one, or are no files.
    """
    path = Path(flows).resolve()
    if not path.exists():
        return None, flows
    root = repository_of(path if path.is_dir() else path.parent)
    if root is None or not path.is_relative_to(root.resolve()) or Path.cwd().is_relative_to(root.resolve()):
        return None, flows
    return root, path.relative_to(root.resolve()).as_posix()


def list_runs(files: PanelFiles) -> list[dict[str, Any]]:
    """List the runs of the folder, newest first; other files are skipped. Blocking."""
    found = [file for file in files.runs.glob("*.json") if is_file_name(file.name) and file.is_file()]
    newest = sorted(found, key=lambda file: file.stat().st_mtime, reverse=True)[:_MOST_LISTED]
    runs: list[dict[str, Any]] = []
    for file in newest:
        try:
            run = read_run(file)
        except ConfigError:
            continue
        runs.append(
            {
                "id": file.stem,
                "kind": run["kind"],
                "at": run.get("at") or file.stat().st_mtime,
                "cases": run.get("cases", ""),
                "base": run.get("base", ""),
                "head": run.get("head", ""),
                **{name: run[name] for name in _SUMMARIES if name in run},
                "changes": len(run["changes"]) if run["kind"] == "diff" else None,
                "by_tag": _by_tag(run),
            }
        )
    return runs


def _by_tag(run: Mapping[str, Any]) -> dict[str, float]:
    """Return by tag the share of its cases whose flow came first: the measures `tag:NAME:R@1`."""
    measures: Mapping[str, Any] = run.get("measures", {})
    shares: dict[str, float] = {}
    for name, measure in measures.items():
        if not name.startswith("tag:") or not name.endswith(":R@1") or not is_object(measure):
            continue
        share: object = measure.get("value")
        if isinstance(share, int | float):
            shares[name.removeprefix("tag:").removesuffix(":R@1")] = share
    return shares


def find_run(files: PanelFiles, run: str) -> dict[str, Any] | None:
    """Read a whole run; None if there is none of that id. Blocking."""
    file = files.runs / f"{run}.json"
    if not is_file_name(file.name) or not file.is_file():
        return None
    found = read_run(file)
    return {**found, "id": run, "at": found.get("at") or file.stat().st_mtime}


def read_run(file: Path) -> dict[str, Any]:
    """Read the result of `eval` or `diff` in a file, of at most 32 MiB."""
    try:
        if file.stat().st_size > _LARGEST:
            raise ConfigError(f"{file.name} is larger than {_LARGEST >> 20} MiB")
        found: object = orjson.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the run {file.name}: {error}") from error
    run = dict(found) if is_object(found) else {}
    if "kind" not in run:  # the files of the commands do not name it
        run["kind"] = "diff" if "changes" in run else "eval"
    wanted = ("changes", "before", "after") if run["kind"] == "diff" else ("measures", "misses", "by_flow")
    if any(not isinstance(run.get(name), list | dict) for name in wanted):
        raise ConfigError(f"{file.name} holds no result of eval or diff")
    return run


class SharedDrift:
    """The drift of one agent's log: computed once at a time, and once for all who ask for it meanwhile."""

    def __init__(self, catalogue: RunningCatalogue) -> None:
        self._catalogue = catalogue
        self._one_at_a_time = asyncio.Lock()
        self._found: OrderedDict[float, tuple[float, dict[str, Any] | None]] = OrderedDict()

    async def compare_last_days(self, days: float) -> dict[str, Any] | None:
        """Compare the last days of the log with as many before; None without a log or without entries.

        What was computed within the last seconds is told again.
        """
        if not 0 < days < _MOST_DAYS:  # also where it is no number at all
            raise ConfigError("days is a number of days above 0, such as 7")
        asked_at = time.monotonic()
        async with self._one_at_a_time:
            found_at, found = self._found.get(days, (-_FRESH_S, None))
            if found_at + _FRESH_S < asked_at:
                found = await self._compute_drift(days)
                if found is not None:
                    self._found[days] = (time.monotonic(), found)
                while len(self._found) > _MOST_KEPT:
                    self._found.popitem(last=False)
            return found

    async def _compute_drift(self, days: float) -> dict[str, Any] | None:
        catalogue = self._catalogue
        log = catalogue.log
        if log is None:
            return None
        last = await compute(lambda: next(log.read(agent_id=catalogue.agent_id, last=1), None))
        if last is None:
            return None
        entries = log.read(agent_id=catalogue.agent_id, since=last.at - 2 * days * DAY_S)
        embedder = catalogue.memory.encoder.embedder
        live = catalogue.live
        audit = live.selector.audit
        found = await drift(entries, live.registry, days=days, until=last.at + 1.0, embedder=embedder, audit=audit)
        return found.to_dict()


def read_logged_alone(catalogue: RunningCatalogue) -> LoggedAlone:
    """Read what was decided alone in the last thirty days; empty without a log that can be read."""
    log = catalogue.log
    if log is None:
        return LoggedAlone()
    since = time.time() - _LATELY_DAYS * DAY_S
    try:
        return logged_alone(log, catalogue.agent_id, since=since, days=_LATELY_DAYS)
    except JazzSelectError as error:
        _log.warning("agent_id=<%s>, error=<%s> | what was decided alone is not known", catalogue.agent_id, error)
        return LoggedAlone()


def count_recent_choices(catalogue: RunningCatalogue) -> Counter[str]:
    """Count how often each flow was chosen in the last thirty days; empty without a log that can be read."""
    log = catalogue.log
    if log is None:
        return Counter()
    try:
        return log.chosen(agent_id=catalogue.agent_id, since=time.time() - _LATELY_DAYS * DAY_S)
    except JazzSelectError as error:
        _log.warning("agent_id=<%s>, error=<%s> | what was chosen is not known", catalogue.agent_id, error)
        return Counter()
