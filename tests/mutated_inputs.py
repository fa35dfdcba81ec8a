"""The readers of every kind of file, and a process that hands them damaged ones.

    python tests/mutated_inputs.py 0 10000 history      # without a name: every reader
    python tests/mutated_inputs.py 137 138 history      # one input again

An input may be refused, by one of our errors or exit codes. All else (a traceback, more than
`CPU_S` of processor time or `MEMORY_BYTES`) is printed, once for each place in the code.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from codec.hostile_zips import made
from conftest import call_in_process
from guard.fixtures import World
from init.move_in_samples import ACTIONS, commit
from mutations import mutated

from ciguard.audit.repository_runs import RepositoryRuns
from ciguard.audit.rule_table import audit_repository
from ciguard.audit.rules.base import WorkflowFile
from ciguard.codec import archive, quarantine
from ciguard.codec.record.lines import encode
from ciguard.codec.results import durations
from ciguard.codec.results.base import ResultFormat
from ciguard.codec.results.formats import FORMATS
from ciguard.compare.json import read_comparison
from ciguard.errors import CiguardError, ExitCode
from ciguard.model import EventLine, MetricLine, PeakLine, Result
from ciguard.workflow.yaml_values import load

CPU_S: Final = 20.0
MEMORY_BYTES: Final = 1 << 30
SAMPLES: Final = Path(__file__).parent / "samples"
CODE: Final = str(Path(__file__).parents[1] / "ciguard")
WORKFLOW: Final = ".github/workflows/ci.yml"
SHARDS: Final = b"""{"global_filter": "(<shard filter>)&Category!=Never", "shards": [
{"name": "Cart", "filter": "Cart", "timeout_minutes": 45, "project": "tests"},
{"name": "A-M", "filter": "Shop.Tests&(Tests.User|s.T)&Category!=Slow", "runner": "linux"}]}"""
INVENTORY: Final = b"""{"unit": "a.py::t", "file": "a.py", "categories": ["slow"], "group": "g",
"timeout_ms": 1500, "traits": {"Owner": "x"}, "shard": "01"}
b.py::u
""".replace(b",\n", b", ")
CONFIGURATION: Final = b"""actions = "octo-org/ciguard@0123abcd # v0.2.0"
[plan]
shards = 4
target_wall = "10m"
[policy]
fail_on = ["memory", "oom"]
retries = 1
[guard]
max_drop = 0.05
[metrics]
keep = ["xla.*"]
[metrics.hits]
pattern = "pool hits (?P<value>.*)"
better = "higher"
[suite.unit]
framework = "command"
list = ["cat", "units"]
command = ["true", "{units_file}"]
failed_exit_codes = [8, "10-20"]
timeout = "2m"
pool = "large"
exclude = ["*::slow"]
[[suite.unit.needs]]
units = "a*"
memory = "2GB"
[[suite.unit.limits]]
units = "a*"
time = "5s"
[pool.large]
runs_on = ["self-hosted", "large"]
cpus = 16
memory = "64GiB"
"""
QUARANTINE: Final = b"""[[quarantine]]
unit = "a.py::t"
reason = "flaky"
issue = "https://github.com/o/r/issues/7"
until = 2026-12-31
"""
PROJECT: Final = b"""[project]
name = "shop"
requires-python = ">=3.11"
dependencies = ["requests"]
[project.optional-dependencies]
test = ["pytest"]
[dependency-groups]
dev = ["pytest", {include-group = "lint"}]
[tool.pytest.ini_options]
testpaths = ["tests"]
[tool.hatch.envs.default]
dependencies = ["pytest"]
[tool.tox]
env_list = ["3.11", "3.12"]
[tool.ciguard.plan]
shards = 2
"""
PACKAGE: Final = b"""{"name": "shop", "engines": {"node": ">=20"}, "packageManager": "pnpm@9.1.0",
"workspaces": ["packages/*"], "scripts": {"test": "NODE_ENV=test c8 mocha --exit", "test:unit":
"jest"}, "devDependencies": {"jest": "^30", "mocha": "^12", "vitest": "4"}}"""
LISTINGS: Final = (
    b"tests/a.py::test_a\ntests/a.py::test_b[1]\n\n2 tests collected in 0.01s\n",
    b"The following Tests are available:\n    Shop.Cart.Adds\n    Shop.Cart.Removes(n: 1)\n",
    b"Cart.\n  Adds\n  Removes/0  # GetParam() = 4\nOrder/1.  # TypeParam = int\n  Pays\n",
    b"TestCart\nTestOrder\nok  \texample.org/shop\t0.002s\n",
)
EVENT: Final = b"""{"action": "opened", "ref": "refs/heads/main", "number": 7, "pull_request":
{"number": 7, "head": {"ref": "topic", "sha": "%s", "repo": {"id": 2, "full_name": "fork/shop"}},
"base": {"ref": "main", "sha": "%s", "repo": {"id": 1, "full_name": "octo-org/shop"}}},
"workflow_run": {"id": 9, "run_attempt": 1, "head_sha": "%s", "event": "push"},
"repository": {"id": 1, "full_name": "octo-org/shop", "default_branch": "main"}}""" % (
    (b"a" * 40,) * 3
)
RUN: Final = {
    **{"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "octo-org/shop", "GITHUB_RUN_ID": "77"},
    **{"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": "event.json"},
    **{"GITHUB_SHA": "a" * 40, "GITHUB_REF_NAME": "7/merge", "GITHUB_RUN_ATTEMPT": "2"},
}
MORE_LINES: Final = (
    *(EventLine("last_output", 1.0, 1, detail="killed"), PeakLine("c.t::four", process=1)),
    *(MetricLine("hits", 3.5, unit="c.t::four"), EventLine("closed", 1.5, 1, unit="c.t::four")),
)


class Reader(NamedTuple):
    """Samples of a kind of file, and its reader.

    Attributes:
        every: 4 takes every fourth input, where another reader takes all files of the kind.
    """

    samples: tuple[bytes, ...]
    read: Callable[[bytes], object]
    every: int = 1


def _samples(pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(SAMPLES.glob(pattern)))


WORKFLOWS: Final = _samples("move_in/*/ci.yml")
LOGS: Final = _samples("logs/*.log")
RESULTS: Final = b"""<testsuites><testsuite name="c" tests="2" timestamp="2026-11-28T10:00:00">
<testcase classname="c.t" name="four" time="0.5"><failure message="1 != 2"/></testcase>
<testcase classname="c.t" name="five" time="1"><skipped/></testcase></testsuite></testsuites>
"""
MATRIX: Final = b'{"os": ["a", "b"], "x": [1, 2.5, true], "include": [{"os": "a", "y": {"z": 1}}]}'
NEEDS: Final = b'{"plan": {"result": "success", "outputs": {}}, "legs": {"result": "failure"}}'


def _read_results(format_: ResultFormat, content: bytes) -> list[Result]:
    return list(format_.read(io.BytesIO(content), "results"))


def _audit_rules(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    workflow = WorkflowFile(WORKFLOW, text, load(text, WORKFLOW))
    audit_repository(RepositoryRuns("o/r", "", "main", (workflow,), (WORKFLOW,)))


def _sealed_plan(content: bytes) -> bytes:
    """With the id that belongs to the rest, as a program that makes plans would write it."""
    try:
        plan = json.loads(content)
        plan.pop("id", None)
        text = json.dumps(plan, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError, AttributeError, TypeError):
        return content
    plan["id"] = hashlib.sha256(text.encode("ascii")).hexdigest()[:12]
    return json.dumps(plan).encode()


def _sealed_history(rest: bytes) -> bytes:
    return b"ciguard-history 2 %s\n%s" % (hashlib.sha256(rest).hexdigest().encode(), rest)


def _zips() -> tuple[bytes, ...]:
    junit = _samples("junit/outcomes/input.xml")[0]
    members = (("record/supervisor.jsonl", b"{}\n"), ("reports/a.xml", junit))
    return tuple(made(*members, method=method) for method in (0, 8))


def _write_run(run: Path) -> None:
    """Write a run with its plan, records and history, as `guard` and `plan` read them."""
    run.mkdir()
    World().write(run)
    call_in_process("history", "add", "records", "--history", "past", cwd=run)
    for path, content in {
        **{"base.log": LOGS[0], "tests.json": b'["a.py::t", {"id": "b", "categories": []}]'},
        **{"units": b"a.py::t\nb.py::u\n", "shards.json": SHARDS},
    }.items():
        (run / path).write_bytes(content)


def _write_clone(clone: Path) -> None:
    """Write a checkout with a workflow, as `init` reads it."""
    for path, content in {
        **{
            "ciguard.toml": ACTIONS.encode(),
            WORKFLOW: WORKFLOWS[0],
            "test/a.test.js": b"test('a')\n",
        },
        **{"pyproject.toml": PROJECT, "package.json": PACKAGE, "tests/test_a.py": b"\n"},
    }.items():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_bytes(content)
    git = ["git", "-C", str(clone)]
    subprocess.run([*git, "init", "-q"], check=True)
    commit(clone)
    # As if each input were committed.
    subprocess.run([*git, "update-index", "--assume-unchanged", WORKFLOW], check=True)


def command(folder: Path, path: str, words: str, **environ: str) -> Callable[[bytes], int]:
    """Return a reader: a command, called while the file at `path` has the content."""
    place = folder / path
    whole = place.read_bytes() if place.exists() else None

    def read(content: bytes) -> int:
        place.write_bytes(content)
        try:
            code = call_in_process(*words.split(), cwd=folder, **environ).returncode
        finally:
            place.write_bytes(whole) if whole is not None else place.unlink()
        assert code in {*ExitCode} - {ExitCode.BUG}, code
        return code

    return read


def readers(root: Path) -> dict[str, Reader]:
    """Every reader by its name.

    Args:
        root: empty; becomes two checkouts with all that commands read, in which they are called.
    """
    run, clone = root / "run", root / "clone"
    _write_run(run)
    _write_clone(clone)

    guard = "guard --plan plan.json --records records"
    plan = "plan --inventory units --format json"
    audit = "audit --matrix shards.json --tests tests.json"
    record = "records/record-02-1/process-001.jsonl"
    supervisor = "records/record-02-1/supervisor.jsonl"
    inner = (run / record).read_bytes() + b"".join(encode(line) for line in MORE_LINES)
    history = (run / "past").read_bytes().partition(b"\n")[2]
    read_plan = command(run, "plan.json", guard)
    show_history = command(run, "past", "history show --history past")
    plan_by_history = command(run, "past", f"{plan} --history past")
    results = "guard --plan plan.json --results r-{shard}.xml"
    return {
        **{
            f"results {name}": Reader(
                _samples(f"{name}/*/input.*"), partial(_read_results, format_)
            )
            for name, format_ in FORMATS.items()
        },
        "results of guard": Reader(
            (RESULTS, *_samples("junit/*/input.xml")), command(run, "r-02.xml", results), every=4
        ),
        "durations": Reader(
            _samples("durations/*/input.json"),
            lambda content: durations.read(io.BytesIO(content), "x"),
        ),
        "record": Reader((inner,), command(run, record, guard)),
        "supervisor": Reader(((run / supervisor).read_bytes(),), command(run, supervisor, guard)),
        "plan": Reader(
            ((run / "plan.json").read_bytes(),), lambda content: read_plan(_sealed_plan(content))
        ),
        "history": Reader((history,), lambda content: show_history(_sealed_history(content))),
        "history of plan": Reader(
            (history,), lambda content: plan_by_history(_sealed_history(content)), every=4
        ),
        "quarantine": Reader(
            (QUARANTINE,),
            lambda content: quarantine.decode(content, date(2026, 11, 28), is_base=True),
        ),
        "ciguard.toml": Reader((CONFIGURATION,), command(run, "ciguard.toml", plan)),
        "pyproject.toml": Reader((PROJECT,), command(run, "pyproject.toml", plan)),
        "inventory": Reader(
            (INVENTORY, *_samples("inventory/*/input.*")),
            command(run, "inventory", "plan --inventory inventory"),
        ),
        "matrix": Reader((MATRIX,), command(run, "matrix.json", f"{plan} --matrix matrix.json")),
        "needs": Reader((NEEDS,), command(run, "needs.json", f"{guard} --needs needs.json")),
        "event": Reader((EVENT,), command(run, "event.json", guard, **RUN)),
        "log": Reader(LOGS, command(run, "head.log", "compare base.log head.log")),
        "comparison": Reader(
            _samples("compare/hurt.json"), lambda content: read_comparison(content, "x")
        ),
        "zip": Reader(_zips(), lambda content: list(archive.members(io.BytesIO(content), "x"))),
        "listing": Reader((INVENTORY, *LISTINGS), command(run, "tests.json", audit)),
        "shards": Reader((SHARDS,), command(run, "shards.json", audit)),
        "audit": Reader(
            WORKFLOWS, command(run, "ci.yml", "audit --matrix ci.yml --tests tests.json"), every=4
        ),
        "audit rules": Reader(WORKFLOWS, _audit_rules),
        "init": Reader(WORKFLOWS, command(clone, WORKFLOW, "init"), every=4),
        "init --into": Reader(
            WORKFLOWS, command(clone, WORKFLOW, f"init --into {WORKFLOW}"), every=4
        ),
        "init --new": Reader((PROJECT,), command(clone, "pyproject.toml", "init --new")),
        "init package.json": Reader((PACKAGE,), command(clone, "package.json", "init --new")),
    }


def _out_of_time(*_: object) -> None:
    raise TimeoutError(f"more than {CPU_S} s of processor time")


def _place(error: BaseException) -> str:
    """The kind of an error, and the last line of ours that it went through."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if CODE in one.filename]
    last = frames[-1] if frames else None
    where = f"{last.filename.removeprefix(CODE)}:{last.lineno}" if last else "outside of ciguard"
    return f"{type(error).__name__}: {error!s:.200} at {where}"


def hunt(name: str, reader: Reader, numbers: range) -> dict[str, str]:
    """By what failed, the first input that did and its traceback."""
    found: dict[str, str] = {}
    for number in numbers[:: reader.every]:
        content = mutated(Random(f"{name} {number}"), reader.samples)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        try:
            reader.read(content)
        except CiguardError:
            pass
        except Exception as error:  # noqa: BLE001  # any bug is what is looked for
            trace = "".join(traceback.format_exception(error)[-8:])
            found.setdefault(_place(error), f"{name} {number} of {len(content)} bytes\n{trace}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return found


def _accepts_a_sample(reader: Reader) -> bool:
    """Say whether the reader takes a file that is not damaged: else it refuses all of them."""
    for sample in reader.samples:
        with contextlib.suppress(CiguardError):
            if reader.read(sample) not in (ExitCode.USAGE, ExitCode.INPUT):
                return True
    return False


def main(begin: str, end: str, *names: str) -> int:
    """Hunt in each reader; the exit code says whether something was found."""
    signal.signal(signal.SIGPROF, _out_of_time)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ciguard-mutated-") as root:
        table = readers(Path(root))
        used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit_bytes = used_bytes + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        for name in names or table:
            assert _accepts_a_sample(table[name]), name
            found = hunt(name, table[name], range(int(begin), int(end)))
            failed += len(found)
            for place, trace in found.items():
                print(f"== {place}\n{trace}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
