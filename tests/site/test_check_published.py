"""The step that keeps the job of a site from replacing the pages of another program."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import clean_environment

SCRIPT = Path(__file__).parents[2] / "actions/site/check_published.sh"
API = "/repos/o/r/pages"
MARKED = (200, '{"ciguard_site": 1}')
CASES = {
    "no pages": ({API: (404, "")}, 0, "no pages are published"),
    "own": ({"/s/ciguard-site.json": MARKED}, 0, "is a site of ciguard"),
    "empty": ({}, 0, "is empty"),
    "other": ({"/s/": (200, "mine")}, 1, "is the site of another program"),
    "docs only": ({}, 1, "is the site of another program"),
    "sign-in": ({"/s/ciguard-site.json": (200, "<html>")}, 1, "is the site of another program"),
    "broken": ({"/s/ciguard-site.json": (503, "")}, 1, "cannot be read (status 503)"),
    "no right": ({API: (403, "")}, 1, "GitHub does not say what the repository publishes"),
}


@pytest.mark.parametrize("case", CASES)
def test_another_site_is_never_replaced(case: str, tmp_path: Path) -> None:
    answers, code, words = CASES[case]
    tokens: dict[str, str | None] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens[self.path] = self.headers["Authorization"]
            address = f"http://{self.headers['Host']}/s/"
            facts = {"html_url": address, "status": "built" if case == "docs only" else None}
            default = (200, json.dumps(facts)) if self.path == API else (404, "")
            status, text = answers.get(self.path, default)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = {
            "GITHUB_API_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_TOKEN": "secret",
            "RUNNER_TEMP": str(tmp_path),
            "_CIGUARD_PYTHON": sys.executable,
            "NO_PROXY": "*",
        }
        command = [shutil.which("bash") or "bash", "-x", str(SCRIPT)]
        done = subprocess.run(
            command, env=clean_environment(**environ), capture_output=True, text=True, check=False
        )
        server.shutdown()
    assert (done.returncode, words in done.stdout) == (code, True), done.stdout + done.stderr
    assert tokens.pop(API) == "Bearer secret"
    assert "secret" not in done.stderr  # the command lines
    assert set(tokens.values()) <= {None}
