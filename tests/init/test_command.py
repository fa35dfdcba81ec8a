"""`ciguard init` as a user calls it, in a real repository."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from conftest import call_in_process
from init.move_in_samples import ACTIONS, ADDRESS, NO_ADDRESS

from ciguard.config.file import load
from ciguard.init.workflow_files import TIMEOUT, UNNAMED
from ciguard.workflow.job_templates import ACTIONS as ACTION_PINS

if TYPE_CHECKING:
    from init.conftest import Init, Terminal

WORKFLOW = ".github/workflows/ciguard.yml"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(folder)], check=True)
    (folder / "tests").mkdir()
    (folder / "tests/test_one.py").write_text("def test_one(): pass\n", "utf-8")
    return folder


def test_nothing_is_written_without_yes_or_a_terminal(repository: Path, call: Init) -> None:
    answer = call(repository)
    assert "would create ciguard.toml" in answer.stdout
    assert f"would create {WORKFLOW}" in answer.stdout
    assert "nothing was written; run the same command with --yes" in answer.stderr
    assert "\na failing base branch opens an issue, unless the job" in f"\n{answer.stderr}"
    assert sorted(item.name for item in repository.iterdir()) == [".git", "tests"]


@pytest.mark.parametrize(
    ("answers", "written"), [(b"y\nn\n", {"ciguard.toml"}), (b"n\ny\n", {".github"})]
)
def test_terminal_prompts_for_each_file(
    repository: Path, terminal: Terminal, answers: bytes, written: set[str]
) -> None:
    assert "create ciguard.toml? [y/N]" in terminal(repository, answers)
    assert {item.name for item in repository.iterdir()} == {".git", "tests"} | written


def test_yes_writes_both_files_once(repository: Path, call: Init) -> None:
    first = call(repository, "--yes")
    assert first.stdout.splitlines() == ["ciguard.toml: created", f"{WORKFLOW}: created"]
    workflow = yaml.safe_load((repository / WORKFLOW).read_text("utf-8"))
    assert workflow[True]["push"]["branches"] == ["trunk"]  # YAML 1.1 reads `on` as true
    rerun = call(repository, "--yes")
    assert rerun.stdout == f"ciguard.toml and {WORKFLOW} are up to date\n"


def test_framework_is_detected_and_its_installation_suggested(repository: Path, call: Init) -> None:
    for name in (".venv/lib", "node_modules/a", "vendor/b"):  # which no .gitignore names
        (repository / name).mkdir(parents=True)
        (repository / name / "test_other.py").touch()
    answer = call(repository, "--yes")
    assert "pytest: 1 test file\n" in answer.stderr
    setup = yaml.safe_load(load(repository, {}).workflow.setup)
    assert setup[-1] == {"run": "python -m pip install pytest"}


@pytest.mark.parametrize(
    ("files", "found", "folder"),
    [
        ({}, "found no project at all", "."),
        ({"tox.ini": "[tox]", "test_a.py": ""}, "found tox (in .)", "."),
        (
            {
                "pyproject.toml": "[tool.hatch.version]\npath = 'x'\n",
                "tox.ini": "",
                "test_a.py": "",
            },
            "found tox (in .)",  # [tool.hatch] is of the build backend
            ".",
        ),
        (
            {"package.json": '{"scripts": {"test": "borp"}, "devDependencies": {"borp": "1"}}'},
            "found package.json (Node.js with borp)",
            ".",
        ),
        (
            {"package.json": '{"vitest": 1}', "a.test.js": "", "bun.lock": ""},
            "found package.json (Bun with vitest)",
            ".",
        ),
        (
            {"web/package.json": "{}", "web/bun.lockb": "", "api/x.csproj": "", "go.mod": ""},
            "found go.mod (Go), api/x.csproj (.NET), web/package.json (Bun)",
            ".",
        ),
        (
            {"a/pom.xml": "", "b/x.csproj": "", "c/x.csproj": "", "d/x.csproj": ""},
            "found a/pom.xml (Maven), b/x.csproj (.NET), c/x.csproj (.NET) and 1 more",
            "a",
        ),
    ],
)
def test_repository_that_cannot_be_set_up_gets_a_snippet_and_no_file(
    repository: Path, call: Init, files: dict[str, str], found: str, folder: str
) -> None:
    (repository / "tests/test_one.py").unlink()
    for name, text in files.items():
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text, "utf-8")
    before = sorted(repository.rglob("*"))
    answer = call(repository, "--yes", expect=3)
    assert found in answer.stderr
    assert "write a workflow whose job runs the tests, and run ciguard init" in answer.stderr
    assert f'framework = "command"\ncwd = "{folder}"\n' in answer.stderr
    assert sorted(repository.rglob("*")) == before
    shown = answer.stderr.partition("ciguard.toml:\n")[2]
    (repository / "ciguard.toml").write_text(shown, "utf-8")
    load(repository, {})
    assert call(repository, "--yes").stdout == f"{WORKFLOW}: created\n"


def test_frontend_beside_tests_of_python_is_named(repository: Path, call: Init) -> None:
    (repository / "web").mkdir()
    (repository / "web/package.json").write_text('{"devDependencies": {"vitest": "4"}}', "utf-8")
    answer = call(repository, "--yes")
    assert "not in the workflow: web/package.json (Node.js with vitest); see" in answer.stderr


def test_default_configuration_has_a_test_timeout(repository: Path, call: Init) -> None:
    call(repository, "--yes")
    assert load(repository, {}).suite[""].timeout == 600.0


def test_user_steps_survive_and_edits_are_not_overwritten_silently(
    repository: Path, call: Init
) -> None:
    call(repository, "--yes")
    config = repository / "ciguard.toml"
    mine = "[workflow]\nsetup = '''\n- run: make dependencies # as I like it\n'''\n[suite.a]\n"
    config.write_text(mine, "utf-8")
    shown = call(repository)
    assert "+      - run: make dependencies # as I like it" in shown.stdout
    assert "as I like it" not in (repository / WORKFLOW).read_text("utf-8")
    assert call(repository, "--yes").stdout == f"{WORKFLOW}: changed\n"
    assert (repository / WORKFLOW).read_text("utf-8").count("as I like it") == 2
    assert config.read_text("utf-8") == mine


def test_configuration_in_pyproject_is_used(repository: Path, call: Init) -> None:
    (repository / "pyproject.toml").write_text(
        "[tool.ciguard.workflow]\nsetup = '- run: make x'\n", "utf-8"
    )
    assert call(repository, "--yes").stdout == f"pyproject.toml: changed\n{WORKFLOW}: created\n"
    assert "- run: make x" in (repository / WORKFLOW).read_text("utf-8")
    assert '[tool.ciguard.suite.""]\n' in (repository / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("text", ["[project", "x = 1" + "0" * 5000, "project = 5\ntool.uv = 'x'"])
@pytest.mark.parametrize("config", [None, ACTIONS, "[plan]\nshards = 2\n"])
def test_damaged_pyproject_is_read_or_refused(
    repository: Path, text: str, config: str | None
) -> None:
    (repository / "pyproject.toml").write_text(text, "utf-8")
    if config is not None:
        (repository / "ciguard.toml").write_text(config, "utf-8")
    done = call_in_process("init", "--new", cwd=repository, CIGUARD_ACTIONS=ADDRESS)
    assert done.returncode in (0, 2, 3)
    assert done.returncode == 0 or "pyproject.toml: " in done.stderr


UV_LOCK = '[[package]]\nname = "pytest"\n'


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("[plan]\nshards = 2", '[plan]\nshards = 2\n\n[workflow]\nSETUP\n[suite.""]\nSUITE'),
        (
            "[workflow] # mine\nforks = true\n",
            '[workflow] # mine\nSETUPforks = true\n\n[suite.""]\nSUITE',
        ),
        ("[workflow]\nsetup = ''\n", "[workflow]\nsetup = ''\n\n[suite.\"\"]\nSUITE"),
        ("[suite.unit]\r\nargs = ['-x']\r\n", "[suite.unit]\nargs = ['-x']\n\n[workflow]\nSETUP"),
        ("[suite.unit]\n[workflow]\nsetup = ''\n", ""),
    ],
)
def test_configuration_with_some_keys_is_completed(
    repository: Path, call: Init, text: str, completed: str
) -> None:
    """Its own lines stay, and the workflow is that of a repository without the file."""
    (repository / "uv.lock").write_text(UV_LOCK, "utf-8")
    config = repository / "ciguard.toml"
    config.write_bytes(text.encode())
    answer = call(repository)
    assert ("would change ciguard.toml" in answer.stdout) is bool(completed)
    assert config.read_bytes() == text.encode()
    call(repository, "--yes")
    steps = f"- uses: {ACTION_PINS['setup_uv']}\n- run: uv sync --locked --python 3.12"
    expected = (completed or text).replace("SETUP", f"setup = '''\n{steps}\n'''\n")
    suite = 'command = ["uv", "run", "--no-sync", "python", "-m", "pytest"]'
    expected = expected.replace("SUITE", f"{UNNAMED}\n{suite}\n{TIMEOUT.format('test')}\n")
    written = config.read_bytes().decode()
    assert written.replace("\r\n", "\n") == expected
    assert written.count("\n") == (written.count("\r\n") if "\r" in text else written.count("\n"))
    assert "are up to date" in call(repository, "--yes").stdout, "the second call does the same"
    assert ("uv sync" in (repository / WORKFLOW).read_text("utf-8")) is ("setup = ''" not in text)


def test_suite_of_pytest_without_a_test_file_is_refused(repository: Path, call: Init) -> None:
    (repository / "tests/test_one.py").unlink()
    (repository / "go.mod").write_text("module a\n", "utf-8")
    (repository / "a_test.go").touch()
    file = repository / "ciguard.toml"
    file.write_text('[suite.NAME]\ntimeout = "10m"\n', "utf-8")
    said = call(repository, "--yes", expect=2).stderr
    assert "suite 'NAME' is one of pytest, of which no test file was found" in said
    assert "fix: take it out: ciguard init writes a suite of go" in said
    file.write_text('[suite.NAME]\nframework = "go"\n', "utf-8")
    assert 'its suite may need args = ["./..."]' in call(repository, "--yes").stderr


def test_configuration_that_cannot_be_completed_is_an_error(repository: Path, call: Init) -> None:
    (repository / "ciguard.toml").write_text("workflow.forks = true\n", "utf-8")
    answer = call(repository, "--yes", expect=2)
    assert "ciguard.toml: its keys cannot be completed: " in answer.stderr
    assert "fix: add these lines yourself:\n" in answer.stderr
    assert not (repository / WORKFLOW).exists()
    (repository / "ciguard.toml").write_text("[suite.unit]\n", "utf-8")
    (repository / "tests/test_one.py").unlink()
    assert "ciguard.toml: no set-up is known" in call(repository, "--yes").stderr


def test_address_from_the_environment_is_kept(repository: Path, call: Init) -> None:
    call(repository, "--yes")
    assert load(repository, {}).actions == ADDRESS
    assert f"uses: {ADDRESS.replace('@', '/actions/plan@')}\n" in (repository / WORKFLOW).read_text(
        "utf-8"
    )


def test_unknown_address_writes_nothing(repository: Path, call: Init) -> None:
    answer = call(repository, "--yes", expect=2, **NO_ADDRESS)
    assert "actions: the repository of ciguard's actions is not known\n  fix: set actions" in (
        answer.stderr
    )
    assert sorted(item.name for item in repository.iterdir()) == [".git", "tests"]


def test_history_file_is_a_warning_and_needs_no_write_permission(
    repository: Path, call: Init
) -> None:
    (repository / "ciguard.toml").write_text('[history]\nstore = "history.ciguard"\n', "utf-8")
    for _ in range(2):  # also where nothing is left to be written
        answer = call(repository, "--yes")
        assert "warning: history.store is the file history.ciguard: " in answer.stderr
        assert '\n  fix: set store = "branch:ciguard-history" in [history], or' in answer.stderr
    jobs = yaml.safe_load((repository / WORKFLOW).read_text("utf-8"))["jobs"]
    assert jobs["history"]["permissions"]["contents"] == "read"
    (repository / "ciguard.toml").write_text('[history]\nstore = "branch:past"\n', "utf-8")
    assert "history.store" not in call(repository, "--yes").stderr
    jobs = yaml.safe_load((repository / WORKFLOW).read_text("utf-8"))["jobs"]
    assert jobs["history"]["permissions"]["contents"] == "write"
    (repository / "ciguard.toml").write_text('[history]\nstore = "https://h.example/x"\n', "utf-8")
    assert "history.store" not in call(repository, "--yes").stderr
    jobs = yaml.safe_load((repository / WORKFLOW).read_text("utf-8"))["jobs"]
    assert "history" not in jobs
    assert jobs["fetch-history"]["permissions"]["id-token"] == "write"


@pytest.mark.parametrize("checkpoint", ["", '[workflow]\ncheckpoint = "15m"\n'])
def test_jobs_without_checkpoints_that_ask_for_tests_get_a_token(
    repository: Path, call: Init, checkpoint: str
) -> None:
    plan = '[plan]\nclaims = "https://h.example"\nlimit = "40m"\n'
    (repository / "ciguard.toml").write_text(plan + checkpoint, "utf-8")
    call(repository, "--yes")
    text = (repository / WORKFLOW).read_text("utf-8")
    assert ("claims-token" in text) == (not checkpoint)
    assert ("Run the shard, part 3 of at most 3" in text) == bool(checkpoint)
    if not checkpoint:
        assert yaml.safe_load(text)["jobs"]["claims"]["permissions"]["id-token"] == "write"


def test_default_branch_of_the_remote_overrides_the_current_branch(
    repository: Path, tmp_path: Path, call: Init
) -> None:
    origin = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "stable", str(origin)], check=True)
    git = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    subprocess.run([*git, "push", "-q", str(origin), "trunk:stable"], check=True)
    subprocess.run(["git", "clone", "-q", str(origin), str(tmp_path / "clone")], check=True)
    subprocess.run(["git", "-C", str(tmp_path / "clone"), "switch", "-qc", "mine"], check=True)
    call(tmp_path / "clone", "--yes")
    assert 'branches: ["stable"]' in (tmp_path / "clone" / WORKFLOW).read_text("utf-8")


@pytest.mark.parametrize(
    ("branches", "taken"),
    [
        ((), "trunk"),
        (("main",), "main"),
        (("main", "refs/remotes/origin/master"), "master"),
        (("master", "refs/remotes/origin/main"), "main"),
    ],
)
def test_feature_branch_is_not_used_as_default_branch(
    repository: Path, branches: tuple[str, ...], taken: str, call: Init
) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    for name in branches:
        place = name if "/" in name else f"refs/heads/{name}"
        subprocess.run([*git, "update-ref", place, "HEAD"], check=True)
    answer = call(repository, "--yes")
    assert f'branches: ["{taken}"]' in (repository / WORKFLOW).read_text("utf-8")
    output = f"git does not know origin's default branch: {taken} is used instead"
    assert (output in answer.stderr) is (taken != "trunk"), "a guess is told"
    for words in (("remote", "add", "origin", "x"), ("switch", "-q", taken)):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    told = output in call(repository, "--new").stderr
    assert told is (taken != "trunk"), "with an origin, it is a guess there too"


@pytest.mark.parametrize("place", ["repository/tests", "."])
def test_init_outside_the_top_folder_is_an_error(
    repository: Path, tmp_path: Path, place: str, call: Init
) -> None:
    answer = call(tmp_path / place, "--yes", GIT_CEILING_DIRECTORIES=str(tmp_path.parent), expect=2)
    assert "not the top folder of a git repository" in answer.stderr
    top = tmp_path / "repository"
    fix = f"run ciguard in its top folder: cd {top}" if "/" in place else "or begin one: git init"
    assert fix in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not list(tmp_path.rglob("ciguard.toml"))


def test_forks_key_adds_a_second_workflow(repository: Path, call: Init) -> None:
    forks = repository / ".github/workflows/ciguard-forks.yml"
    call(repository, "--yes")
    assert not forks.exists()
    (repository / "ciguard.toml").write_text("[workflow]\nforks = true\n", "utf-8")
    call(repository, "--yes")
    assert "workflow_run" in yaml.safe_load(forks.read_text("utf-8"))[True]
    assert "are up to date" in call(repository).stdout


@pytest.mark.parametrize(
    ("key", "text", "job"),
    [
        ("workflow.confirm_suspects", "[workflow]\nconfirm_suspects = true\n", "confirmed"),
        ("culprit.on_red", '[culprit]\non_red = true\nbudget = "90s"\n', "culprit"),
    ],
)
def test_jobs_that_check_out_commits_require_a_setup_command(
    repository: Path, call: Init, key: str, text: str, job: str
) -> None:
    (repository / "ciguard.toml").write_text(text, "utf-8")
    answer = call(repository, "--yes", expect=2)
    assert f"ciguard init: {key}: ciguard repeats tests in fresh checkouts" in answer.stderr
    with (repository / "ciguard.toml").open("a") as file:
        file.write('[experiment]\nsetup = "true"\n')
    call(repository, "--yes")
    workflow = (repository / ".github/workflows/ciguard.yml").read_text("utf-8")
    assert job in yaml.safe_load(workflow)["jobs"]
    if job == "culprit":
        assert "timeout-minutes: 32" in workflow
        assert "with: {budget: 90s}" in workflow
