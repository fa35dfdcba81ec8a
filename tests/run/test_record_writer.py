"""Appending to the leg's file, and the folder that a record goes into."""

from __future__ import annotations

from pathlib import Path

import pytest

from ciguard.codec.record.lines import decode
from ciguard.errors import InputError
from ciguard.model import EventLine
from ciguard.run.record_writer import LEG_FILE, RecordWriter, new_folder


def test_new_or_empty_folder_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "deep/er", "empty"):
        assert new_folder(str(tmp_path / name)) == str(tmp_path / name)
        assert [path.name for path in (tmp_path / name).iterdir()] == [LEG_FILE]


def test_nonempty_folder_is_rejected_unchanged(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is not empty: it holds other\.txt"):
        new_folder(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


def test_lines_are_complete_and_in_order(tmp_path: Path) -> None:
    record = RecordWriter(str(tmp_path / "lines"))
    lines = [EventLine("memory_low", 1.0, detail="x\ny\ud800"), EventLine("signal", 2.0)]
    for line in lines:
        record.append(line)
        record.sync(0.0)
    record.close()
    assert [decode(line) for line in (tmp_path / "lines").read_bytes().splitlines()] == lines
    assert record.dropped == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
def test_lines_dropped_on_a_full_disk_are_counted() -> None:
    record = RecordWriter("/dev/full")
    record.append(EventLine("memory_low"))
    record.append(EventLine("signal"))
    assert (record.dropped, record.problem) == (2, "No space left on device")
    record.close()


def test_partially_written_line_is_removed(tmp_path: Path) -> None:
    """A limit on the file's size cuts a write in two, as a disk that fills up does."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    record = RecordWriter(str(tmp_path / "lines"))
    record.append(EventLine("memory_low"))
    size = (tmp_path / "lines").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
        record.append(EventLine("signal"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    record.append(EventLine("paused"))
    record.close()
    found = [decode(line) for line in (tmp_path / "lines").read_bytes().splitlines()]
    assert found == [EventLine("memory_low"), EventLine("paused")]
    assert record.dropped == 1
