"""`/metrics`: the text format, what it counts, and who may read it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx
import pytest
import yaml
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, workflow_run
from prometheus_client.parser import text_string_to_metric_families
from serve.state.test_run_rows import RUN

from ciguard import __version__
from ciguard.serve.application import build_application
from ciguard.serve.pages import page_routes
from ciguard.serve.service import Service
from ciguard.serve.state import pauses, repositories, run_rows, work_list
from ciguard.serve.state.pauses import Refusal
from ciguard.serve.state.repositories import Repository
from ciguard.serve.work import judge_job

SHOP = FakeRepository(id=1, full_name="octo-org/shop", private=True)
DEPLOY = Path(__file__).parents[2] / "deploy"
# Of the text format: prometheus.io/docs/instrumenting/exposition_formats.
SAMPLE: Final = re.compile(r'([a-z_]+(?:\{[a-z]+="[^"\\\n]*"\})?) (\S+)')


def test_numbers_of_the_service_are_counted(service: Service, client: httpx.Client) -> None:
    with service.database.write() as connection:
        row = Repository(SHOP.id, SHOP.full_name, SHOP.private, "main")
        repositories.upsert(connection, [row, replace(row, id=2)])
        repositories.set_reconciled(connection, SHOP.id)
        pauses.start(connection, 2, Refusal("answered 403", is_of_repository=True))
    first, second = workflow_run(SHOP, 7), workflow_run(SHOP, 8)
    for delivery in (first, second):
        client.post(PATH, content=delivery.body, headers=delivery.headers())
    with service.database.write() as connection:
        work = work_list.take(connection, "worker")
        assert work is not None
        run_rows.record_run(connection, replace(RUN, key=work.key, verdict="failed"))
        work_list.finish(connection, work)
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    # Without those of the process.
    own = re.compile("ciguard_(build|work|paused|recent|notices)")
    lines = [line for line in answer.text.splitlines() if own.search(line)]
    found = {match[1]: float(match[2]) for match in map(SAMPLE.fullmatch, lines) if match}
    assert len(lines) == len(found) + 2 * len({name.partition("{")[0] for name in found})
    assert lines[0].startswith("# HELP ciguard_build_info ")
    assert lines[1] == "# TYPE ciguard_build_info gauge"
    assert 0 <= found.pop("ciguard_work_oldest_due_seconds") < 60
    assert {name: value for name, value in found.items() if value} == {
        f'ciguard_build_info{{version="{__version__}"}}': 1,
        'ciguard_work_rows{state="waiting"}': 1,
        'ciguard_recent_verdicts{verdict="failed"}': 1,
        "ciguard_paused_repositories": 1,
    }
    assert "shop" not in answer.text
    ready = client.get("/readyz")
    assert (ready.status_code, ready.text.count("\n"), "shop" in ready.text) == (200, 3, False)


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


def test_dashboard_and_alerts_name_metrics_that_exist(client: httpx.Client) -> None:
    page_routes.PAGE_S.labels("run")
    judge_job.REMAINING_CALLS.labels("1")
    families = text_string_to_metric_families(client.get("/metrics").text)
    labels = {one.name: {*one.labels} for family in families for one in family.samples}
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    (group,) = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["annotations"].keys() == {"summary", "description"}
    queries = [(rule["expr"], str(rule["annotations"])) for rule in group["rules"]]
    for panel in dashboard["panels"]:
        queries += [(target["expr"], target["legendFormat"]) for target in panel["targets"]]
    names = set()
    for query, text in queries:
        found = set(re.findall(r"\b(?:ciguard|process)_\w+", query)) or {"up"}
        used = re.findall(r"(\w+)!?=\"|\bby \(([^)]*)\)", query)
        words = {word for pair in used for word in re.findall(r"\w+", " ".join(pair))}
        words |= set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text))
        known = {label for name in found - {"up"} for label in labels[name]}
        assert words - known <= {"job", "instance"}, query
        names |= found
    own = {re.sub("_(bucket|sum|count|created)$", "", name) for name in labels if "ciguard" in name}
    assert own == {re.sub("_(bucket|count)$", "", name) for name in names if "ciguard" in name}
