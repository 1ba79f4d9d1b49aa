"""`jazz-select graph`."""

import sys

from jazz_select.cli import wire
from jazz_select.cli.session import look_here, require_folder
from jazz_select.cli.terminal import emit, hint
from jazz_select.routing.analyze import ChainAnalyzer
from jazz_select.routing.loading import load_tools

_DEFAULT = "flows"


def run(source: str | None, *, min_compatibility: float, as_json: bool) -> None:
    """Print which tool can follow which; in the folder `flows` where no source is given.

    Raises:
        ConfigError: None is, and there is no such folder.
    """
    if source is None:
        source = _DEFAULT
        require_folder(source, advice="name a folder, package or file with TOOLS, as docs/tools.md describes")
    look_here()
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
