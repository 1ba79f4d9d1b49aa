"""What a sync learns of a catalogue from its own examples."""
