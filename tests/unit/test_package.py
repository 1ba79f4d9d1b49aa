"""What `make package` holds a wheel and an sdist against: all files of the package, and no others."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.package_check import ROOT, check_contents

FILES = sorted(
    each.relative_to(ROOT).as_posix()
    for each in (ROOT / "jazz_select").rglob("*")
    if each.is_file() and each.suffix != ".pyc"
)


def archives(folder: Path, in_wheel: list[str], in_sdist: list[str]) -> tuple[Path, Path]:
    wheel, sdist = folder / "a.whl", folder / "a.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*in_wheel, "jazz_select-0.1.0.dist-info/METADATA"]:
            archive.writestr(name, "")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in in_sdist:
            archive.addfile(tarfile.TarInfo(f"jazz_select-0.1.0/{name}"))
    return wheel, sdist


@pytest.mark.spec("020.7")
def test_a_whole_wheel_and_a_whole_sdist_pass(tmp_path: Path) -> None:
    check_contents(*archives(tmp_path, FILES, [*FILES, "README.md"]))


@pytest.mark.spec("020.7")
@pytest.mark.parametrize(
    ("in_wheel", "in_sdist", "problem"),
    [
        pytest.param(FILES[1:], FILES, "the wheel differs", id="a file is missing in the wheel"),
        pytest.param([*FILES, "tests/x.py"], FILES, "tests/x.py", id="a test is in the wheel"),
        pytest.param(FILES, FILES[:-1], "the sdist lacks", id="a file is missing in the sdist"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, in_wheel: list[str], in_sdist: list[str], problem: str) -> None:
    with pytest.raises(SystemExit, match=problem):
        check_contents(*archives(tmp_path, in_wheel, in_sdist))
