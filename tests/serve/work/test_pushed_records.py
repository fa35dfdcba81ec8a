"""A report job pushes its records, and the service judges the run without downloading them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from conftest import Ciguard
from serve.api.oidc_issuer import claims, signed
from serve.fake_runs import REPOSITORY, failing_world
from serve.report_job import DOWNLOAD, RUN, ReportJob, report_job, world_of
from serve.work.judging import stored_verdict

from ciguard.codec.archive import pack
from ciguard.codec.unpack_limits import PUSH_BYTES
from ciguard.history import service_credentials, service_store
from ciguard.serve import raw_archives
from ciguard.serve.api import oidc
from ciguard.serve.api.routes import RECORDS_PATH
from ciguard.serve.state import tokens
from ciguard.serve.state.run_key import RunKey


@pytest.fixture(autouse=True)
def patience_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job waits for seconds, which a machine that runs all tests at once may need."""
    monkeypatch.setattr(service_store, "ANSWER_S", 30.0)
    monkeypatch.setattr(service_credentials, "REQUEST_S", 30.0)
    monkeypatch.setattr(oidc, "FETCH_S", 30.0)


def stored_names(job: ReportJob) -> list[str]:
    with job.service.database.read() as connection:
        return [row.name for row in raw_archives.of_run(connection, RUN)]


def test_pushed_records_are_not_downloaded(tmp_path: Path, ciguard: Ciguard) -> None:
    world = failing_world()
    with report_job(tmp_path / "first", world) as job:
        row, calls = job.judge()
        verdict = stored_verdict(job.service, row)
        assert calls[DOWNLOAD] == 1 + len(world.legs)
    with report_job(tmp_path / "second", world) as job:
        assert "warning: the service" not in job.report(ciguard, expect=10)
        assert stored_names(job) == [raw_archives.PUSHED]
        pushed, fewer = job.judge()
        assert stored_verdict(job.service, pushed) == verdict
        del calls[DOWNLOAD]
        assert fewer == calls
        # A run that is judged again, as by `check --repair`, is judged from GitHub's artifacts.
        assert job.judge()[1][DOWNLOAD] == 1 + len(world.legs)
        with job.service.database.write() as connection:
            rows = raw_archives.of_run(connection, RUN)
            names = [one.object for one in rows if one.name != raw_archives.PUSHED]
            raw_archives.delete(connection, names)
        for facts in job.github.facts.values():
            facts["expired"] = True
        row, expired = job.judge()
        assert (row.verdict, row.planned, expired[DOWNLOAD]) == ("failed", 8, 0)


def test_what_was_not_pushed_is_downloaded(tmp_path: Path, ciguard: Ciguard) -> None:
    with report_job(tmp_path / "partial", world_of(3, 2)) as job:
        job.report(ciguard, without="-03-1", expect=13)
        row, calls = job.judge()
        assert (row.verdict, calls[DOWNLOAD]) == ("passed", 1)
    with report_job(tmp_path / "damaged", world_of(3, 2)) as job:
        job.report(ciguard)
        (stored,) = (tmp_path / "damaged/results/artifacts").rglob("*.zip")
        stored.write_bytes(b"PK")
        row, calls = job.judge()
        assert (row.verdict, calls[DOWNLOAD]) == ("passed", 4)
    with report_job(tmp_path / "late", world_of(1, 2)) as job:
        job.judge()
        names = stored_names(job)
        assert "warning: the service" not in job.report(ciguard)
        assert (stored_names(job), job.judge()[1][DOWNLOAD]) == (names, 2)


def test_who_may_push_and_what(tmp_path: Path, ciguard: Ciguard) -> None:
    bombs = (b"1", b"2", bytes(200 << 20))
    content, other, bomb = (pack({"ciguard-plan-7-1": pack({"plan.json": it})}) for it in bombs)
    with report_job(tmp_path, world_of(1, 2)) as job:
        with job.service.database.write() as connection:
            secret = tokens.create(connection, RUN.repository_id).secret
        owner, name = REPOSITORY.split("/")

        def push(body: bytes = content, *, of: int = 7, token: str = "", **job_of: str) -> int:
            path = RECORDS_PATH.format(owner=owner, name=name, run_id=of, run_attempt=1)
            own = claims(job.issuer, job.address, **{"repository_id": "1", **job_of})
            headers = {"Authorization": f"Bearer {token or signed(own)}"}
            return httpx.put(job.address + path, content=body, headers=headers).status_code

        assert push(run_id="8") == push(run_attempt="2") == push(of=8) == 401
        assert push(token=secret) == push(token="no.token.x") == 401
        assert push(repository_id="14") == 404
        assert push(b"no zip") == push(bomb) == push(pack({"ciguard-record-x-1": b"PK"})) == 400
        assert push(bytes(PUSH_BYTES + 1)) == 413
        for given, words in ((secret, "no history"), ("", "or the job may not"), ("x", "refuses")):
            errors = job.report(
                ciguard, ACTIONS_ID_TOKEN_REQUEST_URL="", CIGUARD_HISTORY_TOKEN=given
            )
            assert words in errors
        assert stored_names(job) == []
        assert [push(), push()] == [204, 204]
        assert "another job of the run attempt has pushed other records" in job.report(ciguard)
        assert [push(), push(other)] == [409, 409]
        stored = (tmp_path / "results/artifacts").rglob("*.zip")
        assert [path.read_bytes() for path in stored] == [b""]
        row, calls = job.judge()  # not from what was forged
        assert (row.verdict, row.planned, calls[DOWNLOAD]) == ("passed", 2, 2)
        late = (job.service, RunKey(1, 9, 1), raw_archives.PUSHED)  # two push at once
        assert [raw_archives.store(*late, body) for body in (content, other)] == [True, False]
