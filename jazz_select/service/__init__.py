"""`jazz-select serve`: one process that owns the index, and answers over HTTP, over MCP, and in a browser."""
