"""Reading what another program appends: whole lines, each once, however they are cut."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.lines import MAX_LINE_BYTES
from ciguard.run.process.tail import CHUNK_BYTES, Tail


@given(st.lists(st.binary(max_size=30)), st.data())
def test_tail_gives_the_same_lines_for_any_chunking(
    pieces: list[bytes], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        tail = Tail(str(path))
        assert list(tail.lines()) == []
        found: list[bytes] = []
        with path.open("wb", buffering=0) as stream:
            for piece in pieces:
                stream.write(piece)
                if data.draw(st.booleans()):
                    found += tail.lines()
        found += tail.lines()
        tail.close()
        assert found == path.read_bytes().split(b"\n")[:-1]
        assert tail.lines_read == len(found)


def test_line_over_the_limit_is_yielded_empty(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n" + b"x" * (MAX_LINE_BYTES + CHUNK_BYTES + 1) + b"\nb\n")
    tail = Tail(str(path))
    assert list(tail.lines()) == [b"a", b"", b"b"]
    assert tail.lines_read == 3
    tail.close()
