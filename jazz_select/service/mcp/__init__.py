"""MCP: an agent's flows and tools as a server, and many servers behind one (a gateway)."""
