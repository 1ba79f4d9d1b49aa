"""Continue an open flow by a model, with the flow's prompt, its tools and the known facts."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from jazz_select.agent.chain.chain_options import ChainOptions
from jazz_select.agent.chain.loop import run_loop
from jazz_select.agent.chain.transcript import AssistantText, Chain, ToolRequest, ToolResult
from jazz_select.agent.conversation import MOST_LOOK_UPS, Ran
from jazz_select.agent.flows.flow_runner import LONGEST_RAN, FlowRun, ran_of, tools_named
from jazz_select.agent.flows.open_prompts import (
    ANOTHER_WISH,
    BLOCKED,
    FINISHED,
    OpenFlowQuestion,
    is_too_much,
    shown_texts,
)
from jazz_select.agent.gate import TurnApproval
from jazz_select.agent.turn import listener
from jazz_select.agent.view import ConversationView
from jazz_select.chat.client import ChatClient
from jazz_select.errors import ChainError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import shorter_text
from jazz_select.routing.approval import Allow, Verdict
from jazz_select.routing.executor import inputs_lost
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.plans.replies import read_tool_reply
from jazz_select.routing.records import ToolCall
from jazz_select.routing.tools.showing import OpenTools, shown_names
from jazz_select.routing.tools.tool import Tool, Toolbox
from jazz_select.selector.growing import Ledger, shown_with
from jazz_select.selector.prompt import FirstShown
from jazz_select.selector.result import prompt_of
from jazz_select.text import beginning
from jazz_select.threads import run_with_timeout, self_bounded

_LONGEST_BESIDE: Final = 1_000
_ENDS_WITH: Final = {FINISHED: True, BLOCKED: True, ANOTHER_WISH: False}
"""Built-in tools whose call ends a chain; the value says whether that needs an answer beside the call."""
_MOST_OPEN: Final = 8
"""The most read-only tools that a model without a flow is shown; beyond, only relevant ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFlowReply:
    """The reply of a model and its tools to a message."""

    chain: Chain
    error: ChainError | None = None
    finished: bool = False
    """Whether the model says that the flow is done."""
    blocked: str = ""
    """The model's reason why the flow cannot be done."""
    final: bool = False
    """Whether a destructive tool was called."""
    ran: tuple[Ran, ...] = ()
    asked: bool = False
    """Whether a call needs approval first."""
    look_ups: tuple[str, ...] = ()
    """The read-only tools that were offered, without a flow."""
    handed_back: str | None = None
    """The part of the message that the model says is for another flow, in the user's words."""

    @property
    def text(self) -> str:
        """The text for the user: the answer, or the model's text beside a call that needs approval."""
        return _beside(self.chain) if self.asked else self.chain.text


class OpenFlows:
    """Lets a model call tools until it answers."""

    def __init__(  # noqa: PLR0913 - what it talks with, by name
        self,
        model: ChatClient,
        tools: Toolbox,
        system: str,
        options: ChainOptions,
        *,
        open_tools: OpenTools = "read",
        find: Callable[[str], BaseFlow | None] = lambda _: None,
        offers: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Take the model, its tools, and the options of chains.

        `open_tools` are available if no flow fits, and `offers` returns the titles of what the agent can do for that
        case. `find` returns the live flow of a name, to repeat its prompt in append-only prompts.
        """
        self._find = find
        self._offers = offers
        self._model = model
        self._tools = tools
        self._system = system
        self._options = options
        self._open_tools = open_tools

    async def talk(  # noqa: PLR0913 - options with a name
        self,
        view: ConversationView,
        within: str,
        flow: BaseFlow | None,
        run: FlowRun,
        approval: TurnApproval,
        *,
        only_about: bool = False,
        near: Sequence[str] = (),
        hears_first: bool = False,
    ) -> OpenFlowReply:
        """Continue a flow, or answer without one. A call that the user has approved is made first.

        Args:
            view: The conversation.
            within: Name of the open flow, of which `flow` may be a part; empty without one.
            flow: The flow to continue.
            run: Its progress.
            approval: Approves calls in this turn.
            only_about: Whether to answer a question about the flow and do nothing else.
            near: Without a flow, the tools that may be relevant, the likeliest first.
            hears_first: Whether no model has read yet if the message is for this flow, so that it can be handed back.
        """
        ended: list[str] = []
        back: list[str] = []
        tools = self._usable(flow, near, view.look_ups)
        if only_about:
            tools = [each for each in tools if each.reads]
        own = [*_endings(ended), _handing_back(back)]
        following = flow is not None and not only_about
        question, offered = await self._completed(
            OpenFlowQuestion(view=view, system=self._system, lost=run.lost, within=within, only_about=only_about),
            flow,
            tools,
            own if following and hears_first else own[:-1] if following else [],
        )
        place = "" if only_about else within  # a look-up for an answer does not count as a call of the flow
        granted = approval.granted_to(place, run.path)
        begin_with = [] if granted is None else [PlanStep(tool=granted.tool, arguments=granted.arguments)]
        approve = approval.at(place, run.path, run.ran)

        @self_bounded
        async def approve_unless_ending(call: ToolCall) -> Verdict:
            return Allow() if call.tool in _ENDS_WITH else await approve(call)

        options = self._options_for(run, {each.name for each in offered} - {*question.usable})
        options = replace(options, approve=approve_unless_ending, on_event=listener())
        try:
            chain = await run_loop(
                self._model,
                question.messages,
                offered,
                None,
                options,
                begin_with=begin_with,
                until_asked=True,
                claims=approval.claims,
                call_id=approval.names_at(place, run.path, "chain"),
                in_pieces=True,
                ends_with=_ENDS_WITH,
                tools_described=view.ledger is not None,
            )
        except ChainError as error:
            chain = error.chain
            return OpenFlowReply(chain=chain, error=error, ran=self._ran(chain), final=self._final(chain))
        if not offered and chain.final is None:
            chain = replace(chain, answer=_without_calls(chain.answer))
        asked = chain.status == "asked"
        return OpenFlowReply(
            chain=chain,
            finished=ended[-1:] == [""] and not asked,
            blocked=ended[-1] if ended and not asked else "",
            ran=self._ran(chain),
            final=self._final(chain),
            asked=asked,
            look_ups=tuple(each.name for each in tools if flow is None and each.reads),
            handed_back=None if asked or not back else back[-1],
        )

    async def _completed(
        self, draft: OpenFlowQuestion, flow: BaseFlow | None, tools: Sequence[Tool], ends: Sequence[Tool]
    ) -> tuple[OpenFlowQuestion, list[Tool]]:
        """Return the question with the flow's procedure and tools, and all tools to offer.

        With append-only prompts, all tools shown so far are offered; those that may not be called now are refused.
        """
        ledger = draft.view.ledger
        shown, procedures = await self._shown(ledger, flow, tools)
        offered = [*tools, *ends]
        usable = [each.name for each in offered]
        always = [*_endings([]), _handing_back([])]
        if ledger is not None and offered:
            own = {each.name: each for each in (*always, *ends)}
            offered = [*own.values(), *(self._tools[each.name] for each in shown if each.what == "tool")]
        names = {each.name: name for name, each in shown_names(offered).items()}
        question = replace(
            draft,
            flow=flow.name if flow is not None else "",
            procedure=procedures[flow.name] if flow is not None else "",
            missing=[each for each in tools_named(flow) if each not in self._tools] if flow is not None else (),
            offers=self._offers(),
            shown=None if ledger is None else shown_texts(shown, self._tools, procedures),
            always=always,
            usable={each: names[each] for each in usable},
        )
        return question, offered

    async def _shown(
        self, ledger: Ledger | None, flow: BaseFlow | None, tools: Sequence[Tool]
    ) -> tuple[tuple[FirstShown, ...], Mapping[str, str]]:
        """Add the flow and tools to what the ledger has shown, and return that with the procedures by flow."""
        if ledger is None:
            return (), await self._procedures((), flow)
        now: list[tuple[Literal["procedure", "tool"], str]] = [("tool", each.name) for each in tools]
        if flow is not None:
            now.insert(0, ("procedure", flow.name))
        before, procedures = ledger.rest, await self._procedures(ledger.rest, flow)
        while before is not ledger.rest:  # a concurrent part has added to the ledger meanwhile
            before, procedures = ledger.rest, await self._procedures(ledger.rest, flow)
        gone = [each.name for each in before if each.name not in (procedures if each.what != "tool" else self._tools)]
        shown = shown_with(() if gone else before, now, ledger.turn)
        if gone:
            ledger.notes.append(f"what was shown is gone, so tools are shown afresh: {', '.join(gone[:3])}")
        elif len(shown) > len(now) and is_too_much(shown_texts(shown, self._tools, procedures)):
            shown = shown_with((), now, ledger.turn)
            ledger.notes.append("tools are shown afresh, since all that were shown would take too many tokens")
        ledger.rest = shown
        return shown, procedures

    async def _procedures(self, shown: Sequence[FirstShown], flow: BaseFlow | None) -> dict[str, str]:
        """Return the prompts of this flow and of the live flows whose procedures were shown."""
        flows = {each.name: self._find(each.name) for each in shown if each.what == "procedure"}
        flows |= {flow.name: flow} if flow is not None else {}
        return {name: await prompt_of(each, chosen=True) for name, each in flows.items() if each is not None}

    def _options_for(self, run: FlowRun, not_now: AbstractSet[str]) -> ChainOptions:
        """Return options that refuse tools in `not_now`, and destructive calls that omit a lost value."""
        if not run.lost and not not_now:
            return self._options
        own = self._options.before_call

        @self_bounded
        async def check(call: ToolRequest) -> bool | str | None:
            if call.tool in not_now:
                return f"{call.tool} cannot be called now"
            tool = self._tools.get(call.tool)
            refusal = inputs_lost(tool, run.lost, call.arguments) if tool is not None else ""
            if refusal:
                return refusal
            if own is None:
                return None
            refused = await run_with_timeout(own, call, limit_s=None, name="jazz-select-before_call")
            return cast("bool | str | None", refused)

        return replace(self._options, before_call=check)

    def _final(self, chain: Chain) -> bool:
        """Whether a destructive tool was called; a failed call counts, since it may have had its effect."""
        called = [each.tool for each in chain.entries if isinstance(each, ToolResult) and each.called]
        return any(name in self._tools and self._tools[name].destructive for name in called)

    def _ran(self, chain: Chain) -> tuple[Ran, ...]:
        arguments = {(each.round, each.id): each.arguments for each in chain.entries if isinstance(each, ToolRequest)}
        return tuple(
            self._stored_call(each, arguments.get((each.round, each.id), {}))
            for each in chain.entries
            if isinstance(each, ToolResult) and each.tool in self._tools and each.called
        )

    def _stored_call(self, result: ToolResult, arguments: Mapping[str, Any]) -> Ran:
        output = shorter_text(result.output, LONGEST_RAN) if result.ok else f"failed: {result.error}"
        return ran_of(self._tools[result.tool], arguments, output, failed=not result.ok)

    def _usable(self, flow: BaseFlow | None, near: Sequence[str], before: Sequence[str]) -> list[Tool]:
        """Return the connected tools of a flow and its parts; if it names none, those available without a flow.

        Tools offered `before` stay offered after those that are near now.
        """
        names = list(dict.fromkeys(tools_named(flow))) if flow is not None else []
        if names:
            return [self._tools[name] for name in names if name in self._tools]
        if self._open_tools == "all":
            return list(self._tools.values())
        reading = [each for each in self._tools.values() if each.reads and self._open_tools == "read"]
        if len(reading) <= _MOST_OPEN or flow is not None:
            return reading
        known = {each.name: each for each in reading}
        now = [name for name in dict.fromkeys(near) if name in known][:_MOST_OPEN]
        names = [name for name in dict.fromkeys((*now, *before)) if name in known]
        return [known[name] for name in names[:MOST_LOOK_UPS]]


def _without_calls(answer: str) -> str:
    """Remove the JSON of tool calls from an answer if no tools were offered."""
    read = read_tool_reply(answer)
    return read.text if read.kind in {"calls", "mixed"} else answer


def _beside(chain: Chain) -> str:
    """Return the model's text right before the calls that need approval."""
    rest = list(chain.entries)
    while rest and not isinstance(rest[-1], AssistantText):
        rest.pop()
    following = chain.entries[len(rest)] if rest and len(rest) < len(chain.entries) else None
    asked = {each.round for each in chain.asked}
    last = rest[-1] if rest else None
    is_of_them = isinstance(following, ToolRequest) and following.round in asked
    return beginning(last.text, _LONGEST_BESIDE) if isinstance(last, AssistantText) and is_of_them else ""


def _handing_back(back: list[str]) -> Tool:
    """Return the tool by which a model hands a message back; it appends the wish to `back`."""

    def hand_back(wish: str) -> str:
        back.append(wish)
        return "noted: it is looked after next"

    wish = {"type": "string", "description": "In the user's words."}
    return Tool(
        name=ANOTHER_WISH,
        description="Hand over what this procedure is not for, or that the user calls it off.",
        input_schema={"type": "object", "properties": {"wish": wish}, "required": ["wish"]},
        function=hand_back,
        read_only=True,
    )


def _endings(ended: list[str]) -> list[Tool]:
    """Return the two tools that end a flow; each appends its reason to `ended`, empty if the flow is done."""

    def finish() -> str:
        ended.append("")
        return "noted: now tell the user what was done"

    def give_up(reason: str) -> str:
        ended.append(reason.strip() or "no reason was given")
        return "noted: now tell the user why, and where to turn"

    wanted = {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]}
    return [
        Tool(name=FINISHED, description="The procedure is complete.", function=finish, read_only=True),
        Tool(
            name=BLOCKED,
            description="The procedure cannot be completed here.",
            input_schema=wanted,
            function=give_up,
            read_only=True,
        ),
    ]
