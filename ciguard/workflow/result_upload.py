"""The step of a job that uploads its test results as an artifact. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ciguard.workflow.rewrite import uploads_artifact
from ciguard.workflow.test_commands import COVERAGE, RESULTS
from ciguard.workflow.yaml_values import steps_of


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
            name = _glob(path.rstrip("/").rpartition("/")[2])
            is_file = name.lower().endswith((".trx", ".xml"))
            files += [name] if is_file else ["*.trx", "*.xml"]
        return tuple(f"{_glob(self.artifact)}/**/{name}" for name in dict.fromkeys(files))


def _glob(text: str) -> str:
    """Replace each expression in a text by a star."""
    return re.sub(r"\*+", "*", re.sub(r"\$\{\{.*?\}\}", "*", text, flags=re.DOTALL))


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
