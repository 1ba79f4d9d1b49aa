"""What an MCP server sends, measured before it is parsed: bytes, those that were compressed too, and values of JSON."""

import codecs
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx2
import orjson

from jazz_select.json_values import has_more_values, with_whole_characters

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PARSE_ERROR: Final = -32700
"""The code by which the SDK says that it could not read an answer."""
_ID: Final = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID_FIRST: Final = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID)
_ID_LAST: Final = re.compile(_ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z")
_NEAR_AN_END: Final = 300
"""Bytes at the beginning and at the end of a message in which its id may stand."""
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_LONGEST_LINE_END: Final = 4
_ENCODING: Final = "jazz_select_utf_8_within"


class MessageLimits(NamedTuple):
    """The most that one message may hold."""

    size: int
    values: int

    def excess(self, message: bytes | bytearray, size: int | None = None) -> str:
        """Say why a message is too large to be read; empty if it is not."""
        if (len(message) if size is None else size) > self.size:
            return f"it sent a message of more than {self.size} bytes (max_message)"
        if has_more_values(message, self.values):
            return f"it sent a message of more than {self.values} values (max_values)"
        return ""


# --- over a pipe ---------------------------------------------------------------


def encoding_within(limits: MessageLimits) -> str:
    """Name the encoding that passes on the lines of a server within these limits, for `StdioServerParameters`.

    The SDK bounds no line, and parses each one that its decoder gives: so it is the decoder that measures. A longer
    line is thrown away as it comes, and the call that it answers fails.
    """
    return f"{_ENCODING}_{limits.size}_{limits.values}"


def _find_encoding(encoding: str) -> codecs.CodecInfo | None:
    name, _, numbers = encoding.rpartition(f"{_ENCODING}_")
    if name or not numbers:
        return None
    limits = MessageLimits(*map(int, numbers.split("_")))
    lines = partial(_Lines, limits)
    return codecs.CodecInfo(codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=lines, name=encoding)  # pyright: ignore[reportArgumentType] - it is called as a class is


codecs.register(_find_encoding)


class _Lines(codecs.IncrementalDecoder):
    """Splits UTF-8 into lines; each line above the limit becomes a JSON-RPC error."""

    def __init__(self, limits: MessageLimits, errors: str = "strict") -> None:
        super().__init__(errors)
        self._limits = limits
        self._begun = bytearray()
        self._size = 0
        """Of the line that has begun: the middle of one that is too long is not kept."""

    def decode(self, input: "Buffer", final: bool = False) -> str:  # noqa: A002, FBT001, FBT002 - as it is called
        """Decode the lines that end in this piece."""
        *ends, rest = bytes(input).split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            self._take(end)
            lines.append(self._line())
        self._take(rest)
        if final and self._size:
            lines.append(self._line())
        return b"".join(lines).decode(errors=self.errors)

    def _take(self, piece: bytes) -> None:
        self._begun += piece
        self._size += len(piece)
        if self._size > self._limits.size:
            del self._begun[_NEAR_AN_END:-_NEAR_AN_END]

    def _line(self) -> bytes:
        line, size = bytes(self._begun), self._size
        self._begun, self._size = bytearray(), 0
        excess = self._limits.excess(line, size)
        if not excess:
            return with_whole_characters(line) + b"\n"
        named = _ID_FIRST.match(line) or _ID_LAST.search(line[-_NEAR_AN_END:])
        if named is None:
            raise ValueError(excess)
        error = orjson.dumps({"code": _PARSE_ERROR, "message": excess})
        return b'{"jsonrpc":"2.0","id":%s,"error":%s}\n' % (named[1], error)


# --- over HTTP -----------------------------------------------------------------


async def measure(limits: MessageLimits, response: httpx2.Response) -> None:
    """Have a response measured as it is read; a hook of `httpx2.AsyncClient`, in which no part of it was read yet.

    It is decompressed here, piece by piece, and then not again.
    """
    coded = httpx2.Response(200, headers=response.headers, stream=response.stream)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    response.stream = _Measured(limits, coded, in_events=kind == "text/event-stream")
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)


class _Measured(httpx2.AsyncByteStream):
    """The decompressed bytes of a response, limited per message."""

    def __init__(self, limits: MessageLimits, coded: httpx2.Response, *, in_events: bool) -> None:
        self._limits, self._coded, self._in_events = limits, coded, in_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        buffer = bytearray()
        async for piece in self._coded.aiter_bytes():
            looked = max(len(buffer) - _LONGEST_LINE_END, 0)
            buffer += piece
            while self._in_events and (end := _BLANK_LINE.search(buffer, looked)):
                yield self._check_message(buffer[: end.end()])
                del buffer[: end.end()]
                looked = 0
            if len(buffer) > self._limits.size:
                break
        if buffer:
            yield self._check_message(buffer)

    def _check_message(self, message: bytearray) -> bytes:
        if excess := self._limits.excess(message):
            # Of each kind the SDK takes this one for an answer that cannot be read.
            raise httpx2.SSEError(excess) if self._in_events else httpx2.StreamError(excess)
        return with_whole_characters(bytes(message))

    async def aclose(self) -> None:
        await self._coded.aclose()
