"""The suite of a step that runs `go test` or `dotnet test`: ciguard starts it itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from ciguard.audit.filters.vstest import WITH_VALUE
from ciguard.errors import UsageError
from ciguard.init.workflow_files import StarterSuite
from ciguard.run.frameworks import dotnet
from ciguard.run.frameworks.dotnet import DOTNET
from ciguard.run.frameworks.go import GO, REFUSED
from ciguard.run.frameworks.plugin_protocol import refuse_flags
from ciguard.workflow.matrix import EXPRESSION, fill, read_matrix
from ciguard.workflow.movable_job import MovableJob, NotMovable, shorten
from ciguard.workflow.test_commands import RULE, is_assignment, split_commands
from ciguard.workflow.yaml_values import get

_VARIABLE: Final = re.compile(r"\$[({]?(\w+)[)}]?")
_FLAG: Final = re.compile(r"(?:^|')-\w")  # in a value, or in a text of its expression
_EXPORT: Final = re.compile(r"^(?:[\w.-]+ *: *)?export\b.*|^\.EXPORT_ALL_VARIABLES.*", re.M)
_OUTPUT: Final = re.compile(r"--?json$|\d*[<>]")  # ciguard reads the tests' output itself
_ENV: Final = re.compile(r"\$\{\{ *env\.(\w+) *\}\}|\$\{?(\w+)\}?")
_FILTER_PART: Final = re.compile(rf"\(?{EXPRESSION.pattern}\)?&?", re.S)  # what is computed


def go_suite(job: MovableJob, name: str) -> tuple[StarterSuite, MovableJob, list[str]]:
    """Return the suite of `go test`, `richgo test` or `gotestsum`, the job for it, and messages.

    Raises:
        NotMovable: the step has other commands, or a flag that ciguard sets itself.
    """
    command = job.commands[0]
    flags = _flags(command.arguments)
    words = _only_command(job, "go test", flags, REFUSED)
    variables = [word for word in words if is_assignment(word)]
    variables += takewhile(is_assignment, command.arguments if command.place else ())
    messages = [f"ciguard starts go test itself, instead of: {shorten(command.words)}"]
    for tool in ("richgo", "gotestsum"):
        is_installed = f"/{tool}@" in str(job.value)
        if is_installed or tool in command.arguments:
            own = ("PATH=", f"{tool.upper()}_")
            gone = [word.partition("=")[0] for word in variables if word.startswith(own)]
            variables = [word for word in variables if not word.startswith(own)]
            messages += [f"not used without {tool}: {', '.join(gone)}"] if gone else []
        if is_installed:
            line = job.source.line_number("jobs", job.name, "steps", text=f"/{tool}@")
            messages.append(f"line {line} installs {tool}, which the tests no longer need")
    computed = [word for word in (*variables, *flags) if "$" in word]
    args = [word for word in flags if word not in computed]
    env = dict(word.split("=", 1) for word in variables if word not in computed)
    of_job = {**(get(job.workflow, "env") or {}), **(get(job.value, "env") or {})}
    is_free = "GOFLAGS" not in of_job and not any("env" in step for step in job.steps.values())
    names = [match[1] for match in map(_VARIABLE.fullmatch, computed if is_free else ()) if match]
    names = [name for name in names if _FLAG.search(str(of_job.get(name)))]
    if names:
        messages.append(f"GOFLAGS of the step has {', '.join(names)}: write flags as -name=value")
    left_out = [word for word in computed if word.strip("${()}") not in names]
    if left_out:
        what = f"left out, as the workflow computes them: {', '.join(left_out)}"
        messages.append(f"{what}; flags can be in GOFLAGS in `env` of the job")
    goflags = " ".join(f"${{{{ env.{name} }}}}" for name in names)
    changed = replace(job, runs_suite=True, goflags=goflags)
    return StarterSuite(name, GO.name, args=tuple(args), env=env), changed, messages


def about_recipe(job: MovableJob, makefile: str) -> Iterator[str]:
    """Yield a message on the rest of a recipe whose test command ciguard starts itself.

    Raises:
        NotMovable: no line has this command alone, or it gets variables of the Makefile.
    """
    command = job.commands[0]
    called = command.words.split() if command.place else ()
    plain, program = [list(command.arguments)], command.framework
    for rule in (rule for rule in RULE.finditer(makefile) if rule[1] in called):
        head, *lines = rule[0].replace("\\\n", " ").replace("\t@", "\t").splitlines()
        texts = {text.strip(): [*split_commands(text)] for text in lines}
        what = f"no line of {rule[1]} has only {' '.join(*plain)}"
        what = "" if plain in texts.values() else what
        if export := _EXPORT.search(makefile):
            what = f"{program} would run without {export[0]}"
        if what:
            fix = f"write {program} into the step, which can have env and working-directory"
            raise NotMovable(f"{command.place}: {shorten(what)}", where=job.where, fix=fix)
        rest = [text for text, words in texts.items() if words not in ([], plain)]
        rest = [text for text in rest if not text.startswith(("$(info", "echo ", "printf "))]
        if rest := [*head.partition(":")[2].partition("#")[0].split(), *rest]:
            what = f"{command.place}: {rule[1]} also runs {shorten(', '.join(rest))}"
            yield f"{what}, and ciguard does not: add a step if the tests need it"


def _flags(words: Sequence[str]) -> list[str]:
    """Return the flags and packages of go test; all packages if gotestsum has none."""
    pairs = zip(("", *words), words, strict=False)
    words = [at for before, at in pairs if not (_OUTPUT.match(at) or before.endswith((">", "<")))]
    if "test" in words:
        return [*words[words.index("test") + 1 :]]
    return [*words[words.index("--") + 1 :]] if "--" in words else ["./..."]


def _only_command(
    job: MovableJob, program: str, flags: Sequence[str], refused: Mapping[str, str]
) -> list[str]:
    """Return the words of the only command of a step.

    Raises:
        NotMovable: the step has other commands, or a flag that ciguard sets itself.
    """
    scripts = dict.fromkeys(step["run"] for step in job.steps.values())
    words, *others = [words for script in scripts for words in split_commands(script)]
    if others:
        what = f"ciguard starts {program} itself, without the step's {' '.join(others[0]):.60}"
        raise NotMovable(what, where=job.where, fix="move other commands into a step before it")
    try:
        refuse_flags(flags, refused, program)
    except UsageError as error:
        raise NotMovable(f"{error.what} of {program}", where=job.where, fix=error.fix) from error
    return words


def dotnet_suite(job: MovableJob, name: str) -> tuple[StarterSuite, MovableJob, list[str]]:
    """Return the suite of `dotnet test`, the job for it, and messages.

    Raises:
        NotMovable: as `_only_command`; or the jobs of the matrix have different tests.
    """
    words = job.commands[0].arguments
    command, left_out = dotnet_command(job)
    _only_command(job, "dotnet test", command, dotnet.REFUSED)
    several = [word for word in words if len(_values(job, word)) > 1]
    if several or "--filter" in left_out:
        what = f"the matrix or the job computes the tests: {' '.join(several or left_out):.80}"
        raise NotMovable(what, where=job.where, fix="write projects and filter into the command")
    messages = [f"ciguard starts dotnet test itself, instead of: {shorten(' '.join(words))}"]
    if left_out:
        messages.append(f"left out, as the workflow computes them: {' '.join(left_out)}")
    if "--no-build" not in command and ".dll" not in " ".join(command):
        messages.append("ciguard builds no tests: let `dotnet build` do it in a step before")
    suite = StarterSuite(name, DOTNET.name, command=tuple(command))
    return suite, replace(job, runs_suite=True), messages


def dotnet_command(job: MovableJob) -> tuple[list[str], list[str]]:
    """Return the command of `dotnet test` as far as it is literal, and the words left out.

    The command has the projects of all combinations of the matrix, and literal parts of a filter.
    """
    words = job.commands[0].arguments
    at = words.index("dotnet")
    command, left_out = list(words[at : at + 1]), list(words[:at])
    for word in words[at + 1 :]:
        values, option = _values(job, word), command[-1] if command[-1] in WITH_VALUE else ""
        if "$" not in "".join(values) and (len(values) == 1 or not (option or word[0] == "-")):
            command += values
            continue
        rest = _FILTER_PART.sub("", word) if option == "--filter" else ""
        if rest and "$" not in rest:
            left_out += [option, word.replace(rest, "")]
            command.append(rest)
        else:
            left_out += [command.pop(), word] if option else [word]
    return command, left_out


def _values(job: MovableJob, word: str) -> list[str]:
    """Return the values of a word in the combinations of the matrix, with literal variables."""
    env = {**(get(job.workflow, "env") or {}), **(get(job.value, "env") or {})}
    known = _ENV.sub(lambda match: str(env.get(match[1] or match[2], match[0])), word)
    return list(dict.fromkeys(fill(known, item.values) for item in read_matrix(job.matrix)))


# Adapter -> suite of a step that runs its framework, which ciguard starts itself.
STARTED_SUITES: Final = {GO.name: go_suite, DOTNET.name: dotnet_suite}
