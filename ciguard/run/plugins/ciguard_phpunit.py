"""Launcher of PHPUnit: `ciguard_phpunit.py COUNT PROGRAM OPTIONS`; COUNT words are the program.

PHPUnit takes no list of files. It gets a copy of the project's configuration, in the leg's private
folder, whose only test suite has the files of the leg. The tests that run are read from PHPUnit's
TeamCity log, which PHPUnit writes during the run. PHPUnit's output is unchanged.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from typing import TYPE_CHECKING, Callable, Iterable, Mapping, NamedTuple, Sequence

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins import ciguard_launcher as launcher
    from ciguard.run.plugins.ciguard_launcher import Leg, Line
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # -I omits this folder
    import ciguard_launcher as launcher

# PHPUnit's options, configuration or bootstrap file are wrong, or a shell runs no program.
SET_UP_FAILED = (1, 2, 126, launcher.NO_PROGRAM)
POLL_S = 0.01
SUITE = "ciguard"
CONFIGURATIONS = ("phpunit.xml", "phpunit.dist.xml", "phpunit.xml.dist")
# Attributes that PHPUnit 9 to 13 resolve relative to the folder of the configuration.
PATHS = (
    *("bootstrap", "cacheDirectory", "cacheResultFile", "extensionsDirectory", "printerFile"),
    *("testSuiteLoaderFile", "outputFile", "outputDirectory", "target", "customCssFile"),
    *("baseline", "file"),
)
PATH_ELEMENTS = ("directory", "file", "includePath")
SELECTING = ("--filter", "--exclude-filter", "--group", "--exclude-group", "--covers", "--uses")
FAIL_ON_RISKY = ("--fail-on-risky", "--fail-on-all-issues")
LISTED = re.compile(r"<(?:testCaseClass|testClass|phptFile|phpt) ([^>]*)>")
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
# PHPUnit 9 and 10 list classes without files, 11 an inherited test with the file of its parent.
CLASSES_PHP = """<?php
register_shutdown_function(static function () {
    $files = [];
    foreach (get_declared_classes() as $name) {
        if (is_subclass_of($name, 'PHPUnit\\\\Framework\\\\TestCase')) {
            $files[$name] = (new ReflectionClass($name))->getFileName();
        }
    }
    file_put_contents(__DIR__ . '/classes.json', json_encode($files));
});
"""
MESSAGE = re.compile(r"##teamcity\[(\w+)((?: \w+='(?:\|.|[^'|])*')*)\]\s*$")
LOG_ATTRIBUTE = re.compile(r" (\w+)='((?:\|.|[^'|])*)'")
ESCAPED = re.compile(r"\|(.)")
CONTROLS = {"n": "\n", "r": "\r"}
PLACE = re.compile(r"(.+):(\d+)$")
# A risky test is logged as a failed one, by a text of PHPUnit and without a trace.
RISKY = re.compile(r"This test |Test code or tested code |Execution aborted after |--- Global ")
ATTEMPT = re.compile(r" \(attempt (\d+) of \d+\)$")  # PHPUnit 13 logs the last one
RANKS = ("passed", "skipped", "failed")


class _Case:
    """A test that has begun, or that a message of the log names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.case = ""  # as the record names it; "" for the file
        self.outcome, self.said = RANKS[0], {}  # type: str, Mapping[str, str]

    def take(self, outcome: str, said: Mapping[str, str]) -> None:
        if RANKS.index(outcome) > RANKS.index(self.outcome):  # the first failure counts
            self.outcome, self.said = outcome, said


class TeamCityStream:
    """Parser of PHPUnit's TeamCity log: a line of the log becomes lines of the record.

    A unit is the file of a test class, or a .phpt file; tests and their data sets are cases.
    https://www.jetbrains.com/help/teamcity/service-messages.html

    Args:
        units: by path, with links resolved.
        suite: name of the test suite that holds all of them.
        risky: outcome of a risky test.

    Attributes:
        has_begun: PHPUnit had loaded all files.
        begun: units that have begun.
        is_complete: the test suite came to its end.
    """

    def __init__(self, units: Mapping[str, str], suite: str, risky: str) -> None:
        self._units, self._suite, self._risky = units, suite, risky
        self._unit, self._class = "", ""
        self._case: _Case | None = None
        self._names: dict[str, int] = Counter()  # of the unit's cases
        self.has_begun = False
        self.begun: set[str] = set()
        self.is_complete = False

    def read(self, line: bytes) -> list[Line]:
        """Return the lines of the record for a line of the log."""
        found = MESSAGE.match(line.decode("utf-8", "replace"))
        if found is None:
            return []
        self.has_begun = True
        said = {
            name: ESCAPED.sub(lambda one: CONTROLS.get(one[1], one[1]), text)
            for name, text in LOG_ATTRIBUTE.findall(found[2])
        }
        what, name = found[1], said.get("name", "")
        if what == "testSuiteStarted":
            return [*self._end_case(), *self._begin_suite(said.get("locationHint", ""))]
        if what == "testSuiteFinished":
            # After a class its file may have another one: the next start closes it.
            is_last = name == self._suite
            self.is_complete = self.is_complete or is_last
            return [*self._end_case(), *(self._enter("") if is_last else [])]
        if what in ("testStarted", "testFailed", "testIgnored"):
            return self._test(what, name, said)
        if what == "testFinished" and self._case is not None and self._case.name == name:
            return self._end_case(said.get("duration"))
        return []

    def _begin_suite(self, hint: str) -> list[Line]:
        path, _, symbol = hint.partition("php_qn://")[2].partition("::\\")
        if not symbol or "::" in symbol:
            return []  # a suite of suites, or the data sets of a test
        self._class = symbol
        return self._enter(self._units.get(path, ""))

    def _test(self, what: str, name: str, said: Mapping[str, str]) -> list[Line]:
        """Process a message on a test; a skipped test or a failed set-up may have no start."""
        lines: list[Line] = []
        if what == "testStarted" or self._case is None or self._case.name != name:
            lines = self._end_case()
            if name in self._units:
                lines += self._enter(self._units[name])
            self._case = _Case(name)
            self._name_case(self._case)
            if what == "testStarted" and self._unit and self._case.case:
                start = {"type": "event", "kind": "case_start", "unit": self._unit}
                lines.append({**start, "detail": self._case.case})
        assert self._case is not None
        if what == "testIgnored":
            self._case.take("skipped", said)
        elif what == "testFailed":
            text, trace = said.get("message", ""), said.get("details", "").strip()
            is_risky = not trace and RISKY.match(text) is not None
            self._case.take(self._risky if is_risky else "failed", said)
        return lines

    def _name_case(self, case: _Case) -> None:
        is_file = case.name in self._units
        name = "" if is_file or case.name == self._class else f"{self._class}::{case.name}"
        name = ATTEMPT.sub("", name)
        self._names[name] += 1
        count = self._names[name]
        case.case = name if count == 1 or not name else f"{name} #{count}"

    def _end_case(self, duration_ms: str | None = None) -> list[Line]:
        case, self._case = self._case, None
        if case is None or not self._unit:
            return []
        line: Line = {"type": "result", "unit": self._unit, "outcome": case.outcome}
        attempt = ATTEMPT.search(case.name)
        if attempt and attempt[1] != "1":
            line["reruns"] = int(attempt[1]) - 1
        if case.case:
            line["case"] = case.case
        if duration_ms is not None:
            line["wall_s"] = int(duration_ms) / 1000
        if case.outcome != "passed":
            line.update(self._message(case.said))
        return [line]

    def _message(self, said: Mapping[str, str]) -> Line:
        """Return the text and trace of a failure, and its first position in a file of a unit."""
        frames = [one.strip() for one in said.get("details", "").splitlines() if one.strip()]
        parts = [said.get("message", "").strip(), *frames]
        if "expected" in said:
            parts[1:1] = [f"expected: {said['expected']}", f"actual: {said.get('actual', '')}"]
        line: Line = {"message": launcher.truncated("\n".join(parts))}
        for place in filter(None, map(PLACE.match, frames)):
            if place[1] in self._units:
                return {**line, "file": self._units[place[1]], "line": int(place[2])}
        return line

    def _enter(self, unit: str) -> list[Line]:
        """Change from one unit, or none, to another."""
        lines: list[Line] = []
        if unit == self._unit:
            return lines
        if self._unit:
            lines += [] if self._names else [skipped(self._unit)]
            lines.append(launcher.closed(self._unit))
        if unit:
            lines.append({"type": "start", "unit": unit})
            self.begun.add(unit)
        self._unit, self._names = unit, Counter()
        return lines


def skipped(unit: str) -> Line:
    """Return the result of a file in which the options select no test."""
    message = "no test of it is selected"
    return {"type": "result", "unit": unit, "outcome": "skipped", "message": message}


class Options(NamedTuple):
    """Options of PHPUnit to keep in a run, and the configuration; "" for the usual one."""

    kept: list[str]
    configuration: str
    is_configured: bool = True


def parse_options(words: Sequence[str]) -> Options:
    """Remove the options that select files, or that stop before all files have run.

    Raises:
        ValueError: a word may be the value of an option, or a path.
    """
    kept: list[str] = []
    configuration, is_configured = "", True
    left = iter(words)
    for word in left:
        name, _, value = word.partition("=")
        if name in ("-c", "--configuration"):
            configuration = value or next(left, "")
        elif name == "--no-configuration":
            is_configured = False
        elif name in ("--testsuite", "--exclude-testsuite"):
            value = value or next(left, "")
        elif name == "-d":
            kept += [word, next(left, "")]
        elif word.startswith("-"):
            kept += [] if word.startswith("--stop-on-") else [word]
        elif kept and kept[-1].startswith("--") and "=" not in kept[-1]:
            if os.path.exists(word):
                one = f"{kept[-1]}={word}"
                raise ValueError(f"write {one} as one word, or the path {word} first")
            kept.append(word)
    return Options(kept, configuration, is_configured)


def find_configuration(options: Options) -> str:
    """Return the path of the file that PHPUnit would read; "" for none."""
    if not options.is_configured:
        return ""
    where = options.configuration or "."
    if not os.path.isdir(where):
        return where
    paths = (os.path.join(where, name) for name in CONFIGURATIONS)
    return next((path for path in paths if os.path.isfile(path)), "")


def read_configuration(path: str) -> ET.Element:
    """Return the project's configuration, with absolute paths.

    Raises:
        OSError, ET.ParseError: it cannot be read.
    """
    root = ET.parse(path).getroot() if path else ET.Element("phpunit")
    folder = os.path.dirname(os.path.abspath(path))
    for element in root.iter():
        for name in PATHS:
            if element.get(name):
                element.set(name, absolute(element.attrib[name], folder))
        if element.tag in PATH_ELEMENTS and element.text:
            element.text = absolute(element.text.strip(), folder)
    return root


def absolute(path: str, folder: str) -> str:
    """Return the absolute path for a path of the configuration; URLs are unchanged."""
    return path if "://" in path else os.path.join(folder, path)


def select_files(root: ET.Element, paths: Iterable[str]) -> None:
    """Make `paths` the only tests, in this order, and remove early stops."""
    for name in list(root.attrib):
        if name.startswith("stopOn") or name == "defaultTestSuite":
            del root.attrib[name]
    for element in [*root.findall("testsuites"), *root.findall("testsuite")]:
        root.remove(element)
    suite = ET.SubElement(ET.SubElement(root, "testsuites"), "testsuite", name=SUITE)
    for path in paths:
        ET.SubElement(suite, "file").text = path


def filters(words: Sequence[str]) -> list[str]:
    """Return the options, and the groups of the configuration, that select tests of a file."""
    path = find_configuration(parse_options(words))
    found = [
        word if "=" in word else f"{word} {after}"
        for word, after in zip(words, [*words[1:], ""])
        if word.startswith(SELECTING)
    ]
    for kind in read_configuration(path).findall("groups/*"):
        place = f"{os.path.normpath(path)}: {kind.tag}"
        found += [f"{place} group {group.text}" for group in kind.findall("group")]
    return found


def follow_log(
    argv: Sequence[str], environ: Mapping[str, str], log: str, take: Callable[[list[bytes]], bool]
) -> int:
    """Run a program, pass its log to `take` until that returns true; return its exit code, or 0."""
    open(log, "wb").close()
    with open(log, "rb") as stream:
        process = subprocess.Popen(list(argv), env=dict(environ), stdin=subprocess.DEVNULL)
        rest = b""
        while True:
            code = process.poll()  # before the last look
            *lines, rest = (rest + stream.read()).split(b"\n")
            if take(lines):
                process.terminate()
                process.wait()
                return 0
            if code is not None:
                return code
            time.sleep(POLL_S)


def run_tests(program: Sequence[str], words: Sequence[str], leg: Leg) -> int:
    """Run the units that still exist, in one process of PHPUnit."""
    options = parse_options(words)
    root = read_configuration(find_configuration(options))
    files = {os.path.realpath(unit): unit for unit in leg.units if os.path.isfile(unit)}
    leg.append(launcher.not_collected(unit for unit in leg.units if unit not in files.values()))
    if not files or leg.must_stop():
        return 0
    is_strict = root.get("failOnRisky") == "true" or any(one in words for one in FAIL_ON_RISKY)
    stream = TeamCityStream(files, SUITE, "failed" if is_strict else "passed")
    select_files(root, files)
    configuration = os.path.join(leg.private, "phpunit.xml")
    ET.ElementTree(root).write(configuration, encoding="utf-8", xml_declaration=True)
    log = os.path.join(leg.private, "teamcity.txt")

    def take(lines: Sequence[bytes]) -> bool:
        found = [one for line in lines for one in stream.read(line)]
        ends = [at for at, one in enumerate(found, 1) if one.get("kind") == "closed"]
        # If all units have run, PHPUnit only has to write its reports.
        stops = bool(ends) and not stream.is_complete and leg.must_stop()
        leg.append(found[: ends[-1]] if stops else found)
        return stops

    order = " ".join((root.get("executionOrder", ""), *options.kept))
    is_random = "random" in order and "random-order-seed" not in order
    seed = [f"--random-order-seed={int(time.time())}"] if is_random else []  # as PHPUnit does
    leg.append({"type": "event", "kind": "seed", "detail": one} for one in seed)
    words_kept = (*options.kept, *seed)
    argv = [*program, *words_kept, f"--configuration={configuration}", f"--log-teamcity={log}"]
    code = follow_log(argv, leg.environ, log, take)
    if not stream.has_begun and code not in SET_UP_FAILED:
        leg.append([{"type": "event", "kind": "collection_start"}])  # PHPUnit ended there
    if stream.is_complete and not leg.must_stop():
        selects = filters(words)
        for unit in (one for one in files.values() if one not in stream.begun):
            leg.append(
                unselected(unit) if selects else launcher.not_collected([unit], "it has no test")
            )
    return code


def unselected(unit: str) -> list[Line]:
    """Return the lines for a unit in which the options select no test."""
    return [{"type": "start", "unit": unit}, skipped(unit), launcher.closed(unit)]


def list_tests(program: Sequence[str], words: Sequence[str], leg: Leg) -> int:
    """List the files of all test classes that PHPUnit would run."""
    root = read_configuration(find_configuration(parse_options(words)))
    errors = [
        {"error": f"<{element.tag} {name}=...> of the configuration is not supported"}
        for suites in root.iter("testsuites")
        for element in suites.iter()
        for name in ("bootstrap", "groups")
        if name in element.attrib
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (
            ("classes.php", CLASSES_PHP),
            ("classes.ini", f"auto_prepend_file={json.dumps(os.path.join(folder, 'classes.php'))}"),
            ("classes.json", "{}"),
            ("tests.xml", ""),
        ):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
                stream.write(text)
        scanned = leg.environ.get("PHP_INI_SCAN_DIR", "")  # "" is the folder that PHP has
        environ = {**leg.environ, "PHP_INI_SCAN_DIR": f"{scanned}{os.pathsep}{folder}"}
        argv = [*program, *words, f"--list-tests-xml={os.path.join(folder, 'tests.xml')}"]
        code = subprocess.call(argv, env=environ, stdin=subprocess.DEVNULL)
        with open(os.path.join(folder, "classes.json"), encoding="utf-8") as stream:
            classes = json.load(stream)
        with open(os.path.join(folder, "tests.xml"), encoding="utf-8", errors="replace") as stream:
            listed = stream.read()
    if listed:  # otherwise PHPUnit's output has the reason
        files = listed_files(listed, classes)
        errors += [{"error": name, "message": "its file is unknown"} for name in files.pop("", ())]
        here = os.path.realpath(os.getcwd())
        names = (os.path.relpath(path, here).replace(os.sep, "/") for path in files)
        leg.answer(({"unit": name, "file": name} for name in names), errors, here)
    return code


def listed_files(listed: str, classes: Mapping[str, str]) -> "dict[str, list[str]]":
    """Return the classes of a list of tests, by file; "" if the file is unknown."""
    found: "dict[str, list[str]]" = {}
    for text in LISTED.findall(listed):
        said = {name: html.unescape(value) for name, value in ATTRIBUTE.findall(text)}
        name = said.get("name", "")
        path = classes.get(name) or said.get("file") or said.get("path", "")
        found.setdefault(path, []).append(name)
    return found


def main(count: str, *words: str) -> None:
    """Run or list tests, as the leg requested, and exit."""
    size = int(count)
    launcher.launch(
        words,
        lambda words, leg: list_tests(words[:size], words[size:], leg),
        lambda words, leg: run_tests(words[:size], words[size:], leg),
        errors=(OSError, ET.ParseError, ValueError),
        settings=lambda words, leg: [("filter", text) for text in filters(words[size:])],  # noqa: ARG005
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
