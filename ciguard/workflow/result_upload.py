"""The result files of a test job: the option that writes one, and its upload. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.workflow.test_commands import COVERAGE, PYTEST, RESULTS
from ciguard.workflow.yaml_values import get, steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.workflow.test_commands import FoundCommand, FoundStep

# Program or framework -> what its command needs to write a file that ciguard reads, and the file.
# A pipe to `tee` would hide a failure: the default shell of a step is bash without `pipefail`.
RESULT_OPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "tox": ("-- --junitxml=results.xml", "results.xml"),
    "nox": ("-- --junitxml=results.xml", "results.xml"),
    "richgo": ("-json > results.json, and call go in the place of richgo", "results.json"),
    "gotestsum": ("--junitfile=results.xml", "results.xml"),
    PYTEST: ("--junitxml=results.xml", "results.xml"),
    "jest": ("--json --outputFile=results.json", "results.json"),
    "vitest": ("--reporter=default --reporter=junit --outputFile=results.xml", "results.xml"),
    "mocha": ("--reporter=xunit --reporter-option=output=results.xml", "results.xml"),
    "playwright": ("--reporter=json > results.json", "results.json"),
    "bun": ("--reporter=junit --reporter-outfile=results.xml", "results.xml"),
    "go test": ("-json > results.json", "results.json"),
    "dotnet test": ("--logger trx", "**/*.trx"),
    "ctest": ("--output-junit results.xml", "**/results.xml"),
    "rspec": ("--format progress --format json --out results.json", "results.json"),
    "phpunit": ("--log-junit results.xml", "results.xml"),
    "maven": ("", "**/target/surefire-reports/*.xml"),
    "gradle": ("", "**/build/test-results/**/*.xml"),
}
RESULT_SUFFIXES: Final = (".trx", ".xml", ".json")
# The name of the file in an option such as those above.
_WRITTEN: Final = re.compile(
    r"--(?:junit-?xml|junitfile|output-?file(?:\.\w+)?|log-junit|output-junit|xunit-(?:file|output)"
    r"|out|(?:reporter-)?outfile|test-reporter-destination)[= ]['\"]?([^\s'\"]+\.(?:xml|json|trx))",
    re.I,
)


@dataclass(frozen=True, slots=True)
class ResultUpload:
    """An upload of test results.

    Attributes:
        artifact: name of the artifact, with expressions.
        paths: of the uploaded files, as written.
    """

    artifact: str
    paths: tuple[str, ...]

    @property
    def result_patterns(self) -> tuple[str, ...]:
        """Patterns of `--results`; the first folder is an artifact, whose name names the shard."""
        files = []
        for path in self.paths:
            name = glob_of(path.rstrip("/").rpartition("/")[2])
            files += [name] if name.lower().endswith(RESULT_SUFFIXES) else ["*.trx", "*.xml"]
        return tuple(f"{glob_of(self.artifact)}/**/{name}" for name in dict.fromkeys(files))


def glob_of(text: str) -> str:
    """Replace each expression in a text by a star."""
    return re.sub(r"\*+", "*", re.sub(r"\$\{\{.*?\}\}", "*", text, flags=re.DOTALL))


def result_option(command: FoundCommand) -> tuple[str, str]:
    """Return (text to add to a test command, file that it then writes)."""
    programs = {word.rpartition("/")[2] for word in command.arguments}
    for name, option in RESULT_OPTIONS.items():
        if name in programs or name == command.framework:
            return option
    return "", "the JUnit, TRX or JSON file that the tests write"


def written_files(step: FoundStep) -> list[str]:
    """Return the files of results that the options of test commands name."""
    texts = {text for item in step.commands for text in (item.words, " ".join(item.arguments))}
    return sorted({name for text in texts for name in _WRITTEN.findall(text)})


def find_result_upload(job: Any) -> ResultUpload | None:
    """Find the first step that uploads test results, by its paths or the artifact's name."""
    for _, step in steps_of(job):
        inputs = step.get("with")
        if not uploads_artifact(step) or not isinstance(inputs, dict):
            continue
        lines = [line.strip() for line in str(inputs.get("path", "")).splitlines()]
        paths = [line for line in lines if line and not line.startswith(("!", "#"))]
        name = str(inputs.get("name", "artifact"))
        results = [path for path in paths if _is_of_results(path) or path.endswith(".xml")]
        results = [path for path in results if not COVERAGE.search(path)]
        if not results and _is_of_results(name):
            results = paths
        if results:
            return ResultUpload(name, tuple(results))
    return None


def _is_of_results(text: str) -> bool:
    return bool(RESULTS.search(text) and not COVERAGE.search(text))


def uploads_artifact(step: Any) -> bool:
    """Return whether the step uploads an artifact."""
    uses = get(step, "uses")
    return isinstance(uses, str) and uses.startswith("actions/upload-artifact@")
