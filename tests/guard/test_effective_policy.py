"""Whose policy holds: of the folder, or of the base commit, read by the real git."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard, clean_environment
from fakegithub.server import serving
from fakegithub.state import Login
from guard.fixtures import SHARDS, World, make_leg, make_plan
from history.git_servers import environment, git

from ciguard.config.invocation import Invocation
from ciguard.errors import RemoteError
from ciguard.git.checkout import MAX_BYTES, Checkout
from ciguard.guard.evaluation import past_runs_of
from ciguard.guard.policy import context_of, effective_policy
from ciguard.guard.verdict import Limit, Policy
from ciguard.guard.wording import finding_message
from ciguard.history.file import History, empty
from ciguard.model import FAIL_CONDITIONS

TODAY = datetime.now(UTC).date()
LATER = TODAY + timedelta(days=20)


def quarantine(unit: str, until: object = LATER) -> str:
    return f'[[quarantine]]\nunit = "{unit}"\nreason = "late mail"\nissue = 4711\nuntil = {until}\n'


def nothing() -> History:
    return empty()


STORE = "[history]\nstore = 'past.ciguard'\n"
STORE_OF_PROPOSAL = "[history]\nstore = 'https://evil.example/api/v1/repos/o/r/history'\n"


class PolicyCheckout:
    """What a job of a pull request has: a shallow clone of the merge that GitHub tests."""

    def __init__(self, folder: Path) -> None:
        self.origin, self.work = folder / "origin.git", folder / "work"
        git(folder, "init", "--quiet", "--bare", "-b", "main", str(self.origin))
        git(folder, "init", "--quiet", "-b", "main", str(self.work))
        git(self.work, "remote", "add", "origin", str(self.origin))
        self.folder = folder / "job"
        self.event: dict[str, Any] = {}

    def commit(self, files: dict[str, str | None]) -> str:
        for name, text in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        git(self.work, "add", "--all")
        # Alone the branch in its message tells a commit from another one of the same second.
        branch = git(self.work, "symbolic-ref", "HEAD")
        git(self.work, "commit", "--quiet", "--allow-empty", "-m", branch)
        return git(self.work, "rev-parse", "HEAD")

    def propose(
        self, base: dict[str, str], change: dict[str, str | None], depth: int = 1
    ) -> PolicyCheckout:
        """The base has moved on since the event was made: its own first commit is not the base."""
        old = self.commit({**base, "quarantine.toml": None})
        git(self.work, "branch", "topic")
        self.tip = self.commit(dict(base))
        git(self.work, "checkout", "--quiet", "topic")
        self.head = self.commit({**base, **change})
        parents = ("-p", self.tip, "-p", self.head)
        self.merge = git(self.work, "commit-tree", f"{self.head}^{{tree}}", *parents, "-m", "x")
        git(self.work, "push", "--quiet", "origin", "main", f"{self.merge}:refs/heads/merge")
        where = ("--branch", "merge", self.origin.as_uri(), str(self.folder))
        git(self.work, "clone", "--quiet", f"--depth={depth}", *where)
        self.event = {
            "pull_request": {
                "number": 7,
                "base": {"ref": "main", "sha": old},
                "head": {"sha": self.head},
            }
        }
        return self

    def environ(self, **more: str) -> dict[str, str]:
        path = self.folder.parent / "event.json"
        path.write_text(json.dumps(self.event))
        return {
            **environment(self.folder.parent),
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": "octo-org/shop",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_SHA": self.merge,
            **more,
        }

    def applied(self, ignore_base_failures: bool = False, **more: str) -> Policy:
        return effective_policy(
            context_of(Invocation(self.environ(**more), self.folder)), ignore_base_failures, nothing
        )


@pytest.fixture
def policy_checkout(tmp_path: Path) -> PolicyCheckout:
    return PolicyCheckout(tmp_path)


def units(found: Policy) -> list[str]:
    return [entry.unit for entry in found.quarantine]


@pytest.mark.parametrize("depth", [1, 2], ids=["fetched", "in the checkout"])
def test_pull_request_is_judged_by_the_base_policy(
    policy_checkout: PolicyCheckout, depth: int
) -> None:
    law = '[policy]\nfail_on = ["memory"]\n[guard]\nmax_drop = 0.02\n[report]\nfooter = "base"\n'
    own = "[policy]\nfail_on = []\n[guard]\nmax_drop = 1.0\nignore_base_failures = true\n"
    own += '[suite.""]\nexclude = ["*"]\n[report]\nfooter = "proposed"\n'
    job = policy_checkout.propose(
        {"ciguard.toml": law, "quarantine.toml": quarantine("a.t::*")},
        {"ciguard.toml": own, "quarantine.toml": quarantine("b.t::*")},
        depth,
    )
    if depth > 1:
        git(job.folder, "remote", "set-url", "origin", "nowhere")
    found = job.applied()
    assert units(found) == ["a.t::*"]
    assert found.fail_on == ("memory",)
    assert found.footer == "base"
    assert found.max_drop == 0.02
    assert len(found.findings) == 1
    assert policy_notes(found) == (
        "this pull request changes quarantine.toml, policy.fail_on, guard.max_drop, "
        "guard.ignore_base_failures, "
        "suite.exclude",
    )


def test_unchanged_policy_has_no_note(policy_checkout: PolicyCheckout) -> None:
    base = {"pyproject.toml": "[tool.ciguard.guard]\nmax_drop = 0.5\n"}
    found = policy_checkout.propose(base, {"ciguard.toml": None}).applied()
    assert (found.max_drop, policy_notes(found)) == (0.5, ())


LIMITS = '[[suite.unit.limits]]\nunits = "*"\nmemory = "{}"\ntime = "5s"\n'
MINIMUM = "[coverage]\nformat = 'go'\nminimum = 85\n"
OF_SUITES = (
    *('args = ["-k", "fast"]', 'env = { PYTEST_ADDOPTS = "--co" }', 'command = ["true"]'),
    *('list = ["cat", "units"]', 'cwd = "elsewhere"', 'framework = "command"'),
    'variant.new.args = ["-x"]',
)


@pytest.mark.parametrize(
    ("base", "own", "facts", "changed"),
    [
        *(
            (
                "[suite.unit]\ntimeout = 60\n",
                f"[suite.unit]\ntimeout = 90\n{text}\n",
                {},
                f"suite.unit.{text.replace('.', ' ').split()[0]}",
            )
            for text in OF_SUITES
        ),
        ('suite.unit.exclude = ["slow*"]', 'suite.unit.exclude = ["b*"]', {}, "suite.unit.exclude"),
        (
            *('guard.min_executed = "95%"', "guard.min_executed = 0.1"),
            *({"min_executed": 0.95}, "guard.min_executed"),
        ),
        (
            *(f"{MINIMUM}diff_minimum = 90\n", MINIMUM),
            *({"coverage_minima": (85, 90)}, "coverage.diff_minimum"),
        ),
        (
            *('new_tests.policy = "enforce"', "new_tests.at_most = 1"),
            *({"new_tests": "enforce"}, "new_tests.policy, new_tests.at_most"),
        ),
        *(
            (
                *(LIMITS.format("1GiB"), own),
                *({"limits": {"unit": (Limit("*", 1 << 30, 5.0),)}}, "suite.unit.limits"),
            )
            for own in (LIMITS.format("9GiB"), "[suite.renamed]\n")
        ),
    ],
)
def test_policy_is_that_of_the_base_and_a_change_is_noted(
    policy_checkout: PolicyCheckout, base: str, own: str, facts: dict[str, Any], changed: str
) -> None:
    found = policy_checkout.propose({"ciguard.toml": base}, {"ciguard.toml": own}).applied()
    assert {name: getattr(found, name) for name in facts} == facts
    assert policy_notes(found) == (f"this pull request changes {changed}",)


def policy_notes(found: Policy) -> tuple[str, ...]:
    """What the first line says of a change of the policy."""
    changes = [one for one in found.findings if one.kind == "policy_changed"]
    return tuple(map(finding_message, changes))


UNREAD = "the policy of the base could not be read"


def assert_strictest(found: Policy, why: str) -> None:
    assert units(found) == []
    assert (found.max_drop, found.new_tests) == (0.0, "enforce")
    assert found.fail_on == FAIL_CONDITIONS
    finding = found.findings[-1]
    assert (finding.level, finding.kind) == ("warning", "policy_unread")
    assert finding_message(finding).startswith(f"{UNREAD} (")
    assert why in finding_message(finding)


def test_unreachable_base_gives_the_strictest_policy(policy_checkout: PolicyCheckout) -> None:
    job = policy_checkout.propose({"quarantine.toml": quarantine("a.t::*")}, {})
    git(job.folder, "remote", "set-url", "origin", str(job.folder / "nowhere"))
    assert_strictest(job.applied(ignore_base_failures=True), "git fetch failed")


def test_no_repository_or_no_base_commit_gives_strictest_policy(
    policy_checkout: PolicyCheckout,
) -> None:
    job = policy_checkout.propose({}, {})
    plain = job.folder.parent / "plain"
    plain.mkdir()
    job.folder = plain
    assert_strictest(job.applied(), "git ")
    del job.event["pull_request"]["base"]["sha"]
    assert_strictest(job.applied(), "the event names no base commit")


def test_invalid_base_configuration_gives_the_strictest_policy(
    policy_checkout: PolicyCheckout,
) -> None:
    own: dict[str, str | None] = {"ciguard.toml": "[guard]\nmin_executed = 0.9\n"}
    job = policy_checkout.propose({"ciguard.toml": "[guard]\nmax_drop = 3\n"}, own)
    assert_strictest(job.applied(), "expected at most 1, found 3")
    assert job.applied().min_executed == 0.9


def test_merge_group_is_judged_by_the_policy_of_its_base_commit(
    policy_checkout: PolicyCheckout,
) -> None:
    job = policy_checkout.propose(
        {"quarantine.toml": quarantine("a.t::*")}, {"quarantine.toml": ""}
    )
    job.event = {"merge_group": {"base_ref": "refs/heads/main", "base_sha": job.tip}}
    found = job.applied(GITHUB_EVENT_NAME="merge_group")
    assert units(found) == ["a.t::*"]
    assert policy_notes(found) == ("this merge group changes quarantine.toml",)


def test_base_branch_and_local_run_use_the_checked_out_policy(
    policy_checkout: PolicyCheckout,
) -> None:
    job = policy_checkout.propose({}, {"quarantine.toml": quarantine("b.t::*")})
    job.event = {"repository": {"full_name": "octo-org/shop", "default_branch": "main"}}
    push = job.applied(GITHUB_EVENT_NAME="push", GITHUB_REF_NAME="main")
    by_hand = effective_policy(
        context_of(Invocation(clean_environment(), job.folder)), False, nothing
    )
    assert units(push) == units(by_hand) == ["b.t::*"]
    assert policy_notes(push) == policy_notes(by_hand) == ()


LAST_DAY = "warning: quarantine.toml: the last day of a.t::* is {}"


@pytest.mark.parametrize(
    ("days_ago", "on_base", "on_change"),
    [
        (-7, "", ""),
        (-6, LAST_DAY, ""),
        (0, LAST_DAY, ""),
        (1, *[f"{LAST_DAY}, 1 day ago; failures of its tests fail main"] * 2),
        (7, *[f"{LAST_DAY}, 7 days ago; failures of its tests fail main"] * 2),
        (
            8,
            "failed: quarantine.toml: a.t::*: until: expired on {}: fix its tests",
            f"{LAST_DAY}, 8 days ago; failures of its tests fail main",
        ),
    ],
)
def test_expired_entry_fails_the_base_alone_and_after_a_week(
    policy_checkout: PolicyCheckout, days_ago: int, on_base: str, on_change: str
) -> None:
    """A date turns no pull request red; main is red until the entry is renewed or removed."""
    until = TODAY - timedelta(days=days_ago)
    job = policy_checkout.propose({"quarantine.toml": quarantine("a.t::*", until)}, {})
    proposed = job.applied()
    job.event = {"repository": {"full_name": "octo-org/shop", "default_branch": "main"}}
    pushed = job.applied(GITHUB_EVENT_NAME="push", GITHUB_REF_NAME="main")
    topic = job.applied(GITHUB_EVENT_NAME="push", GITHUB_REF_NAME="topic")
    for found, expected in ((pushed, on_base), (proposed, on_change), (topic, on_change)):
        text = "".join(f"{each.level}: {finding_message(each)}" for each in found.findings)
        assert text.startswith(expected.format(until))
        assert bool(text) is bool(expected)
        assert units(found) == ([] if "failed" in expected else ["a.t::*"])
    fails = TODAY + timedelta(days=8 - days_ago)
    assert days_ago < 1 or finding_message(proposed.findings[0]).endswith(f"fail main from {fails}")


def test_invalid_quarantine_entry_fails_until_fixed(policy_checkout: PolicyCheckout) -> None:
    invalid = quarantine("a.t::*", TODAY + timedelta(days=40))
    job = policy_checkout.propose({"quarantine.toml": invalid}, {})
    (finding,) = job.applied().findings
    assert (finding.level, finding.kind) == ("failed", "quarantine")
    assert "a.t::*: until: " in finding_message(finding)
    (job.folder / "quarantine.toml").write_text(quarantine("a.t::*"))
    found = job.applied()
    assert units(found) == [], "what the pull request repairs holds when it is merged"
    finding, _ = found.findings
    assert (finding.level, finding.kind) == ("warning", "quarantine")
    assert policy_notes(found) == ("this pull request changes quarantine.toml",)
    (job.folder / "quarantine.toml").write_text("quarantine = 3")
    assert [one.level for one in job.applied().findings] == ["failed", "warning", "warning"]


def test_no_failure_is_ignored_without_a_base_run(policy_checkout: PolicyCheckout) -> None:
    found = policy_checkout.propose({}, {}).applied(ignore_base_failures=True)
    assert [(one.level, one.kind) for one in found.findings] == [("warning", "no_base_run")]


def test_files_of_a_commit_are_read_relative_to_a_folder(
    policy_checkout: PolicyCheckout, tmp_path: Path
) -> None:
    commit = policy_checkout.commit(
        {"below/one": "1", "two": "2", "below/large": "x" * (MAX_BYTES + 1)}
    )
    there = Checkout(policy_checkout.work / "below", environment(tmp_path))
    assert there.files_at(commit, ["one", "two"]) == {"one": b"1"}
    for name, what in (("large", "bytes, more than"), ("../below", "is no plain file there")):
        with pytest.raises(RemoteError, match=what):
            there.files_at(commit, [name])
    with pytest.raises(RemoteError, match="no commit: '--upload-pack"):
        there.files_at("--upload-pack=x", ["one"])


def test_git_replace_refs_are_ignored(policy_checkout: PolicyCheckout, tmp_path: Path) -> None:
    commit, other = policy_checkout.commit({"one": "1"}), policy_checkout.commit({"one": "2"})
    git(policy_checkout.work, "replace", commit, other)
    found = Checkout(policy_checkout.work, environment(tmp_path)).files_at(commit, ["one"])
    assert found == {"one": b"1"}


def test_policy_is_applied_end_to_end(
    policy_checkout: PolicyCheckout, ciguard: Ciguard, tmp_path: Path
) -> None:
    """A quarantined failure, one of the base's, and one of the pull request's own."""
    job = policy_checkout.propose(
        {"quarantine.toml": quarantine("a.t::*")}, {"quarantine.toml": quarantine("*.t::*")}
    )
    world = World()
    world.result("02", "c.t::four", outcome="failed")
    (tmp_path / "base").mkdir()
    plan, records = world.write(tmp_path / "base")
    history = ("--history", tmp_path / "history")
    output = ("--sha", "1" * 40, "--branch", "main", "--at", "2026-11-01T10:00:00Z")
    ciguard("history", "add", records, *history, "--plan", plan, *output, cwd=tmp_path)
    world.legs = {key: make_leg(world.plan, key, run=8) for key in world.legs}
    world.result("01", "a.t::two", outcome="failed")
    world.result("02", "c.t::four", outcome="failed")
    plan, records = world.write(tmp_path)
    words = ("report", "--plan", plan, "--records", records, *history, "--ignore-base-failures")
    given = job.environ(GITHUB_RUN_ID="8", GITHUB_RUN_ATTEMPT="1").items()
    environ = {name: value for name, value in given if name.startswith("GITHUB_")}
    done = ciguard(*words, cwd=job.folder, stdin="", expect=0, **environ)
    assert done.stdout.partition("\n")[0] == (
        "### :white_check_mark: PASSED: all 8 tests of 3 shards have a result; 1 quarantined test "
        "failed; 1 ignored test failed; this pull request changes quarantine.toml"
    )
    assert "also fails on main since run 7" in done.stdout
    # A plan of fewer units that says nothing of the base's.
    few = World(plan=make_plan({key: SHARDS[key] for key in ("01", "02")}))
    few.legs = {key: make_leg(few.plan, key, run=8) for key in few.legs}
    (tmp_path / "few").mkdir()
    plan, records = few.write(tmp_path / "few")
    less = ("guard", "--plan", plan, "--records", records, *history)
    done = ciguard(*less, cwd=job.folder, stdin="", expect=13, **environ)
    assert done.stdout.startswith("INCOMPLETE: 5 tests planned, 8 on the base (-37.5 %, run 7")
    world.result("03", "d.t::six", outcome="failed")
    world.write(tmp_path)
    done = ciguard(*words, cwd=job.folder, stdin="", expect=10, **environ)
    assert "1 of 8 tests failed: 1 has an unknown cause; 1 quarantined test" in done.stdout


@pytest.mark.parametrize("known", [True, False], ids=["seen", "not seen"])
def test_base_policy_is_read_by_api_without_a_checkout(tmp_path: Path, known: bool) -> None:
    """A commit that the API does not show has no policy that anybody knows, not none."""
    base = "b" * 40
    event = {
        "pull_request": {
            "number": 7,
            "base": {"ref": "main", "sha": base},
            "head": {"sha": "a" * 40},
        }
    }
    (tmp_path / "event.json").write_text(json.dumps(event))
    (tmp_path / "here").mkdir()
    with serving() as server:
        server.tokens["token"] = Login()
        if known:
            server.files["ciguard.toml", base] = b"[guard]\nmax_drop = 0.02\n"
            server.files["quarantine.toml", base] = quarantine("a.t::one").encode()
        environ = {
            **environment(tmp_path),
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": server.address,
            "GITHUB_REPOSITORY": "octo-org/shop",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "GITHUB_SHA": "c" * 40,
            "GITHUB_TOKEN": "token",
            "NO_PROXY": "*",
        }
        found = effective_policy(context_of(Invocation(environ, tmp_path / "here")), False, nothing)
    assert found.max_drop == (0.02 if known else 0.0)
    assert units(found) == (["a.t::one"] if known else [])
    assert ("policy_unread" in {one.kind for one in found.findings}) is not known
    if not known:
        assert "and by GitHub's API: answered 404" in finding_message(found.findings[-1])


@pytest.mark.parametrize("is_allowed", [True, False], ids=["by the base", "by the proposal"])
def test_run_without_an_executed_test_passes_only_as_the_base_says(
    policy_checkout: PolicyCheckout, ciguard: Ciguard, tmp_path: Path, is_allowed: bool
) -> None:
    texts = ['[guard]\nempty = "pass"\n', "[guard]\n"]
    base, change = ({"ciguard.toml": text} for text in (texts if is_allowed else texts[::-1]))
    job = policy_checkout.propose(base, {**change})
    world = World()
    for key, names in SHARDS.items():
        for name in names:
            world.result(key, name, outcome="skipped")
    plan, records = world.write(tmp_path)
    words = ("guard", "--plan", plan, "--records", records)
    given = job.environ(GITHUB_RUN_ID="7", GITHUB_RUN_ATTEMPT="1").items()
    in_job = {name: value for name, value in given if name.startswith("GITHUB_")}
    for environ, passes in ((in_job, is_allowed), ({}, not is_allowed)):  # {}: the folder decides
        done = ciguard(*words, cwd=job.folder, expect=0 if passes else 13, **environ)
        assert done.stdout.startswith(
            "PASSED, but NOTHING RAN: all 8 tests of 3 shards were skipped"
            if passes
            else "INCOMPLETE: NOTHING RAN: 8 tests, all skipped"
        )
        is_noted = "this pull request changes guard.empty" in done.stdout.replace("\n", " ")
        assert is_noted is bool(environ)


@pytest.mark.parametrize(
    ("base", "change", "named", "location"),
    [
        (STORE, {"ciguard.toml": STORE_OF_PROPOSAL}, None, "past.ciguard"),
        ("", {"ciguard.toml": STORE_OF_PROPOSAL}, None, "branch:ciguard-history"),
        ("[history", {"ciguard.toml": STORE_OF_PROPOSAL}, None, "ciguard.toml"),
        ("[history", {"ciguard.toml": STORE_OF_PROPOSAL}, "mine.ciguard", "mine.ciguard"),
        (STORE, {"past.ciguard": "x"}, None, "edits the history"),
        (STORE, {"mine.ciguard": "x"}, "mine.ciguard", "edits the history"),
        (STORE, {"past.ciguard": "x"}, "branch:past", "branch:past"),
    ],
)
def test_past_runs_of_a_proposal_are_where_its_base_says(
    base: str, change: dict[str, str | None], named: str | None, location: str, tmp_path: Path
) -> None:
    """Another place would choose the baseline, and would get the token of the history."""
    checkout = PolicyCheckout(tmp_path).propose({"ciguard.toml": base, "past.ciguard": ""}, change)
    past = past_runs_of(Invocation(checkout.environ(), checkout.folder), named)
    if location not in ("ciguard.toml", "edits the history"):
        assert past.location == location
    else:
        assert location in past.loaded.problem
        assert past.loaded.history is None
