"""From a tool's name as a model wrote it to the tool."""
