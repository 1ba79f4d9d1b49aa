"""Conversations as cases: what is said, what has to come of it, and playing them."""
