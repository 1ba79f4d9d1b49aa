"""What a flow takes from the user: how it is asked for, and what it may be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from jazz_select.errors import ConfigError
from jazz_select.text import in_words

_MOST_CHOICES: Final = 100
_LONGEST: Final = 1_000
_TEXTS: Final = ("name", "question", "example", "problem")


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a flow, by the name that its tools have for it.

    Attributes:
        name: The name of the argument. One that no tool takes is known to the flow's `reply`, and to a model that goes
            on with the flow.
        question: How it is asked for, such as "What is the email address of your account?".
        choices: The values that it may have; they are shown with the question.
        example: A value that it may have, shown with the question.
        check: Whether a value is right, asked as soon as it is said: a function of the value, `async` or not, or the
            name of a connected tool that only reads and takes the value alone. True or None takes the value. False
            refuses it in the words of `problem`, a text in its own; so does a `WrongValue` that it raises.
        problem: What the user is told of a value that is refused without words; `{value}` stands for the value.
        required: Whether it is asked for where a tool could do without it; of a flow without a chain, before a model
            goes on.
    """

    name: str
    question: str = ""
    choices: Sequence[Any] = ()
    example: str = ""
    check: Callable[[Any], object] | str | None = None
    problem: str = ""
    required: bool = True

    def __post_init__(self) -> None:
        """Check what can be checked without the tools."""
        for field in _TEXTS:
            given: object = getattr(self, field)
            if not isinstance(given, str) or len(given) > _LONGEST:
                raise ConfigError(f"an input's {field} is a text of at most {_LONGEST} characters, not {given!r:.80}")
        if not self.name.strip():
            raise ConfigError("an input needs the name of the argument that it is for")
        listed = cast("object", self.choices)
        values = cast("Sequence[object]", listed)
        if not isinstance(listed, list | tuple) or len(values) > _MOST_CHOICES:
            raise ConfigError(f"choices of the input {self.name!r:.80} are a list of at most {_MOST_CHOICES} values")
        if not all(isinstance(each, str | int | float) for each in values):
            raise ConfigError(f"choices of the input {self.name!r:.80} are texts and numbers")
        if self.check is not None and not isinstance(self.check, str) and not callable(self.check):
            raise ConfigError(f"check of the input {self.name!r:.80} is a function of the value, or the name of a tool")
        object.__setattr__(self, "choices", tuple(values))

    @property
    def words(self) -> str:
        """The name in words."""
        return in_words(self.name)
