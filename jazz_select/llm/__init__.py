"""Adapters to chat models: whatever the caller has becomes a `jazz_select.ports.ChatModel`."""
