"""The files of a test job: results that its commands name, uploads, later downloads. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, Final, NamedTuple

from ciguard.workflow.test_commands import COVERAGE, RESULTS, FoundStep
from ciguard.workflow.yaml_values import dependents_of, get, jobs_of, steps_of

_RESULT_SUFFIXES: Final = (".trx", ".xml", ".json")
# The name of the file in an option of a test command.
_WRITTEN: Final = re.compile(
    r"(?:--(?:junit-?xml|junitfile|junit-filename|output-?file(?:\.\w+)?|log-junit|output-junit"
    r"|xunit-(?:file|output)|out|(?:reporter-)?outfile|test-reporter-destination)[= ]"
    r"|\boutput=|\bxml:|_OUTPUT_NAME=)['\"]?([^\s'\"]+\.(?:xml|json|trx))",
    re.I,
)
# The same where a format is a word of its own, and the standard output goes to a file.
_PRINTED: Final = re.compile(
    r"(?<![.\w])(?:json|junit|xunit)(?![.\w=]).*(?<!\d)> ?['\"]?([^\s'\"]+\.(?:xml|json))", re.I
)
_VARIABLE: Final = re.compile(r"\$\{?\w+\}?")  # of the shell, of tox or of nox
_TRX: Final = re.compile(r"(?:--logger[= :]['\"]?|--report-)trx\b", re.I)


class ResultUpload(NamedTuple):
    """An upload of test results.

    Attributes:
        step: its number in the job.
        artifact: its name, with expressions.
        patterns: of `--results`; the first folder is an artifact, whose name names the shard.
        is_certain: its paths are those of result files; otherwise it may hold a page.
    """

    step: int
    artifact: str
    patterns: tuple[str, ...]
    is_certain: bool = True


def _glob_of(text: str) -> str:
    """Replace each expression in a text by a star."""
    return re.sub(r"\*+", "*", re.sub(r"\$\{\{.*?\}\}", "*", text, flags=re.DOTALL))


def written_files(*steps: FoundStep, job: Any = None) -> list[str]:
    """Return the files of results that options of test commands name; a variable is a star.

    Args:
        job: of the steps; variables of a step may hold options, too.
    """
    commands = [command for step in steps for command in step.commands]
    texts = {text for item in commands for text in (item.words, " ".join(item.arguments))}
    numbers = {step.number for step in steps}
    envs = [get(step, "env") for number, step in steps_of(job) if number in numbers]
    texts |= {f"{name}={env[name]}" for env in envs if isinstance(env, dict) for name in env}
    found = (form.findall(text) for form in (_WRITTEN, _PRINTED) for text in texts)
    names = {_VARIABLE.sub("*", name) for name in chain.from_iterable(found)}
    return sorted(names | {"**/*.trx" for text in texts if _TRX.search(text)})


def find_result_upload(job: Any, written: Sequence[str] = ()) -> ResultUpload | None:
    """Return the first of the uploads of test results; or None."""
    return next(find_result_uploads(job, written), None)


def find_result_uploads(job: Any, written: Sequence[str] = ()) -> Iterator[ResultUpload]:
    """Find the steps that upload test results, by their paths or the artifact's name.

    Args:
        written: files that options of its test commands name.
    """
    suffixes = {f".{file.rpartition('.')[2]}" for file in written} or _RESULT_SUFFIXES
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
            names = [_glob_of(path.rstrip("/").rpartition("/")[2]) for path in results]
            files = [
                [name] if name.lower().endswith(_RESULT_SUFFIXES) else others for name in names
            ]
            patterns = (f"{_glob_of(name)}/**/{file}" for file in dict.fromkeys(chain(*files)))
            is_certain = any(
                path.endswith(_RESULT_SUFFIXES) or _holds(path, written) for path in results
            )
            yield ResultUpload(number, name, tuple(patterns), is_certain)


def _is_of_results(text: str, written: Sequence[str] = ()) -> bool:
    """Return whether a name or path is one of results, or a path has a file in `written`."""
    return bool(RESULTS.search(text)) or _holds(text, written)


def _holds(path: str, written: Sequence[str]) -> bool:
    """Return whether a path is that of a file in `written`, or of its folder."""
    pattern = f"{_glob_of(path).rstrip('/')}*"
    return any(fnmatchcase(at + file, pattern) for file in written for at in ("", "./"))


def uploads_artifact(step: Any) -> bool:
    uses = get(step, "uses")
    return isinstance(uses, str) and uses.startswith("actions/upload-artifact@")


def _downloads(step: Any, artifact: str) -> bool:
    """Return whether the step downloads an artifact of this name, which may have expressions."""
    inputs = get(step, "with")
    wanted = str(get(inputs, "name") or get(inputs, "pattern") or "*")
    is_wanted = fnmatchcase(wanted, _glob_of(artifact)) or fnmatchcase(artifact, wanted)
    return is_wanted and str(get(step, "uses")).startswith("actions/download-artifact@")


def find_downloads(workflow: Any, job: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (job, step, inputs) of later steps that download artifacts of a test job."""
    uploading = [step for _, step in steps_of(jobs_of(workflow).get(job)) if uploads_artifact(step)]
    uploads = [str(step.get("with", {}).get("name", "artifact")) for step in uploading]
    for name in dependents_of(workflow, job):
        for number, step in steps_of(workflow["jobs"][name]):
            if any(_downloads(step, upload) for upload in uploads):
                yield name, number, step.get("with", {})
