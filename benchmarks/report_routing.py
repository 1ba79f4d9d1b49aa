"""The tables of what can follow what, from the stored rows."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown, percent


def _part(found: Sequence[rows.Row], part: str) -> list[rows.Row]:
    chosen = [row for row in found if row["part"] == part]
    return sorted(chosen, key=lambda row: (row["dataset"], row["points_of"]))


def time_table(found: Sequence[rows.Row]) -> str:
    """One line per catalogue."""
    header = (
        *("catalogue", "tools", "index", "one point, fresh index p50 / p99", "used index p50 / p99", "all pairs"),
        *("pairs checked", "differing"),
    )
    body = [
        (
            row["dataset"],
            f"{row['tools']:,}",
            f"{row['index_ms']:.1f} ms",
            *(f"{row[key]['p50']:.3f} / {row[key]['p99']:.3f} ms" for key in ("first_ms", "again_ms")),
            "" if row["graph_ms"] is None else f"{row['graph_ms']:.0f} ms",
            *(f"{row['checked'][key]:,}" for key in ("pairs", "differing")),
        )
        for row in sorted(_part(found, "time"), key=lambda row: row["tools"])
    ]
    return markdown(header, body, words=(0,))


def narrowing_table(found: Sequence[rows.Row]) -> str:
    """One line per question and method; the shares of right tools where the file has them."""
    header = (
        *("catalogue", "what is there", "method", "points", "pairs ≥ .5 / = 1, %", "left p50 / p90 / most", "none, %"),
        *("right one left", "among 10", "first", "left at 1", "one left", "and right"),
        *("lost", "of these require nothing"),
    )
    body: list[tuple[str, ...]] = []
    for row in _part(found, "narrowing"):
        gold = row["with_gold"]
        shares = [percent(row[key] / gold) if gold else "" for key in ("gold", "first_10", "first", "gold_sure")]
        body.append(
            (
                row["dataset"],
                row["points_of"],
                row["method"],
                f"{row['points']:,}",
                f"{100 * row['share']:.2f} / {100 * row['share_sure']:.2f}",
                f"{row['p50']:.0f} / {row['p90']:.0f} / {row['most']}",
                percent(row["none"] / row["points"]),
                *shares,
                f"{row['single']}",
                *((f"{row['single_right']}", f"{gold - row['gold']}", f"{row['lost_free']}") if gold else ("", "", "")),
            )
        )
    return markdown(header, body, words=(0, 1, 2))


def tokens_table(found: Sequence[rows.Row]) -> str:
    """What is sent, for what remains and for everything."""
    header = (
        *("catalogue", "what is there", "points", "asked, %", "prompt p50 / p90", "all tools", "a point, mean"),
        *("as JSON p50 / p90", "all tools as JSON"),
    )
    body = [
        (
            row["dataset"],
            row["points_of"],
            f"{row['points']:,}",
            percent(row["asked"] / row["points"]),
            f"{row['prompt']['p50']:,.0f} / {row['prompt']['p90']:,.0f}",
            f"{row['whole']:,}",
            f"{row['mean']:,}",
            f"{row['prompt_in_full']['p50']:,.0f} / {row['prompt_in_full']['p90']:,.0f}",
            f"{row['whole_in_full']:,}",
        )
        for row in _part(found, "tokens")
    ]
    return markdown(header, body, words=(0, 1))


def links_table(found: Sequence[rows.Row]) -> str:
    """Arguments that are outputs of earlier calls."""
    header = ("catalogue", "such arguments", "output of the same name", "same but for case and separators", "type fits")
    body = [
        (row["dataset"], *(str(row[key]) for key in ("links", "one_name", "alike", "fit")))
        for row in _part(found, "links")
    ]
    return markdown(header, body, words=(0,))
