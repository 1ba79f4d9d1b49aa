"""A call that waits for the user's yes: how it is kept in a conversation, asked about, and known again."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from jazz_select.consent import Asked
from jazz_select.json_values import plain, plain_bytes, storable
from jazz_select.routing.records import Door, ToolCall
from jazz_select.text import as_text, cut, in_one_line, in_words, json_line, one_line, titled
from jazz_select.texts import say

Before = Literal["", "done", "unknown"]
_ASKED: Final = {"": "next", "done": "once_more", "unknown": "tried_again"}
"""The sentence by which a call is asked about, by what became of the same call before."""
_LONGEST_VALUE: Final = 300
_WORD: Final = re.compile(r"[\w@.+:/-]{1,100}")
_NAME: Final = re.compile(r"[\w ./@$-]{1,100}")
_LONGEST_REASON: Final = 1_000


class PendingCall(BaseModel):
    """A call that is made when the user says yes, and not before.

    Attributes:
        id: What the call is known by, from the question to the call that is made, in whatever process.
        tool: The tool.
        arguments: What it would get, as JSON values: all of them, as the user was shown them.
        destructive: Whether it destroys something.
        flow: The flow that wants it; empty where a model does, without one.
        path: Which part of that flow: "0" is the flow itself.
        door: Whether the flow's steps or a model's chain made it.
        reason: Why it has to be asked for, in the words of whoever said so: for logs, not for users.
        before: Whether the same call was made before in this flow: it was `done`, or failed and may have been
            (`unknown`).
        title: What users are told that the tool is called; its name in words where it is empty.
        words: What it would do, as the tool says (`Tool.confirm`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = ""
    tool: str
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    destructive: bool = False
    flow: str = ""
    path: str = ""
    door: Door = "executor"
    reason: str = ""
    before: Before = ""
    title: str = ""
    words: str = ""

    @classmethod
    def of(cls, call: ToolCall, *, flow: str, path: str, reason: str = "", before: Before = "") -> "PendingCall":
        """What is kept of a call that was asked for."""
        return cls(
            id=call.id,
            tool=call.tool,
            arguments=_kept(call.arguments),
            destructive=call.destructive,
            flow=flow,
            path=path,
            door=call.door,
            reason=cut(reason, _LONGEST_REASON),
            before=before,
            title=one_line(call.title),
        )

    @property
    def display_name(self) -> str:
        """What users are told that it is called."""
        return self.title or titled(self.tool)

    @property
    def asked(self) -> Asked:
        """What a yes is said to: an answer may repeat its words."""
        return Asked(words=f"{self.tool} {self.title} {self.words}", arguments=self.arguments)

    def question(self) -> str:
        """What the user is asked: what would be done, and with which arguments."""
        given = ", ".join(f"{_named(name)}: {_shown(value)}" for name, value in self.arguments.items())
        said = f": {one_line(self.words)}" if self.words else ""
        call = f"{self.display_name}{said}{f' ({given})' if given else ''}"
        # What turns the direction of writing would show other arguments than those that the call gets.
        return in_one_line(f"{say(_ASKED[self.before], call=call)} {say('yes_or_no')}")

    def is_same(self, other: "PendingCall") -> bool:
        """Whether the other is this call: the same tool with the same arguments, at the same place."""
        return (self.tool, self.flow, self.path, self.door, _sorted(self.arguments)) == (
            other.tool,
            other.flow,
            other.path,
            other.door,
            _sorted(other.arguments),
        )


def _sorted(arguments: Mapping[str, Any]) -> bytes:
    return plain_bytes(_kept(arguments))


def _kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {as_text(name): storable(plain(value)) for name, value in arguments.items()}


def _named(name: str) -> str:
    """The name of an argument in words; in quotes where something in it could pass for what stands around it."""
    words = in_words(name)
    return words if _NAME.fullmatch(words) else cut(json_line(words), _LONGEST_VALUE)


def _shown(value: object) -> str:
    """A value in one line, cut where one can see it; a text of several words in quotes, which nothing in it ends."""
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    return cut(json_line(value), _LONGEST_VALUE)
