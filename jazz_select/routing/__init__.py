"""Tools: what may follow what, which was meant, and running them.

Names are loaded on first use, like those of `jazz_select`.
"""

from jazz_select.lazy import front

__getattr__, __dir__, __all__ = front(__name__)
