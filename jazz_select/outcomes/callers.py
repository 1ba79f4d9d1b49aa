"""Who asks now, and in which conversation: what a log keeps as the source of an entry, and checks feedback by."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from jazz_select.threads import set_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: by default the program itself, which may correct whatever its log holds.

    Attributes:
        key: The name of the service's key that the request came with; empty in the same process.
        may_teach: Whether it may correct what was asked with another key.
    """

    key: str = ""
    may_teach: bool = True


LOCAL: Final = Caller()
"""Who asks where nobody else is named: the program itself."""
_caller: ContextVar[Caller] = ContextVar("jazz_select_caller", default=LOCAL)
_conversation: ContextVar[str] = ContextVar("jazz_select_conversation", default="")


def current_caller() -> Caller:
    """Return who asks now."""
    return _caller.get()


def current_conversation() -> str:
    """Return the id of the conversation that is gone on with now; empty outside of one."""
    return _conversation.get()


@contextmanager
def calling_as(caller: Caller) -> Generator[None]:
    """Name who asks within the block."""
    with set_in(_caller, caller):
        yield


@contextmanager
def in_conversation(conversation_id: str) -> Generator[None]:
    """Name the conversation within the block."""
    with set_in(_conversation, conversation_id):
        yield
