"""What a change of a catalogue moves: two sides, each judged in a process of its own, and their difference."""
