"""The stand-ins for the artifact actions refuse what the real ones refuse."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from ciguard.workflow.job_templates import ACTIONS

if TYPE_CHECKING:
    from act.fake_machine import GitHub

UPLOAD = f"uses: {ACTIONS['upload_artifact']}"
DOWNLOAD = f"uses: {ACTIONS['download_artifact']}"
RUN = "run-id: '${{ github.run_id }}', github-token: '${{ github.token }}'"
MAKE = "run: mkdir -p out && echo content > out/file"

CASES = {
    "each name once": ([MAKE, f"{UPLOAD}\n  with: {{name: a, path: out}}"], True),
    "a name twice": ([MAKE, *[f"{UPLOAD}\n  with: {{name: a, path: out}}"] * 2], False),
    "a name that is refused": ([MAKE, f"{UPLOAD}\n  with: {{name: 'a:b', path: out}}"], False),
    "nothing to upload": ([f"{UPLOAD}\n  with: {{name: a, path: out}}"], True),
    "nothing to upload, an error": (
        [f"{UPLOAD}\n  with: {{name: a, path: out, if-no-files-found: error}}"],
        False,
    ),
    "down by name": (
        [
            MAKE,
            f"{UPLOAD}\n  with: {{name: a, path: out}}",
            f"{DOWNLOAD}\n  with: {{name: a, path: in, {RUN}}}",
            "run: test -f in/file",
        ],
        True,
    ),
    "down by pattern": (
        [
            MAKE,
            f"{UPLOAD}\n  with: {{name: a-1, path: out}}",
            f"{UPLOAD}\n  with: {{name: b-1, path: out}}",
            f"{DOWNLOAD}\n  with: {{pattern: a-*, path: in, {RUN}}}",
            "run: test -f in/a-1/file && test ! -e in/b-1",
        ],
        True,
    ),
    "down by a pattern that nothing has": (
        [f"{DOWNLOAD}\n  with: {{pattern: a-*, path: in, {RUN}}}"],
        True,
    ),
    "down by a name that nothing has": (
        [f"{DOWNLOAD}\n  with: {{name: a, path: in, {RUN}}}"],
        False,
    ),
    "down without the run": (
        [
            MAKE,
            f"{UPLOAD}\n  with: {{name: ciguard-a, path: out}}",
            f"{DOWNLOAD}\n  with: {{name: ciguard-a, path: in}}",
        ],
        False,
    ),
    "a hidden file": (
        [
            "run: echo content > .hidden",
            f"{UPLOAD}\n  with: {{name: a, path: .hidden, if-no-files-found: error}}",
        ],
        False,
    ),
}


@pytest.mark.parametrize(
    ("number", "steps", "green"),
    [(number, *case) for number, case in enumerate(CASES.values(), 900)],
    ids=CASES,
)
def test_artifact_action_stubs_behave_like_the_real_actions(
    github: GitHub, number: int, steps: list[str], green: bool
) -> None:
    job = "name: tests\non: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n"
    listed = "\n".join(f"- {step}" for step in steps)
    file = github.checkout.parent / f"{number}.yml"
    file.write_text(job + textwrap.indent(listed, " " * 6), "utf-8")
    run = github.execute(str(file), "push", {}, run_id=number)
    assert run.green is green, run.talk
    assert run.job("a").result == ("success" if green else "failure")
