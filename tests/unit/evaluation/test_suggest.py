"""`suggest`: from a log, from a model that may write anything, and from the catalogue's own words."""

from importlib.util import find_spec

import orjson
import pytest
import yaml

from jazz_select import Flow, FlowRegistry
from jazz_select.errors import ConfigError, ModelError
from jazz_select.evaluation import Basis, Case, Suggestions, Target, suggest
from jazz_select.flow.base import BaseFlow
from jazz_select.outcomes import Logged, Source
from jazz_select.testing import HashEmbedder, ScriptedModel

SUBJECTS = {
    "weather": "rain snow sun wind cloud storm",
    "banking": "loan account interest transfer deposit mortgage",
    "cooking": "recipe oven flour butter soup boil",
    "travel": "flight hotel airport luggage visa passport",
    "health": "doctor fever cough medicine pain hospital",
    "music": "song guitar album concert melody drums",
    "sports": "football goal tennis match league referee",
}


@pytest.fixture
def registry() -> FlowRegistry:
    """Seven flows that have nothing in common, one of them with one example too few."""
    registry = FlowRegistry(min_examples=0)
    for name, words in SUBJECTS.items():
        said = words.split()
        examples = [f"{one} and {other}" for one in said[:3] for other in said[3:]]
        Flow(
            name=name,
            description=f"Everything about {name}.",
            condition=f"They mean {' or '.join(said)}.",
            examples=examples[:2] if name == "cooking" else examples,
            registry=registry,
        )
    return registry


def texts(found: Suggestions, flow: str, part: str = "example") -> list[str]:
    return [each.text for each in found.for_part(flow, part)]


def said(request: str, right: str, first: str = "") -> Logged:
    """What a person said was right."""
    found = (first,) if first else ()
    return Logged(
        id=request, at=0.0, request=request, candidates=found, right=(right,), corrected_by=Source(kind="user")
    )


def chosen(request: str, flow: str, sure: float, *others: str) -> Logged:
    """What was chosen, the others before it, and nobody spoke of."""
    found, chances = (*others, flow), (*(None for _ in others), sure)
    return Logged(id=request, at=0.0, request=request, chosen=(flow,), candidates=found, confidences=chances)


LOG = [
    said("boil the butter in the oven", "cooking"),
    said("Boil the butter in the oven!", "cooking"),
    chosen("a recipe for soup with flour", "cooking", 0.9),
    chosen("soup", "cooking", 0.5),
    chosen("guitar and drums at a concert", "cooking", 0.95, "music"),
    said("recipe and butter", "cooking"),
    said("flour from the oven", "cooking"),
    said("TODO", "cooking"),
    said("x" * 400, "cooking"),
    said("what an album", "music"),
    said("oven and flour recipe for an album", "music", first="cooking"),
    said("nobody's", "gone"),
]


@pytest.mark.spec("007.4")
async def test_a_log_gives_examples_and_negatives(registry: FlowRegistry) -> None:
    cases = [Case(request="Flour, from the oven", expect=("cooking",))]
    found = await suggest(registry, LOG, cases=cases, embedder=HashEmbedder())
    assert set(found.wanting) == {"cooking"}
    assert sorted(texts(found, "cooking")) in (
        ["Boil the butter in the oven!", "a recipe for soup with flour"],
        ["a recipe for soup with flour", "boil the butter in the oven"],
    )
    (negative,) = found.for_part("cooking", Target.NEGATIVE)
    assert (negative.text, negative.other, negative.source) == (
        "oven and flour recipe for an album",
        "music",
        Basis.LOG,
    )
    assert found.dropped["not sure whose it is"] == 2
    assert found.dropped["an example already"] == 1
    assert found.dropped["a case"] == 1
    assert found.dropped["no request"] == 1
    assert found.dropped["too long"] == 1
    assert all(each.source is Basis.LOG and each.why for each in found.suggested)


WRITTEN = [
    "butter for the oven, quickly",
    "Recipe and butter!",
    "guitar and drums at the concert",
    "lorem ipsum dolor",
    "flour in the oven",
    "...",
    "soup " * 100,
    "a recipe \u202e with \x1b[31m soup",
]


@pytest.mark.spec("007.4")
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(orjson.dumps({"examples": [*WRITTEN, 3, None, ["x"]]}).decode(), id="as asked"),
        pytest.param(f"Sure!\n```json\n{orjson.dumps(WRITTEN).decode()}\n```", id="a list in a fence"),
        pytest.param(f"<think>[1]</think>{orjson.dumps({'examples': WRITTEN}).decode()}", id="after a thought"),
    ],
)
async def test_what_a_model_writes_is_filtered(registry: FlowRegistry, reply: str) -> None:
    before = [flow.compute_checksum() for flow in registry.values()]
    model = ScriptedModel(reply)
    cases = [Case(request="Flour in the oven?", expect=("cooking",))]
    found = await suggest(registry, model=model, cases=cases, embedder=HashEmbedder())
    kept = texts(found, "cooking")
    assert "butter for the oven, quickly" in kept
    assert not {"Recipe and butter!", "guitar and drums at the concert", "lorem ipsum dolor", "..."} & set(kept)
    assert "flour in the oven" not in kept
    assert all(len(text) <= 300 and "\u202e" not in text and "\x1b" not in text for text in kept)
    assert found.dropped["nearer to another flow"] >= 1
    assert [flow.compute_checksum() for flow in registry.values()] == before
    (call,) = model.calls
    assert "follow no instruction" in call[0].content
    assert orjson.loads(call[1].content)["procedure"]["name"] == "cooking"


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        pytest.param(ModelError("m", "busy", retryable=False), "busy", id="it fails"),
        pytest.param(ValueError("no"), "ValueError: no", id="it raises what it likes"),
        pytest.param("I would rather not.", "", id="it writes no JSON"),
        pytest.param("[" * 50_000, "", id="it writes brackets"),
        pytest.param('{"examples": {"a": 1}}', "", id="another shape"),
    ],
)
async def test_a_model_that_fails_is_a_note_and_no_end(registry: FlowRegistry, reply: object, note: str) -> None:
    model = ScriptedModel(reply, repeat=True)  # pyright: ignore[reportArgumentType]
    found = await suggest(registry, LOG[:1], model=model, embedder=HashEmbedder())
    assert texts(found, "cooking") == ["boil the butter in the oven"]
    assert all(note in each for each in found.notes)
    assert bool(found.notes) is bool(note)


async def test_without_a_log_and_a_model_it_is_said_who_would_write(registry: FlowRegistry) -> None:
    found = await suggest(registry, (), embedder=HashEmbedder())
    assert found.wanting
    assert "name one with --llm" in found.notes[-1]
    assert (await suggest(registry, LOG[:1], embedder=HashEmbedder())).notes == ()


def twins() -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    for name, other in (("refund", "They want money."), ("exchange", "They want another thing.")):
        examples = [f"{name} {word}" for word in ("lamp", "chair", "table", "rug", "sofa")]
        Flow(name=name, description=f"To {name}.", condition=other, examples=examples, registry=registry)
    Flow(
        name="again",
        description="To refund again.",
        condition="They want money.",
        examples=["x y"] * 1,
        registry=registry,
    )
    return registry


@pytest.mark.spec("007.4")
async def test_flows_that_collide_get_conditions_from_what_they_say() -> None:
    registry = twins()
    found = await suggest(registry, embedder=HashEmbedder())
    assert {"refund", "again"} <= set(found.wanting)
    assert found.for_part("refund", Target.CONDITION) == ()  # one text twice: nothing in it tells them apart
    written = ScriptedModel(
        '{"first": "They never had it before.", "second": "They had it once already."}', repeat=True
    )
    found = await suggest(registry, model=written, embedder=HashEmbedder())
    assert texts(found, "refund", "condition") == ["They never had it before."]
    assert texts(found, "again", "condition") == ["They had it once already."]
    assert found.for_part("again", Target.CONDITION)[0].other == "refund"


async def test_flows_can_be_named(registry: FlowRegistry) -> None:
    found = await suggest(registry, [said("melody of a song", "music")], flows=["music"], embedder=HashEmbedder())
    assert set(found.wanting) == {"music"}
    assert texts(found, "music") == ["melody of a song"]
    with pytest.raises(ConfigError, match="did you mean 'music'"):
        await suggest(registry, flows=["musik"], embedder=HashEmbedder())
    with pytest.raises(ConfigError, match="1 or more"):
        await suggest(registry, most=0, embedder=HashEmbedder())


async def test_no_more_than_asked_for_are_suggested_and_they_are_unlike(registry: FlowRegistry) -> None:
    log = [said(f"{one} {other} {number}", "cooking") for number, (one, other) in enumerate(PAIRS)]
    found = await suggest(registry, log, most=3, embedder=HashEmbedder())
    assert len(texts(found, "cooking")) == 3


PAIRS = [(one, other) for one in ("recipe", "oven", "flour") for other in ("butter", "soup", "boil", "bake")]


async def test_the_file_is_read_back_as_it_was_and_is_no_file_of_flows(registry: FlowRegistry) -> None:
    evil = "cheese: [butter] #\n- name: x 'oven' \u202e"
    found = await suggest(registry, [said(evil, "cooking")], embedder=HashEmbedder())
    text = found.to_yaml()
    assert "\u202e" not in text
    told = yaml.safe_load(text)["suggestions"]["cooking"]
    assert told["examples"][0]["source"] == "log"
    assert "cheese: [butter]" in told["examples"][0]["text"]
    assert yaml.safe_load(Suggestions().to_yaml()) == {"suggestions": {}}
    assert orjson.dumps(found.to_dict())
    assert "\u202e" not in found._repr_html_()  # pyright: ignore[reportPrivateUsage] - what a notebook calls


async def test_a_flow_without_its_part_does_not_stop_the_others(registry: FlowRegistry) -> None:
    from jazz_select import SequentialFlow

    SequentialFlow(name="whole", description="All.", examples=["a b"], flows=["nowhere"], registry=registry)
    found = await suggest(registry, LOG[:1], embedder=HashEmbedder())
    assert texts(found, "cooking") == ["boil the butter in the oven"]
    assert isinstance(registry.by_name("whole"), BaseFlow)


@pytest.mark.spec("007.4")
async def test_without_a_model_a_condition_excludes_the_neighbour_by_its_own_words(registry: FlowRegistry) -> None:
    vague = registry.by_name("music")
    assert vague is not None
    vague.condition = "The user asks about music"
    found = await suggest(registry, embedder=HashEmbedder())
    (drawn,) = found.for_part("music", Target.CONDITION)
    assert drawn.source is Basis.CATALOGUE
    assert drawn.text.startswith(f"The user asks about music. Not this but {drawn.other} where: they mean ")


@pytest.mark.spec("007.4")
async def test_what_a_team_accepts_is_no_reason_to_suggest_anything() -> None:
    registry = twins()
    told = await suggest(registry, embedder=HashEmbedder())
    accepted = await suggest(registry, embedder=HashEmbedder(), ignore=["thin-examples", "same-condition:again,refund"])
    assert any("no more than" in why or "condition" in why for why in told.wanting["again"])
    assert len(accepted.wanting.get("again", ())) < len(told.wanting["again"])


async def test_suggestions_as_a_table(registry: FlowRegistry) -> None:
    found = await suggest(registry, LOG, embedder=HashEmbedder())
    if find_spec("pandas") is None:
        with pytest.raises(ConfigError, match="pandas"):
            found.to_dataframe()
        return
    table = found.to_dataframe()
    assert list(table.columns) == ["flow", "part", "text", "source", "why", "other", "evidence"]
    assert table.to_dict("records") == found.to_dict()["suggestions"]
