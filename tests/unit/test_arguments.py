"""What a caller passes or writes in a file is refused by its name, with what to give instead."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction, signature
from subprocess import run
from sys import executable
from typing import Annotated, Any, Literal, Protocol

import pytest
from pydantic import BaseModel, ConfigDict

from jazz_select.arguments import (
    Constraint,
    Count,
    Methods,
    Positive,
    Probability,
    Seconds,
    check_argument,
    checked,
    read_as,
)
from jazz_select.errors import ConfigError


class Recalls(Protocol):
    def recall(self) -> None: ...


class RecallsAll:
    def recall(self) -> None: ...


class Unwritable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


KINDS: list[tuple[object, list[object], list[tuple[object, str]]]] = [
    (Count, [0, 7], [(-1, "a whole number from 0, got -1"), (True, "got True"), ("3", "got '3'"), (1.0, "got 1.0")]),
    (
        Annotated[Recalls, Methods("a memory", "recall")],
        [RecallsAll()],
        [(RecallsAll, "a memory, got <class"), (3, "a memory, got 3")],
    ),
    (
        Annotated[Callable[..., None], Methods("a function", "__call__")],
        [print],
        [(int, "a function, got <class 'int'>")],
    ),
    (Positive, [1], [(0, "a whole number from 1, got 0")]),
    (Positive | Literal["auto"], ["auto", 2], [("all", "a whole number from 1, or \"auto\", got 'all'")]),
    (
        Probability | None,  # pyright: ignore[reportOperatorIssue]
        [0, 1, 0.5, None],
        [(1.1, "a probability from 0 to 1, or None, got 1.1"), (True, "got True")],
    ),
    (Probability, [0.0], [(float("nan"), "got nan"), (None, "got None")]),
    (Seconds, [0.1, 3], [(0, "a number of seconds above 0, got 0"), (float("inf"), "got inf")]),
    (Literal["rank", "stable", "shuffled"], ["rank"], [("best", '"rank", "stable" or "shuffled", got \'best\'')]),
    (Literal[1], [1], [(2, "must be 1, got 2")]),
    (bool, [True], [(1, "True or False, got 1")]),
    (str, ["a"], [(3, "a string, got 3"), (b"a", "got b'a'")]),
    (
        Sequence[str] | None,
        [["a"], ("a",), None],
        [("text", "got 'text'"), (["a", 3], "a list of strings, or None, got 3")],
    ),
    (Mapping[str, int], [{}, {"a": "not looked at"}], [([], "a Mapping, got []")]),
    (Callable[[], None], [print], [(3, "a Callable, got 3")]),
    (Unwritable, [Unwritable()], [(3, "an Unwritable, got 3"), (Unwritable, "got <class")]),
    (int, [1], [(Unwritable(), "a whole number, got Unwritable"), ("é\n\u202e" * 99, r"got 'é\n\u202e")]),
    (Recalls, [3], []),
    (Recalls | int, ["x"], []),
    ("quoted", [3], []),
    (Any, [3], []),
]


@pytest.mark.parametrize(("kind", "right", "wrong"), KINDS, ids=[str(number) for number, _ in enumerate(KINDS)])
def test_a_value_is_checked_by_its_kind(kind: object, right: list[object], wrong: list[tuple[object, str]]) -> None:
    for value in right:
        check_argument("given", value, kind)
    for value, said in wrong:
        with pytest.raises(ConfigError) as error:
            check_argument("given", value, kind)
        assert str(error.value).startswith("given must be ")
        assert said in str(error.value)
        assert len(str(error.value)) < 250


@checked
def found(text: str, /, limit: Positive = 3, *more: int, name: "str" = "", **others: Any) -> object:
    return text, limit, more, name, others


@checked
async def waited(limit_s: Seconds | None = None) -> float | None:
    return limit_s


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    limit_s: Seconds | None = None
    order: Literal["rank", "stable"] = "rank"
    tags: tuple[str, ...] = ()


async def test_functions_and_options_are_checked_before_they_run() -> None:
    assert found("a", 2, "b", name=3, other=4) == ("a", 2, ("b",), 3, {"other": 4})  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert await waited(1.5) == 1.5
    assert iscoroutinefunction(waited)
    assert [*signature(found).parameters] == ["text", "limit", "more", "name", "others"]
    assert Options(limit_s=2, tags=("a",)) == Options(limit_s=2, tags=("a",))
    for wrong in (lambda: found("a", 0), lambda: found("a", limit=0)):
        with pytest.raises(ConfigError, match="limit must be a whole number from 1, got 0"):
            wrong()
    with pytest.raises(ConfigError, match="limit_s must be a number of seconds above 0, or None, got 0"):
        await waited(0)
    with pytest.raises(ConfigError, match='order must be "rank" or "stable", got'):
        Options(order="best")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="tags must be a tuple, got"):
        Options(tags=["a"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        Options(unknown=3)  # pyright: ignore[reportCallIssue]


def test_pydantic_is_loaded_when_something_is_checked() -> None:
    code = "import sys, jazz_select.arguments, jazz_select; assert not {'pydantic', 'pydantic_core'} & {*sys.modules}"
    assert run([executable, "-c", code], check=False).returncode == 0


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int
    names: list[str] = []


class Written(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str
    parts: list[Part] = []


class Key(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    key: str
    keys: list[str] = []


FILES: list[tuple[type[BaseModel], object, str]] = [
    (Written, [], "f.yaml: must be a mapping of names to values, got list []"),
    (Written, {}, "f.yaml: title: is missing"),
    (Written, {"title": 3}, "f.yaml: title: must be a text, got int 3; put quotes around it"),
    (Written, {"title": None}, "f.yaml: title: must be a text, got nothing (None)"),
    (Written, {"title": "a", "part": []}, "f.yaml: part: is no field of a mapping; did you mean 'parts'?"),
    (Written, {"title": "a", "parts": None}, "f.yaml: parts: must be a list, got nothing; write [] or take the line"),
    (Written, {"title": "a", "parts": "x"}, "f.yaml: parts: must be a list, got str 'x'"),
    (
        Written,
        {"title": "a", "parts": [{"limit": 1}, {"limit": "x"}]},
        "f.yaml: parts.2.limit: input should be a valid",
    ),
    (Written, {"title": "a", "parts": [{"limit": 1, "x": 1}]}, "f.yaml: parts.1.x: there is no such field here"),
    (Written, {"a": 1, "b": 2, "c\nd": 3}, "(and 1 more)"),
    (Key, {"key": 5}, "f.yaml: key: must be a text"),
    (Key, {"key": "a", "keys": None}, "f.yaml: keys: must be a list"),
]


@pytest.mark.parametrize(("kind", "given", "said"), FILES, ids=[said for *_, said in FILES])
def test_what_a_file_holds_is_refused_with_its_place(kind: type[BaseModel], given: object, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_as(kind, given, "f.yaml")
    assert said in str(error.value)
    if kind is Key:
        assert "5" not in str(error.value)
        assert error.value.__cause__ is None


def test_what_a_file_holds_is_read() -> None:
    assert read_as(Written, {"title": "a"}, "f.yaml") == Written(title="a")


def test_a_constraint_may_bound_a_text() -> None:
    with pytest.raises(ConfigError, match="name must be a name of at most 3 letters, got 'abcd'"):
        check_argument("name", "abcd", Annotated[str, Constraint("a name of at most 3 letters", max_length=3)])
