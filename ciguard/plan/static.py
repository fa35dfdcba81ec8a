"""A plan that is kept in the repository: its matrix as YAML in a workflow. Pure.

For suites that no job shall plan anew: the workflow has the matrix, and `.ciguard/` the plan and
the program of the legs. Units that are newer than the plan run all the same (run/unplanned.py).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

STATIC_FOLDER: Final = ".ciguard"
BEGIN: Final = "# ciguard plan --static: begin"
END: Final = "# ciguard plan --static: end"


def read_workflow(content: bytes, where: str) -> str:
    """The text of a workflow that has a place for a matrix.

    Raises:
        InputError: it is no UTF-8, or `fill_matrix` cannot fill it in.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"no UTF-8: {error.reason} at byte {error.start}"
        raise InputError(what, where=where, fix="save it as UTF-8") from error
    fill_matrix(text, {"include": []}, where)
    return text


def fill_matrix(text: str, matrix: Mapping[str, Any], where: str) -> str:
    """The workflow with this matrix between its two marks, indented and ended as the first one is.

    Raises:
        InputError: the marks are not there, or more than once.
    """
    lines = text.splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [number for number, line in enumerate(lines) if line.strip() == END]
    if len(begins) != 1 or len(ends) != 1 or begins > ends:
        fix = f"put the lines {BEGIN!r} and {END!r} below `strategy:`, or `ciguard init --static`"
        raise InputError("has no place for a matrix", where=where, fix=fix)
    first = lines[begins[0]]
    indent = first[: len(first) - len(first.lstrip())]
    end = "\r\n" if first.endswith("\r\n") else "\n"
    entries = [json.dumps(entry) for entry in matrix["include"]]  # JSON is YAML
    written = [f"{indent}matrix:{end}", f"{indent}  include:{end}"]
    written += [f"{indent}    - {entry}{end}" for entry in entries]
    return "".join([*lines[: begins[0] + 1], *written, *lines[ends[0] :]])
