"""Opening what a command works on, and saying what is missing."""

import shlex
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import finalize

from jazz_select.build import load_registry, open_memory, with_learned
from jazz_select.cli.shared_options import encodable
from jazz_select.cli.terminal import hint, spinner
from jazz_select.errors import ConfigError, JazzSelectError
from jazz_select.settings import IN_DATABASE
from jazz_select.text import count_of
from jazz_select.values import AgentScope

if TYPE_CHECKING:
    from jazz_select.evaluation.overlay import OverlayStore
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.outcomes import Logged, OutcomeLog
    from jazz_select.postgres.connection import Database
    from jazz_select.routing.tools.sources import ToolsLike
    from jazz_select.settings import Settings

_MOST_AGENTS = 5
LogSource: TypeAlias = "Path | OutcomeLog"
"""A log of outcomes: a file, or one that is open."""
LEARNED = Path("learned.yaml")
"""Where `learn` keeps what it learned, unless a file is named."""


def catalogue(settings: "Settings", *, learned: Path | None = None) -> "FlowRegistry":
    """Load the flows that the settings name, by default those of the default folder."""
    look_for_flows(settings)
    registry = load_registry(settings.flows)
    if learned is None:
        return registry
    registry, notes = with_learned(registry, learned)
    for note in notes:
        hint(f"note: {note}")
    return registry


def look_for_flows(settings: "Settings", *, by: str = "with --flows or JAZZ_FLOWS") -> None:
    """Refuse a default folder that is not there, where nobody named flows; look for packages here too."""
    if "flows" not in settings.model_fields_set:
        require_folder(settings.flows, advice=f"name your flows {by}")
    look_here()


def require_folder(name: str, *, advice: str) -> None:
    """Require that a default names a folder here: a package of that name could be somebody else's."""
    if not Path(name).is_dir():
        raise ConfigError(f"there is no folder {name} here; {advice}")


def look_here() -> None:
    """Append the working directory to the import path, as `python -m` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def tools_beside(flows: str, named: str | None) -> "ToolsLike | str | None":
    """Return the named tools, else load those beside the flows.

    Returns:
        None where there are no tools, or where the flows cannot be read.
    """
    from jazz_select.routing.tools.tool_loading import load_tools

    if named is not None:
        return named
    try:
        return load_tools(flows, may_be_none=True) or None
    except JazzSelectError:
        return None  # what is wrong with the flows is found where they are loaded


def index_place(settings: "Settings") -> str:
    """Return the address or the folder of the index."""
    return encodable(settings.url or str(settings.index))


def is_there(settings: "Settings") -> bool:
    """Tell whether the index can be opened: a server is assumed to be there, a folder must exist."""
    return bool(settings.url) or settings.index.expanduser().exists()


@asynccontextmanager
async def open_index(settings: "Settings") -> AsyncGenerator["ProceduralMemory"]:
    """Open the index that the settings name; create it if it does not exist."""
    with spinner("opening the index"):
        memory = await open_memory(settings)
    async with memory:
        yield memory


@asynccontextmanager
async def open_for_reading(settings: "Settings") -> AsyncGenerator["ProceduralMemory"]:
    """Open the index that the settings name; raise `ConfigError` if its folder does not exist."""
    if not is_there(settings):
        raise nothing_synced(settings)
    async with open_index(settings) as memory:
        yield memory


async def flows_in(memory: "ProceduralMemory", settings: "Settings") -> list[dict[str, Any]]:
    """List the flows of the agent in the index."""
    flows = await memory.list_flows(settings.agent_id)
    if not flows:
        await memory.recall("flow", settings.agent_id, 1)  # it knows the other layouts, and says so
    return flows


async def require_flows(memory: "ProceduralMemory", settings: "Settings") -> None:
    """Refuse an index without flows of the agent."""
    if not await flows_in(memory, settings):
        raise nothing_synced(settings)


async def changes_notes(memory: "ProceduralMemory", registry: "FlowRegistry", settings: "Settings") -> tuple[str, ...]:
    """Note how many flows differ from those of the index; return no note if none does."""
    if settings.learned is not None:
        registry, _ = with_learned(registry, settings.learned)
    planned = await memory.sync(settings.agent_id, registry.values(), dry_run=True)
    changed = len(planned.created) + len(planned.updated) + len(planned.deleted)
    if not changed:
        return ()
    what = f"{count_of(changed, 'flow')} changed since the last sync: run {sync_command(settings)}"
    return (what, *overlay_notes(settings))


@contextmanager
def opened_learning(settings: "Settings", named: Path | None) -> "Generator[tuple[LogSource | None, OverlayStore]]":
    """Give the log and what was learned of it: in the database of the settings, else in files.

    Raises:
        ConfigError: A file is named beside a database.
        DatabaseError: The database cannot be used.
    """
    from jazz_select.evaluation.overlay import OverlayFile

    if settings.database is None:
        yield named, OverlayFile(settings.learned or LEARNED)
        return
    if settings.learned is not None or named not in {None, IN_DATABASE}:
        raise ConfigError(
            "with --database (JAZZ_DATABASE) the log is kept there, and so is what was learned: name no file"
        )
    database = _opened_database(settings)
    try:
        from jazz_select.service.shared_state import SharedState

        shared = SharedState(database)
        with shared.log(settings.agent_id) as log:
            yield log, shared.learned_examples(settings.agent_id)
    finally:
        database.close_blocking()


def _opened_database(settings: "Settings") -> "Database":
    from jazz_select.service.opened import require_driver

    if settings.database is None:
        raise ConfigError(f"a log called {IN_DATABASE} is in a database: name that with JAZZ_DATABASE")
    require_driver()
    from jazz_select.postgres.connection import Database

    return Database(settings.database.get_secret_value()).open_blocking()


def _log_in_database(settings: "Settings") -> "OutcomeLog":
    """Open the agent's log in the database; the connections are closed with the log."""
    database = _opened_database(settings)
    from jazz_select.service.shared_state import SharedState

    log = SharedState(database).log(settings.agent_id)
    finalize(log, database.close_blocking)
    return log


def writable_log(source: "LogSource") -> "AbstractContextManager[OutcomeLog]":
    """Give a log to write to; one that was opened before stays open."""
    from jazz_select.outcomes import OutcomeLog

    if isinstance(source, Path):
        return OutcomeLog.existing(source)
    return nullcontext(source)


def logged_entries(source: "LogSource", settings: "Settings", *, corrected: bool = False) -> "list[Logged]":
    """Read the agent's entries in a log of outcomes; if it has none, hint which agents have some."""
    log = existing_log(source, settings, corrected=corrected)
    return list(log.read(agent_id=settings.agent_id, corrected=corrected or None))


def existing_log(source: "LogSource", settings: "Settings", *, corrected: bool = False) -> "OutcomeLog":
    """Open a log of outcomes; if it has no entries of the agent, hint which agents have some."""
    from jazz_select.outcomes import OutcomeLog

    if source == IN_DATABASE:
        log = _log_in_database(settings)
    elif isinstance(source, Path):
        log = OutcomeLog.existing(source)
    else:
        log = source
    known = log.agents(corrected=corrected)
    others = {agent: count for agent, count in known.items() if AgentScope.MARK not in agent}  # not searches of tools
    if others and settings.agent_id not in others:
        what = "correction" if corrected else "request"
        shown = sorted(others.items())[:_MOST_AGENTS]
        listed = ", ".join(f"{count_of(count, what)} of {agent}" for agent, count in shown)
        hint(f"{log.name} has no {what} of agent {settings.agent_id}, but {listed}: --agent-id {min(others)}")
    return log


def nothing_synced(settings: "Settings") -> ConfigError:
    """Build the error for an agent without flows."""
    other = " (--agent-id names another one)" if is_there(settings) else ""
    where = f"agent {settings.agent_id!r}{other} has no flows in the index {index_place(settings)}"
    msg = f"{where}: run {sync_command(settings)} first"
    return ConfigError(msg)


def overlay_notes(settings: "Settings") -> tuple[str, ...]:
    """Note that a file of learned examples exists which the settings leave out."""
    if settings.learned is not None or not LEARNED.is_file():
        return ()
    from jazz_select.evaluation.overlay import load_overlay

    use = f"pass --learned {LEARNED}, or set JAZZ_LEARNED, to index what was learned"
    try:
        version = load_overlay(LEARNED).version("live")
    except ConfigError as error:
        return (f"{LEARNED} was not looked at, and cannot be: {error}",)
    if version is None:
        return ()
    left_out = f"{version.count} learned examples live, and a sync without it indexes the flows without them"
    return (f"{LEARNED} has {left_out}: {use}",)


def sync_command(settings: "Settings") -> str:
    """Write the command that syncs with these settings; options with their default are left out."""
    where = "url" if settings.url else "index"
    options = {
        "flows": "flows",
        "agent-id": "agent_id",
        where: where,
        "embedder": "embedder",
        "learned": "learned",
        "evidence": "evidence",
    }
    words = ["jazz-select", "sync"]
    for option, field in options.items():
        value = getattr(settings, field)
        if value != type(settings).model_fields[field].default:
            words += [f"--{option}", encodable(str(value))]
    return shlex.join(words)
