"""JSON Schemas of other people: their fields, whether one fits another, and whether a value is valid."""
