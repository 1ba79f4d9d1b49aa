"""The lexical arm: Qdrant's own BM25, computed here so that every engine stores the same tokens."""

from typing import TYPE_CHECKING

from jazz_select.errors import ConfigError
from jazz_select.ports import SparseVector

if TYPE_CHECKING:
    import qdrant_edge as qe


class Lexical:
    """Text to BM25 weights.

    The multilingual tokenizer finds words where no spaces stand between them
    (Chinese, Japanese, Thai) and gives the same tokens as the plain one elsewhere.
    """

    def __init__(self, language: str = "english") -> None:
        """Take stop words and stemming from `language`; "none" means neither.

        Raises:
            ConfigError: The engine has no such language.
        """
        import qdrant_edge as qe

        self.language = language.strip().lower()
        try:
            config = _config(self.language)
            self._bm25 = qe.Bm25(config)
        except ValueError as error:
            msg = (
                f"no such language for the lexical arm: {language!r} ({error}). Use english, german, french … or none."
            )
            raise ConfigError(msg) from error
        settings = f"k={config.k:g}, b={config.b:g}, avg_len={config.avg_len:g}"
        self.identity = f"bm25({settings}, multilingual, {self.language})"

    def document(self, text: str) -> SparseVector:
        """Weights of a flow's words: saturated by frequency, normalised by length; the engine adds IDF."""
        vector = self._bm25.embed_document(text)
        return SparseVector(indices=tuple(vector.indices), values=tuple(vector.values))

    def query(self, text: str) -> SparseVector | None:
        """Each distinct word of a request once, or None where no word is left."""
        vector = self._bm25.embed_query(text)
        if not vector.indices:
            return None
        return SparseVector(indices=tuple(vector.indices), values=tuple(vector.values))


def _config(language: str) -> "qe.Bm25Config":
    import qdrant_edge as qe

    tokenizer = qe.TokenizerType.Multilingual
    if language == "none":
        no_words = qe.StopwordsSet(languages=set(), custom=set())
        return qe.Bm25Config(tokenizer=tokenizer, stopwords=no_words, stemmer=qe.DisabledStemmer())
    return qe.Bm25Config(tokenizer=tokenizer, language=language)
