"""Tables of results: escaped, bounded, and a data frame where there is pandas."""

import sys
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import pytest

from jazz_select.errors import ConfigError
from jazz_select.evaluation.tables import MOST_ROWS, dataframe, markdown, markdown_table


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        pytest.param(None, "–", id="unknown"),
        pytest.param(0.25, "0.250", id="share"),
        pytest.param(12_000, "12,000", id="count"),
        pytest.param(True, "yes", id="yes"),
        pytest.param(("a", "b"), "a, b", id="names"),
        pytest.param("a\n\x1b[31mb", r"a \\u001b\[31mb", id="what a terminal would obey"),
    ],
)
def test_a_cell_shows_its_value(value: object, cell: str) -> None:
    assert markdown_table(["x"], [(value,)]).endswith(f"| {cell} |\n")


def test_a_long_table_says_how_much_was_left_out() -> None:
    rows = [(number,) for number in range(MOST_ROWS + 7)]
    assert markdown_table(["n"], rows).endswith("\n… and 7 more rows\n")
    assert len(markdown_table(["n"], [("x" * 10_000_000,)])) < 1_000


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
