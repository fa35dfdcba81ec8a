from __future__ import annotations

import gzip
import json
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Ciguard
from guard.fixtures import make_plan
from history.git_servers import git
from history.stored_values import values_in

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.lines import encode
from ciguard.codec.results.formats import FORMATS
from ciguard.codec.unpack_limits import UnpackBudget
from ciguard.errors import InputError
from ciguard.history import file as history_codec
from ciguard.history.command import _read as read
from ciguard.history.ingest import ACCEPTED_INPUTS, RunMetadata
from ciguard.history.query import BaseQuery, base_runs
from ciguard.model import EndLine, Line, Result, ShardLine

XML = '<testsuite><testcase classname="a.b" name="t{}" time="0.25"/></testsuite>'


def write_record(folder: Path, run_id: int | None, *lines: Line) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    header = ShardLine("p", "01", run_id=run_id, branch="main", started_at="2026-11-21T10:00:00Z")
    (folder / "any.jsonl").write_bytes(b"".join(map(encode, (header, *lines))))
    return folder


def test_gzip_files_of_one_call_unpack_to_a_bounded_size(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.xml.gz" for number in range(3)]
    for path in paths:
        path.write_bytes(gzip.compress(XML.format(1).encode() + b" " * (1 << 20)))
    budget = UnpackBudget(5 << 19)
    read(paths[0], RunMetadata(run_id=1), None, budget)
    read(paths[1], RunMetadata(run_id=1), None, budget)
    with pytest.raises(InputError, match="of this run unpack to more than") as caught:
        read(paths[2], RunMetadata(run_id=1), None, budget)
    assert caught.value.where == str(paths[2])


def test_add_accepts_records_result_files_and_durations(ciguard: Ciguard, tmp_path: Path) -> None:
    results = [Result("t1", "passed", wall_s=0.41), Result("t2", "failed", wall_s=1.5)]
    write_record(tmp_path / "rec" / "deep", 101, *results, EndLine("completed", at_s=2.0))
    (tmp_path / "r.xml.gz").write_bytes(gzip.compress(XML.format(1).encode()))
    (tmp_path / "d.json").write_text('{"c.py::t": 2}')
    history = ("--history", "h")
    output = ciguard("history", "add", "rec", *history, cwd=tmp_path)
    assert output.stdout.startswith("h: 2 values of 1 run added; 1 run, 2 cases, 2 values (")
    more = ("--run-id", "102", "--at", "2026-11-22T10:00:00Z", "--sha", "abc", "--suite", "unit")
    ciguard("history", "add", "r.xml.gz", *history, *more, cwd=tmp_path)
    ciguard("history", "add", "d.json", *history, "--run-id", "1", cwd=tmp_path)
    lines = values_in(tmp_path / "h")
    assert [(line["run_id"], line["unit"], line["wall_s"]) for line in lines] == [
        (1, "c.py::t", 2.0),
        (101, "t1", 0.41),
        (101, "t2", 1.5),
        (102, "a.b::t1", 0.25),
    ]
    assert lines[3]["classname"] == "a.b"
    assert lines[3]["sha"] == "abc"
    assert "outcome" not in lines[0]
    shown = ciguard("history", "show", *history, cwd=tmp_path).stdout.splitlines()
    assert shown[0].split() == [
        "run", "at", "(UTC)", "branch", "event", "sha", "complete", "lost", "values",
    ]  # fmt: skip
    assert [line.split()[0] for line in shown[1:-2]] == ["1", "101", "102"]
    assert shown[-1].startswith("3 runs, 4 cases, 4 values (")


def test_json_of_a_format_is_not_read_as_durations(ciguard: Ciguard, tmp_path: Path) -> None:
    test = {"fullName": "adds", "title": "adds", "status": "passed", "duration": 250}
    file = {"name": "a.test.js", "status": "passed", "assertionResults": [test]}
    report = {"numTotalTestSuites": 1, "numTotalTests": 1, "success": True, "testResults": [file]}
    (tmp_path / "r.json").write_text(json.dumps(report))
    words = ("--history", "h", "--run-id", "1", "--at", "2026-11-22T10:00:00Z", "--sha", "abc")
    ciguard("history", "add", "r.json", *words, "--suite", "unit", cwd=tmp_path)
    lines = values_in(tmp_path / "h")
    assert [(line["unit"], line["wall_s"]) for line in lines] == [("a.test.js::adds", 0.25)]


def test_accepted_inputs_name_every_format() -> None:
    names = ("jsonl", *(one.NAME for one in FORMATS.values()), "durations")
    assert all(name in ACCEPTED_INPUTS for name in names)


def test_add_tells_json_results_from_durations(ciguard: Ciguard, tmp_path: Path) -> None:
    event = {"Action": "pass", "Package": "shop", "Test": "TestAdds", "Elapsed": 0.5}
    (tmp_path / "r.json").write_text(json.dumps(event, separators=(",", ":")) + "\n")
    ciguard("history", "add", "r.json", "--history", "h", "--run-id", "1", cwd=tmp_path)
    (line,) = values_in(tmp_path / "h")
    assert (line["unit"], line["outcome"], line["wall_s"]) == ("shop.TestAdds", "passed", 0.5)


def test_adding_the_same_record_twice_changes_nothing(ciguard: Ciguard, tmp_path: Path) -> None:
    record = write_record(tmp_path / "rec", 7, Result("t", "passed"), EndLine("completed"))
    ciguard("history", "add", record, "--history", "h", cwd=tmp_path)
    before = (tmp_path / "h").read_bytes()
    output = ciguard("history", "add", "rec", "rec/any.jsonl", "--history", "h", cwd=tmp_path)
    assert "nothing new in 1 value" in output.stdout
    assert (tmp_path / "h").read_bytes() == before


def test_one_run_from_several_files(ciguard: Ciguard, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.xml").write_text(XML.format(number))
    ciguard("history", "add", "1.xml", "2.xml", "--run-id", "5", "--history", "h", cwd=tmp_path)
    assert [line["unit"] for line in values_in(tmp_path / "h")] == ["a.b::t1", "a.b::t2"]


def test_zip_adds_all_results_in_it(ciguard: Ciguard, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in (1, 2):
            archive.writestr(f"x/{number}.xml", XML.format(number))
        archive.writestr("log.txt", "hello")
    words = ("history", "add", "a.zip", "--history", "h", "--run-id", "1")
    assert ciguard(*words, cwd=tmp_path).stdout.startswith("h: 2 values of 1 run added")
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as archive:
        archive.writestr("x/3.trx", "<TestR")
    output = ciguard(*words, cwd=tmp_path, expect=3)
    assert "a.zip/x/3.trx: " in output.stderr


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (("r.xml",), "no run id"),
        (("gone.xml", "--run-id", "1"), "gone.xml: cannot be read"),
        (("rec", "--run-id", "8"), "the record has 7, but --run-id is 8"),
        (("rec", "--branch", "next"), "the record has 'main', but --branch is 'next'"),
        (("rec", "--at", "noon"), "no time: 'noon'"),
        (("cut.xml", "--run-id", "1"), "cut.xml:1:12: malformed XML"),
        (("odd.txt", "--run-id", "1"), "odd.txt: no format of results is recognised: no known"),
        (("odd.txt", "--run-id", "1"), f"fix: {ACCEPTED_INPUTS}"),
        (("none.xml", "--run-id", "1"), f"recognised: it is empty\n  fix: {ACCEPTED_INPUTS}"),
        (("pom.xml", "--run-id", "1"), "recognised: XML with the root <project>"),
        (("p.toml", "--run-id", "1"), f"column 2 (char 1)\n  fix: {ACCEPTED_INPUTS}"),
        (("rec", "--plan", "plan.json"), "the record is of plan 'p', not "),
        (("empty", "--run-id", "1"), "no record (*.jsonl)"),
    ],
)
def test_invalid_input_exits_3_and_writes_nothing(
    words: tuple[str, ...], states: str, ciguard: Ciguard, tmp_path: Path
) -> None:
    write_record(tmp_path / "rec", 7, Result("t", "passed"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "r.xml").write_text(XML)
    (tmp_path / "cut.xml").write_text("<testsuite>")
    (tmp_path / "odd.txt").write_text("hello")
    (tmp_path / "none.xml").write_text("")
    (tmp_path / "pom.xml").write_text('<?xml version="1.0"?>\n<!-- a <b> -->\n<project a="1"/>')
    (tmp_path / "p.toml").write_text('[project]\nname = "x"\n')
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(make_plan()))
    done = ciguard("history", "add", *words, "--history", "h", cwd=tmp_path, expect=3)
    assert states in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize("reported_by", ["the record", "the option"])
def test_values_of_a_pull_request_are_rejected(
    reported_by: str, ciguard: Ciguard, tmp_path: Path
) -> None:
    header = ShardLine(
        "p", "01", run_id=7, event="pull_request" if "record" in reported_by else None
    )
    (tmp_path / "r.jsonl").write_bytes(encode(header) + encode(Result("t", "passed")))
    words = ("--event", "pull_request") if reported_by == "the option" else ()
    add = ("history", "add", "r.jsonl", "--history", "h", *words)
    done = ciguard(*add, cwd=tmp_path, expect=3)
    assert "r.jsonl: run 7 is a run of pull_request: the history takes no runs of" in done.stderr
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize(
    ("event", "reported_of"),
    [
        ("pull_request", ""),
        ("pull_request_target", ""),
        ("merge_group", ""),
        ("workflow_run", "pull_request"),
        ("workflow_run", "merge_group"),
        ("workflow_run", "push"),
    ],
)
def test_event_of_the_platform_overrides_the_record(
    event: str, reported_of: str, ciguard: Ciguard, tmp_path: Path
) -> None:
    header = ShardLine("p", "01", run_id=7, event="push", branch="main")
    (tmp_path / "r.jsonl").write_bytes(encode(header) + encode(Result("t", "passed")))
    payload = {"workflow_run": {"id": 7, "event": reported_of}} if reported_of else {}
    (tmp_path / "event.json").write_text(json.dumps(payload))
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
    }
    code = 0 if reported_of == "push" else 3
    words = ("history", "add", "r.jsonl", "--history", "h")
    done = ciguard(*words, cwd=tmp_path, expect=code, **environ)
    assert (tmp_path / "h").exists() == (code == 0)
    assert code == 0 or f"is a run of {reported_of or event}: the history takes no" in done.stderr


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A clone of main, the commit of a group that main has got, and one of a refused group."""
    origin = tmp_path_factory.mktemp("queue") / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    shas: list[str] = []
    for branch in ("main", "gh-readonly-queue/main/pr-7", "gh-readonly-queue/main/pr-8"):
        git(origin, "checkout", "-q", "-B", branch, *(["main"] if shas else []))
        git(origin, "commit", "-q", "--allow-empty", "-m", branch)
        shas.append(git(origin, "rev-parse", "HEAD"))
    git(origin, "checkout", "-q", "main")
    git(origin, "merge", "-q", "--ff-only", shas[1])
    git(origin, "commit", "-q", "--allow-empty", "-m", "another group")
    git(origin.parent, "clone", "-q", "origin", "work")
    for sha in shas:
        header = ShardLine("p", "01", run_id=7, event="merge_group", tested_sha=sha)
        header = replace(header, branch="gh-readonly-queue/main/pr", run_attempt=1)
        content = encode(header) + encode(Result("t", "passed")) + encode(EndLine("completed"))
        (origin.parent / "work" / f"{sha}.jsonl").write_bytes(content)
    return origin.parent / "work", shas[1], shas[2]


def on_branch(folder: Path, name: str) -> dict[str, str]:
    (folder / "event.json").write_text('{"repository": {"default_branch": "main"}}')
    return {
        **{"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_NAME": "push"},
        **{"GITHUB_EVENT_PATH": str(folder / "event.json"), "GITHUB_REF_NAME": name},
    }


def test_merge_group_becomes_a_baseline_once_main_has_its_commit(
    queue: tuple[Path, str, str], ciguard: Ciguard, tmp_path: Path
) -> None:
    work, merged, _ = queue
    words = ("history", "add", f"{merged}.jsonl", "--history", tmp_path / "h")
    refused = ciguard(*words, cwd=work, expect=3)
    assert "is a run of merge_group: the history takes no runs of proposed" in refused.stderr
    job = on_branch(tmp_path, "main")
    ciguard(*words, "--merged", "--sha", merged, cwd=work, expect=0, **job)
    added = history_codec.decode((tmp_path / "h").read_bytes(), "h")
    (run,) = added.runs
    assert (run.sha, run.branch, run.event) == (merged, "main", "merged_group")
    assert list(base_runs(added, BaseQuery("main", run_id=8))) == [0]
    again = ciguard(*words, "--merged", "--sha", merged, "--branch", "main", cwd=work)
    assert "nothing new in 1 value of 1 run" in again.stdout


def test_unproved_merge_group_is_not_added(
    queue: tuple[Path, str, str], ciguard: Ciguard, tmp_path: Path
) -> None:
    work, merged, refused = queue
    main = ("--branch", "main")
    usage = "--merged without a commit or a base branch"
    cases = [
        (refused, ("--sha", refused, *main), 3, f"{refused}: not known to be in main ("),
        (refused, ("--sha", merged, *main), 3, "but --sha is"),
        (merged, ("--sha", merged, *main, "--event", "push"), 3, "but --event is 'push'"),
        (merged, main, 2, usage),
        (merged, ("--sha", merged), 2, usage),
    ]
    words = ("--history", tmp_path / "h", "--merged")
    for record, facts, code, output in cases:
        done = ciguard("history", "add", f"{record}.jsonl", *words, *facts, cwd=work, expect=code)
        assert output in done.stderr
    given = (f"{merged}.jsonl", *words, "--sha", merged, *main)
    job = on_branch(tmp_path, "topic")
    assert usage in ciguard("history", "add", *given, cwd=work, expect=2, **job).stderr
    assert not (tmp_path / "h").exists()


def test_damage_is_reported_and_the_rest_is_added(ciguard: Ciguard, tmp_path: Path) -> None:
    record = write_record(tmp_path / "rec", 7, Result("t", "passed"))
    with (record / "any.jsonl").open("ab") as stream:
        stream.write(b'{"type":"result","unit":"cut')
    done = ciguard("history", "add", "rec", "--history", "h", cwd=tmp_path)
    assert "any.jsonl:3: cut" in done.stderr
    assert len(values_in(tmp_path / "h")) == 1


def test_missing_or_newer_history_is_an_error(ciguard: Ciguard, tmp_path: Path) -> None:
    done = ciguard("history", "show", "--history", "h", cwd=tmp_path, expect=3)
    assert "h: there is no history yet" in done.stderr
    (tmp_path / "h").write_bytes(b"ciguard-history 9 abc\n")
    done = ciguard("history", "show", "--history", "h", cwd=tmp_path, expect=3)
    assert "schema 9 is not 2" in done.stderr


def test_store_comes_from_the_configuration(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "ciguard.toml").write_text('[history]\nstore = "h"\n')
    record = write_record(tmp_path / "rec", 7, Result("t\nx", "passed"))
    ciguard("history", "add", record, cwd=tmp_path)
    (value,) = values_in(tmp_path / "h")
    assert value["unit"] == "t\nx"


def test_history_in_a_branch(ciguard: Ciguard, tmp_path: Path) -> None:
    for words in (("init", "-q", "--bare", "origin.git"), ("clone", "-q", "origin.git", "work")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    work = tmp_path / "work"
    write_record(work / "rec", 7, Result("t", "passed"))
    done = ciguard("history", "show", "--history", "branch:h", cwd=work, expect=3)
    assert "branch:h: there is no history yet" in done.stderr
    ciguard("history", "add", "rec", "--history", "branch:h", cwd=work)
    assert (
        "1 run, 1 case, 1 value"
        in ciguard("history", "show", "--history", "branch:h", cwd=work).stdout
    )


def test_impossible_times_are_reported(tmp_path: Path, ciguard: Ciguard) -> None:
    cases = "".join(f'<testcase name="{time}" time="{time}"/>' for time in ("nan", "-1", "0.5"))
    (tmp_path / "results.xml").write_text(f"<testsuite>{cases}</testsuite>")
    words = ("history", "add", "results.xml", "--history", "h", "--run-id", "1")
    done = ciguard(*words, cwd=tmp_path)
    assert "2 cases that passed have no time that can be used" in done.stderr
