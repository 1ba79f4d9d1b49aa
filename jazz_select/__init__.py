"""jazz_select: find the right flow for a request.

Deterministic when it can, guided by a model when it must, open when nothing fits.
Names are loaded on first use, so that importing this package costs next to nothing.
"""

from typing import TYPE_CHECKING

from jazz_select.lazy import lazily

if TYPE_CHECKING:
    from jazz_select.build import sync_registry
    from jazz_select.errors import JazzSelectError
    from jazz_select.flow.base import BaseFlow, Flow
    from jazz_select.flow.composite import ConditionalFlow, ParallelFlow, SequentialFlow
    from jazz_select.flow.registry import FlowRegistry
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.selector.batch import SelectRequest
    from jazz_select.selector.result import FlowSelectionResult
    from jazz_select.selector.select import FlowSelector

_HOMES = {
    "BaseFlow": "flow.base",
    "ConditionalFlow": "flow.composite",
    "Flow": "flow.base",
    "FlowRegistry": "flow.registry",
    "FlowSelectionResult": "selector.result",
    "FlowSelector": "selector.select",
    "JazzSelectError": "errors",
    "ParallelFlow": "flow.composite",
    "ProceduralMemory": "memory.procedural",
    "SelectRequest": "selector.batch",
    "SequentialFlow": "flow.composite",
    "sync_registry": "build",
}

__version__ = "0.1.0"
__all__ = [
    "BaseFlow",
    "ConditionalFlow",
    "Flow",
    "FlowRegistry",
    "FlowSelectionResult",
    "FlowSelector",
    "JazzSelectError",
    "ParallelFlow",
    "ProceduralMemory",
    "SelectRequest",
    "SequentialFlow",
    "sync_registry",
]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
