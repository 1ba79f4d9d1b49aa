"""Requests that are known word for word: the examples, titles and aliases of the flows."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from jazz_select.flow.base import BaseFlow
from jazz_select.memory.encoder import spoken_name
from jazz_select.phrases import phrases
from jazz_select.text import is_of_word

_LONGEST: Final = 500
"""Characters of a request that can be known: examples are sentences, and Unicode folding may lengthen a text."""
_SIGNS: Final = frozenset("+#%&$€£@")
"""Signs that change a meaning ("C" and "C++", "10" and "10 %") belong to a word; other punctuation does not."""
_MOST_COURTESIES: Final = 6
_LONGEST_COURTESY: Final = 5
"""Words of a courtesy, such as "thank you very much"."""
_UNPARTED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
"""Scripts without spaces, whose courtesies are not parted from the rest."""


def folded_request(text: str) -> str:
    """Return a request without what does not change its meaning: Unicode form, case, punctuation, blanks, courtesies.

    Empty for a text that is too long to be known, or a courtesy as a whole.
    """
    if not text or len(text) > _LONGEST:
        return ""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_without_courtesies(_words(folded.replace("'", "").replace("’", ""))))


class _Blanks(dict[int, int]):
    """A table for `str.translate`: a blank for each character that belongs to no word."""

    def __missing__(self, code: int) -> int:
        letter = chr(code)
        found = code if is_of_word(letter) or letter in _SIGNS else ord(" ")
        if code < _FIRST_UNKEPT:
            self[code] = found
        return found


_FIRST_UNKEPT: Final = 0x3000
"""The first character that the table does not keep: alphabets come before it."""
_BLANKS: Final = _Blanks()


def _words(text: str) -> list[str]:
    return text.translate(_BLANKS).split()


def _without_courtesies(words: list[str]) -> list[str]:
    """Return the words between the courtesies at the beginning and at the end."""
    table = _courtesies()
    for _ in range(_MOST_COURTESIES):
        for length in range(min(_LONGEST_COURTESY, len(words)), 0, -1):
            if " ".join(words[:length]) in table:
                words = words[length:]
                break
            if " ".join(words[-length:]) in table:
                words = words[:-length]
                break
        else:
            break
    return words


@lru_cache(maxsize=1)
def _courtesies() -> frozenset[str]:
    plain = (" ".join(_words(each.replace("'", ""))) for each in phrases()["courtesy"])
    return frozenset(each for each in plain if each and not _UNPARTED.search(each))


@dataclass(frozen=True, slots=True)
class _Table:
    """The known requests of one state of a registry; None for those of several flows."""

    state: object
    flows: Mapping[str, str | None]


class KnownRequests:
    """The known requests of a registry, read again once it has changed."""

    def __init__(self, registry: Mapping[str, BaseFlow]) -> None:
        self._registry = registry
        self._table = _Table(None, {})

    def flow_of(self, request: str) -> str:
        """Return the id of the only flow that has this request as an example, title or alias; empty if there is none.

        A request that two flows have is known to neither.
        """
        folded = folded_request(request)
        if not folded:
            return ""
        state = self._state()
        if self._table.state != state:
            self._table = _Table(state, _flows_by_text(self._registry))
        flow_id = self._table.flows.get(folded)
        flow = None if flow_id is None else self._registry.get(flow_id)
        # The table may be older than a change of the flow itself.
        if flow is None or folded not in _texts(flow):
            return ""
        return flow.id

    def _state(self) -> object:
        version: object = getattr(self._registry, "version", None)
        if version is not None:
            return version
        return tuple(map(id, self._registry.values()))  # a plain mapping has no version


def _flows_by_text(registry: Mapping[str, BaseFlow]) -> dict[str, str | None]:
    known: dict[str, str | None] = {}
    for flow in registry.values():
        if flow.only_called:
            continue
        for text in _texts(flow):
            is_first = known.get(text, flow.id) == flow.id
            known[text] = flow.id if is_first else None
    return known


def _texts(flow: BaseFlow) -> frozenset[str]:
    names = (flow.name, flow.title, *flow.aliases)
    texts = (*flow.examples, *names, *map(spoken_name, names))
    return frozenset(filter(None, map(folded_request, texts)))
