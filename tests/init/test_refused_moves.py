"""Jobs that `ciguard init --into` refuses to move, each with its reason."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import CI, JOB, OWN, PYTEST, WORKFLOW, commit, job_with, write

from ciguard.config.file import load
from ciguard.workflow.yaml_values import load as yaml_load

if TYPE_CHECKING:
    from init.conftest import Init

REFUSED = {
    "none": (b"      - run: pip install pytest\n", "no step with a test command was found", 3),
    "two in one": (
        b"      - run: |\n          pytest a\n          pytest b\n",
        "2 commands run",
        3,
    ),
    "own shards": (
        b"      - run: pytest\n        env:\n          N: ${{ strategy.job-index }}\n",
        "the job divides its tests by itself",
        3,
    ),
    "shards by other options": (
        b"      - run: pytest --num-shards 3 --shard-id ${{ matrix.x }}\n",
        "the job divides its tests by itself",
        3,
    ),
    "group used elsewhere": (
        b"      - run: pytest --splits 3 --group ${{ matrix.x }}\n      - run: a ${{ matrix.x }}\n",
        "the job divides its tests by itself",
        3,
    ),
    "docker": (b"      - run: docker run image pytest\n", "variables do not reach the tests", 3),
    "bazel": (b"      - run: bazel test\n", "ciguard has no adapter for bazel: bazel test", 3),
    "ctest": (b"      - run: ctest -j4\n", "ciguard starts ctest itself: ctest -j4", 3),
    "go flag": (b"      - run: go test -run A ./...\n", "the flag -run of go test", 3),
    "go and more": (
        b"      - run: |\n          go test ./...\n          go vet ./...\n",
        "ciguard starts go test itself, without the step's go vet ./...",
        3,
    ),
    "condition": (
        b"      - run: pytest\n        if: matrix.coverage\n",
        "jobs.test.steps[1], line 7: jobs where its condition is false would have no results: "
        "if: matrix.coverage",
        3,
    ),
    "another repository": (
        b"      - {uses: actions/checkout@v6, with: {repository: 'a/${{ matrix.x }}'}}\n"
        b"      - {uses: actions/checkout@v6, with: {path: b}}\n      - run: pytest\n",
        "jobs.test.steps[3]: the tests are those of another repository: a/${{ matrix.x }}",
        3,
    ),
    "flow step": (b"      - {run: pytest}\n", "the step is in flow style", 3),
    "output": (
        b"      - id: t\n        run: pytest\n      - run: echo ${{ steps.t.outputs.x }}\n",
        "steps.t.outputs is used",
        3,
    ),
    "pwsh": (b"      - shell: pwsh\n        run: pytest\n", "ciguard runs no pwsh script", 3),
    "own shell": (
        b"      - shell: msys2 {0}\n        run: pytest\n",
        "runs no msys2 {0} script",
        3,
    ),
}


REFUSED_FILES = {
    **{name: (JOB + steps, what, code) for name, (steps, what, code) in REFUSED.items()},
    "called workflow": (
        b"on: push\njobs:\n  test:\n    uses: ./.github/workflows/test.yml\n",
        "jobs that call a workflow: test",
        3,
    ),
    "computed matrix": (
        job_with(b"strategy:", b"  matrix: ${{ fromJSON(needs.x.outputs.y) }}"),
        "the matrix is computed",
        3,
    ),
    "computed axis": (
        job_with(b"strategy:", b"  matrix:", b"    os: ${{ fromJSON(inputs.os) }}"),
        "the matrix is computed",
        3,
    ),
    "shared anchor": (
        job_with(b"strategy:", b"  matrix:", b"    os: &os [a, b]", b"env:", b"  X: *os"),
        "edits of its lines would change more than the job, as where an anchor is used twice",
        3,
    ),
    "shared data file": (
        job_with(b"env: &env {COVERAGE_FILE: x}")
        + b"      - uses: actions/upload-artifact@v7\n        with: {path: x}\n"
        + b"  total:\n    needs: test\n    env: *env\n    steps:\n"
        + b"      - uses: actions/download-artifact@v7\n        with: {merge-multiple: true}\n",
        "edits of its lines would change more than the job, as where an anchor is used twice",
        3,
    ),
    "anchor of another place": (
        b"env: {X: &os [a, b]}\n" + job_with(b"strategy:", b"  matrix:", b"    os: *os"),
        "the matrix uses an anchor of another place",
        3,
    ),
    "concurrency": (job_with(b"concurrency: all"), "its shards would cancel each other", 3),
    "npm": (
        job_with() + b"      - run: npm publish -w a --tag b\n",
        "could publish: npm publish",
        3,
    ),
    "twine": (job_with() + b"      - run: a && py -m twine upload b\n", "could publish: py -m", 3),
    "action": (job_with() + b"      - uses: pypa/gh-action-pypi-publish@v1\n", "publish: pypa/", 3),
    "environment": (job_with(b"environment: live"), "each shard could publish: environment", 3),
    "token": (job_with(b"permissions: {id-token: write}"), "could publish: id-token: write", 3),
    "flow job": (b"on: push\njobs:\n  test: {steps: [{run: pytest}]}\n", "in flow style", 3),
    "taken name": (
        b"on: push\njobs:\n  ciguard:\n    steps: []\n"
        + JOB.partition(b"jobs:\n")[2]
        + b"      - run: pytest\n",
        "another job is called ciguard",
        3,
    ),
    "two documents": (WORKFLOW + b"---\n" + WORKFLOW, "not YAML: but found another document", 3),
    "no workflow": (b"- a\n", "no workflow: it has no jobs", 3),
    "empty": (b"", "no workflow: it has no jobs", 3),
    "broken": (b"on: [\n", "not YAML", 3),
    "not UTF-8": (b"on: push # \xff\n", "not UTF-8", 3),
    "10 MB": (b"# " + b"x" * 10_000_000 + b"\n" + WORKFLOW, "10,000,138 characters, more than", 3),
}


@pytest.mark.parametrize(("workflow", "what", "code"), REFUSED_FILES.values(), ids=REFUSED_FILES)
def test_workflow_is_refused_in_one_line_and_stays_as_it_is(
    workflow: bytes, what: str, code: int, repository: Path, call: Init
) -> None:
    write(repository, workflow)
    answer = call(repository, "--into", CI, "--yes", expect=code)
    first, *rest = answer.stderr.splitlines()
    assert first.startswith(f"ciguard init: {CI}")
    assert what in first
    assert len(rest) <= 1
    assert all(line.startswith("  fix: ") for line in rest)
    assert (repository / CI).read_bytes() == workflow


def test_job_that_resembles_a_refused_one_is_moved(repository: Path, call: Init) -> None:
    step = b"      - run: cargo publish --dry-run; gh release download v1\n"
    upload = b"      - {uses: a/b@v1, with: {use_oidc: true}}\n"
    for name in (b"a/b, path: data", b"'${{ github.repository }}'"):
        upload += b"      - {uses: actions/checkout@v6, with: {repository: " + name + b"}}\n"
    write(repository, job_with(b"permissions: {id-token: write}") + step + upload)
    call(repository, "--into", CI, "--yes")
    moved = (repository / CI).read_bytes()
    assert b"  ciguard-report:\n" in moved
    assert step in moved


def test_all_obstacles_of_a_job_are_named_at_once(repository: Path, call: Init) -> None:
    step = b"      - id: t\n        if: matrix.x\n        shell: pwsh\n        run: bazel test\n"
    used = b"      - run: echo ${{ steps.t.outputs.x }} ${{ strategy.job-index }}\n"
    write(repository, job_with(b"concurrency: a").removesuffix(PYTEST) + step + used)
    lines = call(repository, "--into", CI, "--yes", expect=3).stderr.splitlines()
    assert lines[0] == "ciguard init: 6 problems"
    assert [re.sub(r".*?jobs\.test\S* (line \d+: )?", "", line) for line in lines[1::2]] == [
        "ciguard has no adapter for bazel: bazel test",
        "ciguard runs no pwsh script",
        "its shards would cancel each other: they have one concurrency group",
        "the job divides its tests by itself: strategy.job-index or strategy.job-total",
        "steps.t.outputs is used, which the action does not have",
        "jobs where its condition is false would have no results: if: matrix.x",
    ]


def test_lines_to_write_have_a_suite_that_the_action_runs(repository: Path, call: Init) -> None:
    step = b"      - run: dotnet test --filter '(${{ matrix.p }})&C!=a'\n        shell: cmd\n"
    step += b"      - {uses: actions/upload-artifact@v4, with: {name: '${{ env.A }}', path: a}}\n"
    step += b"  sums:\n    needs: test\n    runs-on: ubuntu-latest\n    steps:\n"
    step += (
        b"      - {uses: actions/download-artifact@v4, with: {merge-multiple: true, pattern: a}}\n"
    )
    matrix = (b"strategy:", b"  matrix:", b"    os: [a, b]", b"    p: [C=b, C=c]")
    write(repository, job_with(*matrix).removesuffix(PYTEST) + step)
    answer = call(repository, "--into", CI, expect=3)
    suite, _, jobs = answer.stdout.partition("\n\n")
    assert suite.splitlines()[:2] == [
        "# left out of `command`, as computed: --filter (${{ matrix.p }})&",
        f"# {CI}:17: sums merges the files of all shards: equal names replace each other",
    ]
    command = ["dotnet", "test", "--filter", "C!=a"]
    assert tomllib.loads(suite)["suite"]["test"] == {"framework": "dotnet", "command": command}
    ciguard, test, *_ = yaml_load(jobs, CI).values()
    assert yaml_load(ciguard["steps"][1]["with"]["matrix"], CI) == {"os": ["a", "b"]}
    assert set(test["steps"][0]["with"]) == {"plan", "plan-id", "shard"}


def test_reason_of_a_refusal_comes_before_lines_for_the_job(repository: Path) -> None:
    job = JOB.replace(b"  test:", b"  unit:")
    write(repository, job + b"      - {run: pytest}\n")
    program = [sys.executable, "-m", "ciguard", "init", "--into", CI]
    both = subprocess.run(
        program, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    lines = both.stdout.decode().splitlines()
    assert both.returncode == 3
    assert lines[0] == f"ciguard init: {CI}:3: jobs.unit: the step is in flow style"
    assert lines[1].startswith("  fix: ")
    assert {"unit:", '        suite: "unit"', "  needs: [ciguard, unit]"} < set(lines)
    write(repository, WORKFLOW)
    moved = subprocess.check_output(program, cwd=repository, stderr=subprocess.STDOUT)
    lines = moved.decode().splitlines()
    assert lines[-5] == f"{CI}:8: job test runs the tests: make test", "after the difference"


def test_second_test_job_of_a_workflow_is_refused(repository: Path, call: Init) -> None:
    write(
        repository, JOB + PYTEST + JOB.partition(b"jobs:\n")[2].replace(b"test", b"more") + PYTEST
    )
    call(repository, "--into", CI, "--job", "test", "--yes")
    commit(repository)
    answer = call(repository, "--into", CI, "--job", "more", "--yes", expect=3)
    assert f"{CI}: jobs.more.steps[1]: another step of this workflow has" in answer.stderr
    fix = "  fix: move it into a job of another workflow file, and run ciguard init --into on that"
    assert fix in answer.stderr
    assert "uses ciguard's actions already" in call(repository, "--into", CI).stdout
    suites = ["test"]
    for number, suite, check in ((2, "more", "ciguard (more)"), (3, "more-3", "ciguard (more 2)")):
        path = f".github/workflows/{number}.yml"
        text = (JOB + PYTEST).replace(b"  test:", b"  more:")
        (repository / path).write_bytes(text)
        commit(repository)
        offer = f"another test step: ciguard init --into {path} --job more --step 1\n"
        assert call(repository).stdout.endswith(f" uses ciguard's actions already\n{offer}")
        answer = call(repository, "--into", path, "--yes")
        assert answer.stderr.endswith(
            f"require the check {check}: the names of the test jobs' checks change\n"
        )
        jobs = yaml_load((repository / path).read_text("utf-8"), path)["jobs"]
        assert jobs["ciguard-report"]["name"] == check
        assert jobs["ciguard"]["steps"][1]["with"]["suite"] == suite
        suites.append(suite)
        assert [*load(repository, {}).suite] == suites


def test_check_that_another_job_has_is_not_taken(repository: Path, call: Init) -> None:
    lint = b"  lint: {name: ciguard, runs-on: a, steps: [{run: lint}]}\n"
    write(repository, JOB + PYTEST + lint)
    assert f"{CI}: job lint: delete or rename it: " in " ".join(
        call(repository, "--new").stderr.split()
    )
    assert "require the check ciguard (test): " in call(repository, "--into", CI).stderr


def test_refused_step_is_named_with_the_other_way(repository: Path, call: Init) -> None:
    write(repository, REFUSED_FILES["concurrency"][0])
    answer = call(repository, "--yes", expect=3)
    assert ": its shards would cancel each other: " in answer.stderr.splitlines()[0]
    assert answer.stderr.endswith("a separate workflow beside it: ciguard init --new\n")
    write(repository, JOB + b"      - run: make\n")
    answer = call(repository)
    assert answer.stderr.startswith("no workflow here runs tests\n")
    assert f"would create {OWN}" in answer.stdout
