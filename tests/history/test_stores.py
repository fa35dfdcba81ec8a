from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Ciguard
from history.git_servers import ids, one

from ciguard.errors import InputError
from ciguard.history.stores import FileStore, load, open_store, open_writable_store, update


def test_file_is_replaced_only_if_unchanged_since_read(tmp_path: Path) -> None:
    store = open_store("deep/h.ciguard", tmp_path, {})
    assert isinstance(store, FileStore)
    assert not load(store).exists
    assert update(store, one(1)).changed
    seen = store.read()
    update(store, one(2))
    assert not store.write(b"mine", seen)
    assert ids(load(store).history) == [1, 2]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["h.ciguard"]


def test_file_name_may_contain_a_colon(tmp_path: Path) -> None:
    update(open_writable_store("odd:name", tmp_path, {}), one(1))
    assert (tmp_path / "odd:name").is_file()
    with pytest.raises(InputError, match="no place"):
        open_store("", tmp_path, {}).read()


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not made read-only by a mode")
def test_unreadable_path_is_an_error_not_an_empty_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        FileStore("a" * 5000, tmp_path, {}).read()


def test_unwritable_store_is_an_input_error(tmp_path: Path) -> None:
    store = open_writable_store("taken/h.ciguard", tmp_path, {})
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(InputError, match="cannot be written"):
        update(store, one(1))


def test_history_of_a_service_is_read_only(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "durations.json").write_text('{"a": 1}')
    address = "https://user:secret@ciguard.example/api/v1/repos/o/r/history"
    words = ("history", "add", "durations.json", "--run-id", "1", "--history", address)
    done = ciguard(*words, cwd=tmp_path, expect=2)
    assert "https://ciguard.example/api/v1/repos/o/r/history: the history of a service" in (
        done.stderr
    )
    assert "secret" not in done.stderr
