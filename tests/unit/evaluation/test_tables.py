"""Tables of results: escaped, bounded, and a data frame where there is pandas."""

import sys
from html.parser import HTMLParser
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.errors import ConfigError
from jazz_select.evaluation.tables import MOST_ROWS, dataframe, html_table, markdown, markdown_table


class _Read(HTMLParser):
    """What a browser would make of it: the tags, and the text of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


@given(st.text(max_size=40))
def test_no_text_becomes_html(text: str) -> None:
    read = _Read()
    read.feed(html_table(["request"], [(text,), (f"<script>{text}</script>",)]))
    assert read.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert len(read.cells) == 2
    assert read.cells[1].startswith("<script>")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        pytest.param(None, "<td>–</td>", id="unknown"),
        pytest.param(0.25, '<td style="text-align:right">0.250</td>', id="share"),
        pytest.param(12_000, '<td style="text-align:right">12,000</td>', id="count"),
        pytest.param(True, "<td>yes</td>", id="yes"),
        pytest.param(("a", "b"), "<td>a, b</td>", id="names"),
        pytest.param("a\n\x1b[31mb", r"<td>a \u001b[31mb</td>", id="what a terminal would obey"),
    ],
)
def test_a_cell_shows_its_value(value: object, cell: str) -> None:
    assert cell in html_table(["x"], [(value,)], "what <it> shows")
    assert "<caption>what &lt;it&gt; shows</caption>" in html_table(["x"], [(value,)], "what <it> shows")


def test_a_long_table_says_how_much_was_left_out() -> None:
    rows = [(number,) for number in range(MOST_ROWS + 7)]
    assert "… and 7 more rows" in html_table(["n"], rows)
    assert markdown_table(["n"], rows).endswith("\n… and 7 more rows\n")
    assert len(html_table(["n"], [("x" * 10_000_000,)])) < 1_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("pay_bill | refund", r"pay\_bill \| refund", id="a bar opens no column"),
        pytest.param("<img src=x>", r"&lt;img src=x\>", id="no HTML"),
        pytest.param("[click](http://x)", r"\[click\](http\://x)", id="no link"),
        pytest.param("two\nlines", "two lines", id="one line"),
        pytest.param("see www.x.org or -- this (1)", r"see www\.x.org or -- this (1)", id="nothing more than that"),
        pytest.param("# title", r"\# title", id="no title"),
        pytest.param("12. items", r"12\. items", id="no list"),
        pytest.param("@team", "@\u2060team", id="nobody is called"),
    ],
)
def test_markdown_shows_a_text_as_it_is(text: str, shown: str) -> None:
    assert markdown(text) == shown


def test_a_table_in_markdown() -> None:
    table = markdown_table(["flow", "R@1"], [("a", 0.5), ("b", None)])
    assert table.splitlines() == [r"| flow | R@1 |", "|---|---:|", "| a | 0.500 |", "| b | – |"]


@pytest.mark.skipif(find_spec("pandas") is not None, reason="pandas is installed")
def test_without_pandas_the_error_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match="pip install pandas"):
        dataframe([{"a": 1}])


def test_rows_reach_pandas_in_the_order_of_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("pandas") is None:  # one that keeps what it is given stands in its place
        code = ("class DataFrame:", "    def __init__(self, rows, columns):", "        self.columns = columns")
        (tmp_path / "pandas.py").write_text("\n".join(code), encoding="utf-8")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        invalidate_caches()
    try:
        assert list(dataframe([{"a": 1, "b": 2}]).columns) == ["a", "b"]
        assert list(dataframe([], ["x", "y"]).columns) == ["x", "y"]
    finally:
        if str(tmp_path) in str(getattr(sys.modules.get("pandas"), "__file__", "")):
            del sys.modules["pandas"]
