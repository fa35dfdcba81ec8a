"""`/metrics`: metrics of the service in the text format of Prometheus.

This process counts requests and deliveries since its start. All other values come from the
database, so that every web process reports the same values. No value names a repository.
Source: prometheus.io, "Exposition formats", text format 0.0.4, and "Metric and label naming".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route

from ciguard import __version__
from ciguard.serve.pages.page_routes import no_page_endpoint
from ciguard.serve.pages.viewers import FORWARDED, is_from
from ciguard.serve.state import schema, work_list
from ciguard.serve.state.database import after_ms
from ciguard.serve.state.run_key import is_same_run
from ciguard.serve.state.run_rows import VERDICTS
from ciguard.serve.state.work_list import WorkState
from ciguard.serve.webhooks import intake
from ciguard.serve.webhooks.effects import HANDLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy.engine import Connection
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ciguard.serve.service import Service

    Sample = tuple[Mapping[str, str], float]

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
RECENT_S: Final = 3600.0
_WORK: Final = schema.work.c
_RUN: Final = schema.run.c
OTHER: Final = "other"  # label of all other events, which any sender can make up


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its samples (labels and a value); left out if it has none.

    A counter has a name that ends with `_total`; all others are gauges.
    """

    name: str
    text: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Counts of this process, changed only in its event loop and so without a lock.

    Attributes:
        statuses: answers by class of status, such as "2xx".
        deliveries: answers to webhooks, by event and class of status.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[tuple[str, str]] = field(default_factory=Counter)


class CountRequests:
    """Middleware that counts each answer when it begins."""

    def __init__(self, app: ASGIApp, *, counts: RequestCounts) -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = f"{message['status'] // 100}xx"
                self._counts.statuses[status] += 1
                if scope["path"] == intake.PATH:
                    event = Headers(scope=scope).get("x-github-event", "")
                    self._counts.deliveries[event if event in HANDLED else OTHER, status] += 1
            await send(message)

        await self._app(scope, receive, send_and_count)


async def metrics(request: Request) -> Response:
    """Answer addresses of `--metrics-from` with the metrics, others with 404.

    Requests through a proxy are refused: the address would be that of the proxy.
    """
    service: Service = request.app.state.service
    is_passed_on = any(name in request.headers for name in FORWARDED)
    if is_passed_on or not is_from(request, service.settings.metrics_from):
        return await no_page_endpoint(request)
    counts: RequestCounts = request.app.state.request_counts
    listed = [*_of_process(counts), *await run_in_threadpool(_of_service, service)]
    return Response(encode(listed), media_type=CONTENT_TYPE)


def encode(listed: Iterable[Metric]) -> str:
    """Encode metrics in the text format."""
    lines = []
    for metric in listed:
        if metric.samples:
            lines.append(f"# HELP {metric.name} {metric.text}")
            kind = "counter" if metric.name.endswith("_total") else "gauge"
            lines.append(f"# TYPE {metric.name} {kind}")
        for labels, value in metric.samples:
            pairs = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{pairs}}} {value}" if pairs else f"{metric.name} {value}")
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _of_process(counts: RequestCounts) -> Iterator[Metric]:
    yield Metric("ciguard_build_info", "Version of ciguard.", (({"version": __version__}, 1),))
    yield Metric(
        "ciguard_http_requests_total",
        "Answers of this process.",
        tuple(({"status": status}, count) for status, count in sorted(counts.statuses.items())),
    )
    yield Metric(
        "ciguard_webhook_deliveries_total",
        "Answers of this process to deliveries of GitHub.",
        tuple(
            ({"event": event, "status": status}, count)
            for (event, status), count in sorted(counts.deliveries.items())
        ),
    )


def _of_service(service: Service) -> list[Metric]:
    with service.database.read() as connection:
        return [
            *_of_work(connection),
            *_of_recent_runs(connection),
            _of_repositories(connection),
        ]


def _of_work(connection: Connection) -> Iterator[Metric]:
    backlog = work_list.backlog(connection)
    rows = {state.value: count for state, count in backlog.rows.items()}
    text = "Run attempts on the work list; a dead one waits for somebody to try it again."
    yield Metric("ciguard_work_rows", text, _by("state", rows))
    text = "For how long the first run attempt that is due has waited."
    yield Metric("ciguard_work_oldest_due_seconds", text, (({}, backlog.oldest_s),))


def _of_recent_runs(connection: Connection) -> Iterator[Metric]:
    """Yield verdicts and delays of the last hour; an index selects these rows."""
    is_recent = sa.and_(
        _WORK.state == WorkState.DONE,
        _WORK.due_at_ms >= sa.select(after_ms(-RECENT_S)).scalar_subquery(),
    )
    verdicts = (
        sa.select(_RUN.verdict, sa.func.count())
        .select_from(schema.work.join(schema.run, is_same_run(schema.work, schema.run)))
        .where(is_recent)
        .group_by(_RUN.verdict)
    )
    text = "Run attempts that became due in the last hour and have a verdict."
    counts = _counts(connection, verdicts, VERDICTS)
    yield Metric("ciguard_recent_verdicts", text, _by("verdict", counts))
    delay_ms = _WORK.finished_at_ms - _WORK.added_at_ms
    delays = sa.select(sa.func.avg(delay_ms), sa.func.max(delay_ms)).where(
        is_recent, _WORK.source == "webhook"
    )
    for name, value_ms in zip(("mean", "longest"), connection.execute(delays).one(), strict=True):
        text = f"From webhook to verdict, the {name} time of the last hour."
        if value_ms is not None:
            full_name = f"ciguard_recent_verdict_delay_{name}_seconds"
            yield Metric(full_name, text, (({}, float(value_ms) / 1000),))


def _of_repositories(connection: Connection) -> Metric:
    state = schema.repository.c.state
    counts = _counts(connection, sa.select(state, sa.func.count()).group_by(state))
    text = "Repositories that the service knows."
    return Metric("ciguard_repositories", text, _by("state", counts))


def _counts(
    connection: Connection, query: sa.Select[Any], names: Iterable[str] = ()
) -> dict[str, int]:
    """Return counts by name; those of `names` are 0 where the query finds none."""
    counts = {name: count for name, count in connection.execute(query)}  # noqa: C416
    return dict.fromkeys(names, 0) | counts


def _by(label: str, values: Mapping[str, int]) -> tuple[Sample, ...]:
    return tuple(({label: name}, value) for name, value in values.items())


ROUTES: Final = (Route(PATH, metrics),)
