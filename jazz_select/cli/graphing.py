"""`jazz-select graph`."""

import sys
from pathlib import Path

from jazz_select.cli import wire
from jazz_select.cli.terminal import emit, hint
from jazz_select.routing.analyze import ChainAnalyzer
from jazz_select.routing.loading import load_tools


def run(source: str, *, min_compatibility: float, as_json: bool) -> None:
    """Print which tool can follow which."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    analyzer = ChainAnalyzer(load_tools(source).values())
    graph = wire.Graph.of(analyzer, source=source, min_compatibility=min_compatibility)
    if as_json:
        emit(graph)
    else:
        sys.stdout.write(analyzer.mermaid(min_compatibility=min_compatibility))
    counts = f"{len(graph.tools)} tools, {len(graph.edges)} of {len(graph.tools) * (len(graph.tools) - 1)} pairs fit"
    hint(counts)
    if graph.unreachable:
        hint(f"no other tool gives what these want: {', '.join(graph.unreachable[:20])}")
    for names in graph.collisions:
        hint(f"these differ in case and separators alone: {', '.join(names)}")
