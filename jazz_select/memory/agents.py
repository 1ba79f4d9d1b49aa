"""What a memory keeps at hand of each agent: its recall model, and whose turn it is to write."""

import asyncio
from dataclasses import dataclass
from time import monotonic
from weakref import WeakKeyDictionary

from jazz_select.errors import ConfigError
from jazz_select.memory.fit.model import RecallModel
from jazz_select.ports import FlowStore

_FRESH_S = 60.0
"""How long a model read from a store that others write to is trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """An agent's model, and the other layouts its flows lie in while its move to this one is not finished."""

    model: RecallModel
    elsewhere: tuple[str, ...] = ()
    read_at: float = 0.0


class Agents:
    """The state of each agent, read when first needed."""

    def __init__(self, store: FlowStore) -> None:
        """Read from this store."""
        self._store = store
        self._states: dict[str, AgentState] = {}
        # A lock belongs to an event loop, and a memory may be used from several.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()

    def writing(self, agent_id: str) -> asyncio.Lock:
        """Held by whoever writes this agent's flows."""
        return self._locks.setdefault(asyncio.get_running_loop(), {}).setdefault(agent_id, asyncio.Lock())

    def forget(self, agent_id: str) -> None:
        """Read it again next time."""
        self._states.pop(agent_id, None)

    async def state(self, agent_id: str) -> AgentState:
        """From memory where it is fresh, else from the store."""
        state = self._states.get(agent_id)
        if state is None or (self._store.shared and monotonic() - state.read_at > _FRESH_S):
            state = self._states[agent_id] = await self._read(agent_id)
        return state

    async def _read(self, agent_id: str) -> AgentState:
        """The note is the last thing that a sync writes, so without one a move to this layout may be under way."""
        note = await self._store.read_note(agent_id)
        elsewhere = () if note else tuple(await self._store.other_layouts(agent_id))
        return AgentState(model=RecallModel.from_note(note), elsewhere=elsewhere, read_at=monotonic())


def checked_agent(agent_id: object) -> None:
    """Agents are told apart by name, so the name must be one.

    Raises:
        ConfigError: It is empty, no text, or text that cannot be stored.
    """
    if isinstance(agent_id, str) and agent_id.strip():
        try:
            agent_id.encode()
        except UnicodeEncodeError:
            pass
        else:
            return
    msg = f"agent_id must be a name such as 'support', not {agent_id!r:.80}"
    raise ConfigError(msg)
