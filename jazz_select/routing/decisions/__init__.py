"""Choices between tools: what fits, the point where one is chosen, and a model as the one who chooses."""
