"""Every benchmark, one after the other, and the tables: `python -m benchmarks --data DIR [--models DIR]`."""

from typing import Annotated

import typer

from benchmarks import (
    confidence,
    episodes,
    intents,
    latency,
    load,
    names,
    peers,
    position,
    recall,
    report,
    routing,
    scale,
    scope,
    turn,
)
from benchmarks.options import DataFolder, ModelsFolder


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean; 0 is for development.")] = "1,2,3",
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All 20,614 single-tool requests of MetaTool, and 100,000 flows.")
    ] = False,
) -> None:
    """Measure everything, store the rows, and make the tables of benchmarks/README.md from them."""
    names.main()
    turn.main()
    routing.main(data)
    latency.main(data)
    load.main()
    scale.main(data, large=everything)
    recall.main(data, models, seeds=seeds, everything=everything)
    peers.main(data, models, seeds=seeds)
    for question in (confidence, scope, intents, episodes):
        question.main(data, models, seeds=seeds)
    position.main(data, seeds=seeds)
    report.main(check=False)


if __name__ == "__main__":
    typer.run(main)
