"""Every command of the guides of the service is executed, with a fake in the place of GitHub."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from conftest import call_in_process, clean_environment
from fakegithub.apps import APP_ID, FakeRepository, add_app, private_key_pem
from fakegithub.deliveries import PATH, WEBHOOK_SECRET, workflow_run
from fakegithub.server import serving
from fakegithub.state import FakeGitHub
from guard.fixtures import World
from serve.fake_runs import HEAD, REPOSITORY, of_pull_request, open_pull_request, upload
from serve.web_process import free_port

GUIDES: Final = Path(__file__).parents[2] / "docs" / "how-to"
PAGES: Final = ("serve.md", "connect-a-service.md", "operate-the-service.md")
SHOP: Final = FakeRepository(1, REPOSITORY, private=False)
PATIENCE_S: Final = 120.0
# What the guide has the App be granted, as GitHub's API names it.
GRANTED: Final = {
    **dict.fromkeys(("actions", "checks", "contents"), "read"),
    "pull_requests": "write",
}


def blocks() -> dict[str, list[str]]:
    """The commands of each section."""
    text = "".join((GUIDES / name).read_text("utf-8") for name in PAGES)
    sections = re.split(r"(?m)^## (.*)\n", text)
    found = {
        title: re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    return {title: commands for title, commands in found.items() if commands}


@pytest.fixture
def server() -> Iterator[FakeGitHub]:
    """GitHub, with one run of a pull request."""
    with serving() as github:
        installed = add_app(github).install(SHOP)
        installed.permissions = dict(GRANTED)
        open_pull_request(github)
        upload(github, World(), 7, **of_pull_request(repository={"id": SHOP.id}))
        yield github


class Terminal:
    """Executes blocks of the guide in a folder, with the values of this test in their places."""

    def __init__(self, folder: Path, values: dict[str, str], **environ: str) -> None:
        self.folder, self.port = folder, free_port()
        self._values = {**values, ":8080": f":{self.port}", "OWNER/NAME": REPOSITORY}
        self._environ = clean_environment(NO_PROXY="*", **environ)
        self._log = folder / "log.txt"

    def _filled(self, block: str) -> str:
        for name, value in self._values.items():
            block = block.replace(name, value)
        return block

    def execute(self, block: str) -> str:
        """Standard output of a block, each line of which succeeds.

        Calls of ciguard are made in this process: each start of an interpreter takes a second.
        """
        output = ""
        for part in re.split(r"(?m)^(ciguard .*\n)", self._filled(block)):
            if part.startswith("ciguard "):
                words = shlex.split(part)[1:]
                done = call_in_process(*words, cwd=self.folder, **self._environ)
            else:
                done = self._shell(part)
            assert done.returncode == 0, f"{part}{done.stdout}{done.stderr}"
            output += done.stdout
        return output

    def _shell(self, lines: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-euc", lines]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def read_environment(self, name: str) -> None:
        """What `. ./NAME` does for the commands that follow."""
        lines = (self.folder / name).read_text("utf-8").splitlines()
        self._environ |= dict(line.split("=", 1) for line in lines)

    @contextlib.contextmanager
    def serve(self, block: str) -> Iterator[None]:
        """Start each process of a block, wait until requests are answered, and stop all."""
        before, *commands = re.split(r"(?m)^(?=ciguard serve )", self._filled(block))
        with self._log.open("wb") as stream, contextlib.ExitStack() as stack:
            for command in commands:
                port = "" if "--role worker" in command else f" --port {self.port}"
                words = ["bash", "-euc", f"{before}exec {command.rstrip()}{port}"]
                process = subprocess.Popen(words, cwd=self.folder, env=self._environ, stderr=stream)
                stack.callback(self._stop, process)
            self.wait_for("/readyz", "ready")
            yield

    def wait_for(self, path: str, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                url = f"http://127.0.0.1:{self.port}{path}"
                if text in httpx.get(url, trust_env=False, timeout=20).text:
                    return
            assert time.monotonic() < deadline, f"{path}: {text}\n{self._log.read_text()}"
            time.sleep(0.05)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(60) == 0, self._log.read_text()
        finally:
            process.kill()


def test_guide_leads_from_the_first_start_to_a_restored_copy(
    server: FakeGitHub, tmp_path: Path
) -> None:
    for name in ("curl", "sqlite3"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is missing")
    found = blocks()
    # The block of this section is executed below.
    assert found.pop("Use several machines")
    values = {"YOUR_SECRET": WEBHOOK_SECRET, "YOUR_APP_ID": APP_ID}
    terminal = Terminal(tmp_path, values, GITHUB_API_URL=server.address)
    (tmp_path / "ciguard.pem").write_text(private_key_pem(), "ascii")
    secrets, start, fill = found.pop("Start it")
    terminal.execute(secrets)
    terminal.read_environment("serve.env")
    (backup, restore) = found.pop("Back up and restore")
    with terminal.serve(start):
        assert "run attempt of octo-org/shop added" in terminal.execute(fill)
        (connect,) = found.pop("Let it comment and keep the history")
        assert terminal.execute(connect).startswith("cgs_")
        terminal.wait_for("/metrics", 'ciguard_recent_verdicts{verdict="passed"} 1')
        (watch,) = found.pop("Watch it")
        assert "8 results, 0 damaged" in terminal.execute(watch)
        terminal.execute(backup)
    assert found == {}
    shutil.rmtree(tmp_path / "results")
    (tmp_path / "ciguard.db").write_bytes(b"damaged")
    assert "8 results, 0 damaged" in terminal.execute(restore)
    assert server.comments == {}, "past runs get no comment"


@pytest.mark.soak
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_guide_starts_processes_that_share_a_database_and_a_bucket(
    server: FakeGitHub, tmp_path: Path, database_url: str, bucket: tuple[str, dict[str, str]]
) -> None:
    url, credentials = bucket
    environ = {
        "GITHUB_API_URL": server.address,
        "CIGUARD_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "CIGUARD_APP_ID": APP_ID,
        "CIGUARD_APP_KEY": private_key_pem(),
        **credentials,
    }
    values = {
        "postgresql://ciguard@db.example.org/ciguard": database_url,
        "s3://example-ci/ciguard": url,
    }
    terminal = Terminal(tmp_path, values, **environ)
    (start,) = blocks()["Use several machines"]
    with terminal.serve(start):
        delivery = workflow_run(SHOP, 7, **of_pull_request(head_sha=HEAD))
        answer = httpx.post(
            f"http://127.0.0.1:{terminal.port}{PATH}",
            content=delivery.body,
            headers=delivery.headers(),
            trust_env=False,
        )
        assert answer.status_code == 202
        terminal.wait_for("/metrics", 'ciguard_recent_verdicts{verdict="passed"} 1')
    assert not (tmp_path / "ciguard.db").exists()


def test_page_about_scaling_has_what_is_counted() -> None:
    root = GUIDES.parents[1]
    command = [sys.executable, "-W", "ignore", str(root / "benchmarks/serve_counts.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    page = (root / "docs/explanation/scaling.md").read_text("utf-8")
    table = page.partition("serve_counts.py -->\n")[2].partition("\n\n")[0]
    (was, bytes_were), (found, bytes_are) = (
        (text.splitlines()[:-2], re.findall(r"[0-9]+", text.replace(",", ""))[-5:])
        for text in (table, done.stdout)
    )
    assert was == found
    # Versions of zlib and PostgreSQL differ.
    assert list(map(int, bytes_were)) == pytest.approx(list(map(int, bytes_are)), rel=0.1)
