"""The files of a test job: results that its commands name, uploads, later downloads. Pure."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.workflow.test_commands import COVERAGE, RESULTS
from ciguard.workflow.yaml_values import dependents_of, get, jobs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.workflow.test_commands import FoundStep

RESULT_SUFFIXES: Final = (".trx", ".xml", ".json")
# The name of the file in an option of a test command.
_WRITTEN: Final = re.compile(
    r"(?:--(?:junit-?xml|junitfile|junit-filename|output-?file(?:\.\w+)?|log-junit|output-junit"
    r"|xunit-(?:file|output)|out|(?:reporter-)?outfile|test-reporter-destination)[= ]"
    r"|\boutput=|\bxml:|_OUTPUT_NAME=|-json >\s*)['\"]?([^\s'\"]+\.(?:xml|json|trx))",
    re.I,
)


class ResultUpload(NamedTuple):
    """An upload of test results.

    Attributes:
        step: its number in the job.
        artifact: its name, with expressions.
        patterns: of `--results`; the first folder is an artifact, whose name names the shard.
    """

    step: int
    artifact: str
    patterns: tuple[str, ...]


def glob_of(text: str) -> str:
    """Replace each expression in a text by a star."""
    return re.sub(r"\*+", "*", re.sub(r"\$\{\{.*?\}\}", "*", text, flags=re.DOTALL))


def written_files(*steps: FoundStep) -> list[str]:
    """Return the files of results that options of test commands name."""
    commands = [command for step in steps for command in step.commands]
    texts = {text for item in commands for text in (item.words, " ".join(item.arguments))}
    return sorted({name for text in texts for name in _WRITTEN.findall(text)})


def find_result_upload(job: Any, written: Sequence[str] = ()) -> ResultUpload | None:
    """Find the first step that uploads test results, by its paths or the artifact's name.

    Args:
        written: files that options of its test commands name.
    """
    suffixes = {f".{file.rpartition('.')[2]}" for file in written} or RESULT_SUFFIXES
    others = [f"*{suffix}" for suffix in sorted(suffixes)]
    for number, step in steps_of(job):
        inputs = step.get("with")
        if not uploads_artifact(step) or not isinstance(inputs, dict):
            continue
        lines = [line.strip() for line in str(inputs.get("path", "")).splitlines()]
        paths = [line for line in lines if line and not line.startswith(("!", "#"))]
        name = str(inputs.get("name", "artifact"))
        results = [path for path in paths if path.endswith(".xml") or _is_of_results(path, written)]
        results = [path for path in results if not COVERAGE.search(path)]
        if not results and _is_of_results(name) and not COVERAGE.search(name):
            results = paths
        if results:
            names = [glob_of(path.rstrip("/").rpartition("/")[2]) for path in results]
            files = [[name] if name.lower().endswith(RESULT_SUFFIXES) else others for name in names]
            patterns = (f"{glob_of(name)}/**/{file}" for file in dict.fromkeys(chain(*files)))
            return ResultUpload(number, name, tuple(patterns))
    return None


def _is_of_results(text: str, written: Sequence[str] = ()) -> bool:
    """Return whether a name or path is one of results, or a path has a file in `written`."""
    pattern = f"{glob_of(text).rstrip('/')}*"  # also of a folder
    files = (at + file for file in written for at in ("", "./"))
    return bool(RESULTS.search(text)) or any(fnmatchcase(file, pattern) for file in files)


def uploads_artifact(step: Any) -> bool:
    """Return whether the step uploads an artifact."""
    uses = get(step, "uses")
    return isinstance(uses, str) and uses.startswith("actions/upload-artifact@")


def find_downloads(workflow: Any, job: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (job, step, inputs) of later steps that download artifacts of a test job."""
    uploading = [step for _, step in steps_of(jobs_of(workflow).get(job)) if uploads_artifact(step)]
    uploads = [str(step.get("with", {}).get("name", "artifact")) for step in uploading]
    for name in dependents_of(workflow, job):
        for number, step in steps_of(workflow["jobs"][name]):
            inputs = step.get("with", {})
            wanted = str(inputs.get("name", inputs.get("pattern", "*")))
            is_ours = any(
                fnmatchcase(wanted, glob_of(upload)) or fnmatchcase(upload, wanted)
                for upload in uploads
            )
            if is_ours and str(step.get("uses")).startswith("actions/download-artifact@"):
                yield name, number, inputs
