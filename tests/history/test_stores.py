from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from history.git_servers import ids, one

from ciguard.errors import InputError
from ciguard.history.file_store import FileStore
from ciguard.history.stores import load, open_store, update

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_kept_and_changed_only_if_it_is_what_was_read(tmp_path: Path) -> None:
    store = open_store("deep/h.ciguard", tmp_path, {})
    assert isinstance(store, FileStore)
    assert not load(store).exists
    assert update(store, one(1)).changed
    seen = store.read()
    update(store, one(2))
    assert not store.write(b"mine", seen)
    assert ids(load(store).history) == [1, 2]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["h.ciguard"]


def test_a_file_s_name_may_have_a_colon(tmp_path: Path) -> None:
    update(open_store("odd:name", tmp_path, {}), one(1))
    assert (tmp_path / "odd:name").is_file()
    with pytest.raises(InputError, match="no place"):
        open_store("", tmp_path, {}).read()


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not made read-only by a mode")
def test_a_place_that_cannot_be_looked_at_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        FileStore("a" * 5000, tmp_path, {}).read()


def test_a_folder_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    store = open_store("taken/h.ciguard", tmp_path, {})
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(InputError, match="cannot be written"):
        update(store, one(1))
