"""Fixed sentences to users in their language: one table (`texts.toml`), replaceable in part or whole."""

import tomllib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, Final, cast

from jazz_select.errors import ConfigError
from jazz_select.json_values import is_object
from jazz_select.phrases import language_of, sentence_language
from jazz_select.text import did_you_mean, template_fields
from jazz_select.threads import set_in

ENGLISH: Final = "en"
_REASON: Final = "must_"
"""What the keys of reasons begin with, which a new language may leave out: they are said in English then."""
_Table = Mapping[str, str]


@cache
def default_texts() -> Mapping[str, _Table]:
    """Return the sentences of each language, by key."""
    return tomllib.loads(Path(__file__).with_name("texts.toml").read_text("utf-8"))


class Texts:
    """An agent's sentences, by language and key.

    A given mapping holds sentences by key, for every language, or languages with sentences by key. A language missing
    from the table must be complete.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        """Take the table, overridden by what is given.

        Raises:
            ConfigError: A value is not text, a key is unknown, or a placeholder is missing or unknown.
        """
        if not isinstance(cast("object", given), Mapping | None):
            raise ConfigError(f"texts must map keys to sentences, or languages to such a mapping, got {given!r:.80}")
        self._tables = {language: dict(table) for language, table in default_texts().items()}
        english = default_texts()[ENGLISH]
        for name, value in (given or {}).items():
            if not is_object(value):
                _check(name, name, value)
                for table in self._tables.values():
                    table[name] = value
                continue
            for key, text in value.items():
                _check(f"{name}.{key}", key, text)
            missing = [key for key in english if key not in value and not key.startswith(_REASON)]
            if missing and name not in self._tables:
                whole = "a new language needs every sentence of [en] in jazz_select/texts.toml"
                raise ConfigError(f"texts[{name!r}]: {whole}; missing: {', '.join(missing)}")
            reasons = {key: text for key, text in english.items() if key.startswith(_REASON)}
            self._tables[name] = {**reasons, **self._tables.get(name, {}), **value}

    def in_language_of(self, messages: Iterable[str]) -> "Sentences":
        """Return the sentences in the language of a conversation, its latest message first; else in English."""
        found = conversation_language(messages)
        language = found if found in self._tables else ENGLISH
        return Sentences(self._tables[language], language)


class Sentences(dict[str, str]):
    """The sentences of one language, by key.

    Attributes:
        language: Its code.
    """

    def __init__(self, sentences: Mapping[str, str], language: str) -> None:
        """Take the sentences of a language."""
        super().__init__(sentences)
        self.language = language


def conversation_language(messages: Iterable[str]) -> str:
    """Return the language of a conversation by its user's messages, the latest first; empty if they tell none.

    The language is that of the latest sentence. A value tells none: "Los Angeles" in an English conversation leaves it
    English. Only the first message, which answers nothing, tells its language by a single word.
    """
    first = ""
    for each in messages:
        language = sentence_language(each)
        if language is not None:
            return language
        first = each
    return language_of(first) if first else ""


_now: ContextVar[_Table | None] = ContextVar("jazz_select_texts", default=None)


def speaking(sentences: _Table) -> AbstractContextManager[None]:
    """Use these sentences, by key, in the block."""
    return set_in(_now, sentences)


def current_language() -> str:
    """Return the language of the current turn; outside of a turn, English."""
    sentences = _now.get()
    return sentences.language if isinstance(sentences, Sentences) else ENGLISH


def say(key: str, /, **values: object) -> str:
    """Return a sentence in the language of the current turn; outside of a turn, in English."""
    sentences = _now.get() or default_texts()[ENGLISH]
    return sentences[key].format_map({name: str(value) for name, value in values.items()})


def _check(place: str, key: str, text: object) -> None:
    """Check that a sentence can replace the one of its key."""
    english = default_texts()[ENGLISH]
    if key not in english:
        hint = did_you_mean(key, [*english]) or f"keys are {', '.join(english)}"
        raise ConfigError(f"texts: there is no {place!r:.80}; {hint}")
    if not isinstance(text, str):
        raise ConfigError(f"texts: {place} must be a sentence, got {text!r:.80}")
    try:
        list(Formatter().parse(text))
    except ValueError as error:
        msg = f"texts: {place} cannot be filled: {error}; write {{{{ and }}}} for braces of its own"
        raise ConfigError(msg) from error
    try:
        named = {*template_fields(text)}
    except ValueError as error:
        raise ConfigError(f"texts: {place} {error}") from error
    wanted = {name for _, name, _, _ in Formatter().parse(english[key]) if name is not None}
    if named != wanted:
        problems: list[str] = []
        if wanted - named:
            problems.append(f"it lacks {_in_braces(wanted - named)}")
        if named - wanted:
            problems.append(f"nothing fills {_in_braces(named - wanted)}")
        raise ConfigError(f"texts: {place}: {'; '.join(problems)}")


def _in_braces(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
