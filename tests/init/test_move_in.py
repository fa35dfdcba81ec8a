"""`ciguard init --into` as a user calls it, in a real repository."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import (
    ACTIONS,
    CASES,
    CI,
    COMMIT,
    NO_ADDRESS,
    OWN,
    SAMPLES,
    WORKFLOW,
    commit,
    configure,
    write,
)

from ciguard.config.file import load
from ciguard.workflow.yaml_values import load as yaml_load

if TYPE_CHECKING:
    from conftest import Ciguard, Golden
    from init.conftest import Init


@pytest.mark.parametrize("case", CASES)
def test_workflow_is_moved_or_refused_as_its_golden_file_has_it(
    case: str, repository: Path, call: Init, golden: Golden
) -> None:
    before = (SAMPLES / case / "ci.yml").read_bytes()
    configure(repository, case)
    write(repository, before)
    is_refused = (SAMPLES / case / "refusal.txt").exists()
    arguments = SAMPLES / case / "arguments.txt"
    words = arguments.read_text("utf-8").split() if arguments.exists() else ()
    answer = call(repository, "--into", CI, *words, "--yes", expect=3 if is_refused else 0)
    after = (repository / CI).read_bytes()
    if is_refused:
        assert after == before
        golden(answer.stderr, SAMPLES / case / "refusal.txt")
        assert answer.stdout == ""
        return
    golden(after.decode(), SAMPLES / case / "expected.yml")
    golden(answer.stderr, SAMPLES / case / "messages.txt")
    rerun = call(repository, "--into", CI, "--yes")
    assert rerun.stdout == f"{CI} uses ciguard's actions already\n"
    assert (repository / CI).read_bytes() == after


def test_difference_is_shown_and_nothing_written_without_yes(repository: Path, call: Init) -> None:
    answer = call(repository, "--into", CI)
    assert "+      - uses: octo-org/ciguard/actions/run@" in answer.stdout
    assert "-      - run: make test" in answer.stdout
    how = "nothing was written; run the same command with --yes to write all\n"
    assert answer.stderr.endswith(how)
    assert (repository / CI).read_bytes() == WORKFLOW


def test_configuration_is_written_with_the_suite_of_the_job(
    repository: Path, call: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "ciguard.toml").unlink()
    commit(repository)
    answer = call(repository, "--into", CI, "--yes", expect=2, **NO_ADDRESS)
    assert answer.stderr.startswith("ciguard init: actions: the repository of ciguard's")
    assert 'set actions = "OWNER/ciguard@COMMIT # VERSION" in ciguard.toml' in answer.stderr
    assert answer.stdout == ""
    installed = tmp_path / "ciguard_shards-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ciguard-shards\n", "utf-8")
    commit_info = {"vcs": "git", "commit_id": COMMIT}
    origin = {"url": "https://github.com/octo-org/ciguard", "vcs_info": commit_info}
    (installed / "direct_url.json").write_text(json.dumps(origin), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    answer = call(repository, "--into", CI, "--yes", CIGUARD_ACTIONS="")
    assert answer.stdout.splitlines() == [f"{CI}: changed", "ciguard.toml: created"]
    assert list(load(repository, {}).suite) == ["test"]
    assert "[workflow]" not in (repository / "ciguard.toml").read_text("utf-8")
    assert 'suite: "test"' in (repository / CI).read_text("utf-8")


@pytest.mark.parametrize(
    ("suites", "name"),
    [
        *(("[suite.shop]\n", "shop"), ("[suite.shop]\n[suite.test]\n", "test")),
        *(("", "test"), ('[suite.""]\n', "")),
    ],
)
def test_plan_uses_the_suite_that_is_configured(
    suites: str, name: str, repository: Path, call: Init
) -> None:
    (repository / "ciguard.toml").write_text(f"{ACTIONS}{suites}", "utf-8")
    (repository / ".github/workflows/lint.yml").write_bytes(WORKFLOW)
    commit(repository)
    call(repository, "--into", CI, "--yes")
    assert f'suite: "{name}"' in (repository / CI).read_text("utf-8")


@pytest.mark.parametrize(
    "address", ["octo-org/ciguard", "https://x.example/a/b@c", "a/b@c\n- run: x"]
)
def test_address_that_no_step_can_use_is_an_error(
    address: str, repository: Path, call: Init
) -> None:
    (repository / "ciguard.toml").write_text(f"actions = {json.dumps(address)}\n", "utf-8")
    answer = call(repository, "--into", CI, "--yes", expect=2)
    assert answer.stderr.splitlines() == [
        f"ciguard init: actions: no address of actions: {address!r}",
        '  fix: set actions = "OWNER/ciguard@COMMIT # VERSION" in ciguard.toml',
    ]


def test_several_suites_without_the_job_are_an_error(repository: Path, call: Init) -> None:
    (repository / "ciguard.toml").write_text(f"{ACTIONS}[suite.a]\n[suite.b]\n", "utf-8")
    answer = call(repository, "--into", CI, "--yes", expect=2)
    assert "suite: no suite 'test' among 'a', 'b'" in answer.stderr


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
JOB = b"on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n"
PYTEST = b"      - run: pytest\n"


def job_with(*lines: bytes) -> bytes:
    """The job with lines of its own above its steps, and one that runs pytest."""
    text = b"".join(b"    " + line + b"\n" for line in lines)
    return JOB.replace(b"    steps", text + b"    steps") + PYTEST


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


def test_reason_of_a_refusal_comes_before_lines_for_the_job(
    repository: Path,
) -> None:
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


def test_job_and_step_choose_among_candidates(repository: Path, call: Init) -> None:
    write(repository, JOB + b"      - run: pytest\n      - id: own\n        run: ./all\n")
    for step in ("2", "own"):
        answer = call(repository, "--into", CI, "--job", "test", "--step", step)
        assert "-        run: ./all" in answer.stdout
    assert "-        run: ./all" in call(repository, "--into", CI, "--step", "own").stdout
    answer = call(repository, "--into", CI, "--job", "test", "--step", "3", expect=3)
    assert "no steps are '3'" in answer.stderr
    answer = call(repository, "--job", "test", expect=2)
    assert "--job, --step: no workflow is named\n  fix: pass --into FILE" in answer.stderr
    answer = call(repository, "--into", CI, "--job", "lint", expect=3)
    assert "no job 'lint'\n  fix: its jobs are test" in answer.stderr


@pytest.mark.parametrize(
    "job",
    [
        JOB + b"      - run: tox -e a\n",
        JOB + b"      - run: tox run --colored yes -m fast\n",
        JOB + b"      - run: nox --session=tests\n",
        JOB + b"      - run: TOXENV=a tox\n",
        JOB + b"      - run: tox\n        env:\n          TOXENV: ${{ matrix.env }}\n",
        b"env: {NOXSESSION: tests}\n" + JOB + b"      - run: nox\n",
        JOB + b"      - run: pip install tox && make test\n",
        JOB + b"      - run: pytest --cov tox src/tox\n",
    ],
)
def test_call_that_selects_environments_stays(job: bytes, repository: Path, call: Init) -> None:
    write(repository, job)
    answer = call(repository, "--into", CI)
    assert " matrix: |" not in answer.stdout
    command = yaml_load(job.decode(), CI)["jobs"]["test"]["steps"][0]["run"]
    assert f"+          command: {command}\n" in answer.stdout


@pytest.mark.parametrize("condition", [b"always()", b"${{ ! cancelled() }}", b"success()", b"true"])
def test_condition_that_holds_wherever_the_job_succeeds_stays(
    condition: bytes, repository: Path, call: Init
) -> None:
    write(repository, JOB + PYTEST + b"        if: " + condition + b"\n")
    call(repository, "--into", CI, "--yes")
    assert b"        if: " + condition + b"\n" in (repository / CI).read_bytes()


def test_steps_of_opposite_conditions_both_become_the_action(repository: Path, call: Init) -> None:
    other = b"        if: '!matrix.cov'\n"
    pair = PYTEST + b"        if: matrix.cov\n      - run: a\n      - run: pytest --cov\n" + other
    write(repository, JOB + pair)
    answer = call(repository, "--yes")
    assert f"{CI}:6 and 9, by `if`: job test runs the tests: pytest" in answer.stderr
    steps = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]["test"]["steps"]
    assert [step.get("if") for step in steps] == ["matrix.cov", None, "!matrix.cov"]
    assert [steps[at]["with"]["command"] for at in (0, 2)] == ["pytest", "pytest --cov"]


@pytest.mark.parametrize("general", [b"{}", b"{contents: read}"])
def test_job_may_read_the_artifact_of_the_plan(
    general: bytes, repository: Path, call: Init
) -> None:
    write(repository, b"permissions: " + general + b"\n" + WORKFLOW)
    call(repository, "--into", CI, "--yes")
    jobs = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]
    own = {"contents": "read"} if general != b"{}" else {}
    assert jobs["test"]["permissions"] == {"actions": "read", **own}


def test_workflow_that_never_gets_a_history_is_reported(
    repository: Path, call: Init, ciguard: Ciguard
) -> None:
    origin = str(repository.parent / "origin")
    subprocess.run(["git", "init", "-q", "--bare", origin], check=True)
    subprocess.run(["git", "-C", str(repository), "remote", "add", "origin", origin], check=True)
    branch = "main (a guess: git remote set-head origin --auto)"
    lines = (
        f"no push to {branch} starts it, so there will be no history; add below `on:`:\n    push:\n"
    )
    for events, is_reported in ((b"[push]", False), (b"[pull_request, schedule]", True)):
        text = WORKFLOW.replace(b"on: push", b"on: " + events)
        assert events in text
        write(repository, text)
        answer = call(repository, "--into", CI, "--yes")
        assert (f"- {lines}      branches: [main]\n" in answer.stderr) is is_reported
        printed = " ".join(ciguard("doctor", cwd=repository).stdout.split())
        fix = f"fix: no push to {branch} starts {CI}: add push to its `on:`"
        assert (fix in printed) is is_reported
        assert ("first run of the workflow begins it" in printed) is not is_reported
    write(repository, WORKFLOW.replace(b"on: push", b"on: {push: {branches: [release]}}"))
    said = call(repository, "--into", CI, "--yes").stderr
    assert "so there will be no history; let `on: push` start it for main\n" in said


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        (b"    steps", b""),
        (b"    steps", b"    defaults: {run: {shell: bash}}\n"),
        (b"jobs", b"defaults: {run: {shell: bash}}\n"),
    ],
)
def test_shell_on_windows_is_reported_where_none_is_named(
    place: bytes, keys: bytes, repository: Path, call: Init
) -> None:
    text = JOB.replace(b"ubuntu", b"windows") + PYTEST
    write(repository, text.replace(place, keys + place, 1))
    answer = call(repository, "--into", CI)
    assert "- Windows has not been tried" in answer.stderr
    assert ("commands without `shell:`" in answer.stderr) is (keys == b"")


def test_symbolic_link_is_refused(repository: Path, call: Init) -> None:
    (repository / CI).rename(repository / "real.yml")
    (repository / CI).symlink_to("../../real.yml")
    commit(repository)
    answer = call(repository, "--into", CI, "--yes", expect=3)
    assert f"{CI}: is a symbolic link" in answer.stderr
    assert (repository / "real.yml").read_bytes() == WORKFLOW


@pytest.mark.parametrize("is_tracked", [True, False])
def test_file_that_is_not_committed_is_refused(
    is_tracked: bool, repository: Path, call: Init
) -> None:
    path = CI if is_tracked else ".github/workflows/new.yml"
    (repository / path).write_bytes(WORKFLOW + b"# changed\n")
    answer = call(repository, "--into", path, "--yes", expect=3)
    assert f"{path}: has changes that are not committed" in answer.stderr
    assert (repository / path).read_bytes() == WORKFLOW + b"# changed\n"


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
            f"require the check {check}: checks by the names of test jobs change\n"
        )
        jobs = yaml_load((repository / path).read_text("utf-8"), path)["jobs"]
        assert jobs["ciguard-report"]["name"] == check
        assert jobs["ciguard"]["steps"][1]["with"]["suite"] == suite
        suites.append(suite)
        assert [*load(repository, {}).suite] == suites


def test_plain_init_moves_into_the_only_test_step(repository: Path, call: Init) -> None:
    answer = call(repository, "--yes")
    assert answer.stdout == f"{CI}: changed\nciguard.toml: changed\n"
    found = f"{CI}:8: job test runs the tests: make test; ciguard init --new: a separate workflow\n"
    assert answer.stderr.startswith(found)
    for configuration in (ACTIONS, ""):
        (repository / "ciguard.toml").write_text(configuration, "utf-8")
        answer = call(repository, "--yes")
        assert answer.stdout == f"{CI} uses ciguard's actions already\n"
        assert answer.stderr == ""
    assert not (repository / OWN).exists()


@pytest.mark.parametrize("options", [["--new"], ["--forks"]])
def test_own_workflow_is_written_if_options_are_its(
    options: list[str], repository: Path, call: Init
) -> None:
    call(repository, "--yes", *options)
    assert (repository / OWN).exists()
    assert (repository / CI).read_bytes() == WORKFLOW


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


OPTION = "run: pytest --junitxml=results.xml"
VARIABLE = "        env:\n          A: b\n          PYTEST_ADDOPTS: --junitxml=results.xml # c"
# First step of a job, the lines below it, and whether what writes the files goes, too.
RESULT_FILES = (
    ("run: pytest", "      - run: a", None),
    (OPTION, "      - uses: codecov/test-results-action@v1", False),
    (OPTION, "      - {uses: a/b@v1, with: {path: '*.xml'}}", False),
    (OPTION, "      - run: dotnet test --logger trx a", True),
    ("run: pytest", VARIABLE, True),
)


def test_job_that_comments_is_replaced(repository: Path, call: Init) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "comment.md").read_text("utf-8")
    upload, comment, history, _ = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    test = JOB + PYTEST + upload.encode()
    (repository / "test_a.py").write_text("def test_a(): pass\n", "utf-8")
    both = test + f"\n  # The comment.\n{comment}\n{history}".encode()
    moved, said = [], []
    later = b"\n  other: {needs: test, steps: [{uses: actions/download-artifact@v6}]}\n"
    for workflow in (test, both, both + later):
        write(repository, workflow.replace(b": pytest", b": pytest --junitxml=results.xml"))
        said.append(call(repository, "--into", CI, "--yes").stderr)
        moved.append((repository / CI).read_text("utf-8"))
    assert '${{ strategy.job-index }}-${{ matrix.ciguard }}", path' in moved[0]
    at = moved[0].index("      - if: always()\n")
    kept = moved[0][:at] + moved[0][moved[0].index("\n", moved[0].index("path: ", at)) + 1 :]
    assert moved[1] == kept.replace(" --junitxml=results.xml", "")
    gone = "the upload step of line 7 is gone, with what writes its files"
    assert [f"\n- {gone}\n" in text for text in said] == [False, True, False]
    assert "--junitxml=results.xml" in moved[2]
    for step, below, is_cut in RESULT_FILES:
        steps = f"    steps:\n      - {step}\n{below}\n".encode()
        workflow = both.replace(PYTEST, b"").replace(b"    steps:\n", steps, 1)
        write(repository, workflow)
        text = call(repository, "--into", CI, "--step", "1", "--yes").stderr
        assert (" is gone, with what writes its files\n" in text) is bool(is_cut)
        assert (" is gone\n" in text) is not bool(is_cut)
        left = (repository / CI).read_text("utf-8")
        assert ("--junitxml=results.xml" in left) is (is_cut is False)
        assert below.partition("\n          PYTEST_")[0] in left
        assert "# c" not in left
    (repository / "Makefile").write_text("unit:\n\tpytest --junitxml=results.xml\n", "utf-8")
    second = b"      - {uses: actions/upload-artifact@v7, with: {name: b, path: b.xml}}\n"
    of_two = both.replace(PYTEST, b"      - run: make unit\n")
    of_two = of_two.replace(b"\n  # The", second + b"\n  #")
    win = of_two[: of_two.index(b"\n  #")].partition(b"  test:")[2]
    write(repository, of_two + b"  win:" + win)
    text = call(repository, "--into", CI, "--job", "test", "--yes").stderr
    assert "\n- the upload step of line 7 is gone; win still needs results.xml\n" in text
    assert "\n- the upload step of line 10 has no reader now\n" in text
    write(repository, both)
    answer = call(repository, "--new")
    for job in ("ciguard", "history"):
        assert f"{CI}: job {job}: delete or rename it:" in answer.stderr


def test_report_needs_the_jobs_that_a_replaced_job_guarded(repository: Path, call: Init) -> None:
    gate = "if: always(), steps: [{run: \"echo '${{ toJSON(needs) }}' | grep failure && exit 1\"}]"
    jobs = f"""
  lint: {{runs-on: a, steps: [{{run: lint}}]}}
  e2e: {{needs: test, runs-on: a, steps: [{{run: ./e2e}}]}}
  gate: {{needs: [test], runs-on: a, {gate}}}
  after: {{needs: gate, runs-on: a, steps: [{{run: a}}]}}
  comment:
    needs: [lint, test, e2e, gate, after]
    steps: [{{uses: octo-org/ciguard@{COMMIT}}}]
"""
    write(repository, JOB + PYTEST + jobs.encode())
    (repository / "test_a.py").write_text("def test_a(): pass\n", "utf-8")
    answer = call(repository, "--into", CI, "--yes")
    assert "- the check ciguard still needs lint, e2e: if they do not" in answer.stderr
    moved = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]
    assert moved["ciguard-report"]["needs"] == ["lint", "e2e", "ciguard", "test"]
    assert moved["gate"]["needs"] == ["ciguard", "ciguard-report", "test"]


def test_step_whose_recipe_runs_tests_is_a_test_step(repository: Path, call: Init) -> None:
    """`make ci` says nothing of tests; its recipe does."""
    write(repository, JOB + b"      - run: make init\n      - run: |\n          make ci\n")
    recipes = "init: deps\n\tpip install pytest\nX := 1\nci:\n\techo a\n\t@python -m pytest tests\n"
    (repository / "Makefile").write_text(recipes, "utf-8")
    answer = call(repository, "--yes")
    assert answer.stdout == f"{CI}: changed\nciguard.toml: changed\n"
    assert f"{CI}:7: job test runs the tests: make ci; " in answer.stderr
    assert "          command: |\n            make ci\n" in (repository / CI).read_text("utf-8")


def test_second_run_of_a_command_becomes_a_retry(repository: Path, call: Init) -> None:
    (repository / "ciguard.toml").write_text(ACTIONS, "utf-8")
    write(repository, JOB + b"      - run: pytest -q || pytest -q || pytest --lf -q || exit 1\n")
    answer = call(repository, "--into", CI, "--yes")
    assert "\n- retries = 2 in [policy], in place of the commands after ||" in answer.stderr
    assert (repository / CI).read_text("utf-8").count("command: pytest -q || exit 1\n") == 1
    assert load(repository, {}).policy.retries == 2
    write(repository, JOB + b"      - run: pytest -q || pytest -q\n")
    for own, said in (("", ""), ("[suite.a]\n", "set "), ("[policy]\nretries = 0\n", "set ")):
        (repository / "ciguard.toml").write_text(f"{ACTIONS}{own}", "utf-8")
        words = f"\n- {said}retries = 1 in [policy], in place of"
        assert words in call(repository, "--into", CI).stderr


def test_node_that_a_framework_cannot_use_is_named(repository: Path, call: Init) -> None:
    (repository / "package.json").write_text('{"scripts": {"test": "node --test"}}', "utf-8")
    (repository / "a.test.js").touch()
    (repository / "ciguard.toml").write_text(ACTIONS, "utf-8")
    matrix = (b"strategy:", b"  matrix:", b"    node-version: [18.x, 20.x, lts/*]")
    write(repository, job_with(*matrix).replace(b"pytest", b"npm test"))
    said = "\n- ciguard needs Node.js 20 or newer for node-test: take 18.x out of the matrix\n"
    assert said in call(repository, "--into", CI).stderr


GO = {
    "make check": (["-v", "./..."], {}, "$(FLAGS);"),
    "CGO_ENABLED=0 B=$X go test -race ./a": (["-race", "./a"], {"CGO_ENABLED": "0"}, "B=$X;"),
    "gotestsum --junitfile a.xml -- -short ./...": (["-short", "./..."], {}, ""),
    "gotestsum": (["./..."], {}, ""),
    "go test -json -v ./a 2>e.txt > r.json": (["-v", "./a"], {}, ""),
}


@pytest.mark.parametrize(("command", "suite"), GO.items(), ids=GO)
def test_suite_of_go_replaces_its_command(
    command: str,
    suite: tuple[list[str], dict[str, str], str],
    repository: Path,
    call: Init,
) -> None:
    args, env, left_out = suite
    (repository / "Makefile").write_text("check: deps\n\trichgo test -v $(FLAGS) ./...\n", "utf-8")
    text = JOB + b"      - shell: bash\n        run: " + command.encode() + b"\n"
    for own in ("", '[suite.test]\nframework = "go"\n'):
        (repository / "ciguard.toml").write_text(f"{ACTIONS}{own}", "utf-8")
        write(repository, text)
        answer = call(repository, "--into", CI, "--yes")
        (step,) = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]["test"]["steps"]
        assert set(step["with"]) == {"plan", "plan-id", "shard"}
        assert ("computes them: " in answer.stderr) == bool(left_out)
        assert left_out in answer.stderr
        configured = tomllib.loads((repository / "ciguard.toml").read_text("utf-8"))["suite"]
        added = {"args": args, **({"env": env} if env else {}), "timeout": "10m"}
        assert configured["test"] == {"framework": "go", **({} if own else added)}


RECIPES = {
    "test: ## Run\n\t@printf a\n\tA=1 B=$X go test -race \\\n\t  ./a\n": "",
    "test: db # a\n\t# start it\n\t./start\n\tA=1 B=$X go test -race ./a": "db, ./start",
    "test:\n\tcd sub && go test ./...\n": "2: no line of test has only go test ./...",
    "test:\n\tfor d in a; do (go test ./$$d); done\n": "2: no line of test has only ",
    "test:\n\tmake go\ngo:\n\t./start\n\tgo test -x\n": "5: no line of test has only go test -x",
    "export A=1\ntest:\n\tgo test ./...\n": "3: go test would not get export A=1",
}


@pytest.mark.parametrize(("makefile", "what"), RECIPES.items())
def test_recipe_of_go_is_taken_if_its_test_command_stands_alone(
    makefile: str, what: str, repository: Path, call: Init
) -> None:
    (repository / "Makefile").write_text(makefile, "utf-8")
    (repository / "ciguard.toml").write_text(ACTIONS, "utf-8")
    write(repository, JOB + b"      - run: make test\n")
    is_refused = what[:1].isdigit()
    answer = call(repository, "--into", CI, "--yes", expect=3 if is_refused else 0)
    if is_refused:
        assert f"jobs.test: Makefile:{what}" in answer.stderr
        return
    assert "left out, as the workflow computes them: B=$X; " in answer.stderr
    rest = re.findall(r"Makefile:.: test also runs (.*), and ciguard does not", answer.stderr)
    assert rest == [what] * bool(what)
    suite = tomllib.loads((repository / "ciguard.toml").read_text("utf-8"))["suite"]["test"]
    assert (suite["args"], suite["env"]) == (["-race", "./a"], {"A": "1"})


def test_step_without_go_test_is_refused_for_a_suite_of_go(repository: Path, call: Init) -> None:
    (repository / "ciguard.toml").write_text(f'{ACTIONS}[suite.test]\nframework = "go"\n', "utf-8")
    write(repository, JOB + b"      - run: go test ./...\n      - run: go vet ./...\n")
    answer = call(repository, "--into", CI, "--step", "2", "--yes", expect=3)
    assert "jobs.test: the step runs no go test" in answer.stderr


PROJECTS = b"strategy: {matrix: {p: [{dir: a/A.csproj, k: C=1}, {dir: b/B.csproj, k: C=2}]}}"
DOTNET = {
    "dotnet test a.sln -c $C --no-build -e N=$(x)": "dotnet test a.sln -c Release --no-build",
    "X=1 dotnet test a.dll --filter 'C!=a' -- R.X=1": "dotnet test a.dll --filter C!=a -- R.X=1",
    "dotnet test ${{ matrix.p.dir }}": "dotnet test a/A.csproj b/B.csproj",
    "dotnet test a --filter '(${{ matrix.p.k }})&D!=a'": "dotnet test a --filter (C=1|C=2)&D!=a",
}
NOT_DOTNET = {
    "dotnet test a -f ${{ matrix.p.k }}": "computes the tests: ${{ matrix.p.k }}",
    "dotnet test a --filter $F": "computes the tests: --filter $F",
    "dotnet test a && echo ran": "ciguard starts dotnet test itself, without the step's echo ran",
    "dotnet test a -t": "the flag -t of dotnet test",
}


@pytest.mark.parametrize("command", [*DOTNET, *NOT_DOTNET])
def test_suite_of_dotnet_replaces_its_command(command: str, repository: Path, call: Init) -> None:
    (repository / "ciguard.toml").write_text(ACTIONS, "utf-8")
    step = b"      - run: |\n          " + command.encode() + b"\n"
    write(repository, job_with(b"env: {C: Release}", PROJECTS).removesuffix(PYTEST) + step)
    answer = call(repository, "--into", CI, "--yes", expect=0 if command in DOTNET else 3)
    assert NOT_DOTNET.get(command, "") in answer.stderr
    if command in DOTNET:
        is_built = "--no-build" in command or ".dll" in command
        assert ("ciguard builds no tests: let `dotnet build`" in answer.stderr) != is_built
        left_out = [word for word in ("-e N=$(x)", "X=1") if word in command]
        assert all(f"computes them: {word}\n" in answer.stderr for word in left_out)
        suite = tomllib.loads((repository / "ciguard.toml").read_text("utf-8"))["suite"]["test"]
        words = DOTNET[command].split()
        assert suite == {"framework": "dotnet", "command": words, "timeout": "10m"}
        (step,) = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]["test"]["steps"]
        assert set(step["with"]) == {"plan", "plan-id", "shard"}


def test_computed_flags_reach_go_without_its_formatter(repository: Path, call: Init) -> None:
    (repository / "ciguard.toml").write_text(ACTIONS, "utf-8")
    recipe = "check: deps\n\t@echo a\n\tgo vet\n\t@richgo test $(FLAGS) $(PACKAGES)\n"
    (repository / "Makefile").write_text(recipe, "utf-8")
    env = b"env: {FLAGS: \"${{ matrix.a == 1 && '-ldflags=-s' || '' }}\", PACKAGES: ./...}"
    matrix = b"strategy: {matrix: {a: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}}"
    steps = b"      - run: go install github.com/kyoh86/richgo@v1\n"
    steps += b"      - run: RICHGO_COLOR=1 PATH=$HOME/go/bin:$PATH make check\n"
    write(repository, job_with(env, matrix).removesuffix(PYTEST) + steps)
    answer = call(repository, "--into", CI, "--yes")
    assert answer.stderr.splitlines()[3:8] == [
        "- gone with richgo: RICHGO_COLOR, PATH",
        "- line 8 installs richgo, which the tests no longer need",
        "- GOFLAGS of the step has FLAGS: write flags as -name=value",
        "- left out, as the workflow computes them: $(PACKAGES); flags can be in GOFLAGS in `env` "
        "of the job",
        "- Makefile:4: check also runs deps, go vet, and ciguard does not: add a step for it, if "
        "the tests need it",
    ]
    assert ", as 2 for each are over 20 jobs; " in answer.stderr
    step = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]["test"]["steps"][1]
    assert step["env"] == {"GOFLAGS": "${{ env.FLAGS }}"}
    suite = tomllib.loads((repository / "ciguard.toml").read_text("utf-8"))["suite"]["test"]
    assert suite == {"framework": "go", "timeout": "10m"}


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        (b">-\n      Test of\n      ${{ runner.os }}\n", "Test of ${{ runner.os }} (SHARD)"),
        (b"|\n      Test # of\n\n", "Test # of (SHARD)\n"),
    ],
)
def test_name_of_several_lines_gets_the_shard(
    name: bytes, moved: str, repository: Path, call: Init
) -> None:
    write(repository, JOB.replace(b"    runs-on", b"    name: " + name + b"    runs-on") + PYTEST)
    call(repository, "--into", CI, "--yes")
    job = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]["test"]
    assert job["name"] == moved.replace("SHARD", "${{ matrix.ciguard }}")
