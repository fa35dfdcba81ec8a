"""Static pages of histories that the code's own writer made, read as a browser would read them."""

from __future__ import annotations

import json
import posixpath
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard, clean_environment

from ciguard.codec.coverage_file import Coverage, Share
from ciguard.history import file as history_codec
from ciguard.history.file import History, empty
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.history.runs import UNDATED
from ciguard.model import EndLine, Outcome, Record, Result, ShardLine
from ciguard.site.command import MARKER, file_of

RUNS = 6
BASE = {"branch": "main", "event": "push", "workflow": "ci.yml"}
REPORT = '<dt>run</dt><dd><a href="https://github.com/{}/actions/runs/{}">'
HOSTILE = (
    '<script>alert("1")</script>',
    "line\nbreak & \t tab",
    '" href="/octo-org/shop" x="',
    "{{ 7 * 7 }} {% raw %} ../../etc?a=b#c",
    "lone \udc80 surrogate",
    "x" * 3000,
)


def results_of(run: int) -> Iterator[Result]:
    """A slow and a large test, one that is red since run 4, flaky ones, and hostile names."""
    yield Result("a.py::slow", "passed", case="a.py::slow", wall_s=9.0 + run)
    yield Result("a.py::large", "passed", case="a.py::large", wall_s=0.5, peak_delta_bytes=1 << 30)
    outcome: Outcome = "failed" if run > RUNS - 3 else "passed"
    yield Result("a.py::red", outcome, case="a.py::red", wall_s=0.25)
    if run % 2:
        yield Result("a.py::flaky", "failed", case="a.py::flaky", wall_s=0.1)
    yield Result("a.py::flaky", "passed", case="a.py::flaky", try_number=1 + run % 2, wall_s=0.1)
    outcome = "failed" if run in (0, 2) else "passed"  # and never retried
    yield Result("a.py::unsteady", outcome, case="a.py::unsteady")
    yield Result("b.js", "passed", case="adds", wall_s=0.2)
    for name in HOSTILE:
        yield Result(name, "failed" if run == 0 else "passed", case=name, wall_s=0.01)


def record_of(run: int, results: list[Result], repository: str, **facts: Any) -> Record:
    line = ShardLine(
        plan_id="p",
        shard="01",
        run_id=100 + run,
        run_attempt=1,
        repository=repository or None,
        head_sha=f"{run + 1:040x}",
        **{"started_at": f"2026-11-{10 + run}T10:00:00Z", **BASE, **facts},
    )
    return Record("01", line, results=tuple(results), end=EndLine("completed", at_s=60.0 + run))


def history(repository: str = "octo-org/shop", runs: int = RUNS, **facts: Any) -> History:
    merged = empty()
    for run in range(runs):
        merged = merge(
            merged, history_of([record_of(run, [*results_of(run)], repository, **facts)])
        )
    return merged


def write(path: Path, content: History) -> None:
    path.write_bytes(history_codec.encode(content))


class Links(HTMLParser):
    """Attributes with addresses, the elements, and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.elements: Counter[str] = Counter()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        names = ("href", "src", "data-source", "action")
        self.links += [value or "" for name, value in attrs if name in names]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, ciguard: Ciguard) -> Path:
    """The site of a red repository with the page of its last report, and of a green one."""
    folder = tmp_path_factory.mktemp("site")
    write(folder / "shop", history())
    write(folder / "lib", history("acme/lib", runs=2))
    (folder / "report.html").write_text(REPORT.format("octo-org/shop", 105))
    (folder / "older.html").write_text(REPORT.format("acme/lib", 100))
    histories = ("--history", "shop", "--history", "lib")
    reports = ("--report", "report.html", "--report", "older.html")
    done = ciguard("site", "--out", "site", *histories, *reports, cwd=folder)
    assert done.stdout.startswith("site/index.html: ")
    return folder / "site"


def page(site: Path, path: str) -> Links:
    return Links((site / path).read_text("utf-8"))


def values(site: Path, address: str) -> Any:
    return json.loads((site / file_of(address, "json")).read_bytes())


def test_every_link_leads_to_a_file_or_to_github(site: Path) -> None:
    pages = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    assert len(pages) > 2 * 6
    for path in pages:
        for link in page(site, path).links:
            if not link.startswith(("https://github.com/octo-org/", "https://github.com/acme/")):
                target = posixpath.join(posixpath.dirname(path), link) if link[0] != "#" else path
                assert (site / posixpath.normpath(target)).is_file(), (path, link)
                assert not link.startswith("/")


def test_every_page_can_be_reached_from_the_first(site: Path) -> None:
    reached, waiting = set[str](), ["index.html"]
    while waiting:
        path = waiting.pop()
        reached.add(path)
        for link in page(site, path).links if path.endswith(".html") else ():
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
            if not link.startswith("https:") and target not in reached:
                waiting.append(target)
    html = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    unlinked = html - reached
    # A measure has its own address, and that of the tab.
    assert {path.rpartition("/")[2].partition("-")[0] for path in unlinked} <= {"offenders"}


def test_names_of_tests_become_no_markup(site: Path) -> None:
    lists = page(site, file_of("/octo-org/shop/offenders?by=failures", "html"))
    assert not lists.elements["script"]
    for shown in ('<script>alert("1")</script>', 'href="/octo-org/shop" x="', "{{ 7 * 7 }}"):
        assert shown in lists.text
    tests = list(site.glob("octo-org/shop/tests-*.html"))
    assert len(tests) == 6 + len(HOSTILE)
    for path in tests:
        assert not page(site, path.relative_to(site).as_posix()).elements["script"]
    units = [
        json.loads(path.read_bytes())["unit"] for path in site.glob("octo-org/shop/tests-*.json")
    ]
    assert {*HOSTILE, "a.py::slow", "b.js adds"} < {*units}


def test_lists_rank_the_tests(site: Path) -> None:
    def named(by: str) -> list[str]:
        tests = values(site, f"/octo-org/shop/offenders?by={by}")["tests"]
        return [test["unit"] for test in tests]

    assert named("time")[:3] == ["a.py::slow", "a.py::large", "a.py::red"]
    assert named("peak-delta") == ["a.py::large"]
    assert named("failures")[0] == "a.py::red"
    assert {*named("failures")} == {"a.py::red", "a.py::unsteady", *HOSTILE}
    assert named("flaky") == ["a.py::flaky"]
    flaky = values(site, "/octo-org/shop/flaky")["tests"]
    names = ("unit", "retried", "failures", "runs", "interval", "red_runs", "is_broken")
    assert [tuple(test[name] for name in names) for test in flaky] == [
        ("a.py::flaky", 3, 3, RUNS, "19..81 %", 0, False),
        ("a.py::unsteady", 0, 2, RUNS, "10..70 %", 0, False),
        ("a.py::red", 0, 2, RUNS, "10..70 %", 2, True),
    ]
    slow, *_ = values(site, "/octo-org/shop/offenders?by=time")["tests"]
    assert slow["peak_delta_bytes"] is None  # not measured
    assert slow["wall_s"] == pytest.approx(sum(9.0 + run for run in range(RUNS)))


def test_page_of_a_test_has_its_runs(site: Path) -> None:
    path = file_of("/octo-org/shop/tests?suite=&variant=&unit=a.py%3A%3Ared", "html")
    red = json.loads((site / path).with_suffix(".json").read_bytes())
    assert [run["run_id"] for run in red["runs"]] == [105, 104, 103, 102, 101, 100]
    assert [run["status"] for run in red["runs"]] == ["bad"] * 2 + ["good"] * 4
    shown = page(site, path)
    assert shown.elements["polyline"] == 1  # of its time
    assert "https://github.com/octo-org/shop/actions/runs/104" in shown.links


def test_runs_and_the_state_of_the_base(site: Path) -> None:
    index = values(site, "/")
    assert [line["repository"] for line in index["repositories"]] == ["octo-org/shop", "acme/lib"]
    red = index["repositories"][0]["base"]
    assert red["facts"]["red_since"] == {
        "sha": f"{5:040x}", "green_sha": f"{4:040x}", "commits": None,
    }  # fmt: skip
    assert "red since 0000000" in page(site, "index.html").text
    runs = values(site, "/octo-org/shop")["runs"]
    assert " ".join(run["verdict"] for run in runs) == "failed failed passed failed passed failed"
    assert [run["makespan_s"] for run in runs] == [65.0, 64.0, 63.0, 62.0, 61.0, 60.0]
    (cell,) = runs[0]["cells"]
    assert cell["counts"]["failed"] == 1
    assert page(site, "octo-org/shop.html").elements["polyline"] == 2


def test_report_is_filed_under_its_own_run(tmp_path: Path, ciguard: Ciguard) -> None:
    report = str(Path(__file__).parents[1] / "samples/report/hurt.html")
    write(tmp_path / "h", history(runs=2))
    write(tmp_path / "other", history("acme/lib", runs=2))
    words = ("site", "--out", "site", "--report", report, "--history")
    ciguard(*words, "h", cwd=tmp_path)
    assert (tmp_path / "site/octo-org/shop/runs/7/2.html").is_file()
    assert "no report of a run of acme" in ciguard(*words, "other", cwd=tmp_path, expect=3).stderr


def test_last_run_is_the_page_of_the_report(site: Path) -> None:
    path = "octo-org/shop/runs/105/1.html"
    assert path in page(site, "index.html").links
    assert (site / path).read_text() == REPORT.format("octo-org/shop", 105)
    assert "https://github.com/acme/lib/actions/runs/101" in page(site, "index.html").links
    assert "lib/runs/100/1.html" in page(site, "acme/lib.html").links


WORKFLOWS = {
    "nightly": {"workflow": "nightly.yml"},
    "renamed": {"workflow": "old.yml", "started_at": "2026-09-01T00:00:00Z"},
    "release": {"branch": "release/1.0"},
}


@pytest.mark.parametrize(
    ("runs", "red_since"),
    [("+ci -ci -ci +nightly", 2), ("-ci -ci +release", 1), ("-renamed +ci", 0)],
)
def test_red_workflow(runs: str, red_since: int, tmp_path: Path, ciguard: Ciguard) -> None:
    merged = empty()
    for at, run in enumerate(runs.split()):
        result = Result("a", "passed" if run[0] == "+" else "failed", case="a")
        record = record_of(at, [result], "o/r", **WORKFLOWS.get(run[1:], {}))
        merged = merge(merged, history_of([record]))
    write(tmp_path / "h", merged)
    ciguard("site", "--out", "site", "--history", "h", cwd=tmp_path)
    (line,) = values(tmp_path / "site", "/")["repositories"]
    assert (line["default_branch"], line["base"]["is_red"]) == ("main", red_since > 0)
    assert json.dumps(line).count(f'{{"sha": "{red_since:040x}"') == (red_since > 0)
    assert f"tests: {line['base']['verdict']}" in (tmp_path / "site/o/r/badge.svg").read_text()


def test_tests_that_have_not_run_for_days(tmp_path: Path, ciguard: Ciguard) -> None:
    first = [Result(name, "passed", case=name) for name in ("a<b>", "b")]
    last = [replace(first[0], outcome="skipped"), first[1]]
    runs = (history_of([record_of(at, own, "o/r")]) for at, own in ((0, first), (8, last)))
    write(tmp_path / "h", merge(*runs))
    ciguard("site", "--out", "site", "--history", "h", cwd=tmp_path)
    (stale,) = values(tmp_path / "site", "/o/r")["stale"]
    assert stale == "1 test did not run for 8 days: a<b>"
    assert stale in page(tmp_path / "site", "o/r.html").text


def test_runs_without_commit_or_date(tmp_path: Path, ciguard: Ciguard) -> None:
    (run,) = history(runs=1).runs
    write(tmp_path / "h", replace(history(runs=1), runs=(replace(run, sha=None, at=UNDATED),)))
    ciguard("site", "--out", "site", "--history", "h", cwd=tmp_path)
    text = "".join(path.read_text() for path in (tmp_path / "site").rglob("*.html"))
    found = [part in text for part in ("1970", "<code></code>", "/commit/", "<code>100</code>")]
    assert found == [False, False, False, True]


def lose_shard(record: Record) -> Record:
    return Record("01", record.identity, results=record.results)  # no end: its runner is lost


@pytest.mark.parametrize(
    ("case", "message"),
    [("red", "failed"), ("lost", "incomplete"), ("covered", "passed, coverage 87.5 %")],
)
def test_badge(case: str, message: str, tmp_path: Path, ciguard: Ciguard) -> None:
    record = record_of(0, [*results_of(RUNS if case == "red" else 1)], "octo-org/shop")
    made = history_of([lose_shard(record) if case == "lost" else record])
    if case == "covered":
        coverage = Coverage("lcov", "line", total=Share(7, 8, 87.5))
        (run,) = made.runs
        made = replace(made, runs=(replace(run, coverage=coverage),))
    write(tmp_path / "h", made)
    ciguard("site", "--out", "site", "--history", "h", cwd=tmp_path)
    badge = (tmp_path / "site/octo-org/shop/badge.svg").read_text()
    assert f'aria-label="tests: {message}"' in badge
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, xml.dom.minidom as x; x.parseString(sys.argv[1])",
            badge,
        ],
        check=True,
    )


@pytest.mark.parametrize(
    ("repository", "facts", "error"),
    [
        ("", {}, "no run of a base branch with the name of its repository"),
        ("../../up", {}, "no run of a base branch with the name of its repository"),
        ("octo-org/shop", {"event": "pull_request"}, "no run of a base branch"),
    ],
)
def test_history_that_makes_no_site(
    repository: str, facts: Mapping[str, str], error: str, tmp_path: Path, ciguard: Ciguard
) -> None:
    write(tmp_path / "h", history(repository, runs=1, **facts))
    done = ciguard("site", "--out", "site", "--history", "h", cwd=tmp_path, expect=3)
    assert error in done.stderr
    assert not (tmp_path / "site").exists()


def test_history_without_a_name_is_of_the_current_repository(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    write(tmp_path / "h", history("", runs=1))
    words = ("site", "--out", "site", "--history", "h")
    ciguard(*words, cwd=tmp_path, GITHUB_REPOSITORY="octo-org/tool")
    assert (tmp_path / "site/octo-org/tool.html").is_file()


def test_folder_with_other_files_is_refused(tmp_path: Path, ciguard: Ciguard) -> None:
    write(tmp_path / "h", history(runs=1))
    own = tmp_path / "site"
    own.mkdir()
    (own / "index.html").write_text("mine")
    words = ("site", "--out", "site", "--history", "h")
    assert "files of no site" in ciguard(*words, cwd=tmp_path, expect=2).stderr
    done = ciguard(*words, "--report", "a", "--report", "b", "--out", "c", cwd=tmp_path, expect=2)
    assert "2 reports" in done.stderr
    done = ciguard(*words, "--out", "site/index.html", cwd=tmp_path, expect=3)
    assert "cannot be written" in done.stderr
    assert (own / "index.html").read_text() == "mine"
    (own / "index.html").unlink()
    ciguard(*words, cwd=tmp_path)
    (own / "CNAME").write_text("mine")
    first = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    assert (own / MARKER) in first
    write(tmp_path / "other", history("acme/lib", runs=1))
    ciguard(*words[:-1], "other", cwd=tmp_path)
    assert not list(own.rglob("octo-org/*.*"))
    ciguard(*words, cwd=tmp_path)
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == first
    assert "two histories" in ciguard(*words, "--history", "h", cwd=tmp_path, expect=2).stderr


def test_site_needs_nothing_of_the_service(tmp_path: Path) -> None:
    write(tmp_path / "h", history(runs=1))
    program = (
        "import sys\n"
        "for name in ('starlette', 'sqlalchemy', 'duckdb', 'uvicorn', 'jwt', 'obstore'):\n"
        "    sys.modules[name] = None\n"
        "from ciguard import cli\n"
        "sys.exit(cli.run(['site', '--out', 'site', '--history', 'h']))\n"
    )
    command = [sys.executable, "-c", program]
    subprocess.run(command, cwd=tmp_path, env=clean_environment(), check=True)
    assert (tmp_path / "site/index.html").is_file()
