"""Files that are there whole or not at all."""

import sys
from pathlib import Path
from threading import Thread

import pytest

from jazz_select.errors import ConfigError, UnreadableFileError
from jazz_select.evaluation.whole_files import write_readable, write_whole


def test_what_is_written_is_there_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "kept.json"
    write_whole(file, b"one")
    write_whole(file, b"two\r\n\x00")
    assert file.read_bytes() == b"two\r\n\x00"
    assert list(file.parent.iterdir()) == [file]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "full").touch()
    with pytest.raises(OSError, match="kept"):
        write_whole(tmp_path / "kept", b"one")
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


@pytest.mark.skipif(sys.platform == "win32", reason="who may read a file is said otherwise there")
def test_what_is_private_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "mine", b"", private=True)
    write_whole(tmp_path / "ours", b"")
    (tmp_path / "made").touch()
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "made").stat().st_mode


def test_of_many_that_write_at_once_one_is_there(tmp_path: Path) -> None:
    file, texts = tmp_path / "kept", [bytes([65 + each]) * 100_000 for each in range(8)]
    writers = [Thread(target=write_whole, args=(file, each)) for each in texts]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert file.read_bytes() in texts
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.spec("013.5")
def test_what_its_reader_refuses_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "kept.yaml"

    def read(path: Path) -> None:
        if path.read_bytes() != b"good":
            raise ConfigError(f"{path} holds more than 4 letters")

    write_readable(file, b"good", read, advice="write less")
    with pytest.raises(UnreadableFileError) as raised:
        write_readable(file, b"too much", read, advice="write less")
    assert str(raised.value) == (
        f"{file} was left as it is, since it could not be read again: it holds more than 4 letters; write less"
    )
    assert (raised.value.file, raised.value.advice) == (str(file), "write less")
    assert file.read_bytes() == b"good"
    assert list(tmp_path.iterdir()) == [file]
