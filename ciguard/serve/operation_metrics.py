"""`/metrics`: metrics of the service in the text format of Prometheus.

The values come from the database, so that every web process reports the same ones. No value names
a repository; requests are counted by the proxy in front of the service.
Source: prometheus.io, "Exposition formats", text format 0.0.4, and "Metric and label naming".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from starlette.responses import Response
from starlette.routing import Route

from ciguard import __version__
from ciguard.serve.pages.page_routes import no_page_endpoint
from ciguard.serve.pages.viewers import FORWARDED, is_from
from ciguard.serve.request_threads import answer_in
from ciguard.serve.state import pauses, repositories, schema, work_list
from ciguard.serve.state.database import after_ms
from ciguard.serve.state.run_key import is_same_run
from ciguard.serve.state.run_rows import VERDICTS
from ciguard.serve.state.work_list import WorkState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy.engine import Connection
    from starlette.requests import Request

    from ciguard.serve.service import Service

    Sample = tuple[Mapping[str, str], float]

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
RECENT_S: Final = 3600.0
_WORK: Final = schema.work.c
_RUN: Final = schema.run.c


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge with its samples (labels and a value); at least one."""

    name: str
    text: str
    samples: tuple[Sample, ...]


async def metrics(request: Request) -> Response:
    """Answer addresses of `--metrics-from` with the metrics, others with 404.

    Requests through a proxy are refused: the address would be that of the proxy.
    """
    service: Service = request.app.state.service
    is_passed_on = any(name in request.headers for name in FORWARDED)
    if is_passed_on or not is_from(request, service.settings.metrics_from):
        return await no_page_endpoint(request)
    text = _encode(await answer_in(request, "pages", _of_service, service))
    return Response(text, media_type=CONTENT_TYPE)


def _encode(listed: Iterable[Metric]) -> str:
    lines = []
    for metric in listed:
        lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} gauge"]
        for labels, value in metric.samples:
            pairs = ",".join(f'{name}="{text}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{pairs}}} {value}" if pairs else f"{metric.name} {value}")
    return "".join(f"{line}\n" for line in lines)


def _of_service(service: Service) -> list[Metric]:
    build = Metric("ciguard_build_info", "Version of ciguard.", (({"version": __version__}, 1),))
    with service.database.read() as connection:
        return [build, *_of_work(connection), _recent_verdicts(connection)]


def _of_work(connection: Connection) -> Iterator[Metric]:
    backlog = work_list.backlog(connection)
    rows = {state.value: count for state, count in backlog.rows.items()}
    text = "Run attempts on the work list; a dead one waits for somebody to try it again."
    yield Metric("ciguard_work_rows", text, _by("state", rows))
    text = "For how long the first run attempt that is due has waited."
    yield Metric("ciguard_work_oldest_due_seconds", text, (({}, backlog.oldest_s),))
    paused = sum(
        pause.repositories for pause in pauses.current(connection, repositories.ARE_ACTIVE)
    )
    text = "Repositories whose requests GitHub refuses; their run attempts wait."
    yield Metric("ciguard_paused_repositories", text, (({}, paused),))


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
    samples = _by("verdict", dict.fromkeys(VERDICTS, 0) | counts)
    return Metric("ciguard_recent_verdicts", text, samples)


def _by(label: str, values: Mapping[str, int]) -> tuple[Sample, ...]:
    return tuple(({label: name}, value) for name, value in values.items())


ROUTES: Final = (Route(PATH, metrics),)
