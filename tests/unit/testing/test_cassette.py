"""The chat model that replays what was recorded."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jazz_select.ports import takes_schema
from jazz_select.testing import Cassette, Recorded, ScriptedModel, check_chat_model
from jazz_select.values import Message, Reply

SCHEMA: dict[str, Any] = {"type": "object"}


def ask(text: str, system: str = "Be brief.") -> list[Message]:
    return [Message(role="system", content=system), Message(role="user", content=text)]


def chat(_: Sequence[Message]) -> str:
    return "chat"


def choose(_: Sequence[Message]) -> str:
    return "choose"


async def recorded(path: Path, *texts: str, **options: Any) -> Cassette:
    """A cassette with the reply `a1` to the first of these, and so on."""
    cassette = Cassette(path, ScriptedModel(*(f"a{number}" for number in range(1, 1 + len(texts)))), **options)
    for cassette.turn, text in enumerate(texts, 1):
        await cassette.complete(ask(text))
    cassette.save()
    return cassette


async def test_what_was_recorded_is_replayed_without_a_model(tmp_path: Path) -> None:
    texts = ["one", "two 退款\u2028\n\nx", "one", "long " * 2_000]
    await recorded(tmp_path / "new" / "c.json", *texts)
    cassette = Cassette(tmp_path / "new" / "c.json")
    replies = [(await cassette.complete(ask(text))).text for text in texts]
    assert replies == ["a1", "a2", "a3", "a4"]
    assert (cassette.left, cassette.missing) == ([], [])
    assert [each.turn for each in cassette.asked] == [0] * 4
    with pytest.raises(AssertionError, match="no record for prompt 5"):
        await cassette.complete(ask("one"))


async def test_saved_again_a_cassette_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    await recorded(path, "one", "long " * 2_000, kind=chat)
    before = path.read_text("utf-8")
    Cassette(path).save()
    assert path.read_text("utf-8") == before
    assert len(before) < 5_000, "a long text is packed"


CHANGES = [
    pytest.param(ask("tow"), None, "-two\n+tow", id="a message"),
    pytest.param(ask("two", "Be long."), None, "-Be brief.\n+Be long.", id="the system message"),
    pytest.param(ask("two")[1:], None, "-[system]\n-Be brief.", id="a message less"),
    pytest.param(ask("two"), SCHEMA, "+[schema]", id="a schema"),
]


@pytest.mark.parametrize(("asked", "schema", "told"), CHANGES)
async def test_a_changed_prompt_names_the_record_in_whose_place_it_stands(
    tmp_path: Path, asked: list[Message], schema: dict[str, Any] | None, told: str
) -> None:
    await recorded(tmp_path / "c.json", "one", "two", "three", kind=chat)
    cassette = Cassette(tmp_path / "c.json", kind=chat)
    cassette.turn = 1
    await cassette.complete(ask("one"))
    cassette.turn = 2
    with pytest.raises(AssertionError) as caught:
        await cassette.complete(asked, schema=schema)
    assert "c.json: record 2 (turn 2, chat, about " in str(caught.value)
    assert told in str(caught.value)
    assert [each.messages for each in cassette.missing] == [tuple(asked)]


async def test_a_prompt_in_nobodys_place_is_told_whole(tmp_path: Path) -> None:
    await recorded(tmp_path / "c.json", "one", kind=chat)
    cassette = Cassette(tmp_path / "c.json", kind=choose)
    cassette.turn = 1
    with pytest.raises(AssertionError, match=r"no record for prompt 1 \(turn 1, choose, .*\n\[system\]\nBe brief"):
        await cassette.complete(ask("two"))


async def test_a_model_is_asked_only_for_what_lacks_and_replaces_what_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    await recorded(path, "one", "two", "three")
    model = ScriptedModel("new")
    cassette = Cassette(path, model)
    replies: list[str | None] = []
    for cassette.turn, text in enumerate(("one", "TWO", "three"), 1):
        replies.append((await cassette.complete(ask(text))).text)
    assert replies == ["a1", "new", "a3"]
    assert len(model.calls) == 1
    cassette.save()
    kept = json.loads(path.read_text("utf-8"))["records"]
    assert [(each["turn"], each["reply"], each["begins"]) for each in kept] == [
        (1, "a1", "one"),
        (2, "new", "TWO"),
        (3, "a3", "three"),
    ]


async def test_a_record_that_was_edited_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    await recorded(path, "one")
    path.write_text(path.read_text("utf-8").replace('"one"', '"two"'), encoding="utf-8")
    cassette = Cassette(path)
    cassette.turn = 1
    with pytest.raises(AssertionError, match="is stale"):
        await cassette.complete(ask("one"))


async def test_it_takes_schemas_where_its_model_does_or_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    model = ScriptedModel("{}", takes_schema=True)
    cassette = Cassette(path, model)
    assert cassette.takes_schema
    assert await cassette.complete(ask("one"), schema=SCHEMA) == Reply(text="{}", model="scripted")
    assert model.schemas == [SCHEMA]
    cassette.save()
    assert not takes_schema(Cassette(path))
    again = Cassette(path, takes_schema=True)
    assert takes_schema(again)
    assert (await again.complete(ask("one"), schema=SCHEMA)).text == "{}"


async def test_it_keeps_the_contract_of_a_chat_model(tmp_path: Path) -> None:
    await check_chat_model(Cassette(tmp_path / "c.json", ScriptedModel("hello", repeat=True)))


def test_a_long_difference_is_cut_and_says_so() -> None:
    was, now = (Recorded(messages=tuple(ask("\n".join(lines)))) for lines in (map(str, range(90)), "ab"))
    told = was.changes(now, 10).splitlines()
    assert len(told) == 11
    assert told[-1].endswith("lines more")
