"""ciguard-run.pyz: the leg's program as one file, made from our own sources read as data. Pure.

The same sources give the same bytes: members are sorted, with fixed times and permissions.
"""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

PROGRAM: Final = "ciguard-run.pyz"
PLAN: Final = "plan.json"
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can say
_FIXED_MODE: Final = 0o100644 << 16
_UNIX: Final = 3
_MAIN: Final = b"""from ciguard.run.__main__ import main

main()
"""
FILES: Final = (
    "__init__.py",
    "errors.py",
    "codec/__init__.py",
    "codec/record/__init__.py",
    "codec/record/lines.py",
    "codec/plan_file.py",
)
FOLDERS: Final = ("model", "run")
# click's side of `ciguard run`; the adapter frameworks/command.py is another file.
EXCLUDED: Final = frozenset({"run/command.py"})


def artifact_name(plan_id: str, run_attempt: int) -> str:
    """Unique in a workflow run, in characters that GitHub allows."""
    return f"ciguard-plan-{plan_id}-{run_attempt}"


def members(package: Traversable) -> dict[str, bytes]:
    """What the leg needs, by its name in the zip file.

    Args:
        package: the folder of `ciguard`, wherever it is installed.
    """
    found = {"__main__.py": _MAIN}
    for name in FILES:
        found[f"ciguard/{name}"] = package.joinpath(*name.split("/")).read_bytes()
    for folder in FOLDERS:
        for name, content in _below(package.joinpath(folder), folder):
            if name not in EXCLUDED:
                found[f"ciguard/{name}"] = content
    return found


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        name = f"{path}/{item.name}"
        if item.name.startswith((".", "__pycache__")):
            continue
        if item.is_dir():
            yield from _below(item, name)
        else:
            yield name, item.read_bytes()


def zipped(contents: Mapping[str, bytes]) -> bytes:
    """A zip file that Python runs."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            entry.external_attr = _FIXED_MODE
            entry.create_system = _UNIX  # else the machine's own
            archive.writestr(entry, contents[name], zipfile.ZIP_DEFLATED, compresslevel=9)
    return stream.getvalue()
