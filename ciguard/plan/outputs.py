"""Outputs of a plan for a workflow: its matrix, and the program that the matrix's jobs run. Pure.

The matrix is an output of a step. The program, ciguard-run.pyz, is one file of ciguard's own
sources, read as data: the same sources give the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any, Final

from ciguard.model import Plan
from ciguard.run.frameworks.registry import FRAMEWORKS, PACKED, is_plugin

PROGRAM: Final = "ciguard-run.pyz"
PLAN: Final = "plan.json"
MATRIX_KEY: Final = "ciguard"  # not `shard`: 26 of 61 large projects have an axis of such a name
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file
_FIXED_MODE: Final = 0o100644 << 16
_UNIX: Final = 3
_MAIN: Final = b"""from ciguard.run.__main__ import main

main()
"""
FILES: Final = (
    "__init__.py",
    "errors.py",
    "text.py",
    "codec/__init__.py",
    "codec/record/__init__.py",
    "codec/record/lines.py",
    "codec/plan_file.py",
)
FOLDERS: Final = ("model", "run")
PLUGINS: Final = "ciguard/run/plugins/"
# The command of `ciguard run` (the adapter frameworks/command.py is another file), the source of a
# jar, and what only judges a run.
EXCLUDED: Final = frozenset(
    {"run/command.py", "run/plugins/CiguardListener.java", "model/moved_units.py"}
)


def matrix(plan: Plan) -> dict[str, Any]:
    """Return the matrix with an entry for each shard, as in templates/workflow.yml.j2; never empty.

    In a plan for a job's matrix an entry has the values of its combination, so that
    `${{ matrix.os }}` still works, and the shard as `ciguard`. The limit of a step is lower than
    that of its job, because a job at its limit is reported as cancelled and uploads nothing.
    """
    combinations = [plan.combination(shard) for shard in plan.shards]
    if any(combination is not None for combination in combinations):
        pairs = zip(combinations, plan.shards, strict=True)
        return {"include": [{**(values or {}), MATRIX_KEY: shard.key} for values, shard in pairs]}
    return {
        "include": [
            {
                "shard": shard.key,
                "runs_on": plan.pools[shard.pool].runs_on,
                "timeout_minutes": plan.job_minutes,
                "step_timeout_minutes": shard.timeout_minutes,
                "name": plan.job_name(shard),
            }
            for shard in plan.shards
        ]
    }


def as_output(matrix: dict[str, Any]) -> str:
    """Encode a matrix as one line of ASCII."""
    return json.dumps(matrix, separators=(",", ":"))


def artifact_name(plan_id: str, run_attempt: int) -> str:
    """Return the artifact's name: unique in a workflow run, in characters that GitHub allows."""
    return f"ciguard-plan-{plan_id}-{run_attempt}"


def members(package: Traversable, frameworks: Collection[str] = FRAMEWORKS) -> dict[str, bytes]:
    """Return the files of a leg's program, by name in the zip file.

    Args:
        package: the folder of the installed `ciguard`.
        frameworks: of the leg's suites; plugins of other frameworks are left out.
    """
    files = {"__main__.py": _MAIN}
    for name in FILES:
        files[f"ciguard/{name}"] = package.joinpath(*name.split("/")).read_bytes()
    for folder in FOLDERS:
        for name, content in _files_below(package.joinpath(folder), folder):
            if name not in EXCLUDED and not _is_unused_plugin(name, frameworks):
                files[f"ciguard/{name}"] = content
    plugins = [name[len(PLUGINS) :] for name in files if name.startswith(PLUGINS)]
    packed = "\n".join(sorted(filter(is_plugin, plugins)))
    return {**files, PLUGINS + PACKED: packed.encode("ascii")}


def _is_unused_plugin(path: str, frameworks: Collection[str]) -> bool:
    """Return whether a file of `run/plugins/` belongs to other frameworks only."""
    folder, _, file = path.rpartition("/")
    users = {
        name
        for name, row in FRAMEWORKS.items()
        if file in row.plugin_files or file.startswith(f"ciguard_{name}.")
    }
    return folder == "run/plugins" and bool(users) and users.isdisjoint(frameworks)


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        name = f"{path}/{item.name}"
        if item.name.startswith((".", "__pycache__")):
            continue
        if item.is_dir():
            yield from _files_below(item, name)
        else:
            yield name, item.read_bytes()


def zipped(contents: Mapping[str, bytes]) -> bytes:
    """Make a zip file that Python runs."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            entry.external_attr = _FIXED_MODE
            entry.create_system = _UNIX  # the default depends on the machine
            archive.writestr(entry, contents[name], zipfile.ZIP_DEFLATED, compresslevel=9)
    return stream.getvalue()
