from benchmarks import house


def test_the_page_shows_the_house_as_it_is() -> None:
    page = house.PAGE.read_text("utf-8")
    shown = page.partition(house.BEGIN)[2].partition(house.END)[0]
    assert shown == house.block(), "run python -m benchmarks.house"


def test_an_arrow_that_a_longer_way_says_is_left_out() -> None:
    edges = house.parts()
    assert "values" in edges["selector"]
    assert "    selector --> values\n" not in house.mermaid()
    assert "    selector --> chat\n" in house.mermaid()
