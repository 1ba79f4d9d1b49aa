"""From text to unit vectors."""
