"""The step of README's ladder that follows an audit: a command, or lines to add. Pure."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import textwrap
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ciguard.audit.result_options import RESULT_OPTIONS, RESULT_PATHS
from ciguard.audit.rules.base import locate
from ciguard.document import Listing, Paragraph, Section
from ciguard.errors import InputError
from ciguard.run.frameworks.registry import DEFAULT
from ciguard.text import count_of
from ciguard.workflow.actions_address import UNKNOWN_ADDRESS
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.matrix import combinations, text_of
from ciguard.workflow.movable_job import read_job, reject_obstacles, reject_shell
from ciguard.workflow.result_upload import ResultUpload, find_result_upload, written_files
from ciguard.workflow.rewrite import is_moved
from ciguard.workflow.test_commands import FoundStep, is_test_name
from ciguard.workflow.yaml_values import jobs_of, matrix_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.audit.rules.base import WorkflowFile

Kind = Literal["check", "results", "comment", "divide"]
_PURPOSES: Final[Mapping[Kind, str]] = {
    "check": "a check of the setup, and whether a drill ended red",
    "results": "result files for a comment on each run",
    "comment": "a comment on each run, by this job of docs/how-to/comment.md",
    "divide": "balanced jobs",
}
_ADDRESS_NOTE: Final = " (OWNER, COMMIT: those of ciguard's repository)"
MAX_COMMAND: Final = 74  # characters
# In the text of a workflow: jobs that plan or judge, and the job that comments.
_JUDGING: Final = re.compile(r"\bciguard\s+(?:guard|report|history)\b|(?:/ciguard|\$)/actions/\w")
_COMMENTING: Final = re.compile(r"\buses: *['\"]?[\w-]+/ciguard@")
_NAME: Final = re.compile(r"[\w.+-]{1,80}")
_UPLOAD: Final = """\
- if: always()
  uses: actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0
  with: { name: "results-${{ github.job }}-${{ strategy.job-index }}", path: FILES }
"""
_COMMENT_JOB: Final = """\
  ciguard:
    needs: [JOBS]
    if: always()
    runs-on: ubuntu-latest
    permissions: { actions: read, checks: read, contents: read, pull-requests: write }
    steps:
      - uses: ACTION
        with: { artifacts: true, results: RESULTS, needs: "${{ toJSON(needs) }}"EXPECT }
"""


class NextStep(NamedTuple):
    """A command, or lines to add to a workflow.

    Attributes:
        command: the only one, or one in the place of the lines; "" for none.
        problem: what has to change before, or "".
        fix: how to change it.
    """

    kind: Kind
    command: str = ""
    lines: str = ""
    problem: str = ""
    fix: str = ""


def after_workflows(
    files: Sequence[WorkflowFile], address: str, set_up: str = "", job: str = ""
) -> NextStep:
    """Return the step that follows an audit of workflows.

    Args:
        address: of the root action, as `OWNER/ciguard@COMMIT`.
        set_up: text before `ciguard init`, as a command that sets the address.
        job: id of the only test job to consider; "" for all.
    """
    texts = [re.sub("#.*", "", file.text) for file in files]
    if any(is_moved(file.content) for file in files) or any(map(_JUDGING.search, texts)):
        return NextStep("check", "ciguard doctor")
    steps = [(file, step) for file in files for step in file.test_steps() if job in ("", step.job)]
    if any(map(_COMMENTING.search, texts)):  # which names the address
        return NextStep("divide", _init_command(steps))
    if not steps:
        return NextStep("divide", set_up + _init_command(steps))
    file, step = max(steps, key=_likelihood)
    of_file = [step for other, step in steps if other is file]
    jobs = _jobs(file)
    uploads = {}
    for name in dict.fromkeys(step.job for step in of_file):
        written = written_files(*(step for step in of_file if step.job == name))
        if upload := find_result_upload(jobs[name], written):
            uploads[name] = upload
    if uploads:
        following = _comment(file.path, jobs, uploads, address)
    else:
        following = _write_results(file, of_file, step)
    return following if set_up else following._replace(command=_init_command(steps))


def _likelihood(found: tuple[WorkflowFile, FoundStep]) -> tuple[bool, bool, bool]:
    """Return how surely a step runs the tests of the project, for a comparison."""
    file, step = found
    file_name = file.path.rpartition("/")[2].partition(".")[0]
    is_matrix = has_matrix(_jobs(file)[step.job])
    return is_test_name(step.job), is_test_name(file_name), is_matrix


def _jobs(file: WorkflowFile) -> dict[str, Any]:
    """Return the jobs of a workflow by id; YAML reads some ids as numbers."""
    return {str(name): job for name, job in jobs_of(file.content).items()}


def _init_command(steps: Sequence[tuple[WorkflowFile, FoundStep]]) -> str:
    """Return the command that proposes to move the only test job, or asks which one."""
    jobs = {(file.path, step.job): file for file, step in steps}
    with_matrix = [key for key in jobs if has_matrix(_jobs(jobs[key])[key[1]])]
    candidates = with_matrix or list(jobs)
    if len(candidates) == 1:
        path, job = candidates[0]
        with contextlib.suppress(InputError):
            movable = read_job(jobs[candidates[0]].text, path, job, tasks=jobs[candidates[0]].tasks)
            reject_shell(movable)
            reject_obstacles(movable)
            # Another framework may need a configuration first.
            if all(command.framework == DEFAULT for command in movable.commands):
                return f"ciguard init --into {shlex.quote(path)} --job {job}"
    return "ciguard init"


def _write_results(file: WorkflowFile, steps: Sequence[FoundStep], step: FoundStep) -> NextStep:
    """Return the lines by which a test job uploads its results; `steps` are all of the file."""
    command, jobs = step.commands[0], _jobs(file)
    # A script of package.json passes options on; a recipe of a Makefile does not.
    programs = {command.framework, *(word.rpartition("/")[2] for word in command.arguments)}
    is_recipe = "make " in command.words
    words = " ".join(command.arguments) if is_recipe and DEFAULT not in programs else command.words
    programs |= {"make"} if words == command.words and is_recipe else set()
    option = next((text for name, text in RESULT_OPTIONS.items() if name in programs), "")
    path = RESULT_PATHS.get(command.framework, "")
    if written := written_files(step) or re.findall(r"> ?(\S+\.json)", words):
        option, path = "", "\n".join(written)
    fix = "add the step after its tests"
    if not (path or option):
        fix = "write a result file (docs/how-to/comment.md), and add the step"
    lines = ""
    if option:
        what = option.partition(":")[0] if option.startswith("env:") else "option"
        fix = f"add the {what} to its tests, and the step"
        option = f"-- {option}" if re.search(r"\bnpm (?:run|test|t)\b", words) else option
        width = max(30, MAX_COMMAND - len(option.partition("\n")[0]))
        words = textwrap.shorten(words, width, placeholder=" ...")
        separator = "\n" if what == "env" else " "
        lines = textwrap.indent(f"{words}{separator}{option}\n", "# ")
    at = locate(file, (("jobs", step.job, "steps", step.number), ""))[0]
    others = len({other.job for other in steps} - {step.job})
    problem = f"job {step.job} ({at.what}:{at.line}) uploads none"
    problem += f", nor {count_of(others, 'other job')}" if others else ""
    if repeated := [other for other in steps if _repeats_a_part(jobs, other)]:
        names = ", ".join(dict.fromkeys(other.job for other in repeated))
        fix += f". In {names}, the tries after || would replace the file: move it by ciguard init"
    own = [other for other in steps if other.job == step.job and other not in repeated]
    if sum(len({command.words for command in other.commands}) for other in own) > 1:
        fix += " (each further command: its own file, and for the same tests its own artifact)"
    upload = _UPLOAD.replace("FILES", json.dumps(path or "results*"))
    if keys := _naming_keys(matrix_of(jobs[step.job])):
        values = "-".join(f"${{{{ matrix.{key} }}}}" for key in keys)
        upload = upload.replace("${{ strategy.job-index }}", values)
    return NextStep("results", "", lines + upload, problem, fix)


def _naming_keys(matrix: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values distinguish the combinations in names of artifacts; or none."""
    keys = [str(key) for key in matrix if key not in ("include", "exclude")]
    with contextlib.suppress(InputError):
        found = [one.values for one in combinations(matrix)]
        names = ["-".join(text_of(values.get(key)) for key in keys) for values in found]
        is_unique = len(set(names)) == len(names)
        return keys if is_unique and all(map(_NAME.fullmatch, names)) else []
    return []


def _repeats_a_part(jobs: Mapping[str, Any], step: FoundStep) -> bool:
    """Return whether a command runs again after `||` with more words, as for the failed tests."""
    script = str(jobs[step.job]["steps"][step.number - 1].get("run"))
    tries = [[part.strip() for part in line.split("||")] for line in script.splitlines()]
    return any(part.startswith(f"{parts[0]} ") for parts in tries for part in parts[1:])


def _comment(
    path: str, jobs: Mapping[str, Any], uploads: Mapping[str, ResultUpload], address: str
) -> NextStep:
    """Return the job that comments on the results that these jobs upload."""
    problem, fix, names = "", "", dict[str, str]()
    for name, upload in uploads.items():
        artifact = re.sub(r"\$\{\{ *github\.job *\}\}", name, upload.artifact)
        if has_matrix(jobs[name]) and "${{" not in artifact:
            problem = f"all combinations of job {name} ({path}) upload {artifact}"
            fix = "add ${{ strategy.job-index }} to the name, and this job"
        elif artifact in names:
            problem = f"jobs {names[artifact]} and {name} ({path}) upload {artifact}"
            fix = "add ${{ github.job }} to the name, and this job"
        names[artifact] = name
    expect = ""
    with contextlib.suppress(InputError):  # an expression computes a matrix
        matrices = [matrix_of(jobs[name]) for name in uploads if has_matrix(jobs[name])]
        shards = len(uploads) + sum(len(combinations(matrix)) - 1 for matrix in matrices)
        expect = f", expect: {shards}"
    patterns = dict.fromkeys(name for upload in uploads.values() for name in upload.patterns)
    values = {
        "JOBS": ", ".join(uploads),
        "ACTION": address,
        "RESULTS": json.dumps("\n".join(patterns)),
        "EXPECT": expect,
    }
    lines = re.sub("|".join(values), lambda match: values[match[0]], _COMMENT_JOB)
    return NextStep("comment", "", lines, problem, fix)


def as_section(following: NextStep) -> Section:
    """Return the step with its purpose, and what has to change before or for it."""
    words = f"Next: {_PURPOSES[following.kind]}"
    if UNKNOWN_ADDRESS in f"{following.lines}{following.command}":
        words += _ADDRESS_NOTE
    if following.problem:
        words += f". {following.problem[:1].upper()}{following.problem[1:]}: {following.fix}"
    after = "Then: ciguard audit"
    if following.command:
        after += f" (or at once, for balanced jobs: {following.command})"
    blocks = (
        Paragraph(f"{words}:"),
        Listing("" if following.lines else following.command),
        Listing(following.lines, "yaml"),
        Paragraph(after if following.lines else ""),
    )
    return Section("next", blocks)
