"""What stands in a client's list of tools. Within a session it only grows, at its end: prompts stay in caches."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from mcp import types

from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.foreign import description_of, in_its_words, plain_schema

Listed = Literal["none", "found", "all"]
"""Which of the connected tools are listed beside the four: none, those that a search of this session found, or all."""
LISTED: Final = ("none", "found", "all")
_MOST_SESSIONS: Final = 10_000
_MOST_FOUND: Final = 128
"""Tools that searches may add to one session's list."""


class Listings:
    """The lists of all sessions. A tool that was listed stays, word for word, though it may have gone meanwhile."""

    def __init__(self, listed: Listed) -> None:
        """Take which tools are listed."""
        self.listed = listed
        self._sessions: OrderedDict[str, dict[str, types.Tool]] = OrderedDict()

    def of(self, session: str, tools: Mapping[str, Tool], foreign: Iterable[str]) -> list[types.Tool]:
        """The list of a session, grown by what it has to show by now.

        Args:
            session: Which; empty for all clients that have none.
            tools: What is connected.
            foreign: The names of those that are of other servers.
        """
        own = self._session(session)
        if self.listed == "all":
            self._add(own, tools.values(), set(foreign))
        return list(own.values())

    def found(self, session: str, tools: Iterable[Tool], foreign: Iterable[str]) -> bool:
        """Take what a search of a session found; whether its list has grown. One without a session keeps nothing."""
        if self.listed != "found" or not session:
            return False
        own = self._session(session)
        before = len(own)
        self._add(own, list(tools)[: max(_MOST_FOUND - before, 0)], set(foreign))
        return len(own) > before

    def _add(self, own: dict[str, types.Tool], tools: Iterable[Tool], foreign: set[str]) -> None:
        for tool in tools:
            if tool.name not in own:
                own[tool.name] = as_listed(tool, is_foreign=tool.name in foreign)

    def _session(self, session: str) -> dict[str, types.Tool]:
        own = self._sessions.setdefault(session, {})
        self._sessions.move_to_end(session)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return own


def as_listed(tool: Tool, *, is_foreign: bool) -> types.Tool:
    """A connected tool as an entry of a list that a model reads."""
    about = in_its_words(tool.provider, tool.description) if is_foreign else description_of(tool.description)
    return types.Tool(
        name=tool.name,
        title=None if is_foreign else tool.title or None,
        description=about,
        input_schema=plain_schema(tool.input_schema),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads if tool.read_only is not None else None,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent or None,
        ),
    )
