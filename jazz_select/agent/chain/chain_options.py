"""The options of a chain and of its formatting, as one validated value."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from jazz_select.agent.chain.formatting import LEAST_CHARS, MAX_CHARS, FormattingPrompt
from jazz_select.agent.chain.prompts import Asker
from jazz_select.agent.chain.transcript import AfterCall, BeforeCall, OnEvent
from jazz_select.arguments import Constraint, Count, Positive, checked
from jazz_select.chat.client import ChatClient
from jazz_select.chat.models import ModelLike
from jazz_select.routing.approval import ApprovalPolicy, Approve
from jazz_select.selector.selector_options import TimeLimit

Strategy = Literal["deferred", "native", "tool"]
"""When the schema applies: after the loop, on every model call, or as one more tool that ends it."""
OnLimit = Literal["format", "raise"]
"""What to do with a chain that was cut short: format and flag it, or raise `ChainError`."""
_HOOK: Final = Constraint("a function, sync or async, or None")
_Chars: TypeAlias = Annotated[int, Constraint(f"a whole number from {LEAST_CHARS}", ge=LEAST_CHARS)]


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """The options of a request, from the first model call to the answer in its schema.

    `respond` documents each of them; `run_chain` and `finalize` take those that concern them.
    """

    strategy: Strategy = "deferred"
    chain_limit: Positive = 8
    before_call: Annotated[BeforeCall | None, _HOOK] = None
    approval: ApprovalPolicy = "destructive"
    approve: Annotated[Approve | None, _HOOK] = None
    after_call: Annotated[AfterCall | None, _HOOK] = None
    on_event: Annotated[OnEvent | None, _HOOK] = None
    conversation_id: str = ""
    tool_timeout_s: TimeLimit = 30.0
    at_once: Positive = 1
    prompt: Annotated[FormattingPrompt | None, Constraint("a text, a function that makes one, or None")] = None
    max_chars: _Chars = MAX_CHARS
    on_limit: OnLimit = "format"
    max_reasks: Count = 1
    model_timeout_s: TimeLimit = None
    max_retries: Count = 2

    def asker(self, model: ModelLike | ChatClient) -> Asker:
        """Return an asker for the model within these bounds."""
        return Asker(model, self.conversation_id, timeout_s=self.model_timeout_s, max_retries=self.max_retries)
