"""The command line on a catalogue and an index of the test's own."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from pydantic import TypeAdapter
from typer.testing import CliRunner, Result

from jazz_select.cli import app
from jazz_select.settings import Settings
from tests.unit.chat.protocols import CHAT
from tests.unit.cli.shop import REFUND, TRACK, write_flows
from tests.vectors import EMBEDDER


@dataclass(frozen=True)
class Jazz:
    """Runs `jazz-select` with the folder's index and flows, unless the arguments say otherwise."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    program: typer.Typer = app

    @property
    def flows(self) -> Path:
        return self.folder / "flows"

    @property
    def index(self) -> Path:
        return self.folder / "index"

    def __call__(self, *args: str, stdin: str = "", code: int = 0, **env: str | None) -> Result:
        return self._run(args, env, stdin=stdin, code=code)

    def _run(self, args: Sequence[str], env: Mapping[str, str | None], *, stdin: str = "", code: int = 0) -> Result:
        base = {"JAZZ_INDEX": str(self.index), "JAZZ_FLOWS": str(self.flows), "COLUMNS": "80"}
        result = CliRunner().invoke(self.program, list(args), input=stdin, env={**base, **self.env, **env})
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def json(self, shape: type, *args: str, **env: str | None) -> Any:
        """The document that the command prints, after it was checked against its shape."""
        result = self._run([*args, "--json"], env)
        assert result.stderr == ""
        TypeAdapter[Any](shape).validate_json(result.stdout, strict=True, extra="forbid")
        return orjson.loads(result.stdout)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in [f"JAZZ_{name.upper()}" for name in Settings.model_fields] + ["FORCE_COLOR", "GITHUB_ACTIONS"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])  # commands add the working directory


@pytest.fixture(scope="module")
def configured() -> dict[str, str]:
    """What the environment says besides: an embedder that opens quickly, but where a module is about defaults."""
    return {"JAZZ_EMBEDDER": EMBEDDER}


@pytest.fixture
def jazz(tmp_path: Path, configured: dict[str, str]) -> Jazz:
    """Nothing is synced yet."""
    write_flows(tmp_path / "flows", REFUND, TRACK)
    return Jazz(tmp_path, configured)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, configured: dict[str, str]) -> Jazz:
    """Synced, for tests that only read."""
    folder = tmp_path_factory.mktemp("shop")
    write_flows(folder / "flows", REFUND, TRACK)
    jazz = Jazz(folder, configured)
    jazz("sync")
    return jazz


MODEL_STRING = CHAT.model
"""For `--llm`, with the fixture `provider`."""
