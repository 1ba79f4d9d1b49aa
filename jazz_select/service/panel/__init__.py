"""The panel in the browser: try a request, talk to the agent, look at the catalogue, judge it, correct it."""
