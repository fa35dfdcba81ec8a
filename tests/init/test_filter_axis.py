"""The move of a job whose matrix has an axis of filters."""

from __future__ import annotations

from typing import Any

import pytest

from ciguard.init.filter_axis import without_filter_axis
from ciguard.workflow.movable_job import NotMovable, read_job
from ciguard.workflow.test_commands import FoundCommand
from ciguard.workflow.yaml_values import load

SHARDS = """shard:
          - {name: unit, project: a, filter: unit}
          - {name: slow, project: a, filter: slow or big}"""
ARRAY = """|
          args=(
            -q # quiet
            -m "(${{ matrix.shard.filter }}) and not gpu"
          )
          args+=(--durations 9)
          pytest "${args[@]}" ${{ matrix.shard.project }}"""
HEAD = """on: push
jobs:
  test:
    runs-on: a
    strategy:
      matrix:
        # all of them, see matrix.p
"""
TASKS = {
    ("package.json", f"unit:{part}"): [FoundCommand("jest", "jest", arguments=("jest",))]
    for part in "ab"
}
FILES = ["a/test_a.py", "b/test_b.py", "c/test_c.py"]


def moved(
    command: str, axes: str, more: str = "", keys: str = ""
) -> tuple[dict[str, Any], str, list[str]]:
    """Return the job without its axis, its matrix and the messages."""
    text = f"""{HEAD.replace("runs-on: a", f"runs-on: a{keys}")}        {axes}
    steps:
      - run: {command}
{more}"""
    job = read_job(text, "ci.yml", "test", "1", TASKS)
    job, messages = without_filter_axis(job, "ci.yml", FILES)
    assert job.shards == (2 if messages else 0)
    return job.value, job.matrix, messages


@pytest.mark.parametrize(
    ("command", "axes", "changed"),
    [
        ('pytest -m "${{ matrix.p }}"', "p: [ci1, not ci1]", 'pytest -m "(ci1) or (not ci1)"'),
        ("pytest -k ${{ matrix.p }} a", "p: [x, y]", 'pytest -k "x or y" a'),
        ('pytest -k "c and ${{ matrix.p }}"', "p: [x, y]", 'pytest -k "c and (x or y)"'),
        (
            'pytest -m "(${{ matrix.p }}) and c"',
            "p: [x, y or z]",
            'pytest -m "((x) or (y or z)) and c"',
        ),
        ("pytest -q ${{ matrix.p }} -x", "p: [a, b c]", "pytest -q a b c -x"),
        ("pytest tests/${{ matrix.p }}", "p: [a, b]", "pytest tests/a tests/b"),
        ("npx jest -t '${{ matrix.p }}'", "p: [a b, c]", "npx jest -t '(a b)|(c)'"),
        ("npx jest ${{ matrix.p }}", "p: [src/a, src/b]", "npx jest src/a src/b"),
        ("make test ARGS=-x -k ${{ matrix.p }}", "p: [x, y]", 'make test ARGS=-x -k "x or y"'),
        (ARRAY, SHARDS, None),
    ],
)
def test_filters_become_their_union(command: str, axes: str, changed: str | None) -> None:
    job, matrix, messages = moved(command, axes)
    assert matrix == ""
    assert messages[0].startswith(f"the axis {axes.partition(':')[0]} is gone; its 2 filters are")
    script = job["steps"][0]["run"]
    if changed is None:
        assert '-m "((unit) or (slow or big)) and not gpu"' in script
        assert script.endswith('pytest "${args[@]}" a\n'), "the project of each filter"
    else:
        assert script == changed


@pytest.mark.parametrize(
    ("command", "axes", "keys"),
    [
        ("pytest -n ${{ matrix.p }}", "p: [1, 2]", ""),
        ("pytest ${{ matrix.p }}", "p: [-k a, -k b]", ""),
        ("npx jest ${{ matrix.p }}", "p: [a, --testPathIgnorePatterns=a]", ""),
        ("npx jest --testPathIgnorePatterns x ${{ matrix.p }}", "p: [a, b]", ""),
        ("pytest tests/${{ matrix.p }}", "p: [a, b]", "\n    container: ${{ matrix.p }}"),
        ("pytest -k ${{ matrix.p }}", "include: [{p: x}, {p: y}]", ""),
        ("pytest -k ${{ matrix.p }}", "p: [x]", ""),
        ("tox -e ${{ matrix.p }}", "p: [x, y]", ""),
        ("yarn unit:${{ matrix.p }}", "p: [a, b]", ""),
        ("yarn ${{ matrix.p }}", "p: ['unit:a', 'unit:b']", ""),
    ],
)
def test_other_axes_stay(command: str, axes: str, keys: str) -> None:
    assert moved(command, axes, keys=keys)[2] == []


def test_names_and_output_get_the_shard() -> None:
    more = """      - run: echo "${{ matrix.p }}" >> out
      - uses: actions/upload-artifact@v7
        with:
          name: out-${{ matrix.os }}-${{ matrix.p }}
"""
    axes = "os: [a, b] # both\n        p: [x, not x]\n        include: [{os: c}]"
    name = "\n    name: Test ${{ matrix.os }} - ${{ matrix.p }}"
    job, matrix, messages = moved('pytest -m "${{ matrix.p }}"', axes, more, name)
    assert job["name"] == "Test ${{ matrix.os }} - ${{ matrix.ciguard }}"
    assert job["steps"][1]["run"] == 'echo "${{ matrix.ciguard }}" >> out'
    assert job["steps"][2]["with"]["name"] == "out-${{ matrix.os }}-${{ matrix.ciguard }}"
    assert load(matrix, "matrix") == {"os": ["a", "b"], "include": [{"os": "c"}]}
    assert "lines 5, 14, 17 of ci.yml get the shard in place of its value" in messages
    only = moved('pytest -m "${{ matrix.p }}"', "os: [a, b] # both\n        p: [x, y]")[1]
    assert only.strip() == "# all of them, see matrix.p\nos: [a, b] # both"


@pytest.mark.parametrize(
    ("command", "axes", "more", "lines"),
    [
        ("pytest -k ${{ matrix.p }}", "p: [x, y]", "      - run: x\n        if: matrix.p\n", "12"),
        ("pytest -k ${{ matrix.p }}", "p: [x, y]", "      - run: pip ${{ matrix.p }}\n", "11"),
        (
            "pytest ${{ matrix.p.dir }} -k ${{ matrix.p.k }}",
            "p: [{dir: a, k: x}, {dir: b, k: y}]",
            "",
            "10",
        ),
        (
            "dotnet test ${{ matrix.p.dir }} --filter '(${{ matrix.p.k }})&C!=a'",
            "p: [{dir: a, k: x}, {dir: b, k: y}]",
            "",
            "10",
        ),
    ],
)
def test_axis_with_another_purpose_stays(command: str, axes: str, more: str, lines: str) -> None:
    text = f"{HEAD}        {axes}\n    steps:\n      - run: {command}\n{more}"
    job = read_job(text, "ci.yml", "test", "1")
    same, messages = without_filter_axis(job, "ci.yml", FILES)
    assert same is job
    assert messages[0] == (
        f"the axis p of 2 filters stays: lines {lines} use it besides the filter"
    )


def test_tests_in_no_folder_and_in_several_are_shown() -> None:
    messages = moved("pytest ${{ matrix.p }}", "p: [a b, b/]")[2]
    assert messages[1:] == [
        "1 test file in no filter: c/test_c.py",
        "1 test file in several filters: b/test_b.py",
    ]
    assert len(moved("pytest ${{ matrix.p }}", "p: ['{a,b}', c]")[2]) == 1
    (message,) = moved("pytest -k ${{ matrix.p }}", "p: [x, y]")[2][1:]
    assert message.endswith("| ciguard audit --matrix ci.yml:test --tests -")


@pytest.mark.parametrize(
    ("command", "axes", "what"),
    [
        ('pytest -m "a and ${{ matrix.p }}"', "p: [x or y, z]", "parts of a larger one"),
        (
            "pytest -k ${{ matrix.p }}",
            "os: [a]\n        p: [x, y]\n        include: [{os: b, p: x}]",
            "name the axis of filters p",
        ),
    ],
)
def test_axis_that_cannot_go_is_refused(command: str, axes: str, what: str) -> None:
    with pytest.raises(NotMovable, match=r"filters|larger") as raised:
        moved(command, axes)
    assert what in raised.value.what
