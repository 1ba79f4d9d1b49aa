"""A server of MCP at standard in- and output, which nothing else reads or writes meanwhile."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from anyio import wrap_file
from mcp.server import Server
from mcp.server.stdio import stdio_server

from jazz_select.json_values import with_whole_characters


class _WholeLines(TextIOWrapper):
    """Lines of JSON, with U+FFFD for each lone surrogate: the SDK drops a line that its parser refuses, unanswered."""

    def readline(self, size: int = -1, /) -> str:
        """Return the next line."""
        return with_whole_characters(super().readline(size).encode()).decode()


@contextmanager
def _claimed_input() -> Generator[TextIOWrapper | None]:
    """Keep standard input to the client's messages: tools and the programs that they start read an empty file there.

    The SDK does the same, but for a stream that it is given.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # not a file, as where tests replace it
        yield None
        return
    kept = os.dup(descriptor)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), descriptor)
    try:
        # A thread may still wait for a line when this ends, so the descriptor is never closed and used anew under it.
        yield _WholeLines(os.fdopen(kept, "rb", closefd=False), encoding="utf-8", errors="replace")
    finally:
        os.dup2(kept, descriptor)


async def answer_at_pipe(server: Server[Any]) -> None:
    """Answer the client at standard in- and output until it leaves."""
    with _claimed_input() as lines:
        transport = stdio_server(stdin=None if lines is None else wrap_file(lines))
        async with transport as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
