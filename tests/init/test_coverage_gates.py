"""Coverage gates of a test job, by its scripts, the files that they call, and configurations."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from ciguard.init.coverage_gates import reject_gate
from ciguard.workflow.movable_job import NotMovable, read_job

UNDER = {"pyproject.toml": "[tool.coverage.report]\n# fail_under = 9\nfail_under = 90\n"}
TOX = "[testenv]\ncommands = pytest\n[testenv:cov]\ncommands = coverage report --fail-under=90\n"
NOX = "@nox.session\ndef t(s):\n  pass\n@nox.session\ndef cov(s):\n  s.run('--fail-under', '9')\n"
PACKAGE = (
    '{\n"scripts": {"test": "jest", "cov": "jest --coverage"},\n"jest": {"coverageThreshold": {}}}'
)


@pytest.mark.parametrize(
    ("steps", "files", "gate"),
    [
        (["pytest --cov-fail-under 80"], {}, "ci.yml:6"),
        (["pytest", "coverage xml\ncoverage report --fail-under=100"], {}, "ci.yml:7"),
        (["pytest", "scripts/cov"], {"scripts/cov": "a\nb --fail-under=1"}, "scripts/cov:2"),
        (["make t"], {"Makefile": "t: d\n\tpytest --cov-fail-under=9\n"}, "Makefile:2"),
        (["make t"], {"Makefile": "t:\n\tpytest\nc:\n\tcoverage report --fail-under=9\n"}, ""),
        (
            ["pytest"],
            {"pytest.ini": "[pytest]\naddopts =\n  -q\n  --cov-fail-under=9"},
            "pytest.ini:4",
        ),
        (["pytest --cov"], UNDER, "pyproject.toml:3"),
        (["pytest"], UNDER | {"setup.cfg": "addopts = --cov=a\n"}, "pyproject.toml:3"),
        (["coverage run -m pytest", "coverage report"], UNDER, "pyproject.toml:3"),
        (["coverage run -m pytest"], UNDER, ""),
        (["pytest --cov"], {".coveragerc": "[report]\nfail_under = 0\n"}, ""),
        (["pytest --cov", "codecov upload"], {}, ""),
        (["pytest", "pylint --fail-under=9 src"], {}, ""),
        (["tox"], {"tox.ini": TOX}, "tox.ini:4"),
        (["tox -e py"], {"tox.ini": TOX}, ""),
        (["tox -e cov"], {"tox.ini": TOX}, "tox.ini:4"),
        (["nox -s t"], {"noxfile.py": NOX}, ""),
        (["nox"], {"noxfile.py": NOX}, "noxfile.py:6"),
        (["npm run cov"], {"package.json": PACKAGE}, "package.json:3"),
        (["npm test"], {"package.json": PACKAGE}, ""),
        (
            ["npx vitest --coverage"],
            {"vite.config.ts": "thresholds: { lines: 9 }"},
            "vite.config.ts:1",
        ),
        (["npx nyc mocha"], {".nycrc": '{"check-coverage": true}'}, ".nycrc:1"),
        (["rspec"], {"spec/spec_helper.rb": "  minimum_coverage 90\n"}, "spec/spec_helper.rb:1"),
        (["mvn verify"], {"pom.xml": "<a>\n<minimum>0.80</minimum>"}, "pom.xml:2"),
        (["mvn test"], {"pom.xml": "<minimum>0.80</minimum>"}, ""),
        (["./gradlew check"], {"build.gradle": "violationRules {"}, "build.gradle:1"),
    ],
)
def test_gate_is_refused_with_its_line(steps: list[str], files: dict[str, str], gate: str) -> None:
    head = "on: push\njobs:\n  test:\n    runs-on: a\n    steps:\n"
    text = head + "".join(f"      - run: {step!r}\n".replace("'", '"') for step in steps)
    job = read_job(text, "ci.yml", "test", "1")
    expected = pytest.raises(NotMovable, match="coverage gate") if gate else nullcontext()
    with expected as raised:
        reject_gate(job, files, files.__getitem__)
    assert gate == (raised.value.where if raised else "")


LATER = """\
on: push
jobs:
  test:
    runs-on: a
    steps:
      - run: coverage run -m pytest
      - uses: actions/upload-artifact@v7
        with: {name: "data-${{ matrix.python }}"}
  between: {needs: test}
  later:
    needs: [between]
    steps:
      - uses: actions/download-artifact@v7
        with: {INPUTS}
      - run: coverage report --fail-under=9
"""


@pytest.mark.parametrize(
    ("inputs", "is_gate"),
    [
        ("", True),
        ("pattern: data-*", True),
        ('name: "data-3.14"', True),
        ("pattern: wheel-*", False),
        ("name: wheel", False),
    ],
)
def test_gate_of_a_later_job_that_reads_the_data_is_refused(inputs: str, is_gate: bool) -> None:
    job = read_job(LATER.replace("INPUTS", inputs), "ci.yml", "test", "1")
    with pytest.raises(NotMovable) if is_gate else nullcontext() as raised:
        reject_gate(job, UNDER, UNDER.__getitem__)
    assert not raised or raised.value.where == "ci.yml:15, pyproject.toml:3"
