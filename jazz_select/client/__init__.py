"""The client of `jazz-select serve`: what a selector and an agent do, asked of another process."""
