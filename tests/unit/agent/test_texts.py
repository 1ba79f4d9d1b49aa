"""What an agent says by itself: one table by language, replaceable singly or whole, and no sentence outside of it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

import jazz_select
from jazz_select import Agent, FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.testing import ListMemory
from jazz_select.texts import Texts, default_texts, say, speaking
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.turns import destroyer, shop_of, tools_for
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("011.9")
PACKAGE = Path(jazz_select.__file__).parent


def named(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_each_language_has_each_sentence_with_the_same_placeholders() -> None:
    english = default_texts()["en"]
    assert [*default_texts()] == ["en", "de", "fr", "es", "it", "ru", "ja"]
    for language, table in default_texts().items():
        assert {key: named(text) for key, text in table.items()} == {
            key: named(text) for key, text in english.items()
        }, language


WANTS_EMAIL: list[Any] = [
    ("refund my order please", "To go on, I need: email."),
    ("Ich möchte mein Geld zurück", "Um weiterzumachen, brauche ich: email."),
    ("Je voudrais être remboursé", "Pour continuer, il me faut : email."),
    ("Quiero que me devuelvan el dinero", "Para seguir necesito: email."),
    ("Vorrei essere rimborsato", "Per continuare mi serve: email."),
    ("Верните мне деньги", "Чтобы продолжить, мне нужно: email."),
    ("返金してください", "続けるには次が必要です: email。"),
    ("refund_order", "To go on, I need: email."),
    ("Hoe krijg ik mijn geld terug", "To go on, I need: email."),
]


def agent(**options: Any) -> Agent:
    registry = shop_of(("refund_order", ("do_refund_order",)))
    selector = FlowSelector(None, registry, ListMemory(metadata("refund_order")), "shop", policy=TAKE_FIRST)
    return make_agent(selector, tools_for("do_refund_order", log=[], wants="email"), approval="never", **options)


@pytest.mark.parametrize(("message", "text"), WANTS_EMAIL, ids=[message for message, _ in WANTS_EMAIL])
async def test_a_turn_is_answered_in_the_language_of_the_user(message: str, text: str) -> None:
    assert (await agent().turn(message)).text == text


async def test_a_message_that_tells_no_language_is_answered_in_that_of_the_one_before() -> None:
    made = agent()
    first = await made.turn("Ich möchte mein Geld zurück")
    done = await made.turn("ada@example.org", first.conversation)
    assert (done.status, done.text) == ("done", "Refund order ist erledigt.")


async def test_sentences_are_replaced_singly_by_language_and_whole() -> None:
    single = agent(texts={"ask": "May I have your {inputs}?"})
    german = agent(texts={"de": {"ask": "Wie lautet {inputs}?"}})
    dutch = agent(texts={"nl": default_texts()["en"]})
    assert (await single.turn("refund it")).text == "May I have your email?"
    assert (await single.turn("Ich möchte mein Geld zurück")).text == "May I have your email?"
    assert (await german.turn("refund it")).text == "To go on, I need: email."
    assert (await german.turn("Ich möchte mein Geld zurück")).text == "Wie lautet email?"
    assert (await dutch.turn("refund it")).text == "To go on, I need: email."


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"dne": "x"}, "there is no 'dne'; did you mean 'done'"),
        ({"done": "ready"}, "done: it lacks {title}"),
        ({"de": {"done": "{title} {name}"}}, "de.done: nothing fills {name}"),
        ({"done": "{title"}, "done cannot be filled"),
        ({"done": 5}, "done must be a sentence, got 5"),
        ({"nl": {"done": "{title}"}}, "needs every sentence of [en] in jazz_select/texts.toml; missing: failed"),
        ([("done", "x")], "texts must map keys to sentences"),
    ],
)
def test_a_sentence_that_cannot_stand_there_is_refused_when_the_agent_is_made(texts: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        agent(texts=texts)


def test_a_new_language_may_leave_out_the_reasons_of_refusals() -> None:
    english = default_texts()["en"]
    own = {key: text for key, text in english.items() if not key.startswith("must_")} | {"must_date": "een datum"}
    sentences = Texts({"nl": own, "de": {"must_time": "eine Uhrzeit"}})
    assert sentences.in_language_of(["hello"])["must_whole"] == english["must_whole"]
    with pytest.raises(ConfigError, match="missing: done"):
        Texts({"nl": {key: text for key, text in own.items() if key != "done"}})


async def test_braces_of_a_value_are_a_value() -> None:
    with speaking(Texts().in_language_of(["hello"])):
        assert say("done", title="{email} {0}") == "{email} {0} is done."


# --- nothing is said outside of the table --------------------------------------

MARKED = {
    key: f"⟦{key}{''.join(f' {{{name}}}' for name in sorted(named(text)))}⟧"
    for key, text in default_texts()["en"].items()
}


async def test_all_that_is_said_without_a_model_is_of_the_table() -> None:
    """What is left of each text outside of its sentences is nothing but space."""
    registry = shop_of(
        ("refund_order", ("do_refund_order",)), ("cancel_order", ("do_cancel_order",)), ("look", ("gone",))
    )
    vars(registry.by_name("look")).update(optional_tools=("gone",), tools=("gone",))
    tools = [*tools_for("do_refund_order", log=[], wants="email"), destroyer("do_cancel_order", [])]
    told: list[str] = []
    for talk in (
        ("refund_order", "hm", "no"),
        ("refund_order", "ada@example.org"),
        ("cancel_order", "maybe", "yes"),
        ("cancel_order", "no"),
        ("cancel_order", "yes. And tell me what the weather will be like."),
        ("look",),
    ):
        selector = FlowSelector(None, registry, ListMemory(metadata(talk[0])), "shop", policy=TAKE_FIRST)
        made = Agent(selector, tools, texts=MARKED, facts={"support": "Ben"})
        kept = None
        for message in talk:
            result = await made.turn(message, kept)
            kept = result.conversation
            told.append(result.text)
    said = {key for each in told for key in re.findall(r"⟦(\w+)", each)}
    assert said >= {"ask", "called_off", "done", "next", "yes_or_no", "blocked", "left_open"}, said
    assert [each for each in told if outside(each).strip("\n ")] == []


def outside(text: str) -> str:
    """What stands in no sentence of the table."""
    while (less := re.sub(r"⟦[^⟦⟧]*⟧", "", text)) != text:
        text = less
    return text


_PROMPTS = {"open_flows.py", "prompts.py", "loop.py", "finalizer.py", "formatting.py", "responder.py"}
"""What is said to models."""


def sentences(tree: ast.AST) -> Iterator[str]:
    """The texts of a module that read like what is said to people: not its docstrings, errors and reasons."""
    silent: set[int] = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_told = isinstance(node, ast.keyword) and node.arg in {"reason", "problem", "description", "asked"}
        is_told = is_told or (
            isinstance(node, ast.Dict) and isinstance(node.keys[0] if node.keys else None, ast.Constant)
        )
        if isinstance(node, ast.Raise) or is_docstring or is_told:
            silent |= {id(each) for each in ast.walk(node)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in silent else None
        if isinstance(text, str) and re.fullmatch(r"[A-Z¿¡][^\n_]* [^\n]*[.?!:]", text):
            yield text


def test_no_module_of_the_agent_holds_a_sentence_for_users() -> None:
    modules = [*(PACKAGE / "agent").rglob("*.py"), PACKAGE / "selector" / "asking.py"]
    found = {
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in modules
        if path.name not in _PROMPTS and "chain" not in path.parts
        for text in sentences(ast.parse(path.read_text("utf-8")))
    }
    assert len(modules) > 30
    assert found == set()
