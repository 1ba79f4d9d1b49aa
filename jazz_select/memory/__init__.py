"""Procedural memory: flows as vectors and words, kept by an engine and recalled by both arms at once."""
