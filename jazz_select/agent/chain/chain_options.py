"""How a chain is run and put into a schema: every option of it, as one value that is checked when it is made."""

from dataclasses import dataclass
from typing import Final, Literal

from jazz_select.agent.chain.formatting import LEAST_CHARS, MAX_CHARS, FormattingPrompt
from jazz_select.agent.chain.prompts import Asker
from jazz_select.agent.chain.tool_calls import AfterCall, BeforeCall
from jazz_select.agent.chain.transcript import OnEvent
from jazz_select.arguments import check_argument
from jazz_select.chat.client import ChatClient
from jazz_select.chat.models import ModelLike
from jazz_select.errors import ConfigError
from jazz_select.routing.approval import ApprovalPolicy, Approve

Strategy = Literal["deferred", "native", "tool"]
"""When the schema comes in: after the loop, on every turn of it, or as one more tool that ends it."""
STRATEGIES: Final = ("deferred", "native", "tool")
OnLimit = Literal["format", "raise"]
"""What becomes of a chain that was cut short: put into the schema and flagged, or a `ChainError`."""


_LEAST: Final = {"chain_limit": 1, "at_once": 1, "max_reasks": 0, "max_retries": 0, "max_chars": LEAST_CHARS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """The options of a request, from the first call of the model to the answer in its schema.

    `respond`, `run_chain` and `finalize` take each of them by name, and pass them on as this.

    Attributes:
        strategy: When the schema comes in, where there are tools.
        chain_limit: How often the model may be asked in the chain; putting the answer into the schema comes on top.
        before_call: Asked before each call of a tool; may say no, and why.
        approval: What needs a yes where there is no `approve`: "destructive" lets no call of a tool pass that destroys
            something, "always" lets none pass, "never" all of them.
        approve: Asked before each call of a tool: `Allow()`, `Deny(reason)` or `Ask(reason)`.
        after_call: Told after each call of a tool; may give another result.
        on_event: Hears of what happens.
        conversation_id: Kept in all records.
        tool_timeout_s: The most that one tool may take; None for no limit.
        at_once: The most calls of one reply that run at one time.
        prompt: What to ask for the schema after a chain; None for the usual.
        max_chars: The most that the chain may take in that prompt.
        on_limit: What becomes of a chain that was cut short.
        max_reasks: How often a reply that does not fit the schema is handed back.
        model_timeout_s: The most that one call of the model may take, retries included; None for no limit.
        max_retries: How often a call of the model that failed for a passing reason is made again.
    """

    strategy: Strategy = "deferred"
    chain_limit: int = 8
    before_call: BeforeCall | None = None
    approval: ApprovalPolicy = "destructive"
    approve: Approve | None = None
    after_call: AfterCall | None = None
    on_event: OnEvent | None = None
    conversation_id: str = ""
    tool_timeout_s: float | None = 30.0
    at_once: int = 1
    prompt: FormattingPrompt | None = None
    max_chars: int = MAX_CHARS
    on_limit: OnLimit = "format"
    max_reasks: int = 1
    model_timeout_s: float | None = None
    max_retries: int = 2

    def __post_init__(self) -> None:
        """Check what can be checked before anything is asked."""
        check_argument("approval", self.approval, ApprovalPolicy)
        for name, known in (("strategy", STRATEGIES), ("on_limit", ("format", "raise"))):
            if getattr(self, name) not in known:
                self._refuse(name, f"one of {', '.join(known)}")
        for name in ("tool_timeout_s", "model_timeout_s"):
            limit: object = getattr(self, name)
            if limit is not None and not (isinstance(limit, int | float) and limit > 0):
                self._refuse(name, "above 0, or None for no limit")
        for name, least in _LEAST.items():
            count: object = getattr(self, name)
            if not isinstance(count, int) or isinstance(count, bool) or count < least:
                self._refuse(name, f"a whole number of at least {least}")
        for name in ("before_call", "approve", "after_call", "on_event"):
            hook: object = getattr(self, name)
            if hook is not None and not callable(hook):
                self._refuse(name, "a function, sync or async, or None")

    def _refuse(self, name: str, what: str) -> None:
        raise ConfigError(f"{name} is {what}, not {getattr(self, name)!r}")

    def asker(self, model: ModelLike | ChatClient) -> Asker:
        """Who asks the model, within these bounds."""
        return Asker(model, self.conversation_id, timeout_s=self.model_timeout_s, max_retries=self.max_retries)
