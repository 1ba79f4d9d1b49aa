"""Tools kept in procedural memory like flows, and recalled from it: with hundreds connected, a model sees but a few."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast
from uuid import NAMESPACE_DNS, uuid5

from jazz_select.arguments import Methods, Positive, checked
from jazz_select.chat.decisions import DeciderLike, decision_client_for
from jazz_select.errors import ConfigError, JazzSelectError
from jazz_select.json_values import is_object
from jazz_select.ports import FlowMemory
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.routing.tools.tool_decision import decide_tools
from jazz_select.text import at_word, cut, describe_error, in_log, with_parameters
from jazz_select.values import AgentScope, FlowCard
from jazz_select.words import stems

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.memory.sync import SyncReport

_log = logging.getLogger(__name__)

_NAMESPACE: Final = uuid5(NAMESPACE_DNS, "tools.jazz-select")
"""The namespace of tools' ids: no flow has one of them, whatever it is called."""
_SCOPE: Final = "tools"
_OWNER, _PARAMETER, _TEXT = 200, 300, 8_000
"""Characters kept of a name of the owner, of what a listing says of one parameter, and of all of it: a server may send
a book."""
_Memory: TypeAlias = Annotated[FlowMemory, Methods("a memory with `async recall(query, agent_id, top_k)`", "recall")]
_STALE_ROUNDS: Final = 3
_ERROR: Final = 300
NOTHING_FITS: Final = 0.6
"""P(none) from which on a search shows no tool but those that the request names.

Without examples it leaves out the right tool in at most 2 % of the requests that would have found it, and shows nothing
for more than a quarter of BFCL's that no tool is for (`benchmarks.bare_tools`); less often where others are near."""
_CODE_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")
_STOPS: Final = ".:/-"
"""Characters of names that may also end a sentence, or follow a name in it."""


class RecalledTools(list[Tool]):
    """Tools by name, and what there is to say of how they were found.

    Attributes:
        notes: What was degraded on the way.
        confidences: P(this tool is right) by name, as far as known; with `p_none` their sum is at most 1.
        p_none: P(none of the indexed tools is right), or None if unknown.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        notes: tuple[str, ...] = (),
        confidences: Mapping[str, float] | None = None,
        p_none: float | None = None,
    ) -> None:
        super().__init__(tools)
        self.notes, self.confidences, self.p_none = notes, confidences or {}, p_none


class ToolRecall:
    """Finds the connected tools that are nearest to a request; what it leaves out is hidden, so in doubt nothing is."""

    @checked
    def __init__(
        self, memory: _Memory, agent_id: str, *, top_k: Positive = 20, decider: DeciderLike | None = None
    ) -> None:
        """Recall from this memory, which `sync_tools` has filled.

        Args:
            memory: Where the tools are indexed.
            agent_id: Whose tools; their flows are apart.
            top_k: How many.
            decider: A decision model (see `as_decision_model`) that `search` asks which of the tools that it found
                fits, or that none does. `recall`, which hides nothing, asks nobody.

        Raises:
            ConfigError: An argument cannot work.
        """
        self._memory = memory
        self._scope = tools_scope(agent_id)
        self._decider = decision_client_for(decider)
        self.top_k = top_k

    @checked
    async def recall(self, request: str, tools: ToolsLike, top_k: Positive | None = None) -> RecalledTools:
        """Return at most `top_k` of these tools by name; their order carries no rank.

        Tools that are indexed but not connected take no place. Places that recall cannot fill go to tools that it did
        not find, since a connected tool may not be indexed yet.

        Args:
            request: The user's request.
            tools: The connected tools.
            top_k: Number of tools, in place of the default.

        Returns:
            All tools if there are no more than that; also, with a note, if the memory fails or finds none.

        Raises:
            ConfigError: `top_k` is no whole number of at least 1.
            DuplicateToolError: Two tools have one name.
        """
        limit = top_k or self.top_k
        toolbox = toolbox_of(tools)
        if len(toolbox) <= limit:
            return RecalledTools(_by_name(toolbox.values()))
        try:
            found = await self._recall_connected(request, toolbox, limit)
        except JazzSelectError as error:
            _log.warning(
                "agent_id=<%s>, error=<%s> | recall of tools failed, showing all of them", self._scope, in_log(error)
            )
            note = f"recall failed, so all {len(toolbox)} tools are shown: {cut(str(error), _ERROR)}"
            return RecalledTools(_by_name(toolbox.values()), notes=(note,))
        tools_by_name, notes = {tool.name: tool for tool in found}, found.notes
        if not found:
            note = f"none of the {len(toolbox)} tools was recalled, so all are shown (is sync_tools due?)"
            return RecalledTools(_by_name(toolbox.values()), notes=(*notes, note))
        if len(found) < limit:
            others = [tool for tool in _by_name(toolbox.values()) if tool.name not in tools_by_name]
            others = others[: limit - len(found)]
            notes = (*notes, f"only {len(found)} tools were recalled; {len(others)} others are shown beside them")
            tools_by_name |= {tool.name: tool for tool in others}
        return RecalledTools(
            _by_name(tools_by_name.values()), notes=notes, confidences=found.confidences, p_none=found.p_none
        )

    @checked
    async def search(self, request: str, tools: ToolsLike, top_k: Positive | None = None) -> RecalledTools:
        """Return those of these tools that were found for a request, which may be none.

        Unlike `recall`, it hides what probably does not fit: from a P(none) of `NOTHING_FITS` on, only tools are left
        whose exact name stands in the request. These are always there, as far as `top_k` allows. With a decision model,
        P(none) is that none of the tools found is right, by recall and the model together; if the model fails, it is
        recall's, with a note.

        Args:
            request: What is to be done.
            tools: The connected tools.
            top_k: Number of tools, in place of the default.

        Raises:
            ConfigError: `top_k` is no whole number of at least 1, or nothing was indexed.
            DuplicateToolError: Two tools have one name.
            StoreError: The index cannot be read.
            EmbeddingError: The embedder failed.
        """
        limit = top_k or self.top_k
        toolbox = toolbox_of(tools)
        named = named_tools(request, toolbox)
        found = await self._apply_decision(request, await self._recall_connected(request, toolbox, limit), named)
        kept = {tool.name: tool for tool in named}  # first, so that the limit cuts none of them for one that was found
        if found.p_none is None or found.p_none < NOTHING_FITS:
            kept |= {tool.name: tool for tool in found if tool.name not in kept}
        shown = list(kept.values())[:limit]
        return RecalledTools(_by_name(shown), notes=found.notes, confidences=found.confidences, p_none=found.p_none)

    async def _apply_decision(self, request: str, found: RecalledTools, named: Sequence[Tool]) -> RecalledTools:
        """Ask the decision model, if there is one and its answer can change what is shown."""
        names = {tool.name for tool in named}
        if self._decider is None or all(tool.name in names for tool in found):
            return found
        try:
            confidences, p_none = await decide_tools(
                self._decider, request, found, confidences=found.confidences, p_none=found.p_none
            )
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            why = describe_error(error)
            _log.warning("agent_id=<%s>, error=<%s> | the decision model is passed over", self._scope, in_log(why))
            note = f"the decision model was passed over: {cut(why, _ERROR)}"
            return RecalledTools(found, notes=(*found.notes, note), confidences=found.confidences, p_none=found.p_none)
        return RecalledTools(found, notes=found.notes, confidences=confidences, p_none=p_none)

    async def _recall_connected(self, request: str, toolbox: Mapping[str, Tool], limit: int) -> RecalledTools:
        """Recall connected tools, best first; repeat without disconnected ones if these took places."""
        live = {tool_id(tool.name): tool for tool in toolbox.values()}
        stale: set[str] = set()
        found = RecalledTools()
        for _ in range(_STALE_ROUNDS):
            options: dict[str, Any] = {"exclude": frozenset(stale)} if stale else {}
            hits = await self._memory.recall(request, self._scope, top_k=limit, **options)
            known = {str(hit.get("flow_id", "")): hit.get("confidence") for hit in hits}
            connected: list[Tool] = []
            confidences: dict[str, float] = {}
            for found_id, confidence in islice(known.items(), limit):
                if found_id not in live:
                    continue
                connected.append(live[found_id])
                if confidence is not None:
                    confidences[live[found_id].name] = confidence
            found = RecalledTools(
                connected,
                notes=tuple(getattr(hits, "notes", ())),
                confidences=confidences,
                p_none=getattr(hits, "p_none", None),
            )
            gone = known.keys() - live.keys()
            if not gone or gone <= stale:
                break
            stale |= gone
        if stale:
            found.notes = (*found.notes, f"{len(stale)} tools are indexed and not connected; sync_tools is due")
        return found


def named_tools(request: str, tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the tools whose exact name stands in a request, as a word of its own, in the order of the request."""
    places: dict[str, int] = {}
    for match in _CODE_NAME.finditer(request):
        for name in (match[0], match[0].strip(_STOPS)):
            if name in tools:
                places[name] = request.index(name)
    for name in tools:
        if not _CODE_NAME.fullmatch(name):
            place = _place_of(name, request)
            if place is not None:
                places[name] = place
    return [tools[name] for name in sorted(places, key=places.__getitem__)]


def _place_of(name: str, request: str) -> int | None:
    """Return where a name with other characters stands in a request, between characters of no word."""
    if name not in request:
        return None
    match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", request)
    return match.start() if match else None


async def sync_tools(  # noqa: PLR0913 - all but the first are options with a name
    memory: "ProceduralMemory",
    agent_id: str,
    tools: ToolsLike,
    *,
    examples: Mapping[str, Sequence[str]] | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
    allow_delete: bool = False,
) -> "SyncReport":
    """Bring the index up to date with these tools: create, update, delete or skip each.

    It is idempotent and may be interrupted at any point: run it again. Tools have their own scope: this never touches
    the agent's flows, nor `sync_registry` its tools.

    Args:
        memory: The index.
        agent_id: The owner of the tools.
        tools: All of its tools.
        examples: Requests that each tool is for, by its name, as of `ToolExamples.examples_for`. They make recall
            better, and confidence is fitted to them as to flows' examples.
        dry_run: Only return what would happen.
        progress: Called with (tools written, tools to write) after each batch.
        allow_delete: Delete even if more than 5 tools, and more than half of the agent's, are gone; or all, if none are
            given, which usually means that a server did not answer.

    Raises:
        ConfigError: There are no tools, or no agent.
        DuplicateToolError: Two tools have one name.
        SyncDeletesError: It would delete most of the tools without permission; nothing was written.
        EmbeddingError: The embedder failed; what was written stays.
        StoreUnavailableError: The server did not answer.
    """
    toolbox = toolbox_of(tools)
    scope = tools_scope(agent_id)
    if not toolbox and not allow_delete and not dry_run:
        indexed = await memory.list_flows(scope)
        if indexed:
            raise ConfigError(
                f"no tools are given, and syncing would forget all {len(indexed)} of agent {agent_id!r}: "
                "connect the tools first, or pass allow_delete=True"
            )
    texts = examples or {}
    return await memory.sync(
        scope,
        [tool_card(tool, texts.get(tool.name, ())) for tool in toolbox.values()],
        dry_run=dry_run,
        progress=progress,
        allow_delete=allow_delete,
    )


def tool_card(tool: Tool, examples: Sequence[str] = ()) -> FlowCard:
    """Return the card of a tool for the memory, with the requests that it is for, if these are known.

    Its text is what a request may share with it: description, capabilities and parameters, and beside these the owner,
    since a description seldom says whose the tool is ("List all files"), and a request often does. Types and output are
    left out: nobody asks for them, and their changes need no sync.
    """
    sentences = [each for each in (tool.description.strip(), *_abilities(tool)) if each]
    parameters: list[tuple[str, str]] = []
    for name, (part, _) in fields(tool.input_schema).items():
        if part is not tool.input_schema:  # the only field of what is no object
            parameters.append((name, _describe_parameter(part)))
    about = with_parameters(" ".join(sentences), parameters)
    return FlowCard(
        id=tool_id(tool.name),
        name=tool.name,
        title=tool.title,
        type="tool",
        description=cut(about, _TEXT),
        text=cut(f"{tool.name}\n{about}", _TEXT),
        examples=tuple(examples),
        owner=", ".join(_owner(tool)),
    )


def tool_id(name: str) -> str:
    """Return the id of the tool of this name: the same in every process, and never that of a flow."""
    return str(uuid5(_NAMESPACE, name.encode(errors="replace").decode()))


def tools_scope(agent_id: str) -> AgentScope:
    """Return the scope of an agent's tools, beside that of its flows; no agent can have this name.

    Raises:
        ConfigError: It is no name of an agent.
    """
    given = cast("object", agent_id)
    if not isinstance(given, str) or not given.strip() or AgentScope.MARK in given:
        raise ConfigError(f"agent_id must be a name such as 'support', got {agent_id!r:.80}")
    return AgentScope.for_kind(agent_id, _SCOPE)


def _owner(tool: Tool) -> list[str]:
    """Return whose a tool is, the name that the program gave first; what only repeats words of that is left out."""
    named: list[str] = []
    known: set[str] = set()
    for part in (tool.provider, tool.provider_title, tool.group):
        text = at_word(" ".join(part.split()), _OWNER)
        if not known.issuperset(stems(text)):
            named.append(text)
            known.update(stems(text))
    return named


def _abilities(tool: Tool) -> Iterable[str]:
    """Return the labelled remainder of a listing, beside owner, description and parameters."""
    if tool.operation and not tool.name.endswith(tool.operation):  # a prefix tells servers apart, and says nothing new
        yield f"Of {tool.operation}."
    if tool.capabilities:
        yield f"Can {', '.join(each.replace('.', ' ') for each in tool.capabilities)}."


def _describe_parameter(schema: object) -> str:
    description: object = schema.get("description") if is_object(schema) else None
    if not isinstance(description, str):
        return ""
    return at_word(" ".join(description.split()), _PARAMETER)


def _by_name(tools: Iterable[Tool]) -> list[Tool]:
    return sorted(tools, key=lambda tool: (tool.name.casefold(), tool.name))
