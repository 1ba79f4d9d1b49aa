"""From settings to what is served: the index opened, models made, flows read and synced; all closed at the end."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hmac import digest
from importlib.util import find_spec
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Final

from jazz_select.build import open_memory
from jazz_select.chat.decisions import decision_client_for
from jazz_select.chat.models import as_chat_model
from jazz_select.errors import ConfigError, JazzSelectError, MissingExtraError
from jazz_select.evaluation.overlay import Overlay, load_overlay
from jazz_select.evaluation.whole_files import file_lock, keep_untracked, write_whole
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.outcomes import OutcomeLog
from jazz_select.routing.claims import SqliteClaims
from jazz_select.routing.tools.tool_loading import no_tools
from jazz_select.service.agents import AgentSource, ServedAgents, unnamed_key
from jazz_select.service.reload import CatalogueReloader
from jazz_select.service.running import Generation, RunningCatalogue, Sources
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import IN_DATABASE, Settings
from jazz_select.text import describe_error
from jazz_select.threads import beside, in_thread

if TYPE_CHECKING:
    from jazz_select.service.shared_state import SharedState

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
    notify: Callable[[str], object] = lambda _: None,
    allow_delete: bool = False,
    options: ServeOptions | None = None,
) -> AsyncGenerator[ServedAgents]:
    """Load and sync what is to be served.

    Args:
        base: Where the index is, and with which embedder.
        agents: Who is served. One without a key is open to whoever can connect.
        notify: Called with each note on an agent, such as the notes of its sync.
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
        shared = await _open_shared(stack, base, agents)
        memory = await stack.enter_async_context(await open_memory(base))
        master = await _master(base, shared)
        claims = None if shared is not None else await _claims_of_process(stack, base)
        made: dict[str, RunningCatalogue] = {}
        for each in agents:
            try:
                kept = _Kept(claims=claims, shared=shared, master=master)
                running = await _load_catalogue(stack, each, memory, kept, options or ServeOptions())
            except JazzSelectError as error:
                if len(agents) == 1:
                    if each.agents_file is None:
                        raise
                    raise ConfigError(f"{each.agents_file}: agent {each.settings.agent_id}: {error}") from error
                running = RunningCatalogue(each.settings, memory, partial(_raise_unusable, error))
            made[each.settings.agent_id] = running
        served = ServedAgents(
            made,
            keys,
            is_open=not keys,
            names=_key_names(agents),
            teachers={digest for each in agents for digest in each.teachers},
        )
        served.shared = shared
        await stack.enter_async_context(_follow_replicas(served))
        for each, catalogue in zip(agents, served.values(), strict=True):
            try:
                live = await catalogue.reload(allow_delete=allow_delete)
            except JazzSelectError as error:
                if len(served) == 1:
                    raise
                notify(f"agent {catalogue.agent_id} is not served until this is mended: {error}")
                continue
            for note in _notes(each, live):
                notify(f"agent {catalogue.agent_id}: {note}")
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
    if settings.learned is not None and settings.database is None and settings.learned_by_now is None:
        yield f"{settings.learned} is not there yet: nothing was learned so far"
    if settings.llm is None:
        count = sum(not (each.chain or each.composite or each.manual) for each in live.registry.values())
        which = "1 flow has" if count == 1 else f"{count} flows have"
        if count:  # a turn leaves those to its caller
            why = "no chain of tools, and no model is there to go on"
            yield f"{which} {why}: a turn answers `open`; --llm names a model"
    yield from live.report.notes


async def _load_catalogue(
    stack: AsyncExitStack,
    source: AgentSource,
    memory: ProceduralMemory,
    kept: "_Kept",
    options: ServeOptions,
) -> RunningCatalogue:
    settings, read = source.settings, CatalogueReloader(source.read, source.places)
    made = RunningCatalogue(
        settings, memory, read, claims=kept.claims, factory=source.factory, tool_examples=source.tool_examples
    )
    # Another one for each: no conversation changes agents.
    made.secret = digest(kept.master, settings.agent_id.encode(), "sha256")
    made.model = as_chat_model(settings.llm)
    if (close := getattr(made.model, "aclose", None)) is not None:
        stack.push_async_callback(close)
    made.decider = decision_client_for(settings.decider)
    if made.decider is not None:
        stack.push_async_callback(made.decider.aclose)
    if kept.shared is not None:
        await _share(made, kept.shared, options)
        made.agreement = kept.shared.agreement(made.agent_id, settings.flows if source.has_flows else None)
    elif source.log is not None:
        made.log = await in_thread(partial(OutcomeLog, source.log, hourly_bytes=options.max_log_bytes_of_one))
    if made.log is not None:
        stack.push_async_callback(partial(in_thread, made.log.close))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What outlives this process: `claims` of one process, or what is `shared` with others; and the master key."""

    claims: SqliteClaims | None
    shared: "SharedState | None"
    master: bytes


async def _open_shared(stack: AsyncExitStack, base: Settings, agents: Sequence[AgentSource]) -> "SharedState | None":
    """Open what is shared with other replicas; return None where nothing is.

    Raises:
        MissingExtraError: The driver of the database is not installed.
        ConfigError: An agent is to keep in a file what belongs to all replicas.
        DatabaseError: The database cannot be used.
    """
    if base.database is None:
        return None
    require_driver()
    from jazz_select.service.shared_state import open_shared_state, prune

    for each in agents:
        of_agent = f"agent {each.settings.agent_id!r}"
        if each.log is not None:
            raise ConfigError(f"{of_agent}: with --database its log is kept there: leave the file of a log out")
        if each.settings.evidence is not None and each.settings.evidence.name != IN_DATABASE.name:
            msg = f"{of_agent}: with --database its log is kept there: write --config evidence={IN_DATABASE}"
            raise ConfigError(msg)
    shared = await stack.enter_async_context(open_shared_state(base))
    await stack.enter_async_context(beside(prune(shared, [each.settings.agent_id for each in agents], _CLAIMS_KEPT_S)))
    return shared


def require_driver() -> None:
    """Raise MissingExtraError unless the driver of the database is installed."""
    for module in ("psycopg", "psycopg_pool"):
        if find_spec(module) is None:
            raise MissingExtraError(module, extra="postgres", purpose="--database")


async def _share(made: RunningCatalogue, shared: "SharedState", options: ServeOptions) -> None:
    """Keep in the database what an agent keeps; a file of what was learned is what the database begins with."""
    agent_id, file = made.agent_id, made.settings.learned_by_now
    made.claims = shared.claims(agent_id)
    made.log = shared.log(agent_id, hourly_bytes=options.max_log_bytes_of_one)
    made.evidence = None if made.settings.evidence is None else made.log
    made.learned = store = shared.learned_examples(agent_id)
    if file is not None:
        given = await in_thread(load_overlay, file)

        def begin(overlay: Overlay) -> Overlay:
            return given if overlay == Overlay() else overlay

        await in_thread(store.change, begin)


@asynccontextmanager
async def _follow_replicas(served: ServedAgents) -> AsyncGenerator[None]:
    """Follow the other replicas while the block runs, if there are any; leave them at its end."""
    if served.shared is None:
        yield
        return
    agreements = [(each.agreement, each) for each in served.values() if each.agreement is not None]
    following = [agreement.follow(each) for agreement, each in agreements]
    try:
        async with beside(served.shared.listen(), *following):
            yield
    finally:
        for agreement, _ in agreements:
            await agreement.leave()


async def _master(base: Settings, shared: "SharedState | None") -> bytes:
    if base.serve_secret is not None or shared is None:
        return await in_thread(_secret, base)
    return await shared.secret()


async def _claims_of_process(stack: AsyncExitStack, base: Settings) -> SqliteClaims:
    claims = await in_thread(lambda: SqliteClaims(state_folder(base) / "claims.db"))
    await stack.enter_async_context(beside(_prune(claims)))
    return claims


def _raise_unusable(error: JazzSelectError) -> Sources:
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
    """Return the folder of all that a service keeps beside its index (`JAZZ_SERVE_STATE`); create it if needed."""
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
        with file_lock(file):
            kept = file.read_bytes() if file.exists() else b""
            if len(kept) < _SECRET_BYTES:  # also of a start that was cut short
                kept = token_bytes(_SECRET_BYTES)
                keep_untracked(file.parent)
                write_whole(file, kept, private=True)
    except OSError as error:
        msg = f"{file} cannot be used: {describe_error(error)}; JAZZ_SERVE_STATE names another folder"
        raise ConfigError(msg) from error
    return kept
