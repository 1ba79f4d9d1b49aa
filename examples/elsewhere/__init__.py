"""Flows in the loops of other frameworks, and in a loop of one's own. No key is needed: the models follow a script."""
