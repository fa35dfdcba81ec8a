"""The step that uploads test results: what is found, and the patterns that its files match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ciguard.workflow.result_upload import find_result_upload, written_files
from ciguard.workflow.test_commands import FoundStep, find_test_commands


def job(*uploads: Mapping[str, object]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"run": "pytest"}]
    steps += [{"uses": "actions/upload-artifact@v7", "with": dict(one)} for one in uploads]
    return {"steps": steps}


@pytest.mark.parametrize(
    ("name", "path", "patterns"),
    [
        ("r-${{ matrix.part }}", "out/junit.xml", ("r-*/**/junit.xml",)),
        ("r-${{ matrix.part }}", "**/*.trx", ("r-*/**/*.trx",)),
        ("r", "TestResults/", ("r/**/*.json",)),
        ("r", "out/junit-${{ matrix.part }}.xml", ("r/**/junit-*.xml",)),
        ("r", "coverage.xml\nout/junit.xml\n!out/old.xml", ("r/**/junit.xml",)),
        ("test-results-${{ matrix.part }}", "a.trx", ("test-results-*/**/a.trx",)),
        ("r", "./results.json", ("r/**/results.json",)),
        ("r", "unit-${{ matrix.part }}.json", ("r/**/unit-*.json",)),
        ("r", "**/u*", ("r/**/*.json",)),
        ("r", "out/", ("r/**/*.json",)),
        (
            "r ${{ matrix.os }}-${{ matrix.part }}${{ strategy.job-index }}",
            "junit.xml",
            ("r *-*/**/junit.xml",),
        ),
    ],
)
def test_step_that_uploads_results_is_found_by_path_or_name(
    name: str, path: str, patterns: tuple[str, ...]
) -> None:
    uploads = job({"name": "logs", "path": "*.log"}, {"name": name, "path": path})
    found = find_result_upload(uploads, ("unit-${{ matrix.part }}.json", "out/api.json"))
    assert found is not None
    assert found.artifact == name
    assert found.patterns == patterns


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("go test -json -run=^TestA ./... 2>err.txt > r.json", ["r.json"]),
        ("gotestsum --jsonfile a.log --junitfile a.xml", ["a.xml"]),
        ("npx mocha --reporter json test >'out/m.json'", ["out/m.json"]),
        ("node --test --test-reporter=junit > $NAME.xml", ["*.xml"]),
        ("npx jest --json --outputFile=a.json", ["a.json"]),
        ("pytest --junitxml=a.xml -k json.dumps > log.json", ["a.xml"]),
        ("pytest > log.json", []),
    ],
)
def test_files_that_options_name_or_that_hold_printed_results(
    script: str, files: list[str]
) -> None:
    assert written_files(FoundStep("test", 1, find_test_commands(script))) == files


@pytest.mark.parametrize(
    "inputs",
    [
        {"name": "logs", "path": "*.log"},
        {"name": "coverage", "path": "coverage.xml"},
        {"name": "coverage-results", "path": "out/cobertura.xml"},
        {"name": "x"},
        {"name": "scan", "path": "results.sarif"},
        {"name": "x", "path": "out/unit.json"},
    ],
)
def test_other_artifacts_are_no_results(inputs: Mapping[str, object]) -> None:
    assert find_result_upload(job(inputs)) is None
