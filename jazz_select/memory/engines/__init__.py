"""Where flows are stored: Qdrant Edge in this process, a Qdrant server, or memory."""
