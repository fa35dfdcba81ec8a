"""Plan and records of a run, downloaded from a GitHub that can be wrong in each way."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from codec.hostile_zips import HOSTILE
from fakegithub.actions import add_artifact, zipped
from fakegithub.server import serving
from fakegithub.state import TOKEN, FakeGitHub, Fault, Login
from guard.fixtures import make_plan
from pydantic import SecretStr

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.lines import encode
from ciguard.errors import InputError
from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.retry import RetryPolicy
from ciguard.logs.pattern_table import PATTERNS
from ciguard.logs.process_logs import ProcessLogs
from ciguard.model import EndLine, Plan, Result, ShardLine
from ciguard.sources import artifacts
from ciguard.sources.artifacts import RunArtifacts, attempt_of
from ciguard.sources.local import ReadInputs

REPOSITORY = "octo-org/shop"
MIB = 1 << 20


def record(shard: str, attempt: int = 1, padding: int = 0) -> Mapping[str, bytes]:
    """A leg's files; padding makes them larger than a socket's buffer."""
    header = ShardLine("9f2c", shard, run_id=7, run_attempt=attempt)
    result = Result(f"{shard}.py::t", "passed", case=f"{shard}.py::t", process=1)
    noise = random.Random(shard).randbytes(padding)
    return {
        "supervisor.jsonl": b"".join(encode(one) for one in (header, result, EndLine("completed"))),
        "results/process-001/noise.xml": noise,
        "core.dump": b"not asked for",
    }


def name_of(shard: str, attempt: int = 1) -> str:
    return f"ciguard-record-9f2c-{shard}-{attempt}"


def shards(found: ReadInputs) -> list[tuple[str, int | None]]:
    return [
        (one.header.shard, one.header.run_attempt)
        for one in found.records
        if one.header is not None
    ]


def read(github: GitHub, attempt: int | None = None) -> ReadInputs:
    return RunArtifacts(github, REPOSITORY, 7, attempt).records()


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        ("ciguard-record-9f2c-03-1", 1),
        ("ciguard-record-03-12", 12),
        ("ciguard-record-9f2c-03-2-checkpoint-07", 2),
        ("ciguard-record-9f2c-03-", None),
        ("ciguard-record-03-1x", None),
        ("-" * 10_000, None),
    ],
)
def test_attempt_is_parsed_from_the_artifact_name(name: str, attempt: int | None) -> None:
    assert attempt_of(name) == attempt


def test_only_record_artifacts_of_a_run_are_downloaded(server: FakeGitHub, github: GitHub) -> None:
    for shard in ("01", "02", "03"):
        add_artifact(server, name_of(shard), record(shard))
    add_artifact(server, "ciguard-plan-9f2c-1", {"plan.json": b"{}"})
    add_artifact(server, "screenshots", b"never asked for")
    found = read(github)
    assert shards(found) == [("01", 1), ("02", 1), ("03", 1)]
    assert (found.problems, found.missing) == ((), "")
    assert [one.outcome for leg in found.records for one in leg.results] == ["passed"] * 3
    assert found.records[0].source == "ciguard-record-9f2c-01-1/supervisor.jsonl"
    requested = [one for one in server.request_log() if "storage" not in one]
    assert len(requested) == 4  # one list, one for each record


def test_logs_of_processes_are_read_where_they_are_asked_for(
    server: FakeGitHub, github: GitHub
) -> None:
    for shard, gib in (("01", 3), ("02", 4)):
        printed = "Can't reduce memory use below 2GiB (2147483650 bytes) by rematerialization; "
        printed = f"hlo_rematerialization.cc:1] {printed}only reduced to 3GiB ({gib << 30} bytes), "
        log = f"{printed}down from 4GiB (4831838211 bytes) originally\n".encode()
        add_artifact(server, name_of(shard), {**record(shard), "process-001.log": log})
    assert [one.metrics for one in read(github).records] == [(), ()]
    found = RunArtifacts(github, REPOSITORY, 7).records(ProcessLogs(PATTERNS))
    assert [one.metrics[0].value for one in found.records] == [3 << 30, 4 << 30]
    assert found.problems == ()


def test_token_is_sent_only_to_the_api(server: FakeGitHub, github: GitHub) -> None:
    add_artifact(server, name_of("01"), record("01"))
    assert len(read(github).records) == 1
    for one in server.exchanges:
        reported = one.request.headers.get("authorization")
        assert reported == (None if "storage" in one.request.path else f"Bearer {TOKEN}")
        assert TOKEN not in str(one.request.query)


def test_enterprise_server_may_serve_artifacts_itself() -> None:
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        # Generation 3 has no digest, and its size is that of the files.
        add_artifact(server, name_of("01"), record("01"), digest=None, size_in_bytes=3)
        place = f"{server.address}/storage/zip/1"
        server.faults.append(Fault(path="/1/zip", status=302, headers={"Location": place}))
        with GitHub(server.address, SecretStr(TOKEN)) as github:
            assert shards(read(github)) == [("01", 1)]
        assert "authorization" not in server.exchanges[-1].request.headers


def test_a_chain_of_redirects_is_followed_without_the_token(
    server: FakeGitHub, github: GitHub
) -> None:
    add_artifact(server, name_of("01"), record("01"))
    with serving() as other_shard:
        add_artifact(other_shard, name_of("01"), record("01"))
        there = f"{other_shard.address}/storage/zip/1"
        server.faults.append(Fault(path="/storage", status=307, headers={"Location": there}))
        assert shards(read(github)) == [("01", 1)]
        assert "authorization" not in other_shard.exchanges[0].request.headers


def test_records_of_an_earlier_attempt_exclude_later_ones(
    server: FakeGitHub, github: GitHub
) -> None:
    for shard, attempt in (("01", 1), ("02", 1), ("02", 2), ("02", 3)):
        add_artifact(server, name_of(shard, attempt), record(shard, attempt))
    add_artifact(server, f"{name_of('02', 3)}-checkpoint-01", record("02", 3))
    assert shards(read(github, 2)) == [("01", 1), ("02", 1), ("02", 2)]
    assert shards(read(github)) == [("01", 1), ("02", 1), ("02", 2), ("02", 3)]


def test_artifacts_with_the_same_name_are_both_read(server: FakeGitHub, github: GitHub) -> None:
    add_artifact(server, name_of("01"), record("01"))
    add_artifact(server, name_of("01"), record("02"))
    found = read(github)
    assert shards(found) == [("01", 1), ("02", 1)]
    assert found.records[1].source == "ciguard-record-9f2c-01-1.2/supervisor.jsonl"


def test_more_than_a_page_of_artifacts(server: FakeGitHub, github: GitHub) -> None:
    server.artifacts += [f"screenshot {number}" for number in range(100)]
    add_artifact(server, name_of("01"), record("01"))
    assert shards(read(github)) == [("01", 1)]


def test_hostile_artifacts_do_not_hide_others(server: FakeGitHub, github: GitHub) -> None:
    for number, (content, _) in enumerate(HOSTILE.values(), 10):
        add_artifact(server, name_of(str(number)), content)
    add_artifact(server, name_of("01"), record("01"))
    found = read(github)
    assert shards(found) == [("01", 1)]
    assert len(found.problems) == len(HOSTILE)
    for number, (problem, output) in enumerate(
        zip(found.problems, (output for _, output in HOSTILE.values()), strict=True), 10
    ):
        assert problem.startswith(name_of(str(number)))
        assert output in problem


@pytest.mark.parametrize(
    ("fault", "facts", "output"),
    [
        (None, {"expired": True}, "it has expired"),
        (Fault(path="/1/zip", status=410, message="Artifact has expired"), {}, "it has expired"),
        (Fault(path="/1/zip", status=404, message="Not Found"), {}, "answered 404: Not Found"),
        (Fault(path="zip/1", status=404, text="<Error/>"), {}, "answered 404: Not Found"),
        (Fault(path="zip/1", status=410, text="<Error/>"), {}, "it has expired"),
        (Fault(path="zip/1", status=403, text="<Error/>", times=9), {}, "answered 403: Forbidden"),
        (Fault(path="/1/zip", status=204), {}, "expected a redirection to the storage"),
        (None, {"digest": f"sha256:{0:064}"}, "(other digest)"),
    ],
)
def test_failed_download_does_not_hide_other_artifacts(
    server: FakeGitHub,
    github: GitHub,
    fault: Fault | None,
    facts: Mapping[str, object],
    output: str,
) -> None:
    add_artifact(server, name_of("01"), record("01"), **facts)
    add_artifact(server, name_of("02"), record("02"))
    server.faults += [fault] if fault else []
    found = read(github)
    assert shards(found) == [("02", 1)]
    (problem,) = found.problems
    assert problem.startswith("ciguard-record-9f2c-01-1: ")
    assert output in problem
    assert "sig=secret" not in problem


def test_download_refused_with_403_is_not_repeated_for_all(
    server: FakeGitHub, github: GitHub
) -> None:
    for number in range(30):
        add_artifact(server, name_of(f"{number:02}"), record(f"{number:02}"))
    server.faults.append(Fault(path="/zip", status=403, message="Forbidden", times=99))
    found = read(github)
    assert (len(found.problems), found.records) == (30, ())
    assert all("answered 403" in one for one in found.problems)
    assert len(server.request_log()) <= 5  # the list, and those that were on their way


def test_failed_artifact_list_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    server.faults.append(Fault(status=500, times=9))
    with pytest.raises(GitHubError, match="500"):
        read(github)


def test_rate_limit_during_downloads_is_waited_for(
    server: FakeGitHub, github: GitHub, waits: list[float]
) -> None:
    for shard in ("01", "02", "03"):
        add_artifact(server, name_of(shard), record(shard))
    limit = Fault(path="/zip", status=429, message="rate limit", headers={"Retry-After": "7"})
    server.faults.append(limit)
    assert len(read(github).records) == 3
    assert waits == [7.0]


def archive_requests(server: FakeGitHub) -> int:
    """How often the first archive was asked for."""
    return [one.request.path for one in server.exchanges].count("/storage/zip/1")


def test_truncated_download_is_restarted(server: FakeGitHub, github: GitHub) -> None:
    add_artifact(server, name_of("01"), zipped(record("01", padding=2 * MIB)))
    server.faults.append(Fault(path="/storage", status=200, cut_bytes=30_000, times=2))
    assert shards(read(github)) == [("01", 1)]
    assert archive_requests(server) == 3
    places = [one for one in server.request_log() if one.endswith("/artifacts/1/zip")]
    assert len(places) == 3  # an address lives a minute


def test_storage_that_always_truncates_is_abandoned(server: FakeGitHub, github: GitHub) -> None:
    add_artifact(server, name_of("01"), zipped(record("01", padding=MIB)))
    server.faults.append(Fault(path="/storage", status=200, cut_bytes=10, times=99))
    (problem,) = read(github).problems
    assert "no answer: RemoteProtocolError" in problem
    assert archive_requests(server) == 4


def test_hanging_storage_is_abandoned(server: FakeGitHub) -> None:
    add_artifact(server, name_of("01"), record("01"))
    server.faults.append(Fault(path="/storage", status=200, delay_s=60.0, times=9))
    retry_policy = RetryPolicy(attempts=2, first_s=0.0, fetch_s=0.1)
    with GitHub(server.address, SecretStr(TOKEN), retry_policy=retry_policy) as github:
        (problem,) = read(github).problems
    assert "not complete after 0.1 s" in problem


def test_archive_size_is_limited(
    server: FakeGitHub, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MAX_ARCHIVE_BYTES", MIB // 2)
    add_artifact(server, name_of("01"), zipped(record("01", padding=MIB)))
    add_artifact(server, name_of("02"), record("02"))
    found = read(github)
    assert shards(found) == [("02", 1)]
    assert found.problems == ("ciguard-record-9f2c-01-1: larger than 0 MiB",)


def test_total_archive_size_is_limited(
    server: FakeGitHub, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MAX_BYTES", MIB // 2)
    add_artifact(server, name_of("01"), zipped(record("01", padding=MIB)))
    (problem,) = read(github).problems
    assert "more than all downloads of a run together" in problem


def plan_file(plan: Plan) -> dict[str, bytes]:
    return {"plan.json": plan_codec.encode(plan), "ciguard-run.pyz": b"PK"}


def plan_of(github: GitHub, attempt: int | None = None) -> Plan:
    return RunArtifacts(github, REPOSITORY, 7, attempt).plan()


def test_plan_is_that_of_the_newest_attempt(server: FakeGitHub, github: GitHub) -> None:
    first, second = make_plan(), make_plan({"01": ("a", "b")})
    add_artifact(server, f"ciguard-plan-{first.id}-1", plan_file(first))
    add_artifact(server, f"ciguard-plan-{second.id}-3", plan_file(second))
    assert plan_of(github, 2) == first
    assert plan_of(github) == second


def test_the_artifacts_of_a_run_are_listed_once(server: FakeGitHub, github: GitHub) -> None:
    plan = make_plan()
    add_artifact(server, f"ciguard-plan-{plan.id}-1", plan_file(plan))
    add_artifact(server, name_of("01"), record("01"))
    found = RunArtifacts(github, REPOSITORY, 7)
    assert found.plan() == plan
    assert len(found.records().records) == 1
    assert [one.rpartition("/")[2] for one in server.request_log()].count("artifacts") == 1


@pytest.mark.parametrize(
    ("artifacts_", "error", "output"),
    [
        ({}, InputError, "no plan among its artifacts"),
        ({"ciguard-plan-a-1": {}, "ciguard-plan-b-1": {}}, InputError, "2 plans"),
        ({"ciguard-plan-a-1": {"other.json": b"{}"}}, InputError, "no plan.json in it"),
        ({"ciguard-plan-a-1": {"plan.json": b"[" * 100_000}}, InputError, "no JSON"),
        ({"ciguard-plan-a-1": b"no zip"}, InputError, "damaged zip"),
    ],
)
def test_missing_or_invalid_plan_artifact_is_an_error(
    server: FakeGitHub,
    github: GitHub,
    artifacts_: Mapping[str, Mapping[str, bytes]],
    error: type[Exception],
    output: str,
) -> None:
    for name, content in artifacts_.items():
        add_artifact(server, name, content)
    with pytest.raises(error, match=output):
        plan_of(github)


def test_expired_plan_artifact_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    add_artifact(server, "ciguard-plan-a-1", {"plan.json": b"{}"}, expired=True)
    with pytest.raises(GitHubError, match="ciguard-plan-a-1: it has expired") as reported:
        plan_of(github)
    assert "--plan FILE" in reported.value.fix
