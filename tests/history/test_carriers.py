from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from history.gits import ids, one

from ciguard.errors import InputError
from ciguard.history.carriers import load, open_carrier, update
from ciguard.history.file_carrier import FileCarrier

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_kept_and_changed_only_if_it_is_what_was_read(tmp_path: Path) -> None:
    carrier = open_carrier("deep/h.ciguard", tmp_path, {})
    assert isinstance(carrier, FileCarrier)
    assert not load(carrier).found
    assert update(carrier, one(1)).changed
    seen = carrier.read()
    update(carrier, one(2))
    assert not carrier.write(b"mine", seen)
    assert ids(load(carrier).history) == [1, 2]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["h.ciguard"]


def test_a_file_s_name_may_have_a_colon(tmp_path: Path) -> None:
    update(open_carrier("odd:name", tmp_path, {}), one(1))
    assert (tmp_path / "odd:name").is_file()
    with pytest.raises(InputError, match="no place"):
        open_carrier("", tmp_path, {}).read()


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not made read-only by a mode")
def test_a_place_that_cannot_be_looked_at_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        FileCarrier("a" * 5000, tmp_path, {}).read()


def test_a_folder_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    carrier = open_carrier("taken/h.ciguard", tmp_path, {})
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(InputError, match="cannot be written"):
        update(carrier, one(1))
