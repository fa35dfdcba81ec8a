"""Archives from anybody: the honest are read, the hostile refused with a word, none harms."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from contextlib import suppress

import pytest
from codec.hostile_zips import HOSTILE, LINE, made
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.archive import members
from ciguard.codec.unpack_limits import ArchiveLimits
from ciguard.errors import InputError


def read(content: bytes, limits: ArchiveLimits | None = None) -> list[tuple[str, bytes]]:
    return list(members(io.BytesIO(content), "record-1", limits or ArchiveLimits()))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_valid_archive_is_read_in_order(method: int) -> None:
    entries = [
        ("supervisor.jsonl", LINE * 1000),
        ("01/process-001.jsonl", b""),
        ("01/results/process-001/reports/a [b].xml", b"<testsuite/>"),
        ("ünïcödé.jsonl", LINE),
        ("SUPERVISOR.jsonl", LINE),  # another file, where cases count and where nothing is written
    ]
    assert read(made(*entries, method=method)) == entries


def test_flipped_bit_in_the_directory_loses_no_member_silently() -> None:
    """In the list of contents and its end record; elsewhere each member has a checksum."""
    content = made(*((f"record/process-{number:03d}.jsonl", LINE) for number in range(6)))
    begin = content.index(b"PK\x01\x02")
    counts = set()
    for bit in range(8 * begin, 8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with suppress(InputError):
            counts.add(len(read(bytes(damaged))))
    assert counts == {6}


def test_folders_and_unwanted_members_are_skipped() -> None:
    content = made(("a/", b""), ("a/b.jsonl", LINE), ("a/core.dump", b"x"))
    wanted = members(io.BytesIO(content), "r", is_wanted=lambda name: name.endswith(".jsonl"))
    assert list(wanted) == [("a/b.jsonl", LINE)]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_rejected_as_a_whole(name: str) -> None:
    content, output = HOSTILE[name]
    with pytest.raises(InputError) as reported:
        read(content)
    assert output in reported.value.what
    assert reported.value.where.startswith("record-1")
    assert all(line.isprintable() for line in str(reported.value).splitlines())


@pytest.mark.parametrize(
    ("limits", "output"),
    [
        (ArchiveLimits(members=2), "3 members, 2 are allowed"),
        (ArchiveLimits(member_bytes=100), "300 bytes, 0 MiB are allowed"),
        (ArchiveLimits(bytes=700), "more than 0 MiB unpacked"),
    ],
)
def test_each_archive_limit_is_enforced(limits: ArchiveLimits, output: str) -> None:
    line = b"x" * 300
    content = made(("a", line), ("b", line * 2), ("c", line))
    assert len(read(content)) == 3
    with pytest.raises(InputError, match=output):
        read(content, limits)


def test_small_file_with_high_compression_ratio_is_accepted() -> None:
    assert read(made(("a.jsonl", bytes(1 << 20)))) == [("a.jsonl", bytes(1 << 20))]


@pytest.mark.parametrize("name", ["bomb", "long contents", "lying size"])
def test_a_bomb_takes_no_memory(name: str) -> None:
    content = HOSTILE[name][0]
    stream = io.BytesIO(content)
    tracemalloc.start()
    with pytest.raises(InputError):
        list(members(stream, "r"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


VALID = made(("supervisor.jsonl", LINE * 50), ("results/process-001/a.xml", b"<testsuite/>" * 30))


@settings(deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=8
    ),
    cut=st.integers(0, len(VALID)),
)
def test_damaged_archive_is_rejected_or_reads_the_same(
    changes: list[tuple[int, int]], cut: int
) -> None:
    content = bytearray(VALID)
    for place, value in changes:
        content[place] = value
    for damaged in (bytes(content), bytes(content[:cut])):
        try:
            found = read(damaged)
        except InputError:
            continue
        # A name or time that differs is no damage; what is inside is vouched for by its sum.
        assert [body for _, body in found] == [body for _, body in read(VALID)][: len(found)]
