"""The comment for a pull request: within what GitHub takes, and nothing in it acts."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.evaluation import Difference, Gates, Probe, Routed, SideState, Source, comment
from jazz_select.evaluation.changes.markdown_comment import MARKER
from jazz_select.evaluation.route import Query

FLOWS = {name: {"name": name, "description": name} for name in ("a", "b")}
HOSTILE = "| <script>alert(1)</script> [x](javascript:y) @everyone `code` <!-- --> \n# heading\r\u202e\x1b[31m"


def moved(requests: list[str], *, source: Source = Source.CASE) -> Difference:
    expect = ("a",) if source is Source.CASE else None
    asked = [Probe(asked=Query(request=each), source=source, expect=expect) for each in requests]
    older = {each.key: Routed(request="", ranking=("a",), offered=1) for each in asked}
    newer = {each.key: Routed(request="", ranking=("b",), offered=1) for each in asked}
    base = SideState(label="main", flows=FLOWS, routes=older, notes=(HOSTILE,))
    return Difference.between(
        base, SideState(label="`head`", flows=FLOWS, routes=newer), asked, Gates(max_broken_cases=0)
    )


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)


@pytest.mark.spec("007.3")
def test_it_says_what_counts_first_and_folds_the_rest() -> None:
    text = comment(moved([f"request {number}" for number in range(50)]))
    assert text.startswith(f"{MARKER}\n### jazz-select diff: 50 of 50 requests have another first candidate")
    assert text.index("max\\_broken\\_cases") < text.index("| before |") < text.index("| request 0 |")
    assert "<details><summary>30 more</summary>" in text
    assert "1 pair of flows confused more often" in text
    assert "`main` → `'head'`" in text


@pytest.mark.spec("007.3")
@pytest.mark.parametrize("count", [0, 1, 21, 3_000])
def test_it_fits_whatever_there_is_to_tell(count: int) -> None:
    text = comment(moved([f"{number} {HOSTILE * 20}" for number in range(count)]))
    assert len(text) <= 65_000
    assert text.count("<details>") == text.count("</details>")
    if count == 3_000:
        assert "more, which there is no room for here" in text


@given(st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip())))
def test_no_text_becomes_markup(text: str) -> None:
    made = comment(moved([text, HOSTILE + text]))
    tags = Tags()
    tags.feed(made)
    assert tags.seen <= {"details", "summary"}
    assert "@everyone" not in made
    table = [line for line in made.splitlines() if line.startswith("| ") and "case" in line]
    assert all(line.endswith(" |") for line in table)
