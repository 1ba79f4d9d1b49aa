"""Flows and their tools in the loops of other frameworks: pydantic-ai, LangGraph, the OpenAI Agents SDK."""
