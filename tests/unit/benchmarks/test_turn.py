"""What a turn costs, and how it is told."""

from benchmarks import report_turn, turn


async def test_every_way_is_timed_as_often() -> None:
    took = await turn.times({name: make() for name, make in turn.WAYS.items()}, 10)
    assert {name: len(each) for name, each in took.items()} == dict.fromkeys(turn.WAYS, 10)
    assert all(second > 0 for each in took.values() for second in each)


def test_the_cheapest_stands_first_in_the_table() -> None:
    rows = [turn.row_of("slow", [0.001, 0.003]), turn.row_of("quick", [0.000_001])]
    quick, slow = report_turn.turn_table(rows).splitlines()[2:]
    assert quick == "| quick | 5 | 1 | 1.0 | 1.0 | 0.2 |"
    assert slow == "| slow | 5 | 2 | 2,000.0 | 2,980.0 | 400.0 |"
