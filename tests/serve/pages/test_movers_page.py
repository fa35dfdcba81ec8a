"""Tests that changed most between the first and last runs of the default branch."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from serve.pages.conftest import INSIDERS, client_of, opened_site
from serve.pages.filled import HOSTILE, make_run
from serve.pages.test_trends import SLOW, slow_run
from stored_results import compact_all, row

from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import repositories, run_rows


def test_movers_are_ranked_and_noise_is_left_out(tmp_path: Path) -> None:
    now_ms = round(time.time() * 1000)
    with opened_site(tmp_path, runs=0) as site:
        runs = [slow_run(number, now_ms) for number in range(1, 13)]
        runs.append(replace(make_run(SLOW, 60, now_ms), is_base_branch=False))
        with site.service.database.write() as connection:
            repositories.upsert(connection, [SLOW])
            for run in runs:
                run_rows.record_run(connection, run)
        for at, run in enumerate(runs):
            tests = [
                row(HOSTILE, wall_s=1.0 + 0.1 * at, peak_bytes=100),
                row("noisy", wall_s=5.0 + 4 * (at % 2), peak_bytes=100 + at % 2),
                row("faster", case="a", wall_s=3.0 if at < 6 else 1.0, peak_bytes=10),
                row("faster", case="b", wall_s=1.0, peak_bytes=1000 if at < 6 else 3000),
                row("red", "failed" if at > 6 else "passed", wall_s=1.0 + at),
            ]
            site.results.writer.write([RunResults(run.key, run.started_at_ms, tuple(tests))])
            if at == 5:
                compact_all(site.results)
        client = client_of(site, INSIDERS["local"])
        page = client.get("/octo-org/slow/movers.json").json()
        changes = [(test["unit"], test["before"], test["after"]) for test in page["tests"]]
        assert [(unit, round(a, 3), round(b, 3)) for unit, a, b in changes] == [
            *(("faster", 4.0, 2.0), (HOSTILE, 1.2, 1.9))
        ]
        assert (page["n"], page["before_sha"]) == (5, runs[4].head_sha)
        assert page["after_sha"] == runs[7].head_sha
        peaks = client.get("/octo-org/slow/movers.json?by=peak").json()["tests"]
        assert [(test["unit"], test["after"]) for test in peaks] == [("faster", 3000)]
        html = client.get("/octo-org/slow/movers").text
        assert f"/compare/{runs[4].head_sha}...{runs[7].head_sha}" in html
        assert "-50 %" in html
        assert "<script>alert" not in html
        assert "No test changed" in client.get("/octo-org/empty/movers").text
