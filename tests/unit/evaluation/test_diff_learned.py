"""A comparison of what a deployment has: with what was learned, and with an index whose prompts cannot be counted."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from jazz_select import ProceduralMemory
from jazz_select.build import load_registry, sync_registry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import Difference, Gates, diff
from tests.unit.evaluation.repository import FLOWS, Repository, repository
from tests.vectors import EMBEDDER

pytestmark = pytest.mark.programs

TEXT = "do the thing with the stuff"
"""Without what was learned it would be a refund."""
LEARNED = {
    "live": 1,
    "versions": [
        {"number": 1, "at": "2026-01-01", "examples": {"track": {TEXT: ""}, "not_there": {"x": ""}}},
        {"number": 2, "at": "2026-01-02", "examples": {"invoice": {TEXT: ""}}},
    ],
}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = repository(tmp_path / "repo")
    (made.folder / "learned.yaml").write_text(yaml.safe_dump(LEARNED), "utf-8")
    return made


async def between(repo: Repository, base: str = "HEAD", **options: Any) -> Difference:
    return await diff(base, ".", embedder=EMBEDDER, here=repo.folder, **options)


@pytest.mark.spec("007.3")
async def test_files_are_judged_with_what_was_learned(repo: Repository) -> None:
    repo.write({**FLOWS, "invoice": [*FLOWS["invoice"], "is it on its way"]})
    file = repo.folder / "cases.yaml"
    file.write_text(yaml.safe_dump([{"request": TEXT, "expect": ["track"]}]), "utf-8")
    without = await between(repo, cases=file)
    for cases in (file, str(file), [str(file)], [file]):
        assert (await between(repo, cases=cases)).after.labelled == 1, "cases may be the name of a file"
    found = await between(repo, requests=[TEXT], learned=Path("learned.yaml"))
    assert found.after.requests == without.after.requests, "what was learned is an example: asked before, and asked now"
    assert [note for note in found.notes if "not_there" in note] == [
        "1 learned examples are for 'not_there', and there is no such flow"
    ]
    assert found.flows.changed == {"invoice": ("examples",)}
    again = await between(repo, requests=[TEXT], learned=Path("learned.yaml"))
    assert again.to_dict() | {"took_s": 0} == found.to_dict() | {"took_s": 0}
    (repo.folder / "learned.yaml").write_text(yaml.safe_dump(LEARNED | {"live": 2}), "utf-8")
    other = await between(repo, requests=[TEXT], learned=Path("learned.yaml"))
    assert not any("not_there" in note for note in other.notes), "another version is not what is in the cache"
    with pytest.raises(ConfigError, match="nothing_learned"):
        await between(repo, learned=Path("nothing_learned.yaml"))


@pytest.mark.spec("007.3")
async def test_an_index_that_was_synced_with_it_is_the_same(repo: Repository) -> None:
    async with await ProceduralMemory.open(repo.folder / "live", embedder=EMBEDDER) as memory:
        registry = load_registry(repo.folder / "flows")
        await sync_registry(memory, "support", registry, learned=repo.folder / "learned.yaml")
    requests = [TEXT, "and my parcel", "a bill, please"]
    gates = Gates(max_extra_tokens=0)
    found = await between(repo, "index:live", requests=requests, learned=Path("learned.yaml"), gates=gates)
    assert (found.changes, found.flows.any) == ((), False)
    assert (found.before.counted, found.after.counted) == (0, 3), "an index has no examples to show"
    assert (found.failures, any("max_extra_tokens is not looked at" in note for note in found.notes)) == ((), True)
    told = {each.request for each in (await between(repo, "index:live", requests=requests)).changes}
    assert TEXT in told, "without it the next sync would unlearn"
