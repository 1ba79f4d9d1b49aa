"""The tables of what replicas bring, of what tenants and flows cost, and of a service beside an earlier one."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown

_ASKED = ("selects", "turns")
_TENANTS = ("synced", "simulated")


def cluster_table(found: Sequence[rows.Row]) -> str:
    """Render rate and times at each number of replicas."""
    asked = [row for row in found if row["question"] in _ASKED]
    asked.sort(key=lambda row: (_ASKED.index(row["question"]), row["replicas"]))
    body = [
        (
            row["question"],
            f"{row['replicas']}",
            f"{row['clients']}",
            f"{row['requests']:,}",
            f"{row['failures']}",
            f"{row['rate']:,.0f}",
            f"{row['p50_ms']:.1f}",
            f"{row['p99_ms']:.1f}",
        )
        for row in asked
    ]
    header = ("asked", "replicas", "clients", "requests", "failures", "a second", "p50 ms", "p99 ms")
    return markdown(header, body, words=[0])


def tenants_table(found: Sequence[rows.Row]) -> str:
    """Render what writing, recalls and memory cost as tenants and flows grow."""
    measured = [row for row in found if row["question"] in _TENANTS]
    measured.sort(key=lambda row: (_TENANTS.index(row["question"]), row["tenants"] * row["flows"], row["tenants"]))
    body = [
        (
            f"{row['question']}, {row['index']}",
            f"{row['tenants']:,} × {row['flows']:,}",
            f"{row['written_s']:.1f}",
            f"{row['written_ms_of_a_flow']:.2f}",
            f"{row['first_p50_ms']:.1f} / {row['first_p99_ms']:.1f}",
            f"{row['p50_ms']:.1f} / {row['p99_ms']:.1f}",
            f"{row['foreign']}",
            f"{row['index_mb']:,.0f}",
            f"{row['memory_mb']:,.0f}" if "memory_mb" in row else "–",
            f"{row['disk_mb']:,.0f}" if "disk_mb" in row else "–",
        )
        for row in measured
    ]
    header = (
        "written",
        "tenants × flows",
        "written in s",
        "ms a flow",
        "first recall p50 / p99 ms",
        "again p50 / p99 ms",
        "foreign",
        "index MB",
        "asking process MB",
        "disk MB",
    )
    return markdown(header, body, words=[0])


def beside_table(found: Sequence[rows.Row]) -> str:
    """Render a service of one process beside that of an earlier commit."""
    body = [
        (
            row["question"],
            f"`{row['before']}`",
            f"{row['answers']:,}",
            f"{row['before_ms']['p50']:.2f} / {row['before_ms']['p99']:.2f}",
            f"{row['now_ms']['p50']:.2f} / {row['now_ms']['p99']:.2f}",
            f"{row['ratio']:.3f}",
            f"{row['least_ratio']:.2f} – {row['most_ratio']:.2f}",
        )
        for row in found
    ]
    header = ("asked", "beside", "answers", "then p50 / p99 ms", "now p50 / p99 ms", "now ÷ then", "of the rounds")
    return markdown(header, body, words=[0, 1])
