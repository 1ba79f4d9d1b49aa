"""Where clients come in: streamable HTTP, to the agent that their key opens; or standard in- and output."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from jazz_select.service.agents import ServedAgents
from jazz_select.service.mcp.server import AgentServer
from jazz_select.service.options import ServeOptions
from jazz_select.service.running import RunningCatalogue

CatalogueOf = Callable[[HTTPConnection], RunningCatalogue]
"""The agent that a request is for; raises where it is for none."""
Serving = Callable[[RunningCatalogue], AgentServer]
"""Makes the server of an agent."""


class McpApp:
    """All agents over streamable HTTP, as an ASGI app to be mounted.

    Each agent has sessions of its own: the id of one says nothing to whoever has another agent's key.

    Attributes:
        servers: Agent id to what answers its clients.
    """

    def __init__(
        self,
        served: ServedAgents,
        of: CatalogueOf,
        make: Serving = AgentServer,
        *,
        security: TransportSecuritySettings | None = None,
        options: ServeOptions | None = None,
    ) -> None:
        """Take who is served.

        Args:
            served: The agents.
            of: Whom a request is for; whatever it raises passes to the app that this is mounted in.
            make: Makes the server of an agent, such as one with a gateway.
            options: How many sessions of each agent there may be, how long one may rest, and how large a request is.
            security: Which hosts and origins are answered, where nobody before this looks at them.
        """
        self._of = of
        limits = options or ServeOptions()
        self.servers: Mapping[str, AgentServer] = {agent_id: make(running) for agent_id, running in served.items()}
        self._managers = {
            agent_id: StreamableHTTPSessionManager(
                each.server,
                security_settings=security,
                max_sessions=limits.max_sessions,
                session_idle_timeout=limits.session_idle_s,
                max_request_body_size=limits.max_body,
            )
            for agent_id, each in self.servers.items()
        }

    def routes(self, path: str = "/mcp") -> list[BaseRoute]:
        """Where it answers, with and without a slash at the end: clients follow no redirects."""
        return [Route(path, endpoint=self), Route(f"{path}/", endpoint=self)]

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Hold all sessions for as long as this lasts; it can be entered once."""
        async with AsyncExitStack() as stack:
            for agent_id, each in self.servers.items():
                await stack.enter_async_context(self._managers[agent_id].run())
                await stack.enter_async_context(each.running())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its agent."""
        running = self._of(HTTPConnection(scope))
        # Blanks around a value are no part of it (RFC 9110, 5.5), and not every parser takes them off.
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._managers[running.agent_id].handle_request(scope, receive, send)


async def serve_stdio(server: AgentServer) -> None:
    """Answer the client at standard in- and output until it leaves; nothing else is written there meanwhile."""
    async with stdio_server() as (incoming, outgoing), server.running():
        await server.server.run(incoming, outgoing, server.server.create_initialization_options())
