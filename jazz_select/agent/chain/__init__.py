"""A chain of tool calls: the loop, what a model is told in it, and the answer in a schema at its end."""
