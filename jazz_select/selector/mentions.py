"""What a word in a reply stands for among the candidates that were offered. Pure.

Ids come first, then names, then both again without regard to case and separators,
then 1-based positions. A word that could mean two candidates means none.
"""

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from jazz_select.text import clean
from jazz_select.values import Candidate

_ORDINAL = re.compile(r"(?:(?:flow|candidate|option|number|no\.?)\s*)?[#(\[]*([0-9]{1,4})[\s.)\]:]*", re.IGNORECASE)
_WRAPPING = " \t\r\n`'\"*<>.,;:!“”‘’«»"
_WORD = re.compile(r"[^\W_]+")
_LONGEST_MENTION = 120


class Mentions:
    """The candidates a model was shown, in that order, by everything it may call them."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._order = tuple(candidate.flow_id for candidate in candidates)
        ids = {flow_id: flow_id for flow_id in self._order}
        shown = _unambiguous((clean(flow_id), flow_id) for flow_id in self._order)
        names = _unambiguous((candidate.flow_name, candidate.flow_id) for candidate in candidates)
        self._exact = names | shown | ids
        self._folded = _unambiguous((folded_mention(key), flow_id) for key, flow_id in self._exact.items())

    def find(self, token: object) -> str | None:
        """The offered id that `token`, a string or a number, stands for."""
        if isinstance(token, str):
            text = token.strip(_WRAPPING)
            return (
                self._exact.get(token)
                or self._exact.get(text)
                or self._folded.get(folded_mention(text))
                or self._at(text)
            )
        if isinstance(token, int | float) and not isinstance(token, bool):
            return self._exact.get(str(token)) or self._at(str(token).removesuffix(".0"))
        return None

    def mentioned(self, text: str) -> tuple[tuple[str, ...], str]:
        """The ids that `text` mentions by id or name, in order and once each, and the text without the mentions."""
        pattern = _mention_pattern(self._exact)
        if pattern is None:
            return (), text
        found = (self._folded.get(folded_mention(match.group())) for match in pattern.finditer(text))
        return tuple(dict.fromkeys(flow_id for flow_id in found if flow_id)), pattern.sub(" ", text)

    def _at(self, text: str) -> str | None:
        match = _ORDINAL.fullmatch(text)
        position = int(match.group(1)) if match else 0
        return self._order[position - 1] if 0 < position <= len(self._order) else None


def folded_mention(text: str) -> str:
    """`text` without case and separators: RefundOrder and refund_order are one. Numbers alone fold to nothing."""
    letters = "".join(_WORD.findall(normalize("NFKC", text).casefold()))
    return "" if letters.isdecimal() else letters


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Key to id, without empty keys and without those that could mean two ids."""
    meanings: dict[str, set[str]] = {}
    for key, flow_id in pairs:
        meanings.setdefault(key, set()).add(flow_id)
    return {key: ids.pop() for key, ids in meanings.items() if key and len(ids) == 1}


def _mention_pattern(keys: Iterable[str]) -> re.Pattern[str] | None:
    """Finds any of `keys` as whole words, the longest first, however their words are joined."""
    words = {tuple(_WORD.findall(key)) for key in keys if len(key) <= _LONGEST_MENTION and folded_mention(key)}
    forms = sorted((r"[\s_-]?".join(map(re.escape, parts)) for parts in words), key=len, reverse=True)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])", re.IGNORECASE) if forms else None
