"""Tools, where they come from, and recalling those that a request needs."""
