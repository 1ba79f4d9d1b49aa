"""Flows, their tools, and tool search in the loops of other frameworks and providers."""
