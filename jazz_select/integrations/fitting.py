"""Check at import that a framework is installed in a supported version."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from typing import Final, NamedTuple

from jazz_select.errors import MissingExtraError


class Framework(NamedTuple):
    """A framework and its supported versions."""

    package: str
    """Its distribution name."""
    least: str
    """The first supported version."""
    below: str
    """The first version after that which has not been tried."""

    @property
    def wanted(self) -> str:
        """The version range of a requirement."""
        return f">={self.least},<{self.below}"


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "pydantic-ai": Framework("pydantic-ai-slim", "2.60", "3"),
    "langgraph": Framework("langgraph", "1.2", "2"),
    "openai-agents": Framework("openai-agents", "0.24", "0.25"),
}
"""By the extra that installs each, with the extra's own range."""


@contextmanager
def framework(extra: str) -> Generator[None, None, None]:
    """Import a framework in this block.

    Raises:
        MissingExtraError: It is missing, in an unsupported version, or lacks what the block imports.
    """
    wanted = FRAMEWORKS[extra]
    purpose = f"jazz_select.integrations.{extra.replace('-', '_')}"
    try:
        found = version(wanted.package)
    except PackageNotFoundError as error:
        raise MissingExtraError(wanted.package, extra=extra, purpose=purpose, wanted=wanted.wanted) from error
    misfit = MissingExtraError(wanted.package, extra=extra, purpose=purpose, wanted=wanted.wanted, found=found)
    if not _numbers(wanted.least) <= _numbers(found) < _numbers(wanted.below):
        raise misfit
    try:
        yield
    except ImportError as error:
        raise misfit from error


def _numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version; a pre-release (`3.0b1`) counts as its release."""
    digits = ("".join(takewhile(str.isdecimal, part)) for part in text.split("."))
    return tuple(int(each) for each in takewhile(bool, digits))
