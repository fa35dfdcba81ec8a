"""The split of a PowerShell step that builds a list of arguments."""

from __future__ import annotations

import textwrap

import pytest

from ciguard.workflow.argument_list import split_argument_list
from ciguard.workflow.movable_job import NotMovable, read_job

HEAD = """on: push
jobs:
  test:
    runs-on: a
    steps:
      - uses: a/b@v1
      # the tests
      - name: Tests
        shell: pwsh
        env:
          KEY: ${{ secrets.KEY }}
        working-directory: src
        run: |
"""
SCRIPT = """$out = Join-Path "a" "b"
New-Item -Path $out -ItemType Directory | Out-Null

$testArgs = @(
  '-q', "--color=no", # as a list
  # categories
  '-m', '(${{ matrix.filter }}) and not (gpu, slow)'
)
$testArgs += @('-x')
& python -m pytest @testArgs
"""


def split(script: str, tail: str = "") -> tuple[str, int]:
    text = HEAD + textwrap.indent(script, " " * 10) + tail
    job = split_argument_list(read_job(text, "ci.yml", "test", "2"), "ci.yml")
    assert job.commands
    return job.source.text, job.step


def test_other_lines_become_a_step_before() -> None:
    text, step = split(SCRIPT, "  lint:\n    runs-on: a\n")
    assert step == 3
    assert text == (
        HEAD.partition("      # the tests")[0]
        + """      - shell: pwsh
        env:
          KEY: ${{ secrets.KEY }}
        working-directory: src
        run: |
          $out = Join-Path "a" "b"
          New-Item -Path $out -ItemType Directory | Out-Null
      # the tests
      - name: Tests
        shell: bash
        env:
          KEY: ${{ secrets.KEY }}
        working-directory: src
        run: |
          python -m pytest -q --color=no -m '(${{ matrix.filter }}) and not (gpu, slow)' -x
  lint:
    runs-on: a
"""
    )


def test_list_alone_needs_no_other_step() -> None:
    text, step = split("$a = @('-x')\npytest @a\nexit $LASTEXITCODE\n")
    assert step == 2
    assert text.endswith(
        "shell: bash\n" + HEAD[HEAD.index("        env") :] + "          pytest -x\n"
    )


def test_other_scripts_stay() -> None:
    assert split("pytest -x\n")[0] == HEAD + "          pytest -x\n"


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (SCRIPT.replace("'-q'", "$out"), "line 17: an argument is computed"),
        (SCRIPT.replace('"--color=no"', '"--x=$out"'), "line 17: an argument is computed"),
        (SCRIPT.replace("$testArgs +=", "  $testArgs +="), "line 22: a condition adds arguments"),
        (f"{SCRIPT}Write-Host done\n", "line 23: lines follow the test command"),
        (f"\ncd x\n{SCRIPT}", "line 15: a variable or folder is set for the test command"),
        (f"$env:A = '1'\n{SCRIPT}", "line 14: a variable or folder is set for the test command"),
    ],
)
def test_line_that_cannot_be_read_is_named(script: str, what: str) -> None:
    with pytest.raises(NotMovable, match="ciguard runs no pwsh script, and cannot split") as raised:
        split(script)
    assert raised.value.what.endswith(what)
