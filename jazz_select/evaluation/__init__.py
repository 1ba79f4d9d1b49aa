"""Judging a catalogue: what is wrong with it, how well it is found, what a change moves, and what can be learned.

Names are loaded on first use, like those of `jazz_select`.
"""

from jazz_select.lazy import front

__getattr__, __dir__, __all__ = front(__name__)
