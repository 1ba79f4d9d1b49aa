"""The log of a guard: a line of JSON for each call that is asked about, let pass, refused or answered."""

import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from jazz_select.errors import ConfigError
from jazz_select.json_values import is_array, is_object, json_bytes, shorter_text
from jazz_select.text import beginning, describe_error, json_line
from jazz_select.threads import in_thread

_LONGEST_TEXT: Final = 500
_LONGEST_ARGUMENTS: Final = 4_000
_QUOTING: Final = frozenset(("error", "reason"))
"""Fields whose texts may quote an argument: what a check or a server says of it."""
_SHORTEST_HIDDEN: Final = 4
"""Characters below which hiding a value everywhere would make texts unreadable, and hide nothing."""
_PART: Final = 16
"""Characters at the beginning or the end of a value by which a part of it is found."""
_MOST_VALUES: Final = 1_000
"""Values that are looked for in a text."""
_HIDDEN: Final = "[argument]"
_log = logging.getLogger(__name__)


class GuardLog:
    """Lines in a file, each written before what it tells of goes on. Without a file nothing is kept."""

    def __init__(self, path: Path | None = None, *, with_arguments: bool = False) -> None:
        """Open the file, or make it.

        Args:
            path: The file; lines are added at its end.
            with_arguments: Whether arguments are kept, which may hold what is private.

        Raises:
            ConfigError: It cannot be written.
        """
        self._path, self._with_arguments = path, with_arguments
        if path is None:
            return
        try:
            path.touch(mode=0o600)
            with path.open("ab"):
                pass
        except OSError as error:
            msg = f"the log {path} cannot be written: {describe_error(error)}; name a file in a folder that is there"
            raise ConfigError(msg) from error

    async def write(self, event: str, fields: Mapping[str, Any], arguments: Mapping[str, Any] | None = None) -> None:
        """Add a line. Where no arguments are kept, none of their texts stands in what is said of the call.

        Raises:
            OSError: It could not be written.
        """
        if self._path is None:
            return
        line = self._line(event, fields, arguments)
        await in_thread(self._append, line)

    def _line(self, event: str, fields: Mapping[str, Any], arguments: Mapping[str, Any] | None) -> bytes:
        told: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        for name, value in fields.items():
            if not isinstance(value, str):
                told[name] = value
                continue
            is_quoting = name in _QUOTING and arguments is not None and not self._with_arguments
            # Hidden before it is cut: the beginning of a value tells much of it.
            text = _without_values_of(value, arguments or {}) if is_quoting else value
            told[name] = beginning(text, _LONGEST_TEXT)
        if self._with_arguments and arguments is not None:
            told["arguments"] = shorter_text(dict(arguments), _LONGEST_ARGUMENTS)
        return json_bytes(told) + b"\n"

    async def note(self, event: str, fields: Mapping[str, Any], arguments: Mapping[str, Any] | None = None) -> None:
        """Add a line about what has happened already; a failure is logged."""
        try:
            await self.write(event, fields, arguments)
        except OSError as error:
            self._warn(error)

    def note_at_once(self, event: str, fields: Mapping[str, Any]) -> None:
        """Add a line from a task that is being cancelled, which cannot wait for a thread; a failure is logged."""
        if self._path is None:
            return
        try:
            self._append(self._line(event, fields, None))
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        _log.warning("file=<%s>, error=<%s> | the guard's log cannot be written", self._path, describe_error(error))

    def _append(self, line: bytes) -> None:
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(line)


def _without_values_of(text: str, arguments: Mapping[str, Any]) -> str:
    """Return a text in which no value of the arguments stands, as it is or as JSON or Python write it."""
    leaves = list(islice(_leaves(arguments), _MOST_VALUES + 1))
    if len(leaves) > _MOST_VALUES:
        return _HIDDEN  # looking for all of them would hold the loop
    values = {str(each) for each in leaves if not isinstance(each, bool)}
    spellings: set[str] = set()
    for value in values:
        # Match it as it is, and as escaped in a Python or JSON string.
        spellings |= {value, repr(value)[1:-1], json_line(value)[1:-1]}
    for spelling in sorted(spellings, key=len, reverse=True):
        if len(spelling) >= _SHORTEST_HIDDEN:
            text = text.replace(spelling, _HIDDEN)
        # Whoever quoted a long value may have cut it.
        if len(spelling) > _PART and (spelling[:_PART] in text or spelling[-_PART:] in text):
            return _HIDDEN
    return text


def _leaves(arguments: Mapping[str, Any]) -> Iterator[object]:
    """Yield the values of arguments, and the names in objects within them, which may be values too."""
    waiting: list[object] = list(arguments.values())
    while waiting:
        part = waiting.pop()
        if is_object(part):
            known = part
            yield from known
            waiting += known.values()
        elif is_array(part):
            waiting += part
        else:
            yield part
