"""The launcher of `dotnet test`: recorded and written streams, selections and command lines."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from run.frameworks.test_registry import batch

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.dotnet import DOTNET
from ciguard.run.plugins.ciguard_dotnet import (
    AWKWARD,
    HostStream,
    divided,
    hang_limit_s,
    label,
    method_of,
    where_of,
)
from ciguard.run.plugins.ciguard_dotnet_setup import Assembly

STREAMS = Path(__file__).parents[2] / "frameworks/dotnet/streams"
CULPRIT = "Accidents.B_Accident"
Line = dict[str, Any]


@dataclass
class Played:
    """What a stream came to."""

    stream: HostStream
    results: list[Line] = field(default_factory=list)
    # Kind -> units, without "Shop.Tests."
    events: dict[str, list[str]] = field(default_factory=dict)
    blamed: set[str] = field(default_factory=set)

    def add(self, lines: list[Line]) -> None:
        for line in lines:
            if line["type"] == "metric":
                continue
            unit = line["unit"].removeprefix("Shop.Tests.")
            if line["type"] == "result":
                self.results.append(line)
                assert unit in self.events["start"], "a start precedes each result"
            else:
                self.events.setdefault(line.get("kind", "start"), []).append(unit)

    def of(self, kind: str) -> list[str]:
        return sorted(self.events.get(kind, []))

    def cases(self) -> list[str]:
        return [line.get("case") or line["unit"] for line in self.results]


def play(lines: list[Line], listed: dict[str, list[str]]) -> Played:
    """Pass lines to a stream of all listed methods, whose ids are their names."""
    cases = {
        method: [{"case": name, "file": None} for name in names] for method, names in listed.items()
    }
    played = Played(HostStream({method: method for method in listed}, cases, "/here", math.inf))
    for line in lines:
        played.add(played.stream.read({"at_s": 1.0, "wall_s": 0.5, **line}))
    more, blamed = played.stream.end(was_stopped=False)
    played.add(more)
    played.blamed = {one.removeprefix("Shop.Tests.") for one in blamed}
    return played


def recorded(name: str, run: str) -> tuple[Played, list[Line]]:
    """Play a recorded run; what it came to, and its results."""
    texts = (STREAMS / f"{name}.jsonl").read_text("utf-8").splitlines()
    lines = [json.loads(text) for text in texts]
    listed: dict[str, list[str]] = {}
    for line in lines:
        if line["run"] == "list" and line["type"] == "test":
            listed.setdefault(method_of(line["unit"]), []).append(line["case"])
    own = [line for line in lines if line["run"] == run]
    return play(own, listed), [line for line in own if line["type"] == "result"]


ALMOST = ["Accidents.A_Before", "Accidents.C_After"]  # ran, and have no result: no suspects
# Who is to blame, and what is paused, if it is known; by default the culprit alone.
DEATHS: dict[tuple[str, str], tuple[set[str], list[str] | None]] = {
    **dict.fromkeys(
        [
            *itertools.product(
                ("xunit2-serial", "nunit4-sync", "mstest4-parallel"),
                ("exit0", "exit3", "failfast", "stackoverflow", "kill", "hang"),
            ),
            *itertools.product(("xunit2-serial", "xunit2-parallel"), ["thread"]),
        ],
        ({CULPRIT}, None),
    ),
    ("xunit2-parallel", "exit0"): (
        {CULPRIT, "Memory.M400"},
        [*ALMOST, "Prices.Fails", "Prices.Named", "Prices.Rows"],
    ),
    ("xunit2-parallel", "kill"): ({CULPRIT}, [*ALMOST, "Slow.TimesOut"]),
    # No listed method is in the stack of the exception.
    ("mstest4-parallel", "asyncvoid"): (set(), ["P.P1"]),
    ("mstest4-parallel", "thread"): (set(), [CULPRIT]),
    ("nunit4-sync", "thread"): (set(), [CULPRIT]),
}
SOURCES = {"asyncvoid": "async void in `Mark.Fire`; P1", "thread": "an exception in `Mark.Do`; B"}


@pytest.mark.parametrize(("name", "run"), DEATHS)
def test_recorded_accident_has_its_culprit(name: str, run: str) -> None:
    played, results = recorded(name, run)
    blamed, paused = DEATHS[name, run]
    assert played.blamed == {*played.of("interrupted")} == blamed
    assert not {*blamed, *played.of("closed")} & {*played.of("unit_paused")}
    assert len(played.results) == len(results), "each published result is recorded"
    if paused is not None:
        assert [unit for unit in played.of("unit_paused") if "Inner" not in unit] == paused
    assert blamed or played.stream.describe_exception().startswith(SOURCES[run])


COMPLETE = {
    "xunit2-serial": "none fail timeout oom asyncvoid",
    "xunit2-parallel": "none",
    "nunit4-sync": "none fail asyncvoid",
    "mstest4-parallel": "none fail",
}
# A case as TRX files name it.
NAMES = {
    "xunit2-serial": 'Shop.Tests.Prices.Rows(n: 2, text: "b, c")',
    "mstest4-parallel": 'Shop.Tests.Prices.Rows (2,"b, c")',
    "nunit4-sync": 'Shop.Tests.Prices.Rows(2,"b, c")',
}


@pytest.mark.parametrize(
    ("name", "run"), [(name, run) for name, runs in COMPLETE.items() for run in runs.split()]
)
def test_recorded_run_is_complete(name: str, run: str) -> None:
    played, results = recorded(name, run)
    assert Counter(line["outcome"] for line in played.results) == Counter(
        {"Passed": "passed", "Failed": "failed"}.get(line["outcome"], "skipped") for line in results
    )
    assert played.of("closed") == played.of("start"), "each once"
    if run == "none":
        assert {"Shop.Tests.Accidents.A_Before", NAMES.get(name, "")} - {""} <= {*played.cases()}
    if (name, run) == ("xunit2-serial", "none"):
        delta = {line["unit"][-4:]: line["peak_delta_bytes"] >> 20 for line in played.results[-4:]}
        assert 400 <= delta["M400"] <= 410
        assert not [line for line in played.results if "peak_upper_bytes" in line]


def xunit(words: str, **more: Any) -> Line:
    """A line: its type, the display name, and the method if the line has it."""
    kind, case, unit, *_ = *words.split(), None
    return {"type": kind, "case": case, "unit": unit, "outcome": "Passed", **more}


def lines_of(text: str) -> list[Line]:
    return [xunit(words) for words in text.split(", ")]


SAME = {  # display name of two methods -> which of them are blamed
    "running same": {"A.one", "B.two"},
    "running same, start same B.two": {"B.two"},
    "running same, ran same": set(),
    "running same, ran same, end same A.one, running same, result same A.one": {"B.two"},
}


@pytest.mark.parametrize("text", SAME)
def test_display_name_of_several_methods_is_matched_by_the_start_that_follows(text: str) -> None:
    listed = {"A.one": ["same"], "B.two": ["same"]}
    assert play(lines_of(text), listed).blamed == SAME[text]


def test_theory_whose_rows_are_not_listed_is_over_with_its_end() -> None:
    listed = {"A.rows": ["A.rows"], "A.two": ["A.two"]}
    rows = "running A.rows(1), ran A.rows(1), running A.rows(2), ran A.rows(2)"
    first = f"{rows}, result A.rows(1) A.rows"
    two = "running A.two, ran A.two, result A.two A.two"
    played = play(lines_of(f"{first}, {two}"), listed)
    assert played.of("closed") == ["A.two"], "no TestCaseEnd came"
    lines = lines_of(f"{first}, end A.rows A.rows, result A.rows(2) A.rows, {two}")
    assert play(lines, listed).of("closed") == ["A.two"], "further rows may follow"
    played = play([*lines, xunit("complete x", aborted=False, canceled=False)], listed)
    assert played.of("closed") == ["A.rows", "A.two"]
    assert played.cases() == ["A.rows(1)", "A.rows(2)", "A.two"]


UNLISTED = {  # of listed theories "adds" and "A.two": what runs -> who is blamed
    "running adds(x: 1)": {"A.one"},
    "running A.two(x: 1)": {"A.two"},
    "running other": {"A.one", "A.three"},
    "running other, ran other": set(),
    "running other, running A.two(1), ran A.two(1), end A.two A.two, result A.two(1) A.two": {
        "A.one",
        "A.three",
    },
    "running both(x: 1), start both A.three": {"A.three"},
}


@pytest.mark.parametrize("text", UNLISTED)
def test_row_with_a_name_that_is_not_listed_has_all_that_may_have_it_as_suspects(text: str) -> None:
    listed = {"A.one": ["adds", "both"], "A.two": ["A.two"], "A.three": ["both"]}
    assert play(lines_of(text), listed).blamed == UNLISTED[text]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("running A.one, ran A.one, running A.two, ran A.two", (50, None)),
        ("running A.one, running A.two, ran A.one, ran A.two", (None, 150)),
        # A [Fact(Timeout)] never stops.
        ("running A.late, end A.late A.late, running A.one, ran A.one", (None, 150)),
    ],
)
def test_memory_beside_others_is_a_bound(order: str, expected: tuple[int, int]) -> None:
    listed = {name: [name] for name in ("A.one", "A.two", "A.late")}
    memory = {"rss_bytes": 100}, {"rss_bytes": 120, "peak_bytes": 150}
    lines = [{**line, **memory[line["type"] != "running"]} for line in lines_of(order)]
    result, *_ = play([*lines, xunit("result A.one A.one")], listed).results
    assert (result.get("peak_delta_bytes"), result.get("peak_upper_bytes")) == expected


@pytest.mark.parametrize(
    "frame", ["<>c.<one>b__1_0", "<one>d__3.MoveNext", "one", "<>c__DisplayClass2_0.<one>b__0"]
)
def test_exception_names_a_method_in_its_stack_even_if_that_is_over(frame: str) -> None:
    listed = {"Shop.A.one": ["Shop.A.one"], "Shop.A.two": ["Shop.A.two"]}
    text = "running {0}, ran {0}, result {0} {0}, running Shop.A.two".format("Shop.A.one")
    message = f"System.Exception: late\n   at Shop.A.{frame}() in /here/A.cs:line 5"
    played = play([*lines_of(text), {"type": "unhandled", "message": message}], listed)
    assert played.blamed == {"Shop.A.one"}
    assert played.results[-1]["outcome"] == "died"
    assert played.of("unit_paused") == ["Shop.A.two"]


def test_failure_has_the_first_file_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Prices.cs").write_text("")
    trace = f"   at Y() in {tmp_path}/Prices.cs:line 12\n   at X() in /_/src/run.cs:line 3"
    listed = {"case": "b", "file": str(tmp_path / "Prices.cs"), "line": 9}
    stream = HostStream({"A.b": "[x] A.b"}, {"A.b": [listed]}, str(tmp_path), math.inf)
    more = {"message": "wrong", "trace": trace, "at_s": 1.0, "wall_s": 0.1}
    start, found, _ = stream.read({**xunit("result b A.b"), "outcome": "Failed", **more})
    assert (start["file"], start["line"]) == ("Prices.cs", 9)
    assert (found["unit"], found["file"], found["line"]) == ("[x] A.b", "Prices.cs", 12)
    assert found["message"] == f"wrong\n{trace}".strip()
    assert "case" not in found


@pytest.mark.parametrize(
    ("name", "method", "is_awkward"),
    [
        ("Shop.Prices.Rows(1,null)", "Shop.Prices.Rows", False),
        ('Shop.Prices.Rows(3,"quote \\" and (paren)")', "Shop.Prices.Rows", False),
        ('Shop.Fix("a, b").F', 'Shop.Fix("a, b").F', False),
        ('Shop.Fix("c(d)").FRow(1,"q\\"")', 'Shop.Fix("c(d)").FRow', False),
        ('Shop.Fix("\\"").F', 'Shop.Fix("\\"").F', True),
        ("Shop.Prices.adds two numbers", "Shop.Prices.adds two numbers", True),
        ('Shop.Generic<Int32>.GMethod<String>("s")', "Shop.Generic<Int32>.GMethod<String>", True),
    ],
)
def test_names_of_nunit(name: str, method: str, is_awkward: bool) -> None:
    assert method_of(name) == method
    assert bool(AWKWARD.search(method)) == is_awkward


def test_command_lines() -> None:
    """Words for VSTest, prefixes of units, and patterns of awkward names."""
    words = "dotnet test tests/Shop -c Release -f net10.0 --filter A=b --logger trx --blame-hang"
    words += " --blame-hang-timeout 5m --no-build -s my.runsettings --collect:Cover -- xUnit.X=1"
    taken, used = divided(words.split())
    kept = "--logger trx --blame-hang --blame-hang-timeout 5m --collect:Cover -- xUnit.X=1"
    assert taken == kept.split()
    assert used == {"--filter": "A=b", "--settings": "my.runsettings"}
    for option, limit_s in {"": math.inf, "--blame-hang": 3600, "-timeout=900": 0.9}.items():
        assert hang_limit_s(["test", option.replace("-timeout", "--blame-hang-timeout")]) == limit_s
    assert hang_limit_s(taken) == 300
    found = [Assembly(f"/bin/A.{name}.dll", name, "", "vstest", "xunit") for name in ("b", "c")]
    assert [label(one, found) for one in found] == ["[A.b b] ", "[A.c c] "]
    assert label(found[0], found[:1]) == ""
    assert where_of(['A.b("x y")', "A.c d"]) == 'test =~ "^A.b..x.y..$" or test =~ "^A.c.d$"'


@pytest.mark.parametrize(
    ("command", "what"),
    [("dotnet run", "no `dotnet test`"), ("dotnet test X --list-tests", "the flag --list-tests")],
)
def test_refused_commands(command: str, what: str) -> None:
    suite = Suite("dotnet", tuple(command.split()), variants={"": Variant()})
    with pytest.raises(UsageError, match=what):
        DOTNET.execution(suite, "", batch())


def test_adapter_passes_the_key_of_the_suite_and_keeps_the_marks() -> None:
    suite = Suite("dotnet", ("dotnet", "test"), variants={"": Variant()}, parallel=False)
    invocation = DOTNET.execution(suite, "", batch())
    assert invocation.argv[-3:] == ("--ciguard-parallel=false", "dotnet", "test")
    assert invocation.env["CIGUARD_PEAK_RESET_BY"] == "self"
    assert DOTNET.junit_name("[Shop net8.0] A.B.c") == ("A.B", "c")
