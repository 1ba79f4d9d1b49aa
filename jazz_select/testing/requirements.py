"""What the contracts of this package share: how they speak, and what makes a `Reply`."""

from typing import cast

from jazz_select.values import Reply, Usage


def require(holds: bool, problem: str) -> None:  # noqa: FBT001  (reads as a sentence)
    """Say what is wrong, unless it holds.

    Raises:
        AssertionError: It does not.
    """
    if not holds:
        raise AssertionError(problem)


def as_reply(value: object) -> Reply:
    """The value, which has to be a `Reply` whose fields are what they say.

    Raises:
        AssertionError: It is not.
    """
    if not isinstance(value, Reply):
        msg = f"complete() must return a Reply, not {type(value).__name__}"
        raise AssertionError(msg)  # noqa: TRY004  (a contract speaks in assertions)
    for name in ("text", "model", "finish_reason"):
        field = cast("object", getattr(value, name))
        require(isinstance(field, str), f"Reply.{name} must be a str, not {type(field).__name__}")
    usage = cast("object", value.usage)
    require(
        usage is None or isinstance(usage, Usage), f"Reply.usage must be a Usage or None, not {type(usage).__name__}"
    )
    if isinstance(usage, Usage):
        tokens = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        require(min(tokens) >= 0, f"tokens cannot be negative: {usage}")
        require(usage.cached_tokens <= usage.input_tokens, f"cached tokens are some of the input tokens: {usage}")
    return value
