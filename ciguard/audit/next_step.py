"""The step of README's ladder that follows an audit: a command, or lines to add. Pure."""

from __future__ import annotations

import contextlib
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, Literal, NamedTuple

from ciguard.audit.rules.base import COMMENTING, WorkflowFile, locate
from ciguard.document import Listing, Paragraph, Section
from ciguard.errors import InputError
from ciguard.run.frameworks.registry import DEFAULT
from ciguard.text import count_of
from ciguard.workflow.actions_address import UNKNOWN_ADDRESS
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.conditions import are_opposite, evaluate
from ciguard.workflow.matrix import combinations, text_of
from ciguard.workflow.result_upload import ResultUpload, written_files
from ciguard.workflow.rewrite import is_moved
from ciguard.workflow.test_commands import (
    FoundStep,
    action_of,
    is_test_name,
    split_commands,
    step_script,
    without_retry,
)
from ciguard.workflow.yaml_values import matrix_of

# Words after `--` would replace the default words of an environment of tox, which may be a path.
_VARIABLE: Final = f"{DEFAULT.upper()}_ADDOPTS"
_ADDOPTS: Final = f"{_VARIABLE}: --junitxml=results"
# The path of the option may have variables: a file for each environment or session.
_TOX: Final = f"{_ADDOPTS}-$TOX_ENV_NAME.xml, TOX_OVERRIDE: testenv.pass_env+={_VARIABLE}"
_SILENT: Final = "the log then names no test"
# Program or framework -> words that make a test command write a result file, or two changes.
# A pipe to `tee` would hide a failure: the default shell of a step is bash without `pipefail`.
RESULT_OPTIONS: Final[Mapping[str, str]] = {
    "tox": f"env: {{ {_TOX} }}",
    "nox": f"env: {{ {_ADDOPTS}-$NOX_CURRENT_SESSION.xml }}",
    "make": f"env: {{ {_ADDOPTS}.xml }}",
    "richgo": f"-json > results.json\ncall go in the place of richgo; {_SILENT}",
    "gotestsum": "--junitfile=results.xml",
    DEFAULT: "--junitxml=results.xml",
    "jest": "--json --outputFile=results.json",
    "vitest": "--reporter=default --reporter=junit --outputFile.junit=results.xml",
    "mocha": f"--reporter xunit --reporter-option output=results.xml\n{_SILENT}",
    # npm writes to the standard output, too.
    "playwright": "--reporter=list,json\nenv: { PLAYWRIGHT_JSON_OUTPUT_NAME: results.json }",
    "node --test": (
        "--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "
        "--test-reporter-destination=results.xml"
    ),
    "bun": "--reporter=junit --reporter-outfile=results.xml",
    "go test": f"-json > results.json\n{_SILENT}",
    "dotnet test": "--logger trx",
    "ctest": "--output-junit results.xml",
    "rspec": "--format progress --format json --out results.json",
    "phpunit": "--log-junit results.xml",
}
# Framework -> its result files, unless they are in the folder of the tests.
RESULT_PATHS: Final[Mapping[str, str]] = {
    "ctest": "**/results*.xml",
    "dotnet test": "**/*.trx",
    "maven": "**/target/surefire-reports/*.xml",
    "gradle": "**/build/test-results/**/*.xml",
}


Kind = Literal["check", "results", "comment", "divide"]
_PURPOSES: Final[Mapping[Kind, str]] = {
    "check": "a check of the setup, and whether a drill ended red",
    "results": "result files for a comment on each run",
    "comment": "a comment on each run, by this job of docs/how-to/comment.md",
    "divide": "balanced jobs",
}
_ADDRESS_NOTE: Final = " (OWNER, COMMIT: those of ciguard's repository)"
_INIT: Final = "ciguard init"
MAX_COMMAND: Final = 74  # characters
# Actions of jobs that plan or judge, and verbs of commands that judge.
_JUDGING: Final = re.compile(r"(?:.+/ciguard|\$)/actions/\w+")
_VERBS: Final = frozenset({"guard", "report", "history"})
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
    steps = [step for file in files for step in file.steps()]
    if any(is_moved(file.content) for file in files) or any(map(_is_judging, steps)):
        return NextStep("check", "ciguard doctor")
    found = [(file, step) for file in files for step in file.test_steps() if job in ("", step.job)]
    if any(COMMENTING.fullmatch(action_of(step)) for step in steps):  # which names the address
        return NextStep("divide", _INIT)
    if not found:
        return NextStep("divide", set_up + _INIT)
    file, step = max(found, key=_likelihood)
    of_file = [step for other, step in found if other is file]
    names, jobs = {step.job for step in of_file}, file.jobs()
    if uploads := [(name, upload) for name, upload in file.result_uploads() if name in names]:
        following = _comment(file.path, jobs, uploads, address)
    elif all(_is_repeated(jobs, item) for item in of_file):
        what = f"in {_at(file, step)}, the tries after || would replace a result file"
        return NextStep("divide", set_up + _INIT, "", what, "move it")
    else:
        following = _write_results(file, of_file)
    return following if set_up else following._replace(command=_INIT)


def _is_judging(step: Mapping[str, Any]) -> bool:
    """Return whether a step uses an action of a planned run, or calls a verb on its results."""
    pairs = chain.from_iterable(map(pairwise, split_commands(step_script(step))))
    is_verb = any(f"/{word}".endswith("/ciguard") and verb in _VERBS for word, verb in pairs)
    return is_verb or bool(_JUDGING.fullmatch(action_of(step)))


def _line_of(file: WorkflowFile, step: FoundStep) -> int | None:
    return locate(file, (("jobs", step.job, "steps", step.number), ""))[0].line


def _at(file: WorkflowFile, step: FoundStep) -> str:
    """Return the job of a step with the line of the step."""
    return f"job {step.job} ({file.path}:{_line_of(file, step)})"


def _likelihood(found: tuple[WorkflowFile, FoundStep]) -> tuple[bool, bool, bool]:
    """Return how surely a step runs the tests of the project, for a comparison."""
    file, step = found
    file_name = file.path.rpartition("/")[2].partition(".")[0]
    is_matrix = has_matrix(file.jobs()[step.job])
    return is_test_name(step.job), is_test_name(file_name), is_matrix


class _Change(NamedTuple):
    """The change by which a test step writes result files.

    Attributes:
        lines: the changed command or keys of the step, as comments of YAML; "" for none.
        path: of the files; "" if it is not known.
        advice: the change in words.
    """

    lines: str
    path: str
    advice: str


def _change_of(step: FoundStep, job: Any) -> _Change:
    """Return what the first test command of a step needs to write result files."""
    command = step.commands[0]
    programs = {command.framework, *(word.rpartition("/")[2] for word in command.arguments)}
    if command.place and DEFAULT in programs:
        programs = {"make"}
    option = next((text for name, text in RESULT_OPTIONS.items() if name in programs), "")
    if command.framework == "node --test" and not command.arguments[-1].startswith("-"):
        option = ""  # node takes options before files only
    path = RESULT_PATHS.get(command.framework, "")
    if written := written_files(step, job=job):
        option, path = "", "\n".join(written)
    if not option:
        write = "write a result file (docs/how-to/comment.md), and add the step"
        return _Change("", path, "add the step after its tests" if path else write)
    what, words, place, separator = "option", command.words, "", " "
    if option.startswith("env:"):
        what, separator = "env", "\n"
    elif command.place:  # a script of package.json passes options on; a recipe does not
        words, place = " ".join(command.arguments), f" ({command.place})"
    option = f"-- {option}" if re.search(r"\bnpm (?:run|test|t)\b", words) else option
    beside = 0 if what == "env" else len(option.partition("\n")[0])
    width = max(30, MAX_COMMAND - beside)
    words = textwrap.shorten(words, width, placeholder=" ...")
    lines = textwrap.indent(f"{words}{separator}{option}\n", "# ")
    to = "this to the env of its tests" if what == "env" else f"the option to its tests{place}"
    return _Change(lines, path, f"add {to}, and the step")


def _write_results(file: WorkflowFile, steps: Sequence[FoundStep]) -> NextStep:
    """Return the lines by which a test job uploads its results; `steps` are all of the file."""
    jobs = file.jobs()
    repeated = [step for step in steps if _is_repeated(jobs, step)]
    others = [step for step in steps if step not in repeated]
    step = max(others, key=lambda step: _likelihood((file, step)))
    change = _change_of(step, jobs[step.job])
    count = len({other.job for other in steps} - {step.job})
    problem = f"{_at(file, step)} uploads none"
    problem += f", as do {count_of(count, 'other job')}" if count else ""
    fix = change.advice
    if repeated:
        names = ", ".join(dict.fromkeys(other.job for other in repeated))
        fix += f". In {names}, a retry after || would replace the file: move it by ciguard init"
    own = [other for other in others if other.job == step.job]
    ifs = [str(jobs[step.job]["steps"][other.number - 1].get("if", "")) for other in own]
    is_pair = len(own) == 2 and are_opposite(*ifs)  # noqa: PLR2004
    lines = ", ".join(str(_line_of(file, other)) for other in own if other is not step)
    if is_pair:
        fix += f"; line {lines} also has its tests"
    elif sum(len({command.words for command in other.commands}) for other in own) > 1:
        fix += (
            f" (each further command{lines and f', line {lines}'}: another file, and for the same "
        )
        fix += "tests another artifact; after a step that fails, it needs if: always())"
    upload = _UPLOAD.replace("FILES", json.dumps(change.path or "results*"))
    if keys := _naming_keys(matrix_of(jobs[step.job])) if not count else ():  # else it is for all
        values = "-".join(f"${{{{ matrix.{key} }}}}" for key in keys)
        upload = upload.replace("${{ strategy.job-index }}", values)
    return NextStep("results", "", change.lines + upload, problem, fix)


def _naming_keys(matrix: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values distinguish the combinations in names of artifacts; or none."""
    keys = [str(key) for key in matrix if key not in ("include", "exclude")]
    with contextlib.suppress(InputError):
        found = [one.values for one in combinations(matrix)]
        names = ["-".join(text_of(values.get(key)) for key in keys) for values in found]
        is_unique = len(set(names)) == len(names)
        return keys if is_unique and all(map(_NAME.fullmatch, names)) else []
    return []


def _is_repeated(jobs: Mapping[str, Any], step: FoundStep) -> bool:
    """Return whether a command of the step runs again after `||`."""
    script = step_script(jobs[step.job]["steps"][step.number - 1])
    return without_retry(script) != script


def _comment(
    path: str, jobs: Mapping[str, Any], uploads: Sequence[tuple[str, ResultUpload]], address: str
) -> NextStep:
    problem, fix, names, expected = "", "", dict[str, str](), 0
    for name, upload in uploads:
        artifact = re.sub(r"\$\{\{ *github\.job *\}\}", name, upload.artifact)
        if has_matrix(jobs[name]) and "${{" not in artifact:
            problem = f"all combinations of job {name} ({path}) upload {artifact}"
            fix = "add ${{ strategy.job-index }} to the name, and this job"
        elif artifact in names:
            steps = f"jobs {names[artifact]} and {name}"
            steps = f"two steps of job {name}" if names[artifact] == name else steps
            problem = f"{steps} ({path}) upload {artifact}"
            fix = "give each a name, as with ${{ github.job }}, and add this job"
        names[artifact] = name
    with contextlib.suppress(InputError):  # an expression computes a matrix
        expected = sum(_artifacts(jobs[name], upload) for name, upload in uploads)
    patterns = dict.fromkeys(name for _, upload in uploads for name in upload.patterns)
    values = {
        "JOBS": ", ".join(dict(uploads)),
        "ACTION": address,
        "RESULTS": json.dumps("\n".join(patterns)),
        "EXPECT": f", expect: {expected}" if expected else "",
    }
    lines = re.sub("|".join(values), lambda match: values[match[0]], _COMMENT_JOB)
    return NextStep("comment", "", lines, problem, fix)


def _artifacts(job: Any, upload: ResultUpload) -> int:
    """Return the number of artifacts of an upload in each run without a failure.

    Raises:
        InputError: the number depends on the run.
    """
    parts, events = (job, job["steps"][upload.step - 1]), ("push", "pull_request")
    tests = [evaluate(str(part.get("if", "")), event) for part in parts for event in events]
    if not (upload.is_certain and all(tests)):
        raise InputError(f"an upload of {upload.artifact} in some runs")
    return len(combinations(matrix_of(job))) if has_matrix(job) else 1


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
