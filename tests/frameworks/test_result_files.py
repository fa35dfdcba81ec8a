"""The table of docs/how-to/comment.md: its options make each tool write a file that we read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import call_in_process, clean_environment
from frameworks.loop import Loop

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "comment.md"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("tool", "project", "command"),
    [
        ("Jest", "node_jest", "npx jest"),
        ("Vitest", "node_vitest", "npx vitest run"),
        ("Playwright", "playwright", "npx playwright test"),
        ("Mocha", "node_mocha", "npx mocha test"),
        ("Go", "go", "go test ./..."),
        ("RSpec", "rspec", "rspec"),
        ("PHPUnit", "phpunit", "phpunit -c config --filter Setup"),
        ("CTest", "ctest", "ctest --test-dir build"),
        ("GoogleTest", "gtest", "build/shop"),
    ],
)
def test_options_of_the_table_write_a_file_of_results(
    request: pytest.FixtureRequest, tool: str, project: str, command: str
) -> None:
    loop: Loop = request.getfixturevalue(project)
    (row,) = re.findall(rf"(?m)^\| {re.escape(tool)} \| (.*) \|$", PAGE.read_text("utf-8"))
    words = re.findall("`([^`]+)`", row)
    environ = {**loop.environ, **dict(re.findall(r"(\w+): ([\w.]+)", row))}
    shell = f"{command} {words[0]}"
    environ = clean_environment(**environ)
    subprocess.run(shell, shell=True, cwd=loop.folder, env=environ, timeout=200, check=False)
    (file,) = loop.folder.rglob("results.*")
    done = call_in_process("report", "--results", f"**/{file.name}", cwd=loop.folder)
    assert re.search(r"PASSED: results of \d+ tests? in 1 shard", done.stdout), done.stdout
