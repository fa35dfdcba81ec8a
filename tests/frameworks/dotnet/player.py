"""A `dotnet` that plays what real ones wrote: msbuild, csc, VSTest's console and its test host.

`python player.py build ADAPTER` reads the sources of `situations.py` in the working folder and
writes an assembly: a JSON list of its cases. `player.py recording NAME` writes one whose host plays
a recorded stream (`streams/NAME.jsonl`) of the run `$ACCIDENT`, or an application that plays frames
(`streams/mtp`). All else are words of `dotnet`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest
from xml.etree import ElementTree

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "projects/table"))  # acting.py
ASSEMBLY = Path("bin/Shop.Tests.dll")
# By the beginning of a recording; those with a dash and xunit 3 are applications.
PACKAGES = {
    "xunit3": ("xunit.v3.common/4.0.2", "Microsoft.Testing.Platform/2.5.1"),
    "tunit": ("TUnit.Engine/1.81.10", "Microsoft.Testing.Platform/2.5.2"),
    "nunit-": ("NUnit/4.6.1", "Microsoft.Testing.Platform/2.4.1"),
    "mstest-": ("MSTest.TestFramework/4.5.2", "Microsoft.Testing.Platform/2.5.2"),
    "xunit": ("xunit.runner.visualstudio/2.8.2",),
    "nunit": ("NUnit3TestAdapter/6.3.1",),
    "mstest": ("MSTest.TestAdapter/4.5.2",),
}
CLASS = re.compile(r"class (\w+)")
METHOD = re.compile(r'\[(?:Fact|Test|TestMethod)(.*)\] public void (\w+)\(\) => Act\.At\("(\w+)"\)')
HOOK = re.compile(r'Act\.At\("hook"\)')
ESCAPED = re.compile(r"\\(.)")
DEADLY = ("B_Accident", "ReadsPrices")  # the accident happens in it
MAX_PAUSE_S = 0.3
HANG_S = 4.0  # the accident has begun
Line = dict[str, Any]


def write_assembly(adapter: str, cases: list[Line], recording: str = "") -> None:
    ASSEMBLY.parent.mkdir(exist_ok=True)
    content = {"adapter": adapter, "cases": cases, "recording": recording}
    ASSEMBLY.write_text(json.dumps(content))
    libraries = {package: {"type": "package"} for package in PACKAGES[adapter]}
    ASSEMBLY.with_suffix(".deps.json").write_text(json.dumps({"libraries": libraries}))
    runtime = {"runtimeOptions": {"tfm": "net10.0"}}
    ASSEMBLY.with_suffix(".runtimeconfig.json").write_text(json.dumps(runtime))
    if len(PACKAGES[adapter]) > 1:
        program = f'"{sys.executable}" "{HERE / "mtp_application.py"}"'
        frames = HERE / f"streams/mtp/{recording}.jsonl"
        program = f'RECORDING="{frames}" exec {program}' if recording else f"exec {program}"
        words = "" if recording else f'--assembly "{ASSEMBLY}"'
        ASSEMBLY.with_suffix("").write_text(f'#!/bin/sh\n{program} {words} "$@"\n')
        ASSEMBLY.with_suffix("").chmod(0o755)


def build(adapter: str) -> None:
    cases = []
    for path in sorted(Path.cwd().rglob("*.cs")):
        lines = path.read_text().splitlines()
        name = next((found[1] for line in lines if (found := CLASS.search(line))), "")
        for number, line in enumerate(lines, 1):
            if method := METHOD.search(line):
                unit = f"Shop.{name}.{method[2]}"
                place = {"file": str(path), "line": number, "place": method[3]}
                hook = "hook" if HOOK.search(path.read_text()) else ""
                display = unit if adapter.startswith("xunit") else method[2]
                cases.append({"unit": unit, "case": display, "hook": hook, **place})
    write_assembly(adapter, cases)


def read_recording(name: str, run: str) -> list[Line]:
    texts = (HERE / "streams" / f"{name}.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, texts) if line["run"] == run]


class File:
    def __init__(self, role: str) -> None:
        folder = os.environ["CIGUARD_DOTNET_FOLDER"]
        path = f"{folder}/{role}-{os.getpid()}.jsonl"
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, kind: str, **fields: Any) -> None:
        line = {"type": kind, "at_s": time.time(), **fields}
        os.write(self.descriptor, (json.dumps(line) + "\n").encode())


def selected(settings: str, cases: list[Line]) -> list[Line]:
    root = ElementTree.parse(settings).getroot()
    where, text = root.findtext("NUnit/Where"), root.findtext("RunConfiguration/TestCaseFilter")
    if where:
        patterns = re.findall(r'test =~ "(.*?)"', where)
        wide = re.compile("[\U00010000-\U0010ffff]")  # two units of UTF-16, as .NET counts

        def is_found(name: str) -> bool:
            return any(re.search(one, wide.sub("..", name)) for one in patterns)

        return [case for case in cases if is_found(case["unit"])]
    if re.search(r"\s(?!\w+=)", re.sub('"[^"]*"', "", text or "")):
        return []  # as NUnit's adapter: "Unexpected Word"
    names = set()
    for term in re.split(r"(?<!\\)\|", text or ""):
        name, operator, value = re.split(r"(!=|=)", term, maxsplit=1) if term else ("", "", "")
        if operator == "!=":  # of a user
            return [case for case in cases if case["unit"] != value]
        if name == "FullyQualifiedName":
            names.add(ESCAPED.sub(r"\1", value))
    if not text:
        return cases
    rows = tuple(f"{name}(" for name in names)

    def is_named(case: Line) -> bool:
        is_row = case["unit"].startswith(rows) and not case.get("TestName")
        return case["unit"] in names or is_row

    return list(filter(is_named, cases))


def executed(
    cases: list[Line], begin: Callable[[Line], None], end: Callable[[], None] = lambda: None
) -> Iterator[tuple[Line, str, str | None]]:
    """Run the bodies of cases; yield each with its outcome and message.

    Args:
        begin: is called before each case. end: before one that ends the process by an exit.
    """
    act, hooked = importlib.import_module("acting").act, set()
    for case in () if os.environ.get("SILENT") else cases:  # as if all were explicit
        begin(case)
        hook = {"hook"} if case["hook"] and case["file"] not in hooked else set()
        hooked.add(case["file"])
        if os.environ.get("ACT") == "exit" and os.environ.get("AT") in {*hook, case["place"]}:
            end()
        outcome, message = "Passed", None
        try:
            for place in (*hook, case["place"]):
                act(place)
        except SkipTest as error:
            outcome, message = "Skipped", str(error)
        except ValueError as error:
            outcome, message = "Failed", str(error)
        yield case, outcome, message


def host(settings: str, assembly: str, results: int) -> None:
    """Run the selected cases as a host does, and publish their results."""
    content = json.loads(Path(assembly).read_text())
    cases, adapter = selected(settings, content["cases"]), content["adapter"]
    root = ElementTree.parse(settings).getroot()
    is_serial = root.findtext("RunConfiguration/DisableParallelization") == "true"
    how = "names" if root.find("NUnit/Where") is None else "where"
    note(f"{'serial' if is_serial else 'parallel'} {how}")
    file = File("host")
    file.add("host", pid=os.getpid())
    file.add("session_start")
    if content["recording"]:
        play_host(file, content["recording"], cases)
        return
    is_xunit = adapter == "xunit"
    if os.environ.get("AT") == "discovery":
        for _ in range(10):  # the launcher measures the memory meanwhile
            time.sleep(0.05)
        importlib.import_module("acting").act("discovery")

    def begin(case: Line) -> None:
        named = {"unit": case["unit"], "case": case["case"]}
        file.add("start", **named, **({} if is_xunit else {"rss_bytes": 8 << 20}))
        if is_xunit:
            file.add("running", case=case["case"], rss_bytes=8 << 20)

    for case, outcome, message in executed(cases, begin, lambda: file.add("exit", code=0)):
        named = {"unit": case["unit"], "case": case["case"]}
        memory = {"rss_bytes": 8 << 20, "peak_bytes": 9 << 20}
        if is_xunit:
            file.add("ran", case=case["case"], **memory)
        file.add("end", **named, **({} if is_xunit else memory))
        result = {**named, "outcome": outcome, "wall_s": 0.01, "message": message, "trace": None}
        os.write(results, (json.dumps(result) + "\n").encode())
    file.add("session_end")
    file.add("exit", code=0)


def play(name: str, by: str, cases: list[Line]) -> list[tuple[float, Line]]:
    """Return the lines of a recorded process about these cases, each after a pause in seconds."""
    accident = os.environ.get("ACCIDENT", "none")
    names = {case["case"] for case in cases}
    run = accident if any(one in name for name in names for one in DEADLY) else "none"
    lines, last_s = [], 0.0
    for line in read_recording(name, run):
        at_s = line.pop("at_s")
        is_own = line.pop("by") == by and line.pop("run") == run
        if is_own and (line.get("case") is None or line["case"] in names):
            lines.append((min(MAX_PAUSE_S, at_s - last_s), line))
            last_s = at_s
    return lines


def play_host(file: File, name: str, cases: list[Line]) -> None:
    accident, last = os.environ.get("ACCIDENT"), {"type": ""}
    for pause_s, line in play(name, "host", cases):
        time.sleep(pause_s)
        last = line
        if line["type"] in ("running", "start"):
            note(f"begun {line['case']}")
        if line["type"] not in ("host", "session_start"):
            file.add(line.pop("type"), **line)
            line["type"] = ""
        code = line.get("code")
        if code is not None:
            os._exit(code)
    if last.get("message"):  # an unhandled exception
        os.abort()
    while accident == "hang":
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL if accident == "kill" else signal.SIGABRT)


def note(name: str) -> None:
    """Note what a test compares with the record, beside the marks of bodies."""
    with Path(os.environ["MARKS"]).with_name("notes").open("a") as stream:
        stream.write(f"{name}\n")


def console(assembly: str, words: list[str]) -> int:
    """List, or run a host and log its results."""
    settings, content = words[words.index("--settings") + 1], json.loads(Path(assembly).read_text())
    file = File("console")
    cases = selected(settings, content["cases"])
    if "--list-tests" in words:
        if "--filter" in words:  # FullyQualifiedName~two
            part = words[words.index("--filter") + 1].partition("~")[2]
            cases = [case for case in cases if part in case["unit"]]
        if os.environ.get("LISTED"):  # with rows that are equal
            cases = json.loads(Path(os.environ["LISTED"]).read_text())
        for number, case in enumerate(cases):
            fields = {key: case.get(key) for key in ("unit", "case", "file", "line", "explicit")}
            file.add("test", id=case.get("id", number), **fields)
        file.add("discovered", aborted=False)
        return 0
    read, write = os.pipe()
    argv = [sys.executable, __file__, "host", settings, assembly, str(write)]
    tested = subprocess.Popen(argv, pass_fds=(write,))
    os.close(write)
    has_failed = False
    if "--blame-hang-timeout" in words:
        threading.Timer(HANG_S, tested.kill).start()
    for pause_s, line in (
        play(content["recording"], "console", cases) if content["recording"] else ()
    ):
        time.sleep(pause_s)
        if line["type"] == "result":
            has_failed = has_failed or line["outcome"] == "Failed"
            fields = {key: line.get(key) for key in ("message", "trace", "wall_s")}
            file.add(line.pop("type"), **{**line, **fields})
    for text in os.fdopen(read):
        result = json.loads(text)
        has_failed = has_failed or result["outcome"] == "Failed"
        file.add("result", **result)
    tested.wait()
    ended = sorted(Path(os.environ["CIGUARD_DOTNET_FOLDER"]).glob("host-*"))[-1].read_text()
    is_aborted = '"session_end"' not in ended
    if is_aborted:
        print("The active test run was aborted. Reason: Test host process crashed", file=sys.stderr)
    file.add("complete", aborted=is_aborted, canceled=False)
    return int(is_aborted or has_failed or not cases)


def main(words: list[str]) -> int:
    note(f"call {json.dumps(words)}")
    if words[0] == "build":
        build(words[1])
    elif words[0] == "recording":
        adapter = next(name for name in PACKAGES if words[1].startswith(name))
        listed = read_recording(words[1], "list") if len(PACKAGES[adapter]) == 1 else []
        cases = [{"file": None, "line": 0, **one} for one in listed if one["type"] == "test"]
        write_assembly(adapter, cases, words[1])
    elif words[0] == "host":
        host(words[1], words[2], int(words[3]))
    elif words[0] == "--list-sdks":
        print(os.environ.get("SDKS", f"10.0.401 [{HERE}]"))
    elif words[0].endswith("csc.dll"):
        (out,) = (word.partition(":")[2] for word in words if word.startswith("-out:"))
        Path(out).write_text("")
    elif words[0] == "msbuild":
        built = {"TargetPath": str(ASSEMBLY.absolute())}
        names = re.split("[:,]", next(word for word in words if word.startswith("-getProperty")))
        values = [word.split("=")[1] for word in words if word.startswith("-p:TargetFramework=")]
        key = "@".join([Path(words[1]).name, *values])
        project = json.loads(os.environ.get("PROJECTS") or json.dumps({key: built})).get(key)
        if project is None:
            print("MSB1009: Projektdatei nicht vorhanden")
            return 1
        answer = {**dict.fromkeys(names[1:], ""), "TargetFramework": "net10.0", **project}
        print("{x}.csproj : warning MSB4011: imported twice")
        print(json.dumps({"Properties": answer}, indent=2))
    else:
        return console(words[1], words[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
