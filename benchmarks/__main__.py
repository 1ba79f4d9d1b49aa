"""Every benchmark, one after the other, and the tables: `python -m benchmarks --data DIR [--models DIR]`."""

from typing import Annotated

import typer

from benchmarks import (
    bare_tools,
    bounds,
    budget,
    cascade,
    confidence,
    episodes,
    evidence,
    faults,
    followups,
    gateway,
    intents,
    judging_speed,
    languages,
    latency,
    learning,
    live_tools,
    load,
    names,
    offered,
    peer_confidence,
    peers,
    prefix,
    recall,
    report,
    routing,
    scale,
    scope,
    serving,
    sets,
    tool_search,
    turn,
    wire,
)
from benchmarks.options import DataFolder, ModelsFolder, Unclean


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean; 0 is for development.")] = "1,2,3",
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All 20,614 single-tool requests of MetaTool, and 100,000 flows.")
    ] = False,
    unclean: Unclean = False,
) -> None:
    """Measure everything, store the rows, and make the tables of benchmarks/README.md from them."""
    names.main(unclean=unclean)
    turn.main(unclean=unclean)
    bounds.main(unclean=unclean)
    serving.main(unclean=unclean)
    prefix.main(unclean=unclean)
    routing.main(data, unclean=unclean)
    latency.main(data, unclean=unclean)
    load.main(unclean=unclean)
    scale.main(data, large=everything, unclean=unclean)
    recall.main(data, models, seeds=seeds, everything=everything, unclean=unclean)
    peers.main(data, models, seeds=seeds, unclean=unclean)
    peer_confidence.main(data, seeds=seeds, unclean=unclean)
    for question in (confidence, scope, sets, intents, episodes, followups):
        question.main(data, models, seeds=seeds, unclean=unclean)
    bare_tools.main(data, seeds=seeds, unclean=unclean)
    live_tools.main(data, unclean=unclean)
    languages.main(unclean=unclean)
    cascade.main(data, seeds=seeds, unclean=unclean)
    budget.main(data, seeds=seeds, unclean=unclean)
    offered.main(data, seeds=seeds, unclean=unclean)
    learning.main(data, seeds=seeds, unclean=unclean)
    evidence.main(data, seeds=seeds, unclean=unclean)
    wire.main(data, unclean=unclean)
    gateway.main(data, unclean=unclean)
    tool_search.main(data, unclean=unclean)
    judging_speed.main(data, unclean=unclean)
    faults.main(data, seeds=seeds, unclean=unclean)
    if not unclean:
        report.main(check=False)


if __name__ == "__main__":
    typer.run(main)
