"""What git servers say, and what is taken from it."""

from __future__ import annotations

import pytest

from ciguard.history.branch_store import advice, is_transient, lost_race, summarize

LINE = "To https://github.com/o/r\n!\t4f2a:refs/heads/h\t{}\nDone\n"
RACES = (
    "[rejected] (stale info)",
    "[rejected] (fetch first)",
    "[remote rejected] (cannot lock ref 'refs/heads/h': is at 4f2a but expected 5b1c)",
    "[remote rejected] (failed to update ref)",
    "[remote rejected] (reference already exists)",
    "[remote rejected] (incorrect old value provided)",
)
RULES = (
    "[remote rejected] (protected branch hook declined)",
    "[remote rejected] (push declined due to repository rule violations)",
    "[remote rejected] (pre-receive hook declined)",
    "[remote rejected] (non-fast-forward)",
    "[remote rejected] (GH003: Sorry, force-pushing to h is not allowed.)",
)
RIGHTS = (
    "remote: Write access to repository not granted.\nfatal: unable to access 'https://x/': The "
    "requested URL returned error: 403",
    "remote: Permission to o/r.git denied to github-actions[bot].",
    "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
    "remote: Invalid username or token.\nfatal: Authentication failed for 'https://x/'",
    "remote: This repository was archived so it is read-only.",
    "ERROR: The key you are authenticating with has been marked as read only.",
    "remote: Repository not found.",
)
FAULTS = (
    "fatal: unable to access 'https://x/': Could not resolve host: github.com",
    "fatal: unable to access 'https://x/': The requested URL returned error: 503",
    "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502",
    "fatal: the remote end hung up unexpectedly",
    "fatal: early EOF",
    "remote: Internal Server Error",
)


@pytest.mark.parametrize("output", RACES)
def test_lost_race_is_recognised(output: str) -> None:
    assert lost_race(LINE.format(output))
    assert not is_transient(LINE.format(output))


@pytest.mark.parametrize("output", [*RULES, *RIGHTS, *FAULTS])
def test_other_git_errors_are_no_lost_race(output: str) -> None:
    assert not lost_race(LINE.format(output))
    assert not lost_race(output)


@pytest.mark.parametrize("output", RULES)
def test_rule_rejection_advises_the_repository_settings(output: str) -> None:
    assert "repository's rules" in advice(LINE.format(output), writing=True)


@pytest.mark.parametrize("output", RIGHTS)
def test_missing_permission_advises_the_job_permissions(output: str) -> None:
    assert "`permissions: contents: write`" in advice(output, writing=True)
    assert "`permissions: contents: read`" in advice(output, writing=False)
    assert not is_transient(output)


@pytest.mark.parametrize("output", FAULTS)
def test_transient_fault_is_recognised_and_has_no_advice(output: str) -> None:
    assert is_transient(output)
    assert advice(output, writing=True) == ""


def test_oversized_file_error_advises_history_show() -> None:
    output = "remote: error: GH001: Large files detected.\n" + LINE.format(RULES[2])
    assert "ciguard history show" in advice(output, writing=True)


def test_git_error_is_summarized_in_one_line() -> None:
    output = LINE.format(RULES[0]) + (
        "remote: error: GH006: Protected branch update failed for refs/heads/h.        \n"
        "remote: \nremote: - Cannot force-push to this branch        \n"
        "error: failed to push some refs to 'https://github.com/o/r'\n"
    )
    assert summarize(output) == (
        "[remote rejected] (protected branch hook declined); GH006: Protected branch update failed "
        "for refs/heads/h.; - Cannot force-push to this branch"
    )
    assert summarize("fatal: not a git repository\n") == "not a git repository"
    assert summarize("") == ""
