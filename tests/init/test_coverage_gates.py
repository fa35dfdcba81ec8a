"""Coverage gates of a test job: those that move into [coverage], and those that are refused."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import ACTIONS, CI, commit, write

from ciguard.config.file import load
from ciguard.init.coverage_gates import find_gate
from ciguard.workflow.movable_job import NotMovable, read_job

if TYPE_CHECKING:
    from init.conftest import Init

HEAD = "on: push\njobs:\n  test:\n    runs-on: a\n    steps:\n"
REPORT = "[tool.coverage.report]\nomit = [\n  '*/x'\n]\n# fail_under = 9\n"
UNDER = {"pyproject.toml": f"{REPORT}«fail_under = 90 # percent\n»[tool.x]\n"}
TOX = "[testenv]\ncommands = pytest\n[testenv:cov]\ncommands = coverage report« --fail-under=90»\n"
NOX = (
    "@nox.session\ndef t(s):\n  pass\n@nox.session\ndef cov(s):\n  s.run('a'«, '--fail-under=9'»)\n"
)
PACKAGE = '{\n"scripts": {"test": "jest", "cov": "jest --coverage"},\n"jest": {%s}}'
JEST = '"bail": true«, "coverageThreshold": {"global": {"lines": 90, "statements": 90}}»'
LIST = '[pytest]\naddopts = [\n  "-q",«\n  "--cov-fail-under=90.5",»\n  "--cov"]\n'


def workflow(steps: list[str]) -> str:
    return HEAD + "".join(f"      - run: |\n{indent(step, ' ' * 10)}\n" for step in steps)


@pytest.mark.parametrize(
    ("steps", "files", "place", "minimum"),
    [
        (["pytest --cov« --cov-fail-under 80»"], {}, "ci.yml:7", "80"),
        (["pytest \\\n  --cov« \\\n  --cov-fail-under=80»\necho"], {}, "ci.yml:9", "80"),
        (["pytest `\n  --cov« `\n  --cov-fail-under=80» `\n  -q"], {}, "ci.yml:9", "80"),
        (["pytest", "coverage xml\ncoverage report« --fail-under=100»"], {}, "ci.yml:10", "100"),
        (["pytest", "scripts/cov"], {"scripts/cov": "a\nb« --fail-under=1»"}, "scripts/cov:2", "1"),
        (["make t"], {"Makefile": "t: d\n\tpytest« --cov-fail-under=9» -q\n"}, "Makefile:2", "9"),
        (
            ["pytest"],
            {"pytest.ini": "addopts =\n  -q«\n  --cov-fail-under=9»"},
            "pytest.ini:3",
            "9",
        ),
        (["pytest"], {"setup.cfg": "addopts = '«--cov-fail-under=9 »--cov'"}, "setup.cfg:1", "9"),
        (["pytest"], {"pyproject.toml": LIST}, "pyproject.toml:4", "90.5"),
        (["pytest --cov"], UNDER, "pyproject.toml:6", "90"),
        (["coverage run -m pytest", "coverage report"], UNDER, "pyproject.toml:6", "90"),
        (["tox -e cov"], {"tox.ini": TOX}, "tox.ini:4", "90"),
        (["nox"], {"noxfile.py": NOX}, "noxfile.py:6", "9"),
        (["npm run cov"], {"package.json": PACKAGE % JEST}, "package.json:3", "90"),
        (
            ["npx vitest --coverage"],
            {"vite.config.ts": "coverage: {«\n  thresholds: { lines: 9 },»\n  enabled: true }"},
            *("vite.config.ts:2", "9"),
        ),
    ],
)
def test_gate_leaves_the_text_in_which_it_is(
    steps: list[str], files: dict[str, str], place: str, minimum: str
) -> None:
    texts = {"ci.yml": workflow(steps), **files}
    before = {name: re.sub("[«»]", "", text) for name, text in texts.items()}
    after = {name: re.sub("«.*?»", "", text, flags=re.S) for name, text in texts.items()}
    job = read_job(before["ci.yml"], "ci.yml", "test", "1")
    gate = find_gate(job, files, before.__getitem__)
    assert gate is not None
    of_python = place.endswith(("package.json:3", "vite.config.ts:2"))
    assert gate[:3] == ("lcov" if of_python else "coverage.py", minimum, [place])
    before["ci.yml"] = job.source.edited(gate.edits)
    for name, cut in gate.cuts:
        before[name] = cut.sub("", before[name])
    assert before == after
    json.loads(before.get("package.json", "0"))
    tomllib.loads(before.get("pyproject.toml", ""))


PLAIN_UNDER = {"pyproject.toml": re.sub("[«»]", "", UNDER["pyproject.toml"])}
OTHER_SHAPE = '"coverageThreshold": {"global": {"lines": 90, "%s": %s}}'


@pytest.mark.parametrize(
    ("steps", "files", "place"),
    [
        (["make t"], {"Makefile": "t:\n\tpytest\nc:\n\tcoverage report --fail-under=9\n"}, ""),
        (["coverage run -m pytest"], PLAIN_UNDER, ""),
        (["pytest --cov"], {".coveragerc": "[report]\nfail_under = 0\n"}, ""),
        (["pytest --cov"], {"pyproject.toml": "[tool.docstr]\nfail_under = 9\n"}, ""),
        (["pytest --cov", "codecov upload"], {}, ""),
        (["pytest", "pylint --fail-under=9 src"], {}, ""),
        (["tox -e py"], {"tox.ini": TOX}, ""),
        (["nox -s t"], {"noxfile.py": f"{NOX}# noxfile.py"}, ""),
        (["nox -s recover"], {"noxfile.py": NOX}, ""),
        (["npm test"], {"package.json": PACKAGE % JEST}, ""),
        (["mvn test"], {"pom.xml": "<minimum>0.80</minimum>"}, ""),
        (["pytest --cov --cov-fail-under=80"], PLAIN_UNDER, "ci.yml:7, pyproject.toml:6"),
        (["pytest --cov-fail-under=80", "coverage report --fail-under=80"], {}, "ci.yml:9"),
        (["pytest '--cov-fail-under=80'", "pylint --fail-under=9"], {}, "ci.yml:7"),
        (["pytest --cov", "coverage report --include=a --fail-under=9"], {}, "ci.yml:9"),
        (["pytest --cov", "diff-cover coverage.xml --fail-under=9"], {}, "ci.yml:9"),
        (["pytest --cov --cov-fail-under=${{ env.MIN }}"], {}, "ci.yml:7"),
        *(
            (["npm run cov"], {"package.json": PACKAGE % (OTHER_SHAPE % other)}, "package.json:3")
            for other in (("branches", "90"), ("statements", "80"), ("statements", "-9"))
        ),
        (
            ["npx jest --coverage"],
            {f"{name}/package.json": re.sub("[«»]", "", PACKAGE % JEST) for name in "ab"},
            "a/package.json:3, b/package.json:3",
        ),
        (["npx nyc mocha"], {".nycrc": '{"check-coverage": true}'}, ".nycrc:1"),
        (["rspec"], {"spec/spec_helper.rb": "  minimum_coverage 90\n"}, "spec/spec_helper.rb:1"),
        (["mvn verify"], {"pom.xml": "<a>\n<minimum>0.80</minimum>"}, "pom.xml:2"),
        (["./gradlew check"], {"build.gradle": "violationRules {"}, "build.gradle:1"),
    ],
)
def test_other_gate_is_refused_with_its_line(
    steps: list[str], files: dict[str, str], place: str
) -> None:
    job = read_job(workflow(steps), "ci.yml", "test", "1")
    if not place:
        assert find_gate(job, files, files.__getitem__) is None
        return
    with pytest.raises(NotMovable, match="coverage gate") as raised:
        find_gate(job, files, files.__getitem__)
    assert raised.value.where == place


def test_gate_of_a_later_job_stays() -> None:
    later = "  later:\n    needs: test\n    steps:\n      - run: coverage report --fail-under=9\n"
    job = read_job(workflow(["coverage run -m pytest"]) + later, "ci.yml", "test", "1")
    assert find_gate(job, PLAIN_UNDER, PLAIN_UNDER.__getitem__) is None


# As in starlette: a script that the tests run in, and a script with the gate, for each version.
SCRIPTS = {
    "scripts/test": "#!/bin/sh\nuv run coverage run -m pytest $@\n",
    "scripts/cover": "#!/bin/sh -e\nuv run coverage report --show-missing« --fail-under=100»\n",
}
# As in packaging: a session of nox that reports, and the threshold in the configuration.
SESSION = {
    "noxfile.py": '@nox.session\ndef tests(session):\n    session.run(*coverage, "report")\n',
    "pyproject.toml": f"[tool.ciguard]\n{ACTIONS}{REPORT}«fail_under = 100\n»",
}
THRESHOLD = {
    "package.json": '{"devDependencies": {"jest": "30"}, "scripts": {"test": "jest --coverage"},'
    ' "jest": {«"coverageThreshold": {"global": {"lines": 100}}»}}'
}


@pytest.mark.parametrize(
    ("steps", "files", "place"),
    [
        (["scripts/test", "scripts/cover"], SCRIPTS, "scripts/cover:2"),
        (["nox -s tests"], SESSION, "pyproject.toml:8"),
        (["npm test"], THRESHOLD, "package.json:1"),
    ],
)
def test_gate_moves_in_the_same_change(
    steps: list[str], files: dict[str, str], place: str, repository: Path, call: Init
) -> None:
    for name, text in files.items():
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(re.sub("[«»]", "", text), "utf-8")
        (repository / name).chmod(0o755)
    if "pyproject.toml" in files:
        (repository / "ciguard.toml").unlink()
    write(repository, workflow(steps).encode())
    answer = call(repository, "--into", CI, "--yes")
    moved = "now in [coverage]: minimum = 100, of all shards and combinations of the suite test"
    is_lcov = files is THRESHOLD
    moved += "; other jobs that report coverage lose it, too"
    moved += "; reporters must include lcov\n" if is_lcov else "; a shard reports a part\n"
    assert f"- {place}: the coverage gate is {moved}" in answer.stderr
    assert "needs: [ciguard, test, ciguard-coverage]" in (repository / CI).read_text("utf-8")
    coverage = load(repository, {}).coverage
    assert coverage.format == ("lcov" if is_lcov else "coverage.py")
    assert (coverage.suites, coverage.minimum) == (("test",), 100)
    for name, text in files.items():
        content = (repository / name).read_text("utf-8")
        assert content.startswith(re.sub("«.*?»", "", text, flags=re.S))
        assert os.access(repository / name, os.X_OK)


def test_coverage_that_is_configured_stays(repository: Path, call: Init) -> None:
    config = f'{ACTIONS}[suite.test]\n[coverage]\nformat = "lcov"\nminimum = 9\n'
    (repository / "ciguard.toml").write_text(config, "utf-8")
    (repository / "cov").write_text("coverage report --fail-under=9\n", "utf-8")
    write(repository, workflow(["pytest", "./cov"]).encode())
    (repository / "cov").write_text("\ncoverage report --fail-under=9\n", "utf-8")
    answer = call(repository, "--into", CI, "--yes", expect=3)
    assert "cov: has changes that are not committed" in answer.stderr
    commit(repository)
    (repository / "ciguard.toml").write_text(config.replace("9", "8"), "utf-8")
    assert "set minimum = 9 in [coverage]" in call(repository, "--into", CI, expect=3).stderr
    (repository / "ciguard.toml").write_text(config, "utf-8")
    answer = call(repository, "--into", CI, "--yes")
    assert (
        "- cov:2: the coverage gate is gone, as that in [coverage]: minimum = 9," in answer.stderr
    )
    assert (repository / "ciguard.toml").read_text("utf-8") == config
