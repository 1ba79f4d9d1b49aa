"""Files of cases at the other doors: `check` reads what `eval` reads, and says the same of what is wrong with it."""

from pathlib import Path

import pytest

from jazz_select import Flow, FlowRegistry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import Case, Measure, check, evaluate, load_cases
from jazz_select.evaluation.judged import floors_of
from jazz_select.evaluation.tables import markdown
from jazz_select.testing import HashEmbedder

ASKED = [("money back please", "refund"), ("sing me a song", "none"), ("where is it", "gone")]
FORMS = {
    "cases.csv": "request,expect\n" + "".join(f"{request},{name}\n" for request, name in ASKED),
    "cases.tsv": "request\texpect\n" + "".join(f"{request}\t{name}\n" for request, name in ASKED),
    "cases.yaml": "".join(f"- {{request: {request}, expect: {name}}}\n" for request, name in ASKED),
}


@pytest.fixture
def registry() -> FlowRegistry:
    made = FlowRegistry()
    words = ("money back please", "return it", "i want a refund", "give it back", "refund my order")
    Flow(
        name="refund",
        description="Refund an order.",
        condition="The user wants money back.",
        desired_effects=["the money is back"],
        examples=words,
        registry=made,
    )
    return made


@pytest.mark.spec("007.1")
@pytest.mark.parametrize("name", FORMS)
def test_check_reads_every_form(registry: FlowRegistry, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(FORMS[name], "utf-8")
    found = check(registry, cases=str(file), embedder=HashEmbedder())
    assert found.cases == 3
    wanted = {(each.code, each.at.line) for each in found.found if each.at.file.endswith(name)}
    first = 2 if name.endswith(("csv", "tsv")) else 1
    assert wanted == {("leaked-case", first), ("invalid-case", first + 2)}


@pytest.mark.spec("007.1")
def test_what_is_wrong_with_a_case_is_said_as_eval_says_it(registry: FlowRegistry, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text("- {request: money, expect: }\n- {reqest: money, expect: refund}\n", "utf-8")
    told = " ".join(each.what for each in check(registry, cases=[file], embedder=HashEmbedder()).found)
    with pytest.raises(ConfigError, match="expect") as refused:
        load_cases(str(file), registry)
    assert "or none where no flow fits" in told
    assert "Value error" not in f"{told} {refused.value}"
    assert "Field required" not in f"{told} {refused.value}"


@pytest.mark.parametrize("floor", ["", " ", ","])
def test_a_floor_that_is_empty_is_none(floor: str) -> None:
    with pytest.raises(ConfigError, match="a floor is empty"):
        floors_of(["R@1=.5", floor], {"R@1": Measure(value=1.0, cases=1)})


@pytest.mark.parametrize("text", ["ask @octocat", "中@octocat", "é@octocat", "fixes #1", "org/repo#12"])
def test_a_comment_calls_nobody(text: str) -> None:
    shown = markdown(text)
    assert "@o" not in shown
    assert "#1" not in shown


async def test_what_was_found_is_printed_in_a_line(registry: FlowRegistry) -> None:
    found = check(registry, embedder=HashEmbedder())
    assert str(found) == "nothing in 1 flow"
    measured = await evaluate([Case(request="refund it", expect=("refund",))], registry, embedder=HashEmbedder())
    assert str(measured) == "1 case, 1 flow, R@1 100.0%, R@3 100.0%, coverage 100.0%, exact 100.0%"
