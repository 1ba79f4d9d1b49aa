"""Running a script of a skill: no shell, bounded time and output, and an environment without secrets."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from jazz_select.errors import ToolArgumentsError, ToolError, ToolOutcomeUnknownError
from jazz_select.settings import plain_environment
from jazz_select.text import cut, in_one_line

MOST_PRINTED: Final = 100_000
"""Bytes that are kept of what a script prints, and as many of its errors; it may print more, which is dropped."""
_LONGEST_PROBLEM: Final = 1_000
_CHUNK: Final = 65_536
_STOPPED_S: Final = 5.0
"""How long the pipes of a script that has ended are waited for: what it has started may hold them for ever."""
_RUN_BY: Final = {".py": "", ".sh": "bash", ".bash": "bash", ".js": "node", ".mjs": "node"}


def interpreter_of(path: str) -> str | None:
    """Return the program that runs a script, by the ending of its name; None where it is not installed."""
    program = _RUN_BY.get(PurePosixPath(path).suffix.lower())
    if program is None:
        return None
    return shutil.which(program) if program else sys.executable


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRun:
    """Runs scripts for one tool.

    Attributes:
        tool: The tool's name, for errors.
        timeout_s: Seconds that a script may take; then it and what it has started are stopped.
    """

    tool: str
    timeout_s: float

    def __call__(
        self,
        file: Path,
        arguments: Sequence[str],
        *,
        stdin: str,
        folder: Path,
        shown: str,
    ) -> dict[str, str]:
        """Run a script, and return what it printed.

        Raises:
            ToolArgumentsError: An argument cannot be passed to a program.
            ToolError: It could not be started, or ended with another code than 0.
            ToolOutcomeUnknownError: It was stopped, or ended by a signal; what it did by then is unknown.
        """
        program = interpreter_of(file.name)
        if program is None:
            raise ToolError(self.tool, f"{shown} cannot be run: its interpreter is not installed here")
        if any("\0" in each for each in (*arguments, stdin)):
            raise ToolArgumentsError(self.tool, "no argument may hold a NUL character")
        process = self._start_process([program, str(file), *arguments], folder, shown)
        printed, errors = _Reader(process.stdout), _Reader(process.stderr)
        writer = threading.Thread(target=_write, args=(process.stdin, stdin), daemon=True)
        writer.start()
        try:
            code = process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            raise ToolOutcomeUnknownError(self.tool, f"it was stopped after {self.timeout_s:g} s") from None
        finally:
            _stop(process)
            printed.end()
            errors.end()
        if code < 0:
            raise ToolOutcomeUnknownError(self.tool, f"it was ended by signal {-code}")
        if code:
            problem = f"it ended with code {code}"
            reason = cut(in_one_line(errors.text.strip() or printed.text.strip()), _LONGEST_PROBLEM)
            raise ToolError(self.tool, f"{problem}: {reason}" if reason else problem)
        found = {"output": printed.text}
        if errors.text.strip():
            found["errors"] = errors.text
        return found

    def _start_process(self, command: list[str], folder: Path, shown: str) -> "subprocess.Popen[bytes]":
        environment = {**plain_environment(), "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            return subprocess.Popen(  # noqa: S603 - a list of arguments, which no shell reads
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that what it has started is stopped with it
            )
        except OSError as error:
            raise ToolError(self.tool, f"{shown} could not be started: {error.strerror or error}") from error


class _Reader:
    """Reads a pipe to its end in a thread, and keeps its beginning: a program that nobody reads would stop."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._kept = bytearray()
        self._dropped = 0
        self._thread = threading.Thread(target=self._read_pipe, args=(pipe,), daemon=True)
        self._thread.start()

    def _read_pipe(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            return
        with suppress(OSError, ValueError), pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                room = max(MOST_PRINTED - len(self._kept), 0)
                self._kept += chunk[:room]
                self._dropped += len(chunk) - len(chunk[:room])

    def end(self) -> None:
        """Wait for the last bytes, for a moment."""
        self._thread.join(_STOPPED_S)

    @property
    def text(self) -> str:
        text = bytes(self._kept).decode(errors="replace")
        return f"{text}\n[… {self._dropped} more bytes …]" if self._dropped else text


def _write(pipe: IO[bytes] | None, text: str) -> None:
    if pipe is None:
        return
    with suppress(OSError), pipe:
        pipe.write(text.encode(errors="replace"))


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a script and what it has started, which may outlive it."""
    if hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
        process.wait()
