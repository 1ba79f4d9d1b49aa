"""A call that waits for the user's yes: how it is kept in a conversation, asked about, and known again."""

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from jazz_select.consent import Asked
from jazz_select.json_values import exactly, storable
from jazz_select.routing.question import Before, described, question
from jazz_select.routing.records import Door, ToolCall
from jazz_select.text import as_text, cut, one_line, titled
from jazz_select.texts import say

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
        identity: What a yes is for: the tool as it is connected, the arguments and the words (`ToolCall.identity`). One
            that was kept without it is asked about anew.
        then: The calls after it that change something, as far as the flow's chain is known. A yes is for those as well
            that have an `identity`; the others are named.
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
    identity: str = ""
    then: tuple["PendingCall", ...] = ()

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
            words=call.words,
            identity=call.identity,
        )

    @property
    def display_name(self) -> str:
        """What users are told that it is called."""
        return self.title or titled(self.tool)

    @property
    def asked(self) -> Asked:
        """What a yes is said to: an answer may repeat its words."""
        calls = (self, *self.then)
        words = " ".join(f"{each.tool} {each.title} {each.words}" for each in calls)
        return Asked(words=words, arguments={name: value for each in calls for name, value in each.arguments.items()})

    def question(self) -> str:
        """What the user is asked."""
        calls = "; ".join(described(each.display_name, each.words, each.arguments) for each in self.then)
        about = say("after_that", calls=calls) if calls else ""
        return question(self.display_name, self.words, self.arguments, before=self.before, about=about)

    def is_same(self, other: "PendingCall") -> bool:
        """Whether the other is this call, at the same place: what a yes to the one says, it says to the other."""
        place = (self.flow, self.path, self.door, self.identity)
        return bool(self.identity) and place == (other.flow, other.path, other.door, other.identity)


def _kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As they are shown, with nothing left out."""
    return {
        as_text(name): storable(json.loads(json.dumps(value, default=exactly))) for name, value in arguments.items()
    }
