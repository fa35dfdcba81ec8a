"""A test job of another workflow, whose versions and submodules `init` copies. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.init.toolchains import pinned
from ciguard.workflow.job_templates import quoted
from ciguard.workflow.positions import SourceText
from ciguard.workflow.yaml_values import get, jobs_of, load, needs_of, steps_of

if TYPE_CHECKING:
    from ciguard.init.project import Suggestion

_VERSION: Final = re.compile(r"[\w.*/^~<>= -]+")
_VARIABLE: Final = re.compile(r"\$\{\{ *env\.(\w+) *\}\}")


@dataclass(frozen=True, slots=True)
class ExistingJob:
    """A job that runs tests.

    Attributes:
        path: file of the workflow.
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
        """Return the literal versions of languages; those of the job before those of its needs."""
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
        """Return the suggestion with the versions of languages and the submodules of the job."""
        setup = suggestion.setup
        for name, version in self.versions.items():
            entry = f"{name}: {quoted(version)}"
            setup = re.sub(rf"\b{re.escape(name)}(-file)?: [^,}}\n]+", entry, setup)
        values = {str(_inputs(step).get("submodules")) for _, step in steps_of(self.value)}
        if values & {"True", "true", "recursive"}:
            command = f"git submodule update --init{' --recursive' * ('recursive' in values)}"
            setup = f"- run: {command}\n{setup}"
        return replace(suggestion, setup=setup)

    def describe(self) -> str:
        """Describe the settings that were copied, and the line of the test step to delete."""
        line = self.source.line_number
        here = f"{self.path}:{line('jobs', self.name, 'steps', self.step, 'run')}"
        return (
            f"job {self.name} still runs the same tests ({here}) until you delete it: its versions "
            f"of languages and submodules are taken over, no other step, env, service or matrix "
            f"(from line {line('jobs', self.name)}); add what the tests need to workflow.setup"
        )


def read_existing_job(text: str, path: str, name: str, step: str) -> ExistingJob:
    return ExistingJob(path, name, int(step), SourceText(text), load(text, path))


def _inputs(step: Any) -> dict[str, Any]:
    inputs = step.get("with")
    return {str(key): inputs[key] for key in inputs} if isinstance(inputs, dict) else {}
