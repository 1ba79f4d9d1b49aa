"""A table of provider behaviour, and the check that an adapter handles each case.

An adapter's author runs a server that acts out each case, and passes the model that calls it to the check:

```python
@pytest.mark.parametrize("case", PROVIDER_CASES, ids=str)
async def test_what_a_provider_may_do(case: ProviderCase) -> None:
    async with house_that_acts(case) as model:  # with a time limit of half a second or so
        await check_provider_case(model, case)
```
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Literal

from jazz_select.errors import ModelError, ModelTimeoutError
from jazz_select.ports import ChatModel
from jazz_select.testing.contracts import as_reply, require
from jazz_select.values import Message

_ASK = (Message(role="system", content="Be brief."), Message(role="user", content="ping <b> & 你好"))
_SLACK_S = 5.0
_PATIENCE_S = 10.0

Act = Literal["answer", "silence", "trickle", "garbage", "cut", "hang up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCase:
    """A provider's behaviour, and the result that the caller must get."""

    name: str
    act: Act = "answer"
    """`answer` with this status; keep `silence`, or `trickle` blanks, until the caller leaves; send `garbage` instead
    of JSON; `cut` a good answer's body in the middle and hang up; or `hang up` before a response."""
    status: int = 200
    code: str = ""
    """The provider's own error code, for a failure status; specific to one protocol."""
    text: str = "pong"
    """The model's text, for a status of 200."""
    finish_reason: Literal["stop", "length", "content_filter"] = "stop"
    wait_s: float | None = None
    """The wait that the provider requests, in seconds."""
    wait_until: bool = False
    """Whether it requests it as a date."""
    error: type[ModelError] | None = None
    """The error that `complete` must raise; None if it must answer."""
    retryable: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers to send; a date is computed now."""
        if self.wait_s is None:
            return {}
        then = datetime.now(UTC) + timedelta(seconds=self.wait_s)
        return {"Retry-After": format_datetime(then, usegmt=True) if self.wait_until else f"{self.wait_s:g}"}

    def __str__(self) -> str:
        return self.name


def _refusal_case(status: int, *, retryable: bool) -> ProviderCase:
    return ProviderCase(name=str(status), status=status, error=ModelError, retryable=retryable)


PROVIDER_CASES: tuple[ProviderCase, ...] = (
    ProviderCase(name="normal"),
    ProviderCase(name="unicode", text='["退款", "возврат", "🎷", "\\u0000", "a\u2028b"]'),
    ProviderCase(name="huge", text="0123456789abcde\n" * 65_536),
    ProviderCase(name="nothing said", text=""),
    ProviderCase(name="cut off by max tokens", text='["refund', finish_reason="length"),
    ProviderCase(name="silent", act="silence", error=ModelTimeoutError, retryable=True),
    ProviderCase(name="trickles", act="trickle", error=ModelTimeoutError, retryable=True),
    ProviderCase(name="garbage", act="garbage", error=ModelError, retryable=True),
    ProviderCase(name="hangs up in the middle", act="cut", error=ModelError, retryable=True),
    ProviderCase(name="hangs up at once", act="hang up", error=ModelError, retryable=True),
    *(_refusal_case(status, retryable=False) for status in (400, 401, 403, 404, 413, 422)),
    *(_refusal_case(status, retryable=True) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
    ProviderCase(name="an error page", status=502, act="garbage", error=ModelError, retryable=True),
    ProviderCase(name="429, wait 7 s", status=429, wait_s=7, error=ModelError, retryable=True),
    ProviderCase(name="429, wait until", status=429, wait_s=30, wait_until=True, error=ModelError, retryable=True),
    ProviderCase(name="503, wait 7 s", status=503, wait_s=7, error=ModelError, retryable=True),
    ProviderCase(name="503, wait until", status=503, wait_s=30, wait_until=True, error=ModelError, retryable=True),
)
"""Cases of every HTTP provider; a protocol may add its own."""


async def check_provider_case(model: ChatModel, case: ProviderCase) -> None:
    """Call a model whose provider acts out this case, once, and check the result.

    For `silence` and `trickle` give the adapter a time limit of about half a second for the whole call.
    """
    try:
        outcome: object = await asyncio.wait_for(model.complete(_ASK), _PATIENCE_S)
    except Exception as error:  # noqa: BLE001  (which one it is, is what is checked)
        outcome = error
    if case.error is None:
        _check_answer(case, outcome)
    else:
        _check_error(case, case.error, outcome)


async def check_cancelling(
    model: ChatModel, *, arrived: Callable[[], Awaitable[object]], left: Callable[[], Awaitable[object]]
) -> None:
    """Cancel a call during its request: the caller gets `CancelledError`, the provider a closed connection.

    Args:
        model: Its provider keeps silent.
        arrived: Waits until the provider has the request.
        left: Waits until the provider sees the connection close.
    """
    task = asyncio.ensure_future(model.complete(_ASK))
    await asyncio.wait_for(arrived(), _PATIENCE_S)
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    require(isinstance(outcome, asyncio.CancelledError), f"cancelled, complete() must not end with {outcome!r:.200}")
    try:
        await asyncio.wait_for(left(), _PATIENCE_S)
    except TimeoutError:
        msg = "cancelled, complete() must close its connection: the provider goes on working on the request"
        raise AssertionError(msg) from None


def _check_answer(case: ProviderCase, outcome: object) -> None:
    require(not isinstance(outcome, BaseException), f"{case}: complete() must answer, not raise {outcome!r:.200}")
    reply = as_reply(outcome)
    require(reply.text == case.text, f"{case}: the text must come as it was sent, not as {reply.text!r:.200}")
    require(
        reply.finish_reason in {"", case.finish_reason},
        f"{case}: finish_reason must be {case.finish_reason!r} or empty, got {reply.finish_reason!r}",
    )


def _check_error(case: ProviderCase, kind: type[ModelError], outcome: object) -> None:
    if not isinstance(outcome, kind):
        msg = f"{case}: complete() must raise {kind.__name__}, got {outcome!r:.200}"
        raise AssertionError(msg)  # noqa: TRY004  (a contract speaks in assertions)
    require(outcome.retryable is case.retryable, f"{case}: retryable must be {case.retryable}, got {outcome.retryable}")
    require(outcome.__cause__ is not None, f"{case}: the provider's own error must be the cause (raise … from error)")
    asked, got = case.wait_s, outcome.retry_after
    if asked is None:
        require(got is None, f"{case}: the provider names no time to wait, so retry_after must be None, got {got!r}")
    else:
        problem = f"{case}: retry_after must be the {asked:g} s that the provider asks for, got {got!r}"
        require(got is not None and asked - _SLACK_S <= got <= asked, problem)
