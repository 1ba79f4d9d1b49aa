"""The lexical arm: BM25 over words and word pairs, with Qdrant's own tokens and stems, on every engine alike."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from jazz_select.errors import ConfigError
from jazz_select.ports import SparseVector

if TYPE_CHECKING:
    import qdrant_edge as qe

_WORD = re.compile(r"\w+")
_K, _B, _AVERAGE = 1.2, 0.75, 64.0
"""Qdrant's defaults: saturation of frequency, weight of length, and the length that counts as average."""
_CACHED_WORDS = 1 << 16
_MIX = 0x9E3779B1
_TOKENS = 1 << 32


class Lexical:
    """Text to BM25 weights; the engine adds how rare a word is (IDF).

    Two things differ from plain BM25. Where a flow has examples in users' words, its stop words count:
    "how do I" and "what is" tell requests apart that share every other word. And pairs of neighbouring
    words are terms of their own, so that word order is not lost.

    The multilingual tokenizer finds words where no spaces stand between them (Chinese, Japanese, Thai).
    """

    def __init__(self, language: str = "english") -> None:
        """Take stop words and stemming from `language`; "none" means neither.

        Raises:
            ConfigError: The engine has no such language.
        """
        self.language = language.strip().lower()
        try:
            self._all = _bm25(self.language, stop_words=False)
            self._content = _bm25(self.language, stop_words=True)
        except ValueError as error:
            msg = f"no such language for the lexical arm: {language!r}. Use english, german, french … or none."
            raise ConfigError(msg) from error
        self.identity = (
            f"bm25(k={_K:g}, b={_B:g}, avg_len={_AVERAGE:g}, words and pairs, multilingual, {self.language})"
        )
        self._word = lru_cache(_CACHED_WORDS)(self._look_up)

    def document(self, parts: Iterable[str], *, stop_words: bool) -> SparseVector:
        """Weights of a flow's terms: saturated by frequency, normalised by length.

        Pairs are taken within each part. Without `stop_words` only words that carry content count, and no pairs.
        """
        counts = Counter(term for part in parts for term in self._terms(part, stop_words=stop_words))
        length = sum(counts.values())
        norm = _K * (1 - _B + _B * length / _AVERAGE)
        return SparseVector(
            indices=tuple(counts), values=tuple(count * (_K + 1) / (count + norm) for count in counts.values())
        )

    def query(self, text: str) -> SparseVector | None:
        """Each distinct term of a request once, or None where no term is left."""
        terms = tuple(dict.fromkeys(self._terms(text, stop_words=True)))
        return SparseVector(indices=terms, values=(1.0,) * len(terms)) if terms else None

    def content_words(self, text: str) -> int:
        """How many different words of the text are more than stop words."""
        return len({tokens for tokens, is_content in map(self._word, _WORD.findall(text)) if is_content})

    def _terms(self, text: str, *, stop_words: bool) -> Iterator[int]:
        words = [self._word(word) for word in _WORD.findall(text)]
        for tokens, is_content in words:
            if is_content or stop_words:
                yield from tokens
        if stop_words:
            for (left, _), (right, _) in pairwise(words):
                if len(left) == len(right) == 1:
                    yield (left[0] * _MIX + right[0]) % _TOKENS

    def _look_up(self, word: str) -> tuple[tuple[int, ...], bool]:
        """Its tokens (several where the script has no spaces), and whether it is more than a stop word."""
        return tuple(self._all.embed_query(word).indices), bool(self._content.embed_query(word).indices)


def _bm25(language: str, *, stop_words: bool) -> "qe.Bm25":
    import qdrant_edge as qe

    tokenizer = qe.TokenizerType.Multilingual
    nothing = qe.StopwordsSet(languages=set(), custom=set())
    if language == "none":
        return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, stopwords=nothing, stemmer=qe.DisabledStemmer()))
    if stop_words:
        return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, language=language))
    return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, language=language, stopwords=nothing))
