"""`ciguard compare BASE.log HEAD.log`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Final

import pytest
from conftest import Ciguard, Golden
from fakegithub.actions import add_job
from fakegithub.server import serving
from fakegithub.state import FakeGitHub, Login

from ciguard.compare.command import FORMATS

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
        ("bytes_in_use: 4\n", ("--fail-on", "metric"), 0),
        ("bytes_in_use: 6\n", ("--fail-on", "metric"), 11),
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
        (("base.log", "123"), 2, "base.log is a text log, and 123 is not one"),
        (("base.log", "record.txt"), 2, "base.log is a text log, and record.txt is not one"),
        (("base.log", "bad.zip"), 2, "HEAD: bad.zip: base.log is a text log, and bad.zip is not"),
        (("xml.zip", "logs.zip"), 2, "logs.zip is a text log, and xml.zip is not one"),
        (("base.log", "empty"), 2, "archives with N_name.txt"),
        (("base.log", "head.txt", "--results", "*.xml"), 2, "not used for logs"),
        (("base.log", "head.txt", "--history", "x"), 2, "not used for logs"),
    ],
)
def test_what_is_no_log_is_refused(
    ciguard: Ciguard, tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    write(tmp_path, "bytes_in_use: 5\n", "bytes_in_use: 4\n")
    (tmp_path / "record.txt").write_text('{"type": "shard"}\n', encoding="utf-8")
    (tmp_path / "bad.zip").write_text("x", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    pack(tmp_path / "logs.zip", {"1_a.txt": "bytes_in_use: 5\n"})
    pack(tmp_path / "xml.zip", {"out.xml": "<testsuite/>"})
    done = ciguard("compare", *words, cwd=tmp_path, expect=code)
    assert message in done.stderr


def test_other_findings_are_not_known_of_logs(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, "bytes_in_use: 5\n", "bytes_in_use: 4\n")
    done = ciguard("compare", "base.log", "head.txt", "--fail-on", "memory,oom", cwd=tmp_path)
    assert done.stderr == "warning: --fail-on memory: unknown for logs\n"


def pack(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)


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
    assert "pool_hits pool=a 50 % 60 % +10 points better 1 -> 1" in words
    assert "head.txt:3: pool_hits is not a number: nan" in words
    assert words.startswith("UNKNOWN: the candidate does not have all values of the base")


# Peaks beyond the memory in use: https://github.com/EnzymeAD/Enzyme-JAX/pull/1307.
KERNELS: Final = {"east_west": 1513882880, "north_south": 39126016, "all": 1515260160}
WITHIN: Final = """
[metrics.peak]
pattern = 'peak: (?P<value>\\d+) bytes'
within = 'launch kernel (?P<kernel>\\w+)'
unit = "B"
better = "lower"
exact = true
"""


def allocations(*kernels: str, grown: int = 0) -> str:
    """Return the log of some kernels, of which the first needs `grown` more bytes."""
    return "".join(
        f"launch kernel {kernel}\npeak: {KERNELS[kernel] + grown * (kernel == kernels[0])} bytes\n"
        for kernel in kernels
    )


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (allocations("north_south", "east_west", "all"), "NO DIFFERENCE: values: 3 equal"),
        (
            allocations("all", "north_south", "east_west", grown=10),
            "WORSE: values: 1 worse, 2 equal",
        ),
        (
            allocations("all", "east_west", grown=-10),
            "UNKNOWN: the candidate does not have all values of the base; values: 1 better",
        ),
    ],
    ids=["swapped", "swapped and grown", "missing"],
)
def test_kernels_are_told_apart_by_the_line_before_their_numbers(
    ciguard: Ciguard, tmp_path: Path, head: str, words: str
) -> None:
    (tmp_path / "ciguard.toml").write_text(WITHIN, encoding="utf-8")
    write(tmp_path, allocations(*KERNELS), head)
    done = ciguard("compare", "base.log", "head.txt", cwd=tmp_path)
    assert " ".join(done.stdout.split()).startswith(words)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("launch", "lauch", "metrics.peak.within"),
        ("peak:", "peek:", "metrics.peak.pattern"),
        ("pattern", "pattern = 'retrying'\n[metrics.other]\npattern", ""),  # 0 lines are counted
    ],
)
def test_row_that_matches_no_line_is_a_warning(
    ciguard: Ciguard, tmp_path: Path, old: str, new: str, key: str
) -> None:
    (tmp_path / "ciguard.toml").write_text(WITHIN.replace(old, new, 1), encoding="utf-8")
    text = f"launch kernel all\npeak: 5 bytes\n{USE}"
    write(tmp_path, text, text)
    words = ("compare", "base.log", "head.txt", "--strict", "--format")
    for format_ in ("text", "markdown", "json"):
        shown = ciguard(*words, format_, cwd=tmp_path, expect=12 if key else 0).stdout
        if format_ == "json":
            assert json.loads(shown)["unmatched"] == [key] * bool(key)
        else:
            assert (f"{key} matches no line of the logs" in shown) == bool(key)


OOM: Final = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5 bytes\n"
BOUNDS: Final = """
[metrics.contracts]
pattern = 'measured contract \\w+'
at_least = 1
[metrics.peak]
pattern = 'peak: (?P<value>\\S+) MiB'
unit = "MiB"
at_least = 10
at_most = 2048
[metrics."allocator.bytes_in_use"]
at_most = 100
[metrics.recorded]  # by a program: in no log
at_least = 1
[metrics."xla.out_of_memory"]
at_most = 0
"""


@pytest.mark.parametrize(
    ("head", "words", "code"),
    [
        ("measured contract a\npeak: 10 MiB\npeak: 2048 MiB\n", "", 0),
        (
            "measured contract a\npeak: 10 MiB\nbytes_in_use: 101\n",
            "WORSE: allocator.bytes_in_use: 101 B (at most 100 B expected); ",
            11,
        ),
        ("peak: 10 MiB\n", "WORSE: contracts: 0 (at least 1 expected); ", 11),
        ("measured contract a\npeak: nan MiB\n", "WORSE: peak: no value found; ", 11),
        (f"measured contract a\npeak: 10 MiB\n{OOM}", "WORSE: xla.out_of_memory: 1", 11),
        (
            "measured contract a\npeak: 9 MiB\npeak: 3072 MiB\n",
            "WORSE: peak: 9.00 MiB (at least 10.0 MiB expected); "
            "peak: 3.00 GiB (at most 2.00 GiB expected); ",
            11,
        ),
    ],
)
def test_metric_beyond_its_bound_is_worse_in_any_base(
    ciguard: Ciguard, tmp_path: Path, head: str, words: str, code: int
) -> None:
    (tmp_path / "ciguard.toml").write_text(BOUNDS, encoding="utf-8")
    write(tmp_path, head + USE, head + USE)
    done = ciguard("compare", "base.log", "head.txt", cwd=tmp_path)
    assert " ".join(done.stdout.split()).startswith(words or "NO DIFFERENCE")
    ciguard(*("compare", "base.log", "head.txt", "--fail-on", "metric"), cwd=tmp_path, expect=code)


def test_row_beyond_its_bound_is_worse(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "ciguard.toml").write_text(BOUNDS, encoding="utf-8")
    base, head = (f"measured contract a\npeak: {mib} MiB\n{USE}" for mib in (12, 9))
    write(tmp_path, base, head)
    shown = " ".join(ciguard("compare", "base.log", "head.txt", cwd=tmp_path).stdout.split())
    assert "peak 12.0 MiB 9.00 MiB -25.00 % (-3.00 MiB) worse 2 -> 2" in shown
    assert "not judged" not in shown
    write(tmp_path, base, head.replace("peak", "p"))
    shown = " ".join(ciguard("compare", "base.log", "head.txt", cwd=tmp_path).stdout.split())
    assert "peak 1 0 missing" in shown


MISSES: Final = "[metrics.{0}]\npattern = '{0}'\nbetter = 'lower'\nwithin = 'launch (?P<k>.*)'\n"


def test_lines_of_a_kernel_that_did_not_run_are_not_better(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    (tmp_path / "ciguard.toml").write_text(MISSES.format("miss") + MISSES.format("peak"))
    first, last = "launch ew\nmiss\n", f"peak\n{USE}"
    for head, words in ((USE, "UNKNOWN: the"), (f"launch ns\n{last}", "BETTER: 2")):
        write(tmp_path, f"{first}launch ns\nmiss\nmiss\n{last}", first + head)
        done = ciguard("compare", "base.log", "head.txt", cwd=tmp_path)
        assert done.stdout.startswith(words)
        assert ("2 counted lines fewer" in done.stdout) == (words == "BETTER: 2")


def test_a_row_with_a_mistake_is_refused(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "ciguard.toml").write_text(
        "[metrics.x]\npattern = '(?P<value>\\d+)'\nunit = 'ell'\n", encoding="utf-8"
    )
    write(tmp_path, "a\n", "a\n")
    done = ciguard("compare", "base.log", "head.txt", cwd=tmp_path, expect=2)
    assert "metrics.x.pattern" in done.stderr
    assert "metrics.x.unit: no unit 'ell'" in done.stderr


ARCHIVE: Final = {
    "0_tests (1).txt": "bytes_in_use: 9\n",
    "tests (1)/2_Run actions_checkout.txt": "no number\n",
    "tests (1)/7_Run make test.txt": "first\nbytes_in_use: {value}\n",
    "1_lint.txt": "bytes_in_use: 3\n",
}


@pytest.mark.parametrize("packed", [True, False])
def test_archives_are_compared_step_by_step(
    ciguard: Ciguard, tmp_path: Path, *, packed: bool
) -> None:
    for name, value in (("base", 5), ("head", 4)):
        files = {path: text.replace("{value}", str(value)) for path, text in ARCHIVE.items()}
        pack(tmp_path / f"{name}.zip", files)
        if not packed:
            with zipfile.ZipFile(tmp_path / f"{name}.zip") as archive:
                archive.extractall(tmp_path / name)
    names = ("base.zip", "head.zip") if packed else ("base", "head")
    done = ciguard("compare", *names, "--format", "json", cwd=tmp_path)
    found = {
        (one["pair"]["before"]["place"]["job"], one["pair"]["before"]["place"]["step"]): (
            one["verdict"],
            one["pair"]["before"]["place"]["step_number"],
            one["pair"]["before"]["place"]["line"],
        )
        for one in json.loads(done.stdout)["pairs"]
    }
    assert found == {("tests (1)", "Run make test"): ("better", 7, 2), ("lint", ""): ("same", 0, 1)}


def test_an_archive_of_result_files_is_none_of_logs(ciguard: Ciguard, tmp_path: Path) -> None:
    junit = '<testsuite><testcase classname="a" name="b" time="1"/></testsuite>'
    for name in ("base.zip", "head.zip"):
        pack(tmp_path / name, {"out.xml": junit})
    done = ciguard("compare", "base.zip", "head.zip", cwd=tmp_path)
    assert "1 test" in done.stdout


ALLOCATOR: Final = (
    "W tensorflow/tsl/framework/bfc_allocator.cc:482] Allocator (GPU_2_bfc) ran out of memory "
    "trying to allocate 48.16GiB (rounded to 51712165888)requested by op\n"
)
USE: Final = "│ bytes_in_use: 100\n"


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_a_failure_has_all_bytes_beside_the_rounded_amount(
    ciguard: Ciguard, tmp_path: Path, format_: str
) -> None:
    write(tmp_path, USE, USE + ALLOCATOR)
    done = ciguard("compare", "base.log", "head.txt", "--format", format_, cwd=tmp_path)
    assert "48.2 GiB (51712165888 B)" in done.stdout


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("1_a.txt", "job a"),
        ("a/7_Run make test.txt", "step Run make test of job a"),
        ("a/8_Post Run actions_checkout.txt", ""),
    ],
)
def test_what_has_no_log_is_not_better(
    ciguard: Ciguard, tmp_path: Path, lost: str, words: str
) -> None:
    runner = "Current runner version: '2.330.0'\n"
    end = "Cleaning up orphan processes\n"
    job = {
        "1_a.txt": runner + ALLOCATOR + end,
        "a/1_Set up job.txt": runner,
        "a/7_Run make test.txt": ALLOCATOR,
        "a/8_Post Run actions_checkout.txt": "no number\n",
        "a/9_Complete job.txt": end,
    }
    other = {"2_b.txt": USE}
    archive(tmp_path / "base", {**job, **other})
    head = {name: text.replace(ALLOCATOR, "ok\n") for name, text in job.items() if name != lost}
    archive(tmp_path / "head", {**head, **other})
    done = ciguard("compare", "base", "head", cwd=tmp_path)
    sentence = " ".join(done.stdout.split())
    rest = "1 failure less often; values: 1 equal"
    reason = f"UNKNOWN: the candidate has no log of {words}; {rest}"
    assert sentence.startswith(reason if words else f"BETTER: {rest}")


def test_a_failure_that_moved_to_another_job_is_new(ciguard: Ciguard, tmp_path: Path) -> None:
    archive(tmp_path / "base", {"1_a.txt": ALLOCATOR + USE, "2_b.txt": USE})
    archive(tmp_path / "head", {"1_a.txt": USE, "2_b.txt": ALLOCATOR + USE})
    done = ciguard("compare", "base", "head", cwd=tmp_path)
    assert done.stdout.startswith("MIXED: 1 failure more often; 1 failure less often; values: 2")


SERVER: Final = "{server}/octo-org/shop/actions/runs/7/job/{job}"
TOKEN: Final = "ghs_a"
LOG: Final = """\
\ufeff2026-06-08T13:58:50.1000000Z Current runner version: '2.330.0'
2026-06-08T13:58:52.1000000Z ##[group]Run make test
2026-06-08T13:58:53.1000000Z bytes_in_use: {value}
2026-06-08T13:58:54.1000000Z panic: test timed out after 1m0s
2026-06-08T13:58:55.1000000Z Cleaning up orphan processes
"""


def environ_of(server: FakeGitHub) -> dict[str, str]:
    place = server.address.removesuffix("/api/v3")
    return {"GITHUB_TOKEN": TOKEN, "GITHUB_SERVER_URL": place, "GITHUB_API_URL": server.address}


def test_logs_of_two_jobs_are_compared_and_lines_linked(ciguard: Ciguard, tmp_path: Path) -> None:
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        urls = []
        for value in (5, 4):
            steps = (("Set up job", "success"), ("Run make test", "success"))
            log = LOG.replace("{value}", str(value))
            job = add_job(server, "tests (1)", steps=steps, log=log)
            (known,) = [one for one in server.jobs if one["id"] == job]
            for step, second in zip(known["steps"], (50, 52), strict=True):
                step["started_at"] = f"2026-06-08T13:58:{second}Z"
            urls.append(SERVER.format(server=server.address.removesuffix("/api/v3"), job=job))
        base, head = (f"{url}#step:2:3" for url in urls)  # copied with the line that was looked at
        environ = environ_of(server)
        done = ciguard(
            "compare", base, head, "--format", "markdown", cwd=tmp_path, expect=0, **environ
        )
        pages = [one["html_url"] for one in server.jobs[-2:]]
    assert "BETTER" in done.stdout
    for page in pages:
        assert f"[2:2]({page}#step:2:2)" in done.stdout


def test_a_step_that_was_skipped_is_not_better(ciguard: Ciguard, tmp_path: Path) -> None:
    lines = LOG.splitlines(keepends=True)
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        urls = []
        for conclusion, log in (("failure", LOG), ("skipped", lines[0] + lines[-1])):
            steps = (("Set up job", "success"), ("Run make test", conclusion))
            job = add_job(server, "tests (1)", steps=steps, log=log.replace("{value}", "5"))
            (known,) = [one for one in server.jobs if one["id"] == job]
            for step, second in zip(known["steps"], (50, 52), strict=True):
                step["started_at"] = f"2026-06-08T13:58:{second}Z"
            urls.append(SERVER.format(server=server.address.removesuffix("/api/v3"), job=job))
        done = ciguard("compare", *urls, cwd=tmp_path, expect=0, **environ_of(server))
    sentence = " ".join(done.stdout.split())
    reason = "UNKNOWN: the candidate has no log of step Run make test; "
    assert sentence.startswith(reason)


def test_a_job_that_runs_has_no_whole_log(ciguard: Ciguard, tmp_path: Path) -> None:
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        job = add_job(server, "tests (1)", status="in_progress", conclusion=None)
        url = SERVER.format(server=server.address.removesuffix("/api/v3"), job=job)
        environ = environ_of(server)
        done = ciguard("compare", url, url, cwd=tmp_path, expect=3, **environ)
    assert "the job is in_progress" in done.stderr


def test_a_log_that_github_has_not_is_unknown(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "base.log").write_text("bytes_in_use: 5\n")
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        job = add_job(server, "tests (1)", conclusion="cancelled")
        url = SERVER.format(server=server.address.removesuffix("/api/v3"), job=job)
        done = ciguard("compare", "base.log", url, cwd=tmp_path, expect=0, **environ_of(server))
        strict = ("compare", "base.log", url, "--fail-on", "incomplete")
        ciguard(*strict, cwd=tmp_path, expect=13, **environ_of(server))
    assert done.stdout.startswith("UNKNOWN: a log of the candidate is missing on GitHub")
