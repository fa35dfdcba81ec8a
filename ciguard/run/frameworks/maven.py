"""JUnit 5 through Maven's Surefire: a unit is a top-level test class, `org.example.SumsTest`.

A listener of the JUnit Platform is on Surefire's additional class path, so no file of the project
changes. Surefire reads the classes from a file of patterns, which keeps most others unloaded. A
pattern also matches the end of a name, so the listener then selects exactly the units.
Source: https://maven.apache.org/surefire/maven-surefire-plugin/test-mojo.html
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from typing import Final

from ciguard.model import Suite
from ciguard.run.frameworks.base import Framework, Invocation, Listing, ProcessFiles, variant_args
from ciguard.run.frameworks.plugin_protocol import read_answer

PLUGIN: Final = "ciguard_junit.jar"
PARALLEL: Final = "junit.jupiter.execution.parallel.enabled"
DONE: Final = b'\n{"done": true}\n'
RAN: Final = re.compile(r"Tests run: [1-9]")
ERROR: Final = re.compile(
    r"^\[ERROR\] +(?!To see the full|Re-run Maven|For more inf|\[Help)(.+)$", re.M
)
FIRST_ERRORS: Final = 10  # lines; further errors of a compiler follow from these
NEEDED: Final = (
    "ciguard needs Surefire 2.22 or newer and JUnit 5.7 or newer; JUnit 4 runs with "
    "junit-vintage-engine, TestNG with testng-engine"
)


def _invocation(suite: Suite, variant: str, inside_folder: str, **properties: str) -> Invocation:
    settings = {
        "maven.test.additionalClasspath": os.path.join(inside_folder, PLUGIN),
        # Otherwise modules after one with a failed test would not run.
        "maven.test.failure.ignore": "true",
        "failIfNoTests": "false",
        "surefire.failIfNoSpecifiedTests": "false",
        # One class at a time, for its memory and its timeout; its methods may run in parallel.
        "forkCount": "1",
        "junit.jupiter.execution.parallel.mode.classes.default": "same_thread",
        **({} if suite.parallel is None else {PARALLEL: str(suite.parallel).lower()}),
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    words = tuple(f"-D{name}={value}" for name, value in settings.items())
    if suite.is_script:  # read by Maven 3.9 and newer
        return Invocation(suite.command, {}, {}, {"MAVEN_ARGS": (" ", " ".join(words))})
    return Invocation((*suite.command, *variant_args(suite, variant), *words))


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Return the program that compiles and discovers tests; the listener writes `answer_file`."""
    return _invocation(suite, variant, inside_folder, ciguard_list=answer_file)


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """Parse the classes of each module, by name; they are complete if Maven ended with 0."""
    text = printed.decode("utf-8", "replace")
    maven_errors = list(dict.fromkeys(error.strip() for error in ERROR.findall(text)))
    output = "\n".join(maven_errors[:FIRST_ERRORS]).encode() or printed
    listing = read_answer(suite, answer + (b"" if code else DONE), output, code, "maven")
    errors = list(listing.errors)
    if not code and (not listing.units or RAN.search(text)):
        what = "tests that do not run on" if RAN.search(text) else "no test class was found on"
        errors.append(f"{what} the JUnit Platform: {NEEDED}")
    counts = Counter(unit.unit for unit in listing.units)
    errors += [
        f"{unit} is in {count} modules: make each of them a suite (args = ['-pl', MODULE, '-am'])"
        for unit, count in counts.items()
        if count > 1
    ]
    return replace(listing, errors=tuple(errors))


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Return the program that runs a batch; the listener selects its classes and records them."""
    return _invocation(
        suite,
        variant,
        batch.inside_folder,
        surefire_includesFile=batch.lines_file,
        ciguard_units=batch.lines_file,
        ciguard_record=batch.record_file,
        ciguard_stop=batch.stop_file,
    )


def ancestors(unit: str) -> tuple[str, ...]:
    parts = unit.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return (*filter(None, names), "")


MAVEN: Final = Framework(
    "maven",
    unit="class",
    listing=listing,
    read_listing=read_listing,
    execution=execution,
    # Each job compiles; a job that has the compiled tests can use ("mvn", "-B", "surefire:test").
    default_command=("mvn", "-B", "test"),
    file_patterns=tuple(
        f"{name}.{extension}"
        for extension in ("java", "kt", "groovy", "scala")
        for name in ("Test*", "*Test", "*Tests", "*TestCase")
    ),
    plugin_files=(PLUGIN,),
    has_parallel=True,
    ids_one_per_line=True,
    # Failed tests do not fail Maven, see `_invocation`: 1 means that a process of tests died, a
    # module does not compile, or another plugin failed.
    failed_codes=(),
    hints=(
        ("JAVA_HOME|No compiler is provided", "set up Java in the job (actions/setup-java)"),
        (
            "MojoFailureException",  # at the end of the output; the failure is too far above
            "fix the build before its tests; the first [ERROR] lines of Maven name the problem",
        ),
    ),
    junit_name=lambda unit: (unit, ""),  # the names of its methods are not known
    ancestors=ancestors,
)
