"""Which embedder a test takes that is about meaning: static vectors where there are any, since they are quick."""

from importlib.util import find_spec

import pytest

HAS_STATIC = find_spec("wordllama") is not None
EMBEDDER = "static" if HAS_STATIC else "auto"
NEEDS_STATIC = pytest.mark.skipif(not HAS_STATIC, reason="wordllama has no wheel for this Python and platform")
"""For what was measured on static vectors: which flows they offer, and in which order."""
