"""`ciguard init --into` as a user calls it, in a real repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import (
    ACTIONS,
    CASES,
    CI,
    COMMIT,
    JOB,
    NO_ADDRESS,
    OWN,
    PYTEST,
    SAMPLES,
    WORKFLOW,
    commit,
    configure,
    write,
)

from ciguard.config.file import load
from ciguard.init.command import NO_JOBS
from ciguard.workflow.actions_address import SET_ACTIONS
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
        f"  fix: {SET_ACTIONS}",
    ]


@pytest.mark.parametrize("moves", [1, 2])
def test_keys_without_jobs_in_a_moved_workflow_are_named(
    moves: int, repository: Path, call: Init
) -> None:
    keys = '[workflow]\nforks = true\npages = ""\n[report]\nby = "service"\n'
    (repository / "ciguard.toml").write_text(ACTIONS + keys, "utf-8")
    commit(repository)
    answers = [call(repository, "--into", CI, "--yes").stderr for _ in range(moves)]
    assert f"- report.by, workflow.forks: {NO_JOBS}" in answers[-1]


def test_several_suites_without_the_job_are_an_error(repository: Path, call: Init) -> None:
    (repository / "ciguard.toml").write_text(f"{ACTIONS}[suite.a]\n[suite.b]\n", "utf-8")
    answer = call(repository, "--into", CI, "--yes", expect=2)
    assert "suite: no suite 'test' among 'a', 'b'" in answer.stderr


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
    lines = f"no push to {branch} starts the workflow, so it adds no run to the history; "
    lines += "add below `on:`:\n    push:\n"
    for events, is_reported in ((b"[push]", False), (b"[pull_request, schedule]", True)):
        text = WORKFLOW.replace(b"on: push", b"on: " + events)
        assert events in text
        write(repository, text)
        answer = call(repository, "--into", CI, "--yes")
        assert (f"- {lines}      branches: [main]\n" in answer.stderr) is is_reported
        printed = " ".join(ciguard("doctor", cwd=repository).stdout.split())
        fix = f"fix: no push to {branch} starts {CI}: add push to its `on:`"
        assert (fix in printed) is is_reported
        assert ("first run of the workflow on the base branch" in printed) is not is_reported
    write(repository, WORKFLOW.replace(b"on: push", b"on: {push: {branches: [release]}}"))
    said = call(repository, "--into", CI, "--yes").stderr
    assert "so it adds no run to the history; let `on: push` start it for main\n" in said


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
    assert "- ciguard has not been tried on Windows" in answer.stderr
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


def test_own_workflow_is_written_beside_the_test_job(repository: Path, call: Init) -> None:
    call(repository, "--yes", "--new")
    assert (repository / OWN).exists()
    assert (repository / CI).read_bytes() == WORKFLOW


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
