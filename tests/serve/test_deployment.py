"""Files of deploy: as far as they can be checked without Docker and a booted systemd."""

from __future__ import annotations

import fnmatch
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from ciguard.serve.settings import Role, Settings, read_settings
from ciguard.serve.web_process import MAX_CONNECTIONS

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy"
SECRETS = {"CIGUARD_WEBHOOK_SECRET": "s", "CIGUARD_APP_ID": "1", "CIGUARD_APP_KEY": "-----BEGIN K"}


def test_each_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    names = {re.split(r"[\[>]", one)[0] for one in declared}
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "ciguard/serve").rglob("*.py"))
    imported = re.findall(r"^ *(?:from|import) (\w+)", text, re.MULTILINE)
    known = metadata.packages_distributions()
    others = set(imported) & known.keys() - sys.stdlib_module_names - {"ciguard"}
    assert {"jwt", "cryptography", "httpx", "sqlalchemy"} <= others
    assert {top for top in others if not names & {_dashed(one) for one in known[top]}} == set()


def _dashed(name: str) -> str:
    return name.lower().replace("_", "-")


def options_of(words: list[str]) -> dict[str, str]:
    assert len(words) % 2 == 0
    assert all(name.startswith("--") for name in words[::2])
    return dict(zip(words[::2], words[1::2], strict=True))


def test_services_of_the_compose_file_start_with_what_they_are_given() -> None:
    content: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text("utf-8"))
    services = content["services"]
    roles = {}
    for name in ("web", "worker"):
        given = options_of(shlex.split(services[name]["command"]))
        settings = read_settings(
            SECRETS,
            Settings(
                database=given["--database"],
                results="./results",
                host=given.get("--host", "127.0.0.1"),
                role=Role(given["--role"]),
                public_url=given["--url"],
            ),
        )
        roles[name] = settings.role
        assert (FILES / services[name]["build"]["context"]).resolve() == ROOT
        assert (ROOT / services[name]["build"]["dockerfile"]).is_file()
        assert set(services[name]["depends_on"]) == {"database"}
    assert roles == {"web": Role.WEB, "worker": Role.WORKER}
    assert services["worker"]["deploy"]["replicas"] == 2
    # The port is for a proxy on the machine, not for the world.
    assert services["web"]["ports"] == ["127.0.0.1:8080:8080"]
    volumes = [one for name in services for one in services[name]["volumes"]]
    assert {one.partition(":")[0] for one in volumes} == set(content["volumes"])


def test_image_is_built_of_what_it_is_given(tmp_path: Path) -> None:
    lines = (FILES / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    for name in (line[1:] for line in lines if line.startswith("!")):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    content = (FILES / "Dockerfile").read_text("utf-8")
    installed = re.search(r"-c /source/(\S+) \"/source\[(\w+)\]\"", content)
    assert installed
    assert (tmp_path / installed[1]).is_file()
    assert f"\n{installed[2]} = [" in (tmp_path / "pyproject.toml").read_text("utf-8")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert [one for one in tmp_path.iterdir() if fnmatch.fnmatch(one.name, "ciguard_*.whl")]


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing")
    content = (FILES / "ciguard-serve.service").read_text("utf-8")
    (command,) = re.findall(r"(?m)^ExecStart=(.*)$", content)
    program, verb, *words = command.split()
    assert (Path(program).name, verb) == ("ciguard", "serve")
    assert set(options_of(words)) == {"--url", "--cache"}
    assert f"\nLimitNOFILE={2 * MAX_CONNECTIONS}\n" in content
    unit = tmp_path / "ciguard-serve.service"
    unit.write_text(content.replace(program, sys.executable), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
