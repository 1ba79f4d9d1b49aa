"""Readers of public benchmark files, exactly as their authors publish them."""
