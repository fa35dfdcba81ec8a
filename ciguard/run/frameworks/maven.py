"""JUnit 5 through Maven's Surefire: a unit is a top-level test class, `org.example.SumsTest`.

A listener of the JUnit Platform enters by Surefire's additional class path: no file of the project
changes. Surefire gets the classes as a file of patterns, which keeps the others unloaded where it
can; the listener then leaves exactly the units, because a pattern matches the end of a name, too.
Source: https://maven.apache.org/surefire/maven-surefire-plugin/test-mojo.html
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.run.frameworks.base import Framework, Invocation, Listing, ProcessFiles, variant_args
from ciguard.run.frameworks.plugin_protocol import read_answer

if TYPE_CHECKING:
    from ciguard.model import Suite

PLUGIN: Final = "ciguard_junit.jar"
DONE: Final = b'\n{"done": true}\n'
RAN: Final = re.compile(r"Tests run: [1-9]")
ERROR: Final = re.compile(
    r"^\[ERROR\] +(?!To see the full|Re-run Maven|For more inf|\[Help)(.+)$", re.M
)
FIRST_ERRORS: Final = 10  # lines; what a compiler says of the rest follows from these
NEEDED: Final = (
    "ciguard needs Surefire 2.22 or newer and JUnit 5.7 or newer; JUnit 4 runs with "
    "junit-vintage-engine, TestNG with testng-engine"
)


def _invocation(suite: Suite, variant: str, inside_folder: str, **properties: str) -> Invocation:
    found = {
        "maven.test.additionalClasspath": os.path.join(inside_folder, PLUGIN),
        # Else the modules that come after one with a failed test would not run.
        "maven.test.failure.ignore": "true",
        "failIfNoTests": "false",
        "surefire.failIfNoSpecifiedTests": "false",
        # One class at a time, for its memory and its limit; its methods may be parallel.
        "forkCount": "1",
        "junit.jupiter.execution.parallel.mode.classes.default": "same_thread",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    words = tuple(f"-D{name}={value}" for name, value in found.items())
    if suite.is_script:  # read by Maven 3.9 and newer
        return Invocation(suite.command, {}, {}, {"MAVEN_ARGS": (" ", " ".join(words))})
    return Invocation((*suite.command, *variant_args(suite, variant), *words))


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Compiles and discovers, but runs no test; the listener writes `answer_file`."""
    return _invocation(suite, variant, inside_folder, ciguard_list=answer_file)


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """The classes of each module by name; that Maven ended well says that these are all."""
    text = printed.decode("utf-8", "replace")
    said = list(dict.fromkeys(found.strip() for found in ERROR.findall(text)))[:FIRST_ERRORS]
    answer += b"" if code else DONE
    found = read_answer(suite, answer, "\n".join(said).encode() or printed, code, "maven")
    errors = list(found.errors)
    if not code and (not found.units or RAN.search(text)):
        what = "tests that do not run on" if RAN.search(text) else "no test class was found on"
        errors.append(f"{what} the JUnit Platform: {NEEDED}")
    counts = Counter(unit.unit for unit in found.units)
    errors += [
        f"{unit} is in {count} modules: make each of them a suite (args = ['-pl', MODULE, '-am'])"
        for unit, count in counts.items()
        if count > 1
    ]
    return replace(found, errors=tuple(errors))


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the listener leaves its classes, and records them."""
    return _invocation(
        suite,
        variant,
        batch.inside_folder,
        surefire_includesFile=batch.lines_file,
        ciguard_units=batch.lines_file,
        ciguard_record=batch.record_file,
        ciguard_stop=batch.stop_file,
    )


def junit_name(unit: str) -> tuple[str, str]:
    """The class is all that is known."""
    return unit, ""


def ancestors(unit: str) -> tuple[str, ...]:
    """The class and its packages."""
    parts = unit.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return (*filter(None, names), "")


MAVEN: Final = Framework(
    "maven",
    unit="class",
    listing=listing,
    read_listing=read_listing,
    execution=execution,
    # Each job compiles. One that has the compiled tests can have ("mvn", "-B", "surefire:test").
    default_command=("mvn", "-B", "test"),
    file_patterns=tuple(
        f"{name}.{extension}"
        for extension in ("java", "kt", "groovy", "scala")
        for name in ("Test*", "*Test", "*Tests", "*TestCase")
    ),
    plugin_files=(PLUGIN,),
    keeps_order=False,  # Surefire and JUnit order classes, as the project says
    ids_one_per_line=True,
    # Failed tests do not fail it, see `_invocation`: 1 is a process of tests that died, a module
    # that does not compile, another plugin that failed.
    failed_codes=(),
    hints=(
        (
            "JAVA_HOME|No compiler is provided",
            "set up Java in the job (actions/setup-java)",
        ),
        (
            "MojoFailureException",  # at Maven's end; what failed stands too far above
            "make Maven reach its tests; its first [ERROR] lines say why not, as of a compiler",
        ),
    ),
    junit_name=junit_name,
    ancestors=ancestors,
)
