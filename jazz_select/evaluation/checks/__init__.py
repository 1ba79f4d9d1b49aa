"""What is wrong with a catalogue, and what would mend it."""
