"""A real pytest session of its own process, with the plugin inside, and what it wrote down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ciguard.run import plugins

if TYPE_CHECKING:
    Line = dict[str, Any]

OPTIONS = ("-p", "no:cacheprovider", "-p", "xdist.plugin", "-p", "pytest_timeout")
INSIDE = str(Path(str(plugins.__file__)).parent)


@dataclass(frozen=True, slots=True)
class Session:
    """An ended session: its exit code, its output and its record."""

    exit_code: int
    output: str
    files: Mapping[str, list[Line]]

    @property
    def lines(self) -> list[Line]:
        return [line for name in sorted(self.files) for line in self.files[name]]

    def of(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line["type"] == kind]

    def events(self, kind: str) -> list[Line]:
        return [line for line in self.of("event") if line["kind"] == kind]

    @property
    def results(self) -> dict[str, Line]:
        found = {line["unit"]: line for line in self.of("result")}
        assert len(found) == len(self.of("result")), "one result a unit"
        return found

    @property
    def outcomes(self) -> dict[str, str]:
        return {unit: line["outcome"] for unit, line in self.results.items()}


@dataclass
class Project:
    """A folder with a suite, and how its sessions are started."""

    folder: Path
    python: Path = Path(sys.executable)
    runs: int = field(default=0)

    @property
    def record(self) -> Path:
        return self.folder / f"record-{self.runs}" / "process-003.jsonl"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def pytest(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run pytest as it is asked to be, without any plugin of ours."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CIGUARD_", "PYTEST_", "PYTHONPATH", "COV_"))
        }
        return subprocess.run(
            [str(self.python), "-m", "pytest", *OPTIONS, *arguments],
            cwd=self.folder,
            # Two plugins of a dozen that happen to be installed: half of the time it takes.
            env={**clean, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=120,
        )

    def run(
        self,
        *arguments: str,
        units: Sequence[str] | None = None,
        plugin_path: str = "",
        **environment: str,
    ) -> Session:
        """Run pytest with the plugin, as the supervisor does; `environment` adds or replaces.

        `plugin_path` is a folder to import from before all others.
        """
        self.runs += 1
        self.record.parent.mkdir()
        requested = {
            "PYTHONPATH": os.pathsep.join(filter(None, (plugin_path, INSIDE))),
            "CIGUARD_RECORD_FILE": str(self.record),
            "CIGUARD_SUITE": "unit",
            "CIGUARD_VARIANT": "py",
            "CIGUARD_PROCESS": "3",
            "CIGUARD_ORIGIN_S": repr(time.monotonic()),
        }
        if units is not None:
            requested["CIGUARD_UNITS_FILE"] = str(
                self.write(f"units-{self.runs}.json", json.dumps(units))
            )
        done = self.pytest("-p", "ciguard_pytest", *arguments, **{**requested, **environment})
        files = {
            path.name: [json.loads(text) for text in path.read_text("ascii").splitlines()]
            for path in self.record.parent.glob("*.jsonl")
        }
        return Session(done.returncode, done.stdout + done.stderr, files)

    def collect(self, *arguments: str) -> tuple[list[Line], subprocess.CompletedProcess[str]]:
        """Collect with the plugin, as `plan` does; the lines of the inventory."""
        path = self.folder / "inventory.jsonl"
        environment = {"PYTHONPATH": INSIDE, "CIGUARD_COLLECT_FILE": str(path)}
        options = ("-p", "ciguard_listing", "--collect-only", "-q")
        done = self.pytest(*options, *arguments, **environment)
        text = path.read_text("ascii") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()], done


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project folder, its own root whatever lies above it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Project(tmp_path)
