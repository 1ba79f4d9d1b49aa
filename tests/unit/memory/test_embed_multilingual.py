"""The embedder of many languages: its files are checked, and requests find flows in another language."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks.followups import own_flows
from benchmarks.index import AGENT
from benchmarks.languages import WRITTEN
from jazz_select.errors import EmbeddingError, MissingExtraError
from jazz_select.memory.embedders import known_embedders, multilingual
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.languages import is_in_another
from jazz_select.testing import check_embedder

INSTALLED = pytest.mark.skipif(find_spec(multilingual.PACKAGE) is None, reason="the extra multilingual is missing")
SPOKEN = ("german", "spanish", "japanese")


@pytest.mark.programs
@INSTALLED
@pytest.mark.spec("006.3")
async def test_requests_in_other_languages_find_their_flows() -> None:
    written = yaml.safe_load(WRITTEN.read_text(encoding="utf-8"))
    embedder = open_embedder("multilingual")
    check_embedder(embedder)
    async with own_flows(embedder, language="none") as memory:
        for language in SPOKEN:
            asked = written[language]["requests"]
            found = await memory.recall_many([said for _, said in asked], AGENT)
            right = sum(result[0]["flow_name"] == flow for result, (flow, _) in zip(found, asked, strict=True))
            assert right >= 0.8 * len(asked), language


@pytest.mark.programs
@INSTALLED
@pytest.mark.spec("006.3")
async def test_by_default_it_reads_what_is_not_in_english_and_nothing_else() -> None:
    written = yaml.safe_load(WRITTEN.read_text(encoding="utf-8"))
    async with own_flows("auto", language="english") as memory:
        first, second = memory.embedder.removeprefix("languages(").rstrip(")").split(", ")
        assert second.startswith("multilingual:")
        for language in (*SPOKEN, "french"):
            asked = written[language]["requests"]
            found = await memory.recall_many([said for _, said in asked], AGENT)
            right = sum(
                flow in [each["flow_name"] for each in result[:5]]
                for result, (flow, _) in zip(found, asked, strict=True)
            )
            assert right >= 0.85 * len(asked), language
        english = await memory.recall("where is my parcel, please?", AGENT)
        assert (english.stage, english.why) == (first.partition(":")[0], "it is in english")
        french = await memory.recall("Bonjour, annulez ma commande de lampe", AGENT)
        assert (french.stage, french.why) == ("multilingual", "it is not in english")
        assert french[0]["flow_name"] == "cancel_order"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where is my parcel", False),
        ("pls cancle odrer", False),
        ("", False),
        ("R-200 / 4711", False),
        ("The café is closed, and I want a refund for the crème brûlée.", False),
        ("annulez ma commande de lampe", True),
        ("Ich möchte mein Abo kündigen.", True),
        ("Quiero dar de baja mi suscripción.", True),
        ("注文をキャンセルしてください", True),
        ("मैं अपनी सदस्यता रद्द करना चाहता हूँ।", True),
    ],
)
def test_a_language_shows_by_its_script_and_little_words(text: str, expected: bool) -> None:
    assert is_in_another(text, "english") is expected


@pytest.mark.programs
@INSTALLED
def test_a_vector_does_not_depend_on_the_texts_beside_it() -> None:
    embedder = open_embedder("multilingual")
    texts = ["Bestellung stornieren", "cancel my order", "", "🙂", "注文をキャンセル", "\ud800 a", "a " * 5_000]
    together = embedder.embed(texts)
    assert [bool(row.any()) for row in together] == [True, True, False, False, True, True, True]
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(embedder.embed_query(text), row, atol=1e-5)


@pytest.mark.spec("006.3")
def test_without_its_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_embedders, "find_spec", _nothing)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[multilingual\]'"):
        open_embedder("multilingual")


@pytest.mark.spec("006.3")
def test_a_file_that_is_not_the_one_it_was_written_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / multilingual.PACKAGE / "resources"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for name in ("weights.npz", "sp.model"):
        (folder / name).write_bytes(b"something else")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, multilingual.PACKAGE, raising=False)
    with pytest.raises(EmbeddingError, match=r"has SHA-256 [0-9a-f]{64}, not 0db566fd"):
        multilingual.MultilingualEmbedder()


def _nothing(_: str) -> None:
    return None
