"""`ciguard audit` as a user calls it: formats, exit codes, refusals."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from conftest import Ciguard, Golden

SAMPLES = Path(__file__).parents[1] / "samples"
TESTS = [
    {"id": "Shop.Tests.Cart.Adds", "categories": []},
    {"id": "Shop.Tests.Cart.Removes", "categories": ["Slow"]},
    {"id": "Shop.Tests.Order.Pays", "categories": ["Never"]},
    {"id": "Shop.Tests.User.Logs", "categories": []},
    {"id": "Shop.Tests.Word.Counts", "categories": []},
]
SHARDS = {
    "global_filter": "(<shard filter>)&Category!=Never",
    "shards": [
        {"name": "Cart", "filter": "Cart", "timeout_minutes": 45},
        {"name": "Fast", "filter": "(Cart|Order)&Category!=Slow", "timeout_minutes": 45},
        {"name": "A-M", "filter": "Shop.Tests&(Tests.User|s.T)&Category!=Slow"},
        {"name": "Old", "filter": "Shop.Legacy"},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests.json").write_text(json.dumps(TESTS), "utf-8")
    (tmp_path / "shards.json").write_text(json.dumps(SHARDS), "utf-8")
    return tmp_path


PYTEST = "a.py::t\n\n1 test collected in 0.02s\n"
WORDS = ("audit", "--matrix", "shards.json", "--tests", "tests.json")


@pytest.mark.parametrize("format_", ["text", "markdown", "json"])
def test_audit_says_what_runs_twice_and_not_at_all(
    folder: Path, ciguard: Ciguard, golden: Golden, format_: str
) -> None:
    suffix = {"text": "txt", "markdown": "md", "json": "json"}[format_]
    answer = ciguard(*WORDS, "--format", format_, cwd=folder)
    golden(answer.stdout, SAMPLES / "audit" / f"small.{suffix}")


@pytest.mark.parametrize(
    ("conditions", "code"),
    [("", 0), ("overlap", 14), ("orphan", 14), ("empty", 14), ("orphan, empty", 14)],
)
def test_findings_fail_only_where_asked(
    folder: Path, ciguard: Ciguard, conditions: str, code: int
) -> None:
    answer = ciguard(*WORDS, "--fail-on", conditions, cwd=folder, expect=code)
    assert ("ciguard audit: found" in answer.stderr) == bool(conditions)


def test_gate_that_nothing_can_decide_fails(folder: Path, ciguard: Ciguard) -> None:
    job = 'jobs: {a: {strategy: {matrix: {m: [t]}}, steps: [{run: "pytest --lf ${{ matrix.m }}"}]}}'
    (folder / "ci.yml").write_text(job, "utf-8")
    words = ("audit", "--matrix", "ci.yml", "--tests", "tests.json")
    ciguard(*words, cwd=folder)
    answer = ciguard(*words, "--fail-on", "orphan", cwd=folder, expect=14)
    assert "orphan not decided: 5 tests: 5 undecided; 1 shard" in answer.stderr


def test_finding_that_is_not_there_does_not_fail(folder: Path, ciguard: Ciguard) -> None:
    (folder / "shards.json").write_text('[{"name": "all", "filter": ""}]', "utf-8")
    answer = ciguard(*WORDS, "--fail-on", "overlap,orphan,empty", cwd=folder)
    assert answer.stdout.splitlines()[0] == "5 tests: each in one shard; 1 shard"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("tests.json", b"[]", "tests.json: no test in it"),
        ("tests.json", b'["a", "b", "a"]', "tests.json: 1 test listed more than once: 'a'"),
        ("tests.json", gzip.compress(b'["a"]', mtime=0)[:-6], "tests.json: damaged gzip"),
        (
            "tests.json",
            gzip.compress(b'["a"]', mtime=0)[:12] + b"\xff" * 9,
            "tests.json: damaged gzip",
        ),
        ("tests.json", "ab".encode("utf-16")[:-1], "tests.json: not UTF-16: "),
        ("shards.json", b'[{"name": "a", "filter": "(A"}]', "no closing parenthesis"),
        ("shards.json", b"x" * 11_000_000, "shards.json: "),
        (
            *("tests.json", PYTEST.replace("1 test", "2 tests").encode()),
            "tests.json: listed tests: 1, collected tests: 2\n  fix: ",
        ),
        (
            *("tests.json", b"a.py: 1\n"),
            "tests.json: numbers of tests, not their names: 'a.py: 1'\n  fix: ",
        ),
        (
            *("tests.json", 2 * PYTEST.encode()),
            "tests.json: 1 test listed more than once: 'a.py::t'\n  fix: ",
        ),
    ],
)
def test_bad_input_is_refused_with_file_and_place(
    folder: Path, ciguard: Ciguard, name: str, content: bytes, problem: str
) -> None:
    (folder / name).write_bytes(content)
    answer = ciguard(*WORDS, cwd=folder, expect=3)
    assert problem in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [PYTEST, '["a.py::t"]', "a.py::t\r\n"])
def test_tests_are_decoded_by_their_byte_order_mark(
    folder: Path, ciguard: Ciguard, encoding: str, text: str
) -> None:
    mark = "\ufeff" if encoding.endswith("e") else ""
    (folder / "tests.json").write_bytes((mark + text).encode(encoding))
    (folder / "shards.json").write_text('[{"name": "all", "filter": ""}]', "utf-8")
    answer = ciguard(*WORDS, "--output", "-", cwd=folder)
    assert '"a.py::t"' in answer.stdout


JOB = """
  {name}:
    strategy:
      matrix:
        part: {parts}
    steps:
      - run: dotnet test --filter "${{{{ matrix.part }}}}"
"""
TWO_JOBS = JOB.format(name="a", parts="[A, B]") + JOB.format(name="b", parts="[A]")


@pytest.mark.parametrize(
    ("workflow", "problem", "fix"),
    [
        ("x: &x [*x]\njobs: *x", "ci.yml: more than 200,000 values by aliases", "leave them out"),
        ("# " + "x" * 10_000_000, "ci.yml: 10,000,002 characters", "GitHub takes no workflow"),
        ("jobs:\n\t- a", "ci.yml: not YAML: found character '\\t'", "correct that line"),
        ("jobs: {a: {steps: [{run: pytest}]}}", "ci.yml: no job has a matrix", "shards as JSON"),
        ("jobs:" + TWO_JOBS, "ci.yml: several jobs with a matrix run tests: a, b", "ci.yml:JOB"),
        (
            "jobs:" + JOB.format(name="a", parts="[]"),
            "ci.yml:4: axis 'part' is no list of values: it is empty",
            "write part: [value, ...]",
        ),
        (
            "jobs:" + JOB.format(name="a", parts='["(A"]'),
            "ci.yml:5 (a ((A)): no closing parenthesis at column 3",
            "A~x&(B=y|C!=z)",
        ),
    ],
)
def test_bad_workflow_is_refused_with_file_line_and_what_to_do(
    folder: Path, ciguard: Ciguard, workflow: str, problem: str, fix: str
) -> None:
    (folder / "ci.yml").write_text(workflow, "utf-8")
    words = ("--matrix", "ci.yml", "--tests", "tests.json")
    answer = ciguard("audit", *words, cwd=folder, expect=3)
    first, second = answer.stderr.splitlines()
    assert first.startswith(f"ciguard audit: {problem}")
    assert second.startswith("  fix: ")
    assert fix in second


def test_unknown_finding_is_a_usage_error(folder: Path, ciguard: Ciguard) -> None:
    answer = ciguard(*WORDS, "--fail-on", "orphans", cwd=folder, expect=2)
    assert "fix: name: overlap, orphan, empty" in answer.stderr


def test_history_adds_times_imbalance_and_limits(folder: Path, ciguard: Ciguard) -> None:
    walls_s = {"Shop.Tests.Cart.Adds": 2000.0, "Shop.Tests.Cart.Removes": 800.0}
    (folder / "durations.json").write_text(json.dumps(walls_s), "utf-8")
    stored = ("--history", "history.bin")
    ciguard("history", "add", "durations.json", "--run-id", "1", *stored, cwd=folder)
    answer = ciguard(*WORDS, *stored, cwd=folder)
    assert answer.stderr == "history: has the time of 2 of 5 tests\n"
    rows = {line.split("  ")[0]: line.split() for line in answer.stdout.splitlines()}
    assert rows["Cart"][-3:] == ["over", "its", "limit"]
    assert "46 min 40 s" in answer.stdout  # of 45 min
    assert "longest shard  46 min 40 s, 2.3 times the mean" in answer.stdout
    found = json.loads(ciguard(*WORDS, *stored, "--format", "json", cwd=folder).stdout)
    assert [shard["wall_s"] for shard in found["shards"]] == [2800.0, 2000.0, None, None]


def test_history_that_is_not_there_is_an_error(folder: Path, ciguard: Ciguard) -> None:
    answer = ciguard(*WORDS, "--history", "none.bin", cwd=folder, expect=3)
    assert "none.bin: there is no history" in answer.stderr
