"""Tool search for the slots of other frameworks: from queries and tools to the names of those that fit, or to none."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Self, cast

from jazz_select.arguments import Positive, checked
from jazz_select.chat.decisions import DeciderLike, decision_client_for
from jazz_select.chat.json_reader import parse_whole
from jazz_select.errors import ConfigError, JazzSelectError
from jazz_select.json_values import is_object
from jazz_select.ports import Embedder
from jazz_select.routing.tools.showing import shown_names
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.routing.tools.tool_memory import RecalledTools, ToolRecall, named_tools, sync_tools
from jazz_select.text import beginning, in_log, misspelt

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory

_log = logging.getLogger(__name__)

FOUND: Final = 5
"""The default number of tools that a search returns."""
SEARCH_TOOLS: Final = "search_tools"
"""The name of the search tool, where an adapter defines one."""
ABOUT: Final = (
    "Find the tools for something that is to be done. Most tools are not loaded: search before you say that something "
    "cannot be done. The result is empty if probably no tool fits."
)
QUERY: Final = "What is to be done, in a sentence."
QUERY_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": QUERY}},
    "required": ["query"],
    "additionalProperties": False,
}
NO_TOOL: Final = (
    "No tool was found: probably none does this. Search once more in other words; if that finds nothing either, say "
    "that no tool can do it."
)
_FAILED: Final = "The search failed, so nothing is known of the tools. Search again."
_AGENT: Final = "tool-search"
_LONGEST_QUERY: Final = 20_000
_MOST_QUERIES: Final = 8
_MOST_INDEXED: Final = 20_000
"""The most tools of one index: those of every user whose tools a framework has shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTools:
    """What a search found.

    Attributes:
        names: The tools, likeliest first; empty if probably none of them fits.
        confidences: P(this tool is right) by its name, as far as known.
        p_none: P(none of the tools is right); None if unknown.
        notes: What was degraded on the way.
        message: What to tell a model if there are no names; empty otherwise.
    """

    names: tuple[str, ...] = ()
    confidences: Mapping[str, float] = field(default_factory=dict[str, float])
    p_none: float | None = None
    notes: tuple[str, ...] = ()
    message: str = ""


class ToolSearcher:
    """Finds tools by what is to be done, in an index of its own. Safe for concurrent use.

    The index lasts as long as the searcher. It follows the tools that each search is given: a new or changed one is
    indexed before the search, and one that is not given is not found. Close it with `async with` or `aclose`.
    """

    @checked
    def __init__(
        self,
        tools: ToolsLike = (),
        *,
        top_k: Positive = FOUND,
        embedder: str | Embedder = "auto",
        decider: DeciderLike | None = None,
        examples: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Create a searcher; it opens its index at the first search.

        Args:
            tools: The tools. If a framework has tools of the same names, these descriptions are searched in place of
                the framework's: they may also have an owner, capabilities and a title.
            top_k: The default number of tools that a search returns.
            embedder: As for `ProceduralMemory.open`.
            decider: A decision model that is asked which of the tools found fits, or that none does.
            examples: Requests that each tool is for, by its name.

        Raises:
            ConfigError: An argument cannot work.
            DuplicateToolError: Two tools have one name.
        """
        self.tools: Mapping[str, Tool] = toolbox_of(tools)
        self._top_k = top_k
        self._embedder = embedder
        self._decider = decision_client_for(decider)
        self._examples = examples
        self._memory: ProceduralMemory | None = None
        self._recall: ToolRecall | None = None
        self._indexed: dict[str, Tool] = {}
        self._indexing = asyncio.Lock()

    async def search(
        self, queries: str | Sequence[str], tools: ToolsLike | None = None, top_k: int | None = None
    ) -> FoundTools:
        """Return the tools that fit one of the queries. A failure is told in the result and not raised.

        Args:
            queries: What is to be done; several queries share the places, the best of each first.
            tools: The tools to search among; by default those of the searcher.
            top_k: The number of tools, in place of the default.

        Raises:
            ConfigError: There is no such embedder, or an argument cannot work.
            DuplicateToolError: Two tools have one name.
        """
        limit = top_k or self._top_k
        found: list[RecalledTools] = []
        ranked: list[list[str]] = []
        toolbox = self._tools_by_name(tools)
        try:
            recall = await self._index_tools(toolbox)
            for query in _texts(queries):
                recalled = await recall.search(query, toolbox, limit)
                named = [tool.name for tool in named_tools(query, toolbox)]
                found.append(recalled)
                ranked.append(_rank_names(recalled, named))
        except ConfigError:
            raise
        except JazzSelectError as error:
            _log.warning("error=<%s> | a search for tools failed", in_log(error))
            return FoundTools(notes=(f"the search failed: {beginning(str(error), 300)}",), message=_FAILED)
        names = tuple(_in_turns(ranked)[:limit])
        notes = self._example_notes(toolbox)
        for recalled in found:
            notes += recalled.notes
        return FoundTools(
            names=names,
            confidences=_highest_confidences(found, names),
            p_none=_least_none(found),
            notes=tuple(dict.fromkeys(notes)),
            message="" if names else NO_TOOL,
        )

    async def narrow(self, request: str, tools: ToolsLike | None = None, top_k: int | None = None) -> tuple[str, ...]:
        """Return the names of the tools nearest to a request, to show a model before it asks; in doubt all of them.

        Unlike `search` it hides nothing because it probably does not fit: nobody may search again.

        Raises:
            ConfigError: There is no such embedder, or an argument cannot work.
            DuplicateToolError: Two tools have one name.
        """
        toolbox = self._tools_by_name(tools)
        try:
            recall = await self._index_tools(toolbox)
            found = await recall.recall(beginning(request, _LONGEST_QUERY), toolbox, top_k or self._top_k)
        except ConfigError:
            raise
        except JazzSelectError as error:
            _log.warning("error=<%s> | tools are not narrowed, all of them are shown", in_log(error))
            return tuple(toolbox)
        return tuple(tool.name for tool in found)

    def _example_notes(self, toolbox: Mapping[str, Tool]) -> list[str]:
        """Return what there is to say of examples that are for none of the tools that were ever shown."""
        # A tool of an earlier search counts as known: each search may be given other tools.
        unknown = [name for name in self._examples or () if name not in toolbox and name not in self._indexed]
        return [f"there are examples for a tool that is not here: {misspelt(name, toolbox)}" for name in unknown[:3]]

    def _tools_by_name(self, tools: ToolsLike | None) -> Mapping[str, Tool]:
        """Return tools by name, as the searcher's own describe them."""
        if tools is None:
            return self.tools
        return {name: self.tools.get(name, tool) for name, tool in toolbox_of(tools).items()}

    async def _index_tools(self, toolbox: Mapping[str, Tool]) -> ToolRecall:
        """Return the recall, once all of these tools are indexed as they are now."""
        async with self._indexing:
            if self._memory is None or self._recall is None:
                from jazz_select.memory.procedural import ProceduralMemory  # numpy takes long to load

                self._memory = await ProceduralMemory.open(":memory:", embedder=self._embedder)
                self._recall = ToolRecall(self._memory, _AGENT, top_k=self._top_k, decider=self._decider)
            changed = {name: tool for name, tool in toolbox.items() if not _is_same(tool, self._indexed.get(name))}
            if changed:
                # Tools that are not here now stay indexed: users take turns, each with tools of their own.
                to_index = {**self._indexed, **changed}
                if len(to_index) > _MOST_INDEXED:
                    to_index = dict(toolbox)
                await sync_tools(self._memory, _AGENT, to_index, examples=self._examples, allow_delete=True)
                self._indexed = to_index
            return self._recall

    async def aclose(self) -> None:
        """Close the index, and the decision model if it was named by a string. A later search opens another index."""
        memory, self._memory, self._recall = self._memory, None, None
        self._indexed = {}
        if memory is not None:
            await memory.close()
        if self._decider is not None:
            await self._decider.aclose()

    async def __aenter__(self) -> Self:
        """Return the searcher."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the index."""
        await self.aclose()


def searcher_of(tools: ToolsLike | ToolSearcher) -> ToolSearcher:
    """Return a searcher of these tools, or the given searcher."""
    return tools if isinstance(tools, ToolSearcher) else ToolSearcher(tools)


class ShownTools:
    """Tools by the names that providers take, and a search among them, for an adapter to plain data.

    Attributes:
        tools: The tools by their names for models.
    """

    def __init__(self, tools: ToolsLike | ToolSearcher) -> None:
        """Name the tools.

        Raises:
            ConfigError: There are no tools, so none could ever be found.
        """
        self._searcher = searcher_of(tools)
        if not self._searcher.tools:
            raise ConfigError("tools is empty, so no tool could be found: pass the tools that a model may search among")
        self.tools: Mapping[str, Tool] = shown_names(self._searcher.tools.values())
        self._names = {tool.name: name for name, tool in self.tools.items()}

    async def search(self, arguments: object) -> tuple[dict[str, Tool], str]:
        """Return the tools for a model's arguments of the search tool, and what to tell the model if there are none."""
        found = await self._searcher.search(query_in(arguments))
        names = [self._names[name] for name in found.names]
        return {name: self.tools[name] for name in names}, found.message


def check_search_name(name: str, tools: Iterable[str]) -> None:
    """Refuse a name of the search tool that one of the tools has.

    Raises:
        ConfigError: A model could not tell the two apart.
    """
    if name in tools:
        raise ConfigError(f"a tool is called {name!r:.80}, as the tool that searches: rename it, or the search")


def query_in(arguments: object) -> str:
    """Return the query in a model's arguments for the search tool, read or as text; empty if there is none."""
    if isinstance(arguments, str):
        arguments = parse_whole(arguments)
    given: object = arguments.get("query") if is_object(arguments) else None
    return given if isinstance(given, str) else ""


def _texts(queries: object) -> list[str]:
    """Return the queries that a model gave, within bounds."""
    if isinstance(queries, str):
        queries = [queries]
    listed = cast("Sequence[object]", queries) if isinstance(queries, Sequence) else ()
    texts: list[str] = []
    for query in listed:
        if isinstance(query, str) and query.strip():
            texts.append(beginning(query, _LONGEST_QUERY))
        if len(texts) == _MOST_QUERIES:
            break
    return texts


def _is_same(tool: Tool, indexed: Tool | None) -> bool:
    """Whether the index has a tool with the same texts."""
    if tool is indexed:
        return True
    if indexed is None:
        return False
    texts = (tool.description, tool.title, tool.input_schema)
    return texts == (indexed.description, indexed.title, indexed.input_schema)


def _rank_names(found: RecalledTools, named: Sequence[str]) -> list[str]:
    """Return the names of what was found: those that the query names first, then by confidence."""
    by_confidence = sorted((tool.name for tool in found), key=lambda name: -found.confidences.get(name, 0.0))
    first = [name for name in named if name in by_confidence]
    return list(dict.fromkeys((*first, *by_confidence)))


def _in_turns(ranked: Sequence[Sequence[str]]) -> list[str]:
    """Return the first of each list, then the second of each, and so on; each name once."""
    turns = zip_longest(*ranked)
    names = [name for turn in turns for name in turn if name is not None]
    return list(dict.fromkeys(names))


def _highest_confidences(found: Sequence[RecalledTools], names: Iterable[str]) -> dict[str, float]:
    """Return the confidence of each of these tools for the query that it fits best."""
    highest: dict[str, float] = {}
    for name in names:
        confidences = [each.confidences[name] for each in found if name in each.confidences]
        if confidences:
            highest[name] = max(confidences)
    return highest


def _least_none(found: Sequence[RecalledTools]) -> float | None:
    """Return P(none is right) for the query that some tool fits best; None if it is unknown for one."""
    shares: list[float] = []
    for each in found:
        if each.p_none is None:
            return None
        shares.append(each.p_none)
    return min(shares, default=None)
