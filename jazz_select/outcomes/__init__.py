"""The log of outcomes: what was selected for each request, and what was right where somebody said so.

Names are loaded on first use, like those of `jazz_select`.
"""

from jazz_select.lazy import front

__getattr__, __dir__, __all__ = front(__name__)
