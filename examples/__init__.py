"""Whole programs on jazz_select, to read and to take from."""
