"""Commands, recipes, result files and retries of jobs that `ciguard init --into` moves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import ACTIONS, CI, COMMIT, JOB, PYTEST, job_with, write

from ciguard.config.file import load
from ciguard.workflow.yaml_values import load as yaml_load

if TYPE_CHECKING:
    from init.conftest import Init

GO = {
    "make check": (["-v", "./..."], {}, "$(FLAGS);"),
    "CGO_ENABLED=0 B=$X go test -race ./a": (["-race", "./a"], {"CGO_ENABLED": "0"}, "B=$X;"),
    "gotestsum --junitfile a.xml -- -short ./...": (["-short", "./..."], {}, ""),
    "gotestsum": (["./..."], {}, ""),
    "go test -json -v ./a 2>e.txt > r.json": (["-v", "./a"], {}, ""),
}


@pytest.mark.parametrize(("command", "suite"), GO.items(), ids=GO)
def test_suite_of_go_replaces_its_command(
    command: str, suite: tuple[list[str], dict[str, str], str], repository: Path, call: Init
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
    "export A=1\ntest:\n\tgo test ./...\n": "3: go test would run without export A=1",
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
        "- not used without richgo: RICHGO_COLOR, PATH",
        "- line 8 installs richgo, which the tests no longer need",
        "- GOFLAGS of the step has FLAGS: write flags as -name=value",
        "- left out, as the workflow computes them: $(PACKAGES); flags can be in GOFLAGS in `env` "
        "of the job",
        "- Makefile:4: check also runs deps, go vet, and ciguard does not: add a step if the "
        "tests need it",
    ]
    assert ", as 2 for each would be over 20 jobs; " in answer.stderr
    step = yaml_load((repository / CI).read_text("utf-8"), CI)["jobs"]["test"]["steps"][1]
    assert step["env"] == {"GOFLAGS": "${{ env.FLAGS }}"}
    suite = tomllib.loads((repository / "ciguard.toml").read_text("utf-8"))["suite"]["test"]
    assert suite == {"framework": "go", "timeout": "10m"}


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
    gone = "the upload step of line 7 is gone, with the option that writes its files"
    assert [f"\n- {gone}\n" in text for text in said] == [False, True, False]
    assert "--junitxml=results.xml" in moved[2]
    for step, below, is_cut in RESULT_FILES:
        steps = f"    steps:\n      - {step}\n{below}\n".encode()
        workflow = both.replace(PYTEST, b"").replace(b"    steps:\n", steps, 1)
        write(repository, workflow)
        text = call(repository, "--into", CI, "--step", "1", "--yes").stderr
        assert (" is gone, with the option that writes its files\n" in text) is bool(is_cut)
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
    assert "\n- no job reads the upload of line 10 now\n" in text
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
    assert "- the check ciguard still needs lint, e2e: it fails if they do" in answer.stderr
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
