"""What `ciguard init --into` does with the comment, results and retries of a job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from init.move_in_samples import (
    ACTIONS,
    CI,
    COMMIT,
    JOB,
    PYTEST,
    job_with,
    write,
)

from ciguard.config.file import load
from ciguard.workflow.yaml_values import load as yaml_load

if TYPE_CHECKING:
    from init.conftest import Init

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
