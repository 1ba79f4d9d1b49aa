"""Programs that make files which the package holds."""
