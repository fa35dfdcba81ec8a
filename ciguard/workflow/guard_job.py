"""Jobs that guard the results of a matrix written by hand, added by edits of the workflow. Pure.

The test job keeps its lines; its first shard also lists the tests that exist, and results are
uploaded after a failure, too. The first added job judges the results; the next one records them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from ciguard.errors import InputError
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.matrix import combinations, fill_constant, text_of
from ciguard.workflow.movable_job import (
    HISTORY_JOB,
    REPORT_JOB,
    NotMovable,
    choose_step,
    load_ended,
)
from ciguard.workflow.positions import Edit, SourceText, entries, is_block
from ciguard.workflow.rewrite import append_jobs, is_moved, uploads_artifact
from ciguard.workflow.test_commands import COVERAGE, RESULTS, action_of, find_test_steps
from ciguard.workflow.yaml_values import jobs_of, needs_of, run_defaults_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

NextStep = Literal["guard", "history", "plan", "none"]
# The job that a next step adds.
NEW_JOBS: Final[Mapping[NextStep, str]] = {"guard": REPORT_JOB, "history": HISTORY_JOB}
# The file with the tests that exist, in the working folder of the step that runs them.
TESTS_FILE: Final = "ciguard-tests.txt"
AS_BLOCK: Final = "write jobs and steps as blocks, a key on each line"
_OWN_COMMAND: Final = re.compile(r"\bciguard\s+(guard|report|history)\b")
_OWN_ACTION: Final = re.compile(r"(?:ciguard|\$)/(?:actions/)?(report|history)(?:@|$)")
_VARIES: Final = re.compile(r"\$\{\{[^}]*\b(?:matrix\b|strategy\.job-index)[^}]*\}\}")
_TARGET: Final = re.compile(r"(?P<path>.+\.ya?ml):(?P<job>[\w-]+)")
_ALWAYS: Final = re.compile(r"\balways\(\)|!cancelled\(\)|\bsuccess\(\)\|\|failure\(\)")
_UPLOAD_FIX: Final = """upload its results in a step of the job:
    - if: always()
      uses: actions/upload-artifact@v7
      with:
        name: results-${{ strategy.job-index }}
        path: the JUnit or TRX files that the tests write"""


@dataclass(frozen=True, slots=True)
class ResultUpload:
    """The step of a job that uploads its test results.

    Attributes:
        step: number, from 1.
        artifact: name of the artifact, with expressions.
        paths: of the uploaded files, as written.
    """

    step: int
    artifact: str
    paths: tuple[str, ...]

    @property
    def is_unique_to_shard(self) -> bool:
        """Return whether the name differs between shards, as names of artifacts must."""
        return bool(_VARIES.search(self.artifact))

    @property
    def artifact_pattern(self) -> str:
        """Glob of the names of all shards' artifacts."""
        return _glob(self.artifact)

    @property
    def result_patterns(self) -> tuple[str, ...]:
        """Patterns of `--results`; the first folder is an artifact, whose name names the shard."""
        files = []
        for path in self.paths:
            name = _glob(path.rstrip("/").rpartition("/")[2])
            is_file = name.lower().endswith((".trx", ".xml"))
            files += [name] if is_file else ["*.trx", "*.xml"]
        return tuple(f"{self.artifact_pattern}/**/{name}" for name in dict.fromkeys(files))


@dataclass(frozen=True, slots=True)
class CommandStep:
    """The step that runs the tests; the step that lists them is added before it.

    Attributes:
        number: in the job, from 1.
        framework: "" if not known.
        folder, shell: of the commands, "" for GitHub's default.
        env: variables of the step.
    """

    number: int
    framework: str = ""
    folder: str = ""
    shell: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardedJob:
    """A test job with a matrix written by hand, whose results guard judges.

    Attributes:
        where: path of the workflow, for errors.
        is_conditional: the job may be skipped without a failure.
    """

    where: str
    name: str
    tests: CommandStep
    upload: ResultUpload
    is_conditional: bool


def _glob(text: str) -> str:
    """Replace each expression in a text by a star."""
    return re.sub(r"\*+", "*", re.sub(r"\$\{\{.*?\}\}", "*", text, flags=re.DOTALL))


def split_target(target: str) -> tuple[str, str]:
    """Split `FILE[:JOB]` into file and job, "" for no job."""
    match = _TARGET.fullmatch(target)
    return (match["path"], match["job"]) if match else (target, "")


def find_result_upload(job: Any) -> ResultUpload | None:
    """Find the first step that uploads test results, by its paths or the artifact's name."""
    for number, step in steps_of(job):
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
            return ResultUpload(number, name, tuple(results))
    return None


def _is_of_results(text: str) -> bool:
    return bool(RESULTS.search(text) and not COVERAGE.search(text))


def test_job(workflow: Any, path: str) -> str:
    """Return the only job with a matrix that runs tests, or else uploads test results.

    Raises:
        NotMovable: there are several such jobs, or none.
    """
    jobs = jobs_of(workflow)
    matrix_jobs = [name for name in jobs if has_matrix(jobs[name])]
    testing = {step.job for step in find_test_steps(workflow)}
    with_matrix = [name for name in matrix_jobs if name in testing] or [
        name for name in matrix_jobs if find_result_upload(jobs[name])
    ]
    if len(with_matrix) > 1:
        what = f"several jobs with a matrix run tests: {', '.join(with_matrix)}"
        raise NotMovable(what, where=path, fix=f"name one: --guard {path}:{with_matrix[0]}")
    return with_matrix[0] if with_matrix else choose_step(workflow, path)[0]


def next_step(workflow: Any, job: str = "") -> NextStep:
    """Return the next part of ciguard for a workflow: guard, then history, then plan.

    Args:
        job: only this job and the jobs that need it count; "" for all jobs.
    """
    if is_moved(workflow):
        return "none"
    used: set[str] = set()
    for name, value in jobs_of(workflow).items():
        if job not in ("", name, *needs_of(value)):
            continue
        for _, step in steps_of(value):
            used.update(_OWN_COMMAND.findall(str(step.get("run", ""))))
            used.update(_OWN_ACTION.findall(action_of(step)))
    if "history" in used:
        return "plan"
    return "history" if used else "guard"


def add_jobs(text: str, job: GuardedJob, added: Mapping[str, str], listing: str = "") -> str:
    """Add jobs after the last job of a workflow, and let the test job always upload its results.

    Args:
        added: texts of the jobs at column 0, by id.
        listing: text of the steps that list the tests at column 0; "" for none.

    Raises:
        NotMovable: lines cannot be added, or a job has an id of `added`.
    """
    where = job.where
    source, expected = SourceText(text), load_ended(text, where)
    jobs, entry = source.find("jobs"), source.find("jobs", job.name)
    if jobs is None or entry is None or not is_block(jobs.value, yaml.MappingNode):
        raise NotMovable("its jobs are in flow style", where=where, fix=AS_BLOCK)
    for name in added:
        if name in expected["jobs"]:
            what = f"there is a job {name} already"
            fix = "one matrix of a workflow is judged: divide the workflow, or rename that job"
            raise NotMovable(what, where=where, fix=fix)
    edits = [append_jobs(source, jobs, entry, [*added.values()])]
    steps = expected["jobs"][job.name]["steps"]
    step = steps[job.upload.step - 1]
    if "if" not in step:
        edits.append(_always(source, job))
        step["if"] = "always()"
    if listing:
        edits.append(_listing_edit(source, job, listing))
        steps[job.tests.number - 1 : job.tests.number - 1] = yaml.safe_load(listing)
    try:
        edited = source.edited(edits)
        actual = load_ended(edited, where)
    except InputError as error:
        raise NotMovable(error.what, where=where, fix=error.fix or AS_BLOCK) from error
    for value in added.values():
        expected["jobs"] |= load_ended(value, where)
    if actual != expected:
        what = "edits of its lines would change more than the added jobs"
        raise NotMovable(what, where=where, fix=AS_BLOCK)
    return edited


def _always(source: SourceText, job: GuardedJob) -> Edit:
    steps = source.find("jobs", job.name, "steps")
    node = steps.value.value[job.upload.step - 1] if steps else None
    if node is None or not is_block(node, yaml.MappingNode):
        what = "the step that uploads results is in flow style"
        raise NotMovable(what, where=job.where, fix=AS_BLOCK)
    first = next(entries(node))
    indent = source.line_break + " " * first.column
    return Edit(first.start, first.start, f"if: always(){indent}")


def _step_nodes(source: SourceText, job: str) -> list[yaml.Node]:
    steps = source.find("jobs", job, "steps")
    return list(steps.value.value) if steps and is_block(steps.value, yaml.SequenceNode) else []


def _start_of_step(source: SourceText, node: yaml.Node) -> tuple[int, str]:
    """Return the position before a step of a list in block style, and the step's indentation."""
    dash = source.text.rindex("-", 0, node.start_mark.index)
    line = source.line_start(dash)
    return source.comments_before(dash, dash - line), source.text[line:dash]


def _listing_edit(source: SourceText, job: GuardedJob, listing: str) -> Edit:
    nodes = _step_nodes(source, job.name)
    if not nodes:
        raise NotMovable("its steps are in flow style", where=job.where, fix=AS_BLOCK)
    start, indent = _start_of_step(source, nodes[job.tests.number - 1])
    lines = (f"{indent}{line}{source.line_break}" for line in listing.splitlines())
    return Edit(start, start, "".join(lines))


def read_guarded_job(workflow: Any, job: str, where: str) -> GuardedJob:
    """Read a test job with the step that uploads its results.

    Raises:
        NotMovable: there is no such step, its artifacts have one name or names that only the run
            knows, the step runs on success only, or no step before it runs a command.
        InputError: the matrix is computed.
    """
    value = jobs_of(workflow).get(job)
    if value is None:  # YAML reads the id as a number
        raise NotMovable(f"the id of the job {job} is no text", where=where, fix="quote it")
    upload = find_result_upload(value)
    location = f"{where}: jobs.{job}"
    if upload is None:
        raise NotMovable("no step uploads test results", where=location, fix=_UPLOAD_FIX)
    location = f"{location}.steps[{upload.step}]"
    if not upload.is_unique_to_shard:
        what = f"the artifacts of all shards have one name: {upload.artifact:.80}"
        fix = "add -${{ strategy.job-index }} to the name"
        raise NotMovable(what, where=location, fix=fix)
    condition = str(value["steps"][upload.step - 1].get("if", "always()"))
    if not _ALWAYS.search("".join(condition.split())):
        what = f"results are not uploaded in every case: if: {condition:.80}"
        raise NotMovable(what, where=location, fix="add `always() &&` to the condition")
    matrix = value["strategy"]["matrix"] if has_matrix(value) else None
    entries = combinations(matrix, f"{where}: jobs.{job}.strategy.matrix") if matrix else ()
    names = [fill_constant(upload.artifact, item.values, at) for at, item in enumerate(entries)]
    if not all(names) or len({name.lower() for name in names}) < len(names):
        what = f"the matrix alone does not make a name of each shard: {upload.artifact:.80}"
        fix = "name the artifact after values of the matrix, or ${{ strategy.job-index }}"
        raise NotMovable(what, where=location, fix=fix)
    for other, step in jobs_of(workflow).items():
        other_upload = find_result_upload(step) if other != job else None
        name = other_upload.artifact if other_upload is not None else ""
        if name and fnmatchcase(_glob(name), upload.artifact_pattern):
            what = f"its artifacts cannot be told from those of job {other}: {name:.80}"
            raise NotMovable(what, where=location, fix="begin the names of one with another word")
    return GuardedJob(where, job, _find_tests(workflow, job, upload, where), upload, "if" in value)


def _find_tests(workflow: Any, job: str, upload: ResultUpload, where: str) -> CommandStep:
    """Return the first step that runs tests; else the last command before the upload of results."""
    test_steps = [
        (step.number, step.commands[0].framework)
        for step in find_test_steps(workflow)
        if step.job == job and step.number < upload.step
    ]
    value = workflow["jobs"][job]
    commands = [at for at, step in steps_of(value) if "run" in step and at < upload.step]
    if not commands:
        what = "no step before the upload of its results runs a command"
        raise NotMovable(what, where=f"{where}: jobs.{job}", fix=AS_BLOCK)
    number, framework = test_steps[0] if test_steps else (commands[-1], "")
    step = value["steps"][number - 1]
    defaults = run_defaults_of(workflow, value)
    folder = str(step.get("working-directory") or defaults.get("working-directory") or "")
    if "matrix." in folder:
        what = f"the tests of each combination are in another folder: {folder:.80}"
        fix = "one shard lists the tests of all: run them from one folder"
        raise NotMovable(what, where=f"{where}: jobs.{job}.steps[{number}]", fix=fix)
    env = step.get("env")
    env = {str(key): text_of(text) for key, text in env.items()} if isinstance(env, dict) else {}
    return CommandStep(number, framework, folder.rstrip("/"), str(step.get("shell") or ""), env)
