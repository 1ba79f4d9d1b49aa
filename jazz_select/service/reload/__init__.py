"""Changed files of flows and tools are live without a restart."""
