"""A model's own plan of calls: asked for, read, checked and run."""
