"""Folders of records as another program unpacked what a pull request uploaded: never green."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ciguard
from guard.fixtures import World

from ciguard.codec.record import reader
from ciguard.codec.record.reader import read_records
from ciguard.errors import InputError
from ciguard.guard.prove import check_unread_files, prove
from ciguard.guard.verdict import Verdict
from ciguard.guard.wording import finding_message
from ciguard.sources import local
from ciguard.sources.local import read_inputs, read_tree


def prove_folder(folder: Path, world: World) -> Verdict:
    found = read_inputs(folder, "records", ())
    unread = tuple(check_unread_files(found.problems))
    return prove(world.plan, found.records, extra_findings=unread)


def deep(folder: Path) -> None:
    """1,100 folders in each other, which a recursive walk would fall over."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder called like a file": (
        lambda folder: (folder / "process-009.jsonl").mkdir(),
        "process-009.jsonl: a folder that is called like a file",
    ),
    "a link to a file": (
        lambda folder: (folder / "process-009.jsonl").symlink_to("/etc/passwd"),
        "process-009.jsonl: a link",
    ),
    "a link to nothing": (
        lambda folder: (folder / "process-009.jsonl").symlink_to("gone"),
        "process-009.jsonl: a link",
    ),
    "a link to a folder": (lambda folder: (folder / "more").symlink_to("/etc"), "more: a link"),
    "a link to itself": (lambda folder: (folder / "loop").symlink_to("."), "loop: a link"),
    "a pipe": (lambda folder: os.mkfifo(folder / "process-009.jsonl"), "no file"),
    "a sparse file": (
        lambda folder: os.truncate(os.open(folder / "p.jsonl", os.O_CREAT | os.O_WRONLY), 1 << 40),
        "p.jsonl: 1,099,511,627,776 bytes, 256 MiB are allowed",
    ),
}
DAMAGED: dict[str, bytes] = {
    "UTF-16": '{"type":"result","unit":"a","outcome":"failed"}\n'.encode("utf-16"),
    "bad UTF-8": b'{"type":"result","unit":"\xff\xfe","outcome":"failed"}\n',
    "an empty file": b"",
    "zeros": bytes(4096),
    "a huge line": b'{"type":"result","unit":"' + b"x" * (2 << 20) + b'","outcome":"failed"}\n',
    "deep JSON": b'{"type":' + b"[" * 200_000 + b"\n",
    "deep objects": b'{"type":"x","y":' + b'{"a":' * 50_000 + b"\n",
    "too large a number": b'{"type":"result","unit":"a","outcome":"failed","wall_s":1e400}\n',
    "no number": b'{"type":"result","unit":"a","outcome":"failed","wall_s":NaN}\n',
    "minus infinity": b'{"type":"result","unit":"a","outcome":"failed","cpu_s":-Infinity}\n',
    "a negative size": b'{"type":"result","unit":"a","outcome":"failed","peak_bytes":-1}\n',
    "a long integer": b'{"type":"end","at_s":' + b"9" * 10_000 + b"}\n",
    "another type": b'{"type":"result","unit":["a"],"outcome":"failed"}\n',
    "no object": b"[1, 2, 3]\n",
    "a cut line": b'{"type":"result","unit":"a","outc',
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World()
    world.write(tmp_path)
    assert prove_folder(tmp_path, world).state == "passed"
    return world


@pytest.mark.parametrize("name", REFUSED)
def test_file_that_is_no_record_is_rejected_and_reported(
    tmp_path: Path, world: World, name: str
) -> None:
    make, output = REFUSED[name]
    make(tmp_path / "records" / "record-02-1")
    verdict = prove_folder(tmp_path, world)
    assert (verdict.state, verdict.exit_code) == ("incomplete", 13)
    (finding,) = verdict.findings
    assert finding.kind == "unread_file"
    assert output in finding_message(finding)
    assert verdict.with_result == verdict.planned  # the others are judged all the same
    with pytest.raises(InputError, match="record-02-1/"):
        local.read_record_tree(tmp_path / "records")


@pytest.mark.parametrize("name", DAMAGED)
def test_unreadable_record_file_is_damage(tmp_path: Path, world: World, name: str) -> None:
    (tmp_path / "records" / "record-02-1" / "process-009.jsonl").write_bytes(DAMAGED[name])
    verdict = prove_folder(tmp_path, world)
    assert verdict.exit_code == 13
    assert any("process-009.jsonl" in finding_message(one) for one in verdict.findings)


@pytest.mark.parametrize("name", ["Supervisor.jsonl", "PROCESS-001.JSONL", "ﬁle.jsonl"])
def test_file_names_that_differ_by_case_are_both_read(
    tmp_path: Path, world: World, name: str
) -> None:
    """What the second says is read as well: a failure is not hidden by a name."""
    folder = tmp_path / "records" / "record-02-1"
    (folder / name.replace("JSONL", "jsonl")).write_bytes(
        b'{"type":"result","unit":"c.t::four","outcome":"failed","process":1}\n'
    )
    assert prove_folder(tmp_path, world).exit_code in (10, 13)


def test_deeply_nested_folders_cause_no_error(tmp_path: Path, world: World) -> None:
    try:
        deep(tmp_path / "records")
        verdict = prove_folder(tmp_path, world)
    finally:  # Python's own way to remove them falls over
        subprocess.run(["rm", "-rf", tmp_path / "records" / "d"], check=True)
    assert verdict.state == "passed"


def test_file_names_with_any_bytes_are_escaped(
    tmp_path: Path, world: World, ciguard: Ciguard
) -> None:
    name = os.fsdecode(b"\xff\xfe\x1b[2J\n::error::x.jsonl")
    (tmp_path / "records" / "record-02-1" / name).symlink_to("/etc/passwd")
    done = ciguard(
        *("guard", "--plan", "plan.json", "--records", "records"), cwd=tmp_path, expect=13
    )
    assert "a link; it was not read" in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout
    assert "\n::error" not in done.stdout


def test_findings_for_rejected_files_are_limited(tmp_path: Path, world: World) -> None:
    for number in range(50):
        (tmp_path / "records" / f"{number:02}.jsonl").symlink_to("/etc/passwd")
    verdict = prove_folder(tmp_path, world)
    assert len(verdict.findings) == 21
    assert finding_message(verdict.findings[-1]) == "30 more files or artifacts were not read"


@pytest.mark.parametrize(
    ("limit", "output"),
    [
        (("MAX_FILE_BYTES", 1 << 20), "big.jsonl: 2,097,152 bytes, 1 MiB are allowed"),
        (("MAX_RECORD_BYTES", 1 << 20), "big.jsonl: records of more than 1 MiB in all"),
        (("MAX_RECORD_FILES", 6), "record-03-1/supervisor.jsonl: more than 6 files in all"),
        (("MAX_ENTRIES", 5), "more than 5 files and folders: not all was read"),
    ],
)
def test_each_record_size_limit_is_enforced(
    tmp_path: Path,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    limit: tuple[str, int],
    output: str,
) -> None:
    (tmp_path / "records" / "big.jsonl").write_bytes((b" " * 1023 + b"\n") * (1 << 11))
    monkeypatch.setattr(local, *limit)
    _, problems = read_tree(tmp_path / "records")
    assert problems == (output,)
    assert prove_folder(tmp_path, world).exit_code == 13


def test_number_of_record_lines_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_LINES", 10)
    (record,) = read_records([("a.jsonl", b"\n" * 8), ("b.jsonl", b"\n" * 8), ("c.jsonl", b"\n")])
    assert record.damage == (
        "b.jsonl:3: the records have more than 10 lines",
        "c.jsonl:1: the records have more than 10 lines",
    )


def test_blank_lines_take_no_memory() -> None:
    import tracemalloc  # noqa: PLC0415  # no other test measures

    content = b"\n" * (1 << 16)
    tracemalloc.start()
    read_records([("a.jsonl", content)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 18  # a list of them has 1 << 19
