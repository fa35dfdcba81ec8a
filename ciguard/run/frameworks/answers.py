"""Reads what a plugin in a framework's process has written of the units that exist. Pure.

JSON lines: `{"unit": id, "file": path, "group": name}` a unit, `{"error": place, "message": text}`
for what could not be read, `{"filter": setting}` for what selects cases inside units, and at last
`{"done": true, "rootdir": path, "omitted": {reason: {file: tests}}}`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Iterator

from ciguard.run.frameworks.base import ListedUnit, Listing

if TYPE_CHECKING:
    from ciguard.model import Suite

LAST_LINES: Final = 10


def read_answer(suite: Suite, answer: bytes, printed: bytes, code: int, program: str) -> Listing:
    """The units in the order written; without one closing line an error, never fewer units.

    Args:
        answer: what the plugin wrote.
        printed: what the program printed besides, and `code`, its exit code, for the error.
        program: name of the framework.
    """
    units, errors, filters, ends = [], [], [], []
    for found in _objects(answer):
        if found.get("done"):
            ends.append(found)
        elif "error" in found:
            place = str(found["error"])
            errors.append(": ".join(filter(None, (place, str(found.get("message", ""))))))
        elif "filter" in found:
            filters.append(str(found["filter"]))
        elif "unit" in found:
            units.append(found)
    if len(ends) > 1:
        what = f"{len(ends)} {program} sessions answered one listing"
        fix = f"configure one suite for each call of {program}"
        errors.append(f"{what}: the suite's command must start {program} once; {fix}")
    if not ends:
        last = printed.decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
        output_text = "\n".join(last) or "it printed nothing"
        errors.append(f"collecting ended with exit code {code} and no inventory:\n{output_text}")
    rootdir = str(ends[0].get("rootdir", "")) if ends else ""
    omitted = ends[0].get("omitted", {}) if ends else {}
    return Listing(
        units=tuple(
            ListedUnit(
                unit=str(found["unit"]),
                file=_file(suite, rootdir, str(found.get("file") or "")),
                group=found.get("group"),
            )
            for found in units
        ),
        errors=tuple(errors),
        filters=tuple(sorted(set(filters))),
        omitted={
            reason: {_file(suite, rootdir, file): tests for file, tests in files.items()}
            for reason, files in omitted.items()
        },
    )


def _objects(answer: bytes) -> Iterator[dict[str, Any]]:
    for line in answer.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut: then `done`, which comes last, is missing as well
        if isinstance(found, dict):
            yield found


def _file(suite: Suite, rootdir: str, file: str) -> str:
    """As seen from the repository: a rootdir that ends as the suite's folder is that folder."""
    cwd = suite.cwd.replace("\\", "/").strip("/")
    below = cwd not in ("", ".") and rootdir.replace("\\", "/").endswith("/" + cwd)
    return f"{cwd}/{file}" if below and file else file
