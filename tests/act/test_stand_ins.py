"""The stand-ins for the artifact actions refuse what the real ones refuse."""

from __future__ import annotations

import textwrap

from act.fake_machine import GitHub

from ciguard.workflow.job_templates import ACTIONS

UPLOAD = f"uses: {ACTIONS['upload_artifact']}"
DOWNLOAD = f"uses: {ACTIONS['download_artifact']}"
RUN = "run-id: '${{ github.run_id }}', github-token: '${{ github.token }}'"
MAKE = "run: mkdir -p out && echo content > out/file"

CASES = {
    "each name once": ([MAKE, f"{UPLOAD}\n  with: {{name: ID-a, path: out}}"], True),
    "a name twice": ([MAKE, *[f"{UPLOAD}\n  with: {{name: ID-a, path: out}}"] * 2], False),
    "a name that is refused": ([MAKE, f"{UPLOAD}\n  with: {{name: 'ID:b', path: out}}"], False),
    "nothing to upload": ([f"{UPLOAD}\n  with: {{name: ID-a, path: out}}"], True),
    "nothing to upload, an error": (
        [f"{UPLOAD}\n  with: {{name: ID-a, path: out, if-no-files-found: error}}"],
        False,
    ),
    "down by name": (
        [
            MAKE,
            f"{UPLOAD}\n  with: {{name: ID-a, path: out}}",
            f"{DOWNLOAD}\n  with: {{name: ID-a, path: in, {RUN}}}",
            "run: test -f in/file",
        ],
        True,
    ),
    "down by pattern": (
        [
            MAKE,
            f"{UPLOAD}\n  with: {{name: ID-a-1, path: out}}",
            f"{UPLOAD}\n  with: {{name: ID-b-1, path: out}}",
            f"{DOWNLOAD}\n  with: {{pattern: ID-a-*, path: in, {RUN}}}",
            "run: test -f in/ID-a-1/file && test ! -e in/ID-b-1",
        ],
        True,
    ),
    "down by a pattern that nothing has": (
        [f"{DOWNLOAD}\n  with: {{pattern: ID-a-*, path: in, {RUN}}}"],
        True,
    ),
    "down by a name that nothing has": (
        [f"{DOWNLOAD}\n  with: {{name: ID-a, path: in, {RUN}}}"],
        False,
    ),
    "down without the run": (
        [
            MAKE,
            f"{UPLOAD}\n  with: {{name: ciguard-ID, path: out}}",
            f"{DOWNLOAD}\n  with: {{name: ciguard-ID, path: in}}",
        ],
        False,
    ),
    "a hidden file": (
        [
            "run: echo content > .hidden",
            f"{UPLOAD}\n  with: {{name: ID-a, path: .hidden, if-no-files-found: error}}",
        ],
        False,
    ),
}


def test_artifact_action_stubs_behave_like_the_real_actions(github: GitHub) -> None:
    """Each case is a job of one run, with its own names of artifacts."""
    text = "name: tests\non: push\njobs:\n"
    for number, (steps, _) in enumerate(CASES.values()):
        listed = "\n".join(f"- {step}" for step in steps).replace("ID", f"job{number:02}")
        job = f"  job{number:02}:\n    runs-on: ubuntu-latest\n    steps:\n"
        text += job + textwrap.indent(f"{listed}\n", " " * 6)
    file = github.checkout.parent / "stand-ins.yml"
    file.write_text(text, "utf-8")
    run = github.execute(str(file), "push", {}, run_id=900)
    results = {case: run.job(f"job{n:02}").result for n, case in enumerate(CASES)}
    expected = {case: "success" if green else "failure" for case, (_, green) in CASES.items()}
    assert results == expected, run.talk
