"""The layout of an index: which embedder and which lexical settings its vectors were made with."""

import hashlib
from dataclasses import dataclass

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What two sets of vectors must share to be compared.

    Each layout has a place of its own in a store, so vectors of two embedders never mix:
    changing the embedder means moving to another layout, one agent at a time.
    """

    embedder: str
    dim: int
    lexical: str

    @property
    def key(self) -> str:
        """Short, stable, safe in file and collection names."""
        text = f"{_FORMAT}|{self.embedder}|{self.dim}|{self.lexical}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        """As a person reads it in an error message."""
        return f"embedder {self.embedder} ({self.dim} dimensions) and {self.lexical}"
