"""The log of a guard: a line of JSON for each call that is asked about, let pass, refused or answered."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from jazz_select.errors import ConfigError
from jazz_select.json_values import shorter_text
from jazz_select.text import beginning, describe_error
from jazz_select.threads import in_thread

_LONGEST_TEXT: Final = 500
_LONGEST_ARGUMENTS: Final = 4_000
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
        """Add a line.

        Raises:
            OSError: It could not be written.
        """
        if self._path is None:
            return
        told = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        told |= {
            name: beginning(each, _LONGEST_TEXT) if isinstance(each, str) else each for name, each in fields.items()
        }
        if self._with_arguments and arguments is not None:
            told["arguments"] = shorter_text(dict(arguments), _LONGEST_ARGUMENTS)
        await in_thread(self._append, orjson.dumps(told, default=str) + b"\n")

    async def note(self, event: str, fields: Mapping[str, Any]) -> None:
        """Add a line about what has happened already; a failure is logged."""
        try:
            await self.write(event, fields)
        except OSError as error:
            _log.warning("file=<%s>, error=<%s> | the guard's log cannot be written", self._path, describe_error(error))

    def _append(self, line: bytes) -> None:
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(line)
