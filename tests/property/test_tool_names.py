"""Names of tools: a tool is found by its own name however it is written, and never by another one's act."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.names import read
from jazz_select.routing.names.resolution import NameIndex, resolve
from jazz_select.words import ACTING, LOOKING, OPPOSITE, are_opposites, words
from tests.depth import examples
from tests.unit.routing.listed import listed

TOOLS, CASES = read()
INDEX = NameIndex(TOOLS)
NOUNS = ("account", "user_billing_profile_photo", "order", "the_weekly_team_status_report")

pieces = st.sampled_from(
    sorted(
        {word for tool in TOOLS for word in words(tool.name)} | ACTING | LOOKING | {"not", "un", "re", "functions", "s"}
    )
)
names = st.lists(pieces | st.text(max_size=6), max_size=7).flatmap(
    lambda parts: st.sampled_from(["_", ".", "-", " ", ""]).map(lambda joint: joint.join(parts))
)


@given(name=names | st.text() | st.none() | st.integers() | st.floats() | st.binary())
@settings(max_examples=examples(400), deadline=None)
def test_no_name_raises_and_no_guess_destroys(name: object) -> None:
    found = INDEX.resolve(name)
    assert (found.tool is None) == (found.stage is None) == bool(found.error())
    assert set(found.suggestions) <= set(INDEX.names)
    if found.tool is not None and found.stage in {"capability", "substring"}:
        assert not found.tool.destructive
        assert isinstance(name, str)
        asked = set(words(name))
        assert not any(
            are_opposites(one, other) and other not in asked for one in asked for other in words(found.tool.name)
        )


@given(tool=st.sampled_from(TOOLS), data=st.data())
def test_a_tool_is_found_by_its_name_in_any_case_with_any_separators(tool: object, data: st.DataObject) -> None:
    name = str(getattr(tool, "name", ""))
    joint = data.draw(st.sampled_from(["_", ".", "-", ":", "/", " ", "__"]))
    style = data.draw(st.sampled_from([str.lower, str.upper, str.title]))
    asked = style(joint.join(words(name)))
    found = INDEX.resolve(asked)
    if getattr(tool, "destructive", False) and asked != name:
        assert found.tool is None
        assert name in found.suggestions
    else:
        assert found.tool is tool


@given(data=st.data(), order=st.permutations(range(len(TOOLS))))
@settings(max_examples=60, deadline=None)
def test_the_order_of_the_tools_changes_nothing(data: st.DataObject, order: list[int]) -> None:
    case = data.draw(st.sampled_from(CASES))
    mine, other = INDEX.resolve(case.ask), NameIndex([TOOLS[place] for place in order]).resolve(case.ask)
    assert (mine.tool, mine.stage, mine.score) == (other.tool, other.stage, other.score)


@st.composite
def slipped(draw: st.DrawFn, word: str) -> str:
    """The word as it is, or with one letter left out, doubled or swapped."""
    place = draw(st.integers(0, max(0, len(word) - 2)))
    kind = draw(st.sampled_from(["right", "lost", "doubled", "swapped"]))
    if kind == "lost":
        return word[:place] + word[place + 1 :]
    if kind == "doubled":
        return word[:place] + word[place] + word[place:]
    return word[:place] + word[place : place + 2][::-1] + word[place + 2 :] if kind == "swapped" else word


@given(
    pair=st.sampled_from(sorted(tuple(sorted(pair)) for pair in OPPOSITE)),
    turned=st.booleans(),
    noun=st.sampled_from(NOUNS),
    data=st.data(),
)
@settings(max_examples=examples(500), deadline=None)
def test_no_slip_makes_a_word_its_opposite(
    pair: tuple[str, str], *, turned: bool, noun: str, data: st.DataObject
) -> None:
    asked, there = pair[::-1] if turned else pair
    written = data.draw(slipped(asked))
    assume(written != there)
    assert resolve(f"{written}_{noun}", listed(f"{there}_{noun}", "web_search")).tool is None


@given(
    verbs=st.lists(st.sampled_from(sorted(ACTING | LOOKING)), min_size=2, max_size=2, unique=True),
    noun=st.sampled_from(NOUNS),
)
@settings(max_examples=examples(300), deadline=None)
def test_one_verb_is_never_taken_for_another(verbs: list[str], noun: str) -> None:
    asked, there = verbs
    assume(not {asked, there} & {*words(noun)})
    assert resolve(f"{asked}_{noun}", listed(f"{there}_{noun}", "web_search")).tool is None
