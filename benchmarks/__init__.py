"""Measurements of jazz_select on public data. One module per question; results/ holds one row per run."""
