"""The agent's turn: guards, a graph, a chain of tools, and an answer in the schema that was asked for."""
