"""`ciguard compare BASE.log HEAD.log`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ciguard.compare.command import FORMATS

if TYPE_CHECKING:
    from conftest import Ciguard, Golden

SAMPLES: Final = Path(__file__).parent.parent / "samples" / "logs"
SUFFIX: Final = {"text": "txt", "markdown": "md", "json": "json"}


def write(folder: Path, base: str, head: str) -> None:
    (folder / "base.log").write_text(base, encoding="utf-8")
    (folder / "head.txt").write_text(head, encoding="utf-8")


@pytest.mark.parametrize("format_", SUFFIX)
def test_two_logs_in_every_format(
    ciguard: Ciguard, golden: Golden, tmp_path: Path, format_: str
) -> None:
    for name in ("base.log", "head.log"):
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
    done = ciguard("compare", "base.log", "head.log", "--format", format_, cwd=tmp_path)
    golden(done.stdout, SAMPLES / f"comparison.{SUFFIX[format_]}")
    if format_ == "text":
        assert max(map(len, done.stdout.splitlines())) <= 80
    assert {*FORMATS} == {*SUFFIX, "html"}


def test_the_page_is_written(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, "bytes_in_use: 5\n", "bytes_in_use: 4\n")
    done = ciguard(
        "compare", "base.log", "head.txt", "--format", "html", "-o", "out.html", cwd=tmp_path
    )
    assert done.stdout == "BETTER: values: 1 better\n"
    assert "5 B" in (tmp_path / "out.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("head", "words", "code"),
    [
        ("bytes_in_use: 4\n", (), 0),
        ("bytes_in_use: 4", (), 0),
        ("bytes_in_use: 4", ("--fail-on", "incomplete"), 13),
        ("", ("--strict",), 12),
        ("bytes_in_use: 4\npanic: test timed out after 1m0s\n", ("--fail-on", "timeout"), 10),
    ],
)
def test_exit_codes(
    ciguard: Ciguard, tmp_path: Path, head: str, words: tuple[str, ...], code: int
) -> None:
    write(tmp_path, "bytes_in_use: 5\n", head)
    done = ciguard("compare", "base.log", "head.txt", *words, cwd=tmp_path, expect=code)
    assert done.stdout.startswith("BETTER") == (head == "bytes_in_use: 4\n")


def test_json_has_the_difference_and_the_lines(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, "\nbytes_in_use: 5\n", "bytes_in_use: 4\n")
    done = ciguard("compare", "base.log", "head.txt", "--format", "json", cwd=tmp_path)
    (one,) = json.loads(done.stdout)["pairs"]
    assert (one["difference"], one["ratio"], one["verdict"]) == (-1, -0.2, "better")
    assert [one["pair"][side]["place"]["line"] for side in ("before", "after")] == [2, 1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("base.log", "nothing.log"), 3, "HEAD: nothing.log: not found"),
        (("nothing.log", "base.log"), 3, "BASE: nothing.log: not found"),
        (("base.log", "123"), 2, "base.log is a text log, and 123 is none"),
        (("base.log", "record.txt"), 2, "base.log is a text log, and record.txt is none"),
        (("base.log", "head.txt", "--results", "*.xml"), 2, "not used for logs"),
        (("base.log", "head.txt", "--history", "x"), 2, "not used for logs"),
    ],
)
def test_what_is_no_log_is_refused(
    ciguard: Ciguard, tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    write(tmp_path, "bytes_in_use: 5\n", "bytes_in_use: 4\n")
    (tmp_path / "record.txt").write_text('{"type": "shard"}\n', encoding="utf-8")
    done = ciguard("compare", *words, cwd=tmp_path, expect=code)
    assert message in done.stderr


def test_other_findings_are_not_known_of_logs(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, "bytes_in_use: 5\n", "bytes_in_use: 4\n")
    done = ciguard("compare", "base.log", "head.txt", "--fail-on", "memory,oom", cwd=tmp_path)
    assert done.stderr == "warning: --fail-on memory: not known of logs\n"


def archive(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_values_of_an_archive_are_paired_within_job_and_step(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    line = "bytes_in_use: {}\n"
    archive(
        tmp_path / "base",
        {
            "0_build.txt": line.format(1),
            "1_tests (1).txt": line.format(5) + line.format(7),
            "tests (1)/2_Run a.txt": line.format(5),
            "tests (1)/10_Run b.txt": line.format(7),
            "tests (1)/system.txt": line.format(9),
        },
    )
    archive(
        tmp_path / "head",
        {
            "4_tests (1).txt": "",
            "tests (1)/3_Run b.txt": line.format(6),
            "tests (1)/4_Run a.txt": line.format(5),
            "tests (1)/5_Post.txt": "",
            "5_build.txt": line.format(1),
        },
    )
    done = ciguard("compare", "base", "head", "--format", "json", cwd=tmp_path)
    answer = json.loads(done.stdout)
    places = [one["pair"]["after"]["place"] for one in answer["pairs"]]
    assert [(one["job"], one["step"], one["line"]) for one in places] == [
        ("build", "", 1), ("tests (1)", "Run a", 1), ("tests (1)", "Run b", 1)
    ]  # fmt: skip
    assert [one["verdict"] for one in answer["pairs"]] == ["same", "same", "better"]
    assert answer["state"] == "better"


def test_a_folder_of_other_files_is_no_archive(ciguard: Ciguard, tmp_path: Path) -> None:
    archive(tmp_path, {"base/notes.txt": "x", "head/notes.txt": "x"})
    done = ciguard("compare", "base", "head", cwd=tmp_path, expect=3)
    assert "no record and no result file is there" in done.stderr


ROW: Final = """
[metrics.pool_hits]
pattern = 'pool (?P<pool>\\w+): hit rate (?P<value>\\S+) %'
unit = "%"
key = ["pool"]
better = "higher"
exact = true
"""


def test_rows_of_the_configuration_are_read(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "ciguard.toml").write_text(ROW, encoding="utf-8")
    lines = "pool a: hit rate {} %\npool b: hit rate 5 %\npool b: hit rate {} %\n"
    write(tmp_path, lines.format(50, 7), lines.format(60, "nan"))
    done = ciguard("compare", "base.log", "head.txt", cwd=tmp_path)
    words = " ".join(done.stdout.split())
    assert "pool_hits pool=a 50 % 60 % +20.00 % (+10 %) better 1 -> 1" in words
    assert "head.txt:3: pool_hits is no number: nan" in words
    assert words.startswith("UNKNOWN: exact values of the base have no equal in the candidate")


def test_a_row_with_a_mistake_is_refused(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "ciguard.toml").write_text(
        "[metrics.x]\npattern = '(?P<value>\\d+)'\nunit = 'ell'\n", encoding="utf-8"
    )
    write(tmp_path, "a\n", "a\n")
    done = ciguard("compare", "base.log", "head.txt", cwd=tmp_path, expect=2)
    assert "metrics.x.pattern" in done.stderr
    assert "metrics.x.unit: no unit 'ell'" in done.stderr
