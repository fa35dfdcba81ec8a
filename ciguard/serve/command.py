"""The command `ciguard serve`: run the service; its subcommands are the administrator's tasks.

The subcommands add past runs to the work list, create tokens for jobs, and check, repair and delete
the stored results and answers (the JSON of guard and compare) of judged runs.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click
from prometheus_client import start_http_server

from ciguard import console
from ciguard.config.invocation import Invocation
from ciguard.errors import ExitCode, InputError
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import DEFAULT_URL as DEFAULT_RESULTS
from ciguard.serve.objects import open_objects
from ciguard.serve.pages.viewers import trusts_this_machine
from ciguard.serve.request_threads import DEADLINE_S
from ciguard.serve.results.compaction import Compactor, prune_answers
from ciguard.serve.results.compaction import prune as prune_results
from ciguard.serve.results.parquet_columns import DAY_MS
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.service import Service, open_service
from ciguard.serve.settings import DEFAULT_PORT, LOOPBACK, Role, Settings, read_settings
from ciguard.serve.state import repositories, tokens, work_list
from ciguard.serve.state.database import DEFAULT_URL as DEFAULT_DATABASE
from ciguard.serve.state.database import Database, open_database, read_clock_ms, sqlite_file
from ciguard.text import count_of, one_line

DEFAULT_CACHE: Final = "./cache"
LOG_WIDTH: Final = 4_000
OPEN_PAGES: Final = (
    "ciguard serve: no sign-in is configured: each user of this machine sees the pages of private"
    " repositories; so does each user of a proxy on it, unless it passes on Host or X-Forwarded-For"
)


class _Option(click.Option):
    """Option that a variable can set: CIGUARD_SERVE_TRUST_PROXY for `--trust-proxy`."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.envvar = f"CIGUARD_SERVE_{self.opts[0].strip('-').replace('-', '_').upper()}"


_option: Final = partial(click.option, cls=_Option)
_DATABASE: Final = _option(
    "--database",
    metavar="URL",
    default=DEFAULT_DATABASE,
    show_default=True,
    help="SQLite file or postgresql://USER@HOST/NAME.",
)
_RESULTS: Final = _option(
    "--results",
    metavar="URL",
    default=DEFAULT_RESULTS,
    show_default=True,
    help="Folder of results, or s3://BUCKET/PREFIX.",
)
_CACHE: Final = _option(
    "--cache",
    metavar="DIR",
    default=DEFAULT_CACHE,
    show_default=True,
    help="Folder for local copies of results.",
)
_REPO: Final = click.option(
    "--repo", "repository", metavar="OWNER/NAME", required=True, help="Repository."
)


@click.group(invoke_without_command=True)
@_DATABASE
@_RESULTS
@_CACHE
@_option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@_option("--port", default=DEFAULT_PORT, show_default=True, help="Port to listen on.")
@_option(
    "--url",
    "public_url",
    metavar="URL",
    default="",
    help="Public address of the service.",
)
@_option(
    "--repo",
    "repositories",
    metavar="OWNER/NAME",
    multiple=True,
    help="Repository of CIGUARD_TOKEN; repeatable.",
)
@_option(
    "--role",
    type=click.Choice([choice.value for choice in Role]),
    default=Role.ALL.value,
    show_default=True,
    help="Answer requests (web), judge runs (worker), or both.",
)
@_option(
    "--trust-proxy-header",
    "proxy_header",
    metavar="NAME",
    default="",
    help="Header of a proxy with the signed-in user, such as X-Forwarded-User.",
)
@_option(
    "--trust-proxy",
    "proxies",
    metavar="ADDRESS|NETWORK",
    multiple=True,
    default=LOOPBACK,
    help="Trusted proxy; repeatable (default: loopback).",
)
@_option(
    "--metrics-from",
    metavar="ADDRESS|NETWORK",
    multiple=True,
    default=LOOPBACK,
    help="Client of /metrics; repeatable (default: loopback).",
)
@_option(
    "--metrics-port",
    metavar="PORT",
    default=0,
    help="Port of a worker for /healthz and /metrics.",
)
@click.option("--end-with-input", is_flag=True, hidden=True)
@click.pass_context
def command(
    context: click.Context, /, *, cache: str, role: str, end_with_input: bool, **options: Any
) -> int:
    """Run the service, which judges finished runs, shows them, and gives jobs their history.

    Set the secrets as variables of the environment: CIGUARD_WEBHOOK_SECRET, CIGUARD_APP_ID and
    CIGUARD_APP_KEY.
    """
    if context.invoked_subcommand is not None:
        return ExitCode.OK
    if role != Role.WORKER.value:
        # `cli.main` turns the garbage collector off, but each request leaves reference cycles. A
        # worker process leaves the collector off, and collects at intervals (`work_until`).
        gc.enable()
    invocation: Invocation = context.obj
    # The other options are fields of the settings, by their names.
    settings = read_settings(invocation.environ, Settings(role=Role(role), **options))
    _start_logging()
    with (
        open_service(settings, invocation.environ) as service,
        contextlib.closing(ObjectCache(service.objects, invocation.folder / cache)) as copies,
    ):
        if settings.role is Role.WORKER:
            _judge_runs(service, copies, end_with_input=end_with_input)
        else:
            child = _worker_command(settings, cache) if settings.role is Role.ALL else ()
            _answer_requests(service, copies, child, invocation.environ)
    return ExitCode.OK


def _answer_requests(
    service: Service, copies: ObjectCache, child: Sequence[str], environ: Mapping[str, str]
) -> None:
    """Answer requests until SIGTERM or SIGINT, with a worker process if `child` is a command."""
    # Imported here: a worker process needs neither web server nor pages, a fifth of all imports.
    from ciguard.serve.web_process import listen, serve_web, worker_child  # noqa: PLC0415

    settings = service.settings
    # A query must end when its request has timed out.
    service = replace(service, database=replace(service.database, statement_s=DEADLINE_S))
    with (
        contextlib.closing(ReadModel(service.database, copies)) as read_model,
        listen(settings.host, settings.port) as listening,
        worker_child(child, environ) if child else contextlib.nullcontext(),
    ):
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{listening.getsockname()[1]}"
        console.err(f"ciguard serve: listening on {address}")
        if trusts_this_machine(settings):
            console.err(OPEN_PAGES)
        serve_web(service, read_model, listening)


def _judge_runs(service: Service, copies: ObjectCache, *, end_with_input: bool) -> None:
    """Judge runs until SIGTERM or SIGINT, or until the process that started this one ends."""
    # Modules of `serve.work` are imported in functions: the web process does not judge runs, and
    # starts sooner without these modules.
    from ciguard.serve.work.worker_process import watch_input, work_until  # noqa: PLC0415

    settings = service.settings
    if settings.metrics_port:
        # This server answers every path with the metrics, also /healthz.
        start_http_server(settings.metrics_port, settings.host)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if end_with_input:
        # Unbuffered: at exit, Python aborts where a thread is still reading from a buffer.
        stream = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
        threading.Thread(target=watch_input, args=(stream, stop), daemon=True).start()
    work_until(service, copies, stop)


def _worker_command(settings: Settings, cache: str) -> list[str]:
    """Return the command of a worker process; secrets reach that process by the environment."""
    names = [word for name in settings.repositories for word in ("--repo", name)]
    stores = ("--database", settings.database, "--results", settings.results, "--cache", cache)
    options = ("--url", settings.public_url, "--role", Role.WORKER.value, "--end-with-input")
    port = ("--metrics-port", f"{settings.metrics_port}")
    return [sys.executable, "-m", "ciguard", "serve", *stores, *options, *port, *names]


class LineFormatter(logging.Formatter):
    """Formatter that writes each message in one line, also a message with line breaks."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record), LOG_WIDTH)


def _start_logging() -> None:
    """Log to standard error: one line for each message, then the traceback of an exception."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    for noisy in ("httpx", "httpcore", "alembic", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("stamina").setLevel(logging.ERROR)  # its warnings do not name the request


@command.command(short_help="Judge past runs of a repository.")
@_DATABASE
@_RESULTS
@_REPO
@click.option("--runs", metavar="N", default=200, show_default=True, help="Number of runs.")
@click.pass_obj
def backfill(
    invocation: Invocation, /, *, database: str, results: str, repository: str, runs: int
) -> int:
    """Let the service judge the newest completed runs of a repository."""
    from ciguard.serve.work import reconcile  # noqa: PLC0415

    options = Settings(
        database=database,
        results=results,
        role=Role.WORKER,
        repositories=() if invocation.environ.get("CIGUARD_APP_ID") else (repository,),
    )
    settings = read_settings(invocation.environ, options)
    with open_service(settings, invocation.environ) as service:
        added = reconcile.backfill(service, repository, runs)
    console.out(f"{count_of(added, 'run attempt')} of {repository} added to the work list")
    if not added:
        console.err(f"all attempts of its newest {count_of(runs, 'run')} were on it already")
    return ExitCode.OK


@command.command(short_help="Check stored results.")
@_DATABASE
@_RESULTS
@click.option(
    "--repair", is_flag=True, help="Let the service judge damaged runs again, and end with 0."
)
@click.pass_obj
def check(invocation: Invocation, /, *, database: str, results: str, repair: bool) -> int:
    """Check that all stored results, answers and histories are undamaged; if not, end with 3."""
    from ciguard.serve.work import repair as repairs  # noqa: PLC0415

    with _existing_database(database) as opened:
        objects = open_objects(results, invocation.environ)
        checked = repairs.check(opened, objects)
        for damage in checked.damaged:
            runs = count_of(len(damage.runs), "run")
            console.out(f"{damage.file.name}: {damage.problem}; {runs}")
        rows, damaged = count_of(checked.rows, "result"), len(checked.damaged)
        console.out(f"{count_of(checked.files, 'file')} with {rows}, {damaged} damaged")
        if checked.unwritten:
            console.out(f"{count_of(len(checked.unwritten), 'judged run')} without results")
        answers = repairs.damaged_answers(opened, objects)
        histories = repairs.damaged_histories(opened, objects)
        for name in answers.values():
            console.out(f"{name}: the answer of a run is missing or damaged")
        for row in histories:
            console.out(f"{row.object}: the stored history is missing or damaged")
        if not repair:
            is_damaged = checked.damaged or answers or histories
            return ExitCode.INPUT if is_damaged else ExitCode.OK
        unjudged = [*repairs.remove_damaged(opened, checked.damaged), *checked.unwritten, *answers]
        for row in histories:
            unjudged += repairs.restart_history(opened, objects, row.repository_id)
        retried = repairs.judge_again(opened, objects, dict.fromkeys(unjudged))
    console.out(f"{count_of(retried, 'run')} put back on the work list")
    return ExitCode.OK


@command.command(short_help="Delete results of old runs.")
@_DATABASE
@_RESULTS
@_CACHE
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(min=1),
    default=365,
    show_default=True,
    help="Age from which results are deleted.",
)
@click.pass_obj
def prune(invocation: Invocation, /, *, database: str, results: str, cache: str, days: int) -> int:
    """Delete the results of old runs; verdicts and daily sums of each test stay."""
    with _existing_database(database) as opened:
        objects = open_objects(results, invocation.environ)
        with opened.read() as connection:
            before_ms = read_clock_ms(connection) - days * DAY_MS
        with (
            contextlib.closing(ObjectCache(objects, invocation.folder / cache)) as copies,
            contextlib.closing(Compactor(opened, objects, copies)) as compactor,
        ):
            prune_results(opened, compactor, before_ms)
        prune_answers(opened, objects, before_ms)
    console.out(f"results of runs older than {count_of(days, 'day')} deleted")
    return ExitCode.OK


@command.command(short_help="Retry runs that were given up.")
@_DATABASE
def retry(*, database: str) -> int:
    """Retry all runs that were given up."""
    with _existing_database(database) as opened, opened.write() as connection:
        retried = work_list.retry_all(connection, repositories.ARE_ACTIVE)
    console.out(f"{count_of(retried, 'run')} put back on the work list")
    return ExitCode.OK


@command.command(short_help="Make a token for jobs or scripts.")
@_DATABASE
@_REPO
@click.option(
    "--scope",
    type=click.Choice(["history", "pages"]),
    default="history",
    show_default=True,
    help="Access: history and explanations, or also the JSON of all pages.",
)
@click.option("--revoke", metavar="ID", help="Revoke this token instead.")
def token(*, database: str, repository: str, scope: str, revoke: str | None) -> int:
    """Print a new token of one repository, for jobs (CIGUARD_HISTORY_TOKEN) or scripts."""
    with _existing_database(database) as opened, opened.write() as connection:
        row = repositories.find(connection, repository)
        if row is None:
            fix = "wait until the service has asked GitHub, or check the name"
            raise InputError("the service does not know it", where=repository, fix=fix)
        if revoke is not None:
            if not tokens.revoke(connection, row.id, revoke):
                raise InputError("no valid token with this id", where=f"--revoke {revoke}")
            console.out(f"token {revoke} revoked")
            return ExitCode.OK
        prefix = tokens.PAGES_PREFIX if scope == "pages" else tokens.PREFIX
        created = tokens.create(connection, row.id, prefix)
    console.err(f"token {created.id} of {row.full_name}; revoke it by --revoke {created.id}")
    console.out(created.secret)
    return ExitCode.OK


def _existing_database(url: str) -> contextlib.closing[Database]:
    """Open the database of a service, which must exist.

    `open_database` would create an empty SQLite database, in which a check finds no damage.

    Raises:
        InputError: the SQLite file does not exist.
    """
    path = sqlite_file(url)
    with contextlib.suppress(PermissionError):  # `open_database` reports the reason
        if path is not None and not path.exists():
            fix = "run it in the folder of the service, or pass the service's --database"
            raise InputError("no such database", where=f"--database {url}", fix=fix)
    return contextlib.closing(open_database(url))
