"""A leg whose tests are run by the script of the job's own step."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import Ciguard

from ciguard.errors import CiguardError, UsageError
from ciguard.model import Record
from ciguard.run.options import MAX_RECORDED, Script, read_script
from ciguard.sources.local import read_record_tree

TESTS = """
import os
import pytest

@pytest.mark.parametrize("n", range(4))
def test_counts(n):
    assert os.environ.get("STAGE") == "ci"
"""
PLAN = ("plan", "--shards", "1", "--history", "none", "--artifact", "plan")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, ciguard: Ciguard) -> Path:
    """A planned project whose tests pass only as its own script runs them."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "sub" / "tests").mkdir(parents=True)
    (folder / "sub" / "tests" / "test_shop.py").write_text(TESTS, "utf-8")
    (folder / "sub" / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "ciguard.toml").write_text('[suite.""]\ncwd = "sub"\n', "utf-8")
    ciguard(*PLAN, cwd=folder)
    return folder


@pytest.fixture
def shop(planned: Path, tmp_path: Path) -> Path:
    """The planned project in a folder that a test may change."""
    return shutil.copytree(planned, tmp_path / "shop")


def run_script(
    ciguard: Ciguard, folder: Path, text: str, *arguments: str, expect: int = 0, **environ: str
) -> Record:
    (folder / "step.sh").write_text(text, "utf-8")
    command = ("run", "--plan", "plan", "--shard", "01", "--record", "record")
    script = ("--script", "step.sh", *arguments)
    ciguard(*command, *script, cwd=folder, expect=expect, **environ)
    (record,) = read_record_tree(folder / "record")
    return record


def outcomes(record: Record) -> dict[str, int]:
    found: dict[str, int] = {}
    for result in record.results:
        found[result.outcome] = found.get(result.outcome, 0) + 1
    return found


@pytest.mark.soak
def test_script_of_several_lines_runs_the_planned_tests(shop: Path, ciguard: Ciguard) -> None:
    text = "export STAGE=ci\ntrue | cat\npython -m pytest tests\necho reported\n"
    record = run_script(ciguard, shop, text, "--shell", "bash")
    assert outcomes(record) == {"passed": 4}
    assert record.header is not None
    assert record.header.script == text


def test_options_reach_pytest_through_make(shop: Path, ciguard: Ciguard) -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    (shop / "sub" / "Makefile").write_text("test:\n\t@STAGE=ci python -m pytest\n", "utf-8")
    record = run_script(ciguard, shop, "make -s test\n")
    assert outcomes(record) == {"passed": 4}


@pytest.mark.soak
def test_failed_test_explains_the_exit_code_of_make(shop: Path, ciguard: Ciguard) -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    makefile = shop / "sub" / "Makefile"
    makefile.write_text("test:\n\tpython -m pytest\n", "utf-8")
    record = run_script(ciguard, shop, "make -s test\n", expect=10)  # ends with 2, pytest with 1
    assert outcomes(record) == {"failed": 4}
    assert [end.ending for end in record.process_ends] == ["completed"]
    assert "unexplained_exit" not in {event.kind for event in record.events}
    makefile.write_text("test:\n\tSTAGE=ci python -m pytest\n\tfalse\n", "utf-8")
    shutil.rmtree(shop / "record")
    record = run_script(ciguard, shop, "make -s test\n", expect=10)  # of which no test knows
    assert outcomes(record) == {"passed": 4}
    assert "unexplained_exit" in {event.kind for event in record.events}


@pytest.mark.soak
def test_options_of_the_user_are_kept(shop: Path, ciguard: Ciguard) -> None:
    text = "STAGE=ci python -m pytest\n"
    record = run_script(ciguard, shop, text, PYTEST_ADDOPTS="-k 'not nothing' --tb=line")
    assert outcomes(record) == {"passed": 4}


@pytest.mark.soak
def test_working_directory_replaces_that_of_the_suite(shop: Path, ciguard: Ciguard) -> None:
    (shop / "sub").rename(shop / "moved")
    (shop / "sub").mkdir()
    (shop / "sub" / "test_one.py").write_text("def test_one(): pass", "utf-8")
    ciguard(*PLAN, cwd=shop)
    shutil.rmtree(shop / "sub")
    (shop / "moved" / "test_one.py").write_text("def test_one(): pass", "utf-8")
    (shop / "step.sh").write_text("python -m pytest\n", "utf-8")
    command = ("run", "--plan", "plan", "--shard", "01", "--record", "record")
    ciguard(*command, "--script", "step.sh", "--working-directory", "moved", cwd=shop)


def test_failed_test_of_a_script_is_a_failed_test(shop: Path, ciguard: Ciguard) -> None:
    record = run_script(ciguard, shop, "python -m pytest\n", expect=10)
    assert outcomes(record) == {"failed": 4}


def test_script_that_never_starts_pytest_leaves_tests_without_a_result(
    shop: Path, ciguard: Ciguard
) -> None:
    record = run_script(ciguard, shop, "echo no tests today\n", expect=13)
    assert outcomes(record) == {}


@pytest.mark.parametrize(
    ("shell", "command"),
    [
        ("", ["bash", "-e", "FILE"]),
        ("bash", ["bash", "--noprofile", "--norc", "-eo", "pipefail", "FILE"]),
        ("sh", ["sh", "-e", "FILE"]),
        ("python", ["python", "FILE"]),
        ("bash -el {0}", ["bash", "-el", "FILE"]),
        ("env -u X bash '{0}'", ["env", "-u", "X", "bash", "FILE"]),
    ],
)
def test_shell_is_started_as_github_starts_it(
    tmp_path: Path, shell: str, command: list[str]
) -> None:
    file = tmp_path / "a script"
    file.write_text("true\n", "utf-8")
    expected = [word.replace("FILE", str(file)) for word in command]
    assert list(read_script(str(file), shell).command) == expected


@pytest.mark.parametrize("shell", ["pwsh", "cmd", "powershell", "zsh"])
def test_shell_that_takes_no_file_is_refused(tmp_path: Path, shell: str) -> None:
    (tmp_path / "step").write_text("true\n", "utf-8")
    with pytest.raises(UsageError, match="set shell to one of bash, sh, python, or to a command"):
        read_script(str(tmp_path / "step"), shell)


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_script_that_is_missing_or_empty_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "step").write_text(content, "utf-8")
    with pytest.raises(CiguardError, match="write the commands of the test step into it"):
        read_script(str(tmp_path / "step"), "")


def test_long_scripts_are_told_apart_in_the_record() -> None:
    long = "echo\n" * MAX_RECORDED
    one, other = Script((), long + "a"), Script((), long + "b")
    assert one.recorded != other.recorded
    assert len(json.dumps(one.recorded)) < 2 * MAX_RECORDED
    assert Script((), "pytest").recorded == "pytest"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--plan p --shard 01 --record r --shell bash", "--shell without --script"),
        ("--plan p --shard 01 --record r --script p --args x", "--args with --script"),
        ("--record r --script s -- true", "an option for plans does not apply to a command"),
    ],
)
def test_words_that_contradict_each_other_are_refused(
    tmp_path: Path, ciguard: Ciguard, words: str, what: str
) -> None:
    ciguard("plan", "--inventory", "-", "--history", "none", "-o", "p", cwd=tmp_path, stdin="a::b")
    done = ciguard("run", *shlex.split(words), cwd=tmp_path, expect=2)
    assert what in done.stderr
