"""The table of values as people write them, from the stored rows."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import by, markdown, percent


def values_table(found: Sequence[rows.Row]) -> str:
    """One line for each language: what the rules before and the readers after them make of the same expressions."""
    header = (
        *("language", "expressions", "read before", "after", "false before", "after"),
        *("proposed before", "after", "ms p50 before", "after", "p99 before", "after"),
    )
    body: list[Sequence[str]] = []
    for (language,), its in sorted(by(found, "language"), key=lambda entry: (entry[0][0] != "all", entry[0][0])):
        readers = {row["reader"]: row for row in its}
        before, after = readers["before"], readers["after"]
        body.append(
            (
                language,
                f"{after['expressions']:,}",
                f"{percent(before['read'] / before['give'])} %",
                f"{percent(after['read'] / after['give'])} %",
                f"{before['false']:,}",
                f"{after['false']:,}",
                f"{before['proposed']} of {before['propose']}",
                f"{after['proposed']} of {after['propose']}",
                f"{before['ms_p50']:.2f}",
                f"{after['ms_p50']:.2f}",
                f"{before['ms_p99']:.2f}",
                f"{after['ms_p99']:.2f}",
            )
        )
    return markdown(header, body, words=(0,))
