"""Numbers, amounts, days, times, durations and flags as people write them, in seven languages; every word counts."""
