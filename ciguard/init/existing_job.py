"""The test job beside which `init` writes a workflow: what is taken over, and the rest. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.init.toolchains import pinned
from ciguard.workflow.job_templates import quoted
from ciguard.workflow.movable_job import comment_jobs, shorten
from ciguard.workflow.positions import SourceText
from ciguard.workflow.test_commands import split_commands
from ciguard.workflow.yaml_values import get, jobs_of, load, needs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.init.project import Suggestion

    _Path = tuple[str | int, ...]

STILL_RUNS: Final = "job {} still runs the same tests, until you delete it:"
MISSING: Final = "not in the new workflow; add to ciguard.toml what the tests need:"
SAME_CHECK: Final = "job {} comments too, and its check has the same name: delete it"
_VERSION: Final = re.compile(r"[\w.*/^~<>= -]+")
_VARIABLE: Final = re.compile(r"\$\{\{ *env\.(\w+) *\}\}")
_KEYS: Final = ("needs", "container", "services", "env", "defaults")  # of the job
# Inputs that are taken over, or that do not matter to the tests.
_INPUT: Final = re.compile(r"cache|^(persist-credentials|submodules)$")


@dataclass(frozen=True, slots=True)
class ExistingJob:
    """A job that runs tests.

    Attributes:
        path: of its workflow.
        step: number of the test step, from 1.
    """

    path: str
    name: str
    step: int
    source: SourceText
    workflow: Any

    @property
    def value(self) -> Any:
        return jobs_of(self.workflow)[self.name]

    @property
    def versions(self) -> dict[str, str]:
        """Return the literal versions of languages, of this job or of one that it needs."""
        env = get(self.workflow, "env")
        versions: dict[str, str] = {}
        for name in (self.name, *needs_of(self.value)):
            for _, step in steps_of(jobs_of(self.workflow).get(name)):
                for key, value in _inputs(step).items():
                    text = _VARIABLE.sub(lambda match: str(get(env, match[1])), str(value))
                    if key.endswith("-version") and _VERSION.fullmatch(text):
                        versions.setdefault(key, text)
        return versions

    @property
    def python(self) -> str:
        return pinned(self.versions.get("python-version", ""))

    def adapt(self, suggestion: Suggestion) -> Suggestion:
        """Take over the versions of languages and the submodules."""
        setup = suggestion.setup
        for name, version in self.versions.items():
            entry = f"{name}: {quoted(version)}"
            setup = re.sub(rf"\b{re.escape(name)}(-file)?: [^,}}\n]+", entry, setup)
        values = {str(_inputs(step).get("submodules")) for _, step in steps_of(self.value)}
        if values & {"True", "true", "recursive"}:
            command = f"git submodule update --init{' --recursive' * ('recursive' in values)}"
            setup = f"- run: {command}\n{setup}"
        return replace(suggestion, setup=setup)

    def describe(self, setup: str) -> str:
        """Name the test step, which still runs, and each line that the set-up does not have."""
        number, file = self.source.line_number, self.path.rpartition("/")[2]
        test = number("jobs", self.name, "steps", self.step, "run")
        rows = sorted((number(*path), text) for path, text in self._missing(setup))
        rows = [(test, _script(dict(steps_of(self.value))[self.step])), *rows]
        shown, *missing = [f"  {file}:{line}: {shorten(text)}" for line, text in rows]
        lines = [STILL_RUNS.format(self.name), shown, *([MISSING, *missing] if missing else [])]
        lines += [SAME_CHECK.format(name) for name in comment_jobs(self.workflow)]
        return "\n".join(lines)

    def _missing(self, setup: str) -> Iterator[tuple[_Path, str]]:
        """Yield (path in the workflow, text) of what the set-up does not have."""
        job, here = self.value, ("jobs", self.name)
        entries: list[tuple[_Path, Any]] = [(("env",), get(self.workflow, "env"))]
        entries += [((*here, key), job.get(key)) for key in _KEYS]
        entries += [((*here, "strategy", "matrix"), get(job.get("strategy"), "matrix"))]
        for number, step in steps_of(job):
            path: _Path = (*here, "steps", number)
            entries.append(((*path, "env"), step.get("env")))
            if number != self.step:
                yield from _missing_of_step(path, step, setup)
        for path, value in entries:
            if value:
                listed = ", ".join(map(str, value)) if isinstance(value, (dict, list)) else value
                yield path, f"{path[-1]}: {listed}"


def _missing_of_step(path: _Path, step: Any, setup: str) -> Iterator[tuple[_Path, str]]:
    action, script = str(step.get("uses", "")).partition("@")[0], str(step.get("run", ""))
    if action and action != "actions/checkout" and action not in setup:
        yield path, action
        return
    if not all(f" {' '.join(words[:2])}" in setup for words in split_commands(script)):
        yield (*path, "run"), _script(step)
    for key, value in _inputs(step).items():
        is_known = f"{key}:" in setup or f"--python {value}" in setup or "matrix." in str(value)
        if not (is_known or _INPUT.search(key)):
            yield (*path, "with", key), f"{action} {key}: {value}"


def read_existing_job(text: str, path: str, name: str, step: str) -> ExistingJob:
    return ExistingJob(path, name, int(step), SourceText(text), load(text, path))


def _inputs(step: Any) -> dict[str, Any]:
    inputs = step.get("with")
    return {str(key): inputs[key] for key in inputs} if isinstance(inputs, dict) else {}


def _script(step: Any) -> str:
    lines = str(step.get("run", "")).splitlines()
    return "; ".join(line for line in lines if line.strip() and line.lstrip()[0] != "#")
