"""Flows in agents of pydantic-ai: a toolset, and a capability. Needs the extra `pydantic-ai`.

What needs a yes is deferred: have `DeferredToolRequests` among the agent's output types.
"""

from jazz_select.integrations.pydantic_ai.capability import FlowCapability as FlowCapability
from jazz_select.integrations.pydantic_ai.toolset import FlowToolset as FlowToolset
