"""A call that waits for the user's yes: stored in a conversation, asked about, and recognized later."""

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
    """A call that is made only after the user's yes.

    Attributes:
        id: Identifier of the call in every process, from the question to the call.
        tool: The tool.
        arguments: The arguments as JSON values, complete, as the user was shown them.
        destructive: Whether the tool is destructive.
        flow: The flow that wants the call; empty if a model does, without a flow.
        path: The part of that flow: "0" is the flow itself.
        door: Whether the flow's steps or a model's chain made the call.
        reason: Why it needs approval: for logs, not for users.
        before: Whether the same call was made before in this flow: `done`, or failed with an unknown outcome
            (`unknown`).
        title: The tool's title for users; its name in words if empty.
        words: What the call would do, as the tool says (`Tool.confirm`).
        identity: What a yes refers to: the connected tool, the arguments and the words (`ToolCall.identity`). A call
            stored without it is asked about again.
        then: Later calls that change something, as far as the flow's chain is known. A yes covers those with an
            `identity`; the others are only named.
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
        """Return what is stored of a call that needs approval."""
        return cls(
            id=call.id,
            tool=call.tool,
            arguments={
                as_text(name): storable(json.loads(json.dumps(value, default=exactly)))
                for name, value in call.arguments.items()
            },
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
        """The tool's title for users."""
        return self.title or titled(self.tool)

    @property
    def asked(self) -> Asked:
        """What a yes refers to; an answer may repeat its words."""
        calls = (self, *self.then)
        words = " ".join(f"{each.tool} {each.title} {each.words}" for each in calls)
        return Asked(words=words, arguments={name: value for each in calls for name, value in each.arguments.items()})

    def question(self) -> str:
        """Return the question for the user."""
        calls = "; ".join(described(each.display_name, each.words, each.arguments) for each in self.then)
        about = say("after_that", calls=calls) if calls else ""
        return question(self.display_name, self.words, self.arguments, before=self.before, about=about)

    def is_same(self, other: "PendingCall") -> bool:
        """Whether a yes to this call is a yes to the other: same place, same identity."""
        place = (self.flow, self.path, self.door, self.identity)
        return bool(self.identity) and place == (other.flow, other.path, other.door, other.identity)
