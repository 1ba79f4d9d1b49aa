"""What a log of outcomes teaches: examples behind a gate, and drift."""
