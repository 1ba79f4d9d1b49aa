"""Whether a shared index still answers for what is served: looked at again and again, and restored where it is lost."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from jazz_select.errors import FlowsMissingError, JazzSelectError, StoreError
from jazz_select.service.running import RunningCatalogue
from jazz_select.text import describe_error

_EVERY_S: Final = 2.0
"""Between two looks."""
_FRESH_S: Final = 1.0
"""For so long a look holds: everybody may ask whether the service is ready, as often as they like."""
_PATIENCE_S: Final = 3.0
"""How long one answer is waited for."""
_SHARE: Final = 20
"""Looking takes one part in so many of the time at most, however many agents there are."""
_AGAIN_MOST_S: Final = 60.0
_log = logging.getLogger(__name__)


class IndexWatch:
    """Looks at the index of each agent, notes there what is wrong with it, and writes again what was deleted in it.

    An index in this process has no others that write to it, and is not looked at.
    """

    def __init__(self, catalogues: Iterable[RunningCatalogue]) -> None:
        """Watch over these; what is not loaded yet is passed over."""
        self._catalogues = [each for each in catalogues if each.memory.is_shared]
        self._lock = asyncio.Lock()
        self._looked_at: float | None = None

    async def look(self) -> None:
        """Look at the index of all agents, unless somebody did a moment ago."""
        if not self._catalogues:
            return
        async with self._lock:
            if self._looked_at is not None and _loop_time() - self._looked_at < _FRESH_S:
                return
            unavailable = ""
            for each in self._catalogues:
                if each.is_ready:
                    # One server has the flows of all: where it is away, none of the others is waited for.
                    unavailable = unavailable or await _look_at(each)
                    if unavailable:
                        each.note_index(unavailable)
            self._looked_at = _loop_time()

    async def run(self) -> None:
        """Look again and again, until cancelled, and restore what was lost."""
        pause_s, again_at = _EVERY_S, 0.0
        while self._catalogues:
            await asyncio.sleep(_EVERY_S)
            began = _loop_time()
            await self.look()
            lost = [each for each in self._catalogues if each.is_ready and each.index_problem]
            if not lost:
                pause_s = _EVERY_S
            elif _loop_time() >= again_at:
                restored = [await _restore(each) for each in lost]
                pause_s = _EVERY_S if all(restored) else min(2 * pause_s, _AGAIN_MOST_S)
                again_at = _loop_time() + pause_s
            await asyncio.sleep((_loop_time() - began) * _SHARE)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


async def _look_at(catalogue: RunningCatalogue) -> str:
    """Note what is wrong with the index of one agent; return why it cannot be asked at all, if so."""
    flows = len(catalogue.live.registry)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            count = await catalogue.memory.count_flows(catalogue.agent_id)
    except TimeoutError:
        return f"it did not answer within {_PATIENCE_S:g} s"
    except StoreError as error:
        return str(error)
    missing = FlowsMissingError(catalogue.agent_id, known=flows) if flows and not count else ""
    catalogue.note_index(str(missing))
    return ""


async def _restore(catalogue: RunningCatalogue) -> bool:
    try:
        if await catalogue.memory.count_flows(catalogue.agent_id):
            return True
        await catalogue.restore()
    except JazzSelectError as error:
        _log.debug("agent_id=<%s>, error=<%s> | not restored yet", catalogue.agent_id, describe_error(error))
        return False
    return True
