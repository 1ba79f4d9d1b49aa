"""A chain of tool calls: its loop, its prompts, and the answer in a schema."""
