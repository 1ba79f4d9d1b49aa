"""The difference between two versions of a catalogue, each judged in its own process."""
