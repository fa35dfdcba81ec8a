"""`ciguard init --out`, and a second `--into`: a moved workflow is restored, or updated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import (
    ACTIONS,
    CI,
    COMMIT,
    MOVED,
    SAMPLES,
    WORKFLOW,
    commit,
    configure,
    write,
)
from init.test_move_in import TOX, TOX_JOB, job_with

from ciguard.actions_address import address_of_installation

if TYPE_CHECKING:
    from pathlib import Path

    from init.conftest import Init


@pytest.mark.parametrize("case", MOVED)
def test_out_restores_the_workflow_to_the_byte(case: str, repository: Path, call: Init) -> None:
    before = (SAMPLES / case / "ci.yml").read_bytes()
    configure(repository, case)
    write(repository, before)
    call(repository, "--into", CI, "--yes")
    commit(repository)
    answer = call(repository, "--out", CI, "--yes")
    assert answer.stdout == f"{CI}: changed\n"
    assert (repository / CI).read_bytes() == before
    answer = call(repository, "--out", CI, "--yes")
    assert answer.stdout == f"{CI} does not use ciguard's actions\n"


CHECKOUT = b"      - uses: actions/checkout@v7\n"
# What is edited after the move -> what stands there when ciguard is gone. Both as (before, after).
EDITS = {
    "above": ((b"jobs:\n", b"env:\n  X: 1\njobs:\n"),) * 2,
    "beside the test step": ((b"@v7\n      - ", b"@v8\n      - "),) * 2,
    "a step": ((b"test:\n", b"test:\n    timeout-minutes: 9\n"),) * 2,
    "a command": ((b"command: make test\n", b"command: make t -j\n"), (b"make test", b"make t -j")),
    "a script": (
        (b"command: make test\n", b"command: |\n            a\n\n            tox # b\n"),
        (b"run: make test\n", b"run: |\n          a\n\n          tox # b\n"),
    ),
    "a job at the end": ((b"", b"\n  lint:\n    steps: []\n"),) * 2,
    "jobs of ciguard": ((b"checkout@3d3c42", b"checkout@0123"), (b"", b"")),
    "another address": ((COMMIT.encode(), b"main"), (b"", b"")),
}


def edited(text: bytes, change: tuple[bytes, bytes]) -> bytes:
    """The text with a change: at its end, or wherever the words stand."""
    before, after = change
    assert before in text
    return text.replace(before, after) if before else text + after


@pytest.mark.parametrize(("now", "then"), EDITS.values(), ids=EDITS)
def test_out_keeps_what_was_edited_since(
    now: tuple[bytes, bytes], then: tuple[bytes, bytes], repository: Path, call: Init
) -> None:
    call(repository, "--into", CI, "--yes")
    write(repository, edited((repository / CI).read_bytes(), now))
    call(repository, "--out", CI, "--yes")
    assert (repository / CI).read_bytes() == edited(WORKFLOW, then)


@pytest.mark.parametrize("matrix", [b"        py: [a]\n", b"{py: [a]}"])
def test_out_keeps_the_matrix_that_is_planned_now(
    matrix: bytes, repository: Path, call: Init
) -> None:
    lines = b" " + matrix if matrix.startswith(b"{") else b"\n" + matrix.rstrip()
    before = job_with(b"strategy:", b"  matrix:" + lines)
    write(repository, before)
    call(repository, "--into", CI, "--yes")
    write(repository, (repository / CI).read_bytes().replace(b"[a]", b"[a, b]"))
    answer = call(repository, "--out", CI, "--yes")
    assert "was edited since ciguard moved in: the edits stay" in answer.stderr
    assert (repository / CI).read_bytes() == before.replace(b"[a]", b"[a, b]")


TOX_EDITS = {
    "command": ((b"matrix.tox_env }}", b"matrix.tox_env }} -v"), (b"run: tox", b"run: tox -v")),
    "environments": ((b"[a, b]", b"[a, b, c]"), (b"", b"")),
    "step before": (
        (b"    steps:\n      - uses: octo", b"    steps:\n" + CHECKOUT + b"      - uses: octo"),
        (b"    steps:\n", b"    steps:\n" + CHECKOUT),
    ),
}


@pytest.mark.parametrize(("now", "then"), TOX_EDITS.values(), ids=TOX_EDITS)
def test_out_takes_the_axis_of_environments_out_of_an_edited_file(
    now: tuple[bytes, bytes], then: tuple[bytes, bytes], repository: Path, call: Init
) -> None:
    (repository / "tox.ini").write_text(TOX, "utf-8")
    write(repository, TOX_JOB)
    call(repository, "--into", CI, "--yes")
    write(repository, edited((repository / CI).read_bytes(), now))
    call(repository, "--out", CI, "--yes")
    assert (repository / CI).read_bytes() == edited(TOX_JOB, then)


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        (
            (b"shard: ${{ matrix.ciguard }}", b"shard: '01'"),
            "{line}",
            "a line of ciguard was edited: shard: '01'\n  fix: undo that, run init --out again",
        ),
        ((b"", b"  x:\n    needs: [test, ciguard]\n"), " jobs.x", "the job uses ciguard's jobs"),
        (
            (b"suite:", b"matrix: '{a: [b]}'\n          suite:"),
            " jobs.test",
            "its matrix was added or taken out since",
        ),
    ],
)
def test_out_refuses_what_it_cannot_take_out(
    change: tuple[bytes, bytes], where: str, what: str, repository: Path, call: Init
) -> None:
    call(repository, "--into", CI, "--yes")
    text = edited((repository / CI).read_bytes(), change)
    write(repository, text)
    answer = call(repository, "--out", CI, "--yes", expect=3)
    line = text[: text.find(b"shard: '01'")].count(b"\n") + 1
    assert f"{CI}:{where.format(line=line)}: {what}" in answer.stderr
    assert (repository / CI).read_bytes() == text


def test_out_follows_a_file_that_was_renamed(repository: Path, call: Init) -> None:
    call(repository, "--into", CI, "--yes")
    commit(repository)
    other = ".github/workflows/other.yml"
    (repository / CI).rename(repository / other)
    answer = call(repository, "--out", other, "--yes", expect=3)
    assert f"{other}: git has no version of it without ciguard\n  fix: commit" in answer.stderr
    commit(repository)
    call(repository, "--out", other, "--yes")
    assert (repository / other).read_bytes() == WORKFLOW


def test_second_move_updates_the_address_of_the_actions(repository: Path, call: Init) -> None:
    call(repository, "--into", CI, "--yes")
    moved = (repository / CI).read_bytes()
    newer = ACTIONS.replace(COMMIT, "f" * 40).replace("v0.2.0", "v0.3.0")
    (repository / "ciguard.toml").write_text(newer, "utf-8")
    answer = call(repository, "--into", CI)
    changed = [line for line in answer.stdout.splitlines() if line.startswith("+ ")]
    names = [re.search(f"uses: octo-org/ciguard/([a-z]+)@{'f' * 40} # v0.3.0$", x) for x in changed]
    assert [found and found[1] for found in names] == ["plan", "run", "report", "history"]
    assert (repository / CI).read_bytes() == moved
    call(repository, "--into", CI, "--yes")
    expected = moved.replace(COMMIT.encode(), b"f" * 40).replace(b"v0.2.0", b"v0.3.0")
    assert (repository / CI).read_bytes() == expected
    (repository / "ciguard.toml").write_text(newer.replace(" # v0.3.0", ""), "utf-8")
    again = call(repository, "--into", CI, "--yes")
    assert again.stdout == f"{CI} uses ciguard's actions already\n", "the comment stays"
    commit(repository)
    call(repository, "--out", CI, "--yes")
    assert (repository / CI).read_bytes() == WORKFLOW


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://github.com/octo-org/ciguard.git", f"octo-org/ciguard@{COMMIT}"),
        ("ssh://git@github.com/octo-org/ciguard", f"octo-org/ciguard@{COMMIT}"),
        ("https://git.example/octo-org/ciguard", ""),
    ],
)
def test_address_comes_from_an_installation_from_github(url: str, address: str) -> None:
    direct = f'{{"url": "{url}", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'
    assert address_of_installation(direct) == address
    assert address_of_installation(f'{{"url": "{url}", "archive_info": {{}}}}') == ""
    assert address_of_installation(None) == ""
