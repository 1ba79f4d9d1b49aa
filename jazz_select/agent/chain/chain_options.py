"""The options of a chain and of its formatting, as one validated value."""

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
"""When the schema applies: after the loop, on every model call, or as one more tool that ends it."""
STRATEGIES: Final = ("deferred", "native", "tool")
OnLimit = Literal["format", "raise"]
"""What to do with a chain that was cut short: format and flag it, or raise `ChainError`."""


_LEAST: Final = {"chain_limit": 1, "at_once": 1, "max_reasks": 0, "max_retries": 0, "max_chars": LEAST_CHARS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """The options of a request, from the first model call to the answer in its schema.

    `respond` documents each of them; `run_chain` and `finalize` take those that concern them.
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
        """Check everything that can be checked before a model is asked."""
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
        """Return an asker for the model within these bounds."""
        return Asker(model, self.conversation_id, timeout_s=self.model_timeout_s, max_retries=self.max_retries)
