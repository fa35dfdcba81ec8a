"""Every row of `cases` through the real command, with the jobs at a server on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fakegithub.server import serving
from fakegithub.state import FakeGitHub, Login
from guard.cases.case import Case
from guard.cases.job_cases import DEATHS
from guard.cases.table import CASES
from guard.fake_jobs import FAILED, STEPS, TOKEN, environ_of, job, serve_job
from guard.fixtures import VERDICT_SCHEMA, World, make_plan
from guard.test_effective_policy import PolicyCheckout

from ciguard.config.invocation import Invocation
from ciguard.errors import ExitCode
from ciguard.github.retry import RetryPolicy
from ciguard.guard import log_patterns
from ciguard.guard.command import command
from ciguard.guard.verdict import Finding
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.model import ENDINGS, EndLine, UnitKey
from ciguard.model.jobs import Job
from ciguard.render.notes import Note
from ciguard.sources import inputs

EXIT = {"passed": ExitCode.OK, "failed": ExitCode.TESTS_FAILED, "incomplete": ExitCode.INCOMPLETE}
LATER = datetime.now(UTC).date() + timedelta(days=20)


@pytest.fixture
def server() -> Iterator[FakeGitHub]:
    with serving() as github:
        github.tokens[TOKEN] = Login()
        yield github


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What GitHub keeps one waiting for is tested elsewhere; a busy machine may take its time."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    is_slow = name in CASES and any(fault.delay_s for fault in CASES[name].faults)
    total_s, timeout_s = (1.0, 0.5) if is_slow else (30.0, 15.0)
    policy = RetryPolicy(attempts=2, total_s=total_s, first_s=0.01)
    monkeypatch.setattr(inputs, "RETRY_POLICY", policy)
    monkeypatch.setattr(inputs, "TIMEOUT_S", timeout_s)


def jobs_of(world: World, case: Case) -> list[Job]:
    """All jobs of the run, the others in it too."""
    taken = {(one.name, one.run_attempt) for one in case.jobs}
    taken |= {(f"tests ({shard})", 1) for shard in case.without}
    found = []
    for shard in world.plan.shards:
        leg = world.legs.get(shard.key)
        ends = [line for line in leg.own if isinstance(line, EndLine)] if leg else []
        bad = bool(ends and ends[-1].exit_code)
        ended = ("failure", FAILED) if bad else ("success", STEPS)
        found.append(job(shard.key, ended[0], steps=ended[1]))
    rest = [job("90", name="plan"), job("91", None, status="in_progress", name="ciguard")]
    stored = [one for one in found if (one.name, one.run_attempt) not in taken]
    return [*stored, *rest, *case.jobs]


@dataclass
class Answer:
    """What the command said, ended with, and asked."""

    code: int
    verdict: dict[str, Any]
    errors: list[str]
    outputs: str
    calls: list[str]

    @property
    def legs(self) -> dict[str, dict[str, Any]]:
        return {leg["shard"]: leg for leg in self.verdict["legs"]}

    def of(self, shard: str) -> dict[str, Any]:
        """What is said of a shard that makes the run incomplete; one finding."""
        found = [one for one in self.verdict["findings"] if one["shard"] == shard]
        last: dict[str, Any]
        (last,) = [one for one in found if one["level"] == "incomplete"]
        return last


def kinds(requested: list[str]) -> list[str]:
    """Calls by what they are for; the storage of a log is no call of the API."""
    words = {"jobs": "jobs", "annotations": "annotations", "logs": "log", "artifacts": "artifacts"}
    found = [re.search(r"/(\w+)$", one) for one in requested if "/storage/" not in one]
    return [words[one[1]] for one in found if one]


def proposed(case: Case, folder: Path) -> tuple[Path, dict[str, str]]:
    """The checkout of what is tested of a proposal, by the real git, and what its job has set."""
    change = {name: text.replace("UNTIL", f"{LATER}") for name, text in (case.change or {}).items()}
    checkout = PolicyCheckout(folder).propose(
        {"ciguard.toml": ""}, dict[str, str | None](change), 2
    )
    name, more = case.event
    if name == "merge_group":
        checkout.event = {"merge_group": {"base_sha": checkout.tip, "base_ref": "refs/heads/main"}}
    else:
        checkout.event["pull_request"]["head"].update(more)
    return checkout.folder, checkout.environ(GITHUB_EVENT_NAME=name or "pull_request")


def run_guard(
    case: Case, folder: Path, server: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> Answer:
    world = World(plan=make_plan(job_minutes=15))
    for damage in case.happens:
        damage(world)
    plan, records = world.write(folder)
    for path, content in case.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    jobs = jobs_of(world, case)
    loud = [one for one in jobs if one.name == f"tests ({case.shard})"]
    everybody = case.expected_texts if len(case.jobs) > 2 else ()
    for one in jobs:
        newest = bool(loud) and one is loud[-1]
        serve_job(
            server, one, case.expected_texts if newest else everybody, case.log if newest else None
        )
    server.faults += [replace(fault) for fault in case.faults]  # each counts down
    environ = {**environ_of(folder, server), "GITHUB_RUN_ATTEMPT": str(case.attempt)}
    (folder / "event.json").write_text("{}")
    place = folder
    if case.change is not None:
        place, more = proposed(case, folder)
        environ |= more
    last = {one.name: one.conclusion for one in jobs}
    legs = case.legs or ("failure" if "failure" in last.values() else "success")
    needs = {"plan": {"result": "success"}, "legs": {"result": legs}}
    given = case.words or ("--records", str(records))
    words = [
        "--plan",
        str(plan),
        *given,
        "--needs",
        json.dumps(needs),
        "--format",
        "json",
        "--github",
    ]
    code = command.main(args=words, standalone_mode=False, obj=Invocation(environ, place))
    output = capsys.readouterr()
    assert TOKEN not in output.out + output.err
    return Answer(
        code,
        json.loads(output.out),
        [line for line in output.err.splitlines() if line.startswith("::error")],
        (folder / "outputs").read_text(),
        kinds(server.request_log()),
    )


def finding_of(written: dict[str, Any]) -> Finding:
    """A finding as the command wrote it: kind and facts are enough for its words."""
    cause = written["cause"] and Note(**written["cause"])
    shard = written["shard"] or ""
    units = tuple(UnitKey(**one) for one in written["units"])
    return Finding(
        written["kind"], shard, units, written["facts"], cause, stated_level=written["level"]
    )


@pytest.mark.parametrize("name", CASES)
def test_guard_gives_the_expected_verdict(
    name: str, tmp_path: Path, server: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    answer = run_guard(case, tmp_path, server, capsys)
    verdict = answer.verdict
    assert (verdict["verdict"], answer.code) == (case.verdict, EXIT[case.verdict]), verdict
    VERDICT_SCHEMA.validate(verdict)
    assert verdict["headline"].startswith(f"{case.verdict.upper()}: ")
    if answer.legs:
        assert answer.legs[case.shard]["ending"] == case.ending
    reported = [
        finding_message(finding_of(one))
        for one in verdict["findings"]
        if one["shard"] in (case.shard, None)
    ]
    assert case.expected_headline in " / ".join([verdict["headline"], *reported])
    if case.shows:
        seen = answer.of(case.shard)["evidence"][0]
        assert case.shows in note_text(Note(seen["kind"], seen["facts"]))
    if case.calls is not None:
        assert answer.calls == ["jobs", *case.calls]
    dead = [leg for leg in answer.legs.values() if leg["ending"] != "completed"]
    pages = -(-len(answer.legs) // 100)
    assert len(answer.calls) <= 5 + pages + 2 * len(dead)
    # What GitHub is told is what the caller is told.
    assert f"verdict<<ciguard_end\n{case.verdict}\n" in answer.outputs
    assert bool(answer.errors) == (case.verdict != "passed")
    assert len(answer.errors) <= 10
    for finding in verdict["findings"]:
        decisive = finding["level"] != "warning"
        has_cause = finding["kind"] == "no_record_of_plan"
        assert finding_fix(finding_of(finding)) or has_cause or not decisive, finding
        assert decisive <= (case.verdict != "passed")
    if name in DEATHS:
        last = {"suite": "", "variant": "", "unit": "d.t::eight"}
        assert last in answer.of("03")["units"], "what did not run"
        assert answer.of("03")["culprits"] == [last] * answer.legs["03"]["recorded"]


def test_cases_cover_every_ending_reported_by_the_platform() -> None:
    reported = {case.ending for case in DEATHS.values()}
    own = {"completed", "crash", "deadline", "memory_guard"}  # a leg's own words
    assert reported == set(ENDINGS) - own
    assert {pattern.ending for pattern in log_patterns.PATTERNS} <= reported
