"""`ciguard coverage`: real tools in 1, 4 and 8 shards, lost and damaged parts, lines of a diff."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jsonschema
import pytest
from conftest import Ciguard, Golden, clean_environment
from frameworks.loop import GO, GO_CACHE, NODE_MODULES, Loop, needs_node
from guard.fixtures import World, make_plan
from guard.test_effective_policy import PolicyCheckout
from pydantic import TypeAdapter
from run.frameworks.test_registry import batch

from ciguard.codec import plan_file
from ciguard.codec.coverage_file import Coverage
from ciguard.model import CoverageFiles, EndLine, EventLine, Suite
from ciguard.run.result_collector import ResultCollector
from ciguard.run.resume import PriorLegs

if TYPE_CHECKING:
    Whole = tuple[int, int, float]  # covered, total, percentage

SCHEMA = Path(__file__).parents[2] / "docs/reference/schemas/coverage.schema.json"
PROJECTS = Path(__file__).parent / "projects"
CWDS = {"go": "go/svc", "lcov": "jest", "cobertura of Jest": "jest"}
LETTERS = "abcdefgh"  # one test file each; the tests of g and h call what that of b calls


def call(folder: Path, *words: str | Path) -> str:
    environ = clean_environment(GOCACHE=str(GO_CACHE), GOTOOLCHAIN="local", GOFLAGS="-mod=mod")
    done = subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def coverage(folder: Path, verb: str, *words: str | Path) -> None:
    call(folder, sys.executable, "-m", "coverage", verb, *words)


def run_python(folder: Path, letters: str, part: Path) -> None:
    names = [f"test_{x}" for x in letters]
    coverage(folder, "run", f"--data-file={part}", "-m", "unittest", "-q", *names)


def whole_python(folder: Path, part: Path) -> Whole:
    coverage(folder, "json", "-q", f"--data-file={part}", "-o", "whole.json", "--fail-under=0")
    totals = json.loads((folder / "whole.json").read_text())["totals"]
    covered, branches = totals["covered_lines"], totals["covered_branches"]
    assert branches, "the percentage counts them"
    total = totals["num_statements"] + totals["num_branches"]
    return covered + branches, total, round(totals["percent_covered"], 2)


def run_cobertura(folder: Path, letters: str, part: Path) -> None:
    run_python(folder, letters, folder / "data")
    coverage(folder, "xml", "-q", "--data-file=data", "-o", part, "--fail-under=0")


def whole_cobertura(_: Path, part: Path) -> Whole:
    root = dict(re.findall(r'lines-(\w+)="(\d+)"', part.read_text()))
    covered, total = int(root["covered"]), int(root["valid"])
    return covered, total, covered * 10_000 // total / 100


def run_jest(folder: Path, letters: str, part: Path, file: str = "lcov.info") -> None:
    formats = ("lcovonly", "cobertura", "json-summary")
    reporters = [f"--coverageReporters={name}" for name in formats]
    names = [f"{x}.test.js" for x in letters]
    jest = NODE_MODULES / "jest/bin/jest.js"
    call(folder / "jest", "node", jest, "-i", "--coverage", *reporters, *names)
    (folder / "jest/coverage" / file).rename(part)


def run_jest_xml(folder: Path, letters: str, part: Path) -> None:
    run_jest(folder, letters, part, "cobertura-coverage.xml")


def whole_jest(folder: Path, _: Path) -> Whole:
    summary = json.loads((folder / "jest/coverage/coverage-summary.json").read_text())
    lines = summary["total"]["lines"]
    return lines["covered"], lines["total"], lines["pct"]


def run_go(folder: Path, letters: str, part: Path) -> None:
    names = "|".join(f"Test{x.upper()}" for x in letters)
    words = ("-coverpkg=./...", f"-coverprofile={part}", f"-run=^({names})$", "./...")
    call(folder / "go/svc", GO / "go", "test", *words)


def whole_go(folder: Path, part: Path) -> Whole:
    text = call(folder / "go/svc", GO / "go", "tool", "cover", f"-func={part}")
    return 12, 19, float(text.rsplit(maxsplit=1)[1].removesuffix("%"))


RC = "[run]\nbranch = true\nsource = shop\n[report]\nprecision = 2\nfail_under = 100\n"
PYTHON = {".coveragerc": RC, "shop/__init__.py": "", "shop/never.py": "def f():\n    return 1\n"}
BRANCHES = "".join(f"    if x == '{x}':\n        return 1\n" for x in LETTERS)
PYTHON["shop/shared.py"] = f"def f(x):\n{BRANCHES}    return 2\n"
PYTHON |= {
    f"test_{x}.py": "import unittest\nfrom shop import shared\nclass Test(unittest.TestCase):\n"
    f"    def test(self):\n        shared.f('{called}')\n"
    for x, called in zip(LETTERS, "abcdefbb", strict=True)
}
# How tests of some letters leave their part in a file, and the tool's own answer for a part.
TOOLS: dict[str, tuple[Callable[[Path, str, Path], None], Callable[[Path, Path], Whole]]] = {
    "coverage.py": (run_python, whole_python),
    "cobertura": (run_cobertura, whole_cobertura),
    "lcov": (run_jest, whole_jest),
    "cobertura of Jest": (run_jest_xml, whole_jest),
    "go": (run_go, whole_go),
}


def needs_tool(format_: str) -> None:
    if "lcov" in format_ or "Jest" in format_:
        needs_node("jest")
    if format_ == "go" and not (GO / "go").is_file():
        pytest.skip("needs Go: make tools")


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


PART = "coverage/process-001/part"


def world(format_: str, parts: Mapping[str, bytes], cwd: str = ".") -> World:
    """A run with a shard for each part; the file of an empty part is lost."""
    plan = make_plan({shard: (f"t{shard}",) for shard in parts})
    files = CoverageFiles(format_, ("part",))
    suites = {"": replace(plan.suites[""], cwd=cwd, coverage=files), "other": plan.suites[""]}
    run = World(plan_file.decode(plan_file.encode(replace(plan, suites=suites)), "plan.json"))
    for shard, part in parts.items():
        run.legs[shard].header = replace(run.legs[shard].header, root=ROOT)
        run.extra |= {f"{run.legs[shard].folder}/{PART}": part} if part else {}
        event = EventLine("coverage", 1.0, 1, detail="part", reason="collected")
        run.legs[shard].own.insert(0, event)
    return run


def combine(
    ciguard: Ciguard, run: World, folder: Path, **environ: str
) -> tuple[str, dict[str, Any]]:
    """What is printed, and the JSON, which has the documented schema."""
    plan, records = run.write(folder / "run")
    words = ("--plan", plan, "--records", records, "-o", "coverage.json")
    done = ciguard("coverage", *words, cwd=folder, **cast("Any", environ))
    content = json.loads((folder / "coverage.json").read_text())
    jsonschema.validate(content, json.loads(SCHEMA.read_text("utf-8")))
    return done.stdout, content


@pytest.mark.parametrize("format_", TOOLS)
def test_total_of_shards_is_that_of_the_whole_run(
    ciguard: Ciguard, tmp_path: Path, format_: str
) -> None:
    needs_tool(format_)
    collect, whole = TOOLS[format_]
    write(tmp_path, PYTHON)
    shutil.copytree(PROJECTS, tmp_path, dirs_exist_ok=True)
    answers = []
    for count in (8, 4, 1):
        parts = {}
        for number in range(count):
            collect(tmp_path, LETTERS[number::count], tmp_path / "part")
            parts[f"{number + 1:02}"] = (tmp_path / "part").read_bytes()
        run = world(format_.partition(" ")[0], parts, CWDS.get(format_, "."))
        answers.append(combine(ciguard, run, tmp_path))
        shutil.rmtree(tmp_path / "run")
    covered, total, percent = whole(tmp_path, tmp_path / "part")
    text, content = answers[0]
    assert tuple(content["total"].values()) == (covered, total, percent)
    assert text.startswith(f"coverage {percent:g} % of {total} ")
    assert ("branches" in text) == (format_ == "coverage.py")
    assert answers == answers[:1] * 3
    assert all((tmp_path / name).is_file() for name in content["files"])


NONE = "none collected in"
DA = "SF:{}\nDA:{},{}\nend_of_record\n"


def drop_end(run: World) -> None:
    run.drop("02", EndLine)


def drop_record(run: World) -> None:
    del run.legs["02"]


def run_without_event(run: World) -> None:
    run.drop("02", EventLine)


LOST: dict[str, Callable[[World], object]] = {
    "no record": drop_record,
    "its record is incomplete": drop_end,
    "process 1 left nothing": run_without_event,
    "no coverage/process-001/part": lambda run: run.extra.pop(f"{run.legs['02'].folder}/{PART}"),
    "a test of process 1 ended: crash": lambda run: run.result(
        "02", "t02", outcome="died", ending="crash"
    ),
    "process 2 left no new part": lambda run: run.legs["02"].own.insert(
        1, EventLine("coverage", 2.0, 2, detail="left no new part", reason="none")
    ),
}


@pytest.mark.parametrize("why", LOST)
def test_lost_part_makes_no_smaller_number(ciguard: Ciguard, tmp_path: Path, why: str) -> None:
    run = world("lcov", dict.fromkeys(("01", "02", "03"), DA.format("a.js", 1, 1).encode()))
    LOST[why](run)
    text, content = combine(ciguard, run, tmp_path)
    assert text == f"coverage incomplete: shard 02 ({why})\n"
    assert (content["missing"], content["total"], content["files"]) == (["02"], None, {})


def test_suite_without_coverage_is_stated(ciguard: Ciguard, tmp_path: Path) -> None:
    run = world("lcov", {"01": DA.format("a.js", 1, 1).encode(), "02": b""})
    other = tuple(replace(unit, suite="other") for unit in run.plan.shards[1].units)
    shards = (run.plan.shards[0], replace(run.plan.shards[1], units=other))
    run.plan = plan_file.decode(plan_file.encode(replace(run.plan, shards=shards)), "plan.json")
    run.legs = World(run.plan).legs
    event = EventLine("coverage", 1.0, 1, detail="part", reason="collected")
    run.legs["01"].own.insert(0, event)
    text, content = combine(ciguard, run, tmp_path)
    said = f"coverage 100 % of 1 line, {NONE} other\n"
    assert (text, content["not_collected"]) == (said, ["other"])


SUITES = {
    "coverage.py": """framework = "pytest"
args = ["--cov=shop", "--cov-branch", "--cov-report="]
command = ["{python}", "-m", "pytest", "-p", "no:cacheprovider"]""",
    "lcov": """framework = "jest"
cwd = "jest"
command = ["node", "{modules}/jest/bin/jest.js", "--coverage"]""",
    "go": """framework = "go"
cwd = "go/svc"
command = ["{go}/go", "test", "-coverpkg=./...", "-coverprofile=cover.out"]
args = ["./..."]""",
}


def combine_shards(ciguard: Ciguard, loop: Loop) -> tuple[str, dict[str, Any]]:
    words = ("--plan", "plan.json", "--records", "records", "-o", "coverage.json")
    done = ciguard("coverage", *words, cwd=loop.folder)
    return done.stdout, json.loads((loop.folder / "coverage.json").read_text())


@pytest.mark.parametrize("format_", SUITES)
def test_supervised_shards_have_the_total_of_the_whole_run(
    ciguard: Ciguard, tmp_path: Path, format_: str
) -> None:
    needs_tool(format_)
    collect, whole = TOOLS[format_]
    write(tmp_path, PYTHON | {".coveragerc": RC.replace("fail_under = 100\n", "")})
    shutil.copytree(PROJECTS, tmp_path, dirs_exist_ok=True)
    collect(tmp_path, LETTERS, tmp_path / "part")  # the suite's old file is there from now on
    expected = whole(tmp_path, tmp_path / "part")
    loop = Loop(tmp_path, {"GOCACHE": str(GO_CACHE), "GOTOOLCHAIN": "local"})
    suite = SUITES[format_].format(python=sys.executable, modules=NODE_MODULES, go=GO)
    loop.configure(f"[coverage]\nformat = '{format_}'\n[suite.'']\n{suite}\n")
    assert loop.run()["verdict"] == "passed", loop.printed
    text, content = combine_shards(ciguard, loop)
    assert tuple((content["total"] or {}).values()) == expected, text


# Each unit covers its line; each process replaces the file.
PROGRAM = """import json, os, sys
units = open(os.environ["CIGUARD_UNITS_FILE"]).read().split()
how = os.environ["HOW"]
with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
    for unit in units:
        print(json.dumps({"type": "start", "unit": unit}), file=record, flush=True)
        if how == "dies": os._exit(9)
        result = {"type": "result", "unit": unit, "outcome": "passed", "wall_s": 0}
        print(json.dumps(result), file=record, flush=True)
if how not in ("silent", "idle"):
    with open("lcov.info", "w") as file:
        lines = "".join(f"DA:{n},{int(str(n) == how)}\\n" for n in range(1, 4))
        print(f"SF:a.js\\n{lines}end_of_record", file=file)
"""
PROCESSES = [
    (("1", "2"), f"coverage 66.66 % of 3 lines, {NONE} y\n"),
    (("1", "dies"), "coverage incomplete: shard 01 (process 2 left no new coverage/lcov.info or"),
    (("silent",), "coverage incomplete: shard 01 (process 1 left no new coverage/lcov.info or"),
    (("1", "idle"), f"coverage 33.33 % of 3 lines, {NONE} x vidle, y\n"),
]


@pytest.mark.parametrize(("ways", "expected"), PROCESSES)
def test_process_that_replaces_the_file_loses_nothing(
    ciguard: Ciguard, tmp_path: Path, ways: tuple[str, ...], expected: str
) -> None:
    write(tmp_path, {"program.py": PROGRAM, "lcov.info": DA.format("a.js", 3, 1)})
    variants = "".join(f"[suite.x.variant.v{way}]\nenv = {{HOW = '{way}'}}\n" for way in ways)
    own = (
        "framework = 'command'\nlist = ['echo', 'unit']\n"
        f"command = ['{sys.executable}', 'program.py']\n"
    )
    suite = (
        "[coverage]\nformat = 'lcov'\nsuites = ['x']\nwithout = ['*idle']\n"
        f"[suite.x]\n{own}{variants}[suite.y]\n{own}env = {{HOW = 'silent'}}\n"
    )
    loop = Loop(tmp_path, shards=("01",))
    loop.configure(suite)
    first = {"GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1"}
    loop.run_shard("01", "first", **first)
    assert combine_shards(ciguard, loop)[0].startswith(expected)
    # A second attempt that resumes the first has the parts of both.
    loop.run_shard(
        "01", "next", "--resume-from", "records", GITHUB_RUN_ID="1", GITHUB_RUN_ATTEMPT="2"
    )
    shutil.rmtree(tmp_path / "records/first")
    assert combine_shards(ciguard, loop)[0].startswith(expected)


def test_folder_of_the_step_is_that_of_the_paths(ciguard: Ciguard, tmp_path: Path) -> None:
    """Of an action's `working-directory`, which the plan does not know."""
    write(tmp_path / "svc", {"program.py": PROGRAM, "a.js": ""})
    suite = f"framework = 'command'\nlist = ['echo', 'unit']\ncommand = ['{sys.executable}'"
    loop = Loop(tmp_path, {"HOW": "1"}, shards=("01",))
    loop.configure(f"[coverage]\nformat = 'lcov'\n[suite.x]\n{suite}, 'program.py']\n")
    loop.run_shard("01", "01", "--working-directory", "svc")
    assert combine_shards(ciguard, loop)[1]["files"] == {"svc/a.js": [1, 3]}


XML = (
    "<coverage><sources><source>/r/svc</source></sources><class filename='{}'>{}</class></coverage>"
)
LINE = "<line number='{}' hits='{}'/>"
COVERLET = (
    "<CoverageSession><Module><Files><File uid='4' fullPath='C:\\r\\app\\A.cs'/></Files>"
    "<SequencePoint vc='{}' sl='3' fileid='4'/><SequencePoint vc='0' sl='4' fileid='4'/>"
    "</Module></CoverageSession>"
)
DAMAGED = [
    ("lcov", "SF:a.js\nDA:1,1\n", "its last line is not end_of_record"),
    ("lcov", "DA:1,1\nend_of_record\n", "line '1' of file ''"),
    ("lcov", "SF:a\nDA:1\nend_of_record\n", "could not convert"),
    ("lcov", "SF:a\nDA:99999999,1\nend_of_record\n", "line '99999999' of file 'a'"),
    ("go", "", "no coverage/process-001/part"),
    ("go", "x:1.1,2.2 1 1\n", "its first line names no mode"),
    ("go", "mode: set\nx:1.1,2.2 1", "line b'x:1.1,2.2 1'"),
    ("cobertura", XML.format("a", LINE.format(1, "x")), "malformed XML"),
    ("cobertura", "<testsuite/>", "XML with the root <testsuite>, which is not this format's"),
    ("cobertura", XML.format("a", LINE.format(1, 1))[:-9], "unclosed token"),
    ("cobertura", "<!DOCTYPE c [<!ENTITY a 'b'>]><coverage/>", "an entity is declared"),
    ("opencover", COVERLET.replace("uid='4'", "uid='5'"), "malformed XML: '4'"),
    ("coverage.py", "{}", "it is no data file"),
]


@pytest.mark.parametrize(("format_", "text", "error"), DAMAGED)
def test_damaged_part_is_named(
    ciguard: Ciguard, tmp_path: Path, format_: str, text: str, error: str
) -> None:
    printed, content = combine(ciguard, world(format_, {"01": text.encode()}), tmp_path)
    assert printed.startswith("coverage incomplete: ")
    assert error in printed
    assert content["total"] is None


def test_name_of_a_part_is_no_workflow_command(ciguard: Ciguard, tmp_path: Path) -> None:
    run = world("lcov", {"01": b""})
    event = EventLine("coverage", 1.0, 1, detail="\n::error::", reason="collected")
    run.legs["01"].own.insert(0, event)
    text, _ = combine(ciguard, run, tmp_path)
    assert text.count("\n") == 1


def test_coverage_py_that_fails_gives_no_number(ciguard: Ciguard, tmp_path: Path) -> None:
    run = world("coverage.py", {"01": b"SQLite format 3\0 and no more"})
    plan, records = run.write(tmp_path)
    words = ("coverage", "--plan", plan, "--records", records)
    printed = ciguard(*words, cwd=tmp_path).stdout
    assert printed.startswith("coverage incomplete: coverage.exceptions.DataError: ")
    assert "file is not a database" in printed


@pytest.mark.parametrize("folder", ["/", "../..", "a\0", "\ud800"])
def test_folder_in_a_record_is_one_of_the_repository(
    ciguard: Ciguard, tmp_path: Path, folder: str
) -> None:
    run = world("lcov", {"01": DA.format("a.js", 1, 1).encode()})
    run.legs["01"].header = replace(run.legs["01"].header, folder=folder)
    text = combine(ciguard, run, tmp_path)[0]
    assert text == f"coverage incomplete: shard 01 ({folder!r} is no folder of the repository)\n"


ROOT = "/home/runner/work/r/r"
PLACES = [
    ("lcov", DA, f"{ROOT}/svc/src/a.js", "svc/src/a.js"),
    ("lcov", DA, "src/a.js", "svc/src/a.js"),
    ("lcov", DA, "..\\lib\\b.js", "lib/b.js"),
    ("lcov", DA, "../../../../etc/passwd", "etc/passwd"),
    ("lcov", DA, "/gone/c.js", "gone/c.js"),
    ("lcov", DA, "dist/c.js", "svc/dist/c.js"),  # not c.js
    ("lcov", DA, "/app/c.js", "app/c.js"),  # of another root: a bare name may be any file's
    ("lcov", DA, f"{ROOT}/c.js", "c.js"),
    ("lcov", DA, "D:\\w\\lib\\b.js", "lib/b.js"),
    ("go", "mode: set\n{}:{}.1,1.9 1 {}\n", "example.com/m/src/a.js", "svc/src/a.js"),
    ("go", "mode: set\n{}:{}.1,1.9 1 {}\n", "example.com/m/deep/a.js", "x/a.js"),  # nested
    ("go", "mode: set\n{}:{}.1,1.9 1 {}\n", "other.com/m/a.js", "other.com/m/a.js"),
    ("lcov", DA, "file://d:\\r\\r\\src\\a.js", "src/a.js"),
    ("cobertura", XML.replace("{}</class>", LINE + "</class>"), "src/a.js", "svc/src/a.js"),
]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_paths_are_those_of_the_repository(
    ciguard: Ciguard, tmp_path: Path, place: tuple[str, str, str, str]
) -> None:
    format_, part, path, expected = place
    names = ("svc/src/a.js", "lib/b.js", "src/a.js", "c.js")
    modules = {"svc/go.mod": "module example.com/m\n", "x/go.mod": "module example.com/m/deep\n"}
    write(tmp_path, {**dict.fromkeys(names, ""), **modules})
    run = world(format_, {"01": part.format(path, 1, 1).encode()}, "svc")
    if "d:" in path:
        run.legs["01"].header = replace(run.legs["01"].header, root="D:/r/r")
    _, content = combine(ciguard, run, tmp_path)
    assert content["files"] == {expected: [1, 1]}


def test_files_of_another_root_have_one(ciguard: Ciguard, tmp_path: Path) -> None:
    """Of a tool in a container; the other files are those of a dependency."""
    write(tmp_path, dict.fromkeys(("src/a.js", "src/b.js", "c.js"), ""))
    paths = ["/app/src/a.js", "/app/src/b.js", "/app/c.js", "/home/u/dep/src/a.js"]
    parts = {f"{n:02}": DA.format(path, 1, 1).encode() for n, path in enumerate(paths)}
    content = combine(ciguard, world("lcov", parts), tmp_path)[1]
    assert [*content["files"]] == ["c.js", "home/u/dep/src/a.js", "src/a.js", "src/b.js"]
    part = DA.format(f"{ROOT}/src/a.js", 1, 1) + DA.format(paths[3], 1, 1)
    shutil.rmtree(tmp_path / "run")
    content = combine(ciguard, world("lcov", {"01": part.encode()}), tmp_path)[1]
    assert [*content["files"]] == ["home/u/dep/src/a.js", "src/a.js"]


def test_one_of_the_sources_has_the_file(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, {"a/m.py": "", "b/n.py": "", "b/m.py": ""})
    sources = "".join(f"<source>{ROOT}/{folder}</source>" for folder in "ab")
    text = f"<coverage><sources>{sources}</sources><class filename='{{}}'>{LINE}</class></coverage>"
    run = world("cobertura", {"01": text.format("n.py", 1, 1).encode()})
    assert combine(ciguard, run, tmp_path)[1]["files"] == {"b/n.py": [1, 1]}
    shutil.rmtree(tmp_path / "run")
    run = world("cobertura", {"01": text.format("m.py", 1, 1).encode()})
    assert "may be a/m.py or b/m.py" in combine(ciguard, run, tmp_path)[0]


def test_each_suite_has_its_configuration(ciguard: Ciguard, tmp_path: Path) -> None:
    """Without `source`, and with files of the same name."""
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    args = ["--cov", "--cov-config=ci/cov.cfg", "--cov-report="]
    loop, config, expected = Loop(tmp_path), "[coverage]\nformat = 'coverage.py'\n", {}
    for folder, skipped in (("a", "2"), ("b", "3")):
        own = f"[run]\nrelative_files = true\n[report]\nexclude_also = return {skipped}\n"
        code = "def f(x):\n    if x:\n        return 2\n    return 3\n"
        test = f"import m\ndef test_m():\n    m.f('{folder}' == 'a')\n"
        write(tmp_path / folder, {"ci/cov.cfg": own, "m.py": code, "test_m.py": test})
        call(tmp_path / folder, *words, *args, "--cov-report=json:whole.json")
        files = json.loads((tmp_path / folder / "whole.json").read_text())["files"]
        for name, file in files.items():
            totals = file["summary"]
            expected[f"{folder}/{name}"] = [totals["covered_lines"], totals["num_statements"]]
        suite = f"framework = 'pytest'\ncwd = '{folder}'\ncommand = {words}\nargs = {args}\n"
        config += f"[suite.{folder}]\n{suite}"
    loop.configure(config)
    assert loop.run()["verdict"] == "passed", loop.printed
    text, content = combine_shards(ciguard, loop)
    assert content["files"] == expected, text
    assert len(expected) == 4


def test_configurations_that_measure_the_same_files_are_united(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    """However a suite names its own: lines and branches of a file count once."""
    config = "[run]\nbranch = true\nomit = test_*\n[report]\nexclude_also = never\n"
    code = "def f(x):\n    if x == 1:\n        return 2\n    if x == 2:\n        x = 9  # never\n"
    write(tmp_path, {"own.cfg": config, ".coveragerc": config, "m.py": f"{code}    return 3\n"})
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--cov=."]
    named = ["--cov-config=own.cfg", "PYTEST_ADDOPTS = '--cov-config=own.cfg'", ""]
    named += ["COVERAGE_RCFILE = 'own.cfg'"]
    loop, configuration = Loop(tmp_path), "[coverage]\nformat = 'coverage.py'\n"
    for number, name in enumerate(named):
        write(tmp_path, {f"test_{number}.py": f"import m\ndef test_m():\n    m.f({number})\n"})
        args, env = ([name], "") if name.startswith("-") else ([], name)
        configuration += f"[suite.{'abcd'[number]}]\nframework = 'pytest'\ncommand = {words}\n"
        configuration += f"args = ['test_{number}.py']\n[suite.{'abcd'[number]}.variant.v]\n"
        configuration += f"args = {args}\nenv = {{ {env} }}\n"
    call(tmp_path, *words, named[0], "--cov-report=json:whole.json")
    totals = json.loads((tmp_path / "whole.json").read_text())["totals"]
    loop.configure(configuration)
    assert loop.run()["verdict"] == "passed", loop.printed
    text, content = combine_shards(ciguard, loop)
    covered = totals["covered_lines"] + totals["covered_branches"]
    total = totals["num_statements"] + totals["num_branches"]
    assert tuple(content["total"].values())[:2] == (covered, total), text
    assert "branches" in text


def test_variant_that_measures_nothing_left_nothing(ciguard: Ciguard, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--cov=."]
    write(tmp_path, {"test_m.py": "def test_m():\n    pass\n"})
    loop = Loop(tmp_path, shards=("01",))
    variants = "[suite.''.variant.with]\n[suite.''.variant.without]\nargs = ['--no-cov']\n"
    loop.configure(f"[coverage]\nformat = 'coverage.py'\n[suite.'']\ncommand = {words}\n{variants}")
    assert loop.run()["verdict"] == "passed", loop.printed
    text, _ = combine_shards(ciguard, loop)
    assert (
        text == "coverage incomplete: shard 01 (process 2 left no new .coverage or .coverage.*)\n"
    )


def test_opencover_is_united(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, {"app/A.cs": ""})
    parts = {f"{n:02}": COVERLET.format(n - 1).encode() for n in (1, 2)}
    text, content = combine(ciguard, world("opencover", parts), tmp_path)
    assert text == "coverage 50 % of 2 lines\n"
    assert content["files"] == {"app/A.cs": [1, 2]}


def test_lines_of_the_pull_request(ciguard: Ciguard, tmp_path: Path) -> None:
    before = "".join(f"{number}\n" for number in range(1, 10))
    # A line of content that looks like one of the diff.
    after = before.replace("3\n", "++ b/c.js\n").replace("8\n", "") + "10\n11"
    often = "}\n" * 300
    base = {"a.js": before, "é ü.js": "1\n", 'q".js': "1\n", "c.js": "1\n", "often.js": often}
    change: dict[str, str | None] = {
        "a.js": after,
        "é ü.js": "1\n2\n",
        'q".js': "2\n",
        "n.js": "1\n",
        "often.js": f"x\n{often}",
    }
    job = PolicyCheckout(tmp_path).propose(base, change, 1)
    reports = [("a.js", 3, 0), ("a.js", 4, 0), ("a.js", 9, 1), ("a.js", 10, 0), ("é ü.js", 2, 1)]
    reports += [("c.js", 1, 0), ("n.js", 1, 0), ("often.js", 1, 1), ("often.js", 9, 1)]
    parts = {"01": "".join(DA.format(*item) for item in reports), "02": DA.format("a.js", 10, 2)}
    run = world("lcov", {shard: text.encode() for shard, text in parts.items()})
    environ = job.environ()
    environ.pop("PATH")
    text, content = combine(ciguard, run, job.folder, **environ)
    assert text == "coverage 55.55 % of 9 lines, diff 66.66 % of 6 lines\n"
    assert content["diff"] == {"covered": 4, "total": 6, "percent": 66.66}
    assert content["uncovered"] == {"a.js": [3], "n.js": [1]}


def test_diff_of_names_that_are_elsewhere_is_incomplete(ciguard: Ciguard, tmp_path: Path) -> None:
    """As of an installed package: they may be those of the change."""
    change: dict[str, str | None] = {"src/p/a.py": "1\n2\n", "docs/b.py": "1\n"}
    job = PolicyCheckout(tmp_path).propose({"src/p/a.py": "1\n"}, change, 1)
    environ = job.environ()
    environ.pop("PATH")
    run = world("lcov", {"01": DA.format("/x/site-packages/p/a.py", 1, 1).encode()})
    content = combine(ciguard, run, job.folder, **environ)[1]
    assert (content["total"]["percent"], content["diff"]) == (100, None)
    assert content["incomplete"] == ["'x/site-packages/p/a.py' may be 'src/p/a.py'"]
    shutil.rmtree(job.folder / "run")
    run = world("lcov", {"01": DA.format("/x/site-packages/p/c.py", 1, 1).encode()})
    assert combine(ciguard, run, job.folder, **environ)[1]["diff"]["total"] == 0


def test_file_of_another_suite_is_none_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = CoverageFiles("lcov", ("lcov.info",))
    suites = {name: Suite("jest", ("jest",), coverage=files) for name in "ab"}
    collector, found = ResultCollector(suites, str(tmp_path / "record"), PriorLegs()), []
    for process, (suite, text) in enumerate((("a", "1"), ("b", "22"), ("a", "")), 1):
        collector.snapshot(suite)
        if text:
            (tmp_path / "lcov.info").write_text(text)
        files_of = replace(batch(), suite=suite, process=process)
        events, _ = collector.collect_after(files_of, (), 1.0, runs_first=True)
        found += [event.reason for event in events]
    assert found == ["collected", "collected", "none"]


def test_schema_is_documented(golden: Golden) -> None:
    schema = TypeAdapter(Coverage).json_schema(mode="serialization")
    golden(json.dumps(schema, indent=2) + "\n", SCHEMA)
