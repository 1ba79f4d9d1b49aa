"""One agent as it is served: its flows, tools, selector and agent, changed all at once or not at all."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_bytes
from time import perf_counter, time
from typing import TYPE_CHECKING, Final

from jazz_select.agent import Agent, Approval, PromptOptions
from jazz_select.build import load_factory, made_by, selector_options, sync_registry
from jazz_select.chat.decisions import DecisionClient
from jazz_select.errors import (
    ConfigError,
    FlowLoadError,
    FlowsMissingError,
    JazzSelectError,
    NotLoadedError,
    StoreError,
    StoreUnavailableError,
)
from jazz_select.evaluation.overlay import Overlay, OverlayFile, OverlayStore
from jazz_select.flow.base import FlowRegistry
from jazz_select.json_values import Secret
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.ports import ChatModel, ClaimStore
from jazz_select.routing.decisions.decision_points import DecisionCallback
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.selector.select import FlowSelector
from jazz_select.service.batched_recall import BatchedRecall
from jazz_select.settings import Settings
from jazz_select.text import describe_error
from jazz_select.threads import in_daemon_thread, in_thread, run_with_timeout

if TYPE_CHECKING:
    from jazz_select.memory.sync import SyncReport
    from jazz_select.outcomes import OutcomeLog
    from jazz_select.service.agreement import Agreement

_log = logging.getLogger(__name__)
_READS: Final = "jazz-select-reload"
_RECALL_S, _RECALL_AWAY_S = 10.0, 3.0
"""How long a recall waits for a server, and how long once that is known to be away: its clients ask another replica."""
_PATIENCE_S: Final = 120.0
"""How long flows and tools are read, at most: code of others may hang, and nothing can end that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a catalogue is read from, read together: flows, tools, and who chooses between these without a model."""

    registry: FlowRegistry
    tools: Toolbox
    policy: DecisionCallback | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A catalogue between two reloads. A request takes one, and stays with it to its end.

    Attributes:
        number: Counts from 1; another one is another catalogue.
        registry: The flows.
        tools: What is connected.
        selector: Finds flows.
        agent: Answers messages.
        report: What the sync before it did.
        loaded_at: When, in seconds since 1970.
        took_s: What reading, checking and syncing took.
    """

    number: int
    registry: FlowRegistry
    tools: Toolbox
    selector: FlowSelector
    agent: Agent
    report: "SyncReport"
    loaded_at: float
    took_s: float


@dataclass(eq=False, repr=False)
class RunningCatalogue:
    """One agent, served. Reloads come one after the other; requests never wait for one.

    All generations share one index. While a sync writes, what answers recalls from what is written by then: a flow that
    is new there takes a place among what is recalled and is then left out, one that was deleted is found no more, and
    one that was rewritten is found by its new examples. Which flow is chosen, its guard and its prompt are always those
    of one generation. Nothing is read before `reload`.

    Attributes:
        settings: How it selects; `settings.agent_id` is whose flows these are.
        memory: The index, of all agents of this process.
        read: Reads flows and tools from where they are written; blocking, and called in a thread.
        model: Chooses, and goes on in conversations; closed by whoever made it.
        decider: Asked before the model, which flow fits and in conversations; closed by whoever made it.
        log: Where outcomes are kept, if anywhere.
        learned: Where it is kept what was learned, if anywhere; by default in the file of the settings.
        evidence: The log that a sync learns from, if any; by default the file of the settings.
        claims: Where calls that destroy something are claimed before they are made.
        secret: Conversations that leave are signed with it, and none that comes back without is gone on with.
        agreement: Has the replicas of a service switch together; None where it is one process.
        factory: Makes the agent, as `package.module:factory`; without one it is made of the tools.
        tool_examples: The file of examples of the connected tools; with a model, what it lacks is written into it.
        patience_s: How many seconds a reading may take; then it is left behind, and another one may begin.
        recalls: The index as requests ask it: those of one moment together.
        problem: Why the newest files are not live; empty where they are.
        failures: How often flows and tools could not be read anew.
        index_problem: Why the index cannot be asked now, or what it has lost; empty where nothing is wrong with it.
        is_outdated: Whether a reading that was given up has come back since: the next one may succeed.
    """

    settings: Settings
    memory: ProceduralMemory
    read: Callable[[], Sources]
    _: KW_ONLY
    model: ChatModel | None = None
    decider: DecisionClient | None = None
    log: "OutcomeLog | None" = None
    learned: OverlayStore | None = None
    evidence: "OutcomeLog | Path | None" = None
    claims: ClaimStore | None = None
    agreement: "Agreement | None" = None
    secret: Secret = field(default_factory=lambda: token_bytes(32))
    factory: str | None = None
    tool_examples: Path | None = None
    patience_s: float = _PATIENCE_S
    problem: str = field(default="", init=False)
    failures: int = field(default=0, init=False)
    index_problem: str = field(default="", init=False)
    is_outdated: bool = field(default=False, init=False)
    _live: Generation | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.recalls = BatchedRecall(
            self.memory, failed=self._note_failed_recall, limit_s=self._recall_limit, place=self.settings.url or ""
        )
        self._one_at_a_time = asyncio.Lock()
        if self.learned is None and self.settings.learned is not None:
            self.learned = OverlayFile(self.settings.learned)
        if self.evidence is None:
            self.evidence = self.settings.evidence

    @property
    def agent_id(self) -> str:
        """Whose flows these are."""
        return self.settings.agent_id

    def learned_now(self) -> Overlay | None:
        """Return what was learned so far; None where nothing was, or nothing is. Blocking.

        Raises:
            ConfigError: It cannot be read.
        """
        if self.learned is None or not self.learned.is_begun:
            return None
        return self.learned.load()

    @property
    def live(self) -> Generation:
        """What answers now.

        Raises:
            NotLoadedError: Nothing was loaded yet.
        """
        if self._live is None:
            raise NotLoadedError(self.agent_id, self.problem)
        return self._live

    @property
    def is_ready(self) -> bool:
        """Whether anything can be answered."""
        return self._live is not None

    @property
    def number(self) -> int:
        """Of the generation that answers; 0 as long as nothing was loaded."""
        return 0 if self._live is None else self._live.number

    async def reload(self, *, allow_delete: bool = False) -> Generation:
        """Read, check and sync what is written now, and put it in place of what answers; requests go on meanwhile.

        Args:
            allow_delete: Whether most of the flows may be gone; as of `sync_registry`.

        Raises:
            JazzSelectError: It cannot be used; what answered before still does, and `problem` says why.
        """
        async with self._one_at_a_time:
            started, self.is_outdated = perf_counter(), False
            try:
                found = await self._read_sources()
                made = await self._make_generation(found, started, allow_delete=allow_delete)
            except Exception as error:
                self.problem = str(error) if isinstance(error, JazzSelectError) else describe_error(error)
                self.failures += 1
                raise
            _tell(made, self)
            self._live, self.problem = made, ""
            return made

    def note_index(self, problem: str) -> None:
        """Note what is wrong with the index, or that nothing is any more; the log says so once."""
        if problem and not self.index_problem:
            _log.warning("agent %s: the index does not answer for it: %s", self.agent_id, problem)
        elif self.index_problem and not problem:
            _log.info("agent %s: the index answers again", self.agent_id)
        self.index_problem = problem

    def _note_failed_recall(self, error: StoreError) -> None:
        if self.memory.is_shared and isinstance(error, StoreUnavailableError | FlowsMissingError):
            self.note_index(str(error))

    def _recall_limit(self) -> float | None:
        """Return the seconds a server may take for an answer; fewer once it is known not to answer."""
        if not self.memory.is_shared:
            return None
        return _RECALL_AWAY_S if self.index_problem else _RECALL_S

    async def restore(self) -> None:
        """Write the flows that answer into the index again, after somebody deleted them there.

        Raises:
            JazzSelectError: It failed.
        """
        async with self._one_at_a_time:
            if self.agreement is None:
                await self._write_again()
            else:
                await self.agreement.restore_index(self._write_again, self._has_flows)
            self.note_index("")

    async def _has_flows(self) -> bool:
        return bool(await self.memory.count_flows(self.agent_id))

    async def _write_again(self) -> None:
        live = self.live
        report = await sync_registry(
            self.memory,
            self.agent_id,
            live.registry,
            tools=live.tools or None,
            learned=await in_thread(self.learned_now),
            evidence=self.evidence,
        )
        count = len(report.created) + len(report.updated)
        _log.warning("agent %s: %d flows were gone from the index, and are written again", self.agent_id, count)

    async def _read_sources(self) -> Sources:
        """Read the catalogue in its own thread, since a module may never return."""
        reading = asyncio.create_task(in_daemon_thread(self.read, name=_READS))
        try:
            done, _ = await asyncio.wait({reading}, timeout=self.patience_s)
        except asyncio.CancelledError:
            reading.cancel()
            raise
        if done:
            return reading.result()
        reading.add_done_callback(self._came_back)
        problem = (
            f"reading it takes longer than {self.patience_s:g} s, and is not waited for any more: does a module wait "
            "for something? Mend it; where it never comes back, start the service again"
        )
        raise FlowLoadError(self.settings.flows, problem)

    def _came_back(self, reading: "asyncio.Task[Sources]") -> None:
        self.is_outdated = not reading.cancelled()
        if self.is_outdated:
            reading.exception()  # looked at: what it was is found out by the next reading

    async def _make_generation(self, found: Sources, started: float, *, allow_delete: bool) -> Generation:
        selector = self.selector(found.registry)
        agent = await self._agent(selector, found)
        learned = await in_thread(self.learned_now)

        def sync() -> Awaitable["SyncReport"]:
            return sync_registry(
                self.memory,
                self.agent_id,
                found.registry,
                tools=agent.tools or None,
                learned=learned,
                evidence=self.evidence,
                allow_delete=allow_delete,
            )

        report = await (
            sync() if self.agreement is None else self._sync_with_replicas(self.agreement, found, learned, sync)
        )
        if self.evidence is not None:
            await selector.measure()
        return Generation(
            number=self.number + 1,
            registry=found.registry,
            tools=agent.tools,
            selector=selector,
            agent=agent,
            report=report,
            loaded_at=time(),
            took_s=perf_counter() - started,
        )

    async def _sync_with_replicas(
        self,
        agreement: "Agreement",
        found: Sources,
        learned: Overlay | None,
        sync: Callable[[], Awaitable["SyncReport"]],
    ) -> "SyncReport":
        """Have the index hold these files, by this replica's sync or another one's."""
        from jazz_select.memory.sync import SyncReport

        digest = await in_thread(agreement.digest, found.registry, learned)
        report = await agreement.reach(digest, len(found.registry), sync)
        self.memory.refresh(self.agent_id)
        agreement.switch(digest)
        return SyncReport(skipped=tuple(each.name for each in found.registry.values())) if report is None else report

    async def _agent(self, selector: FlowSelector, found: Sources) -> Agent:
        """Make the agent with the team's factory, or without one, from the tools and the settings.

        Raises:
            ConfigError: There is no such factory, or it gives no agent in time.
        """
        if self.factory is None:
            policy = None if self.model is not None else found.policy
            return Agent(
                selector,
                found.tools,
                self.model,
                decision_callback=policy,
                approval=Approval(claims=self.claims),
                prompt=PromptOptions(narrowing="growing"),
                decider=self.decider,
            )
        factory = await in_daemon_thread(partial(load_factory, self.factory, named_by="factory"), name=_READS)
        try:
            made = await run_with_timeout(
                made_by, factory, selector, self.model, limit_s=self.patience_s, name=_READS, of=factory
            )
        except Exception as error:
            raise ConfigError(f"factory {self.factory} failed: {describe_error(error)}") from error
        if not isinstance(made, Agent):
            raise ConfigError(f"factory {self.factory} must give an Agent, got {made!r:.80}")
        return made if self.claims is None else made.with_claims(self.claims)

    def selector(self, registry: FlowRegistry | None = None, **options: object) -> FlowSelector:
        """Create a selector over flows, by default those that answer now; `options` override the settings."""
        settings = self.settings
        given: Mapping[str, object] = {
            **selector_options(settings),
            "decider": self.decider,
            "log": self.log,
            **options,
        }
        flows = self.live.registry if registry is None else registry
        return FlowSelector(self.model, flows, self.recalls, self.agent_id, **given)  # pyright: ignore[reportArgumentType]


def _tell(made: Generation, catalogue: RunningCatalogue) -> None:
    """Log the outcome of a reload; of the first one only if it repaired something."""
    if made.number == 1 and not catalogue.problem:
        return
    report = made.report
    kinds = {"created": report.created, "updated": report.updated, "deleted": report.deleted}
    changes = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items() if names) or "no flow changed"
    how = "live again" if catalogue.problem else "live"
    _log.info("agent %s: %s: generation %d, %s (%.2f s)", catalogue.agent_id, how, made.number, changes, made.took_s)
