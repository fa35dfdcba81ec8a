"""The tests that a pull request adds or changes, which its shards repeat. Pure.

Python is parsed, never imported: `ast` compares the functions of two versions of a file.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from posixpath import dirname
from typing import Final

from ciguard.git.checkout import ChangedFile
from ciguard.model import CaseKey, repository_path
from ciguard.plan.problem import PlanInputs

# All tests of a larger Python file, or of each file of a larger change, count as changed.
MAX_BYTES: Final = 1 << 20
MAX_FILES: Final = 500  # of 10 KiB: parsing takes 6 s


def compare_functions(before: bytes, after: bytes) -> tuple[dict[str, str], dict[str, str]] | None:
    """Return the functions of both versions: contents by name with classes.

    None if a version is too large or does not parse; a hostile one may nest too deeply.
    """
    if max(len(before), len(after)) > MAX_BYTES:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of mistakes in the files
            return _functions(before), _functions(after)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _functions(source: bytes) -> dict[str, str]:
    """Return each function without its name and decorators: other parameters are other tests."""
    functions = {}
    nodes: list[tuple[str, ast.AST]] = [("", ast.parse(source))]
    for prefix, node in nodes:  # grows; a recursion could be too deep
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name, node.name, node.decorator_list = f"{prefix}{node.name}", "", []
            functions[name] = ast.dump(node)
        elif isinstance(node, ast.Module | ast.stmt | ast.excepthandler | ast.match_case):
            inner = f"{prefix}{node.name}::" if isinstance(node, ast.ClassDef) else prefix
            nodes += ((inner, child) for child in ast.iter_child_nodes(node))
    return functions


@dataclass(frozen=True, slots=True)
class Diff:
    """The changed files by path, `compare_functions` of Python files, and removed functions."""

    files: Mapping[str, ChangedFile]
    functions: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]
    removed: frozenset[str]

    def change(self, path: str, unit: str, *, on_base: bool) -> str:
        """Return the change of a unit of a changed file; a moved or renamed test has none."""
        file, name = self.files[path], unit.partition("::")[2].partition("[")[0]
        if path not in self.functions:
            is_new = not (on_base or file.renamed_from)
            return "new" if is_new else "changed" if file.blob != file.old_blob else ""
        before, after = (functions.get(name) for functions in self.functions[path])
        if after and not before:
            return "" if after in self.removed else "changed" if on_base else "new"
        if not (on_base or file.renamed_from):
            return "new"  # of a function that exists: with other parameters, or inherited
        return "changed" if after and after != before else ""


def read_diff(
    files: Sequence[ChangedFile],
    test_files: Collection[str],
    read: Callable[[Sequence[str]], Mapping[str, bytes]],
) -> Diff:
    """Compare the functions of the Python test files and of deleted Python files.

    A folder with a changed test file counts as a changed file: it is the file of some units.

    Args:
        read: returns contents by id, and none for "".
    """
    tests = [file for file in files if file.path in test_files]
    gone = [file for file in files if not file.blob]
    python = [file for file in (*tests, *gone) if file.path.endswith(".py")]
    python = python if len(python) <= MAX_FILES else []
    contents = read([blob for file in python for blob in (file.old_blob, file.blob)])
    functions = {}
    for file in python:
        compared = compare_functions(contents[file.old_blob], contents[file.blob])
        if compared is not None:
            functions[file.path] = compared
    removed = (old[name] for old, new in functions.values() for name in old.keys() - new.keys())
    tests.sort(key=lambda file: file.blob != file.old_blob)  # the last file of a folder counts
    by_path = {dirname(file.path) or ".": file for file in tests}
    by_path.update((file.path, file) for file in files if file.blob)
    return Diff(by_path, functions, frozenset(removed))


def mark_units(
    inputs: PlanInputs, known: Sequence[CaseKey], diff: Diff | None, at_most: int
) -> tuple[tuple[str, ...], int]:
    """Return the change of each unit, as in `PlannedUnit`, and how many more may have one.

    Too many changes, a negative number: new units count first, the shortest of them first.

    Args:
        known: of the kept runs. Units of other suites are not marked, nor those that a leg cannot
            repeat: of scripts and of result files.
        diff: None if not known.
    """
    inventory, estimates = inputs.inventory, inputs.estimates
    walls_s, has_history = estimates.wall_s.tolist(), estimates.has_history.tolist()
    path_of = cache(partial(repository_path, inputs.suites))
    units, found = {key[:3:2] for key in known}, []
    suites = {
        name
        for name in {key.suite for key in known} & inputs.suites.keys()
        if not (inputs.suites[name].is_script or inputs.suites[name].results)
    }
    for position, (key, file) in enumerate(zip(inventory.keys, inventory.file_names, strict=True)):
        path = file if file in inventory.folders else path_of(key.suite, file)
        # The history may have another program's name of the unit.
        on_base = has_history[position] or key[::2] in units
        if diff is not None and path in diff.files:
            change = diff.change(path, key.unit, on_base=on_base)
        else:  # a unit of another file is of another change, merged since the base's last run
            change = "new" if not on_base and (diff is None or not path) else ""
        if change and key.suite in suites:
            found.append((change != "new", walls_s[position], position, change))
    changes = [""] * len(inventory.keys)
    for *_, position, change in sorted(found)[:at_most]:
        changes[position] = change
    return tuple(changes), at_most - len(found)
