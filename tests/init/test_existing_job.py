"""A separate workflow beside a test job: what it takes over of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import CI, commit
from init.test_short_workflows import JEST

from ciguard.config.file import Config
from ciguard.init.candidates import with_used_actions

if TYPE_CHECKING:
    from pathlib import Path

    from init.conftest import Init

JOB = """\
on: push
env: {NODE: 18.x}
jobs:
  install:
    steps:
      - uses: actions/setup-node@v4
        with: {node-version: "${{ env.NODE }}"}
  test:
    needs: install
    services: {db: {image: postgres}}
    strategy: {matrix: {os: [a, b]}}
    steps:
      - uses: actions/checkout@v4
        with: {persist-credentials: false, fetch-depth: 0, submodules: recursive}
      - uses: actions/setup-python@v6
        with: {python-version: 3.13, cache: pip, architecture: x64}
      - uses: actions/setup-go@v6
        with:
          go-version: ${{ matrix.go }}
      - run: |
          python -m pip install -r requirements-dev.txt
          npm ci
      - run: sudo apt-get install -y libxml2-dev postgresql-client libxslt1-dev
        env: {DEBIAN_FRONTEND: noninteractive}
      - run: pytest -q tests
      - uses: actions/upload-artifact@v4
  ciguard:
    steps: [{uses: octo-org/ciguard@0123abc}]
"""
ANSWER = """\
job test still runs the same tests (.github/workflows/ci.yml:25) until you
  delete it: its versions of languages and submodules are taken over, no other
  step, env, service or matrix (from line 8); add what the tests need to
  workflow.setup
"""
PIP = {"requirements-dev.txt": "pytest\n"}
UV = {"uv.lock": 'name = "pytest"\n', "pyproject.toml": "[project]\nname = 'a'\n"}
NODE = {**JEST, "package-lock.json": "", ".nvmrc": "22"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (PIP, ['with: {python-version: "3.13"}']),
        (UV, ["--python 3.13"]),
        ({**PIP, **NODE}, ['python-version: "3.13"', 'with: {node-version: "18.x"}']),
    ],
)
def test_new_workflow_takes_versions_and_submodules_and_names_the_rest(
    repository: Path, call: Init, files: dict[str, str], expected: list[str]
) -> None:
    for name, text in files.items():
        (repository / name).write_text(text, "utf-8")
    (repository / CI).write_text(JOB, "utf-8")
    commit(repository)
    said = call(repository, "--new", "--yes").stderr
    text = (repository / "ciguard.toml").read_text("utf-8")
    assert all(one in text for one in ["- run: git submodule update --init --recursive", *expected])
    if len(expected) > 1:
        assert said.endswith(ANSWER)
    assert max(map(len, said.splitlines())) <= 80
    assert "still runs" not in call(repository, "--new", "--yes").stderr


def test_address_is_that_of_a_step_with_a_commit(repository: Path) -> None:
    commit_, file = "0123" * 10, repository / CI
    said: list[str] = []
    for text, address in (
        (f"# uses: evil/ciguard@{commit_}\njobs: {{}}\n", ""),
        ("jobs: {a: {steps: [{run: 'uses: evil/ciguard@main'}]}}", ""),
        ("jobs: {a: {steps: [{uses: evil/ciguard@main}]}}", ""),
        (f"jobs: {{a: {{steps: [{{uses: o/ciguard@{commit_}}}]}}}}", f"o/ciguard@{commit_}"),
    ):
        file.write_text(text, "utf-8")
        assert with_used_actions(repository, Config(), said.append).actions == address
    assert said == [f"actions: o/ciguard@{commit_}, as in {CI}"]
