"""How well flows are found: measures, thresholds, floors under them, and reports of all that."""
