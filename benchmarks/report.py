"""The tables of benchmarks/README.md, made from results/*.json: `python -m benchmarks.report`.

`--check` writes nothing and fails where the tables are not those of the results.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import (
    report_bounds,
    report_budget,
    report_cluster,
    report_evidence,
    report_faults,
    report_gateway,
    report_learning,
    report_live_tools,
    report_names,
    report_offered,
    report_people,
    report_prefix,
    report_routing,
    report_serving,
    report_sureness,
    report_tool_search,
    report_turn,
    report_values,
    rows,
)
from benchmarks.metrics import mean
from benchmarks.tables import by, markdown, mean_of, percent

README = Path(__file__).with_name("README.md")
_NOTHING = "No run is stored."


def recall_table(found: Sequence[rows.Row]) -> str:
    """The fused list, averaged over seeds."""
    columns = ("R@1", "R@3", "R@5", "R@10", "MRR", "nDCG@10")
    header = ("data set", "flows", "requests", "embedder", *columns, "COMP@5", "p50 ms", "p99 ms")
    body = [
        (
            dataset,
            str(runs[0]["flows"]),
            f"{runs[0]['requests']:,}",
            embedder,
            *(percent(mean_of(runs, "fused", column)) for column in columns),
            percent(mean_of(runs, "fused", "COMP@5")) if "COMP@5" in runs[0]["fused"] else "",
            f"{mean_of(runs, 'recall_ms', 'p50'):.2f}",
            f"{mean_of(runs, 'recall_ms', 'p99'):.2f}",
        )
        for (dataset, embedder), runs in by(found, "dataset", "embedder")
    ]
    return markdown(header, body, words=(0, 3))


def legs_table(found: Sequence[rows.Row]) -> str:
    """Both legs beside what came of them, R@1 / R@5."""
    header = ("data set", "embedder", "dense", "BM25", "fused", "fused − better leg")
    body: list[tuple[str, ...]] = []
    for (dataset, embedder), runs in by(found, "dataset", "embedder"):
        shares = {leg: [mean_of(runs, leg, column) for column in ("R@1", "R@5")] for leg in ("dense", "bm25", "fused")}
        gain = [
            fused - max(legs) for fused, *legs in zip(shares["fused"], shares["dense"], shares["bm25"], strict=True)
        ]
        body.append(
            (
                dataset,
                embedder,
                *(" / ".join(percent(share) for share in shares[leg]) for leg in ("dense", "bm25", "fused")),
                " / ".join(f"{100 * points:+.1f}" for points in gain),
            )
        )
    return markdown(header, body, words=(0, 1))


def latency_table(found: Sequence[rows.Row]) -> str:
    """Recall beside the bare embedder and engine; one row per run."""
    header = (
        "flows",
        "embedder",
        "recall p50 / p99",
        "embedding p50",
        "engine p50",
        "recall ÷ their sum",
        "select p50",
    )
    body = [
        (
            f"{row['flows']:,}",
            row["embedder"],
            f"{row['recall_ms']['p50']:.3f} / {row['recall_ms']['p99']:.3f}",
            f"{row['embed_ms']['p50']:.3f}",
            f"{row['query_ms']['p50']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['select_ms']['p50']:.3f}",
        )
        for row in found
    ]
    return markdown(header, body, words=(1,))


def start_table(found: Sequence[rows.Row]) -> str:
    """Fresh interpreters."""
    header = ("what", "best", "median")
    body = [
        (name, f"{1000 * row[key]['best']:.0f} ms", f"{1000 * row[key]['median']:.0f} ms")
        for row in found
        for name, key in (("`import jazz_select`", "import_s"), ("first `select`, from starting Python on", "cold_s"))
    ]
    return markdown(header, body, words=(0,))


def peers_table(found: Sequence[rows.Row]) -> str:
    """Every system on the same requests, averaged over seeds; the best share of a data set and embedder in bold."""
    header = ("data set", "embedder", "system", "R@1", "R@3", "R@5", "p50 ms", "p99 ms", "build s")
    body: list[tuple[str, ...]] = []
    for (dataset, embedder), runs in by(found, "dataset", "embedder"):
        systems = by(runs, "system")
        shares = {
            system: [mean_of(its, "shares", column) for column in ("R@1", "R@3", "R@5")] for (system,), its in systems
        }
        best = [max(column) for column in zip(*shares.values(), strict=True)]
        for (system,), its in sorted(systems, key=lambda each: -shares[each[0][0]][0]):
            told = [
                f"**{percent(share)}**" if share == top else percent(share)
                for share, top in zip(shares[system], best, strict=True)
            ]
            times = (f"{mean_of(its, 'ms', share):.2f}" for share in ("p50", "p99"))
            build = mean([row["build_s"] for row in its])
            body.append((dataset, embedder, system, *told, *times, f"{build:.2f}"))
    return markdown(header, body, words=(0, 1, 2))


def load_table(found: Sequence[rows.Row]) -> str:
    """A thousand selections at once, by client and calls in flight; and the stage by itself."""
    header = (
        "client",
        "calls in flight",
        "selections a second",
        "a call, p50 / p99 ms",
        "× the model's",
        "errors",
        "memory MB",
    )
    body = [
        (
            row["client"],
            str(row["in_flight"]),
            str(row["per_s"]),
            f"{row['call_ms']['p50']:.0f} / {row['call_ms']['p99']:.0f}",
            f"{row['call_ms']['p99'] / row['latency_ms']:.1f}",
            str(row["errors"]),
            f"{row['memory_mb']:.0f}",
        )
        for row in sorted(found, key=lambda row: (row["client"], row["in_flight"]))
        if row["question"] == "load"
    ]
    return markdown(header, body, words=(0,))


def stage_table(found: Sequence[rows.Row]) -> str:
    """The second stage without a network."""
    body = [
        (f"{row['select_ms']['p50']:.2f}", f"{row['select_ms']['p99']:.2f}")
        for row in found
        if row["question"] == "alone"
    ]
    return markdown(("p50 ms", "p99 ms"), body, words=())


def provenance(found: Sequence[rows.Row]) -> str:
    """Which commit, machine and files the numbers come from."""
    lines = sorted(
        {
            f"- commit {row['commit']}{' with uncommitted changes' if row['dirty'] else ''}, {row['at'][:10]}, "
            f"{row['cpu']}, {row['cores']} cores, load average {row['load']} at the start, Python {row['python']}, "
            + ", ".join(f"{name} {number}" for name, number in row["packages"].items())
            for row in found
        }
    )
    files = sorted({f"{row.get('dataset', 'clinc150')} `{row['data']}`" for row in found if "data" in row})
    return "\n".join([*lines, *([f"- files read (SHA-256, first 16 digits): {', '.join(files)}"] if files else [])])


TABLES: Mapping[str, tuple[str, Callable[[Sequence[rows.Row]], str]]] = {
    "recall": ("recall", recall_table),
    "legs": ("recall", legs_table),
    "latency": ("latency", latency_table),
    "start": ("latency", start_table),
    "confidence": ("confidence", report_sureness.confidence_table),
    "cascade": ("cascade", report_sureness.cascade_table),
    "budget": ("budget", report_budget.budget_table),
    "budgets": ("budget", report_budget.budgets_table),
    "simulated": ("budget", report_budget.simulated_table),
    "budget-provenance": ("budget", provenance),
    "scope": ("scope", report_sureness.scope_table),
    "bare-tools": ("bare_tools", report_sureness.bare_tools_table),
    "peer-confidence": ("peer_confidence", report_sureness.peer_confidence_table),
    "peer-confidence-provenance": ("peer_confidence", provenance),
    "live-tools": ("live_tools", report_live_tools.live_table),
    "live-tools-provenance": ("live_tools", provenance),
    "sets": ("sets", report_sureness.sets_table),
    "intents": ("intents", report_sureness.intents_table),
    "episodes": ("episodes", report_sureness.episodes_table),
    "followups": ("followups", report_people.followups_table),
    "followups-provenance": ("followups", provenance),
    "languages": ("languages", report_people.languages_table),
    "languages-provenance": ("languages", provenance),
    "offered": ("offered", report_offered.offered_table),
    "offered-provenance": ("offered", provenance),
    "gateway": ("gateway", report_gateway.gateway_table),
    "gateway-provenance": ("gateway", provenance),
    "tool-search": ("tool_search", report_tool_search.tool_search_table),
    "tool-search-provenance": ("tool_search", provenance),
    "serving": ("serving", report_serving.serving_table),
    "serving-load": ("serving", report_serving.serving_load_table),
    "serving-killed": ("serving", report_serving.serving_killed_table),
    "serving-provenance": ("serving", provenance),
    "cluster": ("cluster", report_cluster.cluster_table),
    "tenants": ("cluster", report_cluster.tenants_table),
    "cluster-provenance": ("cluster", provenance),
    "beside": ("beside", report_cluster.beside_table),
    "beside-provenance": ("beside", provenance),
    "learning": ("learning", report_learning.learning_table),
    "learning-provenance": ("learning", provenance),
    "learning-topics": ("learning_topics", report_learning.topics_table),
    "learning-topics-provenance": ("learning_topics", provenance),
    "evidence-aims": ("evidence", report_evidence.aims_table),
    "evidence": ("evidence", report_evidence.evidence_table),
    "evidence-poisoned": ("evidence", report_evidence.poisoned_table),
    "evidence-drifted": ("evidence", report_evidence.drifted_table),
    "evidence-provenance": ("evidence", provenance),
    "log": ("outcomes", report_learning.log_table),
    "log-provenance": ("outcomes", provenance),
    "wire": ("wire", report_offered.wire_table),
    "wire-provenance": ("wire", provenance),
    "scale": ("scale", report_sureness.scale_table),
    "load": ("load", load_table),
    "stage": ("load", stage_table),
    "load-provenance": ("load", provenance),
    "peers": ("peers", peers_table),
    "peers-provenance": ("peers", provenance),
    "names": ("names", report_names.names_table),
    "routing-time": ("routing", report_routing.time_table),
    "routing-narrowing": ("routing", report_routing.narrowing_table),
    "routing-links": ("routing", report_routing.links_table),
    "routing-tokens": ("routing", report_routing.tokens_table),
    "judging-speed": ("judging_speed", report_faults.judging_speed_table),
    "judging-speed-provenance": ("judging_speed", provenance),
    "faults": ("faults", report_faults.faults_table),
    "faults-time": ("faults", report_faults.faults_time_table),
    "faults-provenance": ("faults", provenance),
    "turn": ("turn", report_turn.turn_table),
    "turn-provenance": ("turn", provenance),
    "prefix": ("prefix", report_prefix.prefix_table),
    "prefix-cost": ("prefix", report_prefix.prefix_cost_table),
    "prefix-provenance": ("prefix", provenance),
    "dialects": ("dialects", report_prefix.dialects_table),
    "dialects-provenance": ("dialects", provenance),
    "values": ("values", report_values.values_table),
    "values-provenance": ("values", provenance),
    "bounds": ("bounds", report_bounds.bounds_table),
    "bounds-provenance": ("bounds", provenance),
    "recall-provenance": ("recall", provenance),
    "confidence-provenance": ("confidence", provenance),
    "cascade-provenance": ("cascade", provenance),
    "scope-provenance": ("scope", provenance),
    "bare-tools-provenance": ("bare_tools", provenance),
    "sets-provenance": ("sets", provenance),
    "intents-provenance": ("intents", provenance),
    "episodes-provenance": ("episodes", provenance),
    "scale-provenance": ("scale", provenance),
    "latency-provenance": ("latency", provenance),
    "names-provenance": ("names", provenance),
    "routing-provenance": ("routing", provenance),
}
"""Marker to the question whose rows it shows, and how."""


def filled(text: str, results: Callable[[str], Sequence[rows.Row]] = rows.read) -> str:
    """The text with every marked table made anew.

    Raises:
        ValueError: A marker has no table.
    """

    def table(match: re.Match[str]) -> str:
        marker = match["marker"]
        if marker not in TABLES:
            msg = f"no table is called {marker!r}; there are {', '.join(TABLES)}"
            raise ValueError(msg)
        question, render = TABLES[marker]
        found = results(question)
        return (
            f"<!-- {marker}: made by benchmarks.report -->\n{render(found) if found else _NOTHING}\n<!-- /{marker} -->"
        )

    pattern = r"<!-- (?P<marker>[\w-]+): made by benchmarks\.report -->\n.*?<!-- /(?P=marker) -->"
    return re.sub(pattern, table, text, flags=re.DOTALL)


def main(
    *,
    check: Annotated[bool, typer.Option("--check", help="Fail where the tables are stale; write nothing.")] = False,
) -> None:
    """Make the tables of benchmarks/README.md from the stored results."""
    old = README.read_text(encoding="utf-8")
    new = filled(old)
    if not check:
        README.write_text(new, encoding="utf-8")
    elif new != old:
        typer.echo("benchmarks/README.md does not show the stored results: python -m benchmarks.report", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
