"""Asking whoever sits at the client before something is destroyed: by elicitation, in either age of the protocol.

Before 2026-07-28 a server sends a request of its own in the middle of a call. Since then it answers that input is
required, and the client calls again with what the person said and with a state, which is sealed by the SDK for the
very same call.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final, NamedTuple

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from pydantic import TypeAdapter, ValidationError

from jazz_select.routing.approval import Allow, Answer, ApprovalPolicy, Approve, Ask, Deny, Verdict, verdict_of
from jazz_select.routing.question import escape_invisible, question
from jazz_select.routing.records import ToolCall
from jazz_select.text import beginning, in_one_line, json_line

ANSWER: Final = "approval"
"""What the question is called among the inputs that a call requires."""
_FIELD: Final = "run_it"
_SECONDS: Final = 600.0
"""How long a person may think."""
_LONGEST_REASON: Final = 300
_DESTROYS: Final = "it may destroy something"
_MOST_ANSWERED: Final = 10_000
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        _FIELD: {
            "type": "boolean",
            "title": "Run it",
            "description": "Yes: the call is made, once, with these arguments.",
        }
    },
    "required": [_FIELD],
}
Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who decides about calls: the hook, else the policy; and where that asks, the person at the client.

    Attributes:
        policy: Which calls need a yes where there is no hook.
        hook: The caller's own, asked for every call.
        are_claimed: Whether calls that may destroy something are claimed before they are made. Then an answer that is
            sent again hears what became of the call.
        used: The last questions that were answered, and whether with a yes: each answer counts once.
    """

    policy: ApprovalPolicy = "destructive"
    hook: Approve | None = None
    are_claimed: bool = False
    used: OrderedDict[str, bool] = field(default_factory=OrderedDict[str, bool])

    def approver(
        self, context: Context, params: types.CallToolRequestParams, server: str
    ) -> Callable[[ToolCall], Awaitable[Verdict]]:
        """Return the function that decides about the call of this request."""

        async def decide(call: ToolCall) -> Verdict:
            verdict = await verdict_of(self.hook, call, self.policy)
            if not isinstance(verdict, Ask):
                return verdict
            if params.request_state is not None:
                return self._read_reply(call, params.request_state, params.input_responses)
            if not can_ask(context):
                why = verdict.reason or (_DESTROYS if call.destructive else "every call has to be approved")
                return Deny(f"{why}, and this client cannot ask anybody (it has no elicitation): let a person run it")
            if not context.session.can_send_request:
                return verdict  # the answer to this request says what is to be asked
            return await _ask_client(context, elicitation_question(call, server, verdict.reason))

        return decide

    def _read_reply(self, call: ToolCall, state: str, responses: types.InputResponses | None) -> Verdict:
        """Return the answer to the question of this state; a missing or mismatched answer is no approval."""
        asked = asked_call(state)
        if asked is None:
            return Deny("what the client sent back of the question cannot be read; call again without requestState")
        if asked.identity != call.identity:
            return Deny("the answer is for another call; call again without requestState")
        response = (responses or {}).get(ANSWER)
        if not isinstance(response, types.ElicitResult):
            return Ask("the question was not answered")
        earlier = self.used.get(state)
        if earlier and self.are_claimed and call.destructive:
            return Allow()
        if earlier is not None:
            return Deny("this answer was used already; call again without requestState")
        answer = _answer(response)
        self.used[state] = isinstance(answer, Allow)
        if len(self.used) > _MOST_ANSWERED:
            self.used.popitem(last=False)
        return answer


class AskedCall(NamedTuple):
    """The call that a question is about, as the SDK seals it for the client, who sends it back with the answer."""

    call_id: str
    identity: str
    token: str
    """Distinguishes the questions about a call that the application names, which is asked about anew each time."""


_ASKED_CALL: Final = TypeAdapter(AskedCall)


def asked_call(state: str) -> AskedCall | None:
    """Read the call from a state that came back; None if it is no such state."""
    try:
        return _ASKED_CALL.validate_json(state)
    except ValidationError:
        return None


def can_ask(context: Context) -> bool:
    """Tell whether the client can show a form to a person."""
    capabilities = context.session.client_capabilities
    asks = None if capabilities is None else capabilities.elicitation
    return asks is not None and (asks.form is not None or asks.url is None)


def elicitation_question(call: ToolCall, server: str, reason: str) -> str:
    """Write the question for a person, in the words used elsewhere, with the tool's server and the quoted reason."""
    whose = f"It is a tool of the MCP server {escape_invisible(json_line(server))}." if server else ""
    does = "It may destroy something" if call.destructive else "Every call is asked for"
    why = f" ({escape_invisible(beginning(reason, _LONGEST_REASON))})" if reason else ""
    return question(
        call.display_name, call.words, call.arguments, about=" ".join(filter(None, (whose, f"{does}{why}.")))
    )


def input_required(call: ToolCall, server: str, reason: str) -> types.InputRequiredResult:
    """Build the answer that makes the client ask a person, and call again with the reply."""
    text = elicitation_question(call, server, reason)
    asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message=text, requested_schema=_SCHEMA))
    kept = _ASKED_CALL.dump_json(AskedCall(call.id, call.identity, token_hex(8))).decode()
    return types.InputRequiredResult(input_requests={ANSWER: asked}, request_state=kept)


async def _ask_client(context: Context, text: str) -> Verdict:
    try:
        async with asyncio.timeout(_SECONDS):
            response = await context.session.elicit_form(text, _SCHEMA, related_request_id=context.request_id)
    except TimeoutError:
        return Deny(f"nobody answered within {_SECONDS:g} s")
    except MCPError as error:
        return Deny(f"the client could not ask anybody: {in_one_line(beginning(error.error.message, _LONGEST_REASON))}")
    return _answer(response)


def _answer(response: types.ElicitResult) -> Answer:
    if response.action == "accept" and response.content is not None and response.content.get(_FIELD) is True:
        return Allow()
    return Deny("the person at the client said no" if response.action != "cancel" else "the question was dismissed")
