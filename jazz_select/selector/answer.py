"""What a model answered, whatever it answered with."""

from dataclasses import dataclass

from jazz_select.values import Reply, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered; `text` is None where it was no text."""

    text: str | None = None
    usage: Usage | None = None
    model: str = ""
    truncated: bool = False
    attempts: int = 0
    """Calls that it took."""
    notes: tuple[str, ...] = ()


def answer_of(reply: object) -> Answer:
    """A model of somebody's own may answer anything; what is no text is not an error, but unreadable."""
    if isinstance(reply, Reply) and isinstance(reply.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        notes = ("the model's reply was cut off by a limit on its length",) if reply.truncated else ()
        return Answer(
            text=reply.text, usage=reply.usage, model=reply.model, truncated=reply.truncated, attempts=1, notes=notes
        )
    if isinstance(reply, str):
        return Answer(text=reply, attempts=1)
    return Answer(attempts=1, notes=(f"the model answered {type(reply).__name__} without a text",))


def total(one: Usage | None, other: Usage | None) -> Usage | None:
    """The tokens of two calls; None where neither was counted."""
    if one is None or other is None:
        return one or other
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
    )
