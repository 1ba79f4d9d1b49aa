"""The client of `jazz-select serve`: what a selector and an agent do, asked of another process.

Names are loaded on first use, like those of `jazz_select`.
"""

from jazz_select.lazy import front

__getattr__, __dir__, __all__ = front(__name__)
