"""`/metrics`: metrics of the service in the text format of Prometheus.

The gauges come from the database, so that every web process reports the same ones; histograms are
of the process. No value names a repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ciguard import __version__
from ciguard.render.pages import VERDICTS
from ciguard.serve.pages.page_routes import no_page_endpoint
from ciguard.serve.pages.viewers import FORWARDED, is_from
from ciguard.serve.request_threads import answer_in
from ciguard.serve.service import Service
from ciguard.serve.state import pauses, repositories, schema, work_list
from ciguard.serve.state.database import after_ms
from ciguard.serve.state.run_key import is_same_run
from ciguard.serve.state.work_list import WorkState

PATH: Final = "/metrics"
RECENT_S: Final = 3600.0
_WORK: Final = schema.work.c
_RUN: Final = schema.run.c


async def metrics(request: Request) -> Response:
    """Answer addresses of `--metrics-from` with the metrics, others with 404.

    Requests through a proxy are refused: the address would be that of the proxy.
    """
    service: Service = request.app.state.service
    is_passed_on = any(name in request.headers for name in FORWARDED)
    if is_passed_on or not is_from(request, service.settings.metrics_from):
        return await no_page_endpoint(request)
    of_database = await answer_in(request, "pages", generate_latest, _DatabaseMetrics(service))
    return Response(of_database + generate_latest(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@dataclass(frozen=True, slots=True)
class _DatabaseMetrics(Collector):
    """The metrics that all processes report alike."""

    service: Service

    def collect(self) -> Iterator[Metric]:
        yield _gauge("build_info", "Version of ciguard.", {__version__: 1}, "version")
        with self.service.database.read() as connection:
            yield from _of_work(connection)
            yield _recent_verdicts(connection)


def _of_work(connection: Connection) -> Iterator[Metric]:
    counts, oldest_s = work_list.backlog(connection)
    rows = {state.value: count for state, count in counts.items()}
    text = "Run attempts on the work list; a dead one waits for somebody to try it again."
    yield _gauge("work_rows", text, rows, "state")
    text = "For how long the first run attempt that is due has waited."
    yield _gauge("work_oldest_due_seconds", text, {"": oldest_s})
    paused = sum(
        pause.repositories for pause in pauses.current(connection, repositories.ARE_ACTIVE)
    )
    text = "Repositories whose requests GitHub refuses; their run attempts wait."
    yield _gauge("paused_repositories", text, {"": paused})


def _recent_verdicts(connection: Connection) -> Metric:
    """Count the verdicts of the last hour; an index selects these rows."""
    is_recent = sa.and_(
        _WORK.state == WorkState.DONE,
        _WORK.due_at_ms >= sa.select(after_ms(-RECENT_S)).scalar_subquery(),
    )
    query = (
        sa.select(_RUN.verdict, sa.func.count())
        .select_from(schema.work.join(schema.run, is_same_run(schema.work, schema.run)))
        .where(is_recent)
        .group_by(_RUN.verdict)
    )
    counts = {verdict: count for verdict, count in connection.execute(query)}  # noqa: C416
    text = "Run attempts that became due in the last hour and have a verdict."
    return _gauge("recent_verdicts", text, dict.fromkeys(VERDICTS, 0) | counts, "verdict")


def _gauge(name: str, text: str, values: Mapping[str, float], *labels: str) -> Metric:
    gauge = GaugeMetricFamily(f"ciguard_{name}", text, labels=labels)
    for label, value in values.items():
        gauge.add_metric([label] if labels else [], value)
    return gauge


ROUTES: Final = (Route(PATH, metrics),)
