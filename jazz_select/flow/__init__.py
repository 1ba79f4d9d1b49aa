"""What an author writes: flows, composites, the registry that holds them, and loading them from files."""
