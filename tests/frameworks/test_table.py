"""Every framework in every situation: no silent green, no false red, no wrong culprit.

What has run is known from files that the bodies of the tests write; see `situations.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import call_in_process, clean_environment
from frameworks.loop import (
    GO,
    NEXTEST,
    PROJECTS,
    Loop,
    bad,
    link_node_modules,
    needs_gem,
    needs_maven,
    needs_node,
    needs_program,
)
from frameworks.situations import ALL, ROWS, SITUATIONS, Row, Setting

from ciguard.codec import plan_file
from ciguard.model.probes import repeats_of
from ciguard.sources.local import read_record_tree

# These two need nothing that is not installed. `make test` has each situation with one of them at
# least: what the leg's supervision decides without the adapter with the one that starts faster.
SLOW: Final = {
    "pytest": (
        *("emptied file", "3 MiB without a newline", "job killed", "results withheld"),
        *("killed at the start", "killed in the middle", "killed at the end"),
        *("filter by environment", "retry that passes"),
    ),
    "command": (
        *("deleted file", "all skipped", "stdout closed", "import error"),
        "exit(0) in a test",
    ),
}
QUICK: Final = "killed in the middle"  # of each other framework, in `make test`
NO_QUICK: Final = ("nunit", "mstest")  # as xunit, but for what `test_dotnet` shows
QUICKER: Final = {  # of those whose processes take seconds to start: in one job, without a death
    **dict.fromkeys(("jest", "mocha", "playwright", "vitest"), "focus"),
    "gtest": "filter by environment",
    **dict.fromkeys(("maven", "node-test"), "filter by configuration"),
}
STATES: Final = {"passed": "PASSED", "failed": "FAILED", "refused": "refused by `plan`"}
EXIT_CODES: Final = {"passed": 0, "failed": 10, "INCOMPLETE": 13, "NOTHING RAN": 13}


@dataclass
class Suite:
    """A row's project in a folder."""

    row: Row
    folder: Path
    cache: Path
    second: str = ""
    printed: str = ""
    shards: tuple[str, ...] = ("01", "02")

    def __post_init__(self) -> None:
        environ = {**self.row.environ, "MARKS": str(self.folder / "marks")}
        self.loop = Loop(self.folder, {key: self.fill(text) for key, text in environ.items()})

    def fill(self, text: str) -> str:
        values = {
            **{"FOLDER": str(self.folder), "CACHE": str(self.cache), "PATH": os.environ["PATH"]},
            **{"FIRST": self.path("first"), "SECOND": self.path("second")},
        }
        text = re.sub(
            r"<((?:table|maven)/[\w.]+)>", lambda one: (PROJECTS / one[1]).read_text(), text
        )
        for name, value in values.items():
            text = text.replace(f"<{name}>", value)
        return text

    def path(self, file: str) -> str:
        name = self.second if file == "second" and self.second else self.row.path
        return name.replace("<FILE>", file).replace("<File>", file.title())

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.fill(text))

    def build(self) -> None:
        if self.row.build:
            environ = clean_environment(**self.loop.environ)
            argv = ["sh", "-c", self.fill(self.row.build)]
            subprocess.run(argv, cwd=self.folder, env=environ, check=True, capture_output=True)

    def commit(self) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (
            ("init", "-q"),
            ("add", "-A"),
            (*identity, "commit", "-qm", "tests", "--allow-empty"),
        ):
            subprocess.run(["git", *words], cwd=self.folder, check=True)

    def lay_out(self) -> None:
        toml = f'[suite.s]\nframework = "{self.row.framework or self.row.name}"\ntimeout = "200s"\n'
        ignored = "node_modules\nrecords\nplan.json\nmarks\nbuild\ntarget\nhistory.ciguard\n"
        self.write({"ciguard.toml": toml + self.row.toml, ".gitignore": ignored})
        self.write(self.row.files)
        self.write({self.path(file): self.row.source(file) for file in self.row.cases})
        (self.folder / "marks").mkdir()
        self.commit()
        self.build()

    def plan(self, *words: str) -> str:
        """What a plan that is refused prints; else ""."""
        words = ("plan", "--shards", str(len(self.shards)), "-o", "plan.json", *words)
        done = call_in_process(*words, cwd=self.folder, **self.loop.environ)
        self.printed = done.stdout
        return (done.stdout + done.stderr) if done.returncode else ""

    def run(self, **environ: str) -> None:
        for name in ("records", "marks"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "marks").mkdir()
        self.printed = "".join(self.loop.run_shard(key, key, **environ) for key in self.shards)

    def ran(self) -> set[str]:
        """The names of the cases whose body began."""
        return {path.name for path in (self.folder / "marks").iterdir()}


@dataclass(frozen=True)
class Judgement:
    """What ciguard says of a run, and what has run."""

    state: str
    printed: str
    verdict: Mapping[str, Any]
    ran: set[str]


def judged(suite: Suite, *words: str) -> Judgement:
    words = ("guard", "--plan", "plan.json", "--records", "records", *words)
    text = call_in_process(*words, cwd=suite.folder)
    verdict = json.loads(call_in_process(*words, "--format", "json", cwd=suite.folder).stdout)
    first = text.stdout.partition("\n")[0]
    state = "INCOMPLETE" if verdict["verdict"] == "incomplete" else verdict["verdict"]
    state = "NOTHING RAN" if "NOTHING RAN" in first else state
    assert text.returncode == EXIT_CODES[state], text.stdout
    return Judgement(state, text.stdout, verdict, suite.ran())


def in_situation(suite: Suite, name: str) -> Judgement:
    """Plan, bring the situation about, run, judge."""
    row, situation = suite.row, SITUATIONS[name]
    suite.second = row.odd if name == "odd path" else ""
    if name == QUICKER.get(row.name):
        suite.shards = ("01",)
    if name == "results withheld":
        suite.row = replace(row, toml=row.withholding_toml)
    suite.__post_init__()
    suite.lay_out()
    refused = suite.plan()
    if refused:
        return Judgement("refused", refused, {}, set())
    if name == "emptied file":
        suite.run()
        words = ("--history", "history.ciguard")
        head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=suite.folder, text=True)
        facts = ("--run-id", "1", "--sha", head.strip(), "--branch", "main", "--event", "push")
        done = call_in_process(
            *("history", "add", "records", "--plan", "plan.json", *words, *facts),
            *("--at", "2026-11-01T10:00:00Z"),
            cwd=suite.folder,
        )
        assert done.returncode == 0, done.stderr
        suite.write({suite.path("first"): row.source("first", empty=True)})
        suite.commit()
        suite.build()
        assert suite.plan(*words) == ""
        suite.run()
        return judged(suite, *words)
    if name == "job killed":
        kill_job(suite)
        return judged(suite)
    if name == "deleted file":
        (suite.folder / suite.path("first")).unlink()
        (suite.folder / "build" / suite.path("first")).unlink(missing_ok=True)
    setting = row.settings.get(name) or Setting("")
    suite.write(setting.files)
    environ = {"ACT": situation.act, "AT": situation.at, **setting.environ}
    if name == "results withheld":
        environ["MUTE"] = "yes"
    if name == "retry that passes":
        environ.update(row.retry)
    if name == "focus":
        suite.write({suite.path("first"): row.source("first", two=row.focused)})
    if name == "all skipped" and row.skipped:
        suite.write({suite.path(one): row.source(one, all=row.skipped) for one in row.cases})
    if name == "import error":
        suite.write({suite.path("first"): row.source("first", top=row.broken)})
    suite.build()
    suite.run(**{key: suite.fill(text) for key, text in environ.items() if text})
    return judged(suite)


def kill_job(suite: Suite) -> None:
    """Kill the job while the body of `two` waits; the other job runs to its end."""
    shard = next(
        one["key"]
        for one in json.loads((suite.folder / "plan.json").read_text())["shards"]
        if any(unit["unit"] == suite.row.units["two"] for unit in one["units"])
    )
    job = subprocess.Popen(
        suite.loop.command(shard, shard),
        cwd=suite.folder,
        env=clean_environment(**suite.loop.environ, ACT="wait", AT="two"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while "two" not in suite.ran() and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.02)
    job.kill()
    job.wait()
    for key in {*suite.shards} - {shard}:
        suite.loop.run_shard(key, key)


def objections(found: Judgement, suite: Suite, name: str) -> Iterator[str]:
    """What of a verdict is untrue."""
    situation, row = SITUATIONS[name], suite.row
    expected = row.given.get(name, situation.expected)
    if found.state == "passed" and found.ran != ALL and expected != "cannot be known":
        yield f"silent green: {sorted(ALL - found.ran)} did not run"
    if found.state not in expected.replace("cannot be known", "passed").split(" or "):
        yield f"{found.state}, not {expected}"
    setting = row.settings.get(name)
    first = "first" if name == "emptied file" and not row.has_case_units else ""
    words = f"{first} {situation.named} {setting.named if setting else ''}".casefold().split()
    yield from (f"{one} is not named" for one in words if one not in found.printed.casefold())
    if situation.act == "flaky":
        flaky = [one["unit"] for one in found.verdict["flaky"]]
        if flaky != [row.units[situation.at]]:
            yield f"flaky: {flaky}"
    if found.state == "failed":
        blamed = {unit for unit, _ in bad(found.verdict)}
        kinds = {one["kind"] for one in found.verdict["findings"]}
        is_explained = blamed or "unexplained_exit" in kinds
        if not is_explained or blamed - {row.units[one] for one in situation.culprits}:
            yield f"blamed: {sorted(blamed)}"
        texts = [
            f"{one['unit']} {one['case']} {one['message']}" for one in found.verdict["failures"]
        ]
        if blamed and len(situation.culprits) == 1 and situation.act != "close":
            culprit = situation.culprits[0]
            if not any(culprit in text.casefold() for text in texts):
                yield f"{culprit} is not named: {texts}"
        others = {one for one, unit in row.units.items() if unit not in blamed}
        if others - found.ran:
            yield f"{sorted(others - found.ran)} did not run"


def needed(row: Row) -> None:
    """Skip the test where a framework is missing, and say what has it."""
    for one in row.needs:
        kind, _, name = one.partition(" ")
        if kind == "npm":
            needs_node(name)
        elif kind == "program":
            needs_program(name, "see docs/reference/frameworks.md")
        elif kind == "gem":
            needs_gem(name, f"ruby-{name}")
        elif kind == "maven":
            needs_maven()
        elif not Path(
            {"go": GO / "go", "nextest": NEXTEST / "cargo-nextest"}.get(kind, name)
        ).exists():
            pytest.skip(f"needs {one}: make tools")


def cells() -> list[Any]:
    found = []
    for row in ROWS.values():
        names = [name for name in SITUATIONS if name not in row.none]
        for name in names:
            quick = name == QUICKER.get(row.name, QUICK)
            is_quick = name not in SLOW[row.name] if row.name in SLOW else quick
            marks = () if is_quick and row.name not in NO_QUICK else (pytest.mark.soak,)
            found.append(pytest.param(row, name, marks=marks, id=f"{row.name}-{name}"))
    return found


@pytest.fixture
def suite(request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: Any) -> Suite:
    row = request.param if isinstance(request.param, Row) else None
    assert row
    needed(row)
    folder = tmp_path / "p"
    folder.mkdir()
    if any(one.startswith("npm") for one in row.needs):
        link_node_modules(folder)
    cache = tmp_path_factory.getbasetemp() / f"cache-{row.name}"
    cache.mkdir(exist_ok=True)
    return Suite(row, folder, cache)


@pytest.mark.parametrize(("suite", "name"), cells(), indirect=["suite"])
def test_cell(suite: Suite, name: str) -> None:
    found = in_situation(suite, name)
    wrong = list(objections(found, suite, name))
    if wrong:
        printed = (line[:200] for line in suite.printed.splitlines())
        pytest.fail("\n".join([*wrong, found.printed, *printed]), pytrace=False)


QUICK_FILTERS: Final = ("pytest", "mocha", "rspec")  # in `make test`
# Their lists omit the test, without a word.
UNKNOWN_FILTERS: Final = ("ctest", "nextest", "xunit", "nunit", "mstest")
FILTERED: Final = [
    pytest.param(row, marks=() if row.name in QUICK_FILTERS else (pytest.mark.soak,), id=row.name)
    for row in ROWS.values()
    if row.by_file and not row.refuses_filter
]


@pytest.mark.parametrize("suite", FILTERED, indirect=True)
def test_filter_that_the_plan_had_is_stated_once(suite: Suite) -> None:
    assert suite.row.by_file is not None
    suite.lay_out()
    suite.write(suite.row.by_file.files)
    suite.commit()
    assert suite.plan() == ""
    printed = suite.printed  # where the plan has no such unit, the plan states it
    suite.run()
    found = judged(suite)
    assert found.state == "passed", found.printed + suite.printed
    assert found.ran == ALL - {"two"}
    printed += found.printed
    is_known = suite.row.name not in UNKNOWN_FILTERS
    assert printed.count(suite.row.by_file.named) == is_known, printed


# In `make test`, as their processes start fast; `test_leg_repeats` has pytest.
QUICK_REPEATS: Final = ("command", "phpunit", "rspec")
REPEATED: Final = [
    pytest.param(row, marks=() if row.name in QUICK_REPEATS else (pytest.mark.soak,), id=row.name)
    for row in ROWS.values()
    if row.name not in ("gtest", "mtp", "xunit", "nunit", "mstest")  # take no program before theirs
]


@pytest.mark.parametrize("suite", REPEATED, indirect=True)
def test_new_test_that_fails_again_is_found(suite: Suite) -> None:
    """`two` passes, and kills its process in each repeat."""
    row, suite.shards = suite.row, ("01",)
    kill = '[ ! -e again ] || export ACT=kill AT=two; exec "$@"'
    suite.row = replace(row, toml=row.wrapped_toml(kill))
    suite.lay_out()
    assert suite.plan() == ""
    path = suite.folder / "plan.json"
    plan = plan_file.decode(path.read_bytes(), "plan.json")
    new = {row.units["one"], row.units["two"]}
    for unit in plan.shards[0].units:
        unit.change = "new" if unit.unit in new else ""
    plan = replace(plan, policy=replace(plan.policy, repeat_until_s=400.0, deadline_s=500.0))
    path.write_bytes(plan_file.encode(plan))
    folder = suite.folder / "records/01"
    with (suite.folder / "printed").open("w+") as printed:
        job = subprocess.Popen(
            suite.loop.command("01", "01"),
            cwd=suite.folder,
            env=clean_environment(**suite.loop.environ),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        own, deadline = folder / "supervisor.jsonl", time.monotonic() + 400
        while job.poll() is None and time.monotonic() < deadline:
            lines = own.read_bytes() if own.exists() else b""
            if b'"repeating"' in lines:
                (suite.folder / "again").touch()
            if lines.count(b'"repeat_') > 5 * len(new):
                break
            time.sleep(0.05)
        job.terminate()
        code = job.wait(60)
        printed.seek(0)
        assert code == 0, printed.read()
    (record,) = read_record_tree(folder)
    found = repeats_of(record)
    assert {key.unit for key in found} == new
    tries = {unit.unit: (one.passed, one.failed) for unit, one in found.items()}
    assert sum(tries[row.units["two"]]) == 5
    assert tries.pop(row.units["two"])[1] >= 4  # the first may have begun before the mark
    assert list(tries.values()) in ([(5, 0)], [])


def table() -> list[str]:
    """What `test_cell` has shown, for docs/reference/frameworks.md."""
    lines = ["| situation | verdict | otherwise |", "|---|---|---|"]
    for name, situation in SITUATIONS.items():
        others: dict[str, dict[str, None]] = {}
        for row in ROWS.values():
            given = row.given.get(name, "")
            word = row.none.get(name) or STATES.get(given, given)
            if word:
                others.setdefault(word, {})[f"`{row.framework or row.name}`"] = None
        text = "; ".join(f"{', '.join(names)}: {word}" for word, names in others.items())
        lines.append(f"| {name} | {situation.verdict} | {text} |")
    return lines


def test_reference_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/frameworks.md").read_text("utf-8")
    text = "\n".join(table())
    assert text in page, text
