"""The tables of what prompts have in common with those before them, from the stored rows."""

from collections.abc import Sequence
from typing import Final

from benchmarks import rows
from benchmarks.tables import by, markdown, percent

ALL: Final = "all"
CALLED: Final = {
    "read": "reading the message",
    "decide": "choosing between tools",
    "call": "going on with a flow",
    "talk": "answering where no flow fits",
}
PRICES: Final = ((0.5, "a half"), (0.25, "a quarter"), (0.1, "a tenth"))
"""What a token from a cache may cost of one that is read anew."""


def prefix_table(found: Sequence[rows.Row]) -> str:
    """One line for each kind of prompt, made afresh and grown: what it has in common with the turn before."""
    header = ("conversations", "prompt", "narrowing", "prompts", "tokens, mean", "in common", "not in common, mean")
    kinds = [row for row in found if row["kind"] != ALL]
    body = [
        (
            source,
            CALLED.get(kind, kind),
            row["narrowing"],
            f"{row['prompts']:,}",
            f"{row['tokens'] / row['prompts']:,.0f}",
            f"{percent(row['prefix'] / row['tokens'])} %",
            f"{(row['tokens'] - row['prefix']) / row['prompts']:,.0f}",
        )
        for (source, kind), its in sorted(by(kinds, "source", "kind"), key=_most_asked)
        for row in sorted(its, key=lambda row: row["narrowing"])
    ]
    return markdown(header, body, words=(0, 1, 2))


def prefix_cost_table(found: Sequence[rows.Row]) -> str:
    """All prompts of all conversations: what a cache serves of them, and what that comes to by its price."""
    costs = (f"costs at {name}" for _, name in PRICES)
    header = ("conversations", "narrowing", "of them", "prompts", "tokens, mean", "in common", "from the cache", *costs)
    body = [
        (
            row["source"],
            row["narrowing"],
            f"{row['conversations']:,}",
            f"{row['prompts']:,}",
            f"{row['tokens'] / row['prompts']:,.0f}",
            f"{percent(row['prefix'] / row['tokens'])} %",
            f"{percent(row['served'] / row['tokens'])} %",
            *(f"{cost(row, price):,.0f}" for price, _ in PRICES),
        )
        for row in sorted(found, key=lambda row: (row["source"] != "desk", row["source"], row["narrowing"]))
        if row["kind"] == ALL
    ]
    return markdown(header, body, words=(0, 1))


def dialects_table(found: Sequence[rows.Row]) -> str:
    """One line for each kind of prompt, form of calls and way to make prompts."""
    header = ("prompt", "calls of tools", "narrowing", "prompts", "tokens, mean", "in common")
    body = [
        (
            CALLED.get(kind, kind),
            row["form"],
            row["narrowing"],
            f"{row['calls']:,}",
            f"{row['tokens'] / row['calls']:,.0f}",
            f"{percent(row['prefix'])} %",
        )
        for (kind,), its in sorted(by(found, "kind"), key=lambda group: -group[1][0]["calls"])
        for row in sorted(its, key=lambda row: (row["narrowing"], row["form"]))
    ]
    return markdown(header, body, words=(0, 1, 2))


def cost(row: rows.Row, price: float) -> float:
    """What a prompt costs on average, in tokens that are read anew, where one from the cache costs so much of one."""
    return (row["tokens"] - (1 - price) * row["served"]) / row["prompts"]


def _most_asked(group: tuple[tuple[str, ...], list[rows.Row]]) -> tuple[bool, int]:
    (source, _), its = group
    return source != "desk", -its[0]["prompts"]
