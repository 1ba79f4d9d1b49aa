"""From settings to what is served: the index opened, models made, flows read and synced; all closed at the end."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from hmac import digest
from pathlib import Path
from secrets import token_bytes
from typing import Final

from jazz_select.build import open_memory
from jazz_select.chat.decisions import decision_client_for
from jazz_select.chat.models import as_chat_model
from jazz_select.errors import ConfigError, JazzSelectError
from jazz_select.evaluation.whole_files import keep_untracked, locked, write_whole
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.outcomes import OutcomeLog
from jazz_select.routing.claims import SqliteClaims
from jazz_select.routing.tools.tool_loading import no_tools
from jazz_select.service.agents import AgentSource, ServedAgents, unnamed_key
from jazz_select.service.reload import CatalogueReloader
from jazz_select.service.running import Generation, RunningCatalogue, Sources
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings
from jazz_select.text import describe_error
from jazz_select.threads import beside, in_thread

_SECRET_BYTES: Final = 32
_DAY_S: Final = 86_400.0
_CLAIMS_KEPT_S: Final = 30 * _DAY_S
"""How long a call cannot be made again by whoever sends an older state of its conversation."""
_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_service(
    base: Settings,
    agents: Sequence[AgentSource],
    *,
    said: Callable[[str], object] = lambda _: None,
    allow_delete: bool = False,
    options: ServeOptions | None = None,
) -> AsyncGenerator[ServedAgents]:
    """What is to be served, loaded and synced.

    Args:
        base: Where the index is, and with which embedder.
        agents: Who is served. One without a key is open to whoever can connect.
        said: Hears what there is to say of each agent, such as the notes of its sync.
        allow_delete: Whether most of the flows that were indexed may be gone; as of `sync_registry`.
        options: How much each key may add to a log within an hour.

    Raises:
        ConfigError: Something that is named cannot be used, or two agents have one key, or one log.
        IndexLockedError: Another process serves from this index.
        JazzSelectError: Flows or tools cannot be loaded, or a model or a log not used, of the only agent or of all; of
            several the others are served.
    """
    keys = _keys(agents)
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(await open_memory(base))
        master = await in_thread(_secret, base)
        claims = await in_thread(lambda: SqliteClaims(state_folder(base) / "claims.db"))
        await stack.enter_async_context(beside(_prune(claims)))
        made: dict[str, RunningCatalogue] = {}
        for each in agents:
            try:
                running = await _running(stack, each, memory, claims, master, options or ServeOptions())
            except JazzSelectError as error:
                if len(agents) == 1:
                    if each.agents_file is None:
                        raise
                    raise ConfigError(f"{each.agents_file}: agent {each.settings.agent_id}: {error}") from error
                running = RunningCatalogue(each.settings, memory, partial(_unusable, error))
            made[each.settings.agent_id] = running
        served = ServedAgents(
            made,
            keys,
            is_open=not keys,
            names=_key_names(agents),
            teachers={digest for each in agents for digest in each.teachers},
        )
        for each, catalogue in zip(agents, served.values(), strict=True):
            try:
                live = await catalogue.reload(allow_delete=allow_delete)
            except JazzSelectError as error:
                if len(served) == 1:
                    raise
                said(f"agent {catalogue.agent_id} is not served until this is mended: {error}")
                continue
            for note in _notes(each, live):
                said(f"agent {catalogue.agent_id}: {note}")
        if not any(each.is_ready for each in served.values()):
            raise ConfigError("none of the agents can be served: mend what is said of each")
        yield served


def _notes(source: AgentSource, live: Generation) -> Iterator[str]:
    settings, agents_file = source.settings, source.agents_file
    if not source.has_flows:
        yield "there are no flows, so it serves tools alone"
    elif not live.tools:
        where = "--tools" if agents_file is None else f"`tools:` of its entry in {agents_file.name}"
        yield no_tools(settings.flows, named_by=where)
    if settings.learned is not None and settings.learned_by_now is None:
        yield f"{settings.learned} is not there yet: nothing was learned so far"
    if settings.llm is None:
        count = sum(not (each.chain or each.composite or each.manual) for each in live.registry.values())
        which = "1 flow has" if count == 1 else f"{count} flows have"
        if count:  # a turn leaves those to its caller
            why = "no chain of tools, and no model is there to go on"
            yield f"{which} {why}: a turn answers `open`; --llm names a model"
    yield from live.report.notes


async def _running(
    stack: AsyncExitStack,
    source: AgentSource,
    memory: ProceduralMemory,
    claims: SqliteClaims,
    master: bytes,
    options: ServeOptions,
) -> RunningCatalogue:
    settings, read = source.settings, CatalogueReloader(source.read, source.places)
    made = RunningCatalogue(
        settings, memory, read, claims=claims, factory=source.factory, tool_examples=source.tool_examples
    )
    # Another one for each: no conversation changes agents.
    made.secret = digest(master, settings.agent_id.encode(), "sha256")
    made.model = as_chat_model(settings.llm)
    if (close := getattr(made.model, "aclose", None)) is not None:
        stack.push_async_callback(close)
    made.decider = decision_client_for(settings.decider)
    if made.decider is not None:
        stack.push_async_callback(made.decider.aclose)
    if source.log is not None:
        made.log = await in_thread(partial(OutcomeLog, source.log, hourly_bytes=options.max_log_bytes_of_one))
        stack.push_async_callback(partial(in_thread, made.log.close))
    return made


def _unusable(error: JazzSelectError) -> Sources:
    """Raise, as the reader of an agent whose model or log is unusable."""
    raise ConfigError(f"{error}; mend that, and start the service again") from error


def _keys(agents: Sequence[AgentSource]) -> Mapping[str, str]:
    keys: dict[str, str] = {}
    logs: dict[Path, str] = {}
    for each in agents:
        agent_id = each.settings.agent_id
        for key in each.keys:
            if keys.setdefault(key, agent_id) != agent_id:
                msg = f"agents {keys[key]!r} and {agent_id!r} have one key: a key opens one agent, so make another one"
                raise ConfigError(msg)
        if each.log is not None and logs.setdefault(each.log.absolute(), agent_id) != agent_id:
            msg = f"agents {logs[each.log.absolute()]!r} and {agent_id!r} have one log, {each.log}: give each its own"
            raise ConfigError(msg)
        if not each.keys and len(agents) > 1:
            raise ConfigError(f"agent {agent_id!r} has no key, and several are served: give it key_file or key_sha256")
    return keys


def _key_names(agents: Sequence[AgentSource]) -> Mapping[str, str]:
    """Return what each key is called in the log of its agent, by its SHA-256.

    Raises:
        ConfigError: Two keys of one agent have one name, such as a teacher's: nobody could tell who said what.
    """
    names: dict[str, str] = {}
    for each in agents:
        known: set[str] = set()
        for key in each.keys:
            name = each.key_names.get(key) or unnamed_key(key)
            if name in known:
                agent_id = each.settings.agent_id
                msg = f"two keys of agent {agent_id!r} must not have one name, got {name!r} twice: rename a file"
                raise ConfigError(msg)
            known.add(name)
            names[key] = name
    return names


def state_folder(settings: Settings) -> Path:
    """The one folder of all that a service keeps beside its index: `JAZZ_SERVE_STATE`, made where there is none."""
    folder = settings.serve_state or settings.index.expanduser().parent / "serve"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        msg = f"the folder {folder} cannot be made: {describe_error(error)}; JAZZ_SERVE_STATE names another one"
        raise ConfigError(msg) from error
    return folder


async def _prune(claims: SqliteClaims) -> None:
    """Delete expired claims, at the start and once a day."""
    while True:
        try:
            await claims.forget(_CLAIMS_KEPT_S)
        except sqlite3.Error as error:
            _log.warning("error=<%s> | old claims could not be dropped", describe_error(error))
        await asyncio.sleep(_DAY_S)


def _secret(settings: Settings) -> bytes:
    if settings.serve_secret is not None:
        given = settings.serve_secret.get_secret_value().encode()
        if len(given) < _SECRET_BYTES:
            msg = f"JAZZ_SERVE_SECRET has {len(given)} bytes, and {_SECRET_BYTES} are needed: openssl rand -hex 32"
            raise ConfigError(msg)
        return given
    file = state_folder(settings) / "secret"
    try:
        with locked(file):
            kept = file.read_bytes() if file.exists() else b""
            if len(kept) < _SECRET_BYTES:  # also of a start that was cut short
                kept = token_bytes(_SECRET_BYTES)
                keep_untracked(file.parent)
                write_whole(file, kept, private=True)
    except OSError as error:
        msg = f"{file} cannot be used: {describe_error(error)}; JAZZ_SERVE_STATE names another folder"
        raise ConfigError(msg) from error
    return kept
