"""`/metrics`: the text format, what it counts, and who may read it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, workflow_run
from serve.state.test_run_rows import RUN

from ciguard import __version__
from ciguard.serve.application import build_application
from ciguard.serve.operation_metrics import Metric, encode
from ciguard.serve.state import repositories, run_rows, work_list
from ciguard.serve.state.repositories import Repository

if TYPE_CHECKING:
    from ciguard.serve.service import Service

SHOP = FakeRepository(id=1, full_name="octo-org/shop", private=True)
# Of the text format: prometheus.io/docs/instrumenting/exposition_formats.
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME}(?:\{{{LABEL}(?:,{LABEL})*\}})?) (\S+)")


def parse(text: str) -> dict[str, float]:
    """Samples by name and labels; every line is one, or says what the next ones are."""
    assert text.endswith("\n")
    samples: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert word in ("HELP", "TYPE")
            assert re.fullmatch(NAME, name)
            if word == "TYPE":
                assert name not in kinds
                kinds[name] = rest
            continue
        found = SAMPLE.fullmatch(line)
        assert found, line
        name = found[1].partition("{")[0]
        assert (kinds[name] == "counter") == name.endswith("_total")
        assert found[1] not in samples
        samples[found[1]] = float(found[2])
    return samples


def test_numbers_of_the_service_are_counted(service: Service, client: httpx.Client) -> None:
    with service.database.write() as connection:
        row = Repository(SHOP.id, SHOP.full_name, SHOP.private, "main")
        repositories.upsert(connection, [row])
    first, second = workflow_run(SHOP, 7), workflow_run(SHOP, 8)
    for delivery in (first, first, second):
        client.post(PATH, content=delivery.body, headers=delivery.headers())
    client.post(PATH, content=b"{}", headers={"X-GitHub-Event": 'made"up'})
    with service.database.write() as connection:
        work = work_list.take(connection, "worker")
        assert work is not None
        run_rows.record_run(connection, replace(RUN, key=work.key, verdict="failed"))
        work_list.finish(connection, work)
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parse(answer.text)
    times = {name: found.pop(name) for name in list(found) if "_seconds" in name}
    assert set(times) == {
        "ciguard_work_oldest_due_seconds",
        "ciguard_recent_verdict_delay_mean_seconds",
        "ciguard_recent_verdict_delay_longest_seconds",
    }
    assert all(0 <= value < 60 for value in times.values())
    assert {name: value for name, value in found.items() if value} == {
        f'ciguard_build_info{{version="{__version__}"}}': 1,
        'ciguard_http_requests_total{status="2xx"}': 3,
        'ciguard_http_requests_total{status="4xx"}': 1,
        'ciguard_webhook_deliveries_total{event="workflow_run",status="2xx"}': 3,
        'ciguard_webhook_deliveries_total{event="other",status="4xx"}': 1,
        'ciguard_work_rows{state="waiting"}': 1,
        'ciguard_recent_verdicts{verdict="failed"}': 1,
        'ciguard_repositories{state="active"}': 1,
    }
    assert "shop" not in answer.text


def test_values_of_labels_are_escaped() -> None:
    text = encode([Metric("m", "Text.", (({"a": 'x"\\\n'}, 1.5),))])
    assert parse(text) == {r'm{a="x\"\\\n"}': 1.5}


@pytest.mark.parametrize(
    ("peer", "networks", "headers", "status"),
    [
        ("127.0.0.1", ("127.0.0.0/8",), {}, 200),
        ("10.1.2.3", ("127.0.0.0/8",), {}, 404),
        ("10.1.2.3", ("10.1.0.0/16",), {}, 200),
        ("127.0.0.1", ("127.0.0.0/8",), {"X-Forwarded-For": "1.2.3.4"}, 404),
    ],
)
def test_metrics_are_for_named_addresses(
    service: Service, peer: str, networks: tuple[str, ...], headers: dict[str, str], status: int
) -> None:
    known = replace(service, settings=replace(service.settings, metrics_from=networks))
    transport = httpx.ASGITransport(build_application(known), client=(peer, 1))

    async def get(path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    answer = asyncio.run(get("/metrics"))
    assert answer.status_code == status
    if status == 404:
        assert answer.text == asyncio.run(get("/metrixx")).text
