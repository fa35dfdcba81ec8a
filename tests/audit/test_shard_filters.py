"""The shards of workflows: how each shape of matrix and command is read, and what is refused."""

from __future__ import annotations

import pytest

from ciguard.audit.filters import vstest
from ciguard.audit.filters.base import LANGUAGES, Evaluator
from ciguard.audit.filters.expression import TestSet, terms
from ciguard.audit.shard_filters import HandMatrix, read_workflow
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

WORKFLOW = """\
name: ci
env:
  SLOW: Category!=Slow
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - run: dotnet build
  test:
    name: Tests - ${{ matrix.shard.name }}
    runs-on: ${{ matrix.shard.os }}
    timeout-minutes: 45
    strategy:
      matrix:
        shard:
          # by hand
          - name: Unit
            os: ubuntu-latest
            project: tests/App.Tests/App.Tests.csproj
            filter: FullyQualifiedName~Unit
          - name: Rest
            os: windows-latest
            project: tests/App.Tests/App.Tests.csproj
            filter: >-
              FullyQualifiedName!~Unit&
              Category!=GPU
    steps:
      - run: dotnet restore
      - name: Tests
        run: |
COMMAND
"""
IN_ARGUMENTS = """\
          $args = @(
            'test', '${{ matrix.shard.project }}', '--no-build',
            '--filter', '(${{ matrix.shard.filter }})&Category!=Slow'
          )
          & dotnet @args
"""


def read(command: str, workflow: str = WORKFLOW, job: str = "", key: str = "") -> HandMatrix:
    indented = "\n".join(" " * 10 + line.strip() for line in command.strip().splitlines())
    return read_workflow(workflow.replace("COMMAND", indented), "ci.yml", job, key)


def test_list_of_arguments_gives_the_filter_of_each_shard_and_the_common_one() -> None:
    found = read(IN_ARGUMENTS)
    assert found.common_text == "(<shard filter>)&Category!=Slow"
    assert [shard.name for shard in found.shards] == ["Tests - Unit", "Tests - Rest"]
    assert [shard.text for shard in found.shards] == [
        "FullyQualifiedName~Unit",
        "FullyQualifiedName!~Unit& Category!=GPU",
    ]
    assert [shard.project for shard in found.shards] == ["tests/App.Tests"] * 2
    assert [shard.runner for shard in found.shards] == ["ubuntu-latest", "windows-latest"]
    assert [shard.timeout_s for shard in found.shards] == [2700.0, 2700.0]
    assert [shard.line for shard in found.shards] == [17, 21]


@pytest.mark.parametrize(
    "command",
    [
        'dotnet test --filter "(${{ matrix.shard.filter }})&Category!=Slow"',
        "dotnet test --filter='(${{matrix.shard.filter}})&Category!=Slow' --no-build",
        "dotnet test `\n  --filter '(${{ matrix.shard.filter }})&Category!=Slow' `\n  --no-build",
        "dotnet test \\\n --filter '(${{ matrix.shard['filter'] }})&Category!=Slow' "
        "\\\n --no-build",
    ],
)
def test_command_line_gives_the_same(command: str) -> None:
    found = read(command)
    assert found.common_text == "(<shard filter>)&Category!=Slow"
    assert [shard.expression for shard in found.shards] == [
        vstest.parse(shard.text, "") for shard in read(IN_ARGUMENTS).shards
    ]


def test_variables_of_the_workflow_are_followed() -> None:
    found = read('dotnet test --filter "${{ matrix.shard.filter }}&$SLOW"')
    assert found.common_text == ""
    assert found.shards[0].text == "FullyQualifiedName~Unit&Category!=Slow"
    found = read('dotnet test --filter "${{ matrix.shard.filter }}&${SLOW}"')
    assert found.shards[0].text == "FullyQualifiedName~Unit&Category!=Slow"
    found = read('dotnet test --filter "${{ matrix.shard.filter }}&$env:SLOW"')
    assert found.shards[0].text == "FullyQualifiedName~Unit&Category!=Slow"


def test_text_is_put_into_text_as_github_does() -> None:
    # Without parentheses the operator behind it binds the last alternative alone.
    workflow = WORKFLOW.replace("filter: FullyQualifiedName~Unit", "filter: A|B")
    found = read('dotnet test --filter "${{ matrix.shard.filter }}&Category!=Slow"', workflow)
    assert found.common_text == ""
    assert found.shards[0].text == "A|B&Category!=Slow"
    assert found.shards[0].expression == vstest.parse("A|B&Category!=Slow", "")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ('dotnet test --filter "$FILTER"', "line 30: $FILTER is not constant"),
        (
            "dotnet test --filter '${{ steps.a.outputs.filter }}'",
            "line 30: ${{ steps.a.outputs.filter }} is not constant",
        ),
        ('dotnet test --filter "$(./filter a)"', "line 30: $(./filter a) is not constant"),
        ("dotnet test --filter $(./filter a)", "line 30: $ is not constant"),
        (
            "dotnet test --filter '${{ matrix.shard.filter || github.ref }}'",
            "line 30: ${{ matrix.shard.filter || github.ref }} is not constant",
        ),
    ],
)
def test_filter_that_a_script_makes_is_unknown_and_asked_for(command: str, reason: str) -> None:
    found = read(command)
    assert [shard.expression for shard in found.shards] == [None, None]
    assert found.shards[0].unknown == (
        f"{reason}; name the matrix key that holds the filter: --filter-key shard.filter"
    )
    assert read(command, key="shard.filter").shards[0].text == "FullyQualifiedName~Unit"


def test_name_without_an_expression_is_followed_by_the_values() -> None:
    found = read("dotnet test", WORKFLOW.replace("Tests - ${{ matrix.shard.name }}", "Tests"))
    assert found.shards[0].name.startswith("Tests (Unit, ubuntu-latest, tests/App.Tests/")


def test_command_without_a_filter_selects_every_test_of_its_project() -> None:
    found = read("dotnet test ${{ matrix.shard.project }}")
    assert [shard.text for shard in found.shards] == ["", ""]
    assert [shard.project for shard in found.shards] == ["tests/App.Tests"] * 2


@pytest.mark.parametrize(
    ("command", "project"),
    [
        ("dotnet test -c Release -l trx ./tests/App.Tests/ --no-build", "tests/App.Tests"),
        ("dotnet test 'tests\\App.Tests'", "tests/App.Tests"),
        ("dotnet test --project App.Tests -- RunConfiguration.MaxCpuCount=1", "App.Tests"),
        ("dotnet test src/App.slnx", ""),
        ("dotnet test . /p:CollectCoverage=true", ""),
        ("dotnet test --settings ci/x.runsettings", ""),
    ],
)
def test_folder_is_a_project(command: str, project: str) -> None:
    assert [shard.project for shard in read(command).shards] == [project] * 2


def test_project_that_a_script_makes_is_unknown() -> None:
    found = read("dotnet test $PROJECT --filter ${{ matrix.shard.filter }}").shards[0]
    assert (found.expression, found.project) == (None, "$PROJECT")
    assert found.unknown.startswith("line 30: $PROJECT is not constant; give the shards as JSON")


SECOND_JOB = """\
  again:
    strategy: {matrix: {a: [1, 2]}}
    steps: [{run: dotnet test}]
"""


@pytest.mark.parametrize(
    ("workflow", "job", "problem"),
    [
        ("[]", "", "ci.yml: no workflow: it has no jobs"),
        ("jobs: {a: {steps: [{run: dotnet test}]}}", "", "ci.yml: no job has a matrix"),
        (WORKFLOW, "lint", "ci.yml: no job 'lint' with a matrix\n  fix: jobs with a matrix: test"),
        (WORKFLOW + SECOND_JOB, "", "ci.yml: several jobs with a matrix run tests: test, again"),
        (
            "jobs:\n  t:\n    strategy:\n      matrix: ${{ fromJSON(needs.a.outputs.m) }}\n"
            "    steps: [{run: dotnet test}]\n",
            "",
            "ci.yml:4: the matrix is computed while the workflow runs",
        ),
        (
            "jobs:\n  t:\n    strategy:\n      matrix:\n        a: ${{ fromJSON(inputs.x) }}\n"
            "    steps: [{run: dotnet test}]\n",
            "",
            "ci.yml:4: the matrix is computed while the workflow runs",
        ),
        (
            WORKFLOW.replace("filter: FullyQualifiedName~Unit", "filter: (A"),
            "",
            "ci.yml:17 (Tests - Unit): no closing parenthesis at column 3",
        ),
        (
            WORKFLOW.replace("COMMAND", "          mvn test"),
            "",
            "ci.yml:30: no filters of what this step runs can be read",
        ),
        ("jobs: &a {b: *a}", "", "ci.yml: "),
        ("x: 1\n" * 300_000, "", "ci.yml: 1,500,000 characters"),
    ],
)
def test_workflow_that_cannot_be_read_is_refused_with_its_line(
    workflow: str, job: str, problem: str
) -> None:
    with pytest.raises(InputError) as raised:
        read("dotnet test --filter '${{ matrix.shard.filter }}'", workflow, job)
    assert str(raised.value).startswith(problem)


OTHERS = """\
jobs:
  test:
    strategy:
      matrix:
        include:
          - { part: "tests/a tests/b", index: 1 }
          - { part: "tests/c", index: 2 }
    steps:
      - run: |
          pip install pytest
          COMMAND
          echo done
"""


@pytest.mark.parametrize(
    ("command", "language", "first"),
    [
        # Unquoted, the value is two words, as in the shell.
        ("pytest ${{ matrix.part }} -x 2>&1 | tee log", "pytest", "tests/a tests/b -x"),
        ("uv run pytest '${{ matrix.part }}' > log", "pytest", "'tests/a tests/b'"),
    ],
)
def test_arguments_of_each_tool_are_found(command: str, language: str, first: str) -> None:
    found = read_workflow(OTHERS.replace("COMMAND", command), "ci.yml")
    assert found.language is LANGUAGES[language]
    assert [shard.unknown for shard in found.shards] == ["", ""]
    assert found.shards[0].text == first
    assert [shard.name for shard in found.shards] == [
        "test (tests/a tests/b, 1)",
        "test (tests/c, 2)",
    ]


STEPS = """\
jobs:
  test:
    strategy: {matrix: {os: [linux, mac]}}
    steps:
"""
BY_OS = ("{if: matrix.os == 'mac', run: pytest a}", "{if: matrix.os != 'mac', run: pytest b}")


@pytest.mark.parametrize(
    ("steps", "texts", "unsure"),
    [
        # The last step alone would be nothing that is known: every test runs before it.
        (("{run: pytest}", "{run: pytest --integration}"), ("; --integration",) * 2, 1),
        (("{run: pytest a/b && pytest -k c}", "{run: npm test}"), ("a/b; -k c",) * 2, 0),
        (("{run: pytest a}", "{if: failure(), run: pytest --lf}"), ("a",) * 2, 0),
        (BY_OS, ("b", "a"), 0),
        (("{if: github.event_name == 'push', run: pytest a}", "{run: pytest b}"), ("a; b",) * 2, 0),
    ],
)
def test_shard_has_the_tests_of_all_its_steps(
    steps: tuple[str, ...], texts: tuple[str, ...], unsure: int
) -> None:
    found = read_workflow(STEPS + "".join(f"      - {step}\n" for step in steps), "ci.yml")
    assert tuple(shard.text for shard in found.shards) == texts
    shard = found.shards[0]
    evaluator = Evaluator(TestSet((InventoryUnit("a/b/test_c.py::test_d"),)), found.language)
    assert shard.expression is not None
    known = {shard.written(term): evaluator.term(term).is_known for term in terms(shard.expression)}
    assert all(name in shard.text.replace("-k ", "").split("; ") for name in known)
    assert list(known.values()).count(False) == unsure
    if unsure:
        assert evaluator.select(shard.expression) == (1, 1)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (
            ("{if: steps.a.outputs.b, run: pytest a}", "{run: pytest}"),
            "only a run knows whether the step runs: if: steps.a.outputs.b",
        ),
        (("{run: dotnet test a}", "{run: dotnet test b}"), "its commands test several projects"),
    ],
)
def test_steps_that_are_not_known_are_named(steps: tuple[str, ...], reason: str) -> None:
    found = read_workflow(STEPS + "".join(f"      - {step}\n" for step in steps), "ci.yml")
    assert {shard.expression for shard in found.shards} == {None}
    assert reason in found.shards[0].unknown
