"""The agent's turn: guards, a graph, a chain of tools, and an answer in the schema that was asked for.

Names are loaded on first use, like those of `jazz_select`.
"""

from jazz_select.lazy import front

__getattr__, __dir__, __all__ = front(__name__)
