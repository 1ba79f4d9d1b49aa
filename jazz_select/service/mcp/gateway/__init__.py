"""The gateway: MCP servers of others, connected, kept alive, and named so that none can pass for another."""
