"""Saved JSON changed as somebody would who can write it: what the tests of saved states share."""

import json
import random
from typing import Any, cast

HARM: list[Any] = [
    "", "erase_all", "erase_more", "delete", "refund", "finish", "pre_check", "acquire_or_plan", "careful", "continue",
    "0.1", "dеlete", "ｄｅｌｅｔｅ", "delete\u200b", "DELETE", ["refund"], ["delete"], -2, -(10**30), 0, 1, 10**30,
    1e308, -0.0, None, True, False, [], {}, [[[[]]]], {"delete": {"delete": ["delete"]}}, {"version": 1}, "\u0000",
]  # fmt: skip


def inside(value: Any) -> list[tuple[Any, Any, Any]]:
    """Every place in JSON values: what it is in, where there, and what it is."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        found = list(enumerate(cast("list[Any]", value)))
    return [*((value, key, part) for key, part in found), *(each for _, part in found for each in inside(part))]


def random_json(chance: random.Random, depth: int = 3) -> Any:
    """Any JSON value, of words that mean something here."""
    kind = chance.randrange(4 if depth else 2)
    if kind == 2:
        return [random_json(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 3:
        return {str(chance.choice(HARM[:16])): random_json(chance, depth - 1) for _ in range(chance.randrange(4))}
    return chance.choice([each for each in HARM if not isinstance(each, list | dict)])


def changed(text: str, chance: random.Random) -> Any:
    """The JSON of a text with one place changed into what might do harm, taken out, doubled, or put in."""
    value = json.loads(text)
    owner, key, was = chance.choice(inside(value))
    how = chance.randrange(8)
    if how == 0:
        del owner[key]
    elif how == 1 and isinstance(owner, list):
        cast("list[Any]", owner).insert(key, was)
    elif how == 1:
        owner[str(chance.choice(HARM[:16]))] = was
    elif how == 2:
        owner[key] = random_json(chance)
    elif how == 3 and isinstance(was, str):
        owner[key] = was * 2
    elif how == 3 and isinstance(was, list):
        cast("list[Any]", was).reverse()
    elif how == 4:  # what stands elsewhere in it
        owner[key] = json.loads(json.dumps(chance.choice(inside(value))[2]))
    else:
        owner[key] = chance.choice(HARM)
    return value


def is_changed(value: Any, text: str) -> bool:
    """Whether a value says something else than a text of JSON: 1 is not true, and not 1.0."""
    return json.dumps(value, sort_keys=True) != json.dumps(json.loads(text), sort_keys=True)
