"""Files of conversations: short forms, and errors that name file, entry and field of all that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazz_select import Flow, FlowRegistry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import load_conversations

TURN = {"say": "hello"}
GOOD: dict[str, Any] = {"title": "Good", "turns": [TURN]}


@pytest.fixture
def registry() -> FlowRegistry:
    made = FlowRegistry(min_examples=0)
    for name in ("refund_order", "track_order"):
        Flow(
            name=name,
            description=f"All about {name}.",
            condition=f"The user asks for {name}.",
            desired_effects=["it is done"],
            examples=[],
            registry=made,
        )
    return made


def written(folder: Path, *entries: object, name: str = "talks.yaml") -> Path:
    file = folder / name
    file.write_text(yaml.safe_dump(list(entries), allow_unicode=True), "utf-8")
    return file


def sent(*calls: tuple[str, dict[str, Any]], text: str = "") -> str:
    made = [{"id": f"s{at}", "tool": tool, "arguments": given} for at, (tool, given) in enumerate(calls, 1)]
    return json.dumps({**({"text": text} if text else {}), "tool_calls": made})


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        pytest.param("Hello!", "Hello!", id="a text"),
        pytest.param({"call": {"pay": {"cents": 5}}}, sent(("pay", {"cents": 5})), id="a call"),
        pytest.param({"call": {"a": None, "b": {}}}, sent(("a", {}), ("b", {})), id="two calls"),
        pytest.param({"text": "So.", "call": {"a": {}}}, sent(("a", {}), text="So."), id="a call with a text"),
        pytest.param({"finish": "Done."}, sent(("finish_procedure", {}), text="Done."), id="the end"),
        pytest.param(
            {"blocked": "no tool", "text": "Sorry."},
            sent(("cannot_finish", {"reason": "no tool"}), text="Sorry."),
            id="the other end",
        ),
        pytest.param(["1"], '["1"]', id="a list is JSON"),
        pytest.param({"email": None}, '{"email": null}', id="any mapping is JSON"),
        pytest.param(60112, "60112", id="a number is what it is written as"),
    ],
)
def test_replies_have_short_forms(reply: object, told: str, tmp_path: Path) -> None:
    (case,) = load_conversations(written(tmp_path, {"title": "x", "turns": [{"say": "hi", "script": [reply]}]}))
    assert case.turns[0].script == (told,)
    assert case.scripted


def test_a_turn_may_be_a_text_and_a_file_one_conversation(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("title: Jürgen's wish, again\nturns: [hello, and: bye]".replace("and: bye", "bye"), "utf-8")
    (case,) = load_conversations(file)
    assert [turn.say for turn in case.turns] == ["hello", "bye"]
    assert (case.name, case.scripted, case.file) == ("jürgens-wish-again", False, str(file))


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    written(tmp_path, {**GOOD, "id": "b"}, name="b.yaml")
    written(tmp_path, {**GOOD, "id": "a"}, name="a.yml")
    (tmp_path / "notes.txt").write_text("no YAML")
    assert [case.id for case in load_conversations(tmp_path)] == ["a", "b"]


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("entry", "told"),
    [
        pytest.param({"turns": [TURN]}, "entry 2: title: is missing", id="no title"),
        pytest.param({**GOOD, "turns": []}, "entry 2 (Good): turns: ", id="no turns"),
        pytest.param({**GOOD, "trun": 1}, ":5:3, entry 2 (Good): trun: is no field of a conversation; ", id="a slip"),
        pytest.param({**GOOD, "turns": [{**TURN, "expekt": 1}]}, "turn; did you mean 'expect'?; see docs", id="meant"),
        pytest.param({**GOOD, "expect": {"stats": "done"}}, "did you mean 'status'?", id="expect"),
        pytest.param({**GOOD, "stubs": {"pya": 1}}, "stubs.pya: there is no tool pya", id="a stub"),
        pytest.param({**GOOD, "turns": [TURN, {"say": ""}]}, "turn 2.say: string should", id="nothing said"),
        pytest.param(
            {**GOOD, "turns": [{"say": "x", "expect": {"status": "dune"}}]}, "turn 1.expect.status: input", id="status"
        ),
        pytest.param(
            {**GOOD, "turns": [{"say": "x", "expect": {"says": "/(/"}}]}, "turn 1.expect.says: /(/ is no", id="pattern"
        ),
        pytest.param({"request": "x", "expect": []}, "a labelled request, which jazz-select eval reads", id="a case"),
        pytest.param({"say": "x"}, "it is a turn; put the turns under turns:", id="a turn"),
        pytest.param("x", "a conversation is a mapping", id="a text"),
        pytest.param({**GOOD, "expect": {"flows": ["refnd_order"]}}, "did you mean 'refund_order'?", id="a flow"),
        pytest.param(
            {**GOOD, "turns": [{"say": "x", "chooses": "off-gone"}]}, "turn 1.chooses: there is no flow", id="chosen"
        ),
        pytest.param({**GOOD, "expect": {"tools": [{"pya": {"cents": 5}}]}}, "there is no tool pya", id="a tool"),
        pytest.param({**GOOD, "expect": {"never_tools": "x"}}, "expect.never_tools: there is no tool x", id="never"),
        pytest.param({**GOOD, "title": "first!"}, "is known as that; give one of them another id", id="two of one id"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(entry: object, told: str, tmp_path: Path, registry: FlowRegistry) -> None:
    file = written(tmp_path, {**GOOD, "title": "First"}, entry)
    with pytest.raises(ConfigError) as caught:
        load_conversations(file, registry, tools={"pay"})
    assert str(file) in str(caught.value)
    assert told in str(caught.value)


def test_names_that_stand_for_no_flow_are_none(tmp_path: Path, registry: FlowRegistry) -> None:
    turns = [
        {"say": "x", "chooses": "yes", "expect": {"flows": "none", "under_way": "refund_order"}},
        {"say": "y", "chooses": ["off-refund_order", "track_order"], "expect": {"tools": ["pay"]}},
    ]
    (case,) = load_conversations(written(tmp_path, {**GOOD, "turns": turns}), registry, tools={"pay"})
    assert case.turns[0].expect.flows == ()


def test_everything_that_is_wrong_is_told_once_and_within_bounds(tmp_path: Path) -> None:
    file = written(tmp_path, *({"say": "x"} for _ in range(30)), *({**GOOD, f"x{number}": 1} for number in range(30)))
    with pytest.raises(ConfigError) as caught:
        load_conversations(file)
    assert f"{file}:1:3, entry 1 and 29 more: it is a turn" in str(caught.value)
    assert "x8: is no field of a conversation" in str(caught.value)
    assert str(caught.value).endswith("; and 21 more")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param("", "holds no conversations", id="empty"),
        pytest.param("- {", "is no YAML", id="no YAML"),
        pytest.param("hello", "must hold a list", id="a text"),
    ],
)
def test_files_that_hold_none(content: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "talks.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=told):
        load_conversations(file)


@pytest.mark.parametrize("name", ["yes", "no"])
def test_yes_and_no_are_words_as_yaml_has_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "talks.yaml"
    file.write_text(
        f"- title: T\n  turns:\n    - say: {name}\n      chooses: {name}\n      expect: {{says: [{name}]}}\n"
    )
    (case,) = load_conversations(file)
    (turn,) = case.turns
    assert (turn.say, turn.chooses, turn.expect.says) == (name, (name,), (name,))


def test_a_name_that_nothing_has_is_told_with_line_and_column(tmp_path: Path, registry: FlowRegistry) -> None:
    file = tmp_path / "talks.yaml"
    file.write_text("- title: T\n  turns:\n    - say: hello\n      expect:\n        flows: [track_oder]\n")
    with pytest.raises(ConfigError) as caught:
        load_conversations(file, registry)
    assert str(caught.value).startswith(f"{file}:5:9 (t): turn 1.expect.flows: there is no flow")
    assert "did you mean 'track_order'?" in str(caught.value)
