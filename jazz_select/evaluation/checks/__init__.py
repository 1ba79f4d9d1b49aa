"""The problems of a catalogue, and suggestions against them."""
