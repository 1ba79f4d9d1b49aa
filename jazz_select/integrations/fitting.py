"""Whether a framework is there, and in a version that fits: said when its module is imported, in one line."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from typing import Final, NamedTuple

from jazz_select.errors import MissingExtraError


class Framework(NamedTuple):
    """A framework, and which of its versions fit."""

    package: str
    """What it is installed as."""
    least: str
    """The first version that fits."""
    below: str
    """The first one after that which does not: nobody has tried it."""

    @property
    def wanted(self) -> str:
        """As a requirement says it."""
        return f">={self.least},<{self.below}"


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "pydantic-ai": Framework("pydantic-ai-slim", "2.60", "3"),
    "langgraph": Framework("langgraph", "1.2", "2"),
    "openai-agents": Framework("openai-agents", "0.24", "0.25"),
}
"""By the extra that installs each; the extra says the same."""


@contextmanager
def framework(extra: str) -> Generator[None, None, None]:
    """Import a framework inside.

    Raises:
        MissingExtraError: It is not installed, or not in a version that fits, or lacks what is imported of it.
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
    """The numbers that a version begins with; of one ahead of a release (`3.0b1`) those of the release."""
    digits = ("".join(takewhile(str.isdecimal, part)) for part in text.split("."))
    return tuple(int(each) for each in takewhile(bool, digits))
