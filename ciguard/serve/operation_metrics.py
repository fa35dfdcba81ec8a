"""`/metrics`: what the service does, as Prometheus reads it.

Requests and deliveries are counted by this process since its start. All else is asked of the
database, so that every web process gives the same. No value names a repository.
Source: prometheus.io, "Exposition formats", text format 0.0.4, and "Metric and label naming".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route

from ciguard import __version__
from ciguard.serve.pages.page_routes import no_page_endpoint
from ciguard.serve.pages.viewers import FORWARDED, is_from
from ciguard.serve.state import operation_counts, work_rows
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
OTHER: Final = "other"  # an event that GitHub may have, or whoever sends it may have made up


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its samples: labels and a value each; without samples it is left out."""

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Of this process. Only its event loop counts, so that no lock is needed.

    Attributes:
        statuses: answers by class, such as "2xx".
        deliveries: answers to webhooks, by event and class.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[tuple[str, str]] = field(default_factory=Counter)


class CountRequests:
    """Counts each answer when it begins."""

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
    """The metrics, for addresses of `--metrics-from`; for others there is no such page.

    What a proxy passes on comes from elsewhere, whatever its address is.
    """
    service: Service = request.app.state.service
    is_passed_on = any(name in request.headers for name in FORWARDED)
    if is_passed_on or not is_from(request, service.settings.metrics_from):
        return await no_page_endpoint(request)
    counts: RequestCounts = request.app.state.request_counts
    found = [*_of_process(counts), *await run_in_threadpool(_of_service, service)]
    return Response(encode(found), media_type=CONTENT_TYPE)


def encode(found: Iterable[Metric]) -> str:
    """The text format."""
    lines = []
    for metric in found:
        if metric.samples:
            lines.append(f"# HELP {metric.name} {metric.text}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
        for labels, value in metric.samples:
            pairs = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{pairs}}} {value}" if pairs else f"{metric.name} {value}")
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _of_process(counts: RequestCounts) -> Iterator[Metric]:
    yield Metric(
        "ciguard_build_info",
        "gauge",
        "Version of ciguard.",
        (({"version": __version__}, 1),),
    )
    yield Metric(
        "ciguard_http_requests_total",
        "counter",
        "Answers of this process.",
        tuple(({"status": status}, count) for status, count in sorted(counts.statuses.items())),
    )
    yield Metric(
        "ciguard_webhook_deliveries_total",
        "counter",
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
            *_of_results(connection),
            Metric(
                "ciguard_recent_blocks",
                "gauge",
                "Blocks of plans of the last hour: claimed by their own leg, another, or none.",
                tuple(_by("holder", operation_counts.recent_blocks(connection))),
            ),
            Metric(
                "ciguard_repositories",
                "gauge",
                "Repositories that the service knows.",
                tuple(_by("state", operation_counts.repositories_by_state(connection))),
            ),
        ]


def _of_work(connection: Connection) -> Iterator[Metric]:
    backlog = work_rows.backlog(connection)
    rows = {state.value: count for state, count in backlog.rows.items()}
    text = "Run attempts on the work list; a dead one waits for somebody to try it again."
    yield Metric("ciguard_work_rows", "gauge", text, tuple(_by("state", rows)))
    text = "For how long the first run attempt that is due has waited."
    yield Metric("ciguard_work_oldest_due_seconds", "gauge", text, (({}, backlog.oldest_s),))


def _of_recent_runs(connection: Connection) -> Iterator[Metric]:
    recent = operation_counts.recent_runs(connection)
    text = "Run attempts that became due in the last hour and have a verdict."
    verdicts = tuple(_by("verdict", recent.verdicts))
    yield Metric("ciguard_recent_verdicts", "gauge", text, verdicts)
    for name, value in (("mean", recent.delay_s), ("longest", recent.longest_delay_s)):
        text = f"From webhook to verdict, the {name} time of the last hour."
        if value is not None:
            full_name = f"ciguard_recent_verdict_delay_{name}_seconds"
            yield Metric(full_name, "gauge", text, (({}, value),))


def _of_results(connection: Connection) -> Iterator[Metric]:
    stored = sorted(operation_counts.stored_files(connection).items())
    for name, text in (
        ("files", "Result files."),
        ("rows", "Rows of result files; those of a pair are the same rows twice."),
        ("bytes", "Size of result files."),
    ):
        samples = tuple(({"kind": kind}, getattr(one, name)) for kind, one in stored)
        yield Metric(f"ciguard_result_{name}", "gauge", text, samples)


def _by(label: str, values: Mapping[str, int]) -> Iterator[Sample]:
    for name, value in values.items():
        yield {label: name}, value


ROUTES: Final = (Route(PATH, metrics),)
