"""`jazz-select`: sync flows into an index, route requests, measure; on typer and rich."""

from jazz_select.cli.main import app

__all__ = ["app"]
