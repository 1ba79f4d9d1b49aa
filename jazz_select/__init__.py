"""jazz_select: find the right flow for a request.

Deterministic when it can, guided by a model when it must, open when nothing fits.
Names are loaded on first use, so that importing this package costs next to nothing.
"""

from jazz_select.lazy import front

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = front(__name__)
