"""ciguard's program for .NET on a machine with an SDK, compared with what really happened.

    make dotnet-kit                     # packs .dotnet-kit, at most 1 MB: copy that folder
    python3 dotnet.py                   # builds projects and runs each situation: 30 minutes
    python3 dotnet.py PROJECT [OPTIONS of dotnet test]

The first compares results, culprit and exit code with the files that bodies of tests write. The
second compares with the TRX file of `dotnet test`, then ends hosts and jobs at random moments:
nothing that was published may be lost. Ends with 1 if anything differs. Standard library only,
Python 3.8+; needs NuGet, but no package of Python.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence, Tuple
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "ciguard-run.pyz"
SHARD = "01"
LIMIT_S = 1800.0  # of a command
HANGS = -1000  # instead of the exit code of a command that takes longer
Result = Tuple[str, str, str]  # unit, case, outcome
Truth = Tuple[Tuple[str, str], str]  # the names that a case may have in a record, and outcome

VARIANTS = json.loads((HERE / "dotnet_projects/variants.json").read_text())
# Method -> cases.
TESTS = {"Adds": 1, "Fails": 1, "Rows": 3, "Named": 1, "Skipped": 1, "TimesOut": 1}
TESTS = {**TESTS, "A_Before": 1, "B_Accident": 1, "C_After": 1}
# What ACCIDENT is -> outcomes that are neither passed nor skipped; None: which test is blamed, if
# one is, depends on the framework.
SITUATIONS: dict[str, dict[str, str] | None] = {
    "none": {},
    "fail": {"Fails": "failed"},
    "timeout": {"TimesOut": "failed"},
    **{
        name: {"B_Accident": "died"}
        for name in ("exit0", "exit3", "failfast", "stackoverflow", "kill", "thread")
    },
    "hang": {"B_Accident": "timeout"},
    "asyncvoid": None,
}
HOST = re.compile(rb"(?:^|[\0/])testhost[^\0/]*\0|\0--dotnet-test-pipe\0")  # in its words
LABEL = re.compile(r"\[[^\]]+\] ")  # of a unit: `[Shop.Tests net8.0] `
NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd]")
TRX_OUTCOMES = {"Passed": "passed", "Failed": "failed", "Timeout": "failed", "Error": "failed"}


def write_project(variant: str, framework: str, folder: Path) -> None:
    shutil.copytree(HERE / "dotnet_projects", folder)
    text, own = (folder / "Shop.csproj").read_text(), VARIANTS[variant]
    references = (
        f'<PackageReference Include="{name}" Version="{version}" />'
        for name, version in own["packages"].items()
    )
    names = {"FRAMEWORK": framework, "KIND": own["kind"], "SOURCE": own["source"]}
    for name, value in {**names, "PACKAGES": "".join(references)}.items():
        text = text.replace(name, value)
    (folder / "Shop.csproj").write_text(text)


def method_of(unit: str) -> str:
    """Return the method of a unit: "Rows" for `[A net10.0] Shop.Tests.Prices.Rows`."""
    return unit.partition("(")[0].rpartition(".")[2]


def read_lines(record: Path) -> list[dict[str, Any]]:
    """Return the lines of a record; the last one of a file may be cut."""
    lines = []
    for path in sorted(record.glob("**/*.jsonl")):
        process = 0
        for line in path.read_bytes().splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            process = found.get("process", process)
            lines.append({"process": process, **found})
    return lines


def results_of(lines: Iterable[Mapping[str, Any]]) -> list[Result]:
    """Return the results of each unit in the last process that has any."""
    last: dict[str, int] = {}
    found: dict[tuple[str, int], list[Result]] = {}
    for line in lines:
        if line["type"] == "result":
            unit, process = line["unit"], line["process"]
            last[unit] = max(process, last.get(unit, 0))
            outcome = "timeout" if line.get("ending") == "timeout" else line["outcome"]
            case = line.get("case") or unit
            found.setdefault((unit, process), []).append((unit, case, outcome))
    return [one for unit, process in last.items() for one in found[unit, process]]


def differences(
    results: Sequence[Result],
    marks: Mapping[str, int],
    bad: Mapping[str, str] | None,
    exit_code: int,
) -> list[str]:
    """Compare a run with the bodies that ran to their end, and with the expected outcomes.

    Args:
        marks: method -> times that its body ran to its end.
        bad: as in SITUATIONS.
    """
    outcomes: dict[str, list[str]] = {name: [] for name in TESTS}
    for unit, _, outcome in results:
        outcomes.setdefault(method_of(unit), []).append(outcome)
    found = []
    for name, several in outcomes.items():
        is_open = bad is None or name in bad
        if len(several) != TESTS.get(name, 0) and not (is_open and several):
            found.append(f"{name}: {len(several)} results")
        passed = several.count("passed")
        if passed > marks.get(name, 0):
            found.append(f"{name}: {passed} passed, and {marks.get(name, 0)} ran to the end")
        wrong = sorted({*several} - {"passed", "skipped"})
        if bad is not None and wrong != ([bad[name]] if name in bad else []):
            found.append(f"{name}: {', '.join(several)}")
        if "skipped" in several and name != "Skipped":
            found.append(f"{name}: skipped")
    if exit_code == HANGS:
        found.append("hangs")
    elif (exit_code == 0) != (bad == {}):
        found.append(f"exit code {exit_code}")
    return found


def read_trx(folder: Path) -> list[Truth]:
    results = []
    for path in folder.glob("**/*.trx"):
        root = ElementTree.parse(path).getroot()
        space = root.tag.partition("}")[0] + "}"
        classes = {
            # A fixture's arguments may hold commas; old adapters add the assembly.
            test.get("id"): re.sub(", [^,]+, Version=.*", "", str(method.get("className")))
            for test in root.iter(f"{space}UnitTest")
            for method in test.iter(f"{space}TestMethod")
        }
        for result in root.iter(f"{space}UnitTestResult"):
            name = str(result.get("testName"))
            names = (name, f"{classes.get(result.get('testId'))}.{name}")
            results.append((names, TRX_OUTCOMES.get(str(result.get("outcome")), "skipped")))
    return results


def trx_name(name: str) -> str:
    """Return a name as the TRX logger writes it: characters that XML lacks as `\\ud83d`."""
    units = name.encode("utf-16-le", "surrogatepass")
    return NOT_IN_XML.sub(
        lambda found: f"\\u{ord(found[0]):04x}",
        "".join(chr(low | high << 8) for low, high in zip(units[::2], units[1::2])),
    )


def in_trx(result: Result) -> tuple[str, str]:
    """Return name and outcome of a result as a TRX file has them."""
    # A case begins with the assembly only if its unit does: a test may be named "[GET] returns 1".
    unit, case, outcome = result
    label = LABEL.match(unit)
    return trx_name(case[label.end() :] if label else case), outcome


def compare_with_trx(
    results: Sequence[Result], truth: Sequence[Truth]
) -> tuple[list[str], list[str]]:
    """Return the results that only a TRX file has, and those that only the record has.

    A row of random data has another name in each run: such rows of a method are counted.
    """
    ours = Counter(map(in_trx, results))
    left, known = [], {name for names, _ in truth for name in names}
    for names, outcome in truth:
        key = next(((name, outcome) for name in names if ours[name, outcome]), None)
        if key:
            ours[key] -= 1
        else:
            left.append((names, outcome))
    missing, more = [], list((+ours).elements())
    for names, outcome in left:
        rows = [(name.partition("(")[0], outcome) for name in names if "(" in name]
        others = (one for one in more if (one[0].partition("(")[0], one[1]) in rows)
        renamed = next((one for one in others if one[0] not in known), None)
        if renamed:
            more.remove(renamed)
        else:
            missing.append(f"{names[0]} {outcome}")
    return missing, [f"{name} {outcome}" for name, outcome in more]


@dataclass
class Job:
    """A job with one shard that lists and runs a suite.

    Attributes:
        folder: of the suite. command: of the suite. work: for plans and records.
    """

    folder: Path
    command: Sequence[str]
    work: Path
    timeout_s: float = 300.0

    def start(self, record: str, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start the job, with a session of its own; its output goes into a file."""
        # Of the program itself: a plan has a checksum.
        if str(PROGRAM) not in sys.path:
            sys.path.insert(0, str(PROGRAM))
        from ciguard.codec import plan_file  # noqa: PLC0415

        plan = plan_file.decode((HERE / "plan.json").read_bytes(), "plan.json")
        suites = {
            name: replace(suite, command=tuple(self.command), timeout_s=self.timeout_s)
            for name, suite in plan.suites.items()
        }
        path = self.work / "plan.json"
        path.write_bytes(plan_file.encode(replace(plan, suites=suites)))
        argv = [sys.executable, str(PROGRAM), "--plan", str(path), "--shard", SHARD]
        argv += ["--record", str(self.work / record), *words]
        with (self.work / f"{record}.log").open("wb") as log:
            return subprocess.Popen(
                argv,
                cwd=self.folder,
                env={**os.environ, "GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1", **environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, record: str, *words: str, **environ: str) -> tuple[list[Result], int]:
        """Run the job to its end; return its results and exit code."""
        code = wait(self.start(record, *words, **environ))
        return results_of(read_lines(self.work / record)), code


def call(words: Sequence[str], folder: Path) -> int:
    """Run a command of the SDK to its end; return its exit code, or HANGS."""
    return wait(subprocess.Popen(words, cwd=folder, start_new_session=True))


def wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process with a session of its own; return its exit code, or kill it: HANGS."""
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        kill_session(process)
        return HANGS


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a job at once, as a runner that is lost."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def host_of(pid: int) -> int:
    """Return VSTest's host or the test application below a job, not what it starts; 0: none yet."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # it has ended
    below, count = {pid}, 0
    while len(below) > count:
        count = len(below)
        below |= {child for child, parent in parents.items() if parent in below}
    for one in sorted(below - {pid}):
        try:
            words = Path(f"/proc/{one}/cmdline").read_bytes()
        except OSError:
            continue
        if HOST.search(words):
            return one
    return 0


def kill_at_random(job: Job, number: int, truth: Sequence[Truth]) -> list[str]:
    """Kill the whole job (odd numbers) or its test host (even ones); return what was lost."""
    record = f"kill-{number}"
    process = job.start(record)
    wanted = random.randrange(len(truth))  # so many results are published before
    published: list[Result] = []
    while len(published) <= wanted and process.poll() is None:
        time.sleep(random.uniform(0.01, 0.2))
        published = results_of(read_lines(job.work / record))
    if number % 2 == 0:
        host = host_of(process.pid)
        if host:
            os.kill(host, signal.SIGKILL)
        if wait(process) == HANGS:
            return ["hangs"]
    elif process.poll() is None:
        kill_session(process)
        job.run(record + "-2", "--resume-from", str(job.work / record), GITHUB_RUN_ATTEMPT="2")
    attempts = [path for path in sorted(job.work.glob(f"{record}*")) if path.is_dir()]
    lines = [
        {**line, "process": line["process"] + 1000 * attempt}
        for attempt, path in enumerate(attempts)
        for line in read_lines(path)
    ]
    results = results_of(lines)
    lost, _ = compare_with_trx(results, [((one, one), how) for one, how in map(in_trx, published)])
    died = {unit for unit, _, outcome in results if outcome == "died"}
    missing, more = compare_with_trx(results, truth)
    if len(died) <= (os.cpu_count() or 1):  # those that were running
        more = [text for text in more if not text.endswith(" died")]
        missing = [text for text in missing if not any(method_of(unit) in text for unit in died)]
    what = "job" if number % 2 else "test host"
    print(f"{what} killed after {len(published)} results, died: {', '.join(died) or 'none'}")
    return lost + missing + more


def show(found: Sequence[str]) -> str:
    return "ok" if not found else "DIFFERS " + "; ".join(found[:5])


def try_situations(variants: Sequence[str], work: Path) -> int:
    """Build the projects, run each situation, and print a line each; return the differences."""
    version = subprocess.check_output(["dotnet", "--version"]).decode()
    framework = f"net{version.split('.')[0]}.0"
    wrong = 0
    for variant in variants:
        folder = work / f"the {variant}"  # a space, as in many a path
        write_project(variant, framework, folder)
        words = ["dotnet", "build", "Shop.csproj", "-c", "Release", "-v", "quiet"]
        if call(words, folder):
            print(f"{variant:15} DIFFERS cannot be built, or its build hangs")
            wrong += 1
            continue
        command = ["dotnet", "test", "Shop.csproj", "-c", "Release"]
        job = Job(folder, command, work / variant, timeout_s=15.0)
        job.work.mkdir()
        for situation, bad in SITUATIONS.items():
            marks = job.work / f"{situation}.marks"
            results, code = job.run(situation, ACCIDENT=situation, MARKS=str(marks))
            ran = Counter(marks.read_text().split()) if marks.exists() else Counter()
            found = differences(results, ran, bad, code)
            wrong += bool(found)
            print(f"{variant:15} {situation:14} {show(found)}", flush=True)
    return wrong


def try_project(project: str, options: Sequence[str], kills: int, work: Path) -> int:
    """Compare a suite with its own TRX files, then kill it; return the differences."""
    folder = Path.cwd()
    subprocess.check_call(["dotnet", "build", project, *options])
    trx = ["--no-build", "--logger", "trx", "--results-directory", str(work / "trx")]
    trx.append("-m:1")  # TRX files that end in one second have one name
    hangs = call(["dotnet", "test", project, *options, *trx], folder) == HANGS
    truth = read_trx(work / "trx")
    if hangs or not truth:
        what = "hangs" if hangs else "has written no TRX file, so there is nothing to compare with"
        print(f"DIFFERS dotnet test {what}")
        return 1
    job = Job(folder, ["dotnet", "test", project, *options], work)
    results, code = job.run("all")
    missing, more = compare_with_trx(results, truth)
    print(f"{len(truth)} results in TRX files, {len(results)} in the record, exit code {code}")
    wrong = [f"missing {one}" for one in missing] + [f"more {one}" for one in more]
    print(show(wrong), flush=True)
    count = int(bool(wrong))
    for number in range(1, kills + 1):
        lost = kill_at_random(job, number, truth)
        print(f"  {show(lost)}", flush=True)
        count += bool(lost)
    return count


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="default: all")
    parser.add_argument("--kills", type=int, default=10, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--work", type=Path, metavar="DIR", help="kept; default: a new folder")
    parser.add_argument("project", nargs="?", help="project or solution; default: own projects")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of dotnet build and test")
    words = parser.parse_args(argv)
    if not PROGRAM.exists() or not shutil.which("dotnet"):
        parser.error("run it from the folder of `make dotnet-kit`, where `dotnet` is installed")
    work = (words.work or Path(tempfile.mkdtemp(prefix="dotnet-"))).resolve()
    work.mkdir(exist_ok=True)
    random.seed(words.seed)
    print(f"records in {work}, seed {words.seed}")
    if words.project:
        wrong = try_project(words.project, words.options, words.kills, work)
    else:
        wrong = try_situations(words.variant or list(VARIANTS), work)
    print(f"{wrong} differ" if wrong else "nothing differs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
