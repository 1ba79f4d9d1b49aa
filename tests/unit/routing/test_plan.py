"""References, and everything that can be wrong with a plan: told before anything runs."""

from typing import Any

import pytest

from jazz_select.routing.plans.plan import Missing, Plan, PlanStep, look_up, pointer_problem

RFC = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", RFC),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/c%25d", 2),
        ("/e%5Ef", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_pointers_as_the_standard_lists_them(pointer: str, value: object) -> None:
    assert not pointer_problem(pointer)
    assert look_up(RFC, pointer) == value


@pytest.mark.parametrize(
    ("pointer", "problem"),
    [
        ("/bar", "the output has no 'bar'; it has 'foo', '', 'a/b', 'c%d', 'e^f' and 5 more"),
        ("/foo/2", "/foo has 2 items, so none at 2"),
        ("/foo/-", "/foo is a list, and '-' is no place in it"),
        ("/foo/01", "/foo is a list, and '01' is no place in it"),
        ("/foo/" + "9" * 5_000, f"/foo is a list, and '{'9' * 80}…' is no place in it"),
        ("/foo/0/x", "/foo/0 is str, so there is no 'x' in it"),
    ],
)
def test_a_pointer_that_leads_nowhere_says_where_it_ends(pointer: str, problem: str) -> None:
    assert look_up(RFC, pointer) == Missing(problem)


def test_null_is_a_value_and_nothing_is_below_it() -> None:
    assert look_up({"a": None}, "/a") is None
    assert look_up({"a": None}, "/a/b") == Missing("/a is null, so there is no 'b' in it")


def step(own: str = "", **arguments: Any) -> PlanStep:
    return PlanStep(tool="t", id=own, arguments=arguments)


def ref(text: Any) -> dict[str, Any]:
    return {"$ref": text}


@pytest.mark.spec("004.8")
def test_references_are_found_however_deep() -> None:
    plan = Plan.from_steps(
        [
            step("a"),
            step("b"),
            step("c", x=[{"y": ref("a#/items/0/id")}], z=ref("b")),
            step("d", text="a#/items and {{a}} and $ref: a"),
            step("e", x=ref("c#")),
        ]
    )
    assert plan.problems == ()
    assert plan.needs == {"a": (), "b": (), "c": ("a", "b"), "d": (), "e": ("c",)}


def test_ids_are_given_by_place_and_never_twice() -> None:
    plan = Plan.from_steps([step(), step("s1"), step("x"), step("x"), step("has space"), step("s4")])
    assert [each.id for each in plan.steps] == ["s1_", "s1", "x", "s4_", "s5", "s4"]
    assert plan.problems == ()
    assert Plan.from_steps([step(), step(x=ref("s1#/a"))]).needs == {"s1": (), "s2": ("s1",)}


def deep(levels: int) -> Any:
    value: Any = ref("ghost")
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("steps", "problems"),
    [
        pytest.param([step("a", x=ref("b#/y"))], ["a: refers to 'b', which is no step of this plan"], id="unknown"),
        pytest.param([step("a", x=ref("a"))], ["a: refers to its own output"], id="itself"),
        pytest.param(
            [step("a", x=ref("b")), step("b", x=ref("c")), step("c", x=ref("a"))],
            ["steps wait for each other: a → b → c → a"],
            id="a circle",
        ),
        pytest.param(
            [
                step("a", x=ref("b")),
                step("b", x=ref("a")),
                step("c", x=ref("b")),
                step("d", x=ref("e")),
                step("e", x=ref("d")),
            ],
            ["steps wait for each other: a → b → a", "steps wait for each other: d → e → d"],
            id="two circles, and one who waits for a circle",
        ),
        pytest.param(
            [step("a"), step("b", x=ref("a#y"))], ["b: $ref 'a#y': a pointer must begin with '/'"], id="no slash"
        ),
        pytest.param(
            [step("a"), step("b", x=ref("a#/~2"))],
            ["b: $ref 'a#/~2': '~' must be written '~0', and '/' within a name '~1'"],
            id="bad escape",
        ),
        pytest.param(
            [step("a", x=ref("#/y"))], ["a: $ref '#/y' must name a step, as in 's1#/items/0/id'"], id="no step"
        ),
        pytest.param(
            [step("a", x=ref(7))],
            ["a: $ref must be a text such as 's1#/items/0/id', got 7"],
            id="a number for a reference",
        ),
        pytest.param(
            [step("a"), step("b", x={**ref("a"), "or": 1})],
            ["b: an object with $ref 'a' must hold nothing else"],
            id="more beside it",
        ),
        pytest.param(
            [step("a"), step("a"), step("b", x=ref("a"))],
            ["b: refers to 'a', which is the id of two steps"],
            id="two of one id",
        ),
        pytest.param([step("a", x=deep(70))], ["a: the arguments are nested deeper than 64 levels"], id="too deep"),
        pytest.param([step() for _ in range(65)], ["a plan must have at most 64 steps, got 65"], id="too many"),
        pytest.param(
            [step("a", x=ref("ghost"), y=ref("a"), z=ref("#")), step("b", x=ref("b#z"))],
            [
                "a: $ref '#' must name a step, as in 's1#/items/0/id'",
                "a: refers to 'ghost', which is no step of this plan",
                "a: refers to its own output",
                "b: $ref 'b#z': a pointer must begin with '/'",
            ],
            id="everything at once",
        ),
    ],
)
def test_everything_that_is_wrong_is_told(steps: list[PlanStep], problems: list[str]) -> None:
    plan = Plan.from_steps(steps)
    assert list(plan.problems) == problems
    assert plan.error() == {"error": "The plan cannot be run.", "problems": problems}
