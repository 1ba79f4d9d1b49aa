"""Judging a catalogue: its problems, how well its flows are found, the effect of changes, and what it can learn.

Names are loaded on first use, like those of `jazz_select`.
"""

from jazz_select.lazy import front

__getattr__, __dir__, __all__ = front(__name__)
